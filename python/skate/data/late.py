"""Operators that need all of their input before they can say anything: repartition, block order, splits by rows.

A node with op "late" has a function blocks_of(context, inputs), called when a run gets to it: it runs the inputs to blocks, and says which blocks (and rows of them)
come out. Whole and cut blocks are references with a range of rows, never copied; joining pieces of blocks is a task each. Nothing here exchanges rows by key.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from skate.data.execute import Block, Node

below: ContextVar[list[Any] | None] = ContextVar("below", default=None)  # stats of the runs that a run makes first; None: nobody asks


def blocks_of(context: Any, node: Node) -> list[Block]:
    """Runs a node to its blocks, empty ones left out (but the last, which keeps the columns)."""
    from skate.data import execute

    if node.op == "blocks":
        blocks = list(node.options["blocks"])
    else:
        ds = _Ds(node, context)
        blocks = list(execute.run(ds))
        if (seen := below.get()) is not None:
            seen.append(ds._stats)
    return [b for b in blocks if b[2]] or blocks[:1]


class _Ds:
    """As much of a Dataset as execute.run() asks for."""

    def __init__(self, node: Node, context: Any):
        self._node, self.context, self._stats, self._errors = node, context, None, None


def cut(blocks: list[Block], at: list[int]) -> list[list[Block]]:
    """The blocks in parts that end before the rows `at` (ascending); one part more than cuts. No row is copied."""
    out: list[list[Block]] = [[] for _ in range(len(at) + 1)]
    row = i = 0
    for ref, row0, n, size in blocks:
        first = 0
        while first < n:
            while i < len(at) and at[i] <= row + first:
                i += 1
            last = min(n, at[i] - row) if i < len(at) else n
            out[i].append((ref, row0 + first, last - first, size * (last - first) // n))
            first = last
        row += n
    return out


def even(rows: int, k: int) -> list[int]:
    """Where to cut rows into k parts whose sizes differ by one row at most."""
    return [i * rows // k for i in range(1, k)]


def join(parts: list[list[Block]], empty: Block | None) -> list[Block]:
    """One block for each part: the piece itself where it is one, else a task that puts the pieces together. Takes `parts`: blocks go as soon as the tasks that need them are over."""
    import skate
    from skate.data import execute

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
                execute.ensure_engine()
                task = skate.remote(num_cpus=1, num_returns=2)(_joined)
            ref, size = task.remote([(row0, n) for _, row0, n, _ in part], *[_ref(b) for b in part])
            waiting.append((len(out), ref, size))
            out.append((ref, 0, sum(n for _, _, n, _ in part), 0))
        del part
    for i, ref, size in waiting:
        out[i] = (ref, 0, out[i][2], skate.get(size))
    return out


def cast(blocks: list[Block], schema: Any) -> list[Block]:
    """The blocks in a schema that holds them, a task each."""
    import skate
    from skate.data import execute

    execute.ensure_engine()
    task = skate.remote(num_cpus=1, num_returns=2)(_cast)
    made = [task.remote(schema, row0, n, _ref(b)) for b in blocks for _, row0, n, _ in [b]]
    return [(ref, 0, b[2], skate.get(size)) for b, (ref, size) in zip(blocks, made, strict=True)]


def _cast(schema: Any, row0: int, n: int, batch: Any) -> tuple[Any, int]:
    from skate import _skate
    from skate.data.schema import cast_batch

    rb = cast_batch(batch.slice(row0, n), schema)
    return rb, _skate.block_nbytes(rb)


def _ref(b: Block) -> Any:
    from skate import _skate

    return _skate.put_block(b[0]) if hasattr(b[0], "num_rows") else b[0]


def _joined(ranges: list[tuple[int, int]], *batches: Any) -> tuple[Any, int]:
    from skate import _skate
    from skate.data.ops import merge

    rb = merge([b.slice(row0, n) for b, (row0, n) in zip(batches, ranges, strict=True)])
    return rb, _skate.block_nbytes(rb)


def repartitioned(num_blocks: int) -> Any:
    """blocks_of for repartition(num_blocks): that many blocks of as many rows."""

    def late(context: Any, inputs: tuple[Node, ...]) -> list[Block]:
        blocks = blocks_of(context, inputs[0])
        rows = sum(b[2] for b in blocks)
        parts, empty = cut([b for b in blocks if b[2]], even(rows, num_blocks)), blocks[0] if blocks else None
        del blocks
        return join(parts, empty)

    return late


def reordered(seed: Any) -> Any:
    """blocks_of for randomize_block_order: the same blocks in another order, a function of seed."""

    def late(context: Any, inputs: tuple[Node, ...]) -> list[Block]:
        import numpy as np

        blocks = blocks_of(context, inputs[0])
        return [blocks[i] for i in np.random.default_rng(seed).permutation(len(blocks)).tolist()]

    return late


def of_rows(n: int) -> Any:
    """blocks_of for repartition(target_num_rows_per_block, strict=True): blocks of n rows, the last one has what is left."""

    def late(context: Any, inputs: tuple[Node, ...]) -> list[Block]:
        blocks = blocks_of(context, inputs[0])
        rows = sum(b[2] for b in blocks)
        parts, empty = cut([b for b in blocks if b[2]], list(range(n, rows, n))), blocks[0] if blocks else None
        del blocks
        return join(parts, empty)

    return late
