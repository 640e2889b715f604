"""Missing numbers in NumPy arrays, which have no null: NaN, or None if float64 cannot represent the
other values (values/batch.py has the table).

A null is handed out as a NaN with a mark in its unused bits (the payload), like NA in R. NumPy
calculates with it as with any NaN; copies, slices, selections, conversions between floats and
arithmetic preserve the mark. So when an array is returned, a NaN with the mark becomes null again,
and a NaN of the data or of a calculation (0/0) stays NaN, whichever rows were selected and wherever
blocks end. The mark is in bits that all float types have, so it survives the conversion from
float64 to float16 and back. After operations that lose the mark (a sort, a GPU) the NaN is a plain
NaN.
"""

from __future__ import annotations

from skate._deps import np

MOST = 1 << 53  # integers up to here are exact in float64
# The mark, as a value of the nine payload bits of a float16 NaN, and a further bit that is set in
# the marks of an array that is null as a whole
_PAYLOAD, _ROW = 0x156, 1
# dtype -> (unsigned type of its bits, bits of a quiet NaN, position of the nine bits, mask of the
# bits that are equal in all marks)
_FORMS = {
    np.dtype(f): (
        np.dtype(u),
        quiet,
        at,
        ~((1 << np.dtype(f).itemsize * 8 - 1) | _ROW << at) & (1 << np.dtype(f).itemsize * 8) - 1,
    )
    for f, u, quiet, at in (
        (np.float16, np.uint16, 0x7E00, 0),
        (np.float32, np.uint32, 0x7FC00000, 13),
        (np.float64, np.uint64, 0x7FF8 << 48, 42),
    )
}
MARKS = {f: np.array([q | _PAYLOAD << at], u).view(f)[0] for f, (u, q, at, _) in _FORMS.items()}
ROW_MARKS = {
    f: np.array([q | (_PAYLOAD | _ROW) << at], u).view(f)[0] for f, (u, q, at, _) in _FORMS.items()
}


def shown(v: np.ndarray, null: np.ndarray) -> np.ndarray:
    """The numbers or bools of v as user functions get them, where `null` says which are null (v has
    arbitrary values there): floats in their dtype with NaN, others as float64 with NaN, or as
    objects with None if float64 cannot represent all of them exactly. The result is read-only."""
    if v.dtype.kind == "f":
        out = v.copy()
    elif v.dtype.itemsize == 8 and _beyond(v, null):
        out = v.astype(object)
        out[null] = None
        out.setflags(write=False)
        return out
    else:
        out = v.astype(np.float64)
    np.putmask(out, null, MARKS[out.dtype])
    out.setflags(write=False)
    return out


def _beyond(v: np.ndarray, null: np.ndarray) -> bool:
    """Whether an integer that is not null is outside the range that float64 represents exactly."""
    far = v > MOST if not len(v) or v.max() > MOST else None
    if v.dtype.kind == "i" and len(v) and v.min() < -MOST:
        far = v < -MOST if far is None else far | (v < -MOST)
    return far is not None and bool((far & ~null).any())


def marked(v: np.ndarray) -> np.ndarray:
    """Which floats have the mark, as bools."""
    bits, quiet, at, same = _FORMS[v.dtype]
    return (v.view(bits) & bits.type(same)) == bits.type(quiet | _PAYLOAD << at)


def marked_rows(v: np.ndarray) -> np.ndarray:
    """Which arrays along the first axis of a float array are null as a whole, as bools."""
    bits, quiet, at, _ = _FORMS[v.dtype]
    sign = 1 << 8 * v.itemsize - 1
    first = (
        np.ascontiguousarray(v[(slice(None), *(0,) * (v.ndim - 1))])
        if v.size
        else np.zeros(0, v.dtype)
    )
    return (first.view(bits) & bits.type(sign - 1)) == bits.type(quiet | (_PAYLOAD | _ROW) << at)


def whole(v: np.ndarray, null: np.ndarray, dtype: np.dtype) -> np.ndarray | None:
    """Floats as integers or bools of a dtype (arbitrary where null); None: one of them is no such
    value, or is outside the range that float64 represents exactly."""
    v = np.where(null, v.dtype.type(0), v)
    if dtype.kind == "b":
        low, high = 0, 1
    else:
        of = np.iinfo(dtype)
        low, high = max(of.min, -MOST), min(of.max, MOST)
    if len(v) and not (v.min() >= low and v.max() <= high):  # true for NaN, too
        return None
    out = v.astype(dtype)
    return out if np.array_equal(out, v) else None
