"""skate.util: libraries built on tasks and actors, and tools that show the engine's state."""

from skate import _lazy
from skate.util.placement_group import (  # noqa: F401 (the function of that name, not the module)
    get_current_placement_group,
    get_placement_group,
    placement_group,  # noqa: F401 (the function of that name, not the module)
    placement_group_table,
    remove_placement_group,
)

__path__.append(f"{_lazy.OF_RAY}/util")
_names = _lazy.Names(__name__)
__getattr__, __dir__ = _names.get, _names.dir
