"""group_map: the first half of an exchange by order (sorted runs). It applies the operator
params["before"] to the rows first, so that both run in one task even where the fusion rule would
not fuse them."""

from __future__ import annotations

from typing import Any

from skate.data.op import Batches, Params, find
from skate.data.op.exchange_map import ExchangeMap


class GroupMap(ExchangeMap):
    def modules(self, params: Params) -> tuple[str, ...]:
        return find(params["before"]).modules(params)

    def run(self, params: Params, batches: Batches, task: Any) -> Any:
        return super().run(params, find(params["before"]).run(params, batches, task), task)


operator = GroupMap()
