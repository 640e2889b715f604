"""SimpleImputer: replaces missing values."""

from __future__ import annotations

from typing import Any

from skate._deps import pa, pc
from skate.data.aggregate import Mean
from skate.data.preprocessors.base import (
    ByColumn,
    Counts,
    OfNumbers,
    column,
    floats,
    is_number,
    most_common,
    present,
    wholes,
    with_columns,
)
from skate.data.preprocessors.utils import StatComputationPlan
from skate.data.preprocessors.version_support import OURS, SerializablePreprocessor

_STRATEGIES = ("mean", "most_frequent", "constant")


def _most_frequent(counts: dict[Any, int] | None) -> Any:
    return next(
        iter(most_common({v: n for v, n in (counts or {}).items() if v is not None}, 1)), None
    )


@SerializablePreprocessor(version=1, identifier=OURS + "simple_imputer")
class SimpleImputer(ByColumn):
    """Replaces null and NaN of each column by one value; a missing column is filled with it. A
    column keeps its type if that can hold the value; integers become float64 for a mean that is no
    integer. `stats_`: mean(c) or most_frequent(c) for each column c.

    Args:
        columns: Names of columns.
        strategy: "mean" (of numbers), "most_frequent" (of equally frequent values, the one that
            came first) or "constant".
        fill_value: The constant.
        output_columns: Names of the results, one for each column; None: the columns are replaced.

    Raises:
        ValueError: strategy is another one, or "constant" without fill_value; or, when it is used,
            fit() has seen no value of a column.
    """

    strategy: str
    fill_value: Any

    def __init__(
        self,
        columns: list[str],
        strategy: str = "mean",
        fill_value: Any = None,
        *,
        output_columns: list[str] | None = None,
    ):
        super().__init__()
        if strategy not in _STRATEGIES:
            raise ValueError(
                f"SimpleImputer: strategy={strategy!r}: it is one of {', '.join(map(repr, _STRATEGIES))}"
            )
        if strategy == "constant" and fill_value is None:
            raise ValueError("SimpleImputer: strategy='constant' needs fill_value")
        self._keep(
            columns=columns, strategy=strategy, fill_value=fill_value, output_columns=output_columns
        )

    @property
    def _is_fittable(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.strategy != "constant"

    def _needs(self) -> list[str]:
        return []

    def _ask(self, plan: StatComputationPlan) -> None:
        for name in self.columns:
            if self.strategy == "mean":
                plan.add(OfNumbers(Mean(name), self))
            else:
                plan.add(Counts(name, f"most_frequent({name})", wholes), _most_frequent)

    def _transform_arrow(self, table: Any) -> Any:
        made = {}
        for name, out in zip(self.columns, self.output_columns, strict=True):
            value = (
                self.fill_value
                if self.strategy == "constant"
                else self.stats_[f"{self.strategy}({name})"]
            )
            if value is None:
                raise ValueError(
                    f"SimpleImputer: fit() has seen no value of column {name!r}, so there is none to fill it with; use strategy='constant', or leave it out"
                )
            there = name in table.column_names
            made[out] = self._filled(
                name,
                column(table, name, self, decoded=False) if there else pa.nulls(table.num_rows),
                value,
            )
        return with_columns(table, made)

    def _filled(self, name: str, col: Any, value: Any) -> Any:
        if pa.types.is_null(col.type):
            return pa.repeat(pa.scalar(value), len(col))
        try:
            if pa.types.is_dictionary(col.type):
                return _in_dictionary(col, value)
            if is_number(col.type) != is_number(pa.scalar(value).type):
                raise pa.ArrowInvalid("Arrow would make text of numbers, and numbers of text")
            if isinstance(value, float) and (
                pa.types.is_boolean(col.type)
                or pa.types.is_integer(col.type)
                and not value.is_integer()
            ):
                col = floats(name, col, self)
            return pc.fill_null(present(col), pa.scalar(value).cast(col.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise TypeError(
                f"SimpleImputer: column {name!r} of type {col.type} cannot hold {value!r}; cast the column, or give a fill_value of its type"
            ) from None


def _in_dictionary(col: Any, value: Any) -> Any:
    """Fills a column of categories, which get one more category if the value is none of them."""
    values = col.dictionary
    at = pc.index_in(pa.scalar(value).cast(values.type), value_set=values).as_py()
    if at is None:
        at, values = len(values), pa.concat_arrays([values, pa.array([value], values.type)])
    return pa.DictionaryArray.from_arrays(
        col.indices.cast(pa.int32()).fill_null(at), values, ordered=col.type.ordered
    )
