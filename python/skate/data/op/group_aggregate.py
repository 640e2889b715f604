"""group_aggregate: computes aggregates, one row for each group. The kernel computes them
(kernel_aggregates.py), or Python code (user_aggregates.py) if one of them is the user's own.
params: as in group_partial, and n (the number of partitions that the user asked for; 0: chosen from
sizes)."""

from __future__ import annotations

from skate.data import aggregate
from skate.data.by_key import kernel_aggregates
from skate.data.op import Columns, Operator, Params, Phase, Phases
from skate.data.op.group_partial import used
from skate.data.op.group_rows import by_order
from skate.data.values.unify import few


class GroupAggregate(Operator):
    moves_rows = fewer = True

    def columns(self, params: Params) -> Columns:
        return used(params)

    def decodes(self, params: Params) -> bool:
        return aggregate.takes(params["fns"], params["names"])

    def phases(self, params: Params) -> Phases:
        by, fns, names = params["by"], params["fns"], params["names"]
        if not aggregate.takes(fns, names):
            return by_order(
                "Aggregate",
                params,
                [f"k{i}" for i in range(len(by))],
                "group_partial",
                "group_final",
            )
        what = kernel_aggregates.Kernel(by, fns, names, "Aggregate").what
        given = {**params, "keys": by}
        cut = {"cut": bool(by), "n_partitions": params["n"] if by else 1, "tables": True}
        reduce = Phase(
            "aggregate_reduce", f"AggregateReduce({few(by)})", given, what, {"exchange": cut}
        )
        return Phases(
            (Phase("aggregate_map", f"AggregateMap({few(by)})", given, what),),
            reduce,
            ("aggregate_merge", given),
        )


operator = GroupAggregate()
