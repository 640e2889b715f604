"""skate.experimental: names of ray.experimental that make sense on one machine."""


def __getattr__(name):
    import importlib

    if name in ("get_object_locations", "get_local_object_locations"):
        return getattr(importlib.import_module("skate.experimental.locations"), name)
    try:
        return importlib.import_module("skate.experimental." + name)
    except ModuleNotFoundError as e:
        if e.name != "skate.experimental." + name:
            raise
    raise AttributeError(f"module 'skate.experimental' has no attribute '{name}'")
