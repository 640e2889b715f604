"""Decides which rows stay if bad records are tolerated and types cannot be unified: at each place
(a column, or a place inside one), the types that most rows have win.

This is the one rule for user functions (worker/rows.py), rows of files (read/files.py) and JSON
(read/json_records.py). Types that can be unified count as one; if two types have equally many rows,
the first type wins; a null has no type.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

SURE = float("inf")  # a number of rows for a kind that always wins


class Majority:
    """Counts rows by place and by kind of value.

    Args:
        both: A function from two kinds to a kind that can represent the values of both; None if
            there is none.
    """

    def __init__(self, both: Callable[[Any, Any], Any]):
        self.both = both
        self.counts: dict[Hashable, dict[Any, float]] = {}

    def add(self, place: Hashable, kind: Any, rows: float) -> None:
        """Adds `rows` rows that have this kind at this place."""
        by = self.counts.setdefault(place, {})
        by[kind] = by.get(kind, 0) + rows

    def most(self) -> dict[Any, Any]:
        """The winning kind at each place."""
        return {place: self._most(by) for place, by in self.counts.items()}

    def _most(self, by: dict[Any, float]) -> Any:
        together: list[list[Any]] = []  # [kind, rows]
        # a stable sort, so the first of equal kinds wins
        for kind, rows in sorted(by.items(), key=lambda k: -k[1]):
            for t in together:
                wide = self.both(t[0], kind)
                if wide is not None:
                    t[0], t[1] = wide, t[1] + rows
                    break
            else:
                together.append([kind, rows])
        return max(together, key=lambda t: t[1])[0]
