"""The rows of a join, in the worker: batches and keys as the kernel takes them (_skate.join), and where each column comes from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from skate import _skate
from skate.data.group_keys import key_columns
from skate.data.joins import LEFT, RIGHT, Join, check_types, columns, kernel_kind, schema_of
from skate.data.values.unify import cast_batch, promoted, unify

KEYS = 2  # the sides behind the two: their keys
ROWS = 1 << 16  # of a batch of the result, at most


def joined(join: Join, left: list[pa.RecordBatch], right: list[pa.RecordBatch], target: int, first: int = LEFT) -> Iterator[pa.RecordBatch]:
    """The rows of the batches of two sides, joined: the columns of joins.columns(), the rows in the order of the left ones, then of the right ones; right rows that meet nothing stand at the
    end. Each side has a batch at least, which tells its columns. target: bytes of a batch, about. first: RIGHT, where the kind allows it (_skate.join_rules): in the order of the right rows, then of the
    left ones."""
    sides = [_in_one_schema(left), _in_one_schema(right)]
    schemas = (sides[LEFT][0].schema, sides[RIGHT][0].schema)
    types = tuple([s.field(c).type for c in on] for s, on in zip(schemas, join.on, strict=True))
    check_types(join, types)  # type: ignore[arg-type]
    both = pa.schema([pa.field(str(i), promoted(a, b)) for i, (a, b) in enumerate(zip(*types, strict=True))])
    keys = [[_keys(rb, on, both) for rb in batches] for batches, on in zip(sides, join.on, strict=True)]
    made, schema = columns(join, (schemas[LEFT].names, schemas[RIGHT].names)), schema_of(join, schemas)
    picks = [(c.side, c.column) if c.of_key < 0 else (KEYS + LEFT, c.of_key) for c in made]
    alone = [(c.side, c.column) if c.of_key < 0 else (KEYS + RIGHT, c.of_key) for c in made]
    shape = pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)
    rows = max(sum(rb.num_rows for rb in sides[LEFT] + sides[RIGHT]), 1)
    per_row = sum(_skate.block_nbytes(rb) for rb in sides[LEFT] + sides[RIGHT]) // rows + 1
    some = False
    last = 1 - first
    if first == RIGHT:
        picks, alone = ([(s ^ 1, c) for s, c in p] for p in (picks, alone))
    given = (sides[first], sides[last], keys[first], keys[last])
    for rb in _skate.join(kernel_kind(join.kind, first), given, shape, picks, alone, max(1, min(ROWS, target // per_row))):
        some = True
        yield rb
    if not some:
        yield shape


def _in_one_schema(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    schema = unify([rb.schema for rb in batches])
    return [cast_batch(rb, schema) for rb in batches]


def _keys(rb: pa.RecordBatch, on: tuple[str, ...], schema: pa.Schema) -> pa.RecordBatch:
    """The columns of a key, in the types in which both sides have it."""
    found: list[Any] = [rb.column(c) for c in on]
    if any(c.type != f.type for c, f in zip(found, schema, strict=True)):
        plain = pa.RecordBatch.from_arrays(key_columns(rb, on, "join"), names=schema.names)
        return cast_batch(plain, schema)
    return pa.RecordBatch.from_arrays(found, schema=schema)
