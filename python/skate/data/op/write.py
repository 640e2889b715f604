"""write: writes rows to files or elsewhere. Each task yields one or more rows that report what it
wrote. The module of the format does the writing: data/write/<format>.py."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from skate.data.op import Batches, Operator, Params


class Write(Operator):
    writes = numbered = True

    def modules(self, params: Params) -> tuple[str, ...]:
        return (f"skate.data.write.{params['format']}",)

    def encoded(self, params: Params) -> bool:
        can = getattr(_format(params["format"]), "encoded", None)
        return can is not None and can(params)

    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        written: Batches = _format(params["format"]).run(params, batches, task)
        return written


@functools.cache
def _format(name: str) -> Any:
    return importlib.import_module(f"skate.data.write.{name}")


operator = Write()
