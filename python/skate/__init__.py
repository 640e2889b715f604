"""skate: tasks, actors and objects of one machine behind Ray's names, and skate.data. `import skate as ray`."""

from skate import exceptions  # noqa: F401
from skate.api import (  # noqa: F401
    ActorClass,
    ActorHandle,
    ObjectRef,
    ObjectRefGenerator,
    available_resources,
    cancel,
    cluster_resources,
    get,
    get_actor,
    get_gpu_ids,
    get_runtime_context,
    init,
    is_initialized,
    kill,
    method,
    nodes,
    put,
    remote,
    shutdown,
    wait,
)

__version__ = "0.1.0"
_LAZY = ("data", "train", "util", "dag", "serialize", "config", "experimental")


def __getattr__(name):
    if name == "cloudpickle":
        import cloudpickle

        return cloudpickle
    if name in _LAZY:
        import importlib

        try:
            return importlib.import_module("skate." + name)
        except ModuleNotFoundError as e:
            if e.name != "skate." + name:
                raise
    raise AttributeError(f"module 'skate' has no attribute '{name}'")
