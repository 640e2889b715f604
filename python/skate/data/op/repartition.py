"""repartition: the same rows in the same order, in blocks of at most a given number of rows."""

from __future__ import annotations

from typing import Any

from skate.data.op import Batches, Operator, Params
from skate.data.values import rebatch


class Repartition(Operator):
    one_to_one = alone = makes_blocks = True

    def sure(self, params: Params) -> bool:
        return True

    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        return rebatch.rebatch(batches, params["rows"])


operator = Repartition()
