"""The engine of a run: started where there is none, and its fork server told what the stages will import."""

from __future__ import annotations

from collections.abc import Iterable

import skate
from skate import _hooks, _skate
from skate.data.plan.node import Node, below

_STAGES = (
    "skate.data.worker.stage",
    "skate.data.worker.entry",
    "numpy.ma",
)  # numpy.ma is what numpy imports when it first looks for masked arrays


def ensure_engine(node: Node | None = None) -> None:
    """Starts the engine if there is none, and lets the fork server import what the stages of node need while we go on."""
    if not skate.is_initialized():
        skate.init()
    if not _skate.in_worker():
        modules = set[str](_STAGES)
        for n in below(node) if node is not None else ():
            modules.add(type(n.operator).__module__)
            modules.update(n.operator.modules(n.params))
        preload(modules)


def preload(modules: Iterable[str]) -> None:
    """Has the fork server import these, so that workers which it forks from now on have them."""
    _skate.preload(_hooks.preload_note(sorted(modules)))


def expect(fmt: str) -> None:
    """A reader of this format is at work: where there is an engine, its fork server imports meanwhile what the read will need."""
    if skate.is_initialized() and not _skate.in_worker():
        preload({*_STAGES, f"skate.data.read.{fmt}"})
