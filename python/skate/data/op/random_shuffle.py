"""random_shuffle: puts the rows into a random order: each row goes to a random partition, and each
partition is permuted. The order depends on the seed and the input only, not on the number of
workers or the memory."""

from __future__ import annotations

from typing import Any

from skate import _skate
from skate.data.op import Columns, Operator, Params, Phase, Phases


class RandomShuffle(Operator):
    moves_rows = True  # no predicate is moved below: a row's place depends on the rows before it

    def sure(self, params: Params) -> bool:
        return True

    def columns(self, params: Params) -> Columns:
        return Columns()

    def schema(self, params: Params, given: Any) -> Any:
        return given

    def phases(self, params: Params) -> Phases:
        what = _skate.exchange_what("random", partitions=_skate.PARTITIONS, seed=params["seed"])
        given: Params = {"keys": []}
        reduce = Phase(
            "exchange_reduce",
            "RandomShuffleReduce",
            given,
            what,
            {"exchange": {"cut": False, "n_partitions": 0}},
        )
        return Phases(
            (Phase("exchange_map_numbered", "RandomShuffleMap", given, what, params["resources"]),),
            reduce,
        )


operator = RandomShuffle()
