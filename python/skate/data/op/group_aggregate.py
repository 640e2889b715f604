"""group_aggregate: a row a group, of aggregates (by_group.py): states in the maps, which are sorted by key and come together in the reduces. params: as group_partial, and n (parts that were
asked for; 0: by sizes)."""

from __future__ import annotations

from skate.data.op import Columns, Operator, Params, Phases
from skate.data.op.group_partial import used
from skate.data.op.group_rows import by_order


class GroupAggregate(Operator):
    moves_rows = fewer = True

    def columns(self, params: Params) -> Columns:
        return used(params)

    def phases(self, params: Params) -> Phases:
        return by_order("Aggregate", params, [f"k{i}" for i in range(len(params["by"]))], "group_partial", "group_final")


operator = GroupAggregate()
