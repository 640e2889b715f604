"""The arguments of a join of two Datasets: the checks before a run, the columns of the result, and
(in the worker) which rows match.

Join types and names of columns are Ray's. Null matches nothing, not even null; NaN matches NaN, and
-0.0 matches 0.0. The rows of a partition are in the order of the side with more rows in it (with
equal counts: the left side), then in the order of the other side; unmatched rows of the other side
come last. Semi and anti joins keep the order of their side. The kernels define the order and the
equality of keys (docs/design/kernels.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from skate import _skate
from skate._deps import pa
from skate.data.by_key import group_keys
from skate.data.values.unify import MissingColumn, columns_are, promoted

LEFT, RIGHT = 0, 1


KINDS = (
    "inner",
    "left_outer",
    "right_outer",
    "full_outer",
    "left_semi",
    "right_semi",
    "left_anti",
    "right_anti",
)


def pairs(kind: str) -> bool:
    """Whether a join gives one row for each pair of matched rows; if not, it gives the rows and the
    columns of one side."""
    return not kind.endswith(("_semi", "_anti"))


class Join(NamedTuple):
    """A join, for its operators. on: the key's columns on both sides; suffixes: of both sides, for
    columns whose name is on both sides."""

    kind: str
    on: tuple[tuple[str, ...], tuple[str, ...]]
    suffixes: tuple[str | None, str | None] = (None, None)


class Column(NamedTuple):
    """A column of the result. column: its index in the schema of its side. of_key: its index in the
    key, if it stands for the key columns of both sides; else -1. (In a full_outer join its value is
    that of the side whose rows come first, if there is such a row; this matters only for 0.0 and
    -0.0.)"""

    side: int
    column: int
    name: str
    of_key: int = -1


def described(join: Join) -> bytes:
    """The description of a join for C (src/shuffle/work.h)."""
    keys = [(k, False, False) for k in join.on[LEFT]]
    left, right = join.suffixes
    return _skate.exchange_what(
        "join", keys=keys, join=(join.kind, list(join.on[RIGHT]), left or "", right or "")
    )


def check(kind: Any, on: Any, right_on: Any, suffixes: tuple[str | None, str | None]) -> Join:
    """Checks the arguments of a join; ValueError, with Ray's text where Ray has this error."""
    kind = getattr(kind, "value", kind)
    if kind not in KINDS:
        raise ValueError(
            f"Invalid join type: '{kind}'. Supported join types are: {', '.join(KINDS)}."
        )
    for name, v in (("on", on), ("right_on", right_on or ())):
        if not isinstance(v, (tuple, list)):
            raise ValueError(f"Expected tuple or list as `{name}` (got {type(v).__name__})")
        for c in v:
            if not isinstance(c, str):
                raise ValueError(f"join: {name}: {c!r} is no name of a column")
        if len(set(v)) != len(v):
            raise ValueError(f"join: {name} names a column twice: {list(v)}")
    if not on:
        raise ValueError(f"At least 1 column name to join on has to be provided (got {list(on)})")
    right_on = right_on or on
    if len(on) != len(right_on):
        raise ValueError(
            f"Number of columns provided for left and right datasets has to match (got {list(on)} and {list(right_on)})"
        )
    return Join(kind, (tuple(on), tuple(right_on)), suffixes)


def columns(join: Join, names: tuple[Sequence[str], Sequence[str]]) -> list[Column]:
    """The columns of the result (src/shuffle/work.h: sk_join_columns). Raises MissingColumn, and
    ValueError if two columns would have one name."""
    for side, at in ((LEFT, "left"), (RIGHT, "right")):
        for c in join.on[side]:
            if c not in names[side]:
                raise MissingColumn(
                    f"join: there is no column {c!r} on the {at} side; {columns_are(c, names[side])}"
                )
    made = _skate.join_columns(described(join), list(names[LEFT]), list(names[RIGHT]))
    out = [Column(*c) for c in made]
    seen: set[str] = set()
    for c in out if pairs(join.kind) else ():
        if c.name in seen:  # Ray's words follow skate's
            raise ValueError(
                f'join: the column name {c.name!r} would be there twice; left_suffix and right_suffix tell columns of one name apart (Field "{c.name}" exists 2 times)'
            )
        seen.add(c.name)
    return out


def check_types(join: Join, types: tuple[Sequence[Any], Sequence[Any]]) -> None:
    """ValueError if a key has no order, TypeError if the two sides' keys cannot be compared. types:
    the types of the keys of both sides."""
    for side, at in ((LEFT, "left"), (RIGHT, "right")):
        for name, t in zip(join.on[side], types[side], strict=True):
            if not group_keys.orderable(t):
                raise ValueError(
                    f"join: column {name!r} of type {t} on the {at} side cannot be a key: its values have no order"
                )
    for a, b, s, t in zip(*join.on, *types, strict=True):
        if s != t and promoted(s, t) is None:
            raise TypeError(
                f"join: column {a!r} of type {s} and column {b!r} of type {t} cannot be compared; cast one of them"
            )


def validate(join: Join, schemas: tuple[Any, Any]) -> None:
    """ValueError, with Ray's text, if a side lacks a column of the key, or the key types of the
    sides differ. schemas: skate.data.Schema, or None."""
    keys = []
    for s, on in zip(schemas, join.on, strict=True):
        types = dict(zip(s.names, s.types, strict=True)) if s is not None else {}
        keys.append([types.get(c) for c in on])
    if None in keys[0] or keys[0] != keys[1]:
        raise ValueError(
            "Key columns are expected to be present and have the same types in both left and right operands of the join operation: "
            f"left has {schemas[0]}, but right has {schemas[1]}"
        )


def schema_of(join: Join, schemas: tuple[Any, Any]) -> Any:
    """The Arrow schema of the result; raises the errors of columns() and check_types()."""
    made = columns(join, (schemas[LEFT].names, schemas[RIGHT].names))
    types = tuple([s.field(c).type for c in on] for s, on in zip(schemas, join.on, strict=True))
    check_types(join, types)  # type: ignore[arg-type]
    fields = []
    for c in made:
        t = schemas[c.side].field(c.column).type
        fields.append(
            pa.field(c.name, promoted(*(side[c.of_key] for side in types)) if c.of_key >= 0 else t)
        )
    return pa.schema(fields)
