"""Translates the resources of a stage from users' keyword arguments, which have Ray's names, to
keyword arguments of _skate.Plan.add."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from skate import _did_you_mean
from skate.calls.options import fallback_strategy, group_of, label_selector
from skate.data.plan.node import Node
from skate.exceptions import TaskUnschedulableError
from skate.runtime_env import check

# The keywords of each method that takes resources, from which an error suggests one.
ARGUMENTS = {
    *(
        "batch_format",
        "batch_size",
        "compute",
        "concurrency",
        "fn_args",
        "fn_constructor_args",
        "fn_constructor_kwargs",
        "fn_kwargs",
    ),
    *(
        "memory",
        "num_cpus",
        "num_gpus",
        "on_error",
        "ray_remote_args_fn",
        "udf_modifying_row_count",
        "zero_copy_batch",
    ),
    *(
        "max_concurrency",
        "max_retries",
        "max_restarts",
        "max_task_retries",
        "max_calls",
        "resources",
        "runtime_env",
    ),
}


def resources(given: dict[str, Any]) -> dict[str, Any]:
    """Translates arguments with Ray's names to keyword arguments of Plan.add. ValueError or
    TypeError for an argument that is unknown or has a wrong value."""
    out: dict[str, Any] = {}
    for k, v in given.items():
        if v is None:
            continue
        if k in ("num_cpus", "num_gpus"):
            if v < 0:
                raise ValueError(f"{k} must be 0 or more, not {v}")
            out[k] = float(v)
        elif k == "memory":
            out[k] = int(v)
        elif k == "resources":
            out[k] = {str(n): float(x) for n, x in v.items()}
        elif k == "max_concurrency":  # of an async function: Dataset._udf hands it on
            if not isinstance(v, int) or isinstance(v, bool) or v < 1:
                raise ValueError(f"max_concurrency must be an int, 1 or more, not {v!r}")
        elif k in ("max_restarts", "max_task_retries", "max_retries", "max_calls"):
            if not isinstance(v, int) or isinstance(v, bool) or v < (0 if k == "max_calls" else -1):
                raise ValueError(
                    f"{k} must be an int, {'0 (no limit)' if k == 'max_calls' else '-1 (for ever)'} or more, not {v!r}"
                )
            out[k] = v
        elif k == "runtime_env":
            if v:
                out["env"] = pickle.dumps(check(v), 5)
        elif k == "label_selector":
            label_selector(k, v)
            out[k] = v
        elif k == "fallback_strategy":
            fallback_strategy(k, v)
            out[k] = v
        elif k not in (
            "scheduling_strategy",
            "accelerator_type",
            "retry_exceptions",
            "num_returns",
            "placement_group",
            "placement_group_bundle_index",
            "placement_group_capture_child_tasks",
            "_generator_backpressure_num_objects",
        ):
            raise TypeError(f"unexpected keyword argument {k!r}{_meant(k)}")
    return {**out, **group(given)}


def remote_args(
    args: dict[str, Any], args_fn: Callable[[], dict[str, Any]] | None
) -> dict[str, Any]:
    """Merges ray_remote_args with the result of ray_remote_args_fn. (Ray calls that function for
    each task, to spread tasks over machines; skate calls it once.)"""
    if args_fn is None:
        return args
    made = args_fn()
    if "max_calls" in made:
        raise ValueError(
            "max_calls cannot come from ray_remote_args_fn: it is of the function, not of one task; give it as an argument"
        )
    return {**args, **made}


def _meant(keyword: str) -> str:
    """A suggestion for an unknown keyword: the nearest keyword that the method takes."""
    return _did_you_mean.guess(keyword, sorted(ARGUMENTS))


def group(given: dict[str, Any]) -> dict[str, Any]:
    """The placement group for tasks as keyword arguments of Plan.add, and a strategy that names
    nodes as an option of ON_NODES."""
    # labels are compared when the Dataset runs, since the engine may not be open yet
    g = group_of(
        {k: v for k, v in given.items() if v is not None and k != "label_selector"}, 1, "a stage"
    )
    why = g["unfit"]() if "unfit" in g else None
    if why is not None:
        raise TaskUnschedulableError(why)
    out = {"group": g["pg"], "bundle": g["bundle"]} if "pg" in g else {}
    return {**out, "node_strategy": given["scheduling_strategy"]} if "where" in g else out


# options of an operator that say which nodes may run it
ON_NODES = ("node_strategy", "label_selector", "fallback_strategy")


def as_input(node: Node) -> dict[str, Any]:
    """The resources of an operator for which the user cannot name any: those of its input if the
    input runs in tasks, so that the two fuse."""
    if node.options.get("pool"):
        return {}
    return {
        k: node.options[k]
        for k in (
            "num_cpus",
            "num_gpus",
            "resources",
            "memory",
            "max_tasks",
            "max_retries",
            "max_calls",
            "group",
            "bundle",
            "env",
            *ON_NODES,
        )
        if k in node.options
    }
