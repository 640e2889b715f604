"""What a user sees while a run goes on: one line on a terminal (stderr), rewritten at most five times a second, and nothing anywhere else
(DataContext.enable_progress_bars = False: off); and a warning in the log when nothing moves for some seconds, which says who waits for what.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from typing import Any

EVERY_S = 0.2
QUIET_S = 4.0  # the first warning; the next one after twice as long


class Progress:
    """Stands between the caller and Exec.next; next() is the same but looks around while it waits."""

    def __init__(self, x: Any, context: Any):
        self.x = x
        self.out = sys.stderr if context.enable_progress_bars and sys.stderr is not None and sys.stderr.isatty() else None
        self.start = time.monotonic()
        self.drawn = self.start + EVERY_S  # a run shorter than two ticks draws nothing
        self.width = 0
        self.tick = 1.0 if self.out is None else EVERY_S
        self.quiet = QUIET_S

    def next(self) -> Any:
        from skate.exceptions import GetTimeoutError

        while True:
            try:
                item = self.x.next(self.tick)
            except GetTimeoutError:
                self.draw()
                self.warn()
                continue
            if self.out is not None:
                self.draw()
            return item

    def warn(self) -> None:
        seconds, who = self.x.quiet()
        if seconds < QUIET_S:
            self.quiet = QUIET_S
        elif seconds >= self.quiet:
            self.quiet = 2 * seconds
            self.close()
            logging.getLogger("ray.data").warning(
                "Nothing has moved for %.0f s (`skate stack` shows where the tasks are): %s", seconds, who
            )

    def draw(self) -> None:
        now = time.monotonic()
        if self.out is None or now < self.drawn + EVERY_S:
            return
        self.drawn = now
        try:
            width = (os.get_terminal_size(self.out.fileno()).columns or 80) - 1
        except (OSError, ValueError, AttributeError):
            width = 1 << 30
        line = text(self.x.stats(), now - self.start, width)[:width]
        self.out.write("\r" + line.ljust(self.width))
        self.out.flush()
        self.width = len(line)

    def close(self) -> None:
        if self.width and self.out is not None:
            self.out.write("\r" + " " * self.width + "\r")
            self.out.flush()
            self.width = 0


def text(stats: dict[str, Any], elapsed: float, width: int = 1 << 30) -> str:
    """The line: "Read->Map 120/400 · MapBatches(Model) 80 · 1,234 rows/s · ~5 s left · limited by MapBatches(Model)". Operators that do not fit into `width`
    characters are left out from the front."""
    ops = stats.get("ops") or []
    parts = []
    for o in ops:
        total = o.get("total_units", -1)
        done = o.get("tasks_done", 0)
        parts.append(f"{o['label']} {done}/{total}" if total is not None and total >= 0 else f"{o['label']} {done}")
    end = []
    if ops and elapsed > 0:
        end.append(f"{ops[-1].get('rows_out', 0) / elapsed:,.0f} rows/s")
        left = seconds_left(ops, elapsed)
        if left is not None:
            end.append(f"~{left:,.0f} s left")
    i = stats.get("bottleneck")
    if ops:
        end.append("limited by " + (ops[i]["label"] if isinstance(i, int) and 0 <= i < len(ops) else "the consumer"))
    room = width - len(" · ".join(end)) - 3
    cut = 0
    while cut < len(parts) - 1 and len(" · ".join(parts[cut:])) + (4 if cut else 0) > room:
        cut += 1
    return " · ".join([*(["…"] if cut else []), *parts[cut:], *end])


def seconds_left(ops: list[dict[str, Any]], elapsed: float) -> float | None:
    """A guess from what was done so far: of the sources' tasks while they run, then of the operator that has most to do beside what it did; None: nothing is known."""
    total, done = ops[0].get("total_units", -1), ops[0].get("tasks_done", 0)
    if total and total > 0 and done < total:
        return elapsed / done * (total - done) if done else None
    left = [elapsed * (o.get("tasks_queued", 0) + o.get("tasks_running", 0)) / o["tasks_done"] for o in ops if o.get("tasks_done")]
    return max(left) if left and max(left) > 0 else None
