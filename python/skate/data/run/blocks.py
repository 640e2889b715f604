"""Blocks of a run, as the driver sees them: a reference and a range of rows; the driver copies no
rows. One task for each result joins or casts blocks."""

from __future__ import annotations

from typing import Any

import skate
from skate import _skate
from skate.data.plan.node import Block
from skate.data.run.engine import ensure_engine
from skate.data.values import unify


def fetch(block: Block) -> Any:
    """The pyarrow.RecordBatch of a block."""
    return _fetch(block)[1]


def reference(block: Block) -> Any:
    """A reference to a batch of exactly the block's rows: the block's own reference if the block is
    a whole batch; a new one if it is a range of a larger batch, or a batch of this process."""
    whole, rb = _fetch(block)
    return block[0] if whole is rb and not hasattr(block[0], "num_rows") else _skate.put(rb)


def _fetch(block: Block) -> tuple[Any, Any]:
    """Returns (the batch that holds the block's rows, the block)."""
    ref, row0, rows, _ = block
    if hasattr(ref, "num_rows"):
        rb = ref  # the block is a batch of this process, not a reference
    else:
        rb = _skate.get(ref)
    return rb, rb if row0 == 0 and rows == rb.num_rows else rb.slice(row0, rows)


def join(parts: list[list[Block]], empty: Block | None) -> list[Block]:
    """One block for each part: the part's only piece, or the output of a task that concatenates its
    pieces. Empties `parts` on the way, so that a block is freed as soon as the tasks that need it
    have ended."""
    out: list[Any] = []
    waiting: list[tuple[int, Any, Any]] = []
    for k, part in enumerate(parts):
        parts[k] = []
        if len(part) == 1:
            out.append(part[0])
        elif not part:
            if empty is not None:
                ref, row0, _, _ = empty
                out.append((ref, row0, 0, 0))
        else:
            if not waiting:
                ensure_engine()
                task = skate.remote(num_cpus=1, num_returns=2)(_joined)
            ref, size = task.remote([(row0, n) for _, row0, n, _ in part], *[_ref(b) for b in part])
            waiting.append((len(out), ref, size))
            out.append((ref, 0, sum(n for _, _, n, _ in part), 0))
        del part
    for i, ref, size in waiting:
        out[i] = (ref, 0, out[i][2], skate.get(size))
    return out


def cast(blocks: list[Block], schema: Any) -> list[Block]:
    """The blocks, cast to a schema that can hold their values, by one task for each block."""
    ensure_engine()
    task = skate.remote(num_cpus=1, num_returns=2)(_cast)
    made = [task.remote(schema, row0, n, _ref(b)) for b in blocks for _, row0, n, _ in [b]]
    return [(ref, 0, b[2], skate.get(size)) for b, (ref, size) in zip(blocks, made, strict=True)]


def _cast(schema: Any, row0: int, n: int, batch: Any) -> tuple[Any, int]:
    rb = unify.cast_batch(batch.slice(row0, n), schema)
    return rb, _skate.block_nbytes(rb)


def _ref(b: Block) -> Any:
    return _skate.put_block(b[0]) if hasattr(b[0], "num_rows") else b[0]


def _joined(ranges: list[tuple[int, int]], *batches: Any) -> tuple[Any, int]:
    rb = unify.merge([b.slice(row0, n) for b, (row0, n) in zip(batches, ranges, strict=True)])
    return rb, _skate.block_nbytes(rb)
