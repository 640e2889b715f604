"""Common code of the built-in preprocessors: arguments kept by name, columns in and out of Tables,
aggregates that count.

A class says its parameters by annotations (`columns: list[str]`): each is kept as `_columns`, and
read as `columns`. It works on pyarrow Tables and gives back one row for each row.
"""

from __future__ import annotations

import inspect
import operator
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from skate._deps import np, pa, pc
from skate._deps import pa_types as _T
from skate.data.aggregate import AggregateFn, AggregateFnV2
from skate.data.by_key.group_keys import plain
from skate.data.datatype import is_list
from skate.data.preprocessor import SerializablePreprocessorBase, as_table, is_frame, one_batch
from skate.data.preprocessors.utils import StatComputationPlan
from skate.data.run import errors
from skate.data.util.data_batch_conversion import BatchFormat
from skate.data.values import batch, frames, tensor_types, to_arrow
from skate.data.values.unify import MissingColumn, columns_are

if TYPE_CHECKING:
    from skate.data.dataset import Dataset


class Builtin(SerializablePreprocessorBase):
    """The base class of the preprocessors of skate.data.preprocessors. A subclass defines
    `_transform_arrow`, and `_ask` if it learns from the data."""

    def __init_subclass__(cls) -> None:
        for name in inspect.get_annotations(cls):
            if not name.startswith("_") and not name.endswith("_"):
                setattr(cls, name, property(operator.attrgetter(f"_{name}")))
        errors.methods(cls)

    @classmethod
    def _fields(cls) -> list[str]:
        """The names of the class's parameters (its annotated attributes)."""
        names = {
            n: None
            for c in reversed(cls.__mro__)
            if issubclass(c, Builtin)
            for n in inspect.get_annotations(c)
        }
        return [n for n in names if isinstance(getattr(cls, n, None), property)]

    def _keep(self, **given: Any) -> None:
        """Keeps the arguments of the constructor. TypeError or ValueError if columns and
        output_columns name no columns or do not match in number."""
        who = type(self).__name__
        for name in ("columns", "output_columns"):
            if name in given and not (name == "output_columns" and not given[name]):
                given[name] = _names(given[name], f"{who}: {name}")
        if "output_columns" in given:
            columns, out = given["columns"], given["output_columns"] or given["columns"]
            if len(out) != len(columns):
                raise ValueError(
                    f"{who}: columns has {len(columns)} names and output_columns {len(out)}; give one name for each of {columns}"
                )
            if len(set(out)) != len(out):
                raise ValueError(
                    f"{who}: two columns of the result would have one name: {out}; give output_columns, each another name"
                )
            given["output_columns"] = out
        for name, value in given.items():
            setattr(self, f"_{name}", value)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restores a state. States written by older Rays may use other names of parameters, or lack
        one that has a default."""
        vars(self).update({f"_{k}" if k in self._fields() else k: v for k, v in state.items()})
        if not all(hasattr(self, f"_{name}") for name in self._fields()):
            known = {n: getattr(self, f"_{n}") for n in self._fields() if hasattr(self, f"_{n}")}
            try:
                fresh = type(self)(**known)
            except TypeError as e:
                raise ValueError(
                    f"the serialized {type(self).__name__} lacks a field: {e}"
                ) from None
            vars(self).update({k: v for k, v in vars(fresh).items() if k not in self.__dict__})

    def _get_serializable_fields(self) -> dict[str, Any]:
        fields = {n: self.__dict__[f"_{n}"] for n in self._fields() if f"_{n}" in self.__dict__}
        return {**fields, "_fitted": self._fitted} if self._is_fittable else fields

    def _set_serializable_fields(self, fields: dict[str, Any], version: int) -> None:
        self.__setstate__(fields)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{n}={_shown(getattr(self, n))}' for n in self._fields())})"

    def _ask(self, plan: StatComputationPlan) -> None:
        """Adds the aggregates from which the preprocessor learns to the plan of fit()."""
        raise NotImplementedError

    def _fit(self, ds: Dataset) -> Builtin:
        self._ask(self.stat_computation_plan)
        return self

    def _changes(self) -> set[str]:
        """The columns that transform() changes, adds or drops."""
        return set(self.get_output_columns())

    def _needs(self) -> list[str]:
        """The columns that the preprocessor needs in its input."""
        return self.get_input_columns()

    def _determine_transform_to_use(self) -> BatchFormat:
        return BatchFormat.ARROW

    def _get_transform_config(self) -> dict[str, Any]:
        return {"udf_modifying_row_count": False}

    def _transform(self, ds: Dataset, *args: Any, **kwargs: Any) -> Any:
        ds._check_columns(self._needs(), type(self).__name__)
        return super()._transform(ds, *args, **kwargs)

    def _transform_batch(self, data: Any) -> Any:
        who = f"{type(self).__name__}.transform_batch"
        if not is_frame(data):
            made = self._transform_arrow(as_table(data, who))
            return (
                batch.to_batch(one_batch(made), "numpy")
                if isinstance(data, Mapping | np.ndarray)
                else made
            )
        reads = [c for c in dict.fromkeys(self.get_input_columns()) if c in data.columns] or list(
            data.columns[:1]
        )
        made = self._transform_arrow(as_table(data[reads].reset_index(drop=True), who))
        out = data.drop(columns=[c for c in reads if c not in made.column_names]).copy(deep=False)
        new = frames.table_to_pandas(_without_masks(made.select(self.get_output_columns())))
        new.index = out.index
        for name in new.columns:
            out[name] = new[name]
        return out


class ByColumn(Builtin):
    """Makes one column from each column; a subclass defines `_made`."""

    columns: list[str]
    output_columns: list[str]

    def _transform_arrow(self, table: Any) -> Any:
        pairs = zip(self.get_input_columns(), self.get_output_columns(), strict=True)
        made = {
            out: self._made(name, column(table, name, self)) for name, out in pairs
        }  # all are computed before one is set: an output may have the name of an input
        return with_columns(table, made)

    def _made(self, name: str, col: Any) -> Any:
        """Computes the new column (an Arrow array with the same number of rows).

        Args:
            name: Name of the input column.
            col: The input column, without dictionaries.
        """
        raise NotImplementedError


def _names(columns: Any, what: str) -> list[str]:
    if isinstance(columns, str) or not hasattr(columns, "__iter__"):
        raise TypeError(f"{what} is a list of names of columns, not {columns!r}")
    names = list(columns)
    if not names or not all(isinstance(n, str) for n in names):
        raise ValueError(f"{what} is a list of at least one name of a column, not {names!r}")
    return names


def _shown(v: Any) -> str:
    return v.__name__ if callable(v) and hasattr(v, "__name__") else repr(v)


def _without_masks(table: Any) -> Any:
    """Numbers with null as floats with NaN, as in a DataFrame with NumPy's dtypes."""
    for i, f in enumerate(table.schema):
        if table.column(i).null_count and (_T.is_integer(f.type) or _T.is_floating(f.type)):
            t = f.type if _T.is_floating(f.type) else pa.float64()
            table = table.set_column(
                i, f.name, pc.fill_null(table.column(i).cast(t), pa.scalar(float("nan"), t))
            )
    return table


# ---- Conversions of columns.


def column(table: Any, name: str, who: Any, decoded: bool = True) -> Any:
    """A column as one array; MissingColumn (a KeyError and a ValueError) if it does not exist.
    decoded: dictionaries are replaced by plain values."""
    if name not in table.column_names:
        raise MissingColumn(
            f"{type(who).__name__}: there is no column {name!r}; {columns_are(name, table.column_names)}"
        )
    col = to_arrow.one_array(table.column(name))
    return plain(col) if decoded else col


def with_columns(table: Any, made: dict[str, Any]) -> Any:
    """The table with these columns, which replace columns of the same names or are appended. The
    table's record of pandas' dtypes is dropped."""
    for name, col in made.items():
        i = table.schema.get_field_index(name)
        table = table.append_column(name, col) if i < 0 else table.set_column(i, name, col)
    return table.replace_schema_metadata(
        {k: v for k, v in (table.schema.metadata or {}).items() if k != b"pandas"}
    )


def is_number(t: pa.DataType) -> bool:
    """Whether the type is of numbers or booleans, or all values are missing."""
    return (
        _T.is_integer(t)
        or _T.is_floating(t)
        or _T.is_boolean(t)
        or _T.is_decimal(t)
        or _T.is_null(t)
    )


def not_numbers(who: str, name: str | None, t: Any) -> TypeError:
    return TypeError(
        f"{who}: column {name!r} is of type {t}, not of numbers; leave it out of columns, or cast or encode it first"
    )


def floats(name: str, col: Any, who: Any) -> Any:
    """A column of numbers as float64, with null unchanged; TypeError for other types."""
    if not is_number(col.type):
        raise not_numbers(type(who).__name__, name, col.type)
    return (col.cast(pa.int8()) if _T.is_boolean(col.type) else col).cast(pa.float64(), safe=False)


def as_numpy(col: Any) -> tuple[Any, Any]:
    """(float64 values with NaN for null, which values are null; None: none is) of a column from
    floats()."""
    null = col.is_null().to_numpy(zero_copy_only=False) if col.null_count else None
    return col.to_numpy(zero_copy_only=False), null


def lists_of(col: Any) -> Any:
    """A column of lists in any layout, or of vectors of one length, as a column of (large) lists.
    None: it is of another kind."""
    t = col.type
    if tensor_types.is_fixed(t) and len(t.shape) == 1:
        col = col.storage
    if _T.is_list(col.type) or _T.is_large_list(col.type):
        return col
    return col.cast(pa.list_(col.type.value_type)) if is_list(col.type) else None


def vectors(values: Any, missing: Any = None) -> Any:
    """A column of vectors of one length.

    Args:
        values: A NumPy array of the shape (rows, length).
        missing: Which rows are null, as bools; None: none.
    """
    col: Any = to_arrow.array_from_numpy(np.ascontiguousarray(values), None)
    if missing is None or not missing.any():
        return col
    rows = pa.array(np.arange(len(values)), mask=missing)
    return pa.ExtensionArray.from_storage(col.type, col.storage.take(rows))


# ---- Aggregates for fit().


class OfNumbers(AggregateFn):
    """Wraps an aggregate for a column that must hold numbers: TypeError if it holds something
    else."""

    def __init__(self, of: AggregateFnV2, who: Any):
        self.of, self.who = of, type(who).__name__
        super().__init__(
            of.init, of.merge, of.name, accumulate_block=self._counted, finalize=of.finalize
        )

    def columns(self) -> set[str] | None:
        return self.of.columns()

    def _counted(self, state: Any, block: Any) -> Any:
        name = self.of.get_target_column()
        if name in block.column_names:
            t = block.schema.field(name).type
            if not is_number(t.value_type if _T.is_dictionary(t) else t):
                raise not_numbers(self.who, name, t)
        return self.of.accumulate_block(state, block)


def present(col: Any) -> Any:
    """A column without encodings, with null for NaN, in a type that Arrow's kernels support."""
    col = plain(col)
    t = col.type
    if _T.is_decimal(t) and t.bit_width < 128:
        return col.cast(pa.decimal128(t.precision, t.scale))
    if not _T.is_floating(t):
        return col
    col = col.cast(pa.float32()) if _T.is_float16(t) else col
    return pc.if_else(pc.is_nan(col), pa.scalar(None, col.type), col)


class Counts(AggregateFnV2):
    """{value: its count}, in the order of appearance; missing values count as None.

    Args:
        on: Name of the column.
        name: Name of the result.
        values: What is counted: a function from a column to an array of hashable values, or a list
            of such functions.
    """

    def __init__(self, on: str, name: str, values: Callable[[Any], Any]):
        super().__init__(name, dict, on=on, ignore_nulls=True)
        self._of = values

    def aggregate_block(self, block: Any) -> dict[Any, int]:
        try:
            values = self._of(present(to_arrow.one_array(block.column(self.get_target_column()))))
        except TypeError as e:
            raise TypeError(f"{self.name}: {e}") from None
        if isinstance(values, list):
            return dict(Counter(values))
        counts = values.value_counts()
        return self.combine(
            {}, dict(zip(counts.field(0).to_pylist(), counts.field(1).to_pylist(), strict=True))
        )

    def combine(self, current_accumulator: dict[Any, int], new: dict[Any, int]) -> dict[Any, int]:
        for v, n in new.items():
            current_accumulator[v] = current_accumulator.get(v, 0) + n
        return current_accumulator


def elements(col: Any) -> Any:
    """The values of a column; for lists, their elements without missing ones. Used by Counts."""
    inside = lists_of(col)
    if inside is not None:
        return _countable(plain(inside.flatten())).drop_null()
    return _countable(col)


def wholes(col: Any) -> Any:
    """The values of a column, lists as tuples. Used by Counts."""
    inside = lists_of(col)
    return (
        _countable(col)
        if inside is None
        else [v if v is None else tuple(v) for v in inside.to_pylist()]
    )


def _countable(col: Any) -> Any:
    if _T.is_nested(col.type) or isinstance(col.type, pa.BaseExtensionType):
        raise TypeError(
            f"values of type {col.type} are no categories; make text or numbers of them first"
        )
    return col


def most_common(counts: dict[Any, int], n: int | None) -> dict[Any, int]:
    """The n most frequent values, the most frequent first; of equally frequent values, the one that
    came first. None: all values."""
    return dict(Counter(counts).most_common(n))
