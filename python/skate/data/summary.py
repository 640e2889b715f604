"""Dataset.summary(): statistics of each column in one pass over the data."""

from __future__ import annotations

from typing import Any

STATISTIC = "statistic"


class DatasetSummary:
    """The statistics that Dataset.summary() computed. columns: the names; dataset_schema: their Arrow types."""

    STATISTIC_COLUMN = STATISTIC

    def __init__(self, schema: Any, columns: list[str], values: dict[str, dict[str, Any]]):
        self.dataset_schema, self.columns, self._values = schema, columns, values

    def to_pandas(self) -> Any:
        """A DataFrame with one row a statistic and one column a column; missing where a column has no such statistic."""
        import pandas as pd

        names = sorted({s for v in self._values.values() for s in v})
        return pd.DataFrame({STATISTIC: names, **{c: [self._values[c].get(s) for s in names] for c in self.columns}})

    def get_column_stats(self, column: str) -> Any:
        """A DataFrame of one column's statistics: "statistic", "value". ValueError for a column that was not asked for."""
        import pandas as pd

        if column not in self._values:
            raise ValueError(f"Column '{column}' not found in summary tables")
        stats = dict(sorted(self._values[column].items()))
        return pd.DataFrame({STATISTIC: list(stats), "value": pd.Series(list(stats.values()), dtype=object)})

    def __repr__(self) -> str:
        return repr(self.to_pandas())


def numerical(column: str) -> list[Any]:
    """Of numbers."""
    from skate.data.aggregate import ApproximateQuantile, Count, Max, Mean, Min, MissingValuePercentage, Std, ZeroPercentage

    return [
        Count(column),
        Mean(column),
        Min(column),
        Max(column),
        Std(column, ddof=0),
        ApproximateQuantile(column, quantiles=[0.5]),
        MissingValuePercentage(column),
        ZeroPercentage(column),
    ]


def temporal(column: str) -> list[Any]:
    """Of dates and times."""
    from skate.data.aggregate import Count, Max, Min, MissingValuePercentage

    return [Count(column), Min(column), Max(column), MissingValuePercentage(column)]


def basic(column: str) -> list[Any]:
    """Of everything else."""
    from skate.data.aggregate import ApproximateTopK, Count, MissingValuePercentage

    return [Count(column), MissingValuePercentage(column), ApproximateTopK(column, k=10)]


def summarize(ds: Any, columns: list[str] | None, mapping: dict[Any, Any] | None) -> DatasetSummary:
    """See Dataset.summary."""
    import pyarrow as pa

    from skate.data.datatype import DataType

    schema = ds.schema()
    if schema is None:
        raise ValueError("Dataset must have a schema to determine column types")
    columns = list(columns) if columns is not None else schema.names
    missing = [c for c in columns if c not in schema.names]
    if missing:
        raise ValueError(f"Columns {set(missing)} not found in dataset schema; they are {', '.join(schema.names)}")
    aggs = []
    for c in columns:
        t = DataType(schema.arrow.field(c).type)
        own = next((f for k, f in (mapping or {}).items() if (k == t if isinstance(k, DataType) else t.is_of(k))), None)
        null = pa.types.is_null(t.to_arrow_dtype())
        aggs += [
            (c, a)
            for a in (own or (numerical if t.is_numerical_type() or null else temporal if t.is_temporal_type() else basic))(c)
            if own or not null or a.get_agg_name() == "count"
        ]
    out = ds.aggregate(*[a for _, a in aggs]) if aggs else {}
    values: dict[str, dict[str, Any]] = {c: {} for c in columns}
    for c, a in aggs:
        v = (out or {}).get(a.name)
        if isinstance(v, list):
            values[c].update({f"{a.get_agg_name()}[{i}]": x for i, x in enumerate(v)})
        else:
            values[c][a.get_agg_name()] = v
    return DatasetSummary(schema.arrow, columns, values)
