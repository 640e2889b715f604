"""repartition_shuffled: the rows in a given number of blocks, each with rows of all input blocks;
or, with keys, all rows of equal keys in one block."""

from __future__ import annotations

from typing import Any

from skate import _skate
from skate.data.op import Columns, Operator, Params, Phase, Phases


class RepartitionShuffled(Operator):
    moves_rows = True  # no predicate is moved below: a row's place depends on the rows before it

    def sure(self, params: Params) -> bool:
        return not params["keys"]

    def columns(self, params: Params) -> Columns:
        return Columns(needs=frozenset(params["keys"]))

    def schema(self, params: Params, given: Any) -> Any:
        return given

    def phases(self, params: Params) -> Phases:
        keys, n = params["keys"], params["n"]
        what = _skate.exchange_what(
            "hash" if keys else "even",
            keys=[(k, False, False) for k in keys],
            partitions=n,
            one_block=True,
            sorted=params["sort"],
        )
        given = {"keys": keys}
        by = f"({', '.join(keys)})" if keys else ""
        reduce = Phase(
            "exchange_reduce",
            f"RepartitionReduce{by}",
            given,
            what,
            {"exchange": {"cut": False, "n_partitions": n}},
        )
        return Phases(
            (
                Phase(
                    "exchange_map" if keys else "exchange_map_numbered",
                    f"RepartitionMap{by}",
                    given,
                    what,
                ),
            ),
            reduce,
        )


operator = RepartitionShuffled()
