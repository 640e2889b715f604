"""Progress bars of many processes, drawn by the driver: tasks use tqdm_ray.tqdm like tqdm.tqdm.

A bar in the driver calls the manager directly. The first bar in a worker makes a service actor, the
*board*; the engine tells the driver that the board exists, and the driver starts a thread that
fetches the states of bars from it.
"""

import os
import sys
import threading
import time
import uuid

from skate import _forked, _job, _service_actors, _skate
from skate._deps import asyncio
from skate.terminal import progress_line

__all__ = [
    "BarManager",
    "instance",
    "safe_print",
    "tqdm",
]

NAME, SPACE = "bars", _job.SERVED + __name__


class tqdm:
    """tqdm(iterable=None, desc=None, total=None): update(n), set_description(), close(). position:
    the number of the bar's line among those of this process; flush_interval_s: the least seconds
    between two drawings."""

    def __init__(
        self,
        iterable=None,
        desc=None,
        total=None,
        unit=None,
        position=None,
        flush_interval_s=1.0,
        **ignored,
    ):
        if total is None and iterable is not None and hasattr(iterable, "__len__"):
            total = len(iterable)
        self._iterable, self._interval = iterable, flush_interval_s
        self._state = {
            "bar": uuid.uuid4().hex,
            "desc": desc or "",
            "total": total,
            "unit": unit or "it",
            "pos": position or 0,
            "n": 0,
            "pid": os.getpid(),
            "closed": False,
        }
        self._shown = 0.0
        self._show(True)

    def set_description(self, desc):
        self._state["desc"] = desc
        self._show()

    def update(self, n=1):
        self._state["n"] += n
        self._show()

    def refresh(self):
        self._show(True)

    def close(self):
        self._state["closed"] = True
        self._show(True)

    @property
    def n(self):
        return self._state["n"]

    @n.setter
    def n(self, n):
        self._state["n"] = n

    @property
    def total(self):
        return self._state["total"]

    @total.setter
    def total(self, total):
        self._state["total"] = total

    def _show(self, now=False):
        t = time.monotonic()
        if now or t - self._shown >= self._interval:
            self._shown = 0.0 if now and self._state["n"] == 0 else t
            if _skate.in_worker():
                _board().put.remote(dict(self._state))
            else:
                instance().process_state_update(dict(self._state))

    def __iter__(self):
        if self._iterable is None:
            raise ValueError("No iterable provided")
        for x in self._iterable:
            yield x
            self.update(1)
        self._show(True)


# ---- The path of a bar's state from a worker to the driver.


class _Board:
    """The service actor: holds for each bar the newest state that the driver has not fetched."""

    def __init__(self):
        self.news, self.there = {}, asyncio.Event()

    async def put(self, state):
        self.news[state["bar"]] = state
        self.there.set()

    async def work(self):
        await self.there.wait()
        self.there.clear()
        news, self.news = self.news, {}
        return list(news.values())


_boards = {}  # in a worker: session -> handle of its board


def _board():
    session = _job.session()
    if session not in _boards:
        _boards[session] = _service_actors.get_or_create(_Board, NAME, SPACE)
    return _boards[session]


def serve():
    """In the driver: starts to draw the bars of a board. The engine's thread calls it when a worker
    has made the board."""
    _service_actors.work(
        NAME, SPACE, lambda _, state: instance().process_state_update(state), "skate-bars"
    )


# ---- Drawing the bars in the driver.


class _Drawn:
    """The state of a bar as it was drawn: n, total, desc."""

    def __init__(self, state):
        self.n, self.total, self.desc = state["n"], state["total"], state["desc"]


class _Bar:
    def __init__(self, state):
        self.state, self.bar = state, _Drawn(state)

    def update(self, state):
        self.state = state
        self.bar.n, self.bar.total, self.bar.desc = state["n"], state["total"], state["desc"]


class _Group:
    """The bars of one process."""

    def __init__(self):
        self.bars_by_uuid = {}


class BarManager:
    """Has all bars, and draws them on stderr if stderr is a terminal."""

    def __init__(self):
        self.bar_groups = {}
        self.in_hidden_state = False
        self.num_hides = 0
        self.lock = _forked.lock(threading.RLock)
        self._lines = 0

    def process_state_update(self, state):
        """Processes the new state of a bar."""
        with self.lock:
            group = self.bar_groups.setdefault(state["pid"], _Group())
            bar = group.bars_by_uuid.get(state["bar"])
            if state["closed"]:
                group.bars_by_uuid.pop(state["bar"], None)
                if not group.bars_by_uuid:
                    del self.bar_groups[state["pid"]]
            elif bar is None:
                group.bars_by_uuid[state["bar"]] = _Bar(state)
            else:
                bar.update(state)
            if not self.in_hidden_state:
                self._draw()

    def _draw(self):
        if not sys.stderr.isatty() or progress_line.debugged():
            return
        out = [f"\x1b[{self._lines}A\x1b[J"] if self._lines else []
        self._lines = 0
        for group in self.bar_groups.values():
            for b in sorted(group.bars_by_uuid.values(), key=lambda b: b.state["pos"]):
                s = b.state
                full = (
                    f"{100 * s['n'] // s['total']:3d}% {s['n']}/{s['total']}"
                    if s["total"]
                    else str(s["n"])
                )
                out.append(f"{s['desc']}: {full} {s['unit']}\n")
                self._lines += 1
        sys.stderr.write("".join(out))
        sys.stderr.flush()

    def hide_bars(self):
        """Erases the bars from the screen while something else is printed."""
        with self.lock:
            if not self.in_hidden_state:
                self.in_hidden_state = True
                self.num_hides += 1
                if self._lines and sys.stderr.isatty():
                    sys.stderr.write(f"\x1b[{self._lines}A\x1b[J")
                self._lines = 0

    def unhide_bars(self):
        with self.lock:
            if self.in_hidden_state:
                self.in_hidden_state = False
                self._draw()


_manager = None


def instance():
    """The driver's manager of bars."""
    global _manager
    if _manager is None:
        _manager = BarManager()
    return _manager


def safe_print(*args, **kwargs):
    """print() that does not break the bars on the screen."""
    m = instance()
    m.hide_bars()
    try:
        print(*args, **kwargs)
    finally:
        m.unhide_bars()
