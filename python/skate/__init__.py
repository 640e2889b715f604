"""skate: Ray's tasks, actors and objects on one machine, and its Datasets (skate.data). Use it as
`import skate as ray`."""

from skate import _needs  # noqa: F401, I001 - before all that imports _skate
from skate import _lazy, _skate, api, exceptions  # noqa: F401

__version__ = _skate.__version__
__path__.append(_lazy.OF_RAY)
_names = _lazy.Names(__name__, ("data", "exceptions", "util"), but=("as_ray", "logger"))
__getattr__, __dir__ = _names.get, _names.dir
