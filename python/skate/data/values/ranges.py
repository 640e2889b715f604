"""Blocks as (reference, first row, rows, bytes), and functions that slice them without copying
rows."""

from __future__ import annotations

from typing import Any


def cut(blocks: list[Any], at: list[int]) -> list[list[Any]]:
    """Slices the blocks before the rows `at` (ascending), which gives one part more than there are
    cuts. No row is copied."""
    out: list[list[Any]] = [[] for _ in range(len(at) + 1)]
    row = i = 0
    for ref, row0, n, size in blocks:
        first = 0
        while first < n:
            while i < len(at) and at[i] <= row + first:
                i += 1
            last = min(n, at[i] - row) if i < len(at) else n
            out[i].append((ref, row0 + first, last - first, size * (last - first) // n))
            first = last
        row += n
    return out


def even(rows: int, k: int) -> list[int]:
    """The row numbers that divide `rows` rows into k parts whose sizes differ by at most one
    row."""
    return [i * rows // k for i in range(1, k)]
