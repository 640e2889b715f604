"""join_reduce: the second half of a join: joins the rows of one partition of both sides, or of a
share of a hot partition (join_args.py). params: join."""

from __future__ import annotations

from typing import Any

from skate import _skate
from skate.data.by_key import join_args, join_kernel
from skate.data.op import Operator, Params
from skate.data.worker import stage


class JoinReduce(Operator):
    exchange = True

    def modules(self, params: Params) -> tuple[str, ...]:
        return ("pyarrow.compute", "skate.data.by_key.join_kernel")

    def run(self, params: Params, batches: Any, task: Any) -> Any:
        """Yields BlockOuts if this is the last operator of a stage, else batches. A split reduce,
        which works on a share of a hot partition, yields its match report first."""
        x = task.exchange
        sides: tuple[list[Any], list[Any]] = ([], [])
        for part in x.parts:
            found = _skate.blocks(part.blocks)
            sides[part.side].extend(found if part.rows else [rb.slice(0, 0) for rb in found[:1]])
        known = bool(sides[join_args.LEFT] and sides[join_args.RIGHT])
        for side in (join_args.LEFT, join_args.RIGHT):
            if not sides[side] and sides[join_args.RIGHT - side]:
                sides[side].append(
                    join_kernel.keys_alone(params["join"], side, sides[join_args.RIGHT - side])
                )
        if sides[0]:
            told = [rb for block in x.told for rb in _skate.blocks(block)]
            first = join_args.RIGHT if x.shared == 1 + join_args.RIGHT else join_args.LEFT
            joined = join_kernel.Joining(params["join"], sides, task.target, first, told)
            if x.phase == _skate.PHASE_SPLIT_REDUCE:
                yield _skate.BlockOut(joined.tell(), told=True)
            # A side without rows and without a known schema has unknown columns besides the key,
            # so empty batches, whose schema would be wrong, are not yielded.
            made = joined.batches() if known else (rb for rb in joined.batches() if rb.num_rows)
        else:
            made = iter(())
        yield from (
            stage.cut(made, task.target, task.cap, _skate.BlockOut) if params["last"] else made
        )


operator = JoinReduce()
