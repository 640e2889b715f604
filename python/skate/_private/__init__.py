"""The command line, and those of Ray's internal names (from compat/ray) that some programs use."""

from skate import _lazy

__path__.append(f"{_lazy.OF_RAY}/_private")


def __getattr__(name):
    return _lazy.attribute("skate._private", name)
