"""skate.util.state: lists of what there is and, of tasks, what there was. Ray's names; rows are
objects with attributes and items.

The engine keeps the last 10,000 ended attempts of tasks and the last 1,000 dead actors
(src/engine/state.c). May be called in tasks, too."""

from typing import TYPE_CHECKING, Any

from skate import _lazy

if TYPE_CHECKING:
    from skate.util.state.api import (
        get_actor,
        get_job,
        get_node,
        get_objects,
        get_placement_group,
        get_task,
        get_worker,
        list_actors,
        list_jobs,
        list_nodes,
        list_objects,
        list_placement_groups,
        list_runtime_envs,
        list_tasks,
        list_workers,
        summarize_actors,
        summarize_objects,
        summarize_tasks,
    )

__all__ = [
    "get_actor",
    "get_job",
    "get_node",
    "get_objects",
    "get_placement_group",
    "get_task",
    "get_worker",
    "list_actors",
    "list_jobs",
    "list_nodes",
    "list_objects",
    "list_placement_groups",
    "list_runtime_envs",
    "list_tasks",
    "list_workers",
    "summarize_actors",
    "summarize_objects",
    "summarize_tasks",
]

_FROM = dict.fromkeys(__all__, "api")


def __getattr__(name: str) -> Any:
    return _lazy.attribute("skate.util.state", name, _FROM)


def __dir__():
    return sorted({*globals(), *_FROM})
