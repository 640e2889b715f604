"""From the nodes of a Dataset to a _skate.Plan, for one run or for people to read (explain)."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from typing import Any

from skate import _skate
from skate._words import nbytes
from skate.data import bad
from skate.data.context import DataContext
from skate.data.plan.node import Block, Node, below
from skate.data.plan.pushdown import push
from skate.data.plan.resources import group
from skate.data.values import captured
from skate.exceptions import RayError
from skate.serialize import unpicklable


def dumped(node: Node, context: DataContext, hold: list[Any] | None) -> bytes:
    """Parameters for the workers; functions of users bring the settings of the Dataset along. hold: see captured.py."""
    if not node.params:
        return b""
    code = next((k for k in ("fn", "expr", "exprs", "fns", "code") if node.params.get(k) is not None), None)
    own = node.params.get("fn") is not None or bool(node.params.get("by_settings"))
    if code is None and not own:
        return pickle.dumps(node.params, 5)
    try:
        return captured.dump({**node.params, "context": context} if own else node.params, node.label, hold)
    except RayError:
        raise
    except Exception as e:
        if code is None:
            raise
        what = node.params if code == "code" else node.params[code]
        raise TypeError(f"{node.label}: {unpicklable(what, e)}") from None


def lower(
    root: Node, context: DataContext | None = None, hold: list[Any] | None = None, rearranged: Callable[[Node], list[Block]] | None = None
) -> tuple[Any, int]:
    """(_skate.Plan, node id of root) for one run. context None: for people to read only. hold: see values/captured.py. rearranged: gives the blocks of a node that needs
    its whole input, which it runs; None: such a node has none."""
    plan = _skate.Plan()
    root = push(root)
    ids: dict[int, int] = {}
    strategy = context.scheduling_strategy if context is not None else None
    everywhere = group({"scheduling_strategy": strategy}) if not isinstance(strategy, str) else {}
    stack = [root]
    while stack:
        node = stack[-1]
        if id(node) in ids:
            stack.pop()
            continue
        todo = [i for i in node.inputs if id(i) not in ids] if node.op != "rearrange" or context is None else []
        if todo:
            stack += reversed(todo)
            continue
        this = node.this_run() if context is not None else node
        if this.op == "rearrange" and rearranged is not None:
            this = Node("blocks", this.label, {}, (), blocks=rearranged(this))
        elif this.op == "rearrange" and context is None:
            this = Node("blocks", f"{this.label} (BLOCKING: all of its input first, {expected(this.inputs)})", {}, (), blocks=[])
        if context is not None and context.on_error != "raise" and this.op in bad.OPS and this.params.get("on_error") is None:
            this = this.replaced(params={**this.params, "on_error": context.on_error})
        options = {**everywhere, **this.options}
        if "blocks" in options:
            options = {
                **options,
                "blocks": [(r if isinstance(r, _skate.ObjectRef) else _skate.put_block(r), *more) for r, *more in options["blocks"]],
            }
        params = dumped(this, context, hold) if context is not None else b""
        ids[id(node)] = plan.add(this.op, this.label, params, tuple(ids[id(i)] for i in this.inputs), **options)
        stack.pop()
    return plan, ids[id(root)]


def expected(roots: tuple[Node, ...]) -> str:
    """How much comes into what these nodes are made of, in words."""
    rows = size = 0
    for n in {id(n): n for r in roots for n in below(r)}.values():
        for part in n.options.get("units", n.options.get("blocks", ())):
            r, b = (part[1], part[2]) if n.op == "read" else (part[2], part[3])
            rows, size = (rows + r if rows >= 0 and r >= 0 else -1), (size + b if size >= 0 and b >= 0 else -1)
    return f"of {nbytes(size) if size >= 0 else 'unknown size'} read{f' ({rows:,} rows)' if rows >= 0 else ''}"


def explain(root: Node) -> str:
    """The plan of root, and below it the plans of what its blocking operators wait for."""
    plan, at = lower(root)
    text: str = plan.explain(at)
    todo, seen = [root], set()
    while todo:
        n = todo.pop()
        if id(n) in seen:
            continue
        seen.add(id(n))
        if n.op != "rearrange":
            todo += reversed(n.inputs)
            continue
        for i in n.inputs:
            text += f"\nfirst, for {n.label}\n" + "\n".join("  " + line if line else line for line in explain(i).splitlines())
    return text.rstrip("\n")


def warn_few_inputs(node: Node) -> None:
    """Warns of a function that is to run in more places at once than its input has parts."""
    todo, seen = [node], set()
    while todo:
        n = todo.pop()
        if id(n) in seen:
            continue
        seen.add(id(n))
        todo += n.inputs
        most = n.options["pool"][0] if n.options.get("pool") else n.options.get("max_tasks") or 0
        if most > 1 and "fn" in n.params and len(n.inputs) == 1:
            below = n.inputs[0]
            while (
                below.op in ("map", "map_batches", "filter", "flat_map", "project", "select_columns", "rename_columns")
                and len(below.inputs) == 1
            ):
                below = below.inputs[0]
            parts = below.options.get("units", below.options.get("blocks"))
            if parts is not None and 0 < len(parts) < most:
                warnings.warn(
                    f"{n.label} can launch at most {len(parts)} task{'s' if len(parts) > 1 else ''}, as its input has {len(parts)} part"
                    f"{'s' if len(parts) > 1 else ''}, and is to run {most} at once; raise override_num_blocks of what reads it",
                    UserWarning,
                    stacklevel=4,
                )
