"""When is a run stalled, and not only busy? The policy (Quiet) is pure: it is given what was seen,
and simulated in tests/py/unit/test_data_stall.py. sample() looks at the processes, through /proc.

Nothing has moved for some seconds means: no task has ended or given a block, and no block was
taken. That is usual for tasks that take long. So who is at a task, and whatever
these have started, is looked at twice: what has used a CPU, has waited for one (others have it: the
machine is loaded), has read or written, waits for a disk, or is a process that begins, is at work.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from skate import _skate

QUIET_S = 3.0  # the first look; the second, LOOK_S later, is the first that can say something
LOOK_S = 1.0  # from a look to the next: it reads two files of each thread that is at work
WORKING_S = 60.0  # what works without giving anything is told of after so long
SHARE = 1 / 50  # of the time, on a CPU or in line for one, that is work
# of the time, in line for a CPU, after which this process may be the one that is late
DRIVER = 1 / 4
USUAL = 3.0  # times what the longest task took until now


@dataclass
class Sample:
    """What the workers have done so far, sums over processes. Those that have ended are missing: a
    sum that falls is movement, too."""

    worked_s: float = 0.0  # on a CPU, or waiting for one
    io_bytes: int = 0
    begins: bool = False  # a process starts, or waits for a disk
    late_s: float = 0.0  # that this process has waited for a CPU


class Quiet:
    """Says when to tell a user that nothing moves."""

    def __init__(self) -> None:
        self.last: tuple[float, Sample] | None = None
        self.idle_from = 0.0  # seconds of quiet at which somebody was last seen at work
        self.told = 0.0  # when it was told last, in seconds of quiet

    def wants(self, quiet_s: float) -> bool:
        """Whether look() is to be called: nothing has moved for long enough, and the last look is
        not of just now."""
        if quiet_s < QUIET_S or (self.last is not None and quiet_s < self.last[0]):
            self.__init__()  # type: ignore[misc]
        return quiet_s >= (QUIET_S if self.last is None else self.last[0] + LOOK_S)

    def look(self, quiet_s: float, now: Sample, longest_s: float = 0.0) -> bool:
        """Whether it is to be told now. longest_s: what the longest task of the operators that run
        took."""
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
    """What the workers that are at a task, or begin, have done, and what these have started."""
    s = Sample()
    s.late_s = _schedule(os.getpid())[1]
    todo = []
    if _skate.engine() == "guest":  # its processes may be anywhere: they are believed to work
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
    except OSError:  # it has ended, or is somebody else's
        return ""


def _schedule(pid: int) -> tuple[float, float, bool]:
    """(seconds on a CPU, seconds in line for one, whether a thread waits for a disk) of all threads
    of a process."""
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
    if not ran:  # a kernel without it
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
    """What the longest task of the operators that run now took."""
    return (
        max(
            (o.get("task_ns_max", 0) for o in stats.get("ops") or [] if o.get("tasks_running")),
            default=0,
        )
        / 1e9
    )
