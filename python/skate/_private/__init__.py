"""The command line; and, from compat/ray, names of Ray's internals that some programs use."""

from skate import _lazy

__path__.append(f"{_lazy.OF_RAY}/_private")


def __getattr__(name):
    return _lazy.attribute("skate._private", name)
