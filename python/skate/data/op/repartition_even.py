"""repartition_even: the same rows in a given number of blocks of equal row counts; it waits for all
blocks first."""

from __future__ import annotations

from typing import Any

from skate.data.op import Operator, Params
from skate.data.values.ranges import cut, even


class RepartitionEven(Operator):
    one_to_one = blocking = True

    def sure(self, params: Params) -> bool:
        return True

    def arranged(self, params: Params, blocks: list[Any]) -> list[list[Any]]:
        return cut([b for b in blocks if b[2]], even(sum(b[2] for b in blocks), params["n"]))


operator = RepartitionEven()
