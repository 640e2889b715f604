"""join_reduce: the second half of a join: the rows of a partition of both sides, or of a share of it, joined (joins.py). params: join."""

from __future__ import annotations

from typing import Any

from skate import _lazy, _skate
from skate.data.op import Operator, Params

joining = _lazy.module("skate.data.joining")
joins = _lazy.module("skate.data.joins")
unify = _lazy.module("skate.data.values.unify")
stage = _lazy.module("skate.data.worker.stage")


class JoinReduce(Operator):
    exchange = True

    def modules(self, params: Params) -> tuple[str, ...]:
        return ("pyarrow.compute", "skate.data.joining")

    def run(self, params: Params, batches: Any, task: Any) -> Any:
        """Batches, or BlockOuts of the last operator of a stage; of a task that has a share the first one is what it tells."""
        x = task.exchange
        sides: tuple[list[Any], list[Any]] = ([], [])
        for part in x.parts:
            found = _skate.blocks(part.blocks)
            sides[part.side].extend(found if part.rows else [rb.slice(0, 0) for rb in found[:1]])
        if sides[0] and sides[1]:
            told = [rb for block in x.told for rb in _skate.blocks(block)]
            first = joins.RIGHT if x.shared == 1 + joins.RIGHT else joins.LEFT
            joined = joining.Joining(params["join"], sides, task.target, first, told)
            if x.phase == _skate.PHASE_SHARE:
                yield _skate.BlockOut(joined.tell(), told=True)
            made = joined.batches()
        else:
            made = iter(_of_one_side(params["join"], sides))
        yield from stage.cut(made, task.target, task.cap, _skate.BlockOut) if params["last"] else made


def _of_one_side(join: Any, sides: tuple[list[Any], list[Any]]) -> list[Any]:
    """Of what has no partner, since the other side has no rows and its columns are not known: nobody has seen any. MissingColumn where these are wanted."""
    kind = joins.KINDS[join.kind]
    for side in kind.alone:
        if not any(rb.num_rows for rb in sides[side]):
            continue
        if kind.sides == (side,):
            return [unify.merge(sides[side])]
        other = joins.RIGHT - side
        raise unify.MissingColumn(
            f"join: the {('left', 'right')[other]} dataset has no rows and no columns, so the key column {join.on[other][0]!r} is not there"
        )
    return []


operator = JoinReduce()
