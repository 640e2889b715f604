"""distinct: the first row of each key, in the order of the keys. Maps and reduces each keep the
first row of a key. params: keys, n (the number of partitions that the user asked for; 0: chosen
from sizes)."""

from __future__ import annotations

from typing import Any

from skate.data.op import Columns, Operator, Params, Phases
from skate.data.op.group_rows import by_groups


class Distinct(Operator):
    moves_rows = no_more = True

    def columns(self, params: Params) -> Columns:
        return Columns(needs=frozenset(params["keys"]))

    def schema(self, params: Params, given: Any) -> Any:
        return given

    def phases(self, params: Params) -> Phases:
        return by_groups("Distinct", params, firsts=True)


operator = Distinct()
