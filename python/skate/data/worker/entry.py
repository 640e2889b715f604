"""What runs a stage in a worker, by name: the driver, which names these functions, need not import the stage itself with pyarrow, and a worker that looks them up
need not import what runs a pipeline."""

from __future__ import annotations

import functools
import importlib
from typing import Any


@functools.cache
def _stage() -> Any:
    return importlib.import_module("skate.data.worker.stage")


def run_stage(stage: Any, exec_args: Any, *blocks: Any) -> Any:
    return _stage().run_stage(stage, exec_args, *blocks)


def stage_init(stage: Any) -> Any:
    return _stage().stage_init(stage)


def stage_call(chain: Any, exec_args: Any, *blocks: Any) -> Any:  # called by its name on what stage_init returned
    return chain.stage_call(exec_args, *blocks)
