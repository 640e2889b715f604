"""join_reduce: the second half of a join: the rows of some partitions of both sides, joined (joins.py). params: join."""

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
        sides: tuple[list[Any], list[Any]] = ([], [])
        for part in task.exchange.parts:
            found = _skate.blocks(part.blocks)
            sides[part.side].extend(found if part.rows else [rb.slice(0, 0) for rb in found[:1]])
        if sides[0] and sides[1]:
            first = joins.RIGHT if task.exchange.shared == 1 + joins.RIGHT else joins.LEFT
            made = joining.joined(params["join"], *sides, task.target, first)
        else:
            made = iter(_of_one_side(params["join"], sides))
        return stage.cut(made, task.target, task.cap, _skate.BlockOut) if params["last"] else made


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
