"""The engine of a run: started where there is none, and its fork server told what the stages will
import."""

from __future__ import annotations

from collections.abc import Iterable

import skate
from skate import _hooks, _skate
from skate.data.op import Operator, Params, find
from skate.data.plan.node import Node, below

_STAGES = (
    "skate.data.worker.stage",
    "numpy.ma",
)  # numpy.ma is what numpy imports when it first looks for masked arrays


def ensure_engine(node: Node | None = None) -> None:
    """Starts the engine if there is none, and lets the fork server import what the stages of node
    need while we go on."""
    if not skate.is_initialized():
        skate.init()
    if not _skate.in_worker():
        modules = set[str](_STAGES)
        for n in below(node) if node is not None else ():
            for operator, params in _in_workers(n):
                modules.add(type(operator).__module__)
                modules.update(operator.modules(params))
        preload(modules)


def _in_workers(n: Node) -> list[tuple[Operator, Params]]:
    """What workers run of a node: the operator, or the phases of one that moves rows."""
    if not n.operator.moves_rows:
        return [(n.operator, n.params)]
    phases = n.operator.phases(n.params)
    return [(find(p.op), p.params) for p in (*phases.maps, phases.reduce)]


def preload(modules: Iterable[str]) -> None:
    """Has the fork server import these, so that workers which it forks from now on have them."""
    _skate.preload(_hooks.preload_note(sorted(modules)))


def expect(*modules: str) -> None:
    """A run will need these beside the stages: where there is an engine, its fork server imports
    them while the driver does its own part (lists files, imports the same)."""
    if skate.is_initialized() and not _skate.in_worker():
        preload({*_STAGES, *modules})
