"""aggregate_merge: between the halves of an exchange that computes aggregates, combines states of the
same groups (src/shuffle/merge.c). params: as in aggregate_map.
"""

from __future__ import annotations

from typing import Any

from skate import _skate
from skate.data.by_key import kernel_aggregates
from skate.data.op import Params
from skate.data.op.aggregate_map import kernel
from skate.data.op.exchange_merge import ExchangeMerge


class AggregateMerge(ExchangeMerge):
    combines = True

    def modules(self, params: Params) -> tuple[str, ...]:
        return ("skate.data.by_key.kernel_aggregates",)

    def cast(self, params: Params, x: Any, task: Any) -> Any:
        """Makes states of all batches, also of rows, in the types that hold all of them."""
        states = kernel_aggregates.States(kernel(params))
        for part in x.parts:
            for rb in _skate.blocks(part.blocks):
                states.add(rb)
        return _skate.exchange_map(params["what"], states.batch(), 0, 0, None, task.values)


operator = AggregateMerge()
