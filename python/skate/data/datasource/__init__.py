"""Sources and targets that users write, file names, and what folders of paths say. Names are
Ray's."""

from skate import _lazy

_names = _lazy.Names(__name__)
__getattr__, __dir__ = _names.get, _names.dir
