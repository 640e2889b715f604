"""Joins rows in the worker, by the kernel (src/shuffle/join/). Sides whose schemas or keys do not
fit together as they are (work.h: sk_work_joins) are cast here first, or refused."""

from __future__ import annotations

from typing import Any

from skate import _skate
from skate._deps import pa
from skate.data.by_key.group_keys import key_columns
from skate.data.by_key.join_args import LEFT, RIGHT, Join, check_types, columns
from skate.data.values.unify import MissingColumn, cast_batch, columns_are, promoted, unify

KEYS = 2  # SK_JOIN_KEYS in src/shuffle/work.h

# A slice of a side: (bytes of blocks or a list of batches, run, whether its rows are wanted, first
# partition, side).
Slice = tuple[Any, int, bool, int, int]


def joined(join: Join, what: bytes, slices: list[Slice], how: tuple[Any, ...]) -> _skate.Work:
    """Joins the rows of two sides: an iterator of BlockOuts.

    The columns are those of join_args.columns(). The rows are in the order of the shared side, then
    of the other side; unmatched rows of the other side come last.

    Args:
        join: The join.
        what: Its description (join_args.described()).
        slices: Of both sides; each has at least one, which tells its columns.
        how: The arguments of _skate.exchange_reduce() that follow the slices.
    """
    work = _skate.exchange_reduce(what, slices, *how)
    if work is None:
        work = _skate.exchange_reduce(what, _cast(join, slices), *how)
    assert work is not None
    return work


def _cast(join: Join, slices: list[Slice]) -> list[Slice]:
    """Slices of one schema a side, followed by their keys in types that both sides have; an error
    if there are none."""
    sides: tuple[list[Any], list[Any]] = ([], [])
    for blocks, _run, wanted, _first, side in slices:
        found = blocks if isinstance(blocks, list) else _skate.blocks(blocks)
        sides[side].extend(found if wanted else [rb.slice(0, 0) for rb in found[:1]])
    for side in (LEFT, RIGHT):
        if not sides[side]:
            sides[side].append(_keys_alone(join, side, sides[RIGHT - side]))
    both = [_in_one_schema(batches) for batches in sides]
    schemas = [batches[0].schema for batches in both]
    columns(join, (schemas[LEFT].names, schemas[RIGHT].names))
    types = tuple([s.field(c).type for c in on] for s, on in zip(schemas, join.on, strict=True))
    check_types(join, types)  # type: ignore[arg-type]
    of_keys = pa.schema(
        [pa.field(str(i), promoted(a, b)) for i, (a, b) in enumerate(zip(*types, strict=True))]
    )
    keys = [
        [_keys(rb, on, of_keys) for rb in batches]
        for batches, on in zip(both, join.on, strict=True)
    ]
    return [(rows, 0, True, 0, i) for i, rows in enumerate((*both, *keys))]


def _keys_alone(join: Join, side: int, other: list[pa.RecordBatch]) -> pa.RecordBatch:
    """An empty side whose columns are unknown, since the user function that makes them was never
    called: only the columns of its key, in the types of the other side's key."""
    schema = unify([rb.schema for rb in other])
    types = []
    for name in join.on[RIGHT - side]:
        if name not in schema.names:
            raise MissingColumn(
                f"join: there is no column {name!r} on the {('right', 'left')[side]} side; {columns_are(name, schema.names)}"
            )
        types.append(schema.field(name).type)
    return pa.RecordBatch.from_arrays([pa.nulls(0, t) for t in types], names=list(join.on[side]))


def _in_one_schema(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    schema = unify([rb.schema for rb in batches])
    return [cast_batch(rb, schema) for rb in batches]


def _keys(rb: pa.RecordBatch, on: tuple[str, ...], schema: pa.Schema) -> pa.RecordBatch:
    """The columns of a key, cast to the types that both sides share."""
    found: list[Any] = [rb.column(c) for c in on]
    if any(c.type != f.type for c, f in zip(found, schema, strict=True)):
        plain = pa.RecordBatch.from_arrays(key_columns(rb, on, "join"), names=schema.names)
        return cast_batch(plain, schema)
    return pa.RecordBatch.from_arrays(found, schema=schema)
