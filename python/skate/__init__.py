"""skate: tasks, actors and objects of one machine behind Ray's names, and skate.data. `import skate
as ray`."""

from skate import _lazy, exceptions
from skate.actor import ActorClass, ActorHandle, get_actor, method
from skate.api import (
    ObjectRef,
    ObjectRefGenerator,
    available_resources,
    cancel,
    cluster_resources,
    empty,
    get,
    get_gpu_ids,
    init,
    is_initialized,
    kill,
    nodes,
    put,
    remote,
    shutdown,
    wait,
)
from skate.runtime_context import get_runtime_context

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:  # what is loaded when it is first asked for
    from skate import actor as actor
    from skate import config as config
    from skate import dag as dag
    from skate import data as data
    from skate import experimental as experimental
    from skate import job_config as job_config
    from skate import memory as memory
    from skate import runtime_context as runtime_context
    from skate import runtime_env as runtime_env
    from skate import serialize as serialize
    from skate import util as util
    from skate._private.timeline import timeline
    from skate.actor import ActorProxy
    from skate.ids import (
        ActorClassID,
        ActorID,
        ClusterID,
        FunctionID,
        JobID,
        NodeID,
        PlacementGroupID,
        TaskID,
        UniqueID,
        WorkerID,
    )
    from skate.logging_config import LoggingConfig
    from skate.ref import DynamicObjectRefGenerator

__all__ = [
    "ActorClass",
    "ActorClassID",
    "ActorHandle",
    "ActorID",
    "ActorProxy",
    "ClusterID",
    "DynamicObjectRefGenerator",
    "FunctionID",
    "JobID",
    "LoggingConfig",
    "NodeID",
    "ObjectID",
    "ObjectRef",
    "ObjectRefGenerator",
    "PlacementGroupID",
    "TaskID",
    "UniqueID",
    "WorkerID",
    "available_resources",
    "cancel",
    "cluster_resources",
    "data",
    "empty",
    "exceptions",
    "get",
    "get_actor",
    "get_gpu_ids",
    "get_runtime_context",
    "init",
    "is_initialized",
    "kill",
    "method",
    "nodes",
    "put",
    "remote",
    "shutdown",
    "timeline",
    "util",
    "wait",
]

__version__ = "0.1.0"
ObjectID = ObjectRef
SCRIPT_MODE, WORKER_MODE, LOCAL_MODE = 0, 1, 2
__path__.append(_lazy.OF_RAY)
_LAZY = (
    "_private",
    "_raylet",
    "actor",
    "cloudpickle",
    "cluster_utils",
    "config",
    "dag",
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
    "as_ray": "compat.as_ray",
    "logger": "_private.log",
    "timeline": "_private.timeline",
}


if not TYPE_CHECKING:  # for a type checker a name is there or it is not

    def __getattr__(name):
        return _lazy.attribute("skate", name, _FROM, _LAZY)


def __dir__():
    return sorted({*globals(), *_LAZY, *_FROM})
