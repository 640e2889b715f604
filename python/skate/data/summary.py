"""Dataset.summary(): statistics of each column in one pass over the data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from skate._deps import pa, pd
from skate.data import aggregate, datatype
from skate.data.values.unify import columns_are

STATISTIC = "statistic"


class DatasetSummary:
    """The statistics that Dataset.summary() computed. columns: the names; dataset_schema: their
    Arrow types.

    Args:
        schema: The Arrow schema of the columns.
        columns: Names of the columns.
        values: {column: {statistic: value}}.
    """

    STATISTIC_COLUMN = STATISTIC

    def __init__(self, schema: Any, columns: list[str], values: dict[str, dict[str, Any]]):
        self.dataset_schema, self.columns, self._values = schema, columns, values

    def to_pandas(self) -> pd.DataFrame:
        """A DataFrame with one row per statistic and one column per column of the Dataset; a
        statistic that a column does not have is missing."""
        names = sorted({s for v in self._values.values() for s in v})
        return pd.DataFrame(
            {STATISTIC: names, **{c: [self._values[c].get(s) for s in names] for c in self.columns}}
        )

    def get_column_stats(self, column: str) -> pd.DataFrame:
        """A DataFrame with the statistics of one column, in the columns "statistic" and "value".
        ValueError for a column that was not requested.

        Args:
            column: Name of the column.
        """
        if column not in self._values:
            raise ValueError(
                f"summary: no column {column!r}; there are {', '.join(map(str, self._values))}"
            )
        stats = dict(sorted(self._values[column].items()))
        return pd.DataFrame(
            {STATISTIC: list(stats), "value": pd.Series(list(stats.values()), dtype=object)}
        )

    def __repr__(self) -> str:
        return repr(self.to_pandas())


def numerical(column: str) -> list[Any]:
    """The aggregates for numbers."""
    return [
        aggregate.Count(column, ignore_nulls=False),
        aggregate.Mean(column),
        aggregate.Min(column),
        aggregate.Max(column),
        aggregate.Std(column, ddof=0),
        aggregate.ApproximateQuantile(column, quantiles=[0.5]),
        aggregate.MissingValuePercentage(column),
        aggregate.ZeroPercentage(column),
    ]


def temporal(column: str) -> list[Any]:
    """The aggregates for dates and times."""
    return [
        aggregate.Count(column, ignore_nulls=False),
        aggregate.Min(column),
        aggregate.Max(column),
        aggregate.MissingValuePercentage(column),
    ]


def basic(column: str) -> list[Any]:
    """The aggregates for all other types."""
    return [
        aggregate.Count(column, ignore_nulls=False),
        aggregate.MissingValuePercentage(column),
        aggregate.ApproximateTopK(column, k=10),
    ]


def defaults() -> dict[Any, Any]:
    """The aggregates for each type: {DataType or TypeCategory: function from a column's name to a
    list of aggregates}."""
    t = datatype.DataType
    numbers = (
        t.int8,
        t.int16,
        t.int32,
        t.int64,
        t.uint8,
        t.uint16,
        t.uint32,
        t.uint64,
        t.float32,
        t.float64,
        t.bool,
    )
    return {
        **{n(): numerical for n in numbers},
        t.string(): basic,
        t.binary(): basic,
        datatype.TypeCategory.TEMPORAL: temporal,
    }


@dataclass
class Aggregators:
    """The types of the columns as text, and the aggregates for all columns."""

    column_to_dtype: dict[str, str]
    aggregators: list[Any]


def aggregators(
    schema: Any, columns: list[str] | None = None, dtype_agg_mapping: dict[Any, Any] | None = None
) -> Aggregators:
    """The aggregates for the columns of a Schema. ValueError without a schema, and for columns that
    it does not have.

    Args:
        columns: Only these columns.
        dtype_agg_mapping: Overrides entries of defaults().
    """
    if schema is None:
        raise ValueError("summary: the Dataset must have a schema: it has no rows to take one from")
    columns = list(columns) if columns is not None else list[str](schema.names)
    missing = [c for c in columns if c not in schema.names]
    if missing:
        raise ValueError(
            f"Columns {set(missing)} not found in dataset schema; {columns_are(missing[0], schema.names)}"
        )
    mapping = {
        **(dtype_agg_mapping or {}),
        **{k: f for k, f in defaults().items() if k not in (dtype_agg_mapping or {})},
    }
    out = Aggregators({}, [])
    for c in columns:
        t = datatype.DataType(schema.arrow.field(c).type)
        out.column_to_dtype[c] = str(t)
        out.aggregators += next(
            (
                f
                for k, f in mapping.items()
                if (k == t if isinstance(k, datatype.DataType) else t.is_of(k))
            ),
            _other(t),
        )(c)
    return out


def _other(t: Any) -> Any:
    """The aggregates for a column whose type is in no mapping."""
    if pa.types.is_null(t.to_arrow_dtype()):
        return lambda c: [aggregate.Count(c, ignore_nulls=False)]
    return numerical if t.is_numerical_type() else temporal if t.is_temporal_type() else basic


def summarize(
    schema: Any,
    columns: list[str] | None,
    mapping: dict[Any, Any] | None,
    aggregated: Callable[..., dict[str, Any] | None],
) -> DatasetSummary:
    """See Dataset.summary. aggregated: the result of its aggregate()."""
    aggs = aggregators(schema, columns, mapping).aggregators
    columns = list(columns) if columns is not None else list[str](schema.names)
    out = aggregated(*aggs) if aggs else {}
    values: dict[str, dict[str, Any]] = {c: {} for c in columns}
    for a in aggs:
        v, c = (out or {}).get(a.name), a.get_target_column()
        if isinstance(v, list):
            values[c].update({f"{a.get_agg_name()}[{i}]": x for i, x in enumerate(v)})
        else:
            values[c][a.get_agg_name()] = v
    return DatasetSummary(schema.arrow, columns, values)
