"""The blocks of a run from a given row on. The part before that row is not computed where the
number of rows of each part is known; else it is computed and dropped.

The rows are known of blocks that exist (materialize), of sources that know the rows of their units
(range, Parquet, arrays), and of operators above them that give one row for each of theirs, in
order.
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
    """The blocks of a run from row `row` on. live: as of execute.run."""
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
    """For each node that draws something at random anew in each run: how many runs of it have
    begun. This is a part of the state of an iterator that is resumed."""
    return [n.runs for n in below(node) if n.each_run is not None]


def set_runs(node: Node, runs: list[int]) -> None:
    """Makes the next run draw what the run drew that began when runs_of() gave `runs`."""
    nodes = [n for n in below(node) if n.each_run is not None]
    if len(nodes) != len(runs):
        raise ValueError(
            f"this state is of a Dataset with {len(runs)} random operations, this one has {len(nodes)}"
        )
    for n, k in zip(nodes, runs, strict=True):
        n.runs = k


def seeded(node: Node) -> bool:
    """Whether the random choices of each run of a plan follow from a seed."""
    return all(n.each_run(0) == n.each_run(0) for n in below(node) if n.each_run is not None)


def _chain(node: Node) -> list[Node] | None:
    """The nodes from `node` down to its source, if each row of the node is one row of the source,
    in order, and the number of rows of each part is known; else None."""
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
    """Returns (how many of the parts end before this row, how many rows of the next part come
    before it)."""
    n = 0
    for _, rows, _ in parts:
        if row < rows:
            break
        row -= rows
        n += 1
    return n, row
