"""Snapshots for all who look at the page: the newest one, what of it a browser has not got yet, and
how often there is one. A snapshot is taken only while somebody looks."""

from __future__ import annotations

import time
from typing import Any

from skate import _forked
from skate.page.source import Source

EVERY_S = 0.5  # seconds between two snapshots
MOST_S = 10.0
SHARE = 1 / 200  # the most CPU time that all streams of a page take, of one CPU


def pause(cost_s: float, streams: int) -> float:
    """Seconds that a stream waits after a snapshot that took cost_s seconds of CPU, so that all
    streams together take SHARE of a CPU at most."""
    return min(max(EVERY_S, cost_s * streams / SHARE), MOST_S)


class Feed:
    """The newest snapshot of a source. Threads share it: they may call it at once."""

    def __init__(self, source: Source):
        self._source = source
        self._lock = _forked.lock()
        self._taken = float("-inf")
        self._last: dict[str, Any] | None = None
        self.over = False  # whether no newer snapshot will come

    def latest(self, age_s: float = EVERY_S / 2) -> dict[str, Any]:
        """A snapshot that is at most age_s seconds old; the last one if the engine has ended.
        LookupError: there never was one."""
        with self._lock:
            now = time.monotonic()
            if self._last is None or (not self.over and now - self._taken > age_s):
                try:
                    self._last = self._source.snapshot()
                except LookupError:
                    if self._last is None:
                        raise
                    ended = self._last["ended"] or "closed"
                    self._last = {**self._last, "live": False, "ended": ended}
                self._taken = now
                self.over = not self._last["live"]
            return self._last


class Changes:
    """What a stream has sent, and what of a snapshot is new to its browser: all of it, but the runs
    that are over and were sent, and of a run's samples those at the end."""

    def __init__(self) -> None:
        self._sent: dict[
            Any, tuple[str, list[float]]
        ] = {}  # run -> (its state, its samples' times)

    def since(self, snapshot: dict[str, Any]) -> dict[str, Any]:
        """The snapshot without what was sent before. "ids" are those of all runs; "first" of
        samples is the place of the first one that is there."""
        runs, sent = [], {}
        for run in snapshot["runs"]:
            state, times = self._sent.get(run["id"], ("", []))
            samples = run["samples"]
            sent[run["id"]] = run["state"], samples["t"]
            if state == run["state"] != "running":
                continue
            # when there are too many, every other sample goes, and all are sent again
            first = len(times) if samples["t"][: len(times)] == times else 0
            tail = {
                name: [x[first:] for x in values] if name == "queued" else values[first:]
                for name, values in samples.items()
            }
            runs.append({**run, "samples": {**tail, "first": first}})
        self._sent = sent
        return {**snapshot, "runs": runs, "ids": list(sent)}
