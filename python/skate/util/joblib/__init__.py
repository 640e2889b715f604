"""skate.util.joblib: runs joblib's Parallel on skate: register_ray(); with
joblib.parallel_backend("ray"): ..."""

from skate._deps import joblib_parallel, ray_backend


def register_ray():
    """Registers the backend "ray" with joblib."""
    try:
        register = joblib_parallel.register_parallel_backend
    except ImportError as e:
        raise ImportError("register_ray() needs joblib: pip install joblib") from e
    register("ray", ray_backend.RayBackend)
    register("skate", ray_backend.RayBackend)


__all__ = ["register_ray"]
