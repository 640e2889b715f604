"""Compares columns with values and with each other, and tests membership in a list, by value,
whatever the types (docs/design/predicates.md has the table).

Numbers are compared exactly: a uint64 with an int64, an int64 with a float, a decimal with 0.1.
Arrow would cast both to one type, which fails or rounds for numbers that this type cannot
represent. A Python value is cast to the column's type if it fits; else it is replaced by the
nearest values of that type on both sides, so that one kernel can still compare all rows. Comparing
null gives null; NaN is unequal to everything and neither less nor greater; -0.0 equals 0.0.

position() gives the place of a value on the axis of a type. expr/bounds.py, which works on ranges
instead of rows, uses it too, so that both agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from skate._deps import np, pa, pc
from skate._deps import pa_types as _T
from skate.data.values import to_arrow
from skate.data.values.flat import of_numpy

_NS = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}
DAY_NS = 86400 * 10**9
_CALL: dict[str, Callable[[Any, Any], Any]] = {
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
    "==": pc.equal,
    "!=": pc.not_equal,
}
FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


def scalar(v: Any) -> pa.Scalar:
    """Makes a scalar of a Python value, like pa.scalar(), which would import pandas at its first
    call (0.2 s and 40 MB in each process). Integers from 2**63 on become uint64."""
    if isinstance(v, pa.Scalar):
        return v
    if (
        getattr(v, "ndim", 1) == 0
        and hasattr(v, "item")
        and getattr(v.dtype, "kind", "f") not in "mM"
    ):
        v = v.item()
    made = to_arrow.of_one_kind([v])
    if made is not None:
        return made[0]
    return pa.scalar(v, pa.uint64()) if isinstance(v, int) and 2**63 <= v < 2**64 else pa.scalar(v)


def plain(v: Any) -> Any:
    """A column or scalar in a type that kernels can compare: dictionaries, runs and views are
    replaced by plain types, half floats by floats."""
    t = plain_type(v.type)
    if t == v.type:
        return v
    if _T.is_run_end_encoded(v.type):
        return plain(pc.run_end_decode(v))
    return v.cast(t)


def plain_type(t: pa.DataType) -> pa.DataType:
    """The type of plain()'s result for a column of type t."""
    while _T.is_dictionary(t) or _T.is_run_end_encoded(t):
        t = t.value_type
    if _T.is_float16(t):
        return pa.float32()
    if _T.is_string_view(t):
        return pa.large_string()
    return pa.large_binary() if _T.is_binary_view(t) else t


# ---- The place of a value on the axis of its type.


def is_number(t: pa.DataType) -> bool:
    return _T.is_integer(t) or _T.is_floating(t) or _T.is_decimal(t)


def is_text(t: pa.DataType) -> bool:
    return _T.is_string(t) or _T.is_large_string(t) or _T.is_string_view(t)


def is_bytes(t: pa.DataType) -> bool:
    return (
        _T.is_binary(t)
        or _T.is_large_binary(t)
        or _T.is_binary_view(t)
        or _T.is_fixed_size_binary(t)
    )


def tick(t: pa.DataType) -> int:
    """The nanoseconds in one unit of a temporal type."""
    return DAY_NS if _T.is_date32(t) else 10**6 if _T.is_date64(t) else _NS[t.unit]


def position(v: Any, t: pa.DataType) -> Any:
    """The exact place of a value, as a number (or bytes), on the axis of a type; None: the value
    has no place on this axis, so comparisons with it work in another way. NaN stays NaN.

    Args:
        v: A Python value, a value of NumPy, or a pyarrow scalar; not None.
        t: A type without dictionaries, runs and views.
    """
    if is_number(t):
        return _number(v)
    if is_text(t):
        return (
            str(v).encode()
            if isinstance(v, str) or isinstance(v, pa.Scalar) and is_text(v.type)
            else None
        )
    if is_bytes(t):
        return (
            bytes(v)
            if isinstance(v, bytes)
            else v.as_py()
            if isinstance(v, pa.Scalar) and is_bytes(v.type)
            else None
        )
    if _T.is_boolean(t):
        if hasattr(v, "dtype") or isinstance(v, pa.Scalar):
            v = scalar(v).as_py()
        return v if isinstance(v, bool) else None
    if not _axis(t) or isinstance(v, (bool, int, float, str, bytes, Decimal, list, dict)):
        return None
    s = scalar(v)
    return s.value * tick(s.type) if _axis(s.type) & _axis(t) else None


def _axis(t: pa.DataType) -> int:
    """A bit set for a temporal type: two types can be compared if their sets have a common bit.
    Instants with and without a time zone have no common bit. 0: the type is not temporal."""
    if _T.is_timestamp(t):
        return 1 if t.tz is None else 2
    return 3 if _T.is_date(t) else 4 if _T.is_time(t) else 8 if _T.is_duration(t) else 0


def _number(v: Any) -> Any:
    if isinstance(v, pa.Scalar):
        v = v.as_py() if is_number(v.type) else None
    elif not isinstance(v, (int, float, Decimal)) and hasattr(v, "item"):
        v = v.item() if v.dtype.kind in "iuf" else None
    if isinstance(v, Decimal) and not v.is_finite():
        return float(v)
    if isinstance(v, float):
        # NumPy's float64 becomes Python's float, because a NumPy float is rounded in a comparison
        # with an int
        return float(v)
    return v if isinstance(v, (int, Decimal)) and not isinstance(v, bool) else None


def _around(at: Any, t: pa.DataType) -> tuple[Any, Any]:
    """(the greatest value of type t that is not above a position, the least one that is not below
    it), as scalars; None where there is none. If the position is a value of the type, both are the
    same object."""
    if _T.is_floating(t):
        return _floats_around(at)
    if not (_T.is_integer(t) or _T.is_decimal(t) or _T.is_temporal(t)):
        s = scalar(at.decode() if is_text(t) else at)
        return s, s
    least, most = _range(t)
    unit = Fraction(1, 10**t.scale) if _T.is_decimal(t) else tick(t) if _T.is_temporal(t) else 1
    steps = (
        at
        if at in (math.inf, -math.inf) or unit == 1 and isinstance(at, int)
        else Fraction(at) / unit
    )
    below = most if steps > most else None if steps < least else math.floor(steps)
    above = least if steps < least else None if steps > most else math.ceil(steps)
    low = None if below is None else _of_steps(below, t)
    return low, low if below == above else None if above is None else _of_steps(above, t)


def _range(t: pa.DataType) -> tuple[int, int]:
    """The least and the greatest number of units that a type of integers, decimals or times can
    represent."""
    if _T.is_decimal(t):
        return 1 - 10**t.precision, 10**t.precision - 1
    if _T.is_unsigned_integer(t):
        return 0, (1 << t.bit_width) - 1
    return -(1 << t.bit_width - 1), (1 << t.bit_width - 1) - 1


def _of_steps(n: int, t: pa.DataType) -> pa.Scalar:
    if _T.is_decimal(t):
        return pa.scalar(Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -t.scale)), t)
    if _T.is_temporal(t):
        return _one(n, pa.int32() if t.bit_width == 32 else pa.int64()).cast(t)
    return _one(n, t)


def _one(v: Any, t: pa.DataType) -> pa.Scalar:
    """Makes a number a scalar of a type of integers or floats, without pa.scalar() (see
    scalar())."""
    return of_numpy(np.array([v], t.to_pandas_dtype()))[0]


def _floats_around(at: Any) -> tuple[Any, Any]:
    """The float64 values around a position. float64 suffices, because kernels widen narrower floats
    exactly."""
    try:
        near = float(at)
    except OverflowError:
        near = math.inf if at > 0 else -math.inf
    if near == at:
        s = _one(near, pa.float64())
        return s, s
    low, high = (
        (math.nextafter(near, -math.inf), near)
        if near > at
        else (near, math.nextafter(near, math.inf))
    )
    return _one(low, pa.float64()), _one(high, pa.float64())


# ---- Comparing columns with values and with columns.


def with_value(op: str, a: Any, v: Any) -> Any:
    """Compares a column (or scalar) with one value.

    Args:
        op: < <= > >= == or !=.
        a: The column.
        v: A Python value or a pyarrow scalar.

    Raises:
        TypeError: Values of the column's type and v cannot be compared.
    """
    a = plain(a)
    if v is None or isinstance(v, pa.Scalar) and not v.is_valid:
        return pc.and_(pc.is_valid(a), _no_truth())
    at = position(v, a.type)
    if at is None:
        return with_column(op, a, scalar(v))
    if at != at:
        return _everywhere(a, op == "!=")
    low, high = _around(at, a.type)
    if low is high:
        return _CALL[op](a, low)
    if op in ("==", "!="):
        return _everywhere(a, op == "!=")
    if op in ("<", "<="):
        return _everywhere(a, False) if low is None else pc.less_equal(a, low)
    return _everywhere(a, False) if high is None else pc.greater_equal(a, high)


def _no_truth() -> pa.Scalar:
    return pa.nulls(1, pa.bool_())[0]


def _everywhere(a: Any, truth: bool) -> Any:
    """A column with this truth value for each value, and null for each null."""
    return pc.if_else(pc.is_valid(a), scalar(truth), _no_truth())


def with_column(op: str, a: Any, b: Any) -> Any:
    """Compares two columns (or scalars) row by row. TypeError: their types cannot be compared."""
    a, b = plain(a), plain(b)
    s, t = a.type, b.type
    if _T.is_integer(s) and _T.is_integer(t) and s != t:
        if _T.is_uint64(s) and _T.is_signed_integer(t):
            return _unsigned_with_signed(op, a, b)
        if _T.is_uint64(t) and _T.is_signed_integer(s):
            return _unsigned_with_signed(FLIPPED[op], b, a)
    elif _T.is_integer(s) and _T.is_floating(t):
        return _integer_with_float(op, a, b)
    elif _T.is_integer(t) and _T.is_floating(s):
        return _integer_with_float(FLIPPED[op], b, a)
    elif _T.is_decimal(s) and _T.is_floating(t):
        a = a.cast(pa.float64())
    elif _T.is_decimal(t) and _T.is_floating(s):
        b = b.cast(pa.float64())
    # two instants can be compared whatever their zones
    elif _axis(s) == _axis(t) == 2 and s.tz != t.tz:
        a, b = (v.cast(pa.timestamp(v.type.unit, "UTC")) for v in (a, b))
    try:
        return _CALL[op](a, b)
    except pa.ArrowNotImplementedError:
        raise TypeError(
            f"values of {s} cannot be compared with values of {t} ({op}); cast one of the two"
        ) from None
    except pa.ArrowInvalid:  # there is no common decimal type of the width that Arrow tries
        if _axis(s) & _axis(t):
            return _CALL[op](_nanoseconds(a), _nanoseconds(b))
        if _T.is_decimal(s) or _T.is_decimal(t):
            return _CALL[op](_wide(a), _wide(b))
        raise TypeError(
            f"values of {s} cannot be compared with values of {t} ({op}); cast one of the two"
        ) from None


def _unsigned_with_signed(op: str, a: Any, b: Any) -> Any:
    """Compares a uint64 column with one of signed integers: a negative number is less, all others
    are compared as uint64."""
    found = _CALL[op](a, b.cast(pa.uint64(), safe=False))
    return pc.if_else(pc.less(b, _one(0, b.type)), _everywhere(a, op in (">", ">=", "!=")), found)


def _integer_with_float(op: str, a: Any, b: Any) -> Any:
    """Compares a column of integers with one of floats. They are compared as floats; where a 64-bit
    integer rounds to an equal float, the float is converted to an integer and the integers are
    compared."""
    b = b.cast(pa.float64())
    if a.type.bit_width < 64:
        return _CALL[op](a, b)
    near = a.cast(pa.float64(), safe=False)
    tied, found = pc.equal(near, b), _CALL[op](near, b)
    top = float(1 << 63 if _T.is_int64(a.type) else 1 << 64)
    if not pc.any(pc.and_(tied, pc.greater_equal(pc.abs(b), float(1 << 53)))).as_py():
        return found
    # top is the greatest integer plus 1; the greatest integer rounds to it
    beyond = pc.equal(b, top)
    held = pc.if_else(
        pc.and_(pc.fill_null(tied, False), pc.invert(pc.fill_null(beyond, True))), b, 0.0
    ).cast(a.type)
    exact = pc.if_else(beyond, op in ("<", "<=", "!="), _CALL[op](a, held))
    return pc.if_else(tied, exact, found)


def _nanoseconds(v: Any) -> Any:
    """A temporal column as decimals, which can represent the nanoseconds of all temporal types."""
    width = pa.int32() if v.type.bit_width == 32 else pa.int64()
    return pc.multiply(
        v.cast(width).cast(pa.decimal128(19, 0)),
        pa.scalar(Decimal(tick(v.type)), pa.decimal128(18, 0)),
    )


def _wide(v: Any) -> Any:
    """A column of decimals or integers as decimals of 256 bits."""
    return v.cast(
        pa.decimal256(v.type.precision, v.type.scale)
        if _T.is_decimal(v.type)
        else pa.decimal256(20, 0)
    )


# ---- Membership in a list of values.


def value_set(values: list[Any], t: pa.DataType) -> pa.Array:
    """The values of a list that are values of a (plain) type t, for pc.is_in(). A value that equals
    no value of the type is left out.

    Raises:
        TypeError: A value of the list cannot be compared with values of this type.
    """
    if len(values) > 1000 and set(map(type, values)) <= {int, str, bytes, type(None)}:
        quick = _of_many(values, t)
        if quick is not None:
            return quick
    out = []
    for v in values:
        if v is None or isinstance(v, pa.Scalar) and not v.is_valid:
            out.append(pa.scalar(None, t))
            continue
        at = position(v, t)
        if at is None:
            out.append(_cast(v, t))
        elif at != at:
            out += [pa.scalar(math.nan, t)] if _T.is_floating(t) else []
        elif _T.is_floating(t):
            held = _floats_around(at)[0].cast(t, safe=False)
            out += (
                [pa.scalar(0.0, t), pa.scalar(-0.0, t)]
                if at == 0
                else [held]
                if held.as_py() == at
                else []
            )
        elif not (_T.is_fixed_size_binary(t) and len(at) != t.byte_width):
            low, high = _around(at, t)
            out += [low.cast(t)] if low is not None and low is high else []
    if _T.is_temporal(t) and _axis(t):  # as integers, because as_py() of nanoseconds needs pandas
        width = pa.int32() if t.bit_width == 32 else pa.int64()
        return pa.array([s.value if s.is_valid else None for s in out], width).cast(t)
    return pa.array([s.as_py() for s in out], t)


def _of_many(values: list[Any], t: pa.DataType) -> Any:
    """Like value_set(), for a long list of values of one kind, without Python code for each value;
    None: the list has values of several kinds."""
    try:
        made = pa.array(values)
    except (pa.ArrowException, OverflowError):
        return None
    if _T.is_integer(made.type) and _T.is_integer(t):
        least, most = _range(t)
        fits = pc.and_(with_value(">=", made, least), with_value("<=", made, most))
        return made.filter(pc.fill_null(fits, True)).cast(t)
    same = (is_text(made.type) and is_text(t)) or (
        is_bytes(made.type) and is_bytes(t) and not _T.is_fixed_size_binary(t)
    )
    return made.cast(t) if same else None


def _cast(v: Any, t: pa.DataType) -> pa.Scalar:
    """A value of another kind, converted by Arrow's cast ("2024-05-01" to a date)."""
    try:
        return scalar(v).cast(t)
    except pa.ArrowException:
        raise TypeError(f"is_in, not_in: {v!r} cannot be compared with values of {t}") from None
