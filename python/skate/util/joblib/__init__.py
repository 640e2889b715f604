"""skate.util.joblib: joblib's Parallel over skate: register_ray(); with joblib.parallel_backend("ray"): ..."""

from skate import _lazy
from skate._deps import joblib_parallel


def register_ray():
    """Makes the backend "ray" known to joblib."""
    try:
        register = joblib_parallel.register_parallel_backend
    except ImportError as e:
        raise ImportError("register_ray() needs joblib: pip install joblib") from e
    register("ray", _lazy.ray_backend.RayBackend)
    register("skate", _lazy.ray_backend.RayBackend)


__all__ = ["register_ray"]
