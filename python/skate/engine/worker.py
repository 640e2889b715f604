"""What a process of a Python engine does: begin() once, then call() or stream() for each task."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from skate import _hooks, _job, _skate

NOTE = 0xF1  # kind of the values that say what the value behind them is (SK_KIND_NOTE)


class TaskFailed(Exception):
    """The error value that a task has ended with."""

    def __init__(self, kind: int, data: bytes):
        super().__init__(kind, data)
        self.kind, self.data = kind, data


def begin(job: bytes) -> None:
    """Makes this process one that runs tasks. job: what the engine was given in its
    configuration."""
    if _job.handed == job:
        return
    _job.hand(job)
    _hooks.install()
    _skate.guest_worker()


def stream(
    task: dict[str, Any], definition: bytes, args: list[Any], attempt: int = 0
) -> Iterator[list[tuple[int, Any]]]:
    """Runs a task; gives out [(kind, buffer), ...] as it yields or returns. TaskFailed. args:
    (kind, buffer) of each."""
    t = _skate.GuestTask(
        task["fn"],
        task["name"],
        definition,
        args,
        task=task["task"],
        actor=task["actor"],
        n_returns=task["n_returns"],
        is_init=task["is_init"],
        attempt=attempt,
    )
    yield from t
    if t.failed:
        raise TaskFailed(*t.failed)


def call(
    job: bytes, task: dict[str, Any], definition: bytes, args: list[Any], attempt: int
) -> tuple[list[Any], Any, float]:
    """Runs a task to its end: ([(kind, bytes), ...], the error as (kind, bytes) or None,
    seconds)."""
    begin(job)
    started, out, failed = time.perf_counter(), [], None
    try:
        for values in stream(task, definition, args, attempt):
            out += [(kind, bytes(data)) for kind, data in values]
    except TaskFailed as e:
        failed = (e.kind, e.data)
    return out, failed, time.perf_counter() - started
