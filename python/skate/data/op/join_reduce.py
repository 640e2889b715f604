"""join_reduce: the second half of a join: the rows of some partitions of both sides, joined (joins.py). params: join."""

from __future__ import annotations

from typing import Any

from skate import _lazy, _skate
from skate.data.op import Operator, Params

joining = _lazy.module("skate.data.joining")
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
            made = iter([joining.joined(params["join"], *(unify.merge(s) for s in sides))])
            return stage.cut(made, task.target, task.cap, _skate.BlockOut) if params["last"] else made
        return iter(())


operator = JoinReduce()
