"""Draws one progress line on a terminal (stderr) or below a notebook cell, at most five times a
second; without either of them, or on a terminal that cannot erase a line (TERM=dumb), it draws
nothing.

rich draws the line on a terminal, without colours where NO_COLOR is set, and in ASCII where the
locale has no other letters. It is imported when a line is first drawn, 0.4 s after the work began, so short
work does not import it. What the program prints while there is a line appears above the line, and
so do prints of tasks, which this process writes (prints.py): sys.stdout and sys.stderr erase the
line before each write, and the next tick draws it again. There is at most one line, that of the
work that began first, and none while a worker's debugger has the terminal (debugger.py).
"""

from __future__ import annotations

import io
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from skate import _skate
from skate._deps import (
    html,
    ipython_display,
    locale,
    rich_console,
    rich_progress_bar,
    rich_table,
    rich_text,
)
from skate.terminal.words import clock, short

EVERY_S = 0.2
ERASE = "\r\x1b[K"
BAR = 16  # columns of the bar; a narrow terminal has half of them
NAME = 8  # columns that the name of the work has at least


@dataclass
class Look:
    """The content of a progress line: the name of the work, the share of the work that is done
    (None: unknown), and notes, of which the first is shown even on a narrow terminal. bar: whether
    there is a bar."""

    what: str
    share: float | None
    notes: list[str] = field(default_factory=list)
    bar: bool = True


class Above:
    """Replaces sys.stdout or sys.stderr while there may be a progress line: a write erases the line
    first. All other attributes are those of the stream."""

    def __init__(self, stream: Any, erase: Callable[[], Any], lock: Any):
        self._stream, self._erase, self._lock = stream, erase, lock
        # whether the last text ended with a newline, so that a progress line may be drawn
        self.ended = True

    def write(self, text: str) -> int:
        """Writes text, erasing the progress line first."""
        with self._lock:  # no other thread may draw the line during the write
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
    except (ValueError, AttributeError):  # the stream is closed, or an object of the program's own
        return False


def _redirect(old: Any, new: Any) -> None:
    """Makes log handlers that write to the stream `old` write to `new`."""
    for name in (None, "ray", "ray.data", "skate"):
        for h in logging.getLogger(name).handlers:
            if isinstance(h, logging.StreamHandler) and h.stream is old:
                h.stream = new


def debugged() -> bool:
    """Whether a worker's debugger has the terminal now."""
    held = _skate.terminal(True, False)
    if not held:
        _skate.terminal(False, False)
    return bool(held)


class _Ascii(io.StringIO):
    """Tells rich to draw in ASCII."""

    encoding = "ascii"  # type: ignore[assignment]


def _only_ascii(out: Any) -> bool:
    """Whether a stream, or the locale of its terminal, has no other letters than ASCII. Python
    writes UTF-8 in the locale C, whatever the terminal shows."""
    codes = (getattr(out, "encoding", None) or "utf-8", locale.getencoding())
    return not all(c.lower().replace("-", "").startswith("utf") for c in codes)


class _Terminal:
    """Draws the progress line on a terminal."""

    def __init__(self, out: Any):
        self.out, self.drawn, self.lock = out, False, threading.RLock()
        self.mine: dict[str, Above] = {}
        self.console: Any = None
        self.ascii = False

    def columns(self) -> int:
        try:
            return (os.get_terminal_size(self.out.fileno()).columns or 80) - 1
        except (OSError, ValueError, AttributeError):
            return 119

    def draw(self, look: Look) -> None:
        with self.lock:
            # a worker's debugger has the terminal, as in debugged()
            if _skate.terminal(True, False):
                self.drawn = False
                return
            try:
                self._draw(look)
            finally:
                _skate.terminal(False, False)

    def _draw(self, look: Look) -> None:
        if self.console is None:
            self.ascii = _only_ascii(self.out)
            self.console = rich_console.Console(
                file=_Ascii() if self.ascii else self.out, force_terminal=True, highlight=False
            )
            for name in ("stdout", "stderr"):
                stream = getattr(sys, name)
                if stream is self.out or _is_terminal(stream):
                    self.mine[name] = Above(stream, self.erase, self.lock)
                    setattr(sys, name, self.mine[name])
                    _redirect(stream, self.mine[name])
        if not all(a.ended for a in self.mine.values()):
            return  # the program has written an unfinished line
        self.console.width = self.columns()
        with self.console.capture() as said:
            self.console.print(rendered(look, self.console.width, self.ascii), end="")
        code = "ascii" if self.ascii else getattr(self.out, "encoding", None) or "utf-8"
        self.out.write(ERASE + said.get().rstrip("\n").encode(code, "replace").decode(code))
        self.out.flush()
        self.drawn = True

    def erase(self) -> None:
        with self.lock:
            if self.drawn and not _skate.terminal(True, False):
                self.out.write(ERASE)
                self.out.flush()
                _skate.terminal(False, False)
            self.drawn = False

    def close(self) -> None:
        self.erase()
        for name, stream in self.mine.items():
            _redirect(stream, stream._stream)
            # the program has not replaced the stream in the meantime
            if getattr(sys, name) is stream:
                setattr(sys, name, stream._stream)
        self.mine, self.console = {}, None


class _Cell:
    """Draws the progress line below a notebook cell. The last line stays."""

    def __init__(self) -> None:
        self.handle: Any = None

    def draw(self, look: Look) -> None:
        said = {"text/html": as_html(look), "text/plain": as_text(look)}
        if self.handle is None:
            self.handle = ipython_display.display(said, raw=True, display_id=True)
        else:
            self.handle.update(said, raw=True)

    def close(self) -> None:
        self.handle = None


def as_text(look: Look) -> str:
    """A line as plain text, for notebooks that show no HTML."""
    return f"{short(look.what, 60)}: {' · '.join(look.notes)}"


def as_html(look: Look) -> str:
    """A line as HTML that needs no style sheet and no script. The colours are those of the page,
    light or dark."""
    percent = 100 * (look.share or 0.0)
    bar = (
        '<span role="progressbar" aria-valuemin="0" aria-valuemax="100" '
        f'aria-valuenow="{int(percent)}" '
        'style="display:inline-block;flex:none;width:10em;height:.6em;border-radius:.3em;'
        'background:color-mix(in srgb,currentColor 20%,transparent)">'
        f'<span style="display:block;width:{percent:.1f}%;height:100%;border-radius:.3em;'
        'background:#2f9e68"></span></span>'
    )
    return (
        '<div style="display:flex;gap:.8em;align-items:center;font-size:90%">'
        f"<b>{html.escape(short(look.what, 60))}</b>{bar if look.bar else ''}"
        f"<span>{html.escape(' · '.join(look.notes))}</span></div>"
    )


def _place() -> _Terminal | _Cell | None:
    """What this process draws progress lines on; None: nothing."""
    if _is_terminal(sys.stderr):
        return _Terminal(sys.stderr)
    shell = sys.modules.get("IPython")
    if shell is not None and getattr(shell.get_ipython(), "kernel", None) is not None:
        return _Cell()
    return None


def rendered(look: Look, width: int, ascii_only: bool = False) -> Any:
    """A line as rich draws it, in at most `width` columns: the last notes are left out if the line
    is short, and the text is cut to the columns that the bar and the notes leave."""
    notes, dot = list(look.notes), " | " if ascii_only else " · "
    while len(notes) > 1 and len(dot.join(notes)) + BAR // 2 + NAME + 2 > width:
        notes.pop()
    said = dot.join(notes)
    columns = 0 if not look.bar else BAR if width - len(said) - BAR >= 30 else BAR // 2
    room = max(width - columns - len(said) - 2, 1)
    name = look.what.replace(" · ", dot)
    cut = name[: max(room - 3, 0)] + "..." if ascii_only else name[: room - 1] + "…"
    what = name if len(name) <= room else cut[:room]
    cells: list[Any] = [rich_text.Text(what, style="bold"), rich_text.Text(said)]
    if look.bar:
        cells.insert(
            1,
            rich_progress_bar.ProgressBar(
                total=None if look.share is None else 1.0,
                completed=look.share or 0.0,
                width=columns,
                pulse=look.share is None,
            ),
        )
    grid = rich_table.Table.grid(padding=(0, 1, 0, 0))
    for n in (len(what), columns, len(said)) if look.bar else (len(what), len(said)):
        grid.add_column(no_wrap=True, overflow="crop", width=n)
    grid.add_row(*cells)
    return grid


class Line:
    """One progress line, drawn again and again; draws nothing if there is no place for it, or if
    the context forbids it."""

    shown: Line | None = None  # the Line that may draw now

    def __init__(self, context: Any):
        self.place = _place() if context.enable_progress_bars and (Line.shown is None) else None
        self.start = time.monotonic()
        self.drawn = self.start + EVERY_S  # work shorter than two ticks draws no line

    def draw(self, look: Callable[[float], Look], last: bool = False) -> None:
        """Draws look(seconds since the start), if the next drawing is due."""
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
        """Ends the line. look: makes the last line, which stays in a notebook; on a terminal the
        line is erased."""
        if Line.shown is not self or self.place is None:
            return
        if look is not None and isinstance(self.place, _Cell):
            self.draw(look, last=True)
        self.place.close()
        Line.shown = None


def counted(items: Iterable[Any], what: str, total: int, context: Any) -> Iterable[Any]:
    """Passes items on, with a progress line that counts them, for work that the driver does before
    a run."""
    line = Line(context)
    return items if line.place is None else _counted(items, line, what, total)


def _counted(items: Iterable[Any], line: Line, what: str, total: int) -> Iterator[Any]:
    n, over = 0, False

    def look(seconds: float) -> Look:
        left = [] if over else [f"{clock(seconds / n * (total - n))} left"]
        return Look(
            what,
            n / total if total else 1.0,
            [f"{n:,}/{total:,} inputs", *left],
            bar=not over or n == total,
        )

    try:
        for item in items:
            n += 1
            line.draw(look)
            yield item
    finally:
        over = True
        line.close(look)
