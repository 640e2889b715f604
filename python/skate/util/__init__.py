"""skate.util: what is built on tasks and actors, and looks at them."""

from skate import _lazy
from skate.util.placement_group import (  # noqa: F401 (the function of that name, not the module)
    get_current_placement_group,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)

__path__.append(f"{_lazy.OF_RAY}/util")
_FROM = {  # name: module below skate.util
    "ActorPool": "actor_pool",
    "as_completed": "helpers",
    "deregister_serializer": "serialization",
    "disable_log_once_globally": "debug",
    "enable_periodic_logging": "debug",
    "inspect_serializability": "check_serialize",
    "list_named_actors": "helpers",
    "log_once": "debug",
    "map_unordered": "helpers",
    "register_serializer": "serialization",
    "get_node_ip_address": "helpers",
}


def __getattr__(name):
    return _lazy.attribute("skate.util", name, _FROM)


def __dir__():
    return sorted({*globals(), *_FROM})
