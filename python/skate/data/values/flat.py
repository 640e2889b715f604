"""Converts columns of numbers, booleans, times and texts between Arrow and NumPy by their buffers;
also has tables of type ids. Other modules convert tensors and nested types.

pa.array() and to_numpy() would do the same, but import pandas at their first call (0.2 s and 40 MB
in each process).
"""

from __future__ import annotations

import sys
from typing import Any

from skate import _skate
from skate._deps import np, pa
from skate._deps import pa_types as _T
from skate.data.values import missing

TYPES = {
    np.dtype(n): getattr(pa, n)()
    for n in (
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
    )
}
DTYPES = {t.id: d for d, t in TYPES.items()}
NUMBERS = set(DTYPES)
BOOL = pa.bool_().id
TEMPORAL = {pa.timestamp("s").id, pa.duration("s").id, pa.date32().id, pa.date64().id}
FIXED_LIST = pa.list_(pa.int8(), 1).id
DICTIONARY = pa.dictionary(pa.int8(), pa.int8()).id
LISTS = {pa.list_(pa.int8()).id, pa.large_list(pa.int8()).id}
TEXT = {  # type id -> (whether the values are bytes, whether offsets have 8 bytes)
    pa.string().id: (False, False),
    pa.large_string().id: (False, True),
    pa.binary().id: (True, False),
    pa.large_binary().id: (True, True),
}
INT64_MIN = np.iinfo(np.int64).min


# ---- From Arrow to NumPy.


def to_numpy(name: str, col: pa.Array) -> np.ndarray | None:
    """The values of a column: a read-only view for numbers and times, a copy if numbers are missing
    (missing.py), objects for texts. None: the column is of another kind."""
    tid = col.type.id
    if tid in NUMBERS or tid == BOOL:
        v = stored(col)
        return v if col.null_count == 0 else missing.shown(v, ~valid_bits(col))
    if tid in TEMPORAL:
        return times_to_numpy(name, col)
    if tid in TEXT:
        return texts(name, col, np.empty(len(col), object))
    return None


def stored(col: pa.Array) -> np.ndarray:
    """The values of a column of numbers or bools; under nulls they are arbitrary."""
    return _bits(col.buffers()[1], col) if col.type.id == BOOL else plain_view(col)


def texts(name: str, col: pa.Array, out: Any) -> Any:
    """Fills `out`, a list or object array of None, with the str or bytes values of a column, and
    returns `out`."""
    valid, offsets, data = col.buffers()
    try:
        _skate.text_objects(
            out, *TEXT[col.type.id], col.offset, valid if col.null_count else None, offsets, data
        )
    except ValueError as e:
        raise ValueError(
            f'column {name!r} ({col.type}) has no exact Python form: {e}; use batch_format="pyarrow"'
        ) from None
    return out


def plain_view(col: pa.Array, dtype: np.dtype | None = None) -> np.ndarray:
    """A read-only view of the values of a fixed-width column; under nulls they are arbitrary."""
    dtype = dtype or DTYPES[col.type.id]
    buf = col.buffers()[1]
    if buf is None or buf.size == 0:
        v = np.zeros(len(col), dtype)
    else:
        v = np.frombuffer(buf, dtype, len(col), col.offset * dtype.itemsize)
    v.setflags(write=False)
    return v


def _bits(buf: pa.Buffer | None, col: pa.Array) -> np.ndarray:
    """A bitmap of col as an array of bools (a copy)."""
    n, at = len(col), col.offset
    if buf is None or n == 0:
        return np.zeros(n, bool)
    first = at // 8
    return np.unpackbits(
        np.frombuffer(buf, np.uint8, (at + n + 7) // 8 - first, first), bitorder="little"
    )[at % 8 : at % 8 + n].view(bool)


def valid_bits(col: pa.Array) -> np.ndarray:
    buf = col.buffers()[0]
    return np.ones(len(col), bool) if buf is None else _bits(buf, col)


def times_to_numpy(name: str, col: pa.Array) -> np.ndarray:
    t = col.type
    ints = (
        plain_view(col, np.dtype(np.int32)).astype(np.int64)
        if _T.is_date32(t)
        else plain_view(col, np.dtype(np.int64))
    )
    if col.null_count:
        ints = np.where(valid_bits(col), ints, INT64_MIN)
    ints.setflags(write=False)
    unit = "D" if _T.is_date32(t) else "ms" if _T.is_date64(t) else t.unit
    out = ints.view(f"{'timedelta64' if _T.is_duration(t) else 'datetime64'}[{unit}]")
    if np.count_nonzero(np.isnat(out)) != col.null_count:
        raise ValueError(
            f'column {name!r} ({t}) holds the value {INT64_MIN}, which numpy takes for a missing one; use batch_format="pyarrow"'
        )
    return out


def list_values(col: pa.Array) -> pa.Array:
    """The values of a list, large list or fixed-size list column without nulls. col.flatten() would
    return the same, but calls pyarrow.compute (20 us, and 80 ms to import it)."""
    t, n = col.type, len(col)
    if pa.types.is_fixed_size_list(t):
        first, end = col.offset * t.list_size, (col.offset + n) * t.list_size
    elif n == 0:
        first = end = 0
    else:
        width = np.int64 if pa.types.is_large_list(t) else np.int32
        offsets = np.frombuffer(
            col.buffers()[1], width, n + 1, col.offset * np.dtype(width).itemsize
        )
        first, end = int(offsets[0]), int(offsets[n])
    values = col.values
    return values if first == 0 and end == len(values) else values.slice(first, end - first)


# ---- From NumPy to Arrow.


def masked(v: np.ndarray) -> bool:
    """Whether an array has a mask. Who made it has imported numpy.ma, which is not imported here,
    as that takes 8 ms in each process."""
    ma = sys.modules.get("numpy.ma")
    return isinstance(v, getattr(ma, "MaskedArray", ()))


def without_mask(v: np.ndarray) -> np.ndarray:
    """The values of an array, those behind a mask among them."""
    return np.ma.getdata(v) if masked(v) else v


def of_numpy(v: np.ndarray) -> pa.Array:
    """Makes a column of a one-dimensional array, in the Arrow type of its dtype; TypeError if there
    is no such type."""
    if v.ndim == 0:
        raise ValueError("it is a single value (0-d array); a column has one value per row")
    kind = v.dtype.kind
    if kind in "OUS":
        values = np.ma.filled(v.astype(object), None).tolist() if masked(v) else v.tolist()
        return pa.array(values, pa.binary() if kind == "S" else pa.string())
    if kind == "M" or kind == "m":
        unit = np.datetime_data(v.dtype)
        if (
            unit[1] != 1
            or unit[0] not in ("s", "ms", "us", "ns", "D")
            or (unit[0] == "D" and kind == "m")
        ):
            raise TypeError(
                f'dtype {v.dtype} has no Arrow type; use v.astype("{"datetime64" if kind == "M" else "timedelta64"}[s]") (or ms, us, ns)'
            )
        null = np.isnat(without_mask(v))
        if masked(v):
            null = null | np.ma.getmaskarray(v)
        ints = (
            np.ascontiguousarray(without_mask(v))
            .astype(v.dtype.newbyteorder("="), copy=False)
            .view(np.int64)
        )
        if unit[0] == "D":
            ints = np.where(null, 0, ints)
            if ints.size and (ints.min() < -(2**31) or ints.max() >= 2**31):
                raise ValueError("a date is beyond what Arrow's date32 holds")
            ints = ints.astype(np.int32)
        typ = (
            pa.date32()
            if unit[0] == "D"
            else pa.timestamp(unit[0])
            if kind == "M"
            else pa.duration(unit[0])
        )
        return plain_array(typ, ints, null if null.any() else None)
    if kind == "b":
        data = without_mask(v)
        return pa.Array.from_buffers(
            pa.bool_(),
            len(v),
            [
                bitmap(~np.ma.getmaskarray(v)) if masked(v) else None,
                bitmap(data),
            ],
        )
    if not v.dtype.isnative:
        v = v.astype(v.dtype.newbyteorder("="))
    if v.dtype not in TYPES:
        raise TypeError(f"dtype {v.dtype} has no Arrow type; split it into columns of numbers")
    return plain_array(
        TYPES[v.dtype],
        without_mask(v),
        np.ma.getmaskarray(v) if masked(v) else None,
    )


def of_marked(v: np.ndarray, t: pa.DataType | None = None) -> pa.Array:
    """Makes a column of an array of floats that may be a result of missing.shown(): NaN with the
    mark becomes null. t: the type of the original column. Integers and bools have no NaN, so if t
    is one of these, every NaN becomes null; the column has type t if all other values fit it and
    are small enough for float64 to represent them exactly."""
    if t is not None and (t.id == BOOL or _T.is_integer(t)):
        null = np.isnan(v)
        ints = missing.whole(v, null, np.dtype(bool) if t.id == BOOL else DTYPES[t.id])
        if ints is not None:
            if t.id == BOOL:
                return pa.Array.from_buffers(t, len(v), [bitmap(~null), bitmap(ints)])
            return plain_array(t, ints, null if null.any() else None)
    null = missing.marked(v)
    return plain_array(TYPES[v.dtype], v, null if null.any() else None)


def bitmap(bits: np.ndarray) -> pa.Buffer:
    return pa.py_buffer(np.packbits(bits, bitorder="little"))


def plain_array(t: pa.DataType, v: np.ndarray, null: np.ndarray | None = None) -> pa.Array:
    """An Arrow array over the memory of the NumPy array v."""
    return pa.Array.from_buffers(
        t,
        len(v),
        [
            None if null is None else bitmap(~null),
            pa.py_buffer(v if v.flags.c_contiguous else np.ascontiguousarray(v)),
        ],
    )
