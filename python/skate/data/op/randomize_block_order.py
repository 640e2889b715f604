"""randomize_block_order: the same blocks in a random order; it waits for all blocks first."""

from __future__ import annotations

from typing import Any

from skate._deps import np
from skate.data.op import Operator, Params


class RandomizeBlockOrder(Operator):
    blocking = True

    def sure(self, params: Params) -> bool:
        return True

    def arranged(self, params: Params, blocks: list[Any]) -> list[list[Any]]:
        return [
            [blocks[i]]
            for i in np.random.default_rng(params["seed"]).permutation(len(blocks)).tolist()
        ]


operator = RandomizeBlockOrder()
