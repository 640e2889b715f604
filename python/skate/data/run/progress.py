"""What a user sees of a run while it goes on: a progress line
(skate/terminal/progress_line.py; none if DataContext.enable_progress_bars is False), and a warning
in the log if nothing has moved for some seconds, which says which operator waits for what
(stall.py)."""

from __future__ import annotations

import logging
import sys
from typing import Any

from skate.data.run import stall
from skate.exceptions import GetTimeoutError
from skate.terminal.progress_line import EVERY_S, Line, Look, debugged
from skate.terminal.words import clock, nbytes


class Progress:
    """Wraps Exec.next: its method next() also draws the progress line while it waits."""

    def __init__(self, x: Any, context: Any):
        self.x = x
        self.verbose = bool(context.execution_options.verbose_progress)
        self.line = Line(context)
        self.tick = 1.0 if self.line.place is None else EVERY_S
        self.quiet = stall.Quiet()
        self.ended: str | None = None

    def next(self) -> Any:
        while True:
            try:
                item = self.x.next(self.tick)
            except GetTimeoutError:
                self.line.draw(self.look)
                self.warn()
                continue
            self.line.draw(self.look)
            return item

    def look(self, seconds: float) -> Look:
        """The content of the progress line at this time."""
        return looked(self.x.stats(), seconds, self.verbose, self.ended)

    def warn(self) -> None:
        if debugged():
            return  # A worker that stops at a breakpoint() is no stall.
        seconds, who = self.x.quiet()
        if not self.quiet.wants(seconds) or not self.quiet.look(
            seconds, stall.sample(), stall.longest_s(self.x.stats())
        ):
            return
        logging.getLogger("ray.data").warning(
            "Nothing has moved for %.0f s (`skate stack` shows where the tasks are): %s",
            seconds,
            who,
        )

    def close(self) -> None:
        """Draws the last line, which says how the run ended. If an exception ended the run, the
        caller has to call this while it handles the exception."""
        error = sys.exc_info()[0]
        self.ended = (
            "done"
            if error is None
            else "stopped by the consumer"
            if issubclass(error, GeneratorExit)
            else f"ended by {error.__name__}"
        )
        self.line.close(self.look)


def looked(
    stats: dict[str, Any], elapsed: float, verbose: bool = False, ended: str | None = None
) -> Look:
    """The content of the progress line of a run: "Read->Map(f) · MapBatches(Model) ━━━━ 30% · 0:00:05
    left · limited by MapBatches(Model), 80/400 · 500 rows/s in, 20 out · 1.2 GiB on disk".

    The percentage is the share of the time of the whole run that has passed, and the time left is
    what the run estimates (exec/step/share.c). "perhaps" stands before a time that is a guess: a
    stage has not begun, and nothing tells how long its tasks take. The numbers of the operator that
    limits the run are its tasks, done and expected. Rows in are those that the sources gave, rows
    out those that the last operator gave.

    Args:
        stats: The statistics of the run (_skate.Exec.stats).
        elapsed: Seconds since its start.
        verbose: Shows the tasks of each operator.
        ended: How the run ended, for the last line, which is a summary. A run that has finished all
            work has a full bar, any other has none.
    """
    ops = stats.get("ops") or []
    over = bool(stats.get("done")) or ended == "done"
    shown = [o for o in ops if o.get("kind") != "blocks"] or ops
    what = " · ".join(f"{o['label']} {_tasks(o)}" if verbose else o["label"] for o in shown)
    if ended:
        notes = _summary(stats, ops, shown, elapsed, "done" if over else ended)
        return Look(what, 1.0 if over else None, notes, bar=over)
    left = stats.get("left_ns", -1)
    part = 1.0 if over else stats["share"] if left >= 0 else None
    notes = ["working" if part is None else f"{int(part * 100)}%"]
    if part is not None and not over:
        perhaps = "perhaps " if stats.get("left_guess") else ""
        notes.append(f"{perhaps}{clock(left / 1e9)} left")
    notes += _limit(stats, ops, shown)
    if elapsed > 0 and ops:
        notes.append(
            f"{_rows_in(ops) / elapsed:,.0f} rows/s in, {_rows_out(ops) / elapsed:,.0f} out"
        )
    if stats.get("memory_disk"):
        notes.append(f"{nbytes(stats['memory_disk'])} on disk")
    return Look(what, part, notes)


def _summary(
    stats: dict[str, Any], ops: list[Any], shown: list[Any], elapsed: float, how: str
) -> list[str]:
    """The notes of the last line: how the run ended, its rows and time, what limited it, how much
    was on disk, and what failed."""
    notes = [how]
    notes += [f"{_rows_out(ops):,} rows"] if ops else []
    notes.append(clock(elapsed))
    notes += _limit(stats, ops, shown, counted=False)
    if stats.get("memory_disk_peak"):
        notes.append(f"up to {nbytes(stats['memory_disk_peak'])} on disk")
    for key, what in (("bad_rows", "bad row"), ("errored_blocks", "failed task")):
        n = stats.get(key)
        notes += [f"{n:,} {what}{'s' if n > 1 else ''}"] if n else []
    return notes


def _limit(
    stats: dict[str, Any], ops: list[Any], shown: list[Any], counted: bool = True
) -> list[str]:
    """What limits the run. counted: with its tasks, or those of the only operator."""
    i = stats.get("bottleneck")
    notes = [f"{_tasks(shown[0])} tasks"] if counted and len(shown) == 1 else []
    if i is None and stats.get("bottleneck_why") == "consumer":
        return [*notes, "limited by the consumer"]
    if i is None or len(shown) == 1:
        return notes
    return [f"limited by {ops[i]['label']}" + (f", {_tasks(ops[i])}" if counted else "")]


def _tasks(o: dict[str, Any]) -> str:
    return f"{o.get('tasks_done', 0):,}/{o.get('tasks_expected', 0):,}"


def _rows_in(ops: list[dict[str, Any]]) -> int:
    """Rows that the sources gave, before what is fused behind them."""
    n = 0
    for i, o in enumerate(ops):
        fused = o.get("fused") or ()
        if o.get("kind") == "blocks":  # they exist already: their consumer shows the progress
            taker = ops[i + 1] if i + 1 < len(ops) else {}
            done, all_of_them = taker.get("tasks_done", 0), taker.get("tasks_expected", 0)
            n += int(o.get("rows_out", 0) * min(1.0, done / all_of_them if all_of_them else 1.0))
        elif o.get("total_units", -1) >= 0:
            n += fused[0]["rows_out"] if len(fused) > 1 else o.get("rows_out", 0)
    return n


def _rows_out(ops: list[dict[str, Any]]) -> int:
    return int(ops[-1].get("rows_out", 0))
