"""join_broadcast: joins each block of one side with the whole other side, which is small, without
an exchange. The output follows the order of the first side, then that of the small side.

params: join, what (its description), side (the side that comes block by block), small (a batch: the other side).
run/join_sizing.py makes this operator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from skate import _skate
from skate.data.by_key import join_kernel
from skate.data.op import Batches, Operator, Params

PIECE = 4 << 20  # approximate bytes of a batch, which the next operator gets while it is in a cache


class JoinBroadcast(Operator):
    def modules(self, params: Params) -> tuple[str, ...]:
        return ("pyarrow.compute", "skate.data.by_key.join_kernel")

    def run(self, params: Params, batches: Batches, task: Any) -> Any:
        side, small = params["side"], params["small"]
        how = (0, 1, 1, min(task.target, PIECE), [], _skate.PHASE_REDUCE, 1 + side)
        for some in _gathered(batches, min(task.target, task.nbytes(small)), task.nbytes):
            slices = [(some, 0, True, 0, side), ([small], 0, True, 0, 1 - side)]
            for out in join_kernel.joined(params["join"], params["what"], slices, how):
                yield out.batch()


def _gathered(batches: Batches, least: int, nbytes: Any) -> Iterator[list[Any]]:
    """Yields lists of batches with at least as many bytes as the small side, because each join
    reads the whole small side."""
    held: list[Any] = []
    size = 0
    for rb in batches:
        if not rb.num_columns:  # a batch that has neither rows nor columns
            continue
        if held and not rb.num_rows:
            continue
        held.append(rb)
        size += nbytes(rb)
        if size >= least:
            yield held
            held, size = [], 0
    if held:
        yield held


operator = JoinBroadcast()
