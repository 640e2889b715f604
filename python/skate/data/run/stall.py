"""Tells a stalled run from a busy one. The policy (Quiet) is pure: it decides from samples, and
tests/py/unit/test_data_stall.py simulates it. sample() reads the counters of the processes from
/proc.

A run is *quiet* if for some seconds no task has ended or given a block, and no block was taken.
That is usual while tasks take long. So the workers that run a task, and the processes that they
started, are checked twice. A worker counts as at work if between the checks it has used a CPU or
waited for one (the machine is loaded), has read or written, waits for a disk, or is starting.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from skate import _job, _skate

# seconds of quiet before the first check; the second check, LOOK_S later, is the first that can
# warn
QUIET_S = 3.0
LOOK_S = 1.0  # seconds between two checks: a check reads two files for each thread at work
WORKING_S = 60.0  # seconds of quiet after which a run is reported even if workers are at work
SHARE = 1 / 50  # the least share of time, on a CPU or waiting for one, that counts as work
# if this process has waited for a CPU for at least this share of the time, it may itself be the
# cause of the delay
DRIVER = 1 / 4
USUAL = 3.0  # the quiet must last this many times as long as the longest task so far


@dataclass
class Sample:
    """Counters of the workers so far, summed over processes. Processes that have ended are not in
    the sums, so a sum that falls also shows movement."""

    worked_s: float = 0.0  # seconds on a CPU, or waiting for one
    io_bytes: int = 0
    begins: bool = False  # whether a process is starting, or waits for a disk
    late_s: float = 0.0  # seconds that this process has waited for a CPU


class Quiet:
    """Decides when to warn the user that nothing moves."""

    def __init__(self) -> None:
        self.last: tuple[float, Sample] | None = None
        # seconds of quiet at the last check that found a worker at work
        self.idle_from = 0.0
        self.told = 0.0  # seconds of quiet at the last warning

    def wants(self, quiet_s: float) -> bool:
        """Whether it is time for another check, look(): the quiet has lasted long enough, and the
        last check was LOOK_S ago or more."""
        if quiet_s < QUIET_S or (self.last is not None and quiet_s < self.last[0]):
            self.__init__()  # type: ignore[misc]
        return quiet_s >= (QUIET_S if self.last is None else self.last[0] + LOOK_S)

    def look(self, quiet_s: float, now: Sample, longest_s: float = 0.0) -> bool:
        """Decides from the sample `now` whether to warn. longest_s: the seconds of the longest task
        of the running operators."""
        before, self.last = self.last, (quiet_s, now)
        if before is None:
            return False
        past, dt = before[1], max(quiet_s - before[0], 1e-3)
        worked = now.worked_s - past.worked_s
        if (
            worked > dt * SHARE
            or worked < 0
            or now.io_bytes != past.io_bytes
            or now.begins
            or now.late_s - past.late_s > dt * DRIVER
        ):
            self.idle_from = quiet_s
        idle = quiet_s - self.idle_from >= QUIET_S
        if not (idle or quiet_s >= WORKING_S) or quiet_s < max(USUAL * longest_s, 2 * self.told):
            return False
        self.told = quiet_s
        return True


def sample() -> Sample:
    """Reads the counters of the workers that are starting or run a task, and of the processes that
    they started."""
    s = Sample()
    s.late_s = _schedule(os.getpid())[1]
    todo = []
    # the processes of a guest engine may be on other machines, so they always count as at work
    if _job.on_nodes():
        s.begins = True
        return s
    for pid, _, state, _ in _skate.workers():
        if state == "starting":
            s.begins = True
        elif state == "busy":
            todo.append(pid)
    seen = set()
    while todo:
        pid = todo.pop()
        if pid in seen:
            continue
        seen.add(pid)
        ran, waited, disk = _schedule(pid)
        s.worked_s += ran + waited
        s.begins |= disk
        s.io_bytes += _io_bytes(pid)
        todo += _children(pid)
    return s


def _read(path: str) -> str:
    try:
        with open(path) as f:
            return f.read()
    except OSError:  # the process has ended, or belongs to another user
        return ""


def _schedule(pid: int) -> tuple[float, float, bool]:
    """(seconds on a CPU, seconds spent waiting for one, whether a thread waits for a disk), summed
    over all threads of a process."""
    ran = waited = 0
    disk = False
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return 0.0, 0.0, False
    for t in threads:
        numbers = _read(f"/proc/{pid}/task/{t}/schedstat").split()
        if len(numbers) >= 2:
            ran, waited = ran + int(numbers[0]), waited + int(numbers[1])
        disk |= _read(f"/proc/{pid}/task/{t}/stat").rpartition(") ")[2][:1] == "D"
    if not ran:  # a kernel without schedstat: use the CPU time of the process
        fields = _read(f"/proc/{pid}/stat").rpartition(") ")[2].split()
        ran = (
            int((int(fields[11]) + int(fields[12])) * 1e9 / os.sysconf("SC_CLK_TCK"))
            if len(fields) > 12
            else 0
        )
    return ran / 1e9, waited / 1e9, disk


def _io_bytes(pid: int) -> int:
    fields = dict(
        line.split(": ") for line in _read(f"/proc/{pid}/io").splitlines() if ": " in line
    )
    return int(fields.get("rchar", 0)) + int(fields.get("wchar", 0))


def _children(pid: int) -> list[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    return [int(c) for t in threads for c in _read(f"/proc/{pid}/task/{t}/children").split()]


def longest_s(stats: dict[str, Any]) -> float:
    """The seconds of the longest task so far of the operators that have running tasks."""
    return (
        max(
            (o.get("task_ns_max", 0) for o in stats.get("ops") or [] if o.get("tasks_running")),
            default=0,
        )
        / 1e9
    )
