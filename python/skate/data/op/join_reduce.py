"""join_reduce: the second half of a join: the rows of a partition of both sides, or of a share of
it, joined (joins.py). params: join."""

from __future__ import annotations

from typing import Any

from skate import _skate
from skate.data import joining, joins
from skate.data.op import Operator, Params
from skate.data.worker import stage


class JoinReduce(Operator):
    exchange = True

    def modules(self, params: Params) -> tuple[str, ...]:
        return ("pyarrow.compute", "skate.data.joining")

    def run(self, params: Params, batches: Any, task: Any) -> Any:
        """Batches, or BlockOuts of the last operator of a stage; of a task that has a share the
        first one is what it tells."""
        x = task.exchange
        sides: tuple[list[Any], list[Any]] = ([], [])
        for part in x.parts:
            found = _skate.blocks(part.blocks)
            sides[part.side].extend(found if part.rows else [rb.slice(0, 0) for rb in found[:1]])
        known = bool(sides[joins.LEFT] and sides[joins.RIGHT])
        for side in (joins.LEFT, joins.RIGHT):
            if not sides[side] and sides[joins.RIGHT - side]:
                sides[side].append(
                    joining.keys_alone(params["join"], side, sides[joins.RIGHT - side])
                )
        if sides[0]:
            told = [rb for block in x.told for rb in _skate.blocks(block)]
            first = joins.RIGHT if x.shared == 1 + joins.RIGHT else joins.LEFT
            joined = joining.Joining(params["join"], sides, task.target, first, told)
            if x.phase == _skate.PHASE_SHARE:
                yield _skate.BlockOut(joined.tell(), told=True)
            # Without rows the columns of a side that nobody knows are not said to be the key's
            # alone.
            made = joined.batches() if known else (rb for rb in joined.batches() if rb.num_rows)
        else:
            made = iter(())
        yield from (
            stage.cut(made, task.target, task.cap, _skate.BlockOut) if params["last"] else made
        )


operator = JoinReduce()
