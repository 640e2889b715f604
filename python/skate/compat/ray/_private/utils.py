"""The machine's memory, where programs look for it."""

from skate import _skate


def get_system_memory():
    """Bytes: of the machine or of this process's cgroup, whichever is less."""
    return _skate.machine()["memory_bytes"]


def get_used_memory():
    """Bytes of it that are in use, by all."""
    return _skate.machine()["used_bytes"]
