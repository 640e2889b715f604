"""skate.util.joblib: joblib's Parallel over skate: register_ray(); with joblib.parallel_backend("ray"): ..."""


def register_ray():
    """Makes the backend "ray" known to joblib."""
    try:
        from joblib.parallel import register_parallel_backend
    except ImportError as e:
        raise ImportError("register_ray() needs joblib: pip install joblib") from e
    from skate.util.joblib.ray_backend import RayBackend

    register_parallel_backend("ray", RayBackend)
    register_parallel_backend("skate", RayBackend)


__all__ = ["register_ray"]
