"""One progress line on a terminal (stderr), rewritten at most five times a second; nothing anywhere else. DataContext.enable_progress_bars = False: off."""

from __future__ import annotations

import sys
import time
from typing import Any

EVERY_S = 0.2


class Progress:
    """Stands between the caller and Exec.next; next() is the same but draws while it waits."""

    def __init__(self, x: Any, out: Any):
        self.x, self.out = x, out
        self.start = time.monotonic()
        self.drawn = self.start + EVERY_S  # a run shorter than two ticks draws nothing
        self.width = 0

    @classmethod
    def open(cls, x: Any, context: Any) -> Progress | None:
        if not context.enable_progress_bars or sys.stderr is None or not sys.stderr.isatty():
            return None
        return cls(x, sys.stderr)

    def next(self) -> Any:
        from skate.exceptions import GetTimeoutError

        while True:
            try:
                item = self.x.next(EVERY_S)
            except GetTimeoutError:
                self.draw()
                continue
            if time.monotonic() - self.drawn >= EVERY_S:
                self.draw()
            return item

    def draw(self) -> None:
        now = time.monotonic()
        if now < self.drawn:
            return
        self.drawn = now
        line = text(self.x.stats(), now - self.start)
        try:
            import os

            line = line[: (os.get_terminal_size(self.out.fileno()).columns or 80) - 1]
        except (OSError, ValueError, AttributeError):
            pass
        self.out.write("\r" + line.ljust(self.width))
        self.out.flush()
        self.width = len(line)

    def close(self) -> None:
        if self.width:
            self.out.write("\r" + " " * self.width + "\r")
            self.out.flush()
            self.width = 0


def text(stats: dict[str, Any], elapsed: float) -> str:
    """The line: "Read->Map 120/400 · MapBatches(Model) 80 · 1,234 rows/s · limited by MapBatches(Model)"."""
    parts = []
    ops = stats.get("ops") or []
    for o in ops:
        total = o.get("total_units", -1)
        done = o.get("tasks_done", 0)
        parts.append(f"{o['label']} {done}/{total}" if total is not None and total >= 0 else f"{o['label']} {done}")
    if ops and elapsed > 0:
        parts.append(f"{ops[-1].get('rows_out', 0) / elapsed:,.0f} rows/s")
        total, done = ops[0].get("total_units", -1), ops[0].get("tasks_done", 0)
        if total and total > 0 and 0 < done < total:
            parts.append(f"~{elapsed / done * (total - done):,.0f} s left")
    i = stats.get("bottleneck")
    if ops:
        parts.append("limited by " + (ops[i]["label"] if isinstance(i, int) and 0 <= i < len(ops) else "the consumer"))
    return " · ".join(parts)
