"""What a user sees while a run goes on: one line on a terminal (stderr), or below a cell of a notebook, drawn at most five times a second, and nothing
anywhere else (DataContext.enable_progress_bars = False: off); and a warning in the log when nothing moves for some seconds, which says who waits for what.

The line is drawn by rich, which is imported when a line is first drawn: 0.4 s after a run began, so that short runs never pay for it. What the program prints meanwhile
comes above it: whoever writes to the terminal erases the line first, this process and the workers (above()), and the next tick draws it below what was
written. So no process has to know of the lines of another one; and there is one line at most, that of the run that began first.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from skate.data import quiet

EVERY_S = 0.2
ERASE = "\r\x1b[K"
BAR = 16  # columns of the bar; half of it where there is little room


@dataclass
class Look:
    """What a line says: what goes on, how much of it is done (total: -1 where that is unknown), and numbers."""

    what: str
    done: int
    total: int
    notes: list[str] = field(default_factory=list)


class Above:
    """sys.stdout or sys.stderr while there may be a line on the terminal: what is written erases the line first. All else is the stream's."""

    def __init__(self, stream: Any, erase: Callable[[], Any]):
        self._stream, self._erase = stream, erase
        self.ended = True  # what was written last ends a line: a new one may be drawn

    def write(self, text: str) -> int:
        """Writes text where the line was."""
        if text:
            if self.ended:
                self._erase()
            self.ended = text.endswith("\n")
        return self._stream.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Writes several texts."""
        for text in lines:
            self.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._stream)


def _is_terminal(stream: Any) -> bool:
    try:
        return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"
    except (ValueError, AttributeError):  # closed, or something of the program's own
        return False


def _redirect(old: Any, new: Any) -> None:
    """Handlers of the log that write to one stream write to another."""
    for name in (None, "ray", "ray.data", "skate"):
        for h in logging.getLogger(name).handlers:
            if isinstance(h, logging.StreamHandler) and h.stream is old:
                h.stream = new


def above() -> None:
    """In a worker: what functions print goes above the line that the driver may have on the same terminal."""
    if not _is_terminal(sys.stderr):
        return
    from skate.data.context import DataContext

    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if _is_terminal(stream) and not isinstance(stream, Above):

            def erase(stream: Any = stream) -> None:
                if DataContext.get_current().enable_progress_bars:
                    stream.write(ERASE)

            setattr(sys, name, Above(stream, erase))
            _redirect(stream, getattr(sys, name))


class _Terminal:
    """Where a line is drawn on a terminal."""

    def __init__(self, out: Any):
        self.out, self.drawn = out, False
        self.mine: dict[str, Above] = {}
        self.console: Any = None

    def columns(self) -> int:
        try:
            return (os.get_terminal_size(self.out.fileno()).columns or 80) - 1
        except (OSError, ValueError, AttributeError):
            return 119

    def draw(self, look: Look) -> None:
        if self.console is None:
            from rich.console import Console

            self.console = Console(file=self.out, force_terminal=True, highlight=False)
            for name in ("stdout", "stderr"):
                stream = getattr(sys, name)
                if stream is self.out or _is_terminal(stream):
                    self.mine[name] = Above(stream, self.erase)
                    setattr(sys, name, self.mine[name])
                    _redirect(stream, self.mine[name])
        if not all(a.ended for a in self.mine.values()):
            return  # somebody is in the middle of a line
        self.console.width = self.columns()
        with self.console.capture() as said:
            self.console.print(rendered(look, self.console.width), end="")
        code = getattr(self.out, "encoding", None) or "utf-8"
        self.out.write(ERASE + said.get().rstrip("\n").encode(code, "replace").decode(code))
        self.out.flush()
        self.drawn = True

    def erase(self) -> None:
        if self.drawn:
            self.drawn = False
            self.out.write(ERASE)
            self.out.flush()

    def close(self) -> None:
        self.erase()
        for name, stream in self.mine.items():
            _redirect(stream, stream._stream)
            if getattr(sys, name) is stream:  # nobody has put something else there meanwhile
                setattr(sys, name, stream._stream)
        self.mine, self.console = {}, None


class _Cell:
    """Where a line is drawn below a cell of a notebook. The last one stays."""

    def __init__(self) -> None:
        self.handle: Any = None

    def draw(self, look: Look) -> None:
        import io

        from IPython.display import display
        from rich.console import Console

        console = Console(file=io.StringIO(), record=True, width=110, force_jupyter=False, highlight=False)
        console.print(rendered(look, 110), end="")
        form = "<pre style='white-space:pre;line-height:normal;margin:0'>{code}</pre>"
        said = {
            "text/html": console.export_html(inline_styles=True, code_format=form, clear=False),
            "text/plain": console.export_text().rstrip("\n"),
        }
        if self.handle is None:
            self.handle = display(said, raw=True, display_id=True)
        else:
            self.handle.update(said, raw=True)

    def close(self) -> None:
        self.handle = None


def _place() -> _Terminal | _Cell | None:
    """Where lines are drawn in this process; None: nowhere."""
    if _is_terminal(sys.stderr):
        return _Terminal(sys.stderr)
    shell = sys.modules.get("IPython")
    if shell is not None and getattr(shell.get_ipython(), "kernel", None) is not None:
        return _Cell()
    return None


def rendered(look: Look, width: int) -> Any:
    """A line as rich draws it, in `width` columns at most: what goes on is cut to what the bar and the numbers leave."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    notes = [f"{look.done:,}/{look.total:,} inputs" if look.total >= 0 else f"{look.done:,} inputs", *look.notes]
    while len(notes) > 1 and len(" · ".join(notes)) + BAR // 2 + 14 > width:
        notes.pop()
    said = " · ".join(notes)
    columns = BAR if width - len(said) - BAR >= 30 else BAR // 2
    room = max(width - columns - len(said) - 2, 1)
    what = look.what if len(look.what) <= room else look.what[: room - 1] + "…"
    grid = Table.grid(padding=(0, 1, 0, 0))
    for n in (len(what), columns, len(said)):
        grid.add_column(no_wrap=True, overflow="crop", width=n)
    bar = ProgressBar(total=max(look.total, 1) if look.total >= 0 else None, completed=look.done, width=columns, pulse=look.total < 0)
    grid.add_row(Text(what, style="bold"), bar, Text(said))
    return grid


class Line:
    """One line that is drawn over; none where there is no place for it, or where the context says so."""

    shown: Line | None = None  # the one that may draw

    def __init__(self, context: Any):
        self.place = _place() if context.enable_progress_bars and (Line.shown is None) else None
        self.start = time.monotonic()
        self.drawn = self.start + EVERY_S  # what is shorter than two ticks draws nothing

    def draw(self, look: Callable[[float], Look], last: bool = False) -> None:
        """look(seconds since the start) is what it says from now on, if it is time for that."""
        now = time.monotonic()
        if self.place is None or (now < self.drawn + EVERY_S and not last):
            return
        if Line.shown is None:
            Line.shown = self
        elif Line.shown is not self:
            return
        self.drawn = now
        self.place.draw(look(now - self.start))

    def close(self, look: Callable[[float], Look] | None = None) -> None:
        """The end of what it is about. look: what is left to be read in a notebook; from a terminal it goes."""
        if Line.shown is not self or self.place is None:
            return
        if look is not None and isinstance(self.place, _Cell):
            self.draw(look, last=True)
        self.place.close()
        Line.shown = None


def counted(items: Iterable[Any], what: str, total: int, context: Any) -> Iterator[Any]:
    """The items, with a line that counts them: for work of the driver before a run."""
    line, n = Line(context), 0

    def look(seconds: float) -> Look:
        return Look(what, n, total, [f"{clock(seconds / n * (total - n))} left"])

    try:
        for item in items:
            n += 1
            line.draw(look)
            yield item
    finally:
        line.close()


class Progress:
    """Stands between the caller and Exec.next; next() is the same but looks around while it waits. node: the root of the plan, for the sizes of inputs."""

    def __init__(self, x: Any, context: Any, node: Any = None):
        self.x, self.node = x, node
        self.sizes: dict[str, list[tuple[int, int]]] | None = None
        self.verbose = bool(context.execution_options.verbose_progress)
        self.line = Line(context)
        self.tick = 1.0 if self.line.place is None else EVERY_S
        self.quiet = quiet.Quiet()

    def next(self) -> Any:
        from skate.exceptions import GetTimeoutError

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
        if not self.quiet.wants(seconds) or not self.quiet.look(seconds, quiet.sample(), quiet.longest_s(self.x.stats())):
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
            if n.op == "read":
                out[n.label] = [(rows, size) for _, rows, size in n.options["units"]]
    return out


def looked(stats: dict[str, Any], elapsed: float, inputs: dict[str, list[tuple[int, int]]], verbose: bool = False) -> Look:
    """A run as a line: "Read->Map ━━━━ 120/400 inputs · 1,234 rows/s · 5.6 MiB · 0:00:05 left · limited by MapBatches(Model)". Rows and bytes are those of
    the inputs that are done; bytes as their files or ranges say. verbose: what goes on has the tasks of each operator."""
    from skate.data.stats import nbytes

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


def clock(seconds: float) -> str:
    """0:00:05"""
    m, s = divmod(int(seconds + 0.5), 60)
    return f"{m // 60}:{m % 60:02}:{s:02}"


def seconds_left(ops: list[dict[str, Any]], elapsed: float) -> float | None:
    """A guess from what was done so far: of the sources' tasks while they run, then of the operator that has most to do beside what it did; None: nothing is known."""
    total, done = ops[0].get("total_units", -1), ops[0].get("tasks_done", 0)
    if total and total > 0 and done < total:
        return elapsed / done * (total - done) if done else None
    left = [elapsed * (o.get("tasks_queued", 0) + o.get("tasks_running", 0)) / o["tasks_done"] for o in ops if o.get("tasks_done")]
    return max(left) if left and max(left) > 0 else None
