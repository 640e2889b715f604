"""group_aggregate: computes aggregates, one row for each group. The kernel computes them
(kernel_aggregates.py), or Python code (user_aggregates.py) if one of them is the user's own.
params: as in group_partial, and n (the number of partitions that the user asked for; 0: chosen from
sizes)."""

from __future__ import annotations

from skate import _skate
from skate.data import aggregate
from skate.data.by_key import kernel_aggregates
from skate.data.op import Columns, Operator, Params, Phase, Phases
from skate.data.op.group_partial import used
from skate.data.values.unify import few


def by_order(params: Params) -> Phases:
    """The phases of aggregates of which one is the user's own: maps make states, an exchange of
    sorted runs brings the states of a group together, reduces make the results."""
    keys = [f"k{i}" for i in range(len(params["by"]))]
    what = _skate.exchange_what(
        "sort", keys=[(k, False, False) for k in keys], groups=True, own_reduce=True
    )
    given, by = {**params, "keys": keys}, few(params["by"])
    cut = {"exchange": {"cut": True, "n_partitions": params["n"]}}
    reduce = Phase("group_reduce", f"AggregateReduce({by})", given, what, cut)
    return Phases((Phase("group_map", f"AggregateMap({by})", given, what),), reduce)


class GroupAggregate(Operator):
    moves_rows = fewer = True

    def columns(self, params: Params) -> Columns:
        return used(params)

    def decodes(self, params: Params) -> bool:
        return aggregate.takes(params["fns"], params["names"])

    def phases(self, params: Params) -> Phases:
        by, fns, names = params["by"], params["fns"], params["names"]
        if not aggregate.takes(fns, names):
            return by_order(params)
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
