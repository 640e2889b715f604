"""What of a plan crosses the nodes of a cluster, for Dataset.explain()."""

from __future__ import annotations

from typing import Any

from skate import _labels, api, engine
from skate.data.plan.lower import expected
from skate.data.plan.node import Node, below


def crossings(root: Node) -> str:
    """A text about the rows that go from node to node when this plan runs; "" for one node."""
    alive = [n for n in api.nodes() if n["Alive"]]
    if len(alive) < 2:
        return ""
    lines = [
        f"{len(alive)} nodes, connected by {engine.connections()}: a task runs where its input is, unless others have nothing to do"
    ]
    for n in reversed(below(root)):
        if n.operator.moves_rows:
            lines.append(
                f"{n.label}: each row goes to the node of its part, so about {len(alive) - 1} of {len(alive)} cross, {expected(n.inputs)}"
            )
        elif wants := _wants(n):
            fit = sum(_fits(n, node) for node in alive)
            if fit < len(alive):
                lines.append(
                    f"{n.label}: runs on the {fit} of {len(alive)} nodes with {wants}; the rest of its input crosses"
                )
    return "\nnodes\n" + "".join(f"  {line}\n" for line in lines)


def _wants(n: Node) -> str:
    """What a stage asks for that may not be on all nodes, in words."""
    names = [*n.options.get("resources", ())]
    if n.options.get("num_gpus"):
        names.append("GPUs")
    names += [f"label {k}={v}" for k, v in n.options.get("label_selector", {}).items()]
    return ", ".join(names)


def _fits(n: Node, node: dict[str, Any]) -> bool:
    has = {**n.options.get("resources", {}), "GPU": n.options.get("num_gpus", 0)}
    selector = n.options.get("label_selector", {})
    enough = all(node["Resources"].get(k, 0) >= v for k, v in has.items())
    return enough and _labels.fulfils(node["Labels"], selector)
