"""Unions and mixes of inputs whose columns are known only after a run.

If the schemas of all inputs are known, Dataset.union has made the inputs conform. Else the first
rows of the other inputs are computed before a run (unless it only counts rows). They show the
columns of each input, and each input gets the columns that only others have, as nulls
(op/conform.py). The schemas found are stored in the union's node for later runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skate.data.op import Operator
from skate.data.plan.node import Node, below
from skate.data.plan.optimise import in_order
from skate.data.plan.resources import as_input
from skate.data.values.unify import few, retold, unify

First = Callable[[Node], Any]  # runs a node and returns the schema of its rows; None if it has none


def conformed(root: Node, first: First, said: list[str]) -> Node:
    """Rebuilds the plan: all inputs of each union get one schema.

    Args:
        root: The last node of the plan.
        first: Runs a node and returns the schema of its rows, or None.
        said: Receives a text for each change.
    """
    if not any(_one_schema(n) and None in n.params["schemas"] for n in below(root)):
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
        if _one_schema(n) and id(n) in looked:
            new = _union(new, first, said)
        became[id(n)] = new
    return became[id(root)]


def _one_schema(n: Node) -> bool:
    return n.operator.concatenates or n.operator.mixes


def conform(node: Node, has: Any, schema: Any, seen: bool = False) -> Node:
    """Adds a cast to a node whose rows have schema `has`, if needed.

    Args:
        node: The last node of a plan.
        has: The schema of its rows.
        schema: The schema that the rows are cast to.
        seen: Whether `has` is known from the first rows only; later rows may differ.
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
                    f"{node.op}: the first rows of input {i + 1} ({n.label}) show its columns: {few(schemas[i].names)}"
                )
    known = [s for s in schemas if s is not None]
    if not known:  # no input has a row
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
        raise retold(e, f"{node.op}: ", "") from None
    inputs = tuple(
        conform(n, s, whole, unsure)
        for n, s, unsure in zip(node.inputs, schemas, unknown, strict=True)
    )
    params = {**node.params, "schemas": [whole] * len(inputs), "seen": {}}
    return node.replaced(params=params, inputs=inputs)


def schema_of(node: Node, first: First) -> Any:
    """The schema of a node's rows, as its first rows show it; None: there are no rows. Operators
    whose schema follows from that of their input are not run."""
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
    """A node that gives the first rows of a node. An operator that needs all of its input gets the
    first rows of that input."""
    made: dict[int, Node] = {}

    def few_of(n: Node) -> Node:
        return Node("limit", f"limit={rows}", {}, (n,), limit=rows)

    for n in in_order(node, whole=True):
        inputs = [made[id(i)] for i in n.inputs]
        if needs_all(n):
            inputs = [few_of(i) for i in inputs]
        made[id(n)] = new = n.replaced(inputs=tuple(inputs))
        new.counter = [n.runs]  # this is no run of the Dataset's own node
    return few_of(made[id(node)])


def needs_all(node: Node) -> bool:
    """Whether a node may need all of its input before it gives a row."""
    return node.operator.moves_rows or node.operator.blocking or node.operator.joins
