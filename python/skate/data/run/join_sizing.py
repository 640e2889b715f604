"""Chooses how a join is done by measuring its small side: before a run, the side of a join that may
be small is run by itself, and src/shuffle/join_sizing.h decides by its rows and bytes.

- *Broadcast*: each block of the other side is joined with the whole small side
(op/join_broadcast.py). No other rows are moved, and the join is fused with the operators around it.
- *Filters*: the blocks of the measured side are an input of the exchange, and a Bloom filter of
their keys goes to the maps of the other side (op/join_filter.py), which drop rows without a partner
before these are moved.
- *Moved*: an exchange moves the blocks of both sides.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from skate import _skate
from skate.data.by_key.join_args import described, pairs
from skate.data.plan.node import Block, Node, below, bytes_of
from skate.data.plan.resources import as_input
from skate.data.run.blocks import fetch
from skate.data.values import unify
from skate.terminal.words import nbytes


def decided(
    root: Node, context: Any, first: Callable[[Node], list[Block]], said: list[str]
) -> Node:
    """Returns the plan in which each join is replaced by the join that was chosen.

    Args:
        root: The last node of the plan.
        context: The settings.
        first: Runs a node and returns its blocks.
        said: Receives a text for each decision.
    """
    nodes = below(root)
    strict = (
        context.on_error == "raise"
        and not context.max_errored_blocks
        and all(n.params.get("on_error", "raise") in ("raise", None) for n in nodes)
    )
    if (
        context.broadcast_join_bytes == 0
        or not strict
        or not any(n.operator.sizes_first for n in nodes)
    ):
        return root  # The dead letters of the measuring run would be lost.
    takers: dict[int, list[Node]] = {}
    for n in nodes:
        for i in n.inputs:
            takers.setdefault(id(i), []).append(n)
    became: dict[int, Node] = {}
    stack = [root]
    while stack:  # no recursion: plans may be thousands of nodes deep
        node = stack[-1]
        todo = (
            [i for i in node.inputs if id(i) not in became]
            if id(node) not in became and not node.operator.blocking
            else []
        )
        if todo:
            stack += todo
            continue
        stack.pop()
        if id(node) in became:
            continue
        inputs = tuple(became.get(id(i), i) for i in node.inputs)
        new = (
            node
            if all(a is b for a, b in zip(inputs, node.inputs, strict=True))
            else node.replaced(inputs=inputs)
        )
        became[id(node)] = (
            _join(node, new, takers, context, first, said) if node.operator.sizes_first else new
        )
    return became[id(root)]


def _join(
    was: Node,
    node: Node,
    takers: dict[int, list[Node]],
    context: Any,
    first: Callable[[Node], list[Block]],
    said: list[str],
) -> Node:
    """The join that was chosen in place of `node`. was: the same join in the plan from which
    `takers` was made."""
    join, most = node.params["join"], min(context.broadcast_join_bytes, sys.maxsize)
    sizes = [_expected(i) for i in node.inputs]
    facts = (
        join.kind,
        bool(node.params["n"]),
        most,
        tuple(zip(sizes, _alone(was, takers), strict=True)),
    )
    side = _skate.join_first(*facts)
    if side < 0:
        return node
    other = 1 - side
    blocks = first(node.inputs[side])
    rows, size = sum(b[2] for b in blocks), sum(b[3] for b in blocks)
    use = _skate.join_use(facts, side, (rows, size, any(fetch(b).num_columns for b in blocks)))
    name = ("left", "right")[side]
    measured = f"join: {node.label}: the {name} side has {rows:,} rows, {nbytes(size)}"
    if use == "broadcast":
        said.append(f"{measured}: broadcast (at most {nbytes(most)}); the other side is not moved")
        options = node.params["resources"] or as_input(node.inputs[other])
        what = described(join)
        params = {"join": join, "what": what, "side": other, "small": _one(blocks), "shared": True}
        return Node(
            "join_broadcast",
            f"JoinBroadcast({join.kind})",
            params,
            (node.inputs[other],),
            **options,
        )
    made = Node("blocks", f"{node.inputs[side].label}, measured", {}, (), blocks=blocks)
    inputs = [made, made]
    inputs[other] = node.inputs[other]
    told = "moved"
    if use == "filters":
        keys = list(join.on[other])
        params = {"keys": keys, "filter": _filter(blocks, join.on[side], rows), "shared": True}
        inputs[other] = Node(
            "join_filter",
            f"JoinFilter({', '.join(keys)})",
            params,
            (inputs[other],),
            **as_input(inputs[other]),
        )
        told = f"moved; a Bloom filter of its keys ({nbytes(len(params['filter']))}) goes to the other side"
    said.append(f"{measured}: {told}")
    # A filter may give up, so the number of rows that it leaves does not follow from the data
    # alone: the exchange is told which side is the larger one.
    larger = {"larger": other} if use == "filters" and pairs(join.kind) else {}
    return node.replaced(params={**node.params, **larger}, inputs=tuple(inputs))


def _alone(join: Node, takers: dict[int, list[Node]]) -> list[bool]:
    """For each side, whether this join is the only consumer of its nodes, so that measuring the
    side does not run them twice. A side of existing blocks has nothing to run."""
    out = []
    for node in join.inputs:
        mine = {id(n) for n in below(node)}
        out.append(
            len(takers[id(node)]) == 1
            and all(id(t) in mine for n in below(node) if n is not node for t in takers[id(n)])
        )
    return out


def _expected(node: Node) -> int:
    """An estimate of the bytes that a node gives, from the bytes of its sources; -1: unknown, also
    if operators in between may drop rows."""
    known = [bytes_of(n) for n in below(node) if not n.inputs]
    return (
        sum(k for k in known if k is not None) if None not in known and not _shrinks(node) else -1
    )


def _shrinks(node: Node) -> bool:
    return any(
        n.operator.fewer
        or n.operator.first_rows
        or (n.operator.no_more and not n.operator.one_to_one)
        for n in below(node)
        if n.inputs
    )


def _one(blocks: list[Block]) -> Any:
    """Joins all rows of the blocks into one batch, which keeps no larger batch alive."""
    rb = unify.merge([fetch(b) for b in blocks])
    # the batch is a slice that would keep a much larger batch alive: copy it
    if rb.get_total_buffer_size() > 2 * rb.nbytes:
        rb = _skate.BlockOut(rb).written()
        (rb,) = _skate.blocks(rb)
    return rb


def _filter(blocks: list[Block], on: tuple[str, ...], rows: int) -> bytes:
    made = bytearray(_skate.bloom_bytes(rows))
    for b in blocks:
        rb = fetch(b)
        if rb.num_rows:
            _skate.bloom_add(made, rb.select(list(on)))
    return bytes(made)
