"""Lowers the nodes of a Dataset to a _skate.Plan, for one run or for explain()."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from skate import _job, _skate
from skate.data.context import DataContext
from skate.data.plan.node import Block, Node, below
from skate.data.plan.optimise import add, new_plan, optimised
from skate.data.plan.resources import as_input, group
from skate.data.worker import captured
from skate.exceptions import RayError
from skate.serialize import is_missing, unpicklable
from skate.terminal.words import nbytes


def dumped(node: Node, context: DataContext, hold: list[Any] | None) -> bytes:
    """The pickled parameters of a node, for the workers. They include the Dataset's settings if the
    node has a user's function, or reads settings that differ from the defaults. hold: see
    captured.py."""
    matters = context.matters_in_workers()
    if not node.params and not matters:
        return b""
    code = next(
        (k for k in ("fn", "expr", "exprs", "fns", "code") if node.params.get(k) is not None), None
    )
    if node.params.get("builtin"):  # the functions of built-in aggregates are skate's own
        code = None
    own = node.params.get("fn") is not None or bool(node.params.get("by_settings")) or matters
    if code is None and not own and not node.params.get("shared"):
        return pickle.dumps(node.params, 5)
    try:
        return captured.dump(
            {**node.params, "context": context} if own else node.params, node.label, hold
        )
    except RayError:
        raise
    except Exception as e:
        if code is None or is_missing(e):
            raise
        what = node.params if code == "code" else node.params[code]
        raise TypeError(f"{node.label}: {unpicklable(what, e)}") from None


class Lowered(NamedTuple):
    """A plan for C.

    Args:
        root: The id of its last node.
        rules: What the optimiser has changed, in words.
        own: The exchanges whose strategies are written in Python: (the plan's _skate.Told, the
            strategy, the number of inputs) of each.
    """

    plan: Any
    root: int
    rules: list[str]
    own: list[tuple[Any, Any, int]]


def lower(
    root: Node,
    context: DataContext | None = None,
    hold: list[Any] | None = None,
    rearranged: Callable[[Node], list[Block]] | None = None,
    on_error: str | None = None,
    sized: Callable[[Node, list[str]], Node] | None = None,
    shuffle: Any = None,
) -> Lowered:
    """Lowers a plan for one run.

    Args:
        root: The last node.
        context: The settings; None: the plan is for people to read only.
        hold: See worker/captured.py.
        rearranged: Runs the input of a node that needs its whole input, and returns the node's
            blocks; None: such a node has no blocks.
        on_error: The policy of operators that name none; None: that of the context.
        sized: Decides what depends on measured sizes (run/join_sizing.py), and appends its
            decisions to a list of texts.
        shuffle: The strategy of exchanges; None: that of the context.
    """
    on_error = on_error or (context.on_error if context is not None else "raise")
    shuffle = shuffle or strategy(context)
    plan = new_plan()
    root, rules = optimised(root, on_error)
    if sized is not None:
        root = sized(root, rules)
    ids: dict[int, int] = {}
    own: list[tuple[Any, Any, int]] = []
    place = context.scheduling_strategy if context is not None else None
    everywhere = group({"scheduling_strategy": place}) if not isinstance(place, str) else {}
    # As in Ray, the setting max_retries applies to tasks, not to calls of a pool's actors.
    if "max_retries" in _job.facts():
        everywhere = {**everywhere, "max_retries": _job.facts()["max_retries"]}
    stack = [root]
    while stack:
        node = stack[-1]
        if id(node) in ids:
            stack.pop()
            continue
        todo = (
            [i for i in node.inputs if id(i) not in ids]
            if not node.operator.blocking or context is None
            else []
        )
        if todo:
            stack += reversed(todo)
            continue
        this = node.this_run() if context is not None else node
        if this.operator.blocking and rearranged is not None:
            this = Node("blocks", this.label, {}, (), blocks=rearranged(this))
        elif this.operator.blocking and context is None:
            this = Node(
                "blocks",
                f"{this.label} (BLOCKING: all of its input first, {expected(this.inputs)})",
                {},
                (),
                blocks=[],
            )
        if on_error != "raise" and this.operator.on_error and this.params.get("on_error") is None:
            this = this.replaced(params={**this.params, "on_error": on_error})
        options = {**everywhere, **this.options}
        if "blocks" in options:
            options = {
                **options,
                "blocks": [
                    (r if isinstance(r, _skate.ObjectRef) else _skate.put_block(r), *more)
                    for r, *more in options["blocks"]
                ],
            }
        inputs = tuple(ids[id(i)] for i in this.inputs)
        if this.operator.moves_rows:
            way = this.options.get("strategy", shuffle)
            chains, this = phases(this, way)
            for k, chain in enumerate(chains):
                for part in chain:
                    at = add(
                        plan,
                        part,
                        _params(part, context, hold),
                        (inputs[k],),
                        {**everywhere, **part.options},
                    )
                    inputs = (*inputs[:k], at, *inputs[k + 1 :])
            options = {**everywhere, **this.options}
            if context is not None:
                options["strategy"] = _wired(way, len(inputs), own)
        ids[id(node)] = add(plan, this, _params(this, context, hold), inputs, options)
        stack.pop()
    return Lowered(plan, ids[id(root)], rules, own)


def _wired(way: Any, inputs: int, own: list[tuple[Any, Any, int]]) -> Any:
    """A strategy in the form that _skate.Plan takes. A strategy written in Python is appended to
    `own`."""
    if isinstance(way, str):
        return way
    own.append((_skate.Told(type(way).__name__), way, inputs))
    return own[-1][0]


def _params(node: Node, context: DataContext | None, hold: list[Any] | None) -> bytes:
    return dumped(node, context, hold) if context is not None else b""


def phases(node: Node, way: Any) -> tuple[list[list[Node]], Node]:
    """The phases of an exchange: (for each input its map, followed by a merge if the strategy `way`
    may make one; the reduce). A map takes the resources of its input, so that the two fuse, unless the node says
    otherwise; a merge takes those of the reduce."""
    found = node.operator.phases(node.params)
    chains = [
        [Node(m.op, m.label, m.params, (), what=m.what, **(m.options or as_input(i)))]
        for m, i in zip(found.maps, node.inputs, strict=True)
    ]
    options = {k: v for k, v in found.reduce.options.items() if k != "exchange"}
    for chain, m in zip(chains, found.maps, strict=True):
        name, params = found.merge
        label = m.label.replace("Map", "Merge", 1)
        merge = Node(name, label, params, (), what=m.what, **options)
        if may_merge(way) and not (way == "auto" and merge.operator.combines):
            chain.append(merge)
    return chains, Node(
        found.reduce.op,
        found.reduce.label,
        found.reduce.params,
        (),
        what=found.reduce.what,
        **found.reduce.options,
    )


def strategy(context: DataContext | None) -> Any:
    """The strategy of exchanges that name none: a name or an object. The names of Ray's strategies
    mean "auto"."""
    named: Any = context.shuffle_strategy if context is not None else "auto"
    return named if not isinstance(named, str) or named in _skate.SHUFFLES else "auto"


def may_merge(way: Any) -> bool:
    """Whether a strategy may merge packs; every strategy written in Python may."""
    return not isinstance(way, str) or _skate.SHUFFLES[way]


def expected(roots: tuple[Node, ...]) -> str:
    """A text that says how much data these nodes are expected to read."""
    rows = size = 0
    for n in {id(n): n for r in roots for n in below(r)}.values():
        for _, r, b in n.parts or ():
            rows, size = (
                (rows + r if rows >= 0 and r >= 0 else -1),
                (size + b if size >= 0 and b >= 0 else -1),
            )
    return f"of {nbytes(size) if size >= 0 else 'unknown size'} read{f' ({rows:,} rows)' if rows >= 0 else ''}"


def explain(root: Node, on_error: str = "raise", shuffle: Any = "auto") -> str:
    """The text of Dataset.explain(): the plan, the changes of the optimiser, and below it the plans
    of the inputs that blocking operators wait for."""
    plan, at, rules, _ = lower(root, on_error=on_error, shuffle=shuffle)
    text: str = plan.explain(at)
    moving = [n for n in below(root) if n.operator.moves_rows]
    if moving:
        text += "exchanges\n"
    if any("strategy" not in n.options for n in moving):
        text += f"  {said_of(shuffle, 'as DataContext.shuffle_strategy asks')}\n"
    for n in moving:
        if "strategy" in n.options:
            text += f"  {said_of(n.options['strategy'], f'as {n.label} asks')}\n"
    if rules:
        text += "rules\n" + "".join(f"  {r}\n" for r in rules)
    todo, seen = [root], set()
    while todo:
        n = todo.pop()
        if id(n) in seen:
            continue
        seen.add(id(n))
        if n.operator.sizes_first:
            text += f"\n{n.label}: the side that may be small runs first, and its size says whether it is broadcast (DataContext.broadcast_join_bytes)\n"
        if not n.operator.blocking:
            todo += reversed(n.inputs)
            continue
        for i in n.inputs:
            text += f"\nfirst, for {n.label}\n" + "\n".join(
                "  " + line if line else line for line in explain(i, on_error, shuffle).splitlines()
            )
    return text.rstrip("\n")


def said_of(shuffle: Any, why: str) -> str:
    """A strategy in words, for explain()."""
    if isinstance(shuffle, str) and shuffle == "auto":
        return "strategy auto: the cheapest one for the sizes that are measured while maps run (stats() shows what came of it)"
    name = shuffle if isinstance(shuffle, str) else type(shuffle).__name__
    return f"strategy {name}, {why}" + ("; it may merge packs" if may_merge(shuffle) else "")


def warn_few_inputs(node: Node) -> None:
    """Logs a warning about a function that may run in more places at once than its input has
    parts."""
    todo, seen = [node], set()
    while todo:
        n = todo.pop()
        if id(n) in seen:
            continue
        seen.add(id(n))
        todo += n.inputs
        most = n.options["pool"][0] if n.options.get("pool") else n.options.get("max_tasks") or 0
        if most > 1 and "fn" in n.params and len(n.inputs) == 1:
            above = n.inputs[0]
            while above.operator.by_task and len(above.inputs) == 1:
                above = above.inputs[0]
            parts = above.parts
            if parts is not None and 0 < len(parts) < most:
                warnings.warn(
                    f"{n.label} can launch at most {len(parts)} task{'s' if len(parts) > 1 else ''}, as its input has {len(parts)} part"
                    f"{'s' if len(parts) > 1 else ''}, and is to run {most} at once; raise override_num_blocks of what reads it",
                    UserWarning,
                    stacklevel=4,
                )
