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

import math
import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from skate import _skate
from skate.data import tensor_types as _tt
from skate.data.coded import CodedText, plain
from skate.data.context import DataContext
from skate.data.tensor_types import ArrowVariableShapedTensorType, is_fixed

_T = pa.types
_TYPES = {
    np.dtype(n): getattr(pa, n)()
    for n in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
}
_DTYPES = {t.id: d for d, t in _TYPES.items()}
_NUM = set(_DTYPES)
_BOOL = pa.bool_().id
_TEMPORAL = {pa.timestamp("s").id, pa.duration("s").id, pa.date32().id, pa.date64().id}
_FSL = pa.list_(pa.int8(), 1).id
_DICTIONARY = pa.dictionary(pa.int8(), pa.int8()).id
_LISTS = {pa.list_(pa.int8()).id, pa.large_list(pa.int8()).id}
_TEXT = {  # id -> (binary, offsets of 8 bytes)
    pa.string().id: (False, False),
    pa.large_string().id: (False, True),
    pa.binary().id: (True, False),
    pa.large_binary().id: (True, True),
}
_INT64_MIN = np.iinfo(np.int64).min


def is_ragged(t: pa.DataType) -> bool:
    """Whether its values are arrays of different shapes: our type, or Arrow's own."""
    return (
        isinstance(t, ArrowVariableShapedTensorType)
        or isinstance(t, pa.BaseExtensionType)
        and t.extension_name == "arrow.variable_shape_tensor"
    )


def ragged_type(value_type: pa.DataType, ndim: int) -> pa.DataType:
    """The type of arrays of different shapes."""
    return ArrowVariableShapedTensorType(value_type, ndim)


def ragged_parts(t: pa.DataType) -> tuple[pa.DataType, int]:
    """(value type, number of dimensions) of a type that is_ragged()."""
    if isinstance(t, ArrowVariableShapedTensorType):
        return t.value_type, t.ndim
    return t.storage_type.field("data").type.value_type, t.storage_type.field("shape").type.list_size


class PythonObjectType(pa.ExtensionType):
    """Python objects that Arrow has no type for, pickled one by one."""

    def __init__(self) -> None:
        super().__init__(pa.large_binary(), "skate.python_object")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> PythonObjectType:
        return cls()

    def __arrow_ext_class__(self) -> type:
        return PythonObjectArray

    def __arrow_ext_scalar_class__(self) -> type:
        return PythonObjectScalar

    def __str__(self) -> str:
        return "python_object"


class PythonObjectScalar(pa.ExtensionScalar):
    """One value of a PythonObjectArray."""

    def as_py(self, **kwargs: Any) -> Any:
        return None if self.value is None or not self.value.is_valid else pickle.loads(self.value.as_py())


class PythonObjectArray(pa.ExtensionArray):
    """A column of Python objects."""

    @staticmethod
    def from_objects(values: Any) -> PythonObjectArray:
        """From a sequence of objects; TypeError naming the class that cannot be pickled."""
        return python_objects(list(values))

    def to_numpy(self, zero_copy_only: bool = False, writable: bool = False) -> np.ndarray:
        """An array of the objects."""
        out = np.empty(len(self), object)
        for i, v in enumerate(to_objects("", self)):
            out[i] = v
        return out

    def to_pandas(self, **kwargs: Any) -> Any:
        """A Series of the objects."""
        import pandas as pd

        return pd.Series(self.to_numpy())


pa.register_extension_type(PythonObjectType())
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


# ---- Arrow -> numpy


_LATER: Any = object()
_IMMUTABLE = {*_TEXT, pa.string_view().id, pa.binary_view().id, pa.binary(1).id}  # an array with the objects that were in it is unchanged


class NumpyBatch(dict):  # type: ignore[type-arg]
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
            if t.id in _IMMUTABLE or t.id == _DICTIONARY and t.value_type.id in _IMMUTABLE or isinstance(t, CodedText):
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

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self.copy())

    def __reduce__(self) -> Any:
        return dict, (self.copy(),)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()


def to_numpy(rb: pa.RecordBatch) -> dict[str, np.ndarray]:
    """One array a column (see the head of the file)."""
    return {name: column_to_numpy(name, col) for name, col in zip(rb.schema.names, rb.columns, strict=True)}


def column_to_numpy(name: str, col: pa.Array) -> np.ndarray:
    t = col.type
    tid = t.id
    if tid in _NUM:
        v = plain_view(col)
        return v if col.null_count == 0 else np.ma.MaskedArray(v, mask=~_valid(col))
    if tid == _BOOL:
        v = _bits(col.buffers()[1], col)
        return v if col.null_count == 0 else np.ma.MaskedArray(v & _valid(col), mask=~_valid(col))
    if tid in _TEMPORAL:
        return _temporal(name, col)
    if tid in _TEXT:
        return _text(name, col, np.empty(len(col), object))
    if isinstance(t, CodedText):
        return column_to_numpy(name, col.storage)
    if is_fixed(t) and col.null_count == 0:
        return _tensor_to_numpy(col)
    if tid == _FSL and t.value_type.id in _NUM and col.null_count == 0 and t.list_size > 0:
        values = _tt.list_values(col)
        if values.null_count == 0:
            return plain_view(values).reshape(len(col), t.list_size)
    if tid == _DICTIONARY:
        if t.value_type.id in _TEXT and col.null_count == 0 and len(col.dictionary):
            return column_to_numpy(name, col.dictionary).take(plain_view(col.indices))
        return column_to_numpy(name, col.dictionary_decode())
    if _T.is_run_end_encoded(t):
        return column_to_numpy(name, _decoded(col))
    out = np.empty(len(col), object)
    values = to_objects(name, col)
    if tid in _LISTS or tid == _FSL:
        values = [_objects_array(v) if type(v) is list else v for v in values]
    out[:] = values
    if not _can_rebuild(t):
        out.setflags(write=False)  # comes back only as itself
    return out


def _text(name: str, col: pa.Array, out: Any) -> Any:
    """out, a list or object array of None, with the str or bytes of a column."""
    valid, offsets, data = col.buffers()
    try:
        _skate.text_objects(out, *_TEXT[col.type.id], col.offset, valid if col.null_count else None, offsets, data)
    except ValueError as e:
        raise ValueError(f'column {name!r} ({col.type}) has no exact Python form: {e}; use batch_format="pyarrow"') from None
    return out


def _decoded(col: pa.Array) -> pa.Array:
    import pyarrow.compute as pc  # 80 ms at the first import, which a driver that takes ten rows need not pay

    return pc.run_end_decode(col)


def plain_view(col: pa.Array, dtype: np.dtype | None = None) -> np.ndarray:
    """Read-only view of the values of a fixed-width column; what lies under nulls is anything."""
    dtype = dtype or _DTYPES[col.type.id]
    buf = col.buffers()[1]
    if buf is None or buf.size == 0:
        v = np.zeros(len(col), dtype)
    else:
        v = np.frombuffer(buf, dtype, len(col), col.offset * dtype.itemsize)
    v.setflags(write=False)
    return v


def _bits(buf: pa.Buffer | None, col: pa.Array) -> np.ndarray:
    """A bitmap of col as bools (a copy)."""
    n, at = len(col), col.offset
    if buf is None or n == 0:
        return np.zeros(n, bool)
    first = at // 8
    return np.unpackbits(np.frombuffer(buf, np.uint8, (at + n + 7) // 8 - first, first), bitorder="little")[at % 8 : at % 8 + n].view(bool)


def _valid(col: pa.Array) -> np.ndarray:
    buf = col.buffers()[0]
    return np.ones(len(col), bool) if buf is None else _bits(buf, col)


def _temporal(name: str, col: pa.Array) -> np.ndarray:
    t = col.type
    ints = plain_view(col, np.dtype(np.int32)).astype(np.int64) if _T.is_date32(t) else plain_view(col, np.dtype(np.int64))
    if col.null_count:
        ints = np.where(_valid(col), ints, _INT64_MIN)
    ints.setflags(write=False)
    unit = "D" if _T.is_date32(t) else "ms" if _T.is_date64(t) else t.unit
    out = ints.view(f"{'timedelta64' if _T.is_duration(t) else 'datetime64'}[{unit}]")
    if np.count_nonzero(np.isnat(out)) != col.null_count:
        raise ValueError(
            f'column {name!r} ({t}) holds the value {_INT64_MIN}, which numpy takes for a missing one; use batch_format="pyarrow"'
        )
    return out


def _tensor_to_numpy(col: pa.Array) -> np.ndarray:
    """(n, *shape) view of a column of arrays of one shape."""
    if isinstance(col, _tt.ArrowTensorArray):
        return col.to_numpy()
    t = col.type
    values = _tt.list_values(col.storage)
    if values.null_count:
        raise ValueError("a tensor with nulls inside has no numpy form")
    flat = plain_view(values) if values.type.id in _NUM else column_to_numpy("", values)
    shape = list(t.shape)
    if t.permutation is None:
        return flat.reshape(len(col), *shape)
    physical = [0] * len(shape)  # `shape` is logical here as in pyarrow: logical[i] = physical[permutation[i]]
    for i, p in enumerate(t.permutation):
        physical[i] = shape[i]
    a = flat.reshape(len(col), *physical)
    return a.transpose(0, *(p + 1 for p in t.permutation))


def to_objects(name: str, col: pa.Array) -> list[Any]:
    """Python values of a column: what a row holds, and what goes into object arrays."""
    t = col.type
    tid = t.id
    if tid in _TEXT:
        return _text(name, col, [None] * len(col))
    if tid in _LISTS and t.value_type.id in _NUM or tid == _FSL and t.value_type.id in _NUM:
        flat = _tt.list_values(col) if col.null_count == 0 else col.flatten()
        if flat.null_count == 0:
            values = plain_view(flat)
            if tid == _FSL:
                k = t.list_size
                ends = range(k, k * (len(col) - col.null_count) + 1, k) if k else [0] * (len(col) - col.null_count)
                if col.null_count == 0:
                    return [values[e - k : e] for e in ends]
            else:
                offs = col.offsets.to_pylist()
                base = offs[0] if offs else 0
                if col.null_count == 0:
                    return [values[a - base : b - base] for a, b in zip(offs, offs[1:], strict=False)]
                valid = col.is_valid().to_pylist()
                lens = [
                    b - a if v else 0 for a, b, v in zip(offs, offs[1:], valid, strict=False)
                ]  # flatten() leaves out what lies under nulls
                out, at = [], 0
                for n, v in zip(lens, valid, strict=True):
                    out.append(values[at : at + n] if v else None)
                    at += n
                return out
    if is_fixed(t):
        if col.null_count == 0:
            return list(_tensor_to_numpy(col))
        it = iter(_tensor_to_numpy(col.drop_null()))
        return [next(it) if v else None for v in col.is_valid().to_pylist()]
    if isinstance(t, PythonObjectType):
        return [None if v is None else pickle.loads(v) for v in col.storage.to_pylist()]
    if is_ragged(t):
        data, shapes = to_objects(name, col.storage.field("data")), col.storage.field("shape").to_pylist()
        if _T.is_boolean(col.storage.field("data").type.value_type):  # lists, since bits are no view
            data = [None if d is None else np.array(d, bool) for d in data]
        return [d.reshape(s) if v else None for d, s, v in zip(data, shapes, col.is_valid().to_pylist(), strict=True)]
    if isinstance(t, pa.BaseExtensionType) and not isinstance(t, (pa.UuidType, pa.JsonType, pa.Bool8Type)):
        return to_objects(name, col.storage)
    try:
        if "time64[ns]" in str(t):  # as_py would drop what is below a microsecond
            if not _T.is_time64(t):
                raise ValueError("datetime.time has no nanoseconds")
            col = col.cast(pa.time64("us"), safe=True)
        return col.to_pylist()
    except (ValueError, pa.ArrowException, OverflowError) as e:
        raise ValueError(f'column {name!r} ({t}) has no exact Python form: {e}; use batch_format="pyarrow"') from None


def _can_rebuild(t: pa.DataType) -> bool:
    """Whether Arrow builds this type from Python values."""
    if _T.is_union(t) or _T.is_run_end_encoded(t) or is_fixed(t):
        return False
    if _T.is_struct(t):
        return all(_can_rebuild(t.field(i).type) for i in range(t.num_fields))
    if _T.is_nested(t):
        return _T.is_map(t) and _can_rebuild(t.key_type) and _can_rebuild(t.item_type) or not _T.is_map(t) and _can_rebuild(t.value_type)
    return True


# ---- user's batch -> Arrow


def from_batch(out: Any, what: str, rb: pa.RecordBatch | None = None, given: NumpyBatch | None = None) -> list[pa.RecordBatch]:
    """What a user function returned, as record batches. rb: its input; given: the batch it got, if that was numpy."""
    if isinstance(out, Mapping):
        return [given.rb] if out is given and _untouched(given) else _from_dict(out, what, rb, given)
    if isinstance(out, pa.Table):
        return _from_table(out)
    if isinstance(out, pa.RecordBatch):
        return [out]
    if type(out).__module__.split(".")[0] == "pandas" and hasattr(out, "columns"):
        return [from_pandas(out, what, rb)]
    if hasattr(out, "__arrow_c_stream__"):
        return _from_table(_in_old_types(pa.table(out), rb))
    raise ValueError(
        f'{what} returned {_named(out)}; return a dict of arrays ({{"x": numpy array or list}}), a pandas DataFrame or a pyarrow Table, '
        f"or yield such batches"
    )


def _in_old_types(t: pa.Table, rb: pa.RecordBatch | None) -> pa.Table:
    """What a library of tables (Polars) gave back: it has one type for all strings, for all lists, ... A column that has its name still gets the type with which it came, where the
    two hold the same values in another layout."""
    for i, name in enumerate(t.schema.names):
        old, c = _old(name, rb), t.column(i)
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


def _from_table(t: pa.Table) -> list[pa.RecordBatch]:
    if t.num_rows == 0:
        return [pa.RecordBatch.from_arrays([_no_rows(c) for c in t.columns], schema=t.schema)]
    return (t.combine_chunks() if any(c.num_chunks > 1 for c in t.columns) else t).to_batches()


def _no_rows(c: pa.ChunkedArray) -> pa.Array:
    if c.num_chunks:
        return c.chunk(0).slice(0, 0)
    t = c.type
    return pa.ExtensionArray.from_storage(t, pa.array([], t.storage_type)) if isinstance(t, pa.BaseExtensionType) else pa.array([], t)


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
    return [pa.RecordBatch.from_arrays(cols, names=list(out))]


def _old(name: str, rb: pa.RecordBatch | None) -> pa.Array | None:
    i = -1 if rb is None else rb.schema.get_field_index(name)
    return rb.column(i) if i >= 0 else None


def _hint(name: str, rb: pa.RecordBatch | None) -> pa.Array | None:
    old = _old(name, rb)
    return None if old is None else plain(old)


def _column(v: Any, name: str, rb: pa.RecordBatch | None, given: NumpyBatch | None) -> pa.Array:
    if v is _LATER:
        return _old(name, rb)
    if isinstance(v, np.ndarray):
        g = given.given.get(name) if given is not None else None
        old = _old(name, rb) if g is not None else None
        if old is not None:
            if v is g and (not v.flags.writeable or name in given.copies and _skate.same_objects(v, given.copies[name])):
                return old
            if isinstance(v, np.ma.MaskedArray) and v is g and not v.data.flags.writeable and np.array_equal(v.mask, ~_valid(old)):
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
        return _one(v)
    if hasattr(v, "__arrow_c_array__") or hasattr(v, "__arrow_c_stream__") or hasattr(v, "__arrow_array__"):
        return _one(pa.array(v) if not hasattr(v, "__arrow_c_stream__") else pa.chunked_array(v))
    if hasattr(v, "__array__") and hasattr(v, "__len__"):  # torch tensors and others
        return array_from_numpy(np.asarray(v), None, None)
    raise ValueError(f"{_named(v)} is no column; use a numpy array or a list with one value per row")


def _one(c: Any) -> pa.Array:
    if isinstance(c, pa.Array):
        return c
    c = c.combine_chunks()
    return c if isinstance(c, pa.Array) else (c.chunk(0) if c.num_chunks == 1 else pa.concat_arrays(c.chunks))


def array_from_numpy(v: np.ndarray, hint: pa.DataType | None, old: pa.Array | None = None) -> pa.Array:
    """An Arrow array of v; `hint`: the type to keep if that is exact; `old`: the column v was made from."""
    if v.ndim == 0:
        raise ValueError("it is a single value (0-d array); a column has one value per row")
    if v.ndim == 1 and v.dtype in _TYPES and not isinstance(v, np.ma.MaskedArray):
        arr = _plain_array(_TYPES[v.dtype], v)
        kept = None if hint is None else exact_cast(arr, hint, naive_ok=True)
        return arr if kept is None else kept
    kind = v.dtype.kind
    if v.ndim > 1 and kind not in "OUS":
        return _tensor_from_numpy(v, hint)
    if kind == "O" or v.ndim > 1:
        values = np.ma.filled(v.astype(object), None).tolist() if isinstance(v, np.ma.MaskedArray) else v.tolist()
        if (
            hint is not None
            and not _can_rebuild(hint)
            and not is_fixed(hint)
            and not (_T.is_run_end_encoded(hint) and _can_rebuild(hint.value_type))
        ):
            raise TypeError(
                f'type {hint} cannot be made from Python values; return the array itself, drop the column, or use batch_format="pyarrow"'
            )
        return from_objects(values, hint, old)
    if kind == "M" or kind == "m":
        unit = np.datetime_data(v.dtype)
        if unit[1] != 1 or unit[0] not in ("s", "ms", "us", "ns", "D") or (unit[0] == "D" and kind == "m"):
            raise TypeError(
                f'dtype {v.dtype} has no Arrow type; use v.astype("{"datetime64" if kind == "M" else "timedelta64"}[s]") (or ms, us, ns)'
            )
        null = np.isnat(np.ma.getdata(v))
        if isinstance(v, np.ma.MaskedArray):
            null = null | np.ma.getmaskarray(v)
        ints = np.ascontiguousarray(np.ma.getdata(v)).astype(v.dtype.newbyteorder("="), copy=False).view(np.int64)
        if unit[0] == "D":
            ints = np.where(null, 0, ints)
            if ints.size and (ints.min() < -(2**31) or ints.max() >= 2**31):
                raise ValueError("a date is beyond what Arrow's date32 holds")
            ints = ints.astype(np.int32)
        typ = pa.date32() if unit[0] == "D" else pa.timestamp(unit[0]) if kind == "M" else pa.duration(unit[0])
        arr = _plain_array(typ, ints, null if null.any() else None)
    elif kind == "U" or kind == "S":
        arr = from_objects(np.ma.filled(v.astype(object), None).tolist() if isinstance(v, np.ma.MaskedArray) else v.tolist(), None)
        if not len(arr):
            arr = pa.nulls(0, pa.string() if kind == "U" else pa.binary())
    elif kind == "b":
        data = np.ma.getdata(v)
        arr = pa.Array.from_buffers(
            pa.bool_(), len(v), [_bitmap(~np.ma.getmaskarray(v)) if isinstance(v, np.ma.MaskedArray) else None, _bitmap(data)]
        )
    else:
        if not v.dtype.isnative:
            v = v.astype(v.dtype.newbyteorder("="))
        if v.dtype not in _TYPES:
            raise TypeError(f"dtype {v.dtype} has no Arrow type; split it into columns of numbers")
        arr = _plain_array(_TYPES[v.dtype], np.ma.getdata(v), np.ma.getmaskarray(v) if isinstance(v, np.ma.MaskedArray) else None)
    if hint is not None and arr.type != hint:
        kept = exact_cast(arr, hint, naive_ok=True)
        if kept is not None:
            return kept
    return arr


def _bitmap(bits: np.ndarray) -> pa.Buffer:
    return pa.py_buffer(np.packbits(bits, bitorder="little"))


def _plain_array(t: pa.DataType, v: np.ndarray, null: np.ndarray | None = None) -> pa.Array:
    """An Arrow array over the memory of v."""
    return pa.Array.from_buffers(
        t, len(v), [None if null is None else _bitmap(~null), pa.py_buffer(v if v.flags.c_contiguous else np.ascontiguousarray(v))]
    )


def _tensor_from_numpy(v: np.ndarray, hint: pa.DataType | None = None) -> pa.Array:
    if isinstance(v, np.ma.MaskedArray):
        if np.ma.getmaskarray(v).any():
            raise TypeError("a masked array of more than one dimension has no Arrow type; fill the masked values first")
        v = np.ma.getdata(v)
    shape = v.shape[1:]
    size = math.prod(shape)
    if hint is not None and _T.is_fixed_size_list(hint) and len(shape) == 1:
        flat = array_from_numpy(np.ascontiguousarray(v).reshape(-1), None)
        if flat.type == hint.value_type:
            return pa.FixedSizeListArray.from_arrays(flat, type=hint) if size else _zero_lists(len(v), hint)
    if (
        isinstance(hint, pa.FixedShapeTensorType)
        and hint.permutation is not None
        and tuple(hint.shape[p] for p in hint.permutation) == shape
    ):
        inverse = np.argsort(hint.permutation)
        flat = array_from_numpy(np.ascontiguousarray(v.transpose(0, *(int(i) + 1 for i in inverse))).reshape(-1), None)
        typ = hint
    else:
        flat = array_from_numpy(np.ascontiguousarray(v).reshape(-1), None)
        keep = (
            hint is not None
            and is_fixed(hint)
            and getattr(hint, "permutation", None) is None
            and tuple(hint.shape) == shape
            and hint.value_type == flat.type
        )
        typ = hint if keep else _tt.context_format().to_type()
        if not keep:
            if typ is not pa.FixedShapeTensorType:
                return _tt.of_numpy(v, _tt.context_format())
            typ = pa.fixed_shape_tensor(flat.type, shape)
        elif not isinstance(typ, pa.FixedShapeTensorType):
            return _tt.of_flat(flat, len(v), typ)
    if typ.value_type != flat.type:
        typ = pa.fixed_shape_tensor(flat.type, shape)
    storage = pa.FixedSizeListArray.from_arrays(flat, size) if size else _zero_lists(len(v), typ.storage_type)
    if storage.type != typ.storage_type:
        storage = storage.cast(typ.storage_type)
    return pa.ExtensionArray.from_storage(typ, storage)


def _zero_lists(n: int, t: pa.DataType) -> pa.Array:
    return pa.array([[]] * n, t)


# ---- Python values -> Arrow


def from_objects(values: list[Any], hint: pa.DataType | None, old: pa.Array | None = None) -> pa.Array:
    """An Arrow array of Python values (None: null); keeps `hint` when that is exact. old: the column of that type that the values come from, as far as is known."""
    if hint is not None and _T.is_union(hint):
        raise TypeError(f'type {hint} cannot be made from Python values; drop the column, or use batch_format="pyarrow"')
    first = next((v for v in values if v is not None), None)
    if isinstance(hint, PythonObjectType):
        return _objects_again(values, old)
    if first is not None and (isinstance(first, np.ndarray) or type(first).__module__.startswith("torch")):
        arr = _from_arrays(values, hint)
        if arr is not None:
            return arr
    if (
        hint is not None
        and isinstance(hint, pa.BaseExtensionType)
        and (first is None or not is_fixed(hint) and not isinstance(hint, (pa.UuidType, pa.Bool8Type)))
    ):
        storage = from_objects(values, hint.storage_type)
        return pa.ExtensionArray.from_storage(hint, storage) if storage.type == hint.storage_type else storage
    natural = None
    error: Exception | None = None
    try:
        natural = _of_one_kind(values)
        if natural is None:
            natural = pa.array(values)
        unit = _pandas_unit(values, natural.type)
        if unit is not None:
            natural = pa.array(values, type=pa.duration(unit) if _T.is_duration(natural.type) else pa.timestamp(unit, natural.type.tz))
        if hint is None or natural.type == hint:
            return natural
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as e:
        error = e
    if hint is not None:
        kept = None
        if (
            natural is None
            or (_T.is_nested(hint) and not _T.is_run_end_encoded(hint))
            or (isinstance(hint, pa.BaseExtensionType) and not isinstance(hint, pa.Bool8Type))
        ):
            if natural is None or _compatible(natural.type, hint):
                try:
                    kept = pa.array(values, type=hint)
                except (pa.ArrowException, TypeError, ValueError, OverflowError) as e:
                    error = error or e
                if kept is not None and natural is not None and not _same_floats(natural, kept):
                    kept = None
        else:
            kept = exact_cast(natural, hint)
        if kept is not None:
            return kept
    if natural is not None:
        return natural
    assert error is not None
    if _foreign(values):
        return python_objects(values)
    if len({type(v) for v in values if v is not None}) > 1:
        kinds = sorted({type(v).__name__ for v in values if v is not None})
        raise TypeError(f"values of mixed types ({', '.join(kinds)}): {error}; return one type") from None
    raise error


def _objects_again(values: list[Any], old: pa.Array | None) -> pa.Array:
    """What a function gives for a column of objects: objects, where all are among those it got, or no other type holds them."""
    kept = _same_objects(values, old)
    if kept is not None:
        return kept
    if _foreign(values):
        return python_objects(values)
    try:
        return from_objects(values, None)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return python_objects(values)


def _same_objects(values: list[Any], old: pa.Array | None) -> pa.Array | None:
    """The values as a column of objects, if all of them (but None) are in `old`, a column of objects, by their pickles; else None."""
    if old is None or not isinstance(old.type, PythonObjectType):
        return None
    known = {None, *old.storage.to_pylist()}
    try:
        again = python_objects(values)
    except TypeError:  # new ones, which cannot be pickled: the caller says so
        return None
    return again if known.issuperset(again.storage.to_pylist()) else None


_PLAIN = {"builtins", "datetime", "decimal", "numpy", "uuid", "pandas", "pyarrow", "torch", "collections"}


def _foreign(values: list[Any]) -> bool:
    """Whether there is an object of a class that no format knows: only such columns are pickled, a mix of plain types stays an error."""
    return any(
        type(v) is object or isinstance(v, BaseException) or type(v).__module__.split(".")[0] not in _PLAIN
        for v in values
        if not hasattr(v, "__array__") and not hasattr(v, "__arrow_array__")
    )


def python_objects(values: list[Any]) -> pa.Array:
    """A column of pickled objects; TypeError naming the class that cannot be pickled."""
    import cloudpickle

    out = []
    for v in values:
        try:
            out.append(None if v is None else cloudpickle.dumps(v, 5))
        except Exception as e:
            raise TypeError(f"an object of type {type(v).__name__} cannot be pickled: {e}") from None
    return pa.ExtensionArray.from_storage(PythonObjectType(), pa.array(out, pa.large_binary()))


def _of_one_kind(values: list[Any]) -> pa.Array | None:
    """Lists of plain Python values of one type without None, by numpy; None for anything else."""
    kinds = set(map(type, values))
    if len(kinds) != 1:
        return None
    (kind,) = kinds
    if kind is int:
        try:
            return _plain_array(_TYPES[np.dtype(np.int64)], np.array(values, np.int64))
        except OverflowError:
            return None
    if kind is float:
        return _plain_array(_TYPES[np.dtype(np.float64)], np.array(values, np.float64))
    if kind is bool:
        return pa.Array.from_buffers(pa.bool_(), len(values), [None, _bitmap(np.array(values, bool))])
    if kind is str:
        text = "".join(values)
        if text.isascii():
            return _pieces_array(pa.string(), values, text.encode())
        values = [v.encode() for v in values]
        return _pieces_array(pa.string(), values, b"".join(values))
    if kind is bytes:
        return _pieces_array(pa.binary(), values, b"".join(values))
    return None


def _pieces_array(t: pa.DataType, values: list[Any], data: bytes) -> pa.Array | None:
    if len(data) >= 1 << 31:
        return None
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, values), np.int32, len(values)), out=offsets[1:])
    return pa.Array.from_buffers(t, len(values), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _pandas_unit(values: list[Any], t: pa.DataType) -> str | None:
    """The finest unit of pandas' own times, which Arrow would take for microseconds; None when there are others, or Arrow is right."""
    if not (_T.is_timestamp(t) or _T.is_duration(t)) or t.unit != "us":
        return None
    units = {getattr(v, "unit", "us") for v in values if v is not None}
    finest = next((u for u in ("ns", "us", "ms", "s") if u in units), "us")
    return None if finest == "us" else finest


def _from_arrays(values: list[Any], hint: pa.DataType | None) -> pa.Array | None:
    """From ndarrays, one a row: a list column if that was its type, a tensor if all have one shape, else lists (1-d only)."""
    arrays = [None if v is None else np.asarray(v) for v in values]
    some = [a for a in arrays if a is not None]
    if all(a.ndim == 0 for a in some):
        return from_objects([None if a is None else a.item() if a.dtype.kind not in "Mm" else a[()] for a in arrays], hint)
    dtypes = {a.dtype for a in some}
    if any(d.kind in "OUS" for d in dtypes):
        return from_objects([None if a is None else a.tolist() for a in arrays], hint)
    if hint is not None and (hint.id in _LISTS or hint.id == _FSL) and all(a.ndim == 1 for a in some):
        if {pa.from_numpy_dtype(d) for d in dtypes} == {hint.value_type}:
            try:
                return pa.array(arrays, type=hint)
            except pa.ArrowInvalid:
                pass  # a fixed-size list of other sizes now
        return pa.array(arrays) if hint.id in _LISTS else pa.array([None if a is None else a for a in arrays])
    shapes = {a.shape for a in some}
    if (
        hint is not None
        and is_ragged(hint)
        and len(dtypes) == 1
        and len({len(s) for s in shapes}) == 1
        and ragged_parts(hint) == (pa.from_numpy_dtype(next(iter(dtypes))), len(next(iter(shapes))))
    ):
        return _tt.ragged(arrays, hint)
    if len(shapes) == 1 and len(dtypes) == 1:
        if len(some) == len(arrays):
            return _tensor_from_numpy(np.stack(some), hint)
        dense = _tensor_from_numpy(np.stack(some), hint)
        at, index = 0, []
        for a in arrays:
            index.append(None if a is None else at)
            at += a is not None
        return pa.ExtensionArray.from_storage(dense.type, dense.storage.take(pa.array(index, pa.int64())))
    if all(a.ndim == 1 for a in some):
        return pa.array(arrays)
    if len(dtypes) == 1 and len({len(s) for s in shapes}) == 1:
        return _tt.ragged(arrays, ragged_type(pa.from_numpy_dtype(next(iter(dtypes))), len(next(iter(shapes)))))
    raise TypeError(
        f"arrays of different kinds in one column ({', '.join(map(str, sorted(shapes, key=str)[:3]))}); "
        f"give all the same dtype and number of dimensions"
    )


def ragged_of_fixed(col: pa.Array, t: pa.DataType) -> pa.Array:
    """A fixed-shape tensor column as one of varying shapes."""
    return _tt.ragged([None if a is None else np.asarray(a) for a in to_objects("", col)], t)


_FAMILIES = (
    (_T.is_integer,),
    (_T.is_floating,),
    (_T.is_string, _T.is_large_string, _T.is_string_view),
    (_T.is_binary, _T.is_large_binary, _T.is_binary_view, _T.is_fixed_size_binary),
    (_T.is_timestamp,),
    (_T.is_duration,),
    (_T.is_date,),
    (_T.is_time,),
    (_T.is_decimal,),
    (_T.is_boolean,),
)


def _family(t: pa.DataType) -> int:
    for i, tests in enumerate(_FAMILIES):
        if any(f(t) for f in tests):
            return i
    return -1 - t.id


def exact_cast(arr: pa.Array, to: pa.DataType, naive_ok: bool = False) -> pa.Array | None:
    """arr as type `to` if that is the same kind of value and loses nothing, else None. naive_ok: a time without zone may get one."""
    a = arr.type
    if a.equals(to):
        return arr
    try:
        if _T.is_null(a):
            return pa.nulls(len(arr), to)
        if _T.is_dictionary(to):
            kept = exact_cast(arr.dictionary_decode() if _T.is_dictionary(a) else arr, to.value_type, naive_ok)
            if kept is None:
                return None
            enc = kept.dictionary_encode()
            return pa.DictionaryArray.from_arrays(enc.indices.cast(to.index_type), enc.dictionary, ordered=to.ordered)
        if _T.is_dictionary(a):
            return exact_cast(arr.dictionary_decode(), to, naive_ok)
        if _T.is_run_end_encoded(to):
            kept = exact_cast(arr, to.value_type, naive_ok)
            import pyarrow.compute as pc

            return None if kept is None else pc.run_end_encode(kept, run_end_type=to.run_end_type)
        if isinstance(to, pa.Bool8Type) and _T.is_boolean(a):
            return pa.ExtensionArray.from_storage(to, arr.cast(pa.int8()))
        if isinstance(to, pa.BaseExtensionType):
            kept = exact_cast(arr, to.storage_type)
            return None if kept is None else pa.ExtensionArray.from_storage(to, kept)
        if _T.is_nested(to) or _T.is_nested(a):
            if not _compatible(a, to):
                return None
            kept = arr.cast(to, safe=True)
            return kept if _same_floats(arr, kept) else None
        if naive_ok and _T.is_timestamp(a) and a.tz is None and _T.is_date(to):
            return arr.cast(to, safe=True)
        if _family(a) != _family(to):
            return None
        if _T.is_timestamp(a) and (a.tz is None) != (to.tz is None) and not (naive_ok and a.tz is None):
            return None
        if _T.is_timestamp(a) and a.tz is None and to.tz is not None:
            return arr.cast(pa.timestamp(to.unit), safe=True).view(to)  # same instants: numpy knows no zones, its values are UTC
        kept = arr.cast(to, safe=True)
        return kept if not _T.is_floating(a) or _same_floats(arr, kept) else None
    except (pa.ArrowException, TypeError, ValueError):
        return None


def _compatible(a: pa.DataType, b: pa.DataType) -> bool:
    """Whether values of natural type a may be values of type b, by kind."""
    if isinstance(b, pa.BaseExtensionType):
        b = b.storage_type
    if isinstance(a, pa.BaseExtensionType):
        a = a.storage_type
    if _T.is_null(a) or a.equals(b):
        return True
    if _T.is_struct(a) and _T.is_struct(b):
        names = {b.field(i).name: b.field(i).type for i in range(b.num_fields)}
        return all(a.field(i).name in names and _compatible(a.field(i).type, names[a.field(i).name]) for i in range(a.num_fields))
    if _T.is_dictionary(b):
        return _compatible(a, b.value_type)
    if _T.is_nested(a) and _T.is_nested(b) and not _T.is_struct(a) and not _T.is_struct(b) and not _T.is_union(b):
        if _T.is_map(b):
            return _T.is_map(a) or _T.is_struct(getattr(a, "value_type", pa.null())) or True
        return not _T.is_map(a) and _compatible(a.value_type, b.value_type)
    return _family(a) == _family(b)


def _same_floats(a: pa.Array, b: pa.Array) -> bool:
    """Whether floats narrowed somewhere inside b are those of a (NaN equals NaN). Other types cannot differ after a safe cast."""
    if isinstance(b, pa.ExtensionArray):
        b = b.storage
    if isinstance(a, pa.ExtensionArray):
        a = a.storage
    if _T.is_floating(b.type):
        if not _T.is_floating(a.type) or a.type == b.type:
            return True
        x, y = (np.asarray(plain_view(v.drop_null()), np.float64) for v in (a, b))
        return bool(np.array_equal(x, y, equal_nan=True))
    if _T.is_struct(a.type) and _T.is_struct(b.type):
        return all(
            _same_floats(a.field(b.type.field(i).name), b.field(i))
            for i in range(b.type.num_fields)
            if a.type.get_field_index(b.type.field(i).name) >= 0
        )
    if _T.is_nested(a.type) and _T.is_nested(b.type) and not _T.is_map(b.type) and not _T.is_union(b.type) and not _T.is_struct(b.type):
        return _same_floats(a.flatten(), b.flatten())
    return True


# ---- rows


def to_columns(rb: pa.RecordBatch) -> list[list[Any]]:
    """Python values, column by column: ints, floats, str, ..., None for null; tensors as ndarrays."""
    out = []
    for name, col in zip(rb.schema.names, rb.columns, strict=True):
        t = col.type
        if t.id in _LISTS or t.id == _FSL:
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


def from_rows(rows: list[Mapping[str, Any]], what: str, rb: pa.RecordBatch | None = None, sure: bool = False) -> pa.RecordBatch | None:
    """A batch of rows (dicts; a missing key is null; columns in order of appearance). sure: all rows are known to be dicts."""
    if not rows:
        return None
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
        old = _hint(k, rb)
        try:
            arrays.append(from_objects(values, None if old is None else old.type, old))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as e:
            raise type(e)(f"{what} returned column {k!r} that cannot become an Arrow column: {e}") from None
    if DataContext.get_current().enable_fallback_to_arrow_object_ext_type is False:
        _no_objects(keys, arrays, what)
    if not arrays:
        return None
    return pa.RecordBatch.from_arrays(arrays, names=keys)


def _no_objects(names: list[str], arrays: list[pa.Array], what: str) -> None:
    """For rows, as in Ray: batches may hold objects whatever the setting says."""
    for name, a in zip(names, arrays, strict=True):
        if isinstance(a.type, PythonObjectType):
            from skate.data.extensions import ArrowConversionError

            raise ArrowConversionError(
                f"{what} returned column {name!r} that cannot become an Arrow column: it holds objects, and they are not pickled, since "
                "DataContext.enable_fallback_to_arrow_object_ext_type is False"
            )


# ---- pandas


def to_pandas(rb: pa.RecordBatch) -> Any:
    """A DataFrame (its own memory, may be changed in place)."""
    import pandas as pd

    return pd.DataFrame(
        {name: _series(pd, name, col) for name, col in zip(rb.schema.names, rb.columns, strict=True)}, index=pd.RangeIndex(rb.num_rows)
    )


def table_to_pandas(t: pa.Table) -> Any:
    rbs = _from_table(t)
    import pandas as pd

    return to_pandas(rbs[0]) if len(rbs) == 1 else pd.concat([to_pandas(b) for b in rbs], ignore_index=True)


def _series(pd: Any, name: str, col: pa.Array) -> Any:
    t = col.type
    tid = t.id
    if tid in _NUM or tid == _BOOL:
        if col.null_count == 0:
            return pd.Series(np.array(column_to_numpy(name, col)))
        m = column_to_numpy(name, col.cast(pa.float32()) if _T.is_float16(t) else col)
        kind = pd.arrays.BooleanArray if tid == _BOOL else pd.arrays.FloatingArray if _T.is_floating(t) else pd.arrays.IntegerArray
        return pd.Series(kind(np.array(m.data), np.array(m.mask)))
    if _T.is_timestamp(t) or _T.is_duration(t):
        s = pd.Series(np.array(_temporal(name, col)))
        return s if _T.is_duration(t) or t.tz is None else s.dt.tz_localize("UTC").dt.tz_convert(_zone(t.tz))
    if _T.is_dictionary(t) and col.dictionary.null_count == 0 and (_T.is_string(t.value_type) or _T.is_integer(t.value_type)):
        d = col.dictionary.to_pylist()
        if len(set(d)) == len(d):
            codes = col.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            return pd.Series(pd.Categorical.from_codes(codes, categories=d, ordered=t.ordered))
    if _T.is_dictionary(t):
        return _series(pd, name, col.dictionary_decode())
    if _T.is_run_end_encoded(t):
        return _series(pd, name, _decoded(col))
    if _T.is_string(t) or _T.is_large_string(t):
        return pd.Series(col.to_pylist(), dtype="str" if hasattr(pd, "StringDtype") and pd.__version__ >= "3" else object)
    if (is_fixed(t) or is_ragged(t)) and not DataContext.get_current().enable_tensor_extension_casting and not col.null_count:
        from skate.data.extensions import TensorArray

        return pd.Series(TensorArray(_tensor_to_numpy(col) if is_fixed(t) else to_objects(name, col)))
    if not _can_rebuild(t) and not is_fixed(t):
        raise TypeError(f'column {name!r} ({t}) has no exact pandas form; use batch_format="pyarrow", or drop it first')
    return pd.Series(_objects_array(to_objects(name, col)), dtype=object)


def _zone(tz: str) -> Any:
    """What pandas takes for Arrow's zone: a name, or a fixed offset such as +05:30."""
    return tz


def _objects_array(values: list[Any]) -> np.ndarray:
    out = np.empty(len(values), object)
    for i, v in enumerate(values):
        out[i] = v
    return out


def from_pandas(df: Any, what: str, rb: pa.RecordBatch | None = None) -> pa.RecordBatch:
    """A DataFrame as a batch; its index is left out. NaN in float columns stays NaN; None, NA and NaT are null."""
    cols, names = [], []
    for i, name in enumerate(df.columns):
        name = str(name)
        old = _hint(name, rb)
        s = df.iloc[:, i]
        try:
            cols.append(_from_series(s, None if old is None else old.type, old))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as e:
            raise type(e)(f"{what} returned column {name!r} that cannot become an Arrow column: {e}") from None
        names.append(name)
    if len(set(names)) != len(names):
        raise ValueError(f"{what} returned a DataFrame with a column name twice: {sorted(n for n in names if names.count(n) > 1)[0]!r}")
    return pa.RecordBatch.from_arrays(cols, names=names)


def _from_series(s: Any, hint: pa.DataType | None, old: pa.Array | None = None) -> pa.Array:
    dtype = s.dtype
    if isinstance(dtype, np.dtype):
        if dtype.kind == "O":
            values = s.tolist()
            kept = _same_objects(values, old)  # before NaN is taken for null
            if kept is not None:
                return kept
            mask = s.isna().to_numpy()
            if mask.any():
                values = [None if m else v for v, m in zip(values, mask.tolist(), strict=True)]
            return from_objects(values, hint)
        return array_from_numpy(s.to_numpy(), hint if dtype.kind in "mMb" else None)
    arr = _one(pa.array(s))
    if _T.is_large_string(arr.type) and (hint is None or _family(hint) != _family(arr.type)) and arr.nbytes < 1 << 30:
        arr = arr.cast(pa.string())
    if hint is not None and arr.type != hint:
        kept = exact_cast(arr, hint)
        if kept is not None:
            return kept
    return arr
