"""Which rows stay where bad records are set aside and types do not go together: at each place (a
column, or a place within one), the types of most rows win.

The one rule for functions of the user (worker/rows.py), rows of files (read/files.py) and JSON
(read/json_records.py). Types that go together count as one; of those of as many rows the first
stays; a null says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

SURE = float("inf")  # rows of a kind that wins against any number of others


class Majority:
    """Counts of the rows by place and kind.

    Args:
        both: The kind of the values of two kinds; None where there is none.
    """

    def __init__(self, both: Callable[[Any, Any], Any]):
        self.both = both
        self.counts: dict[Hashable, dict[Any, float]] = {}

    def add(self, place: Hashable, kind: Any, rows: float) -> None:
        """So many rows have this kind there."""
        by = self.counts.setdefault(place, {})
        by[kind] = by.get(kind, 0) + rows

    def most(self) -> dict[Any, Any]:
        """The kind that stays at each place."""
        return {place: self._most(by) for place, by in self.counts.items()}

    def _most(self, by: dict[Any, float]) -> Any:
        together: list[list[Any]] = []  # [kind, rows]
        for kind, rows in sorted(by.items(), key=lambda k: -k[1]):  # stable
            for t in together:
                wide = self.both(t[0], kind)
                if wide is not None:
                    t[0], t[1] = wide, t[1] + rows
                    break
            else:
                together.append([kind, rows])
        return max(together, key=lambda t: t[1])[0]
