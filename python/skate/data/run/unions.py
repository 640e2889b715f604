"""Unions whose inputs have columns that only a run shows.

Where one schema is known of all inputs, Dataset.union has made them conform. Else the first rows of
the inputs in question are made before a run (but one that counts rows only): they show their
columns, and each input then gives those that only others have, as null (op/conform.py). What was
seen once is kept with the union's node, for the runs that follow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skate.data.op import Operator
from skate.data.plan.node import Node, below
from skate.data.plan.optimise import in_order
from skate.data.plan.resources import as_input
from skate.data.values.unify import few, retold, unify

First = Callable[[Node], Any]  # runs a node; the schema of its rows, None where it has none


def conformed(root: Node, first: First, said: list[str]) -> Node:
    """root with unions whose inputs have one schema.

    Args:
        root: A plan.
        first: See above.
        said: Gets what was done, in words.
    """
    if not any(n.operator.concatenates and None in n.params["schemas"] for n in below(root)):
        return root
    order = in_order(root)
    looked = set() if root.operator.counts else {id(root)}
    for n in reversed(order):
        if id(n) in looked or n.operator.looks(n.params):
            looked.update(id(i) for i in n.inputs)
    became: dict[int, Node] = {}
    for n in order:
        inputs = n.inputs if n.operator.blocking else tuple(became[id(i)] for i in n.inputs)
        new = n if inputs == n.inputs else n.replaced(inputs=inputs)
        if n.operator.concatenates and id(n) in looked:
            new = _union(new, first, said)
        became[id(n)] = new
    return became[id(root)]


def conform(node: Node, has: Any, schema: Any, seen: bool = False) -> Node:
    """node, whose rows have one schema, in another one that holds it.

    Args:
        node: The last of a plan.
        has: The schema of its rows.
        schema: The one that they get.
        seen: Of `has` no more is known than what the first rows showed.
    """
    if has is not None and has.equals(schema):
        return node
    lacks = [n for n in schema.names if has is None or n not in set(has.names)]
    sure = (
        not seen and has is not None and all(schema.field(f.name).type.equals(f.type) for f in has)
    )
    return Node(
        "conform",
        "Conform",
        {"schema": schema, "lacks": lacks, "seen": seen, "sure": sure},
        (node,),
        **as_input(node),
    )


def _union(node: Node, first: First, said: list[str]) -> Node:
    schemas, seen = list(node.params["schemas"]), node.params["seen"]
    unknown = [s is None for s in schemas]
    for i, n in enumerate(node.inputs):
        if unknown[i]:
            schemas[i] = seen[i] = seen.get(i) or schema_of(n, first)
            if schemas[i] is not None:
                said.append(
                    f"union: the first rows of input {i + 1} ({n.label}) show its columns: {few(schemas[i].names)}"
                )
    known = [s for s in schemas if s is not None]
    if not known:  # no rows at all
        return node
    try:
        whole = unify(
            known,
            [
                f"input {i} ({n.label})"
                for i, (n, s) in enumerate(zip(node.inputs, schemas, strict=True), 1)
                if s is not None
            ],
        )
    except TypeError as e:
        raise retold(e, "union: ", "") from None
    inputs = tuple(
        conform(n, s, whole, unsure)
        for n, s, unsure in zip(node.inputs, schemas, unknown, strict=True)
    )
    return node.replaced(params={"schemas": [whole] * len(inputs), "seen": {}}, inputs=inputs)


def schema_of(node: Node, first: First) -> Any:
    """The schema of what a node gives, as far as first rows show it; None: there are none. Only as
    much runs as is needed: operators that say what they make of a schema do not."""
    known: list[Node] = []
    while len(node.inputs) == 1 and type(node.operator).schema is not Operator.schema:
        known.append(node)
        node = node.inputs[0]
    if node.operator.concatenates and None not in node.params["schemas"]:
        schema = unify(node.params["schemas"])
    else:
        schema = first(node)
    for n in reversed(known):
        schema = schema and n.operator.schema(n.params, schema)
    return schema


def sampled(node: Node, rows: int) -> Node:
    """The first rows of a node: of what has to have all of its input first, made of the first rows
    of that."""
    made: dict[int, Node] = {}

    def few_of(n: Node) -> Node:
        return Node("limit", f"limit={rows}", {}, (n,), limit=rows)

    for n in in_order(node, whole=True):
        inputs = [made[id(i)] for i in n.inputs]
        if needs_all(n):
            inputs = [few_of(i) for i in inputs]
        made[id(n)] = new = n.replaced(inputs=tuple(inputs))
        new.counter = [n.runs]  # it is no run of the Dataset's own nodes
    return few_of(made[id(node)])


def needs_all(node: Node) -> bool:
    """Whether it may take all of its input before it gives a row."""
    return node.operator.moves_rows or node.operator.blocking or node.operator.joins
