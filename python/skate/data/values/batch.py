"""Batches between Arrow and what user functions see: dicts of numpy arrays, pandas DataFrames, pyarrow Tables, rows as dicts.

Invariant: a function that gives back what it got changes nothing: same types, same values, same nulls, bit by bit; where a format cannot
hold a value the conversion raises and names the column. What each type looks like:

    Arrow                                   numpy                                    pandas
    int, float without nulls                ndarray, a read-only view (no copy)      the numpy dtype
    int, float, bool with nulls             numpy.ma.MaskedArray                     Int64, Float64, boolean (masked)
    bool                                    ndarray                                  bool
    date, timestamp, duration               datetime64 / timedelta64 of its unit     object / datetime64[unit, tz] / timedelta64
    fixed-shape tensor, fixed-size list     ndarray (n, *shape), a view              object of ndarrays
    string, binary, decimal, time           object array, None for null              str / object
    list                                    object array of ndarrays (of objects, where numbers do not do)   of lists, for those
    struct, map, union, ...                 object array of dicts, lists             the same
    Python objects                          object array of them                     the same

Back to Arrow a new column gets its natural type. A returned column with the name of an input column *keeps its Arrow type when the values
can be cast back exactly* (numpy: and its dtype is the one that was handed out): a zone of a timestamp, a dictionary, a large string, an
int32 of a row, a column that is all None in one batch. An array that was handed out read-only and comes back itself is not converted at all.

Cost: per batch and column about 3 us for plain numbers; strings and bytes about 10 ns where values repeat (they share an object), 35 where not (py_text.c); other
objects cost what Python objects cost. Plain columns go between numpy and Arrow by their
buffers and not by pa.array() and to_numpy(): those import pandas at their first call (0.2 s and 40 MB in each process).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from skate import _lazy, _skate
from skate.data.context import DataContext
from skate.data.values.encoded_text import EncodedText, plain
from skate.data.values.flat import DICTIONARY, FIXED_LIST, LISTS, TEXT, valid_bits
from skate.data.values.frames import from_pandas, to_pandas
from skate.data.values.from_arrow import column_to_numpy, to_objects
from skate.data.values.to_arrow import array_from_numpy, column_before, from_objects, from_table, hint_of, one_array, record_batches
from skate.data.values.types import PythonObjectType
from skate.data.values.unify import cast_batch, check_names, merge

FORMATS = ("default", "numpy", "pandas", "pyarrow")


def to_batch(rb: pa.RecordBatch, fmt: str | None) -> Any:
    """rb in a batch format: "default"/"numpy", "pandas", "pyarrow" (None: pyarrow)."""
    if fmt == "numpy" or fmt == "default":
        return to_numpy(rb)
    if fmt == "pandas":
        return to_pandas(rb)
    if fmt == "pyarrow" or fmt is None:
        return pa.Table.from_batches([rb])
    raise ValueError(f"batch_format must be one of {', '.join(map(repr, FORMATS))} or None, not {fmt!r}")


_LATER: Any = object()
_IMMUTABLE = {*TEXT, pa.string_view().id, pa.binary_view().id, pa.binary(1).id}  # an array with the objects that were in it is unchanged


class NumpyBatch(dict):
    """What a numpy UDF gets: a dict of arrays, each made at its first use. So a column that is only passed on costs nothing, both ways."""

    __slots__ = ("rb", "given", "copies", "writable")

    def __init__(self, rb: pa.RecordBatch, writable: bool = False):
        super().__init__(dict.fromkeys(rb.schema.names, _LATER))
        self.rb, self.writable = rb, writable
        self.given: dict[str, np.ndarray] = {}  # as handed out
        self.copies: dict[str, np.ndarray] = {}  # of those whose objects are compared, which is cheaper than building the column again

    def __getitem__(self, name: str) -> np.ndarray:
        v = dict.__getitem__(self, name)
        if v is _LATER:
            col = self.rb.column(self.rb.schema.get_field_index(name))
            v = column_to_numpy(name, col)
            t = col.type
            if t.id in _IMMUTABLE or t.id == DICTIONARY and t.value_type.id in _IMMUTABLE or isinstance(t, EncodedText):
                self.copies[name] = v.copy()
            elif self.writable:
                v = v.copy()
            self.given[name] = v
            dict.__setitem__(self, name, v)
        return v

    def _all(self) -> NumpyBatch:
        for k in dict.keys(self):
            self[k]
        return self

    def __iter__(self) -> Any:  # that it is defined keeps dict(batch) and {**batch} from copying what is not there yet
        return dict.__iter__(self)

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default

    def pop(self, name: str, *default: Any) -> Any:
        if name in self:
            self[name]
        return dict.pop(self, name, *default)

    def setdefault(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else dict.setdefault(self, name, default)

    def popitem(self) -> Any:
        return dict.popitem(self._all())

    def items(self) -> Any:
        return dict.items(self._all())

    def values(self) -> Any:
        return dict.values(self._all())

    def copy(self) -> dict[str, Any]:
        return dict(self.items())

    def __or__(self, other: Any) -> Any:
        return self.copy() | other

    def __ror__(self, other: Any) -> Any:
        return other | self.copy()

    def __eq__(self, other: object) -> bool:
        return self.copy() == other

    __hash__ = None

    def __repr__(self) -> str:
        return repr(self.copy())

    def __reduce__(self) -> Any:
        return dict, (self.copy(),)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()


def to_numpy(rb: pa.RecordBatch) -> dict[str, np.ndarray]:
    """One array a column (see the head of the file)."""
    return {name: column_to_numpy(name, col) for name, col in zip(rb.schema.names, rb.columns, strict=True)}


# ---- user's batch -> Arrow


def from_batch(out: Any, what: str, rb: pa.RecordBatch | None = None, given: NumpyBatch | None = None) -> list[pa.RecordBatch]:
    """What a user function returned, as record batches. rb: its input; given: the batch it got, if that was numpy."""
    if isinstance(out, Mapping):
        return [given.rb] if given is not None and out is given and _untouched(given) else _from_dict(out, what, rb, given)
    if isinstance(out, (pa.Table, pa.RecordBatch)):
        check_names(out.schema.names, what)
        return from_table(out) if isinstance(out, pa.Table) else [out]
    if type(out).__module__.split(".")[0] == "pandas" and hasattr(out, "columns"):
        return from_pandas(out, what, rb)
    if hasattr(out, "__arrow_c_stream__"):
        t = pa.table(out)
        check_names(t.schema.names, what)
        return from_table(_in_old_types(t, rb))
    raise ValueError(
        f'{what} returned {_named(out)}; return a dict of arrays ({{"x": numpy array or list}}), a pandas DataFrame or a pyarrow Table, '
        f"or yield such batches"
    )


def _in_old_types(t: pa.Table, rb: pa.RecordBatch | None) -> pa.Table:
    """What a library of tables (Polars) gave back: it has one type for all strings, for all lists, ... A column that has its name still gets the type with which it came, where the
    two hold the same values in another layout."""
    for i, name in enumerate(t.schema.names):
        old, c = column_before(name, rb), t.column(i)
        if old is not None and c.type != old.type and _kind(c.type) == _kind(old.type):
            try:
                t = t.set_column(i, name, c.cast(old.type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # new values, which the old type has no room for
                pass
    return t


def _kind(t: pa.DataType) -> Any:
    """The same for types that differ in layout, width of offsets or unit of time only."""
    is_ = pa.types
    if is_.is_string(t) or is_.is_large_string(t) or is_.is_string_view(t):
        return "string"
    if is_.is_binary(t) or is_.is_large_binary(t) or is_.is_binary_view(t) or is_.is_fixed_size_binary(t):
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


def _untouched(b: NumpyBatch) -> bool:
    """All its columns would become what they were, in a schema that says no more than their names and types."""
    schema = b.rb.schema
    if schema.metadata is not None or list(dict.keys(b)) != schema.names:
        return False
    for name, v in dict.items(b):
        if v is not _LATER and (v is not b.given.get(name) or v.flags.writeable or name in b.copies):
            return False
    return all(f.nullable and f.metadata is None for f in schema)


def _named(v: Any) -> str:
    return "None" if v is None else f"a value of type {type(v).__name__}"


def _from_dict(out: Mapping[str, Any], what: str, rb: pa.RecordBatch | None, given: NumpyBatch | None) -> list[pa.RecordBatch]:
    if not out:
        return []
    cols: list[pa.Array] = []
    n = -1
    for name, v in dict.items(out) if isinstance(out, NumpyBatch) else out.items():
        if type(name) is not str:
            raise TypeError(f"{what} returned a dict with the key {name!r} of type {type(name).__name__}; column names are str")
        try:
            col = _column(v, name, rb, given)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as e:
            raise type(e)(f"{what} returned column {name!r} that cannot become an Arrow column: {e}").with_traceback(
                e.__traceback__
            ) from None
        if n >= 0 and len(col) != n:
            first = next(iter(out))
            raise ValueError(
                f"{what} returned columns of different lengths: {first!r} has {n} rows, {name!r} has {len(col)}; give all columns the same length"
            )
        n = len(col)
        cols.append(col)
    return record_batches(list(out), cols)


def _column(v: Any, name: str, rb: pa.RecordBatch | None, given: NumpyBatch | None) -> Any:
    """An Arrow array (chunked, where one cannot hold it) of one column of what a function returned."""
    if v is _LATER:
        return column_before(name, rb)
    if isinstance(v, np.ndarray):
        g = given.given.get(name) if given is not None else None
        old = column_before(name, rb) if g is not None else None
        if old is not None:
            if v is g and (
                not v.flags.writeable or given is not None and name in given.copies and _skate.same_objects(v, given.copies[name])
            ):
                return old
            if isinstance(v, np.ma.MaskedArray) and v is g and not v.data.flags.writeable and np.array_equal(v.mask, ~valid_bits(old)):
                return old
            old = plain(old)
            if not isinstance(g, np.ndarray) or v.dtype != g.dtype or v.shape[1:] != g.shape[1:]:
                old = None
        return array_from_numpy(v, None if old is None else old.type, old)
    if isinstance(v, (list, tuple)):
        return from_objects(list(v), None)
    if isinstance(v, pa.Array):
        return v
    if isinstance(v, pa.ChunkedArray):
        return one_array(v)
    if hasattr(v, "__arrow_c_array__") or hasattr(v, "__arrow_c_stream__") or hasattr(v, "__arrow_array__"):
        return one_array(pa.array(v) if not hasattr(v, "__arrow_c_stream__") else pa.chunked_array(v))
    if hasattr(v, "__array__") and hasattr(v, "__len__"):  # torch tensors and others
        return array_from_numpy(np.asarray(v), None, None)
    raise ValueError(f"{_named(v)} is no column; use a numpy array or a list with one value per row")


# ---- rows


def to_columns(rb: pa.RecordBatch) -> list[list[Any]]:
    """Python values, column by column: ints, floats, str, ..., None for null; tensors as ndarrays."""
    out = []
    for name, col in zip(rb.schema.names, rb.columns, strict=True):
        t = col.type
        if t.id in LISTS or t.id == FIXED_LIST:
            out.append(col.to_pylist())
        else:
            out.append(to_objects(name, col))
    return out


def to_rows(rb: pa.RecordBatch) -> list[dict[str, Any]]:
    """One dict a row."""
    names = rb.schema.names
    cols = to_columns(rb)
    if len(names) == 1:
        k = names[0]
        return [{k: v} for v in cols[0]]
    if len(names) == 2:
        k, m = names
        return [{k: v, m: w} for v, w in zip(cols[0], cols[1], strict=True)]
    return [dict(zip(names, r, strict=True)) for r in zip(*cols, strict=True)] if names else [{} for _ in range(rb.num_rows)]


def in_wider_schema(rows: list[dict[str, Any]], old: pa.Schema, new: pa.Schema) -> None:
    """Changes rows, as to_rows() gave them, to what they are in a schema that holds the old one."""
    names, had = new.names, set(old.names)
    other = [n for n in names if n not in had or not old.field(n).type.equals(new.field(n).type)]
    other = [n for n in other if n not in had or not pa.types.is_null(old.field(n).type)]  # None stays None
    same_order = names == old.names
    for at in range(0, len(rows), 65536):
        some = rows[at : at + 65536]
        for n in (n for n in other if n in had):
            t = old.field(n).type
            was = pa.Table.from_arrays([from_objects([r[n] for r in some], t)], schema=pa.schema([(n, t)]))
            for row, v in zip(
                some, (r[n] for b in was.to_batches() for r in to_rows(cast_batch(b, pa.schema([new.field(n)])))), strict=True
            ):
                row[n] = v
        if not same_order:
            for row in some:
                values = dict(row)
                row.clear()
                row.update((n, values.get(n)) for n in names)


def from_rows(rows: list[Mapping[str, Any]], what: str, rb: pa.RecordBatch | None = None) -> pa.RecordBatch | None:
    """One batch of rows (see rows_to_batches); None when there are none."""
    rbs = rows_to_batches(rows, what, rb)
    return merge(rbs) if rbs else None


def rows_to_batches(rows: list[Mapping[str, Any]], what: str, rb: pa.RecordBatch | None = None) -> list[pa.RecordBatch]:
    """Rows (dicts; a missing key is null; columns in order of appearance) as a batch, as several where one cannot hold them, as none where there are none."""
    if not rows:
        return []
    keys = list(rows[0])
    n = len(keys)
    cols: list[list[Any]] | None = None
    if n and set(map(len, rows)) == {n}:
        try:
            cols = [[r[k] for r in rows] for k in keys]
        except KeyError:
            cols = None
    if cols is None:
        seen: dict[str, None] = {}
        for r in rows:
            seen.update(dict.fromkeys(r))
        keys = list(seen)
        cols = [[r.get(k) for r in rows] for k in keys]
    arrays = []
    for k, values in zip(keys, cols, strict=True):
        if type(k) is not str:
            raise TypeError(f"{what} returned a row with the key {k!r} of type {type(k).__name__}; column names are str")
        old = hint_of(k, rb)
        try:
            arrays.append(from_objects(values, None if old is None else old.type, old))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as e:
            raise type(e)(f"{what} returned column {k!r} that cannot become an Arrow column: {e}") from None
    if DataContext.get_current().enable_fallback_to_arrow_object_ext_type is False:
        _no_objects(keys, arrays, what)
    return record_batches(keys, arrays) if arrays else []


def _no_objects(names: list[str], arrays: list[pa.Array], what: str) -> None:
    """For rows, as in Ray: batches may hold objects whatever the setting says."""
    for name, a in zip(names, arrays, strict=True):
        if isinstance(a.type, PythonObjectType):
            raise _lazy.extensions.ArrowConversionError(
                f"{what} returned column {name!r} that cannot become an Arrow column: it holds objects, and they are not pickled, since "
                "DataContext.enable_fallback_to_arrow_object_ext_type is False"
            )
