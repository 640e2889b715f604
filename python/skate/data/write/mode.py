"""What a write does with files that are there, its mode; and its id, which is in the names of its
files."""

from __future__ import annotations

import enum
import os
import time


class SaveMode(enum.StrEnum):
    """What a write does when the target has files."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    IGNORE = "ignore"
    ERROR = "error"


def write_id() -> str:
    """A text that no other write has, on whatever machine: a UUID of version 7, so writes sort by
    the time at which they began."""
    ms, ns = divmod(time.time_ns(), 1_000_000)
    rand = int.from_bytes(os.urandom(8), "big") >> 2
    return f"{ms << 80 | 7 << 76 | ns * 4096 // 1_000_000 << 64 | 2 << 62 | rand:032x}"
