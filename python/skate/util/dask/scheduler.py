"""A scheduler for dask: each node of a graph becomes a task, whose arguments are the nodes that it
depends on. Values between tasks stay in the object store.

All tasks are submitted at once, in dask's own order; the engine starts each task when its inputs
exist, and frees a value after the last task that takes it."""

from collections.abc import Mapping
from typing import Any

import skate
from skate.util.dask.callbacks import local_ray_callbacks, unpack_ray_callbacks

try:
    import dask
    import dask.base
    from dask._task_spec import Alias, DataNode, Task, convert_legacy_graph
    from dask.base import get_scheduler
    from dask.core import flatten
    from dask.order import order
except ImportError as e:
    raise ImportError(
        f"skate.util.dask needs dask 2024.11 or later: pip install 'dask>=2024.11' ({e})"
    ) from e

_RESOURCES = "resources={...} is dask's own; what tasks of skate ask for goes into ray_remote_args={'resources': {...}}"


def _filled(x) -> Any:
    """The value x, in which each ObjectRef (which stands for a node of a persisted graph) is
    replaced by its value."""
    if isinstance(x, skate.ObjectRef):
        return skate.get(x)
    if isinstance(x, DataNode):
        return (
            DataNode(x.key, _filled(x.value))
            if isinstance(x.value, (skate.ObjectRef, list, tuple, dict))
            else x
        )
    if isinstance(x, Task):
        x.args = _filled(x.args)
        x.kwargs = _filled(x.kwargs)
        return x
    if type(x) in (list, tuple):
        return type(x)([_filled(v) for v in x])
    if type(x) is dict:
        return {k: _filled(v) for k, v in x.items()}
    return x


@skate.remote
def _run(node, keys, hooks, *values):
    """Runs one node of the graph. values: the values of the keys that it depends on."""
    before, after = hooks or (None, None)
    states = [None if fn is None else fn(node.key, values) for fn in before or ()]
    result = _filled(node)(dict(zip(keys, values)))
    for i, fn in enumerate(after or ()):
        if fn is not None:
            fn(node.key, result, states[i] if states else None)
    return result


def _options(dsk, given):
    """{key: options of its task}: merges the ray_remote_args of compute(), of dask.annotate() and
    of the layers' annotations; the innermost take precedence."""
    here = dask.get_annotations()
    outer = {**given, **here.get("ray_remote_args", {})}
    if "resources" in here:
        raise ValueError(_RESOURCES)
    out = {}
    for layer in getattr(dsk, "layers", {}).values():
        notes = getattr(layer, "annotations", None) or {}
        if "resources" in notes:
            raise ValueError(_RESOURCES)
        if notes.get("ray_remote_args"):
            out.update(
                dict.fromkeys(layer.get_output_keys(), {**outer, **notes["ray_remote_args"]})
            )
    return out, outer


def _submit(dsk, wanted, options, outer, cbs, one_by_one):
    """Submits the tasks; returns {key: ObjectRef, or a value that a callback returned} for the keys
    that were asked for."""
    hooks = (
        (cbs.ray_pretask_cbs, cbs.ray_posttask_cbs)
        if cbs.ray_pretask_cbs or cbs.ray_posttask_cbs
        else None
    )
    rank = order(dsk)
    uses = {}
    for node in dsk.values():
        for key in node.dependencies:
            uses[key] = uses.get(key, 0) + 1
    refs = {}
    for key in sorted(dsk, key=rank.__getitem__):
        node = dsk[key]
        deps = {k: refs[k] for k in node.dependencies}
        value = None
        for fn in cbs.ray_presubmit_cbs or ():
            value = fn(node, key, deps) if value is None else value
        if value is not None:
            refs[key] = value
        elif isinstance(node, Alias):
            (refs[key],) = deps.values()
        elif isinstance(node, DataNode):
            refs[key] = (
                node.value if isinstance(node.value, skate.ObjectRef) else skate.put(node.value)
            )
        else:
            args = {"name": f"dask:{key!s}", **options.get(key, outer)}
            refs[key] = _run.options(**args).remote(node, list(deps), hooks, *deps.values())
            for fn in cbs.ray_postsubmit_cbs or ():
                fn(node, key, deps, refs[key])
            if one_by_one:
                skate.wait([refs[key]])
        for k in deps:  # from here on, the tasks that take a value hold its reference
            uses[k] -= 1
            if not uses[k] and k not in wanted:
                del refs[k]
    return {k: refs[k] for k in wanted}


def _get(dsk, keys, one_by_one, kwargs):
    if "resources" in kwargs:
        raise ValueError(_RESOURCES)
    if not isinstance(dsk, Mapping):  # dsk is an expression
        dsk = dsk.__dask_graph__()
    options, outer = _options(dsk, kwargs.get("ray_remote_args") or {})
    with local_ray_callbacks(kwargs.get("ray_callbacks")) as callbacks:
        cbs = unpack_ray_callbacks(callbacks)
        graph = convert_legacy_graph(dsk)
        wanted = dict.fromkeys(flatten(keys) if isinstance(keys, list) else [keys])
        found = _submit(graph, wanted, options, outer, cbs, one_by_one)
        for fn in cbs.ray_postsubmit_all_cbs or ():
            fn(list(found.values()), dsk)
        if not kwargs.get("ray_persist"):
            here = [k for k, v in found.items() if isinstance(v, skate.ObjectRef)]
            found.update(zip(here, skate.get([found[k] for k in here])))

        def packed(keys):
            return tuple(packed(k) for k in keys) if isinstance(keys, list) else found[keys]

        result = packed(keys)
        for fn in cbs.ray_finish_cbs or ():
            fn(result)
        return result


def ray_dask_get(dsk: Any, keys: Any, **kwargs: Any) -> Any:
    """The scheduler: compute(scheduler=ray_dask_get). Returns the values of `keys` (a key, or lists
    of keys) of the graph, whose nodes run as tasks.

    ray_remote_args: options of the tasks. ray_callbacks: RayDaskCallbacks. ray_persist: return
    ObjectRefs instead of values. The error of a node is raised like that of any task. num_workers,
    pool and other arguments of dask have no effect: the engine's CPUs limit the tasks."""
    return _get(dsk, keys, False, kwargs)


def ray_dask_get_sync(dsk: Any, keys: Any, **kwargs: Any) -> Any:
    """ray_dask_get() with one task at a time, for debugging."""
    return _get(dsk, keys, True, kwargs)


def enable_dask_on_ray(shuffle: str = "tasks", use_shuffle_optimization: bool = True) -> Any:
    """Makes ray_dask_get dask's default scheduler, from now on or in a `with` block. shuffle: how
    dask shuffles data frames ("tasks", "disk"). use_shuffle_optimization has no effect: dask plans
    data frames itself since 2025."""
    return dask.config.set({"scheduler": ray_dask_get, "dataframe.shuffle.method": shuffle})


def disable_dask_on_ray() -> Any:
    """Makes dask's own scheduler the default again."""
    return dask.config.set({"scheduler": None, "dataframe.shuffle.method": None})


_persist = dask.persist


def ray_dask_persist(*args: Any, **kwargs: Any) -> Any:
    """dask.persist(); the values of graphs that run as tasks stay in the object store."""
    if get_scheduler(
        collections=[a for a in args if dask.is_dask_collection(a)],
        scheduler=kwargs.get("scheduler"),
    ) in (
        ray_dask_get,
        ray_dask_get_sync,
    ):
        kwargs.setdefault("ray_persist", True)
    return _persist(*args, **kwargs)


def _persist_one(self, **kwargs):
    return ray_dask_persist(self, traverse=False, **kwargs)[0]


# dask does not tell a scheduler about persist(). Both of its forms go through these functions; with
# another scheduler they call dask's own.
dask.persist = dask.base.persist = ray_dask_persist
dask.base.DaskMethodsMixin.persist = _persist_one
