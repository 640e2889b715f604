"""skate.util.dask: dask's graphs as tasks.

    with enable_dask_on_ray():
        df.groupby("k").v.sum().compute()

Needs dask 2024.11 or later (ImportError says so)."""

from skate import _lazy
from skate.util.dask.callbacks import RayDaskCallback, local_ray_callbacks, unpack_ray_callbacks
from skate.util.dask.scheduler import (
    disable_dask_on_ray,
    enable_dask_on_ray,
    ray_dask_get,
    ray_dask_get_sync,
    ray_dask_persist,
)

__all__ = [
    "RayDaskCallback",
    "disable_dask_on_ray",
    "enable_dask_on_ray",
    "local_ray_callbacks",
    "ray_dask_get",
    "ray_dask_get_sync",
    "ray_dask_persist",
    "unpack_ray_callbacks",
]


def __getattr__(name):
    return _lazy.attribute("skate.util.dask", name)
