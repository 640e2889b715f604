"""The blocks of a run from a given row on. What comes before that row is not computed if the number
of rows of each part is known; else it is computed and dropped.

The number of rows is known for existing blocks (materialize), for sources that know the rows of
their units (range, Parquet, arrays), and for operators above them that make one row of each input
row, in order.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from skate.data.plan.node import Node, below
from skate.data.run import execute
from skate.data.run.request import RunRequest

Ways = list[Any]


def blocks_from(
    request: RunRequest, row: int, live: Ways | None = None
) -> Generator[Any, None, None]:
    """The blocks of a run from row `row` on. live: see execute.run."""
    node, skip, left = request.node, None, row
    chain = _chain(node) if row else None
    if (
        chain is not None
        and all(n.params.get("on_error") in (None, "raise") for n in chain)
        and request.context.on_error == "raise"
    ):
        source = chain[-1]
        whole, left = _before(source.parts or [], row)
        if source.blocks is not None and (len(chain) == 1 or 0 < whole < len(source.blocks)):
            node = source.replaced(options={**source.options, "blocks": source.blocks[whole:]})
            for upper in reversed(chain[:-1]):
                node = upper.replaced(inputs=(node,))
        elif source.blocks is None and whole:
            skip = bytes(i < whole for i in range(len(source.parts or [])))
        else:
            left = row
    it = execute.run(request.over(node, skip), live=live)
    try:
        for ref, row0, rows, size, *_ in it:
            cut = min(left, rows)
            left -= cut
            if cut < rows or not rows:
                yield ref, row0 + cut, rows - cut, size * (rows - cut) // max(rows, 1)
    finally:
        it.close()


def runs_of(node: Node) -> list[int]:
    """For each node that makes random choices anew in each run: how many of its runs have begun. A
    resumed iterator needs this as a part of its state."""
    return [n.runs for n in below(node) if n.each_run is not None]


def set_runs(node: Node, runs: list[int]) -> None:
    """Makes the next run repeat the random choices of the run that began when runs_of() gave
    `runs`."""
    nodes = [n for n in below(node) if n.each_run is not None]
    if len(nodes) != len(runs):
        raise ValueError(
            f"this state is of a Dataset with {len(runs)} random operations, this one has {len(nodes)}"
        )
    for n, k in zip(nodes, runs, strict=True):
        n.runs = k


def seeded(node: Node) -> bool:
    """Whether the random choices of each run of a plan follow from a seed alone."""
    return all(n.each_run(0) == n.each_run(0) for n in below(node) if n.each_run is not None)


def _chain(node: Node) -> list[Node] | None:
    """The nodes from `node` to its source, if each row of the node is made of one row of the
    source, in order, and the number of rows of each part is known; else None."""
    chain = [node]
    while (
        len(chain[-1].inputs) == 1
        and chain[-1].operator.one_to_one
        and not chain[-1].operator.numbered
    ):
        chain.append(chain[-1].inputs[0])
    source = chain[-1]
    known = (
        source.parts is not None
        and source.each_run is None
        and min((p[1] for p in source.parts), default=0) >= 0
    )
    return chain if known else None


def _before(parts: list[Any], row: int) -> tuple[int, int]:
    """Returns (the number of parts that end before this row, the number of rows of the next part
    that come before it)."""
    n = 0
    for _, rows, _ in parts:
        if row < rows:
            break
        row -= rows
        n += 1
    return n, row
