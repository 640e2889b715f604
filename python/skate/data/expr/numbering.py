"""Numbers the rows of this process's current task: by the task's number in its stage, then by their
order in the task (monotonically_increasing_id)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

ROW_BITS = 33  # low bits of a number, which count the rows of one task


class Numbering:
    """task: the number of the current task; counts: {expression: rows numbered so far}."""

    def __init__(self) -> None:
        self.task: Any = 0
        self.counts: dict[str, int] = {}

    def begin(self, task: Any) -> None:
        """Begins a new task. None: the task's number is not known yet."""
        self.task, self.counts = task, {}

    def take(self, expression: str, rows: int) -> tuple[int, int]:
        """The half-open range of numbers for the next rows of an expression. ValueError if 64 bits
        are too few."""
        first = self.counts.get(expression, 0)
        self.counts[expression] = last = first + rows
        if last > 1 << ROW_BITS or self.task >= 1 << (63 - ROW_BITS):
            raise ValueError(
                f"monotonically_increasing_id: row {last} of task {self.task} does not fit 64 bits; use smaller blocks"
            )
        return (self.task << ROW_BITS) + first, (self.task << ROW_BITS) + last

    @contextlib.contextmanager
    def kept_on_error(self) -> Iterator[None]:
        """Takes numbers back after an error, so that a retry gives the rows the same numbers."""
        counts = dict(self.counts)
        try:
            yield
        except BaseException:
            self.counts = counts
            raise


numbering = Numbering()
