"""skate.util.state: lists of the engine's tasks, actors, objects and workers, and of tasks that
have ended. Names are Ray's; rows are objects with attributes and items.

The engine keeps the last 10,000 ended attempts of tasks and the last 1,000 dead actors
(src/engine/state.c). May be called in tasks, too."""

from skate import _lazy

_names = _lazy.Names(__name__)
__getattr__, __dir__ = _names.get, _names.dir
