"""The engine of a run: starts one if none is open, and makes its fork server import the modules
that the stages need."""

from __future__ import annotations

from collections.abc import Iterable

import skate
from skate import _hooks, _labels, _skate
from skate.data.op import Operator, Params, find
from skate.data.plan.node import Node, below
from skate.exceptions import TaskUnschedulableError

_STAGES = ("skate.data.worker.stage",)


def ensure_engine(node: Node | None = None) -> None:
    """Starts the engine if there is none, and makes the fork server import the modules that the
    stages of `node` need, while the driver continues. TaskUnschedulableError if no node has the
    labels that an operator asks for."""
    if not skate.is_initialized():
        skate.init()
    if not _skate.in_worker():
        modules = set[str](_STAGES)
        for n in below(node) if node is not None else ():
            _check_labels(n)
            for operator, params in _in_workers(n):
                modules.add(type(operator).__module__)
                modules.update(operator.modules(params))
        preload(modules)


def _check_labels(n: Node) -> None:
    # of an exchange, the options are a parameter until its tasks are planned
    given = {**(n.params.get("resources") or {}), **n.options}
    if given.get("label_selector"):
        why = _labels.unfit(given["label_selector"], given.get("fallback_strategy"))
        if why is not None:
            raise TaskUnschedulableError(f"{n.label} can never run here: {why}")


def _in_workers(n: Node) -> list[tuple[Operator, Params]]:
    """Returns the operators of a node that run in workers: its own, or the phases of an
    exchange."""
    if not n.operator.moves_rows:
        return [(n.operator, n.params)]
    phases = n.operator.phases(n.params)
    return [(find(p.op), p.params) for p in (*phases.maps, phases.reduce)]


def preload(modules: Iterable[str]) -> None:
    """Makes the fork server import these modules, so that workers forked later have them."""
    _skate.preload(_hooks.preload_note(sorted(modules)))


def expect(*modules: str) -> None:
    """Announces that a run will need these modules besides those of its stages. The fork server of
    an open engine imports them while the driver does its own part (lists files, imports the same
    modules)."""
    if skate.is_initialized() and not _skate.in_worker():
        preload({*_STAGES, *modules})
