"""may_hold(): whether an expression can be true, given only bounds of its columns. This decides
which row groups (by their statistics) and which files (by their paths) a filter needs.

evaluation.py defines the value of an expression (docs/design/predicates.md): for a row it is true,
false or null. Functions here compute the set of these outcomes that are possible for some row
within the bounds. A set that is too large is still correct and only costs time, so for anything
unknown the set has all three outcomes. Values are compared exactly, in the order of
values/comparison.py.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any, NamedTuple

from skate._deps import pa
from skate.data.expr.evaluation import COMPARISONS, listed, mask
from skate.data.expressions import (
    AliasExpr,
    BinaryExpr,
    ColumnExpr,
    Expr,
    LiteralExpr,
    Operation,
    UnaryExpr,
    columns_of,
)
from skate.data.values import comparison

TRUE, FALSE, NULL = 1, 2, 4
ANYTHING = TRUE | FALSE | NULL


class Bounds(NamedTuple):
    """The facts known about the values of a column.

    Args:
        type: Type of the column, without dictionaries, runs and views.
        low: No value is below this one (except NaN), in the form of position(); if both low and
            high are None, nothing is known.
        high: No value is above this one.
        values: Whether there may be values that are neither null nor NaN.
        nan: Whether there may be NaN.
        nulls: Whether there may be nulls.
    """

    type: pa.DataType
    low: Any
    high: Any
    values: bool = True
    nan: bool = False
    nulls: bool = False


class Known(NamedTuple):
    """The facts known about some rows: bounds of columns, and a batch of one row with the columns
    that have the same value in all of these rows. Nothing is known of other columns."""

    bounds: Mapping[str, Bounds]
    row: pa.RecordBatch | None = None


def may_hold(e: Expr, known: Known) -> bool:
    """Whether e may be true for one of the rows."""
    return bool(_outcomes(e, known) & TRUE)


def _outcomes(e: Expr, known: Known) -> int:
    if known.row is not None and (used := columns_of(e)) and used <= set(known.row.schema.names):
        return _of_row(e, known.row)
    if isinstance(e, AliasExpr):
        return _outcomes(e.expr, known)
    if isinstance(e, LiteralExpr):
        return (
            NULL
            if e.value is None
            else TRUE
            if e.value is True
            else FALSE
            if e.value is False
            else ANYTHING
        )
    if isinstance(e, ColumnExpr):
        b = known.bounds.get(e._name)
        if b is None or not pa.types.is_boolean(b.type):
            return ANYTHING
        return _either(
            b.values and (b.high is None or b.high),
            b.values and (b.low is None or not b.low),
            b.nulls,
        )
    if isinstance(e, UnaryExpr):
        return _of_unary(e, known)
    if not isinstance(e, BinaryExpr):
        return ANYTHING
    if e.op in (Operation.AND, Operation.OR):
        return _joined(e.op is Operation.AND, _outcomes(e.left, known), _outcomes(e.right, known))
    if e.op in (Operation.IN, Operation.NOT_IN):
        among = _among(_bounds(e.left, known), e.right)
        return among if e.op is Operation.IN else _inverted(among)
    op = COMPARISONS.get(e.op)
    if op is None:
        return ANYTHING
    if isinstance(e.right, LiteralExpr):
        return _compared(op, _bounds(e.left, known), e.right.value)
    return (
        _compared(comparison.FLIPPED[op], _bounds(e.right, known), e.left.value)
        if isinstance(e.left, LiteralExpr)
        else ANYTHING
    )


def _of_row(e: Expr, row: pa.RecordBatch) -> int:
    try:
        v = mask(e, row)
    except Exception:  # the filter operator itself will report the error
        return ANYTHING
    v = (v[0] if isinstance(v, pa.Array) else v).as_py()
    return NULL if v is None else TRUE if v else FALSE


def _bounds(e: Expr, known: Known) -> Bounds | None:
    while isinstance(e, AliasExpr):
        e = e.expr
    return known.bounds.get(e._name) if isinstance(e, ColumnExpr) else None


def _either(true: Any, false: Any, null: Any) -> int:
    return (TRUE if true else 0) | (FALSE if false else 0) | (NULL if null else 0)


def _inverted(a: int) -> int:
    return _either(a & FALSE, a & TRUE, a & NULL)


def _of_unary(e: UnaryExpr, known: Known) -> int:
    if e.op is Operation.NOT:
        return _inverted(_outcomes(e.operand, known))
    b = _bounds(e.operand, known)
    if b is None:
        a = _outcomes(e.operand, known)
        null, other = a & NULL, a & (TRUE | FALSE)
    else:
        null, other = b.nulls, b.values or b.nan
    return _either(null, other, False) if e.op is Operation.IS_NULL else _either(other, null, False)


def _joined(both: bool, a: int, b: int) -> int:
    """The possible outcomes of Kleene's AND (both) or OR, given the possible outcomes of its
    operands."""
    strong, weak = (FALSE, TRUE) if both else (TRUE, FALSE)
    out = 0
    for x in (TRUE, FALSE, NULL):
        for y in (TRUE, FALSE, NULL):
            if x & a and y & b:
                out |= strong if strong in (x, y) else NULL if NULL in (x, y) else weak
    return out


def _compared(op: str, b: Bounds | None, v: Any) -> int:
    """The possible outcomes of comparing a column within bounds with one value."""
    if v is None or isinstance(v, pa.Scalar) and not v.is_valid:
        return NULL
    at = None if b is None else comparison.position(v, b.type)
    if b is None or at is None:
        return ANYTHING
    unequal = op == "!="
    out = _either(b.nan and unequal, b.nan and not unequal, b.nulls)
    if not b.values:
        return out
    if at != at:
        return out | (TRUE if unequal else FALSE)
    if b.low is None or b.high is None:
        return out | TRUE | FALSE
    low, high = b.low, b.high
    if op in ("==", "!="):
        same, other = low <= at <= high, not low == at == high
        return out | (_either(other, same, False) if unequal else _either(same, other, False))
    if op in ("<", ">="):
        less, rest = low < at, high >= at
    else:
        less, rest = low <= at, high > at
    return out | (_either(less, rest, False) if op in ("<", "<=") else _either(rest, less, False))


def _among(b: Bounds | None, e: Expr) -> int:
    """The possible outcomes of "column within bounds is in a list"; never null."""
    places = None if b is None or not isinstance(e, LiteralExpr) else _places(e, b.type)
    if b is None or places is None:
        return TRUE | FALSE
    out = _either(
        b.nulls and places.null or b.nan and places.nan,
        b.nulls and not places.null or b.nan and not places.nan,
        False,
    )
    if b.values and b.low is not None and b.high is not None:
        i = bisect_left(places.sorted, b.low)
        inside = i < len(places.sorted) and places.sorted[i] <= b.high
        out |= _either(inside, not (inside and b.low == b.high), False)
    elif b.values:
        out |= _either(places.sorted, True, False)
    return out


class _Places(NamedTuple):
    """The values of a list in the form of position(): numbers or bytes, sorted; and whether the
    list has null and NaN."""

    sorted: list[Any]
    null: bool
    nan: bool


def _places(e: LiteralExpr, t: pa.DataType) -> _Places | None:
    """The places of a list's values for a column of type t, cached; None: a value has no place in
    the order of the type."""
    sets: dict[Any, Any] | None = getattr(e, "sets", None)
    if sets is None:
        sets = e.sets = {}
    if ("places", t) not in sets:
        values = listed(e.value)
        found = [
            comparison.position(v, t)
            for v in values
            if not (v is None or isinstance(v, pa.Scalar) and not v.is_valid)
        ]
        known = [at for at in found if at is not None and at == at]
        whole = None not in found
        sets["places", t] = (
            _Places(sorted(known), len(found) < len(values), len(known) < len(found))
            if whole
            else None
        )
    made: _Places | None = sets["places", t]
    return made
