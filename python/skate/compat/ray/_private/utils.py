"""The machine's memory, under the module name that programs import from Ray."""

from skate import _skate


def get_system_memory():
    """The memory in bytes of the machine or of this process's cgroup, whichever is less."""
    return _skate.machine()["memory_bytes"]


def get_used_memory():
    """The bytes of this memory that processes use."""
    return _skate.machine()["used_bytes"]
