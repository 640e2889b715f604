"""Operators that need all of their input before they can say anything: repartition, block order.

A node "rearrange" says by its params how: {"how": "even", "n": blocks of as many rows}, {"how": "rows", "n": rows of a block, the last one has what is left} or {"how": "order",
"seed": the same blocks in another order}. A run that gets to it runs its input to blocks first. Whole and cut blocks are references with a range of
rows, never copied; joining pieces of blocks is a task each. Nothing here exchanges rows by key.
"""

from __future__ import annotations

from skate.data.plan.node import Block, Node
from skate.data.run.blocks import cut, even, join


def blocks(node: Node, given: list[Block]) -> list[Block]:
    """What a node "rearrange" gives of the blocks of its input, which it takes."""
    how = node.params["how"]
    if how == "order":
        import numpy as np

        return [given[i] for i in np.random.default_rng(node.params["seed"]).permutation(len(given)).tolist()]
    rows, n = sum(b[2] for b in given), node.params["n"]
    at = even(rows, n) if how == "even" else list(range(n, rows, n))
    parts, empty = cut([b for b in given if b[2]], at), given[0] if given else None
    given.clear()
    return join(parts, empty)
