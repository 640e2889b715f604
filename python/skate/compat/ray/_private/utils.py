"""The machine's memory, at the place where programs look for it."""

from skate import _skate


def get_system_memory():
    """Memory in bytes, of the machine or of this process's cgroup, whichever is less."""
    return _skate.machine()["memory_bytes"]


def get_used_memory():
    """The bytes of that memory that are in use by all processes."""
    return _skate.machine()["used_bytes"]
