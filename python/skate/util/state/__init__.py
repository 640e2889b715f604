"""skate.util.state: lists of the engine's tasks, actors, objects and workers, and of ended tasks.
The names are Ray's; rows are objects with attributes and items.

The engine stores the last 10,000 ended attempts of tasks and the last 1,000 dead actors
(src/engine/state.c). Tasks may call these functions, too."""

from skate import _lazy

_names = _lazy.Names(__name__)
__getattr__, __dir__ = _names.get, _names.dir
