"""Callbacks of the user that run while a graph of dask runs as tasks."""

import contextlib
from collections import namedtuple

HOOKS = (
    "ray_presubmit",
    "ray_postsubmit",
    "ray_pretask",
    "ray_posttask",
    "ray_postsubmit_all",
    "ray_finish",
)
RayCallback = namedtuple("RayCallback", HOOKS)
RayCallbacks = namedtuple("RayCallbacks", [f"{name}_cbs" for name in HOOKS])


class RayDaskCallback:
    """Functions that are called while graphs run: in the block of `with RayDaskCallback(...)`,
    between register() and unregister(), or with compute(ray_callbacks=[...]). They are given as
    arguments with these names, or as methods with an underscore before the name:

    ray_presubmit(task, key, deps): before a task is submitted; if it returns a value other than
    None, that is the task's value, and the task does not run. ray_postsubmit(task, key, deps,
    object_ref): after a task was submitted. ray_pretask(key, object_refs): in the worker, before
    the task; its result is passed to ray_posttask. object_refs: the values of the task's inputs.
    ray_posttask(key, result, pre_state): in the worker, after the task.
    ray_postsubmit_all(object_refs, dsk): when all tasks are submitted. ray_finish(result): with the
    values that compute() returns."""

    ray_active = set()

    def __init__(self, **kwargs):
        unknown = set(kwargs) - set(HOOKS)
        if unknown:
            raise TypeError(
                f"RayDaskCallback: {', '.join(sorted(unknown))} unknown; there are {', '.join(HOOKS)}"
            )
        for name, fn in kwargs.items():
            setattr(self, "_" + name, fn)

    @property
    def _ray_callback(self):
        return RayCallback(*(getattr(self, "_" + name, None) for name in HOOKS))

    def register(self):
        RayDaskCallback.ray_active.add(self._ray_callback)

    def unregister(self):
        RayDaskCallback.ray_active.discard(self._ray_callback)

    def __enter__(self):
        self.register()
        return self

    def __exit__(self, *exc):
        self.unregister()


def unpack_ray_callbacks(callbacks):
    """RayCallbacks: for each hook its functions, or None. Each ray_pretask stays paired with its
    ray_posttask."""
    found = [
        c._ray_callback if isinstance(c, RayDaskCallback) else RayCallback(*c)
        for c in callbacks or ()
    ]
    out = {}
    for name in HOOKS:
        fns = [getattr(c, name) for c in found]
        if name not in ("ray_pretask", "ray_posttask"):
            fns = [fn for fn in fns if fn is not None]
        out[f"{name}_cbs"] = fns if any(fn is not None for fn in fns) else None
    return RayCallbacks(**out)


@contextlib.contextmanager
def local_ray_callbacks(callbacks=None):
    """A context manager: in its block these callbacks are called or, without an argument, the
    registered ones."""
    if isinstance(callbacks, RayDaskCallback):
        callbacks = [callbacks]
    yield list(callbacks) if callbacks is not None else list(RayDaskCallback.ray_active)
