"""skate.util: what is built on tasks and actors, and looks at them."""

from skate.util.placement_group import (  # noqa: F401 (the function of that name, not the module)
    get_current_placement_group,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)

_FROM = {  # name: module below skate.util
    "ActorPool": "actor_pool",
    "as_completed": "helpers",
    "deregister_serializer": "serialization",
    "inspect_serializability": "check_serialize",
    "list_named_actors": "naming",
    "log_once": "helpers",
    "map_unordered": "helpers",
    "register_serializer": "serialization",
    "get_node_ip_address": "helpers",
}


def __getattr__(name):
    import importlib

    where = _FROM.get(name)
    if where is not None:
        value = globals()[name] = getattr(importlib.import_module("skate.util." + where), name)
        return value
    try:
        return importlib.import_module("skate.util." + name)
    except ModuleNotFoundError as e:
        if e.name != "skate.util." + name:
            raise
    raise AttributeError(f"module 'skate.util' has no attribute '{name}'")


def __dir__():
    return sorted({*globals(), *_FROM})
