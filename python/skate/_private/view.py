"""Snapshots of engines: what `skate top`, the live page, metrics and timelines show.

A snapshot is a dict of plain values that C copies from the *view* of an engine (src/engine/view.h),
a segment in shared memory of fixed size, or from a *record*, a file with the bytes of a view. No
lock of the engine is taken, and reading cannot disturb it. Times are seconds; None means unknown:

    {"version": 1, "pid": pid of the driver, "program": its command line, "started": unix time,
     "seconds": since the start of the engine, "live": bool,
     "ended": None | "closed" | "killed", "cpus": float, "gpus": float, "waits": what the driver
     waits for,
     "store": {"used", "capacity", "spilled_now", "spilled_total", "restored_total", "objects"},
     "tasks": {"done", "failed", "running", "queued"},
     "workers": [{"pid", "task": "" if idle, "seconds": None if idle,    # none in a record
                  "node": its number, 0 on one machine}],
     "nodes": [{"number", "name", "state": "alive" | "draining" | "gone", "cpus", "cpus_free",
                "gpus", "gpus_free", "store": as above, "tasks": as above,
                "workers": how many}],                                  # [] on one machine
     "errors": [{"seconds", "text", "operator", "replay"}],              # the last 16
     "runs": [the last 16, newest last:
        {"id", "started", "seconds", "state": "running" | "done" | "failed" | "stopped",
         "share": 0..1 | None, "left": seconds | None,
         "memory": {"now", "peak", "limit", "disk"},
         "bottleneck": index of an operator | None (the consumer), "bottleneck_why",
         "bad_rows", "errored_blocks", "ops_left_out": operators beyond the first 32,
         "ops": [{"label", "kind", "inputs": [indexes], "running", "queued", "done",
                  "total": None if unknown, "retries", "rows_in", "rows_out", "bytes_in",
                  "bytes_out", "blocks_out", "queued_blocks", "queued_bytes",
                  "peak_queued_bytes", "busy": seconds of workers, "wait_input", "wait_memory",
                  "wait_resource", "wait_consumer", "actors",
                  "fused": [{"label", "rows_out", "seconds"}],
                  "exchange": None | {"strategy", "partitions", "packs", "pack_bytes",
                                      "disk_bytes", "taken_bytes", "phase"}}],
         "samples": {"t", "memory", "disk", "rows_out", "rows_in", "queued": [one list an
                     operator]}}],     # at most 256 values in each list
     "samples": {"t", "store", "spilled", "running", "queued", "done"}}  # of the engine; the same
"""

from __future__ import annotations

import os
import stat
from typing import Any

from skate import _skate
from skate._private import stack
from skate.exceptions import RaySystemError

_MAGIC = b"1SKTVIEW"
_SEGMENT = "/memfd:skate-view"
_ENDED = (None, "closed", "killed")


def snapshot(where: int | str | os.PathLike[str]) -> dict[str, Any]:
    """The present state of an engine, or the last state in a record.

    Args:
        where: The pid of any process of an engine, or the path of a record file.

    Raises:
        LookupError: The process does not run skate, or the file is not a record.
        PermissionError: The engine or the file belongs to another user.
        ValueError: A newer skate has made the record, or the record is damaged.
    """
    return _engine(where) if isinstance(where, int) else _record(os.fspath(where))


def own() -> dict[str, Any]:
    """A snapshot of the engine that this process uses. LookupError: none is open, or the engine
    runs in one process (SKATE_ENGINE=inline) or elsewhere, and has no view."""
    if not _skate.is_initialized():
        raise LookupError("no engine is open in this process; skate.init() opens one")
    return _engine(os.getpid())


def path(pid: int) -> tuple[int, str]:
    """(the driver's pid, the path of the view) of the engine that a process belongs to. Raises the
    errors of snapshot()."""
    (driver, _, _), file = _found(pid)
    return driver, file


def _found(pid: int) -> tuple[tuple[int, str, list[Any]], str]:
    """(the engine that a process belongs to, as stack.engines() has it; the path of its view)."""
    try:
        owner = os.stat(f"/proc/{pid}").st_uid
    except FileNotFoundError:
        raise LookupError(f"there is no process {pid}; `skate stack` lists engines") from None
    if owner != os.geteuid():
        raise PermissionError(f"process {pid} belongs to another user")
    for engine in stack.engines(pid):
        for file in stack.held(engine[0], _SEGMENT):
            return engine, file
    raise LookupError(
        f"process {pid} does not run skate, or its engine has no view (SKATE_ENGINE=inline); "
        "`skate stack` lists engines"
    )


def _engine(pid: int) -> dict[str, Any]:
    (_, waits, workers), file = _found(pid)
    out = _read(file)
    now = _skate.monotonic_ns()
    out["live"] = out["ended"] is None
    out["seconds"] = max(out["seconds"], (now - out.pop("started_ns")) / 1e9)
    out["waits"] = waits
    out["workers"] = [
        {"pid": p, "task": name if task else "", "seconds": ns / 1e9 if task else None, "node": 0}
        for p, task, ns, name in workers
    ] + [
        {
            "pid": p,
            "task": name,
            "seconds": max(0.0, (now - since) / 1e9) if since else None,
            "node": node,
        }
        for p, since, name, node in out.pop("node_workers")
    ]
    return out


def _record(file: str) -> dict[str, Any]:
    check(file)
    out = _read(file)
    del out["started_ns"], out["node_workers"]
    out["live"] = False
    out["workers"] = []
    return out


def check(file: str) -> None:
    """Raises LookupError or PermissionError if a file does not begin as a record does."""
    try:
        with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as f:
            known = stat.S_ISREG(os.fstat(f.fileno()).st_mode) and f.read(len(_MAGIC)) == _MAGIC
    except PermissionError:
        raise PermissionError(f"{file}: this user may not read it") from None
    except OSError as e:
        raise LookupError(f"{file}: {e.strerror}") from None
    if not known:
        raise LookupError(f"{file} is not a record of a skate program; SKATE_TRACE=FILE makes one")


def _read(file: str) -> dict[str, Any]:
    try:
        out = _skate.view_read(file)
    except RaySystemError as e:
        raise ValueError(str(e)) from None
    out["ended"] = _ENDED[out["ended"]] if out["ended"] < len(_ENDED) else None
    out["runs"].sort(key=lambda run: run["id"])
    out["errors"].sort(key=lambda error: error["seconds"])
    return out
