"""skate.util.multiprocessing: a Pool like that of the standard library's multiprocessing, on
actors."""

from multiprocessing import JoinableQueue, TimeoutError  # noqa: F401

from skate.util.multiprocessing.pool import Pool  # noqa: F401

__all__ = [
    "JoinableQueue",
    "Pool",
    "TimeoutError",
]
