"""repartition_exact: the same rows in blocks of exactly a given number of rows, across all borders
of blocks; the last block has the rest. It waits for all blocks first."""

from __future__ import annotations

from typing import Any

from skate.data.op import Operator, Params
from skate.data.values.ranges import cut


class RepartitionExact(Operator):
    one_to_one = blocking = True

    def sure(self, params: Params) -> bool:
        return True

    def arranged(self, params: Params, blocks: list[Any]) -> list[list[Any]]:
        n = params["n"]
        return cut([b for b in blocks if b[2]], list(range(n, sum(b[2] for b in blocks), n)))


operator = RepartitionExact()
