"""skate: Ray's tasks, actors and objects on one machine, and its Datasets (skate.data). Use it as
`import skate as ray`."""

from skate import _needs, _lazy, api, exceptions  # noqa: F401, I001 - _needs before all that imports _skate

__version__ = "0.1.0"
__path__.append(_lazy.OF_RAY)
_names = _lazy.Names(__name__, ("data", "exceptions", "util"), but=("as_ray", "logger"))
__getattr__, __dir__ = _names.get, _names.dir
