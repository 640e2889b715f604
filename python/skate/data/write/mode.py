"""What a write does with files that are there: its mode, and names that do not collide with theirs."""

from __future__ import annotations

import enum
import os
import re


class SaveMode(enum.StrEnum):
    """What a write does when the target has files."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    IGNORE = "ignore"
    ERROR = "error"


def prefix(path: str, old: list[str]) -> str:
    """Files that are appended to those with the names `old` get a number of their write, so that no name is used twice."""
    names = list(old)
    for n in old:
        for _, _, files in os.walk(os.path.join(path, n)):
            names += files
    return next_prefix(names)


_NUMBERED = re.compile(r"(?:^|_)(?:(\d{4})-)?\d{6}_\d{6}")  # behind a value, where values are in front of names


def next_prefix(names: list[str]) -> str:
    taken = [int(m[1]) if m[1] else 0 for m in map(_NUMBERED.search, names) if m]
    return f"{max(taken) + 1:04d}-" if taken else ""
