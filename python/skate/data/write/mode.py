"""The mode of a write (what happens to existing files), and the write's id, which is a part of the
names of its files."""

from __future__ import annotations

import enum
import os
import time


class SaveMode(enum.StrEnum):
    """The behaviour of a write if the target has files."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    IGNORE = "ignore"
    ERROR = "error"


def write_id() -> str:
    """An id that no other write has, on whatever machine: a UUID of version 7, so that ids sort by
    the start times of the writes."""
    ms, ns = divmod(time.time_ns(), 1_000_000)
    rand = int.from_bytes(os.urandom(8), "big") >> 2
    return f"{ms << 80 | 7 << 76 | ns * 4096 // 1_000_000 << 64 | 2 << 62 | rand:032x}"
