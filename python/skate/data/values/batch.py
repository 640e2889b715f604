"""Batches between Arrow and the formats that user functions get: dicts of NumPy arrays, pandas
DataFrames, pyarrow Tables, rows as dicts.

Invariant: a function that returns its input changes nothing: types, values and nulls are the same,
bit by bit; if a format cannot represent a value, the conversion raises an error that names the
column. A missing number never becomes another number.

Arrow type: form in NumPy | form in pandas.

- int, float without nulls: a read-only view (no copy) | the NumPy dtype
- float with nulls: its dtype, NaN for null | masked Float64
- int with nulls: float64, NaN for null; objects, None for null, if an int is beyond 2**53 | masked
  Int64, ...
- bool: an array of bools | bool
- bool with nulls: float64: 1, 0, NaN for null | masked boolean
- date, timestamp, duration: datetime64 or timedelta64 of its unit, NaT for null | objects for a
  date; datetime64[unit, tz], timedelta64
- fixed-shape tensor, fixed-size list: an array (n, *shape), a view | objects: an array for each row
  - with numbers missing in an array: the same, as for numbers with nulls | the same (for lists,
    lists of lists)
  - a null array of floats: (n, *shape), NaN in its place | None in place of the array
  - a null array of ints or bools: objects: an array for each row, None for null | the same
- string, binary, decimal, time: objects, None for null | str, or objects
- list: objects: an array for each row (of objects where numbers do not fit) | for those, lists
  - with numbers missing in a list: such arrays as for numbers with nulls | lists with None
- struct, map, union, ...: objects: dicts, lists | the same
- Python objects: the objects | the same

This holds for every way to a batch: functions, iter_batches, take_batch, to_numpy_refs, collate
functions, and tensors, which are made from these arrays. Rows have None. The dtype of a column
depends only on whether numbers are missing in this batch, as in Ray and pandas; the results of all
batches are unified to one type.

The way back for missing numbers (missing.py). If an array is returned unchanged, also under another
name, the column is the original one. In another array with some of its values (copied, filtered,
calculated), a NaN that stood for a null becomes null, and any other NaN stays NaN. A column of ints
or bools keeps its type if all returned values fit the type (then every NaN becomes null, since the
type has no NaN), else it becomes floats. A function may return a masked array: masked values become
null.

On the way back to Arrow a new column gets its natural type. A returned column with the name of an
input column *keeps its Arrow type if the values can be cast back exactly* (for NumPy, only if it
also has the dtype that was handed out). So these are kept: the zone of a timestamp, a dictionary, a
large string, an int32 of a row, a column that is all None in one batch. An array that was handed
out read-only and is returned itself is not converted at all.

Cost for each batch and column: about 3 us for plain numbers; for strings and bytes about 10 ns a
value if values repeat (they share an object), else 35 ns (py/data/text.c); other objects cost what
Python objects cost. Plain columns are converted between NumPy and Arrow by their buffers and not by
pa.array() and to_numpy(), which import pandas at their first call (0.2 s and 40 MB in each
process).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skate._deps import np, pa
from skate.data.values.encoded_text import plain
from skate.data.values.frames import from_pandas, to_pandas
from skate.data.values.numpy_batch import LATER, NumpyBatch, to_numpy
from skate.data.values.tensor_types import ours
from skate.data.values.to_arrow import (
    array_from_numpy,
    column_before,
    from_objects,
    from_table,
    one_array,
    record_batches,
)
from skate.data.values.unify import check_names

FORMATS = ("default", "numpy", "pandas", "pyarrow")


def to_batch(rb: pa.RecordBatch, fmt: str | None) -> Any:
    """Converts rb to a batch format: "default"/"numpy", "pandas", "pyarrow" (None: pyarrow)."""
    if fmt == "numpy" or fmt == "default":
        return to_numpy(rb)
    if fmt == "pandas":
        return to_pandas(rb)
    if fmt == "pyarrow" or fmt is None:
        return pa.Table.from_batches([rb])
    raise ValueError(
        f"batch_format must be one of {', '.join(map(repr, FORMATS))} or None, not {fmt!r}"
    )


def from_batch(
    out: Any,
    what: str,
    rb: pa.RecordBatch | None = None,
    given: NumpyBatch | None = None,
    marks: bool = False,
) -> list[pa.RecordBatch]:
    """Converts the value that a user function returned to record batches. rb: the function's input;
    given: the batch that the function got, if its format is NumPy; marks: see as_column()."""
    if isinstance(out, Mapping):
        return (
            [given.rb]
            if given is not None and out is given and given.untouched()
            else _from_dict(out, what, rb, given, marks)
        )
    if isinstance(out, (pa.Table, pa.RecordBatch)):
        check_names(out.schema.names, what)
        return from_table(out) if isinstance(out, pa.Table) else [ours(out)]
    if type(out).__module__.split(".")[0] == "pandas" and hasattr(out, "columns"):
        return from_pandas(out, what, rb)
    if hasattr(out, "__arrow_c_stream__"):
        t = pa.table(out)
        check_names(t.schema.names, what)
        return from_table(_in_old_types(t, rb))
    raise ValueError(
        f'{what} returned {named(out)}; return a dict of arrays ({{"x": numpy array or list}}), a pandas DataFrame or a pyarrow Table, '
        f"or yield such batches"
    )


def _in_old_types(t: pa.Table, rb: pa.RecordBatch | None) -> pa.Table:
    """Casts back what a table library (Polars) returned: such a library has one type for all
    strings, one for all lists, and so on. A column with the name of an input column gets the input
    column's type if both types hold the same values in different layouts."""
    for i, name in enumerate(t.schema.names):
        old, c = column_before(name, rb), t.column(i)
        if old is not None and c.type != old.type and _kind(c.type) == _kind(old.type):
            try:
                t = t.set_column(i, name, c.cast(old.type))
            # the function has made new values, which the old type cannot represent: the column
            # keeps its new type
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                pass
    return t


def _kind(t: pa.DataType) -> Any:
    """The kind of a type; types that differ only in layout, width of offsets or unit of time have
    the same kind."""
    is_ = pa.types
    if is_.is_string(t) or is_.is_large_string(t) or is_.is_string_view(t):
        return "string"
    if (
        is_.is_binary(t)
        or is_.is_large_binary(t)
        or is_.is_binary_view(t)
        or is_.is_fixed_size_binary(t)
    ):
        return "binary"
    if is_.is_list(t) or is_.is_large_list(t):
        return "list", _kind(t.value_type)
    if is_.is_struct(t):
        return "struct", tuple((f.name, _kind(f.type)) for f in t)
    if is_.is_map(t):
        return "map", _kind(t.key_type), _kind(t.item_type)
    if is_.is_dictionary(t):
        return "dictionary", _kind(t.value_type)
    if is_.is_time(t):
        return "time"
    if is_.is_duration(t):
        return "duration"
    if is_.is_timestamp(t) or is_.is_date64(t):
        return "timestamp", t.tz if is_.is_timestamp(t) else None
    return t


def named(v: Any) -> str:
    """A value of a wrong type, as text for a message."""
    return "None" if v is None else f"a value of type {type(v).__name__}"


def _from_dict(
    out: Mapping[str, Any],
    what: str,
    rb: pa.RecordBatch | None,
    given: NumpyBatch | None,
    marks: bool,
) -> list[pa.RecordBatch]:
    if not out:
        return []
    cols: list[pa.Array] = []
    n = -1
    for name, v in dict.items(out) if isinstance(out, NumpyBatch) else out.items():
        if type(name) is not str:
            raise TypeError(
                f"{what} returned a dict with the key {name!r} of type {type(name).__name__}; column names are str"
            )
        try:
            col = as_column(v, name, rb, given, marks)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as e:
            raise type(e)(
                f"{what} returned column {name!r} that cannot become an Arrow column: {e}"
            ).with_traceback(e.__traceback__) from None
        if n >= 0 and len(col) != n:
            first = next(iter(out))
            raise ValueError(
                f"{what} returned columns of different lengths: {first!r} has {n} rows, {name!r} has {len(col)}; give all columns the same length"
            )
        n = len(col)
        cols.append(col)
    return record_batches(list(out), cols)


def again(made: Any, schema: pa.Schema) -> list[pa.RecordBatch]:
    """Converts a value that to_batch() made of a batch with this schema back to record batches.
    Columns get the types of the schema where these can represent the values exactly."""
    if not isinstance(made, Mapping):
        return from_batch(made, "a block")
    cols = [
        array_from_numpy(v, f.type if v.ndim == 1 and v.dtype != object else None, marks=True)
        for f, v in zip(schema, made.values(), strict=True)
    ]
    return record_batches(schema.names, cols)


def as_column(
    v: Any, name: str, rb: pa.RecordBatch | None, given: NumpyBatch | None, marks: bool = False
) -> Any:
    """An Arrow array of one column that a function returned (a chunked array if one array cannot
    hold it). marks: missing numbers may be marked in it, as in arrays that were handed out; they
    are also looked for if `given` has missing numbers."""
    if v is LATER:
        return column_before(name, rb)
    if isinstance(v, np.ndarray):
        g = given.given.get(name) if given is not None else None
        old = column_before(name, rb) if g is not None else None
        if old is not None:
            if v is g and (not v.flags.writeable or given is not None and given.same(name, v)):
                return old
            old = plain(old)
            if not isinstance(g, np.ndarray) or v.dtype != g.dtype or v.shape[1:] != g.shape[1:]:
                old = None
        if given is not None and given.missing:
            marks = True
            if not v.flags.writeable:  # a column that is returned under another name
                was = next((n for n, a in given.missing.items() if a is v), None)
                if was is not None:
                    return column_before(was, given.rb)
        return array_from_numpy(v, None if old is None else old.type, old, marks)
    if isinstance(v, (list, tuple)):
        return from_objects(list(v), None)
    if isinstance(v, pa.Array):
        return v
    if isinstance(v, pa.ChunkedArray):
        return one_array(v)
    if (
        hasattr(v, "__arrow_c_array__")
        or hasattr(v, "__arrow_c_stream__")
        or hasattr(v, "__arrow_array__")
    ):
        return one_array(
            pa.array(v) if not hasattr(v, "__arrow_c_stream__") else pa.chunked_array(v)
        )
    if hasattr(v, "__array__") and hasattr(v, "__len__"):  # torch tensors and similar objects
        return as_column(np.asarray(v), name, rb, given, marks)
    raise ValueError(f"{named(v)} is no column; use a numpy array or a list with one value per row")
