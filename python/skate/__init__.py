"""skate: tasks, actors and objects of one machine behind Ray's names, and skate.data. `import skate as ray`."""

from skate import _lazy, exceptions  # noqa: F401
from skate.api import (  # noqa: F401
    ActorClass,
    ActorHandle,
    ObjectRef,
    ObjectRefGenerator,
    available_resources,
    cancel,
    cluster_resources,
    empty,
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
ObjectID = ObjectRef
SCRIPT_MODE, WORKER_MODE, LOCAL_MODE = 0, 1, 2
_LAZY = (
    "_private",
    "_raylet",
    "actor",
    "cloudpickle",
    "cluster_utils",
    "config",
    "data",
    "experimental",
    "job_config",
    "memory",
    "runtime_context",
    "runtime_env",
    "serialize",
    "types",
    "util",
)
_FROM = {  # name: module
    "ActorClassID": "ids",
    "ActorID": "ids",
    "ActorProxy": "actor",
    "ClusterID": "ids",
    "DynamicObjectRefGenerator": "ref",
    "FunctionID": "ids",
    "JobID": "ids",
    "LoggingConfig": "logging_config",
    "NodeID": "ids",
    "PlacementGroupID": "ids",
    "TaskID": "ids",
    "UniqueID": "ids",
    "WorkerID": "ids",
    "as_ray": "_private.as_ray",
    "logger": "_private.log",
    "timeline": "_private.timeline",
}


def __getattr__(name):
    return _lazy.attribute("skate", name, _FROM, _LAZY)


def __dir__():
    return sorted({*globals(), *_LAZY, *_FROM})
