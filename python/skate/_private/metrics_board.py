"""The board: a memfd of the driver in which the workers of its engine keep the numbers of their
metrics (skate.util.metrics), so that the driver's text for Prometheus has them.

The driver makes it and hands its number to the workers with the facts about the job. A worker whose
metric counts for the first time opens it through /proc and takes a slot; from then on it alone
writes there, and nothing is sent. A slot whose process has died keeps its numbers; the next process
takes it over and counts on. So there are as many slots as workers that counted at the same time, and
a killed worker loses nothing. Processes without a slot (another machine, an engine without workers,
a child that a task has forked) count for themselves only.

A slot, in fields of 8 bytes of this machine's byte order:

    field        writer               what a crash leaves
    0 owner      worker, under lockf  the number of a dead process: the slot is free
    1 born       worker, under lockf  as above; when that process started, since numbers come again
    2 used       owner, last          the fields of records that are complete
    3.. records  owner                a record behind `used` is not there

A record has the number of bytes of its name, the number of its values, its name (JSON: kind, name,
description, names of tags, ends of buckets, tags of this series) and the values: of a counter one,
of a gauge its value and the time when it was set, of a histogram its buckets and its sum. A counter
or histogram that is read while it is written may lack the last value in one of its fields.
"""

from __future__ import annotations

import os
import time

from skate import _forked, _job, _skate
from skate._deps import json, mmap

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

SLOT_BYTES = 1 << 18  # about 1,000 series; pages that nobody has written to take no memory
SLOTS = 1024
NAME = "skate-metrics"
_HEAD = 3

_fd = -1  # in the driver
_file = (0, 0)  # what _fd is a descriptor of, as long as the program has not closed it
_slot: _Slot | None = None  # in a worker
_asked = False
_lock = _forked.lock()


def create() -> tuple[int, int]:
    """In the driver: makes the board. Returns where its workers find it."""
    global _fd, _file
    close()
    _fd = os.memfd_create(NAME)
    _file = _identity(_fd)
    os.ftruncate(_fd, SLOT_BYTES * SLOTS)
    return os.getpid(), _fd


def close() -> None:
    """In the driver: ends the board, if there is one."""
    global _fd
    if _is_there():
        os.close(_fd)
    _fd = -1


def _is_there() -> bool:
    """True if there is a board. False, too, if the program has closed its descriptor (closerange, a
    daemon): what has the number now is the program's own."""
    return _fd >= 0 and _identity(_fd) == _file


def _identity(fd: int) -> tuple[int, int]:
    try:
        stat = os.fstat(fd)
    except OSError:  # it is closed
        return -1, -1
    return stat.st_dev, stat.st_ino


def read() -> Iterator[tuple[list[Any], list[Any]]]:
    """In the driver: (what the name of a record says, its values) of each record."""
    if not _is_there():
        return
    with mmap.mmap(_fd, SLOT_BYTES * SLOTS, prot=mmap.PROT_READ) as whole:
        for at in range(0, len(whole), SLOT_BYTES):
            with memoryview(whole)[at : at + SLOT_BYTES] as slot, slot.cast("q") as fields:
                if not fields[0]:
                    return  # slots are taken in this order
                for name, values in _records(slot, fields):
                    with slot[8 * values.start : 8 * values.stop].cast("d") as numbers:
                        try:
                            said = json.loads(name)
                        except ValueError:  # on arm64, `used` may be seen before the record
                            break
                        yield said, numbers.tolist()


def _records(slot: memoryview, fields: memoryview) -> Iterator[tuple[bytes, range]]:
    """(name, the fields of the values) of each record of a slot."""
    at, end = _HEAD, max(fields[2], _HEAD)
    while at < end:
        size, n = fields[at], fields[at + 1]
        first = at + 2 + -(-size // 8)
        if size <= 0 or n <= 0 or first + n > end:  # not seen yet, as in read()
            return
        yield bytes(slot[8 * (at + 2) : 8 * (at + 2) + size]), range(first, first + n)
        at = first + n


def mine() -> _Slot | None:
    """The slot of this worker; None if it has none."""
    global _slot, _asked
    if not _asked and _skate.in_worker():
        with _lock:
            if not _asked:
                where = _job.facts().get("metrics")
                _slot = _taken(*where) if where else None
                _asked = True
    return _slot


def _in_child() -> None:
    """The child of a task's process must not write to the slot of its parent. (Workers are forks,
    too, of a process that has none.)"""
    global _slot
    _slot = None


os.register_at_fork(after_in_child=_in_child)


def _taken(pid: int, fd: int) -> _Slot | None:
    path = f"/proc/{pid}/fd/{fd}"
    try:
        if not os.readlink(path).startswith(f"/memfd:{NAME}"):
            return None
        board = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:  # the driver runs on another machine, or has ended
        return None
    try:
        os.lockf(board, os.F_LOCK, 0)  # until close(); waits for processes that take a slot only
        for at in range(0, SLOT_BYTES * SLOTS, SLOT_BYTES):
            slot = memoryview(mmap.mmap(board, SLOT_BYTES, offset=at))
            fields = slot.cast("q")
            if not fields[0] or _born(fields[0]) != fields[1]:
                fields[0], fields[1] = os.getpid(), _born(os.getpid())
                return _Slot(slot, fields)
        return None
    finally:
        os.close(board)


def _born(pid: int) -> int:
    """When the process started; -1 if it has ended."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            state, *more = f.read().rpartition(")")[2].split()
    except OSError:
        return -1
    return -1 if state in "ZX" else int(more[18])


class _Slot:
    """The slot of this process, which its threads share."""

    def __init__(self, slot: memoryview, fields: memoryview):
        self._slot, self._fields, self._numbers = slot, fields, slot.cast("d")
        self._found = {name: values.start for name, values in _records(slot, fields)}
        self._at: dict[Any, int] = {}

    def _where(self, metric: Any, key: Any, n: int) -> int:
        """The field of the first value of this series; -1 if the slot is full."""
        series = metric._what, key
        at = self._at.get(series)
        if at is None:
            name = json.dumps([*metric._what, key]).encode()
            at = self._at[series] = self._record(name, n)
        return at

    def _record(self, name: bytes, n: int) -> int:
        if name in self._found:
            return self._found[name]
        at = max(self._fields[2], _HEAD)
        first = at + 2 + -(-len(name) // 8)
        if 8 * (first + n) > SLOT_BYTES:
            return -1
        self._slot[8 * (at + 2) : 8 * (at + 2) + len(name)] = name
        self._fields[at], self._fields[at + 1] = len(name), n
        self._fields[2] = first + n
        self._found[name] = first
        return first

    def add(self, metric: Any, key: Any, n: int, more: dict[int, float]) -> None:
        """Adds to values of a series of n values, by their places."""
        with _lock:
            at = self._where(metric, key, n)
            if at >= 0:
                for i, value in more.items():
                    self._numbers[at + i] += value

    def set(self, metric: Any, key: Any, value: float) -> None:
        with _lock:
            at = self._where(metric, key, 2)
            if at >= 0:
                self._numbers[at] = value
                self._numbers[at + 1] = time.monotonic()
