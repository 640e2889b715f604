"""The optimiser: rules over the facts of operators (op/<name>.py). Each rule is a small function
from a plan to a plan that gives the same rows for less work.

The rules here change parameters: which columns a reader gives, which rows it may skip, whether
strings stay dictionary-encoded. The two rules that change the shape of a plan, limit and fusion,
are in C (src/plan/rule_limit.c, rule_fuse.c) and use the same facts, since exec runs the stages
that they make. Each rule describes in words what it has changed; Dataset.explain() shows these
texts below the stages. OFF has the names of rules to leave out: with it, tests show that the rows
stay the same.

The rules run one after another when a plan is lowered; the Dataset's own nodes stay unchanged. A
rule follows chains of nodes that each have one consumer. A node with several consumers, or one that
needs all of its input first, has to give all its columns and rows. There is no recursion: plans may
be thousands of nodes deep. This module calls the operators (op) and, in C, the plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from skate import _labels, _skate
from skate.data import expressions
from skate.data.plan.node import Node
from skate.data.plan.resources import ON_NODES, as_input
from skate.data.values.unify import few

T = TypeVar("T")

IN_C = ("limit", "fusion")
OFF: set[str] = set()

# The most predicates that a reader is given: each one skips a few rows, and together they become
# one nested expression.
PREDICATES_MOST = 32

Predicate = tuple[Any, frozenset[str]]  # an expression, and the columns that it reads


def optimised(root: Node, on_error: str) -> tuple[Node, list[str]]:
    """Returns (a plan that gives the same rows for less work, texts about the changes). on_error:
    the policy of operators that name none."""
    said: list[str] = []
    if "projection" not in OFF:
        root = projection(root, said)
    if "predicates" not in OFF:
        root = predicates(root, said)
    if "top-k" not in OFF:
        root = top_k(root, said)
    if "dictionary encoding" not in OFF:
        root = dictionary_encoding(root, said, on_error)
    return root, said


def new_plan() -> Any:
    """A _skate.Plan without those C rules that OFF names."""
    return _skate.Plan(**{rule: rule not in OFF for rule in IN_C})


# ---- The rules.


def projection(root: Node, said: list[str]) -> Node:
    """Tells operators that can give fewer columns which columns the operators above them need."""
    asked: dict[int, set[str] | None] = _asked(root, None, _columns_of_input)

    def narrowed(n: Node) -> Node | None:
        need = asked[id(n)]
        params = n.operator.narrowed(n.params, need) if need is not None else None
        if params is not None and n.operator.source:
            columns = params["columns"]
            said.append(
                f"projection: {n.label} reads {len(columns)} of {len(params['names'])} columns: {few(columns)}"
            )
        return None if params is None else n.replaced(params=params)

    return _rebuilt(root, narrowed)


def _columns_of_input(n: Node, need: set[str] | None) -> set[str] | None:
    """The columns that n has to get from its input so that it can give its own columns `need`
    (None: all)."""
    c = n.operator.columns(n.params)
    if c.needs is None or (need is None and c.keeps is None):
        return None
    needs = set(c.needs)
    if need is None:
        return needs | set(c.keeps or ())
    handed_on = {c.renamed.get(name, name) for name in need - c.makes}
    if c.keeps is None:
        return needs | handed_on
    # Only the number of rows is needed: one column stays, so that the rows of the input can be
    # counted.
    if not handed_on & c.keeps:
        return needs | set(
            n.operator.columns(n.operator.narrowed(n.params, need) or n.params).keeps or ()
        )
    return needs | (handed_on & c.keeps)


def predicates(root: Node, said: list[str]) -> Node:
    """Tells sources which rows will be dropped by filters behind them. The filters stay in the
    plan, so a source may give rows that it could have skipped."""
    nothing: list[Predicate] = []
    asked = _asked(root, nothing, _predicates_on_input)

    def filtered(n: Node) -> Node | None:
        mine = asked[id(n)][:PREDICATES_MOST]
        if not mine:
            return None
        tests = _tests(mine)
        params = n.operator.filtered(n.params, tests)
        if params is not None:
            said.append(
                f"predicates: {n.label} skips rows for which this does not hold: {in_words(params['pushed'])}"
            )
        found = _left(n, n.options.get("units", []), tests)
        if found is not None:
            units, what = found
            said.append(f"partitions: {n.label} {what}")
            return _with_units(n, params, units, tests)
        return None if params is None else n.replaced(params=params)

    return _rebuilt(root, filtered)


# Modules whose objects any process can unpickle, for the values in a predicate.
_PLAIN = {"builtins", "datetime", "decimal", "numpy", "pandas", "pyarrow"}


def _tests(predicates: list[Predicate]) -> list[tuple[Any, set[str]]]:
    """The conditions that rows must meet, split into parts as small as possible, each with the
    columns that it reads. Leaves out conditions that call users' functions or hold objects of
    users' classes."""
    parts = [part for e, _ in predicates for part in expressions.conjuncts(e)]
    return [
        (e, used)
        for e in parts
        if (used := expressions.columns_of(e)) and not expressions.has_user_code(e) and _is_plain(e)
    ]


def _is_plain(e: Any) -> bool:
    values = [n.value for n in expressions.walk(e) if isinstance(n, expressions.LiteralExpr)]
    kinds = {
        t
        for v in values
        for t in (map(type, v) if isinstance(v, (list, tuple, set, frozenset)) else (type(v),))
    }
    return all(t.__module__.partition(".")[0] in _PLAIN for t in kinds)


def _left(
    n: Node, units: list[Any], tests: list[tuple[Any, set[str]]]
) -> tuple[list[Any], str] | None:
    """Returns (those units of a source that may have rows which pass the tests, a text about the
    units left out); None: all units may have such rows."""
    return n.operator.units_with(n.params, units, tests) if units else None


def _with_units(
    n: Node, params: dict[str, Any] | None, units: list[Any], tests: list[tuple[Any, set[str]]]
) -> Node:
    """A source that reads only `units`. If the source draws its units anew in each run, the tests
    are applied to the units that it draws."""
    draws = n.each_run

    def each_run(k: int) -> dict[str, Any]:
        assert draws is not None
        different = draws(k)
        found = _left(n, different["units"], tests) if "units" in different else None
        return different if found is None else {**different, "units": found[0]}

    return n.replaced(
        params=params,
        options={**n.options, "units": units},
        each_run=each_run if draws is not None else None,
    )


def in_words(tests: tuple[Any, ...]) -> str:
    """A text of expressions that all have to hold."""
    return (
        " and ".join(map(_said, tests))
        if len(tests) < 2
        else f"({' and '.join(map(_said, tests))})"
    )


def _said(e: Any) -> str:
    try:
        return str(e.to_pyarrow())
    except Exception:  # the expression cannot be written as text
        return str(expressions.inline(e))


def _predicates_on_input(n: Node, above: list[Predicate]) -> list[Predicate]:
    """The predicates that a row of n's input must meet if its output is to pass n and then
    `above`."""
    if not n.operator.predicates:
        return []
    c, own = n.operator.columns(n.params), n.operator.predicate(n.params)
    if c.needs is None:
        return []
    through = [p for p in above if not p[1] & c.makes and (c.keeps is None or p[1] <= c.keeps)]
    return through if own is None else [*through, (own, c.needs)]


def top_k(root: Node, said: list[str]) -> Node:
    """If a limit needs only the first rows of an operator, tells the operator how many."""
    asked: dict[int, int | None] = _asked(root, None, _rows_of_input)

    def first(n: Node) -> Node | None:
        most = asked[id(n)]
        params = n.operator.first(n.params, most) if most is not None else None
        if params is not None:
            said.append(f"top-k: {n.label} keeps {most:,} rows of each task")
        return None if params is None else n.replaced(params=params)

    return _rebuilt(root, first)


def _rows_of_input(n: Node, most: int | None) -> int | None:
    """The number of first rows that n needs of its input to give its own first `most` rows (None:
    all)."""
    if n.operator.first_rows:
        limit = int(n.options["limit"])
        return limit if most is None else min(limit, most)
    return (
        most if n.operator.one_to_one and n.operator.by_task and not n.operator.on_error else None
    )


def dictionary_encoding(root: Node, said: list[str], on_error: str) -> Node:
    """Keeps strings with few distinct values dictionary-encoded from a reader to a writer, or to an
    exchange, where all operators in between run in the same task and pass such columns on
    (values/encoded_text.py)."""
    order = in_order(root)
    takers = Counter(id(i) for n in order for i in n.inputs)
    encoded: set[int] = set()
    for end in order:
        if not (
            end is root and end.operator.writes and end.operator.encoded(end.params)
        ) and not end.operator.decodes(end.params):
            continue
        chain = [end]
        while len(chain[-1].inputs) == 1 and (
            chain[-1] is end or chain[-1].operator.encoded(chain[-1].params)
        ):
            chain.append(chain[-1].inputs[0])
        source = chain[-1]
        if (
            not source.operator.source
            or len(chain) < 2
            or not source.operator.encoded(source.params)
        ):
            continue
        # a node with several consumers is not changed, because another consumer expects plain
        # strings
        if any(takers[id(n)] > 1 for n in chain[1:]):
            continue
        # Dead letters show rows to users, so these rows must not be dictionary-encoded.
        if any(
            (n.params.get("on_error") or on_error) != "raise"
            for n in chain[1:-1]
            if n.operator.on_error
        ):
            continue
        if not _one_task(chain[::-1]):
            continue
        said.append(
            f"dictionary encoding: strings of few values stay numbers into a dictionary from {source.label} to {end.label}"
        )
        encoded |= {id(end), id(source)}
    return (
        _rebuilt(
            root,
            lambda n: (
                n.replaced(params={**n.params, "encoded": True}) if id(n) in encoded else None
            ),
        )
        if encoded
        else root
    )


def _one_task(chain: list[Node]) -> bool:
    """Whether the fusion rule makes one stage of this chain, which begins with the source. If the
    chain ends with an exchange, its map is what counts."""
    plan = new_plan()
    at: tuple[Any, ...] = ()
    end = chain[-1]
    if end.operator.moves_rows:
        found = end.operator.phases(end.params)
        of = [
            Node(p.op, p.label, p.params, (), **(p.options or as_input(chain[-2])))
            for p in (found.maps[0], found.reduce)
        ]
        chain = [*chain[:-1], *of]
    for n in chain:
        at = (add(plan, n, b"", at, {k: v for k, v in n.options.items() if k != "units"}),)
    return len(plan.stages(at[0])) == 1 + end.operator.moves_rows


def add(plan: Any, n: Node, params: bytes, inputs: tuple[int, ...], options: dict[str, Any]) -> int:
    """Adds a node to a _skate.Plan with the facts of its operator, and returns its id. The option
    "exchange" of an exchange is a dict {"cut": bool, "n_partitions": int, "spread": int, "tells":
    int, "tables": bool} (struct sk_exchange_desc in src/plan/plan.h)."""
    given = {**options, **options.get("exchange", {})}
    given.pop("exchange", None)
    strategy, selector, others = (given.pop(name, None) for name in ON_NODES)
    nodes = _labels.where(strategy, selector, others)
    if nodes:
        given["where"] = nodes
    made: int = plan.add(n.op, n.label, params, inputs, **n.operator.plan_facts(), **given)
    return made


# ---- How the rules walk through a plan.


def in_order(root: Node, whole: bool = False) -> list[Node]:
    """All nodes of the plan that ends with root, inputs before their consumers. whole: includes the
    nodes below a node that needs all of its input first, which are run by themselves."""
    order: list[Node] = []
    todo: list[tuple[Node, bool]] = [(root, False)]
    seen: set[int] = set()
    while todo:
        n, inputs_done = todo.pop()
        if inputs_done:
            order.append(n)
        elif id(n) not in seen:
            seen.add(id(n))
            todo.append((n, True))
            if whole or not n.operator.blocking:
                for i in n.inputs:
                    todo.append((i, False))
    return order


def _asked(root: Node, everything: T, of_input: Callable[[Node, T], T]) -> dict[int, T]:
    """Returns by the node's id what the consumers of each node need from it (such as a set of
    columns). everything: the value that means all; of_input: a function from (node, what its
    consumers need of it) to what the node needs of its input."""
    order = in_order(root)
    uses: dict[int, int] = {}
    for n in order:
        for i in n.inputs:
            uses[id(i)] = uses.get(id(i), 0) + 1
    asked = {id(n): everything for n in order}
    for n in reversed(order):
        if n.inputs and not n.operator.blocking:
            wanted = of_input(n, asked[id(n)])
            for i in n.inputs:
                if uses[id(i)] == 1:
                    asked[id(i)] = wanted
    return asked


def _rebuilt(root: Node, changed: Callable[[Node], Node | None]) -> Node:
    """Rebuilds the plan with changed(node) in place of each node (None: the node stays)."""
    made: dict[int, Node] = {}
    for n in in_order(root):
        inputs = n.inputs if n.operator.blocking else tuple([made[id(i)] for i in n.inputs])
        new = changed(n) or n
        made[id(n)] = new if inputs == n.inputs else new.replaced(inputs=inputs)
    return made[id(root)]
