"""Labels of nodes, and selectors of tasks and actors: {label: value, "!value", "in(a, b)" or
"!in(a, b)"}, as in Ray. Over one machine there is one node; over several, the driver knows the labels
of all, and says where the tasks run that a task submits for another node."""

import os

from skate import _job, _skate, ids
from skate._deps import re

ID = "ray.io/node-id"
_GPUS = "/proc/driver/nvidia/gpus"


def node_id():
    """The NodeID of this node; in a driver of several nodes, that of the first."""
    return ids.NodeID._of(_job.facts().get("node", 1))


def node():
    """{name: value} of the labels of this node."""
    return {ID: node_id().hex(), **_job.facts().get("labels", {})}


def nodes():
    """The labels of all nodes that are alive, as far as this process knows them."""
    if _skate.engine() == "guest":
        raise NotImplementedError(
            "label_selector: the nodes of this engine have no labels; leave it out"
        )
    if not _job.on_nodes():
        return [node()]
    return [of(told) for _, _, alive, _, _, told in _skate.nodes([]) if alive]


def of_devices(gpus=_GPUS):
    """{"ray.io/accelerator-type": the model of the first GPU, such as "H100"}; {} where the driver
    of NVIDIA names none."""
    try:
        first = min(os.listdir(gpus))
        with open(f"{gpus}/{first}/information") as f:
            model = re.search(r"^Model:\s*\w+ +([A-Z]+[0-9]+\w*)", f.read(), re.M)
    except (OSError, ValueError):
        return {}
    return {"ray.io/accelerator-type": model[1]} if model else {}


def unfit(selector, fallbacks=()):
    """The reason why no node fulfils the selector, nor one of `fallbacks`; None if one does. In a
    task on one of several nodes: None, since the driver knows the others."""
    return None if on_node() else unfit_here(selector, fallbacks)


def unfit_here(selector, fallbacks=()):
    """As unfit, of the nodes that this process knows, also in a task."""
    choices = [selector or {}, *[f.get("label_selector") or {} for f in fallbacks or ()]]
    there = nodes()
    if any(fulfils(have, choice) for choice in choices for have in there):
        return None
    asked = " or ".join(map(repr, choices))
    said = ", ".join(_said(k, there) for k in {k: 0 for choice in choices for k in choice})
    return f"no node has the labels of label_selector {asked}: {said}; change the selector, or give this machine the label: init(labels=...)"


def on_node():
    """Whether this is a process of one of several nodes."""
    return bool(_job.facts().get("on_node"))


def _said(key, there):
    values = sorted({repr(have[key]) for have in there if key in have})
    if not values:
        return f"there is no {key} here"
    return f"{key} is {' or '.join(values)} here"


def fulfils(have, selector):
    return all(_fits(have.get(key), *_condition(value)) for key, value in selector.items())


def _condition(wanted):
    """("=" or "!", values) of the value of a selector."""
    differs = wanted.startswith("!")
    wanted = wanted.removeprefix("!")
    inside = re.fullmatch(r"in\((.*)\)", wanted)
    return "!" if differs else "=", re.split(", ?", inside[1]) if inside else [wanted]


def _fits(have, op, values):
    return (have in values) == (op == "=")


# ---- As the engine takes them (src/engine/cluster/wheres.h).


def told(labels):
    """The bytes of labels."""
    return b"".join(f"{k}\0{v}\0".encode() for k, v in labels.items())


def of(told):
    """The labels in these bytes."""
    texts = told.decode().split("\0")[:-1]
    return dict(zip(texts[::2], texts[1::2], strict=True))


STAYS, SPREAD = 1, 2


def where(strategy, selector, fallbacks=()):
    """The bytes that say which nodes a task may run on; b"" if it may run on any.

    Args:
        strategy: A scheduling strategy, or its name, or None.
        selector: A label_selector, or None.
        fallbacks: What fallback_strategy says."""
    flags, first, base = getattr(strategy, "_nodes", lambda: (0, [], []))()
    if strategy == "SPREAD":
        flags |= SPREAD
    selectors = [selector or {}, *[f.get("label_selector") or {} for f in fallbacks or ()]]
    choices = [
        [*more, *((op, k, v) for k, value in s.items() for op, v in [_condition(value)])]
        for more in ([first, base] if first != base else [base])
        for s in selectors
    ]
    if not flags and not any(choices):
        return b""
    return bytes([flags]) + b"".join(b"|" + b"".join(map(_told_condition, c)) for c in choices)


def _told_condition(condition):
    op, key, values = condition
    text = f"{op}{key}\0"
    return (text if op in "+-" else text + "".join(f"={v}\0" for v in values) + "\0").encode()
