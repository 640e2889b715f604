"""Batches of other sizes: the same rows in the same order, or gathered in another one (src/py/py_rows.c)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from skate.data.values.unify import cast_batch, merge

if TYPE_CHECKING:
    import pyarrow as pa


def rebatch(batches: Iterator[pa.RecordBatch], size: int | None) -> Iterator[pa.RecordBatch]:
    """Batches of exactly `size` rows over all borders (the last one has what is left); None: as they come."""
    if size is None:
        yield from batches
        return
    held: list[pa.RecordBatch] = []
    n = 0
    for rb in batches:
        at = 0
        rows = rb.num_rows
        while n + rows - at >= size:
            piece = rb.slice(at, size - n)
            at += size - n
            yield merge([*held, piece]) if held else piece
            held, n = [], 0
        if at < rows:
            held.append(rb.slice(at) if at else rb)
            n += rows - at
    if held:
        yield merge(held)


class Gather:
    """Batches that are gathered from a stream of batches by a _skate.Rows, which says in what order. Their schema may only widen."""

    def __init__(self, rows: Any):
        self.rows = rows
        self.schema: Any = None

    def add(self, rb: pa.RecordBatch) -> None:
        """The next of the stream."""
        schema = rb.schema
        if self.schema is None:
            self.schema = schema
        elif schema is not self.schema and not schema.equals(self.schema, check_metadata=True):
            if schema.equals(self.schema):
                rb = type(rb).from_arrays(rb.columns, schema=self.schema)
            else:
                self.rows.cast(lambda held: cast_batch(held, schema))
                self.schema = schema
        self.rows.add(rb)

    def take(self, n: int, alloc: Callable[[int], Any] | None = None) -> pa.RecordBatch:
        """The next n rows, which are there, in memory that alloc(bytes) gives."""
        return self.rows.take(n, alloc)[0]

    def plans(self, blocks: Iterator[pa.RecordBatch], size: int, drop_last: bool) -> Iterator[Any]:
        """Batches of `size` rows each, which are yet to be gathered: by write(alloc), whenever and by any thread; the last one may have fewer."""
        rows, more = self.rows, True
        while True:
            while more and rows.wants(size):
                rb = next(blocks, None)
                if rb is None:
                    more = False
                    rows.end()
                else:
                    self.add(rb)
            plan = rows.plan(size)
            if plan is None or (drop_last and plan.num_rows < size):
                return
            yield plan

    def batches(self, blocks: Iterator[pa.RecordBatch], size: int, drop_last: bool) -> Iterator[pa.RecordBatch]:
        """The same, gathered."""
        for plan in self.plans(blocks, size, drop_last):
            yield plan.write()[0]
