"""aggregate: partial aggregates: one row of states for each task (combine.py); the driver merges
them in order."""

from __future__ import annotations

from typing import Any

from skate.data import combine
from skate.data.op import ALL, ITS_OWN, Batches, Columns, Operator, Params


class Aggregate(Operator):
    def columns(self, params: Params) -> Columns:
        used: list[Any] = (
            [None if a[1] is None else {a[1]} for a in params["aggs"]]
            if "aggs" in params
            else [f.columns() for f in params["fns"]]
        )
        return ALL if None in used else Columns(needs=frozenset[str]().union(*used), keeps=ITS_OWN)

    def modules(self, params: Params) -> tuple[str, ...]:
        return ("pyarrow.compute",)

    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        states: Batches = (combine.partial_fns if "fns" in params else combine.partial)(
            params, batches
        )
        return states


operator = Aggregate()
