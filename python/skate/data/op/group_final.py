"""group_final: turns states of aggregates, which come in the order of their keys, into results: one
row for each group (user_aggregates.py). params: as in group_partial."""

from __future__ import annotations

from typing import Any

from skate.data.op import Batches, Operator, Params
from skate.data.op.group_partial import aggregates


class GroupFinal(Operator):
    def modules(self, params: Params) -> tuple[str, ...]:
        return ("pyarrow.compute", "skate.data.by_key.user_aggregates")

    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        of = aggregates(params)
        last: list[Any] = []  # the states of the last group, which may continue in the next batch
        none = None
        for rb in batches:
            none = rb
            if not rb.num_rows:
                continue
            states = of.combined([*last, rb], in_order=True)
            n = states.num_rows - 1
            last = [states.slice(n)]
            if n:
                yield of.results(states.slice(0, n))
        if last:
            yield of.results(last[0])
        elif none is not None:
            yield of.results(none)  # an empty batch, which shows the columns


operator = GroupFinal()
