"""Projection and predicate pushdown: what the operators above a reader need is told to the reader before a run.

A pass over the nodes when a plan is lowered; the Dataset's own nodes stay as they are. Only chains with one consumer are followed. A filter stays where it is:
what is pushed down merely skips (row groups by their statistics, then rows), so a reader that skips less is right as well.

Readers that take part are those whose parameters have "columns" and "filter" and "names" (the columns that they have): Parquet.
"""

from __future__ import annotations

from typing import Any

from skate.data.plan.node import Node, below

_KEEP = {"limit", "random_sample", "union"}  # they need what is above them needs


TESTS_MOST = 32  # of the predicates above a reader that it is told: each skips a little, and they become one nested expression

Tests = list[tuple[Any, "set[str] | None"]]  # expressions, each with the columns it is about (None: any)


def push(root: Node) -> Node:
    """root with readers that read less where that is the same. Plans may be thousands of nodes deep: nothing here calls itself."""
    uses: dict[int, int] = {}
    for n in below(root):
        for i in n.inputs:
            uses[id(i)] = uses.get(id(i), 0) + 1
    asked: dict[int, tuple[set[str] | None, Tests]] = {id(root): (None, [])}
    order: list[Node] = []  # inputs before what takes them
    todo: list[tuple[Node, bool]] = [(root, False)]
    seen: set[int] = set()
    while todo:
        n, inputs_done = todo.pop()
        if inputs_done:
            order.append(n)
            continue
        if id(n) in seen:
            continue
        seen.add(id(n))
        todo.append((n, True))
        if n.op in ("read", "rearrange"):
            continue
        need, tests = _through(n, *asked[id(n)]) if n.inputs else (None, [])
        for i in n.inputs:
            asked[id(i)] = (need, tests) if uses[id(i)] == 1 else (None, [])
            todo.append((i, False))
    made: dict[int, Node] = {}
    for n in order:
        inputs = n.inputs if n.op == "rearrange" else tuple(made[id(i)] for i in n.inputs)
        if n.op == "read":
            made[id(n)] = _reader(n, *asked[id(n)])
        elif n.op == "select_columns":
            made[id(n)] = _selected(n, asked[id(n)][0], inputs)
        elif all(a is b for a, b in zip(inputs, n.inputs, strict=True)):
            made[id(n)] = n
        else:
            made[id(n)] = n.replaced(inputs=inputs)
    return made[id(root)]


def _reader(n: Node, need: set[str] | None, tests: Tests) -> Node:
    """n, of which `need` (None: all) columns are wanted and only rows that pass `tests`."""
    names = n.params.get("names")
    if names is None:
        return n
    from skate.data.expressions import has_user_code

    params = dict(n.params)
    changed = False
    if need is not None and params["columns"] is None:
        read = [c for c in names if c in need] or names[:1]  # rows are counted by a column
        if len(read) < len(names) and need <= set(names):
            params["columns"], changed = read, True
    for t, cols in tests[:TESTS_MOST]:
        if not cols or not cols <= set(params["stored"]) or has_user_code(t):
            continue
        try:
            e = t.to_pyarrow()
        except (TypeError, ValueError):
            continue
        params["pushed"] = e if params.get("pushed") is None else params["pushed"] & e
        changed = True
    if not changed:
        return n
    return n.replaced(params=params)


def _selected(n: Node, need: set[str] | None, inputs: tuple[Node, ...]) -> Node:
    """A selection of what is needed of its columns: the reader leaves out the others."""
    cols = n.params["cols"]
    few = cols if need is None else [c for c in cols if c in need] or cols[:1]  # rows are counted by a column
    return n.replaced(inputs=inputs, params={**n.params, "cols": few}) if len(few) < len(cols) else n.replaced(inputs=inputs)


def _through(n: Node, need: set[str] | None, tests: Tests) -> tuple[set[str] | None, Tests]:
    """What n's inputs are asked for when this is asked of n."""
    from skate.data.expressions import Expr, columns_of

    p = n.params
    if n.op in _KEEP:
        return need, tests if n.op == "union" else []
    if n.op == "conform":
        return None if need is None else need - set(p["lacks"]), []
    if n.op == "filter" and isinstance(p.get("expr"), Expr):
        cols = columns_of(p["expr"])
        return None if need is None or cols is None else need | cols, [*tests, (p["expr"], cols)]
    if n.op == "select_columns":
        return set(p["cols"]) if need is None else (need & set(p["cols"])) or set(p["cols"][:1]), _about(tests, set(p["cols"]))
    if n.op == "drop_columns":
        return (None if need is None else need | set(p["cols"])), tests
    if n.op in ("project", "project_numbered"):
        made = {name for name, _ in p["exprs"]}
        cols = {c for _, e in p["exprs"] for c in columns_of(e) or ()}
        if need is None and p["keep"] or any(columns_of(e) is None for _, e in p["exprs"]):
            return None, []
        return ((need or set()) - made) | cols, [t for t in tests if not (t[1] or made) & made]
    if n.op == "rename_columns" and isinstance(p["names"], dict):
        back = {v: k for k, v in p["names"].items()}
        return (None if need is None else {back.get(c, c) for c in need} | set(p["names"])), []
    if n.op == "aggregate":
        sets = [None if a[1] is None else {a[1]} for a in p["aggs"]] if "aggs" in p else [f.columns() for f in p["fns"]]
        return (None if None in sets else set().union(*sets)), []  # type: ignore[arg-type]
    return None, []


def _about(tests: Tests, names: set[str]) -> Tests:
    return [t for t in tests if (t[1] or {""}) <= names]
