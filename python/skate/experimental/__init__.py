"""skate.experimental: names of ray.experimental that make sense on one machine."""

from skate import _lazy


def __getattr__(name):
    return _lazy.attribute("skate.experimental", name)
