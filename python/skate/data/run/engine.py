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
            if n.op in ("aggregate", "project", "project_numbered") or "expr" in n.params:
                modules.add("pyarrow.compute")
            if n.params.get("batch_format") == "pandas":
                modules.add("pandas")
            if n.op in ("read", "write"):
                modules.add(f"skate.data.{n.op}.{n.params['format']}")
        _preload(modules)


def _preload(modules: Iterable[str]) -> None:
    _skate.preload(_hooks.preload_note(sorted(modules)))


def expect(fmt: str) -> None:
    """A reader of this format is at work: where there is an engine, its fork server imports meanwhile what the read will need."""
    if skate.is_initialized() and not _skate.in_worker():
        _preload({*_STAGES, f"skate.data.read.{fmt}"})
