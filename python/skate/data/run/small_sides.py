"""Small sides of joins: before a run, the side of a join that may be small runs by itself, and its rows and bytes say how the join is done.

- It is small (DataContext.broadcast_join_bytes): *broadcast*. Each block of the other side is joined with all of it (op/join_broadcast.py), where the kind of the join allows it
  (joins.by_block) and the user asks for no number of partitions. Nothing else is moved, and the join fuses with what is before and behind it.
- Else its blocks are the input of the exchange. Where rows of the other side that meet nothing are not wanted, and it is expected to be larger, it is *filtered*: a Bloom filter of the keys
  goes to its maps (op/join_filter.py), which leave out what meets nothing before it is moved.

Sizes are measured, and of the data alone: so what is done, and the order of rows with it, does not depend on workers, memory or time. What is only expected (bytes of sources) decides which side is
looked at first, and that a side which is large by all signs is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skate import _lazy, _skate
from skate._words import nbytes
from skate.data.joins import LEFT, by_block, may_be_left_out
from skate.data.plan.node import Block, Node, below, bytes_of
from skate.data.plan.resources import as_input
from skate.data.run.blocks import fetch

LOOKED_AT = 2  # times the bytes that are broadcast: a side is expected to have at most, to be run first
FILTERED = 16  # the same where a filter is all that may come of it
LARGER = 4  # times the bytes of a side that its filter is made for: the other one has, or nobody knows
FILTER_ROWS = 6_000_000  # whose keys a filter has at most, 10 bits each


def decided(root: Node, context: Any, first: Callable[[Node], list[Block]], said: list[str]) -> Node:
    """root with its joins as they are to be done. first: runs a node to its blocks; said: gets what was done, in words."""
    nodes = below(root)
    strict = (
        context.on_error == "raise"
        and not context.max_errored_blocks
        and all(n.params.get("on_error", "raise") in ("raise", None) for n in nodes)
    )
    if context.broadcast_join_bytes == 0 or not strict or not any(n.operator.sizes_first for n in nodes):
        return root  # what a run that is over has kept of bad rows would be lost
    takers: dict[int, list[Node]] = {}
    for n in nodes:
        for i in n.inputs:
            takers.setdefault(id(i), []).append(n)
    became: dict[int, Node] = {}
    stack = [root]
    while stack:  # plans may be thousands of nodes deep
        node = stack[-1]
        todo = [i for i in node.inputs if id(i) not in became] if id(node) not in became and not node.operator.blocking else []
        if todo:
            stack += todo
            continue
        stack.pop()
        if id(node) in became:
            continue
        inputs = tuple(became.get(id(i), i) for i in node.inputs)
        new = node if all(a is b for a, b in zip(inputs, node.inputs, strict=True)) else node.replaced(inputs=inputs)
        became[id(node)] = _join(node, new, takers, context, first, said) if node.operator.sizes_first else new
    return became[id(root)]


def _join(
    was: Node, node: Node, takers: dict[int, list[Node]], context: Any, first: Callable[[Node], list[Block]], said: list[str]
) -> Node:
    """A join as it is to be done. was: as it is in the plan that takers is of."""
    join, most = node.params["join"], context.broadcast_join_bytes
    whole = [1 - s for s in by_block(join.kind)] if not node.params["n"] else []
    keys_of = [1 - s for s in may_be_left_out(join.kind)]
    sizes = [_expected(i) for i in node.inputs]
    side = _looked_at(whole, keys_of, sizes, most)
    if side < 0 or not _alone(was, side, takers):
        return node
    other = 1 - side
    there = sizes[other]
    blocks = first(node.inputs[side])
    rows, size = sum(b[2] for b in blocks), sum(b[3] for b in blocks)
    name = ("left", "right")[side]
    measured = f"join: {node.label}: the {name} side has {rows:,} rows, {nbytes(size)}"
    if side in whole and size <= most and blocks and (small := _one(blocks)).num_columns:
        said.append(f"{measured}: broadcast (at most {nbytes(most)}); the other side is not moved")
        options = node.params["resources"] or as_input(node.inputs[other])
        params = {"join": join, "side": other, "small": small, "shared": True}
        return Node("join_broadcast", f"JoinBroadcast({join.kind})", params, (node.inputs[other],), **options)
    made = Node("blocks", f"{node.inputs[side].label}, measured", {}, (), blocks=blocks)
    inputs = [made, made]
    inputs[other] = node.inputs[other]
    told = "moved"
    if side in keys_of and 0 < rows <= FILTER_ROWS and (there is None or there >= LARGER * size):
        keys = list(join.on[other])
        params = {"keys": keys, "filter": _filter(blocks, join.on[side], rows), "shared": True}
        inputs[other] = Node("join_filter", f"JoinFilter({', '.join(keys)})", params, (inputs[other],), **as_input(inputs[other]))
        told = f"moved; a Bloom filter of its keys ({nbytes(len(params['filter']))}) goes to the other side"
    said.append(f"{measured}: {told}")
    return node.replaced(inputs=tuple(inputs))


def _looked_at(whole: list[int], keys_of: list[int], sizes: list[float | None], most: int) -> int:
    """The side that is to be measured; -1: none. whole: those that may be broadcast; keys_of: those whose keys may filter the other one; sizes: that are expected."""

    def size(s: int) -> tuple[float, bool]:
        found = sizes[s]
        return (most if found is None else found, s == LEFT)  # of equal ones the right one

    for s in sorted(whole, key=size):
        if size(s)[0] <= LOOKED_AT * most:
            return s
    for s in sorted(keys_of, key=size):
        mine, there = sizes[s], sizes[1 - s]
        if mine is not None and there is not None and mine <= FILTERED * most and there >= LARGER * mine:
            return s
    return -1


def _alone(join: Node, side: int, takers: dict[int, list[Node]]) -> bool:
    """Whether nobody else takes what this side is made of: then it runs once, as without us. A side that is blocks has nothing to run."""
    node = join.inputs[side]
    mine = {id(n) for n in below(node)}
    return len(takers[id(node)]) == 1 and all(id(t) in mine for n in below(node) if n is not node for t in takers[id(n)])


def _expected(node: Node) -> float | None:
    """Bytes that may come of a node, by the bytes of its sources; None: nobody knows, also where what is between leaves out rows."""
    known = [bytes_of(n) for n in below(node) if not n.inputs]
    return sum(k for k in known if k is not None) if None not in known and not _shrinks(node) else None


def _shrinks(node: Node) -> bool:
    return any(
        n.operator.fewer or n.operator.first_rows or (n.operator.no_more and not n.operator.one_to_one) for n in below(node) if n.inputs
    )


def _one(blocks: list[Block]) -> Any:
    """All rows of the blocks as one batch, in memory of its own."""
    rb = _lazy.unify.merge([fetch(b) for b in blocks])
    if rb.get_total_buffer_size() > 2 * rb.nbytes:  # some rows of a large batch
        rb = _skate.BlockOut(rb).written()
        (rb,) = _skate.blocks(rb)
    return rb


def _filter(blocks: list[Block], on: tuple[str, ...], rows: int) -> bytes:
    made = bytearray(_skate.bloom_bytes(rows, 10))
    for b in blocks:
        rb = fetch(b)
        if rb.num_rows:
            _skate.bloom_add(made, rb.select(list(on)))
    return bytes(made)
