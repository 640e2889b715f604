"""The part of a Python engine that runs in its processes: begin() is called once, then call() or
stream() for each task."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from skate import _hooks, _job, _skate

NOTE = 0xF1  # the kind of notes: a note describes the value that follows it (SK_KIND_NOTE)


class TaskFailed(Exception):
    """A task has ended with an error value."""

    def __init__(self, kind: int, data: bytes):
        super().__init__(kind, data)
        self.kind, self.data = kind, data


def begin(job: bytes) -> None:
    """Prepares this process to run tasks. job: the bytes from the engine's configuration."""
    if _job.handed == job:
        return
    _job.hand(job)
    _hooks.install()
    _skate.guest_worker()


def stream(
    task: dict[str, Any], definition: bytes, args: list[Any], attempt: int = 0
) -> Iterator[list[tuple[int, Any]]]:
    """Runs a task; yields [(kind, buffer), ...] each time the task yields or returns. Raises
    TaskFailed. args: (kind, buffer) of each argument."""
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
    """Runs a task to its end. Returns ([(kind, bytes), ...], the error as (kind, bytes) or None,
    seconds)."""
    begin(job)
    started, out, failed = time.perf_counter(), [], None
    try:
        for values in stream(task, definition, args, attempt):
            out += [(kind, bytes(data)) for kind, data in values]
    except TaskFailed as e:
        failed = (e.kind, e.data)
    return out, failed, time.perf_counter() - started
