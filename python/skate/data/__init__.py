"""skate.data: lazy tables, read, mapped and written by a streaming engine in C. Names and defaults
are Ray Data's.

Example:
    >>> import skate
    >>> skate.data.range(1000).map_batches(lambda b: {"x": b["id"] ** 2}).filter(
    ...     expr="x % 2 == 0"
    ... ).count()
    500
"""

from skate import _lazy

__path__.append(f"{_lazy.OF_RAY}/data")
_names = _lazy.Names(__name__, ("context",))
__getattr__, __dir__ = _names.get, _names.dir
