"""distinct: the first row of each key, in the order of the keys. Maps and reduces each keep the
first row of a key. params: keys, n (the number of partitions that the user asked for; 0: chosen
from sizes)."""

from __future__ import annotations

from typing import Any

from skate import _skate
from skate.data.op import Columns, Operator, Params, Phase, Phases
from skate.data.values.unify import few


class Distinct(Operator):
    moves_rows = no_more = True

    def columns(self, params: Params) -> Columns:
        return Columns(needs=frozenset(params["keys"]))

    def schema(self, params: Params, given: Any) -> Any:
        return given

    def phases(self, params: Params) -> Phases:
        keys = params["keys"]
        what = _skate.exchange_what(
            "sort", keys=[(k, False, False) for k in keys], groups=True, firsts=True
        )
        given, by = {"keys": keys, "boundaries": None}, few(keys)
        reduce = Phase(
            "exchange_reduce",
            f"DistinctReduce({by})",
            given,
            what,
            {"exchange": {"cut": True, "n_partitions": params["n"]}},
        )
        return Phases((Phase("exchange_map", f"DistinctMap({by})", given, what),), reduce)


operator = Distinct()
