"""What a user sees while a run goes on: a line (skate/_terminal.py; DataContext.enable_progress_bars = False: none), and a warning in the log when nothing moves for
some seconds, which says who waits for what (stall.py).
"""

from __future__ import annotations

import logging
from typing import Any

from skate._terminal import EVERY_S, Line, Look
from skate._words import clock, nbytes
from skate.data.run import stall
from skate.exceptions import GetTimeoutError


class Progress:
    """Stands between the caller and Exec.next; next() is the same but looks around while it waits. node: the root of the plan, for the sizes of inputs."""

    def __init__(self, x: Any, context: Any, node: Any = None):
        self.x, self.node = x, node
        self.sizes: dict[str, list[tuple[int, int]]] | None = None
        self.verbose = bool(context.execution_options.verbose_progress)
        self.line = Line(context)
        self.tick = 1.0 if self.line.place is None else EVERY_S
        self.quiet = stall.Quiet()

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
        """What the line says now."""
        if self.sizes is None:
            self.sizes = sizes(self.node)
        return looked(self.x.stats(), seconds, self.sizes, self.verbose)

    def warn(self) -> None:
        seconds, who = self.x.quiet()
        if not self.quiet.wants(seconds) or not self.quiet.look(seconds, stall.sample(), stall.longest_s(self.x.stats())):
            return
        self.close()
        logging.getLogger("ray.data").warning("Nothing has moved for %.0f s (`skate stack` shows where the tasks are): %s", seconds, who)

    def close(self) -> None:
        self.line.close(self.look)


def sizes(node: Any) -> dict[str, list[tuple[int, int]]]:
    """(rows, bytes) of the inputs of each source of a plan, by its label; -1 rows: unknown."""
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


def looked(stats: dict[str, Any], elapsed: float, inputs: dict[str, list[tuple[int, int]]], verbose: bool = False) -> Look:
    """A run as a line: "Read->Map ━━━━ 120/400 inputs · 1,234 rows/s · 5.6 MiB · 0:00:05 left · limited by MapBatches(Model)". Rows and bytes are those of
    the inputs that are done; bytes as their files or ranges say. verbose: what goes on has the tasks of each operator."""
    ops = stats.get("ops") or []
    done = total = rows = size = 0
    for i, o in enumerate(ops):
        n = o.get("total_units", -1)
        if n is not None and n >= 0:
            mine = o.get("tasks_done", 0)
            fused = o.get("fused") or ()
            rows += fused[0]["rows_out"] if fused else o.get("rows_out", 0)
            known = inputs.get(o["label"].split("->")[0], ())
            size += sum(b for _, b in known[:mine]) if len(known) == n else 0
        elif o.get("kind") == "blocks":  # all of them are there; what takes them tells how far it is
            n = o.get("blocks_out", 0)
            mine = min(n, ops[i + 1].get("tasks_done", 0)) if i + 1 < len(ops) else n
            share = mine / n if n else 0
            rows, size = rows + round(o.get("rows_out", 0) * share), size + round(o.get("bytes_out", 0) * share)
        else:
            continue
        done, total = done + mine, total + n
    notes = [f"{rows / elapsed:,.0f} rows/s"] if elapsed > 0 else []
    notes += [nbytes(size)] if size else []
    left = seconds_left(ops, elapsed) if ops and elapsed > 0 else None
    notes += [f"{clock(left)} left"] if left is not None else []
    i = stats.get("bottleneck")
    shown = [o for o in ops if o.get("kind") != "blocks"] or ops
    limit = ops[i]["label"] if isinstance(i, int) and 0 <= i < len(ops) else "the consumer"
    notes += [f"limited by {limit}"] if shown and limit != shown[-1]["label"] or len(shown) > 1 else []
    what = " · ".join(f"{o['label']} {_tasks(o)}" if verbose else o["label"] for o in shown)
    return Look(what, done, total if ops else -1, notes)


def _tasks(o: dict[str, Any]) -> str:
    total = o.get("total_units", -1)
    return f"{o.get('tasks_done', 0)}/{total}" if total is not None and total >= 0 else str(o.get("tasks_done", 0))


def seconds_left(ops: list[dict[str, Any]], elapsed: float) -> float | None:
    """A guess from what was done so far: of the sources' tasks while they run, then of the operator that has most to do beside what it did; None: nothing is known."""
    total, done = ops[0].get("total_units", -1), ops[0].get("tasks_done", 0)
    if total and total > 0 and done < total:
        return elapsed / done * (total - done) if done else None
    left = [elapsed * (o.get("tasks_queued", 0) + o.get("tasks_running", 0)) / o["tasks_done"] for o in ops if o.get("tasks_done")]
    return max(left) if left and max(left) > 0 else None
