"""Converts NumPy arrays and Python values to Arrow columns, in their natural type, or in the type
that they had before if that is exact.

An Arrow array of strings, bytes or lists has 32-bit offsets. If values need larger offsets, they
become a ChunkedArray (of which record_batches() makes several batches); a single value that is too
large gets a type with 64-bit offsets (large_string, large_binary).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator
from typing import Any

from skate._deps import np, pa
from skate._deps import pa_types as _T
from skate.data.values import missing
from skate.data.values import tensor_types as _tt
from skate.data.values.cast import compatible, exact_cast, same_floats
from skate.data.values.encoded_text import plain
from skate.data.values.flat import (
    FIXED_LIST,
    LISTS,
    TYPES,
    bitmap,
    list_values,
    masked,
    of_marked,
    of_numpy,
    plain_array,
    valid_bits,
)
from skate.data.values.from_arrow import to_objects
from skate.data.values.missing import MARKS
from skate.data.values.tensor_types import is_fixed
from skate.data.values.types import (
    PythonObjectType,
    can_rebuild,
    holds_union,
    is_ragged,
    objects_of,
    python_objects,
    ragged_parts,
    ragged_type,
)

CHUNK_BYTES = (1 << 31) - 2  # the most bytes of text or bytes in one array


def one_array(c: Any) -> Any:
    """A ChunkedArray as one Array, if one can hold it."""
    if isinstance(c, pa.Array):
        return c
    try:
        c = c.combine_chunks()
    except pa.ArrowInvalid:  # one array cannot hold the values
        return c
    return (
        c
        if isinstance(c, pa.Array)
        else (c.chunk(0) if c.num_chunks == 1 else pa.concat_arrays(c.chunks))
    )


def record_batches(names: list[str], cols: list[Any]) -> list[pa.RecordBatch]:
    """Puts columns with the same number of rows side by side: in one batch, or in more if some are
    chunked. No column is copied."""
    for c in cols:
        if isinstance(c, pa.ChunkedArray):
            return pa.Table.from_arrays(cols, names=names).to_batches()
    return [pa.RecordBatch.from_arrays(cols, names=names)]


def narrowed(arr: Any) -> Any:
    """A large_string array as string: as a chunked array if one array cannot hold it, unchanged if
    chunks cannot either. Texts are not copied."""
    if isinstance(arr, pa.Array) and arr.nbytes <= CHUNK_BYTES:
        return arr.cast(pa.string())
    chunks = []
    for c in arr.chunks if isinstance(arr, pa.ChunkedArray) else [arr]:
        _, offsets, data = c.buffers()
        ends = (
            np.frombuffer(offsets, np.int64, len(c) + 1, 8 * c.offset)
            if len(c)
            else np.zeros(1, np.int64)
        )
        for a, b in _cuts(ends, CHUNK_BYTES):
            if ends[b] - ends[a] > CHUNK_BYTES:
                return arr
            valid = None if c.null_count == 0 else bitmap(valid_bits(c.slice(a, b - a)))
            small = pa.py_buffer((ends[a : b + 1] - ends[a]).astype(np.int32))
            chunks.append(
                pa.Array.from_buffers(
                    pa.string(),
                    b - a,
                    [valid, small, data.slice(int(ends[a]), int(ends[b] - ends[a]))],
                )
            )
    return pa.chunked_array(chunks, pa.string())


def _cuts(ends: np.ndarray, most: int) -> Iterator[tuple[int, int]]:
    """Yields ranges of values with at most `most` bytes each (a single value may have more);
    ends[i] is the end of the first i values."""
    at = 0
    while at < len(ends) - 1:
        end = max(at + 1, int(np.searchsorted(ends, ends[at] + most, side="right")) - 1)
        yield at, end
        at = end


def exact(arr: Any, to: pa.DataType) -> Any:
    """exact_cast() for an array that may be chunked."""
    if isinstance(arr, pa.Array):
        return exact_cast(arr, to)
    kept = [exact_cast(c, to) for c in arr.chunks]
    return None if any(c is None for c in kept) else pa.chunked_array(kept, to)


def array_from_numpy(
    v: np.ndarray, hint: pa.DataType | None, old: pa.Array | None = None, marks: bool = False
) -> pa.Array:
    """An Arrow array of v. `hint`: the type that the array gets if that is exact; `old`: the column
    from which v was made; `marks`: NaN with a mark becomes null (missing.py)."""
    if v.ndim == 0:
        raise ValueError("it is a single value (0-d array); a column has one value per row")
    if v.ndim == 1 and v.dtype in TYPES and not masked(v):
        arr = (
            of_marked(v, values_of(hint))
            if marks and v.dtype.kind == "f"
            else plain_array(TYPES[v.dtype], v)
        )
        kept = None if hint is None else exact_cast(arr, hint, naive_ok=True)
        return arr if kept is None else kept
    kind = v.dtype.kind
    if v.ndim > 1 and kind not in "OUS":
        return _tensor_from_numpy(v, hint, old, marks)
    if kind == "O" or v.ndim > 1:
        values = np.ma.filled(v.astype(object), None).tolist() if masked(v) else v.tolist()
        if (
            hint is not None
            and not can_rebuild(hint)
            and not is_fixed(hint)
            and not (_T.is_run_end_encoded(hint) and can_rebuild(hint.value_type))
        ):
            raise TypeError(
                f'type {hint} cannot be made from Python values; return the array itself, drop the column, or use batch_format="pyarrow"'
            )
        return from_objects(values, hint, old)
    if kind == "U" or kind == "S":
        arr = from_objects(
            np.ma.filled(v.astype(object), None).tolist() if masked(v) else v.tolist(),
            None,
        )
        if not len(arr):
            arr = pa.nulls(0, pa.string() if kind == "U" else pa.binary())
    else:
        arr = of_numpy(v)
    if hint is not None and arr.type != hint:
        kept = exact_cast(arr, hint, naive_ok=True)
        if kept is not None:
            return kept
    return arr


def values_of(t: pa.DataType | None) -> pa.DataType | None:
    """The type of the values in a dictionary or in runs; other types unchanged."""
    return (
        None
        if t is None
        else t.value_type
        if _T.is_dictionary(t) or _T.is_run_end_encoded(t)
        else t
    )


def _tensor_from_numpy(
    v: np.ndarray, hint: Any = None, old: pa.Array | None = None, marks: bool = False
) -> pa.Array:
    if masked(v):
        if np.ma.getmaskarray(v).any():
            raise TypeError(
                "a masked array of more than one dimension has no Arrow type; fill the masked values first"
            )
        v = np.ma.getdata(v)
    if v.dtype not in MARKS:
        return _tensor(v, hint)
    flat_type = hint.value_type if old is not None and lacks(old) else None
    null = missing.marked_rows(v) if marks or old is not None and old.null_count else None
    arr = _tensor(v, hint, flat_type)
    return arr if null is None or not null.any() else without_rows(arr, null)


def _holds_numbers(t: pa.DataType) -> bool:
    """Whether this is a type of lists or of arrays, with numbers in them."""
    return t.id in LISTS or t.id == FIXED_LIST or is_fixed(t) or is_ragged(t)


def lacks(col: pa.Array) -> bool:
    """Whether some numbers inside a column of lists or arrays are null."""
    lists = col.storage if isinstance(col, pa.ExtensionArray) else col
    return list_values(lists.field("data") if is_ragged(col.type) else lists).null_count > 0


def without_rows(arr: pa.Array, null: np.ndarray) -> pa.Array:
    """Makes a column of arrays of one shape. null: which of them are null."""
    lists = arr.storage if isinstance(arr, pa.ExtensionArray) else arr
    own = [] if lists.type.id == FIXED_LIST else [lists.buffers()[1]]
    lists = pa.Array.from_buffers(
        lists.type, len(lists), [bitmap(~null), *own], children=[lists.values]
    )
    return (
        pa.ExtensionArray.from_storage(arr.type, lists)
        if isinstance(arr, pa.ExtensionArray)
        else lists
    )


def _tensor(v: np.ndarray, hint: Any, flat_type: pa.DataType | None = None) -> pa.Array:
    """Makes a column of the arrays along the first axis of v. flat_type: the type of the numbers,
    of which some may be missing; None: none is missing."""

    def flat_of(v: np.ndarray) -> pa.Array:
        v = np.ascontiguousarray(v).reshape(-1)
        return array_from_numpy(v, None) if flat_type is None else of_marked(v, flat_type)

    shape = v.shape[1:]
    size = math.prod(shape)
    if hint is not None and _T.is_fixed_size_list(hint) and len(shape) == 1:
        flat = flat_of(v)
        if flat.type == hint.value_type:
            return (
                pa.FixedSizeListArray.from_arrays(flat, type=hint)
                if size
                else _zero_lists(len(v), hint)
            )
    if (
        isinstance(hint, pa.FixedShapeTensorType)
        and (order := getattr(hint, "permutation", None)) is not None
        and tuple(getattr(hint, "shape", ())[p] for p in order) == shape
    ):
        inverse = np.argsort(order)
        flat = flat_of(v.transpose(0, *(int(i) + 1 for i in inverse)))
        typ = hint
    else:
        flat = flat_of(v)
        keep = (
            hint is not None
            and is_fixed(hint)
            and getattr(hint, "permutation", None) is None
            and tuple(hint.shape) == shape
            and hint.value_type == flat.type
        )
        typ: Any = hint if keep else _tt.CLASSES[_tt.context_format()]
        if not keep:
            if typ is not pa.FixedShapeTensorType:
                return _tt.of_numpy(v, _tt.context_format())
            typ = pa.fixed_shape_tensor(flat.type, shape)
        elif not isinstance(typ, pa.FixedShapeTensorType):
            return _tt.of_flat(flat, len(v), typ)
    if typ.value_type != flat.type:
        typ = pa.fixed_shape_tensor(flat.type, shape)
    storage = (
        pa.FixedSizeListArray.from_arrays(flat, size)
        if size
        else _zero_lists(len(v), typ.storage_type)
    )
    if storage.type != typ.storage_type:
        storage = storage.cast(typ.storage_type)
    return pa.ExtensionArray.from_storage(typ, storage)


def _zero_lists(n: int, t: pa.DataType) -> pa.Array:
    return pa.array([[]] * n, t)


def from_objects(values: list[Any], hint: pa.DataType | None, old: pa.Array | None = None) -> Any:
    """An Arrow array (chunked if one array cannot hold it) of Python values (None: null). It has
    type `hint` if that is exact. old: the column of that type from which the values come, if
    known."""
    if hint is not None and _T.is_nested(hint) and holds_union(hint):
        raise TypeError(
            f'type {hint} cannot be made from Python values; drop the column, or use batch_format="pyarrow"'
        )
    first = next((v for v in values if v is not None), None)
    if isinstance(hint, PythonObjectType):
        return _objects_again(values, old)
    if first is not None and (
        isinstance(first, np.ndarray) or type(first).__module__.startswith("torch")
    ):
        arr = _from_arrays(values, hint, old)
        if arr is not None:
            return arr
    if (
        hint is not None
        and isinstance(hint, pa.BaseExtensionType)
        and (
            first is None
            or not is_fixed(hint)
            and not isinstance(hint, (pa.UuidType, pa.Bool8Type))
        )
    ):
        storage = from_objects(values, hint.storage_type)
        if storage.type != hint.storage_type:
            return storage
        if isinstance(storage, pa.ChunkedArray):
            return pa.chunked_array(
                [pa.ExtensionArray.from_storage(hint, c) for c in storage.chunks]
            )
        return pa.ExtensionArray.from_storage(hint, storage)
    natural = None
    error: Exception | None = None
    try:
        natural = of_one_kind(values) if type(first).__module__ != "uuid" else _uuids(values)
        if natural is None:
            natural = _natural(values)
        unit = _pandas_unit(values, natural.type)
        if unit is not None:
            natural = pa.array(
                values,
                type=pa.duration(unit)
                if _T.is_duration(natural.type)
                else pa.timestamp(unit, natural.type.tz),
            )
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
            if natural is None or compatible(natural.type, hint):
                try:
                    kept = pa.array(values, type=hint)
                except (pa.ArrowException, TypeError, ValueError, OverflowError) as e:
                    error = error or e
                if kept is not None and natural is not None:
                    chunked = isinstance(natural, pa.ChunkedArray) or isinstance(
                        kept, pa.ChunkedArray
                    )
                    kept = None if chunked or not same_floats(natural, kept) else kept
        else:
            kept = exact(natural, hint)
        if kept is not None:
            return kept
    if natural is not None:
        return natural
    assert error is not None
    # some ints need more than 64 bits
    if (
        _foreign(values)
        or isinstance(error, OverflowError)
        and {type(v) for v in values} <= {int, type(None)}
    ):
        return python_objects(values)
    if len({type(v) for v in values if v is not None}) > 1:
        kinds = sorted({type(v).__name__ for v in values if v is not None})
        raise TypeError(
            f"values of mixed types ({', '.join(kinds)}): {error}; return one type"
        ) from None
    raise error


def _objects_again(values: list[Any], old: pa.Array | None) -> pa.Array:
    """Makes a column of the values that a function returned for a column of objects. It is a column
    of objects again if all values are among those that the function got, or if no other type can
    represent them."""
    kept = same_objects(values, old)
    if kept is not None:
        return kept
    if _foreign(values):
        return python_objects(values)
    try:
        return from_objects(values, None)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return python_objects(values)


def same_objects(values: list[Any], old: pa.Array | None) -> pa.Array | None:
    """The values as a column of objects, if all of them (except None) are in `old`, a column of
    objects, by comparison of their pickles; else None."""
    if old is None or not isinstance(old.type, PythonObjectType):
        return None
    try:
        again = python_objects(values)
    except TypeError:  # new objects that cannot be pickled: the caller raises the error about them
        return None
    new = set(again.storage.to_pylist()) - {None, *old.storage.to_pylist()}
    # An unpickled object may have another pickle than the original: a text that was both an
    # attribute's value and its name may have been one shared object.
    return (
        again
        if not new or new.issubset(python_objects(objects_of(old)).storage.to_pylist())
        else None
    )


_PLAIN = {
    "builtins",
    "datetime",
    "decimal",
    "numpy",
    "uuid",
    "pandas",
    "pyarrow",
    "torch",
    "collections",
}


def _foreign(values: Iterable[Any], inside: bool = False) -> bool:
    """Whether there is an object of a class that has no Arrow form, or an array in a list, tuple or
    dict (`inside`), which Arrow cannot convert. Only columns with such values are pickled; a mix of
    plain types stays an error."""
    for v in values:
        if isinstance(v, (list, tuple)) or type(v) is dict:
            if _foreign(v.values() if type(v) is dict else v, True):
                return True
        elif hasattr(v, "__array__") or hasattr(v, "__arrow_array__"):
            if inside and not isinstance(v, np.generic):
                return True
        elif (
            type(v) is object
            or isinstance(v, BaseException)
            or type(v).__module__.split(".")[0] not in _PLAIN
        ):
            return True
    return False


def _natural(values: list[Any]) -> Any:
    """Converts values to the type that Arrow chooses."""
    try:
        return pa.array(values)
    except pa.ArrowCapacityError:  # one value is too large for an array
        kinds = set(map(type, values)) - {type(None)}
        if kinds != {str} and kinds != {bytes}:
            raise
        return pa.array(values, pa.large_string() if kinds == {str} else pa.large_binary())


def of_one_kind(values: list[Any]) -> Any:
    """Converts a list of plain Python values of one type without None through NumPy; None for other
    values."""
    kinds = set(map(type, values))
    if len(kinds) != 1:
        return None
    (kind,) = kinds
    if kind is int:
        try:
            return plain_array(TYPES[np.dtype(np.int64)], np.array(values, np.int64))
        except OverflowError:
            return None
    if kind is float:
        return plain_array(TYPES[np.dtype(np.float64)], np.array(values, np.float64))
    if kind is bool:
        return pa.Array.from_buffers(
            pa.bool_(), len(values), [None, bitmap(np.array(values, bool))]
        )
    if kind is str:
        ends = _ends(values)
        if ends[-1] > CHUNK_BYTES // 4:  # the most bytes that the values may have
            return _in_groups(values, ends, CHUNK_BYTES // 4, pa.string())
        text = "".join(values)
        if text.isascii():
            return _pieces_array(pa.string(), ends, text.encode())
        values = [v.encode() for v in values]
        return _pieces_array(pa.string(), _ends(values), b"".join(values))
    if kind is bytes:
        ends = _ends(values)
        if ends[-1] > CHUNK_BYTES:
            return _in_groups(values, ends, CHUNK_BYTES, pa.binary())
        return _pieces_array(pa.binary(), ends, b"".join(values))
    return None


def _ends(values: list[Any]) -> np.ndarray:
    """0, followed by the end of each value in their concatenation."""
    ends = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, values), np.int64, len(values)), out=ends[1:])
    return ends


def one_of_bytes(data: bytes) -> Any:
    """A binary column of one row."""
    if len(data) > CHUNK_BYTES:
        return _natural([data])
    return pa.Array.from_buffers(
        pa.binary(), 1, [None, pa.py_buffer(struct.pack("<ii", 0, len(data))), pa.py_buffer(data)]
    )


def _uuids(values: list[Any]) -> pa.Array | None:
    """Converts UUIDs and None, which pyarrow itself can convert from version 21 on; None for other
    values."""
    kind = type(next(v for v in values if v is not None))
    if any(type(v) is not kind for v in values if v is not None) or kind.__name__ != "UUID":
        return None
    return pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([None if v is None else v.bytes for v in values], pa.binary(16))
    )


def _pieces_array(t: pa.DataType, ends: np.ndarray, data: bytes) -> pa.Array:
    return pa.Array.from_buffers(
        t, len(ends) - 1, [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(data)]
    )


def _in_groups(values: list[Any], ends: np.ndarray, most: int, t: pa.DataType) -> Any:
    """The values as a ChunkedArray with at most `most` bytes in each chunk (a single value may have
    more)."""
    chunks = [
        of_one_kind(values[a:b]) if b > a + 1 else _natural(values[a:b])
        for a, b in _cuts(ends, most)
    ]
    large = next((c.type for c in chunks if c.type != t), None)
    return pa.chunked_array(chunks if large is None else [c.cast(large) for c in chunks])


def _pandas_unit(values: list[Any], t: pa.DataType) -> str | None:
    """The finest unit of pandas' own times, where Arrow would choose microseconds; None if there
    are other values, or Arrow chooses the right unit."""
    if not (_T.is_timestamp(t) or _T.is_duration(t)) or t.unit != "us":
        return None
    units = {getattr(v, "unit", "us") for v in values if v is not None}
    finest = next((u for u in ("ns", "us", "ms", "s") if u in units), "us")
    return None if finest == "us" else finest


def _from_arrays(
    values: list[Any], hint: pa.DataType | None, old: pa.Array | None = None
) -> pa.Array | None:
    """Converts ndarrays, one for each row: to a list column if the hint is one, to a tensor column
    if all have one shape, else to lists (only one-dimensional arrays)."""
    arrays = [v if v is None or type(v) is np.ndarray else _unmasked(v) for v in values]
    some = [a for a in arrays if a is not None]
    if old is not None and not (
        some
        and some[0].dtype in MARKS
        and _holds_numbers(old.type)
        and lacks(old)
        and all(a.dtype in MARKS for a in some)
    ):
        old = None
    if all(a.ndim == 0 for a in some):
        return from_objects(
            [
                None if a is None else a.item() if a.dtype.kind not in "Mm" else a[()]
                for a in arrays
            ],
            hint,
        )
    dtypes = {a.dtype for a in some}
    if any(d.kind in "OUS" for d in dtypes):
        return from_objects([None if a is None else a.tolist() for a in arrays], hint)
    if (
        hint is not None
        and (hint.id in LISTS or hint.id == FIXED_LIST)
        and all(a.ndim == 1 for a in some)
    ):
        if old is not None:
            return _marked_lists(arrays, hint)
        if {pa.from_numpy_dtype(d) for d in dtypes} == {hint.value_type}:
            try:
                return pa.array(arrays, type=hint)
            except pa.ArrowInvalid:
                pass  # the lists do not have the fixed size any more
        return (
            pa.array(arrays)
            if hint.id in LISTS
            else pa.array([None if a is None else a for a in arrays])
        )
    shapes = {a.shape for a in some}
    if (
        hint is not None
        and is_ragged(hint)
        and len(dtypes) == 1
        and {len(s) for s in shapes} == {ragged_parts(hint)[1]}
    ):
        if old is not None or ragged_parts(hint)[0] == pa.from_numpy_dtype(next(iter(dtypes))):
            return _tt.ragged(arrays, hint, old is not None)
    if len(shapes) == 1 and len(dtypes) == 1:
        dense = _tensor_from_numpy(np.stack(some), hint, old)
        if len(some) == len(arrays):
            return dense
        at, index = 0, []
        for a in arrays:
            index.append(None if a is None else at)
            at += a is not None
        return pa.ExtensionArray.from_storage(
            dense.type, dense.storage.take(pa.array(index, pa.int64()))
        )
    if all(a.ndim == 1 for a in some):
        return pa.array(arrays)
    if len(dtypes) == 1 and len({len(s) for s in shapes}) == 1:
        return _tt.ragged(
            arrays, ragged_type(pa.from_numpy_dtype(next(iter(dtypes))), len(next(iter(shapes))))
        )
    raise TypeError(
        f"arrays of different kinds in one column ({', '.join(map(str, sorted(shapes, key=str)[:3]))}); "
        f"give all the same dtype and number of dimensions"
    )


def _unmasked(v: Any) -> Any:
    """An array or single value without its mask; None for a single value that is masked."""
    if not masked(v):
        return np.asarray(v)
    values, null = np.ma.getdata(v), np.ma.getmaskarray(v)
    if v.ndim == 0:
        return None if null else values
    if not null.any():
        return values
    return (
        missing.shown(values, null)
        if v.dtype.kind in "biuf"
        else np.ma.filled(v.astype(object), None)
    )


def _marked_lists(arrays: list[Any], t: Any) -> pa.Array:
    """Restores a column of lists. from_arrow.py made lists of floats from a column of type t,
    because numbers were missing in it; the result has type t if that type can represent all values
    exactly."""
    size = t.list_size if t.id == FIXED_LIST else None
    if size is not None and any(len(a) != size for a in arrays if a is not None):
        size = None
    none = np.zeros(size or 0, next(a for a in arrays if a is not None).dtype)
    parts = [none if a is None else a for a in arrays]
    flat = of_marked(np.concatenate(parts), t.value_type)
    kind = (
        t
        if flat.type == t.value_type and (size is not None or t.id != FIXED_LIST)
        else pa.list_(flat.type, size or -1)
    )
    null = pa.array([a is None for a in arrays]) if any(a is None for a in arrays) else None
    if size is not None:
        return pa.FixedSizeListArray.from_arrays(flat, type=kind, mask=null)
    large = _T.is_large_list(kind)
    ends = np.concatenate([[0], np.cumsum([len(a) for a in parts])]).astype(
        np.int64 if large else np.int32
    )
    return (pa.LargeListArray if large else pa.ListArray).from_arrays(
        pa.array(ends), flat, type=kind, mask=null
    )


def ragged_of_fixed(col: pa.Array, t: pa.DataType) -> pa.Array:
    """Converts a column of fixed-shape tensors to one of variable shapes."""
    return _tt.ragged([None if a is None else np.asarray(a) for a in to_objects("", col)], t)


def from_table(t: pa.Table) -> list[pa.RecordBatch]:
    t = _tt.ours(t)
    if t.num_rows == 0:
        return [pa.RecordBatch.from_arrays([_no_rows(c) for c in t.columns], schema=t.schema)]
    return (t.combine_chunks() if any(c.num_chunks > 1 for c in t.columns) else t).to_batches()


def _no_rows(c: pa.ChunkedArray) -> pa.Array:
    if c.num_chunks:
        return c.chunk(0).slice(0, 0)
    t = c.type
    return (
        pa.ExtensionArray.from_storage(t, pa.array([], t.storage_type))
        if isinstance(t, pa.BaseExtensionType)
        else pa.array([], t)
    )


def column_before(name: str, rb: pa.RecordBatch | None) -> pa.Array | None:
    i = -1 if rb is None else rb.schema.get_field_index(name)
    return rb.column(i) if rb is not None and i >= 0 else None


def hint_of(name: str, rb: pa.RecordBatch | None) -> pa.Array | None:
    old = column_before(name, rb)
    return None if old is None else plain(old)
