"""Sources and targets that users write, names of files, and partitioning by folders. The names are
Ray's."""

from skate import _lazy

_names = _lazy.Names(__name__)
__getattr__, __dir__ = _names.get, _names.dir
