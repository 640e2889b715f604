"""Labels of the node, and selectors of tasks and actors: {label: value, "!value", "in(a, b)" or
"!in(a, b)"}, as in Ray. There is one node, so a selector that its labels do not fulfil never fits.
"""

import os

from skate import _job, ids
from skate._deps import re

_GPUS = "/proc/driver/nvidia/gpus"


def node():
    """{name: value} of the labels of this machine."""
    return {"ray.io/node-id": ids.NODE.hex(), **_job.facts().get("labels", {})}


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
    """The reason why no node fulfils the selector, nor one of `fallbacks`; None if this one
    does. NotImplementedError over a cluster, whose nodes have labels of their own."""
    if _job.on_nodes():
        raise NotImplementedError(
            "label_selector: over a Ray cluster selectors are not handed on; leave it out"
        )
    choices = [selector or {}, *[f.get("label_selector") or {} for f in fallbacks or ()]]
    have = node()
    if any(_fulfils(have, choice) for choice in choices):
        return None
    asked = " or ".join(map(repr, choices))
    named = {k: have.get(k) for choice in choices for k in choice}
    said = ", ".join(
        f"{k} is {v!r} here" if v is not None else f"there is no {k} here" for k, v in named.items()
    )
    return f"no node has the labels of label_selector {asked}: {said}; change the selector, or give this machine the label: init(labels=...)"


def _fulfils(have, selector):
    return all(_fits(have.get(key), value) for key, value in selector.items())


def _fits(have, wanted):
    differs = wanted.startswith("!")
    wanted = wanted.removeprefix("!")
    inside = re.fullmatch(r"in\((.*)\)", wanted)
    values = re.split(", ?", inside[1]) if inside else [wanted]
    return (have in values) != differs
