"""What is loaded when it is first asked for: names of packages (PEP 562), and whole modules that only some processes need."""

import importlib
import sys


class _Module:
    """Stands for a module, and imports it at the first look into it. What was found is kept here, so later looks cost as much as those at a class."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, name):
        value = getattr(importlib.import_module(self._name), name)
        setattr(self, name, value)
        return value


def module(name):
    """A module, by its whole name, that this process imports only if it uses it."""
    return _Module(name)


# ---- _lazy.batch is skate.data.values.batch, imported at its first use: here are all modules that start-up does not wait for. All others are imported at the head of a module.

MODULES = {
    "near": "skate._near",
    "by_value": "skate._by_value",
    "absent": "skate._private.absent",
    "as_ray": "skate._private.as_ray",
    "processes": "skate._private.processes",
    "run": "skate._private.run",
    "stack": "skate._private.stack",
    "terminal": "skate._terminal",
    "class_node": "skate.dag.class_node",
    "function_node": "skate.dag.function_node",
    "aggregate": "skate.data.aggregate",
    "block": "skate.data.block",
    "by_group": "skate.data.by_group",
    "checkpoint": "skate.data.checkpoint",
    "collate_fn": "skate.data.collate_fn",
    "combine": "skate.data.combine",
    "context": "skate.data.context",
    "dataset": "skate.data.dataset",
    "datasink": "skate.data.datasource.datasink",
    "lance_datasink": "skate.data.datasource.lance_datasink",
    "datatype": "skate.data.datatype",
    "expr_bounds": "skate.data.expr_bounds",
    "expr_eval": "skate.data.expr_eval",
    "expr_names": "skate.data.expr_names",
    "expressions": "skate.data.expressions",
    "extensions": "skate.data.extensions",
    "group_keys": "skate.data.group_keys",
    "grouped_data": "skate.data.grouped_data",
    "in_kernel": "skate.data.in_kernel",
    "partial": "skate.data.run.partial",
    "crc32c": "skate.data.files.crc32c",
    "paths": "skate.data.files.paths",
    "reading": "skate.data.files.reading",
    "on_error": "skate.data.on_error",
    "loader_workers": "skate.data.loader_workers",
    "op": "skate.data.op",
    "node": "skate.data.plan.node",
    "resources": "skate.data.plan.resources",
    "random_access_dataset": "skate.data.random_access_dataset",
    "random_config": "skate.data.random_config",
    "json_records": "skate.data.read.json_records",
    "memory": "skate.data.read.memory",
    "parquet_bounds": "skate.data.read.parquet_bounds",
    "ahead": "skate.data.run.ahead",
    "blocks": "skate.data.run.blocks",
    "execute": "skate.data.run.execute",
    "position": "skate.data.run.position",
    "remote": "skate.data.run.remote",
    "schema": "skate.data.schema",
    "streaming_split": "skate.data.streaming_split",
    "summary": "skate.data.summary",
    "tensor_types": "skate.data.tensor_types",
    "text_table": "skate.data.text_table",
    "torch_utils": "skate.data.util.torch_utils",
    "batch": "skate.data.values.batch",
    "cells": "skate.data.values.cells",
    "encoded_text": "skate.data.values.encoded_text",
    "flat": "skate.data.values.flat",
    "frames": "skate.data.values.frames",
    "from_arrow": "skate.data.values.from_arrow",
    "gathered": "skate.data.values.gathered",
    "marks": "skate.data.values.marks",
    "numbering": "skate.data.values.numbering",
    "numpy_batch": "skate.data.values.numpy_batch",
    "pictures": "skate.data.values.pictures",
    "ranges": "skate.data.values.ranges",
    "rebatch": "skate.data.values.rebatch",
    "row_dicts": "skate.data.values.row_dicts",
    "selection": "skate.data.values.selection",
    "to_arrow": "skate.data.values.to_arrow",
    "value_types": "skate.data.values.types",
    "unify": "skate.data.values.unify",
    "dead_letters": "skate.data.worker.dead_letters",
    "replay": "skate.data.worker.replay",
    "task": "skate.data.worker.task",
    "fingerprint": "skate.data.write.fingerprint",
    "write_job": "skate.data.write.job",
    "mode": "skate.data.write.mode",
    "resume": "skate.data.write.resume",
    "rows": "skate.data.write.rows",
    "sink": "skate.data.write.sink",
    "job_config": "skate.job_config",
    "logging_config": "skate.logging_config",
    "runtime_env": "skate.runtime_env",
    "ray_backend": "skate.util.joblib.ray_backend",
    "placement_group": "skate.util.placement_group",
    "scheduling_strategies": "skate.util.scheduling_strategies",
    "state": "skate.util.state",
    "state_api": "skate.util.state.api",
}

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from skate import _by_value as by_value  # noqa: F401
    from skate import _near as near  # noqa: F401
    from skate import _terminal as terminal  # noqa: F401
    from skate import job_config as job_config
    from skate import logging_config as logging_config
    from skate import runtime_env as runtime_env
    from skate._private import absent as absent
    from skate._private import as_ray as as_ray
    from skate._private import processes as processes
    from skate._private import run as run
    from skate._private import stack as stack
    from skate.dag import class_node as class_node
    from skate.dag import function_node as function_node
    from skate.data import aggregate as aggregate
    from skate.data import block as block
    from skate.data import by_group as by_group
    from skate.data import checkpoint as checkpoint
    from skate.data import collate_fn as collate_fn
    from skate.data import combine as combine
    from skate.data import context as context
    from skate.data import dataset as dataset
    from skate.data import datatype as datatype
    from skate.data import expr_bounds as expr_bounds
    from skate.data import expr_eval as expr_eval
    from skate.data import expr_names as expr_names
    from skate.data import expressions as expressions
    from skate.data import extensions as extensions
    from skate.data import group_keys as group_keys
    from skate.data import grouped_data as grouped_data
    from skate.data import in_kernel as in_kernel
    from skate.data import loader_workers as loader_workers
    from skate.data import on_error as on_error
    from skate.data import op as op
    from skate.data import random_access_dataset as random_access_dataset
    from skate.data import random_config as random_config
    from skate.data import schema as schema
    from skate.data import streaming_split as streaming_split
    from skate.data import summary as summary
    from skate.data import tensor_types as tensor_types
    from skate.data import text_table as text_table
    from skate.data.datasource import datasink as datasink
    from skate.data.datasource import lance_datasink as lance_datasink
    from skate.data.files import crc32c as crc32c
    from skate.data.files import paths as paths
    from skate.data.files import reading as reading
    from skate.data.plan import node as node
    from skate.data.plan import resources as resources
    from skate.data.read import json_records as json_records
    from skate.data.read import memory as memory
    from skate.data.read import parquet_bounds as parquet_bounds
    from skate.data.run import ahead as ahead
    from skate.data.run import blocks as blocks
    from skate.data.run import execute as execute
    from skate.data.run import partial as partial
    from skate.data.run import position as position
    from skate.data.run import remote as remote
    from skate.data.util import torch_utils as torch_utils
    from skate.data.values import batch as batch
    from skate.data.values import cells as cells
    from skate.data.values import encoded_text as encoded_text
    from skate.data.values import flat as flat
    from skate.data.values import frames as frames
    from skate.data.values import from_arrow as from_arrow
    from skate.data.values import gathered as gathered
    from skate.data.values import marks as marks
    from skate.data.values import numbering as numbering
    from skate.data.values import numpy_batch as numpy_batch
    from skate.data.values import pictures as pictures
    from skate.data.values import ranges as ranges
    from skate.data.values import rebatch as rebatch
    from skate.data.values import row_dicts as row_dicts
    from skate.data.values import selection as selection
    from skate.data.values import to_arrow as to_arrow
    from skate.data.values import types as value_types  # noqa: F401
    from skate.data.values import unify as unify
    from skate.data.worker import dead_letters as dead_letters
    from skate.data.worker import replay as replay
    from skate.data.worker import task as task
    from skate.data.write import fingerprint as fingerprint
    from skate.data.write import job as write_job  # noqa: F401
    from skate.data.write import mode as mode
    from skate.data.write import resume as resume
    from skate.data.write import rows as rows
    from skate.data.write import sink as sink
    from skate.util import placement_group as placement_group
    from skate.util import scheduling_strategies as scheduling_strategies
    from skate.util import state as state
    from skate.util.joblib import ray_backend as ray_backend
    from skate.util.state import api as state_api  # noqa: F401
else:

    def __getattr__(name):
        if name not in MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found = importlib.import_module(MODULES[name])  # from now on it is an attribute as any other
        return found


def attribute(package, name, where=None, modules=None):
    """package.name, for the package's __getattr__.

    where: {name: module below the package that has it}; modules: names that may be modules below the package (None: any name). Raises AttributeError.
    """
    if where and name in where:
        value = getattr(importlib.import_module(f"{package}.{where[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value
    if modules is None or name in modules:
        module = f"{package}.{name}"
        try:
            return importlib.import_module(module)
        except ModuleNotFoundError as e:
            if e.name != module:
                raise
    from skate._private.absent import why

    reason = why(f"{package}.{name}")
    hint = f" ({reason})" if reason else ""
    if not hint and not name.startswith("_"):
        from skate import _near

        hint = _near.guess(name, [n for n in dir(sys.modules[package]) if not n.startswith("_")], 0.75)
    raise AttributeError(f"module '{package}' has no attribute '{name}'{hint}")
