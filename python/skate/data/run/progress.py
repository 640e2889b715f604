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
    """Wraps Exec.next: its method next() also draws the progress line while it waits. node: the
    last node of the plan, for the sizes of inputs."""

    def __init__(self, x: Any, context: Any, node: Any = None):
        self.x, self.node = x, node
        self.sizes: dict[str, list[tuple[int, int]]] | None = None
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
        if self.sizes is None:
            self.sizes = sizes(self.node)
        return looked(self.x.stats(), seconds, self.sizes, self.verbose, self.ended)

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


def sizes(node: Any) -> dict[str, list[tuple[int, int]]]:
    """(rows, bytes) of each input of each source of a plan, by the source's label; rows of -1:
    unknown."""
    out: dict[str, list[tuple[int, int]]] = {}
    todo, seen = [node] if node is not None else [], set()
    while todo:
        n = todo.pop()
        if id(n) not in seen:
            seen.add(id(n))
            todo += n.inputs
            if "units" in n.options:
                out[n.label] = [(rows, size) for _, rows, size in n.parts]
    return out


def looked(
    stats: dict[str, Any],
    elapsed: float,
    inputs: dict[str, list[tuple[int, int]]],
    verbose: bool = False,
    ended: str | None = None,
) -> Look:
    """The content of the progress line of a run: "Read->Map ━━━━ 30% · 120/400 inputs read · 1,234
    rows/s · 5.6 MiB · 0:00:05 left · limited by MapBatches(Model)". The percentage is the share of
    the work that is done (share()); rows and bytes are those of the inputs read so far, where bytes
    are the sizes of files or byte ranges. verbose: also shows the tasks of each operator. ended:
    how the run ended, for the last line; a run that has finished all work has a full bar, any other
    has none."""
    ops = stats.get("ops") or []
    over = bool(stats.get("done")) or ended == "done"
    done = total = rows = size = 0
    for i, o in enumerate(ops):
        n = o.get("total_units", -1)
        if n is not None and n >= 0:
            mine = o.get("tasks_done", 0)
            fused = o.get("fused") or ()
            rows += fused[0]["rows_out"] if fused else o.get("rows_out", 0)
            known = inputs.get(o["label"].split("->")[0], ())
            size += sum(b for _, b in known[:mine]) if len(known) == n else 0
        # The source is blocks that exist already: the tasks of their consumer show the progress.
        elif o.get("kind") == "blocks":
            n = o.get("blocks_out", 0)
            mine = min(n, ops[i + 1].get("tasks_done", 0)) if i + 1 < len(ops) else n
            part = mine / n if n else 0
            rows, size = (
                rows + round(o.get("rows_out", 0) * part),
                size + round(o.get("bytes_out", 0) * part),
            )
        else:
            continue
        done, total = done + mine, total + n
    part = 1.0 if over else share(ops, elapsed)
    left = None if ended or not part else elapsed * (1 - part) / part
    shown = [o for o in ops if o.get("kind") != "blocks"] or ops
    what = " · ".join(f"{o['label']} {_tasks(o)}" if verbose else o["label"] for o in shown)
    notes = [
        ("done" if over else ended)
        if ended
        else "working"
        if part is None
        else f"{int(part * 100)}%"
    ]
    notes += [f"{done:,}/{total:,} inputs read"] if ops else []
    notes += [f"{ops[-1].get('rows_out', 0):,} rows", clock(elapsed)] if ended and ops else []
    notes += [f"{rows / elapsed:,.0f} rows/s"] if elapsed > 0 and not ended else []
    notes += [nbytes(size)] if size else []
    notes += [f"{clock(left)} left"] if left is not None else []
    i = stats.get("bottleneck")
    limit = ops[i]["label"] if isinstance(i, int) and 0 <= i < len(ops) else "the consumer"
    notes += (
        [f"limited by {limit}"]
        if not ended and (shown and limit != shown[-1]["label"] or len(shown) > 1)
        else []
    )
    return Look(what, part, notes, bar=over or not ended)


def _tasks(o: dict[str, Any]) -> str:
    total = o.get("total_units", -1)
    return (
        f"{o.get('tasks_done', 0)}/{total}"
        if total is not None and total >= 0
        else str(o.get("tasks_done", 0))
    )


def share(ops: list[dict[str, Any]], elapsed: float) -> float | None:
    """The share of a run's work that is done, below 1; None: not known yet.

    The share of an operator is the number of its finished tasks, divided by the number of all its
    tasks; that number is estimated from the known tasks and the share of the operator in front. The
    weight of an operator is the time that all of its tasks will take, by the mean of the finished
    tasks. If no task is finished, the weight is the number of tasks times the elapsed time, which
    the first task may have taken. An operator without tasks so far, such as a reduce, has the mean
    weight of the others.
    """
    parts: list[float] = []
    weights: list[float | None] = []
    sources: list[float] = []
    before = 1.0  # the share of the operator in front of this one
    for o in ops:
        done, total = o.get("tasks_done", 0), o.get("total_units", -1)
        came = done + o.get("tasks_queued", 0) + o.get("tasks_running", 0)
        if total is not None and total >= 0:
            before = done / total if total else 1.0
            sources.append(before)
            expected = float(total)
        elif o.get("kind") in ("blocks", "limit", "union") or o.get("merges") and not came:
            # limits and unions have no tasks; merges exist only if the strategy asks for them
            continue
        else:
            before = min([before, *sources]) * (done / came if came else 0.0)
            expected = done / before if before else float(came)
        took = o.get("task_ns_total", 0) / 1e9 / done if done else 0.0
        weights.append(
            expected * took if done and took else expected * elapsed if came and not done else None
        )
        parts.append(before)
    if not any(parts):
        return 0.0 if parts else None
    known = [w for w in weights if w]
    other = sum(known) / len(known) if known else 1.0
    all_of_them = [other if w is None else w for w in weights]
    return min(
        sum(p * w for p, w in zip(parts, all_of_them, strict=True)) / (sum(all_of_them) or 1.0),
        0.99,
    )
