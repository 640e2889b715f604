"""How the rows of the task that this process is at are numbered: by the number of the task in its
stage, then by their order (monotonically_increasing_id)."""

from __future__ import annotations

from typing import Any

ROW_BITS = 33  # of a number are for the rows of one task


class Numbering:
    """task: its number; counts: rows numbered so far, by expression."""

    def __init__(self) -> None:
        self.task: Any = 0
        self.counts: dict[str, int] = {}

    def begin(self, task: Any) -> None:
        """Another task begins; None: it has no number yet."""
        self.task, self.counts = task, {}

    def take(self, expression: str, rows: int) -> tuple[int, int]:
        """The numbers, as a half-open range, of the next rows of an expression. ValueError where 64
        bits do not hold them."""
        first = self.counts.get(expression, 0)
        self.counts[expression] = last = first + rows
        if last > 1 << ROW_BITS or self.task >= 1 << (63 - ROW_BITS):
            raise ValueError(
                f"monotonically_increasing_id: row {last} of task {self.task} does not fit 64 bits; use smaller blocks"
            )
        return (self.task << ROW_BITS) + first, (self.task << ROW_BITS) + last


numbering = Numbering()
