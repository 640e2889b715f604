"""Joins rows in the worker: prepares batches and keys for the kernel (_skate.join), and records
from which side each column of the result comes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

from skate import _skate
from skate._deps import pa, pc
from skate.data.group_keys import key_columns
from skate.data.join_args import LEFT, RIGHT, Join, check_types, columns, kernel_kind, schema_of
from skate.data.values.unify import MissingColumn, cast_batch, columns_are, promoted, unify

KEYS = 2  # the index of the first batch of keys; these follow the batches of both sides
ROWS = 1 << 16  # maximum number of rows of a batch of the result


class Joining:
    """Joins the batches of two sides. The columns are those of join_args.columns(). The rows are in
    the order of side `first`, then of the other side; unmatched rows of the other side come last.
    Each side has at least one batch, which shows its columns.

    Several split reduces may each have a share of side `first` and all rows of the other side. Each
    of them yields a match report, and one further reduce yields the unmatched rows of the other
    side from these reports."""

    def __init__(
        self,
        join: Join,
        sides: tuple[list[pa.RecordBatch], list[pa.RecordBatch]],
        target: int,
        first: int,
        told: Sequence[pa.RecordBatch] = (),
    ):
        """target: approximate bytes of a batch. told: the match reports of all split reduces; with
        them, the batches of side `first` are only used for their columns."""
        both = [_in_one_schema(batches) for batches in sides]
        schemas = (both[LEFT][0].schema, both[RIGHT][0].schema)
        types = tuple([s.field(c).type for c in on] for s, on in zip(schemas, join.on, strict=True))
        check_types(join, types)  # type: ignore[arg-type]
        of_keys = pa.schema(
            [pa.field(str(i), promoted(a, b)) for i, (a, b) in enumerate(zip(*types, strict=True))]
        )
        keys = [
            [_keys(rb, on, of_keys) for rb in batches]
            for batches, on in zip(both, join.on, strict=True)
        ]
        made, schema = (
            columns(join, (schemas[LEFT].names, schemas[RIGHT].names)),
            schema_of(join, schemas),
        )
        last = LEFT + RIGHT - first
        # The kernel calls the side `first` its left side.
        picks = [
            (c.side ^ first, c.column) if c.of_key < 0 else (KEYS + LEFT, c.of_key) for c in made
        ]
        alone = [
            (c.side ^ first, c.column) if c.of_key < 0 else (KEYS + RIGHT, c.of_key) for c in made
        ]
        self.shape = pa.RecordBatch.from_arrays(
            [pa.nulls(0, f.type) for f in schema], schema=schema
        )
        rows = max(sum(rb.num_rows for rb in both[LEFT] + both[RIGHT]), 1)
        per_row = sum(_skate.block_nbytes(rb) for rb in both[LEFT] + both[RIGHT]) // rows + 1
        self.others = sum(rb.num_rows for rb in both[last])
        if any(rb.num_rows != self.others for rb in told):
            raise RuntimeError(
                f"join: shares told of {[rb.num_rows for rb in told]} rows, and there are {self.others} (a bug in skate, please report it)"
            )
        met = (
            [
                reduce(pc.or_, [rb.column(0) for rb in told])
                .buffers()[1]
                .slice(0, -(-self.others // 8))
            ]
            if told
            else []
        )
        given = (both[first], both[last], keys[first], keys[last])
        most = max(1, min(ROWS, target // per_row))
        self.rows = _skate.join(
            kernel_kind(join.kind, first), given, self.shape, picks, alone, most, *met
        )

    def tell(self) -> pa.RecordBatch:
        """The match report of a split reduce: which rows of the other side have a partner. Call it
        before batches(), which then leaves out the unmatched rows of the other side."""
        return pa.RecordBatch.from_arrays(
            [
                pa.Array.from_buffers(
                    pa.bool_(), self.others, [None, pa.py_buffer(self.rows.share())]
                )
            ],
            ["met"],
        )

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the result: at least one batch, which shows the columns."""
        some = False
        for rb in self.rows:
            some = True
            yield rb
        if not some:
            yield self.shape


def keys_alone(join: Join, side: int, other: list[pa.RecordBatch]) -> pa.RecordBatch:
    """An empty batch for a side whose columns are unknown, because the user function that makes
    them was never called. It has only the columns of the side's key, in the types of the other
    side's key."""
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
