"""group_reduce: the second half of an exchange by order (sorted runs). It passes whole groups to
the operator params["behind"], so that both run in one task even where the fusion rule would not
fuse them."""

from __future__ import annotations

from typing import Any

from skate import _skate
from skate.data.op import Params, find
from skate.data.op.exchange_reduce import ExchangeReduce, reduced
from skate.data.worker import stage


class GroupReduce(ExchangeReduce):
    def modules(self, params: Params) -> tuple[str, ...]:
        return find(params["behind"]).modules(params)

    def run(self, params: Params, batches: Any, task: Any) -> Any:
        if task.exchange.phase == _skate.PHASE_CUT:
            return super().run(params, batches, task)
        behind = find(params["behind"])
        made = behind.run(
            params, (out.batch() for out in reduced(params, task.exchange, task.target)), task
        )
        return (
            stage.cut(made, 0 if behind.makes_blocks else task.target, task.cap, _skate.BlockOut)
            if params["last"]
            else made
        )


operator = GroupReduce()
