"""join_reduce: the second half of a join: joins the rows of a partition of both sides, or a share
of a hot partition (join_args.py). params: join, what (the description of the join in the plan's
node, which C reads, too)."""

from __future__ import annotations

from typing import Any

from skate import _skate
from skate.data.by_key import join_kernel
from skate.data.op import Params
from skate.data.op.exchange_reduce import ExchangeReduce


class JoinReduce(ExchangeReduce):
    def modules(self, params: Params) -> tuple[str, ...]:
        return ("pyarrow.compute", "skate.data.by_key.join_kernel")

    def reduced(self, params: Params, x: Any, target: int) -> Any:
        """The BlockOuts of a reduce. A split reduce, which has a share of a hot partition, gives
        its match report first."""
        slices = [(part.blocks, part.run, part.rows > 0, part.row, part.side) for part in x.parts]
        sides = {part.side for part in x.parts}
        if not sides:
            return
        how = (x.first, x.end, x.n, target, x.told, x.phase, x.shared)
        report = x.phase == _skate.PHASE_SPLIT_REDUCE
        for out in join_kernel.joined(params["join"], params["what"], slices, how):
            # Without rows, a side of unknown schema cannot tell which columns it has besides the
            # key, so no empty block is yielded.
            if len(sides) == 2 or out.num_rows or report:
                yield out
            report = False


operator = JoinReduce()
