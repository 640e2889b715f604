"""group_map: the first half of the exchange of aggregates of which one is the user's own: makes
states of the rows (group_partial), and sorted runs of the states, in one task even where the fusion
rule would not fuse them."""

from __future__ import annotations

from typing import Any

from skate.data.op import Batches, Params, find
from skate.data.op.exchange_map import ExchangeMap


class GroupMap(ExchangeMap):
    def modules(self, params: Params) -> tuple[str, ...]:
        return find("group_partial").modules(params)

    def run(self, params: Params, batches: Batches, task: Any) -> Any:
        return super().run(params, find("group_partial").run(params, batches, task), task)


operator = GroupMap()
