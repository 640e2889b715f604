"""skate.util.joblib: joblib's Parallel over skate: register_ray(); with joblib.parallel_backend("ray"): ..."""

from skate import _lazy


def register_ray():
    """Makes the backend "ray" known to joblib."""
    try:
        from joblib.parallel import register_parallel_backend
    except ImportError as e:
        raise ImportError("register_ray() needs joblib: pip install joblib") from e
    register_parallel_backend("ray", _lazy.ray_backend.RayBackend)
    register_parallel_backend("skate", _lazy.ray_backend.RayBackend)


__all__ = ["register_ray"]
