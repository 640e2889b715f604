"""Names of Ray's internals that programs look for, where they have a meaning here."""

from skate import _lazy


def __getattr__(name):
    return _lazy.attribute("skate._private", name)
