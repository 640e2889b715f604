"""What a user sees while a run goes on: one line on a terminal (stderr), rewritten at most five times a second, and nothing anywhere else
(DataContext.enable_progress_bars = False: off); and a warning in the log when nothing moves for some seconds, which says who waits for what.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

EVERY_S = 0.2
QUIET_S = 3.0  # the first look; a warning a tick later at the earliest, the next one after twice as long
WORKING_S = 60.0  # and then only if the workers do not work, either: what computes without end is told of after so long


def cpu_s() -> float:
    """CPU seconds of the workers that are at a task."""
    from skate import _skate

    ticks = 0
    for pid, _, state, _ in _skate.workers():
        if state == "busy":
            try:
                with open(f"/proc/{pid}/stat") as f:
                    fields = f.read().rsplit(") ", 1)[1].split()
            except OSError:  # it has ended
                continue
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


class Line:
    """One line on a terminal (stderr), drawn over; nothing where there is none, or where the context says so."""

    def __init__(self, context: Any):
        self.out = sys.stderr if context.enable_progress_bars and sys.stderr is not None and sys.stderr.isatty() else None
        self.start = time.monotonic()
        self.drawn = self.start + EVERY_S  # what is shorter than two ticks draws nothing
        self.width = 0

    def draw(self, line: Callable[[float, int], str]) -> None:
        """line(seconds since the start, columns) is what it says from now on, if it is time for that."""
        now = time.monotonic()
        if self.out is None or now < self.drawn + EVERY_S:
            return
        self.drawn = now
        try:
            width = (os.get_terminal_size(self.out.fileno()).columns or 80) - 1
        except (OSError, ValueError, AttributeError):
            width = 1 << 30
        said = line(now - self.start, width)[:width]
        self.out.write("\r" + said.ljust(self.width))
        self.out.flush()
        self.width = len(said)

    def close(self) -> None:
        if self.width and self.out is not None:
            self.out.write("\r" + " " * self.width + "\r")
            self.out.flush()
            self.width = 0


def counted(items: Iterable[Any], what: str, total: int, context: Any) -> Iterator[Any]:
    """The items, with a line that counts them: for work of the driver before a run."""
    line, n = Line(context), 0

    def said(seconds: float, _: int) -> str:
        return f"{what}: {n:,} of {total:,} · ~{seconds / n * (total - n):,.0f} s left"

    try:
        for item in items:
            n += 1
            line.draw(said)
            yield item
    finally:
        line.close()


class Progress:
    """Stands between the caller and Exec.next; next() is the same but looks around while it waits."""

    def __init__(self, x: Any, context: Any):
        self.x = x
        self.line = Line(context)
        self.tick = 1.0 if self.line.out is None else EVERY_S
        self.quiet = QUIET_S
        self.worked: tuple[float, float] | None = None  # (seconds of quiet, CPU seconds of the workers) at the last look

    def next(self) -> Any:
        from skate.exceptions import GetTimeoutError

        while True:
            try:
                item = self.x.next(self.tick)
            except GetTimeoutError:
                self.line.draw(self.said)
                self.warn()
                continue
            self.line.draw(self.said)
            return item

    def said(self, seconds: float, width: int) -> str:
        return text(self.x.stats(), seconds, width)

    def warn(self) -> None:
        seconds, who = self.x.quiet()
        if seconds < QUIET_S:
            self.quiet = QUIET_S
            self.worked = None
            return
        if seconds >= self.quiet:
            before, self.worked = self.worked, (seconds, cpu_s())
            if before is None or (seconds < WORKING_S and self.worked[1] - before[1] > (seconds - before[0]) / 50):
                return  # a task that computes for long without giving anything; the first look only begins the count
            self.quiet = 2 * seconds
            self.close()
            logging.getLogger("ray.data").warning(
                "Nothing has moved for %.0f s (`skate stack` shows where the tasks are): %s", seconds, who
            )

    def close(self) -> None:
        self.line.close()


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
