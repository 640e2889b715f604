"""Encoders: turn categories into numbers or vectors. fit() learns the number of a category: its
place among all categories, sorted.

A missing value is no category: fit() and transform() raise ValueError for a column that has one
(Categorizer keeps it missing). A category that fit() has not seen becomes missing, or a vector of
zeros. `stats_`: unique_values(c) for each column c, {category: number}; a list that is one category
is a tuple there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from skate._deps import np, pa, pc, pd
from skate.data.preprocessors.base import (
    Builtin,
    ByColumn,
    Counts,
    column,
    elements,
    is_number,
    lists_of,
    most_common,
    vectors,
    wholes,
    with_columns,
)
from skate.data.preprocessors.utils import StatComputationPlan
from skate.data.preprocessors.version_support import OURS, SerializablePreprocessor

if TYPE_CHECKING:
    from skate.data.dataset import Dataset


def _numbered(
    counts: dict[Any, int] | None,
    who: str,
    name: str,
    most: int | None = None,
    missing_ok: bool = False,
) -> dict[Any, int]:
    """{category: its place in sorted order}, of the most frequent ones; ValueError for a missing
    value, TypeError if the values have no order."""
    counts = dict(counts or {})
    if counts.pop(None, 0) and not missing_ok:
        raise ValueError(
            f"{who}: column {name!r} has missing values, which are no category; fill them first (SimpleImputer), or drop those rows"
        )
    try:
        return {v: i for i, v in enumerate(sorted(most_common(counts, most)))}
    except TypeError as e:
        raise TypeError(f"{who}: the values of column {name!r} have no order: {e}") from None


def _check_no_null(name: str, col: Any, who: Any) -> None:
    if pc.any(pc.is_null(col, nan_is_null=pa.types.is_floating(col.type))).as_py():
        raise ValueError(
            f"{type(who).__name__}: column {name!r} has missing values, which are no category; fill them first (SimpleImputer), or drop those rows"
        )


def _codes(name: str, col: Any, numbers: Mapping[Any, int], who: Any) -> Any:
    """The number of each value, null for a value without one; a list is one value. TypeError if the
    types of values and of categories cannot be compared."""
    inside = lists_of(col)
    if inside is not None:
        return pa.array(
            [None if v is None else numbers.get(tuple(v)) for v in inside.to_pylist()], pa.int64()
        )
    if pa.types.is_null(col.type) or not numbers:
        return pa.nulls(len(col), pa.int64())
    keys = pa.array(list(numbers))
    try:
        if is_number(col.type) != is_number(keys.type):
            raise TypeError  # Arrow would convert numbers to text
        try:
            keys = keys.cast(col.type)
        # the column's type cannot hold some categories: 1.5 in a column of ints
        except pa.ArrowInvalid:
            col = col.cast(keys.type)
        at = pc.index_in(col, value_set=keys)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError):
        raise TypeError(
            f"{type(who).__name__}: column {name!r} is of type {col.type}, and what fit() has seen of type {keys.type}"
        ) from None
    return pa.array(list(numbers.values()), pa.int64()).take(at)


class _Encoder(Builtin):
    """The base of encoders that number categories."""

    def _categories(
        self,
        plan: StatComputationPlan,
        names: list[str],
        values: Callable[[Any], Any],
        most: Mapping[str, int] | None = None,
    ) -> None:
        """Adds the aggregates that find the categories of columns.

        Args:
            names: The columns.
            values: The argument of Counts.
            most: {column: maximum number of categories}.
        """
        for name in names:
            then = functools.partial(
                _numbered, who=type(self).__name__, name=name, most=(most or {}).get(name)
            )
            plan.add(Counts(name, f"unique_values({name})", values), then)

    def _numbers(self, name: str) -> dict[Any, int]:
        return self.stats_[f"unique_values({name})"]


@SerializablePreprocessor(version=1, identifier=OURS + "ordinal_encoder")
class OrdinalEncoder(_Encoder, ByColumn):
    """The number of each category, as int64; null for a category that was not seen.

    Args:
        columns: Names of columns of categories, or of lists of categories.
        encode_lists: True: the elements of lists are the categories, and the result has lists of
            numbers; False: each list is one category.
        output_columns: Names of the results, one for each column; None: the columns are replaced.

    Example:
        >>> import skate
        >>> from skate.data.preprocessors import OrdinalEncoder
        >>> ds = skate.data.from_items([{"size": "S"}, {"size": "L"}])
        >>> OrdinalEncoder(["size"]).fit_transform(ds).take_all()
        [{'size': 1}, {'size': 0}]
    """

    encode_lists: bool

    def __init__(
        self,
        columns: list[str],
        *,
        encode_lists: bool = True,
        output_columns: list[str] | None = None,
    ):
        super().__init__()
        self._keep(columns=columns, encode_lists=encode_lists, output_columns=output_columns)

    def _ask(self, plan: StatComputationPlan) -> None:
        self._categories(plan, self.columns, elements if self.encode_lists else wholes)

    def _made(self, name: str, col: Any) -> Any:
        _check_no_null(name, col, self)
        inside = lists_of(col) if self.encode_lists else None
        if inside is None:
            return _codes(name, col, self._numbers(name), self)
        ends = np.concatenate(([0], np.cumsum(inside.value_lengths().to_numpy())))
        return pa.ListArray.from_arrays(
            pa.array(ends, pa.int32()), _codes(name, inside.flatten(), self._numbers(name), self)
        )


class _Hot(_Encoder, ByColumn):
    """The base of encoders that make vectors, with a place for each category."""

    max_categories: dict[str, int]

    def __init__(
        self,
        columns: list[str],
        *,
        max_categories: dict[str, int] | None = None,
        output_columns: list[str] | None = None,
    ):
        super().__init__()
        self._keep(
            columns=columns, max_categories=max_categories or {}, output_columns=output_columns
        )
        for name, n in self.max_categories.items():
            if name not in self.columns or not isinstance(n, int) or n < 1:
                raise ValueError(
                    f"{type(self).__name__}: max_categories={{{name!r}: {n!r}}}: it says of columns ({self.columns}) how many categories, at least 1"
                )


@SerializablePreprocessor(version=1, identifier=OURS + "one_hot_encoder")
class OneHotEncoder(_Hot):
    """A vector of uint8 with 1 at the number of the category; all 0 for a category that was not
    seen or has no place. A list is one category.

    Args:
        columns: Names of columns of categories.
        max_categories: {column: n}: only the n most frequent categories have a place (of equally
            frequent ones, those that came first); in other columns all have one.
        output_columns: Names of the results, one for each column; None: the columns are replaced.
    """

    def _ask(self, plan: StatComputationPlan) -> None:
        self._categories(plan, self.columns, wholes, self.max_categories)

    def _made(self, name: str, col: Any) -> Any:
        _check_no_null(name, col, self)
        numbers = self._numbers(name)
        codes = _codes(name, col, numbers, self).fill_null(-1).to_numpy(zero_copy_only=False)
        hot = np.zeros((len(col), len(numbers)), np.uint8)
        seen = np.flatnonzero(codes >= 0)
        hot[seen, codes[seen]] = 1
        return vectors(hot)


@SerializablePreprocessor(version=1, identifier=OURS + "multi_hot_encoder")
class MultiHotEncoder(_Hot):
    """A vector of int64 with the count of each category in a list; categories without a place are
    left out. A value that is no list counts as a list of one.

    Args:
        columns: Names of columns of lists of categories, or of categories.
        max_categories: {column: n}: only the n most frequent categories have a place (of equally
            frequent ones, those that came first); in other columns all have one.
        output_columns: Names of the results, one for each column; None: the columns are replaced.
    """

    def _ask(self, plan: StatComputationPlan) -> None:
        self._categories(plan, self.columns, elements, self.max_categories)

    def _made(self, name: str, col: Any) -> Any:
        _check_no_null(name, col, self)
        numbers, inside = self._numbers(name), lists_of(col)
        rows = np.arange(len(col)) if inside is None else pc.list_parent_indices(inside).to_numpy()
        codes = _codes(name, col if inside is None else inside.flatten(), numbers, self)
        return vectors(counted(rows, codes, len(col), len(numbers)))


def counted(rows: Any, codes: Any, n: int, length: int) -> Any:
    """An (n, length) array of int64 with the count of each number in each row.

    Args:
        rows: A NumPy array with the row of each code.
        codes: An Arrow array of numbers; null is left out.
        n: Number of rows.
        length: Number of different numbers.
    """
    codes = codes.fill_null(-1).to_numpy(zero_copy_only=False)
    seen = codes >= 0
    return np.bincount(
        rows[seen].astype(np.int64) * length + codes[seen], minlength=n * length
    ).reshape(n, length)


@SerializablePreprocessor(version=1, identifier=OURS + "label_encoder")
class LabelEncoder(_Encoder, ByColumn):
    """The number of each label, as int64; null for a label that was not seen.

    Args:
        label_column: The name of the column of labels.
        output_column: The name of the result; None: the column is replaced.
    """

    label_column: str
    output_column: str

    def __init__(self, label_column: str, *, output_column: str | None = None):
        super().__init__()
        if not isinstance(label_column, str):
            raise TypeError(
                f"LabelEncoder: label_column is the name of one column, not {label_column!r}"
            )
        self._keep(label_column=label_column, output_column=output_column or label_column)

    @classmethod
    def _fields(cls) -> list[str]:
        return ["label_column", "output_column"]

    def get_input_columns(self) -> list[str]:
        return [self.label_column]

    def get_output_columns(self) -> list[str]:
        return [self.output_column]

    def _ask(self, plan: StatComputationPlan) -> None:
        self._categories(plan, [self.label_column], wholes)

    def _made(self, name: str, col: Any) -> Any:
        _check_no_null(name, col, self)
        return _codes(name, col, self._numbers(name), self)

    def inverse_transform(self, ds: Dataset) -> Any:
        """The Dataset with labels in the label column, from the numbers in the output column; null
        for a number without a label.

        Args:
            ds: A Dataset.

        Raises:
            PreprocessorNotFittedException: fit() was not called.
        """
        self._check_dataset(ds, "inverse_transform")
        self._check_fitted("inverse_transform")
        return ds.map_batches(self._labels, batch_format="pyarrow", **self._get_transform_config())

    def _labels(self, table: Any) -> Any:
        col, numbers = column(table, self.output_column, self), self._numbers(self.label_column)
        at = pc.index_in(
            col.cast(pa.float64()), value_set=pa.array(list(numbers.values()), pa.float64())
        )
        return with_columns(table, {self.label_column: pa.array(list(numbers)).take(at)})


@SerializablePreprocessor(version=1, identifier=OURS + "categorizer")
class Categorizer(_Encoder, ByColumn):
    """Converts columns to pandas' categories (pd.Categorical; Arrow's dictionaries). A missing
    value, and a value that was not seen, is missing. `stats_`: {column: pd.CategoricalDtype}.

    Args:
        columns: Names of columns of categories.
        dtypes: {column: pd.CategoricalDtype} for columns whose categories are known; those of the
            others are learned.
        output_columns: Names of the results, one for each column; None: the columns are replaced.
    """

    dtypes: dict[str, pd.CategoricalDtype]

    def __init__(
        self,
        columns: list[str],
        dtypes: dict[str, pd.CategoricalDtype] | None = None,
        output_columns: list[str] | None = None,
    ):
        super().__init__()
        for name, dtype in (dtypes or {}).items():
            if not isinstance(dtype, pd.CategoricalDtype) or dtype.categories is None:
                raise TypeError(
                    f"Categorizer: dtypes[{name!r}] is a pd.CategoricalDtype with categories, not {dtype!r}"
                )
        self._keep(columns=columns, dtypes=dtypes or {}, output_columns=output_columns)

    def _ask(self, plan: StatComputationPlan) -> None:
        for name in self.columns:
            if name not in self.dtypes:
                numbered = functools.partial(
                    _numbered, who="Categorizer", name=name, missing_ok=True
                )
                plan.add(
                    Counts(name, name, wholes),
                    lambda counts, numbered=numbered: pd.CategoricalDtype(list(numbered(counts))),
                )

    def _take(self, found: dict[str, Any]) -> None:
        self.stats_ = {**self.dtypes, **found}

    def _made(self, name: str, col: Any) -> Any:
        dtype = self.stats_[name]
        values = dtype.categories.tolist()
        codes = _codes(name, col, {v: i for i, v in enumerate(values)}, self)
        return pa.DictionaryArray.from_arrays(
            codes.cast(pa.int32()),
            pa.array(values, None if values else col.type),
            ordered=bool(dtype.ordered),
        )

    def _get_serializable_fields(self) -> dict[str, Any]:
        dtypes = {
            name: {"categories": list(d.categories), "ordered": d.ordered}
            for name, d in self.dtypes.items()
        }
        return {**super()._get_serializable_fields(), "dtypes": dtypes or None}

    def _set_serializable_fields(self, fields: dict[str, Any], version: int) -> None:
        dtypes = {
            name: pd.CategoricalDtype(d["categories"], d["ordered"])
            for name, d in (fields.get("dtypes") or {}).items()
        }
        super()._set_serializable_fields({**fields, "dtypes": dtypes}, version)
