"""group_reduce: the second half of the exchange of aggregates of which one is the user's own: hands
merged states to group_final, which makes the results, in one task even where the fusion rule would
not fuse them."""

from __future__ import annotations

from typing import Any

from skate import _skate
from skate.data.op import Params, find
from skate.data.op.exchange_reduce import ExchangeReduce, reduced
from skate.data.worker import stage


class GroupReduce(ExchangeReduce):
    def modules(self, params: Params) -> tuple[str, ...]:
        return find("group_final").modules(params)

    def run(self, params: Params, batches: Any, task: Any) -> Any:
        if task.exchange.phase == _skate.PHASE_CUT:
            return super().run(params, batches, task)
        states = (out.batch() for out in reduced(params, task.exchange, task.target))
        made = find("group_final").run(params, states, task)
        if not params["last"]:
            return made
        return stage.cut(made, task.target, task.cap, _skate.BlockOut)


operator = GroupReduce()
