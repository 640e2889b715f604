"""skate.timeline(), and `skate timeline PID|FILE`: which tasks ran where and when, the flow of
blocks between them, and how much memory was used, for ui.perfetto.dev and chrome://tracing."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

from skate import _job, _skate, ids
from skate._deps import json
from skate._private import view

_FAILED = 5  # enum sk_task_state
_INIT = 1  # enum sk_task_kind
_PID_BITS = 22  # pids of Linux are smaller

Event = dict[str, Any]


class Task(NamedTuple):
    """An attempt of a task; times in ns of the engine's clock. end 0: it runs. node: the number of
    its node; 0: the engine has one machine."""

    id: int
    parent: int
    actor: int
    submit: int
    start: int
    end: int
    name: str
    pid: int
    attempt: int
    failed: bool
    error: str
    node: int = 0


def events() -> list[Event]:
    """A list of trace events (Chrome's JSON format) of this process's engine: a slice for each run
    of a task on its worker, the task's time in the queue, an arrow from the place of its
    submission; in pipelines, an arrow from the task that made a block to each task that read it;
    and counters of the memory in use. It covers the last 10,000 attempts that have ended and those
    that are running. Times are microseconds of the engine's clock."""
    _job.ensure()
    tasks, _ = told()
    driver = os.getpid() if not _skate.in_worker() else 0
    try:
        file = view.path(os.getpid())[1]
    except LookupError:  # an engine without a view has no flows and no counters
        return _trace(tasks, driver, _skate.monotonic_ns())
    whole, (_, flows) = _skate.view_read(file), _skate.view_tasks(file)
    trace = _trace(tasks, driver, _skate.monotonic_ns(), flows, _names(whole))
    return [*trace, *_counters(whole, driver)]


def told() -> tuple[list[Task], bool]:
    """(the attempts that have begun, as the engine of this process lists them; whether all nodes
    have told theirs)."""
    rows, _, n_silent, _ = _skate.state("tasks", _job.facts().get("custom", []))
    return [_of_row(r) for r in rows if r[5] and r[7]], not n_silent


def ended(file: str) -> tuple[list[Task], list[tuple[int, int, int]]]:
    """(the attempts that have ended, flow of blocks) of a view or a record. Of a cluster: of the
    tasks that the driver has submitted."""
    rows, flows = _skate.view_tasks(file)
    tasks = [Task(*r[:7], r[7], r[8], bool(r[11]), "", r[12]) for r in rows if r[4] and r[7]]
    return tasks, flows


def events_of(where: int | str | os.PathLike[str]) -> list[Event]:
    """The same events of another engine, or of a record: the last 16,384 attempts that have ended,
    and those that are running. Of a cluster: of the tasks that the driver has submitted.

    Args:
        where: The pid of any process of an engine, or the path of a record file.

    Raises:
        LookupError, PermissionError, ValueError: See skate._private.view.snapshot().
    """
    seen = view.snapshot(where)
    file = view.path(where)[1] if isinstance(where, int) else os.fspath(where)
    whole, (tasks, flows) = _skate.view_read(file), ended(file)
    now = max([whole["started_ns"] + round(seen["seconds"] * 1e9), *(t.end for t in tasks)])
    for w in seen["workers"]:
        if w["seconds"] is not None:
            start = now - round(w["seconds"] * 1e9)
            tasks.append(Task(0, 0, 0, 0, start, 0, w["task"], w["pid"], 1, False, "", w["node"]))
    trace = _trace(tasks, seen["pid"], now, flows, _names(whole))
    return [*trace, *_counters(whole, seen["pid"])]


def _names(whole: dict[str, Any]) -> dict[int, str]:
    return {n["number"]: n["name"] for n in whole["nodes"]}


def write(where: int | str | os.PathLike[str], out: str | os.PathLike[str] | io.TextIOBase) -> int:
    """Writes events_of(where) as JSON to a file, or to a path. Returns the number of runs of tasks
    in it. OSError if the file cannot be written."""
    found = events_of(where)
    _save(found, out)
    return sum(e["ph"] == "X" and e["cat"] == "task" for e in found)


def timeline(filename: str | None = None) -> list[Event] | None:
    """The trace events as a list, or in a JSON file that ui.perfetto.dev and chrome://tracing open.
    OSError if the file cannot be written.

    It covers the last 10,000 attempts of tasks that have ended, and those that are running: a slice
    on the worker, the time in the queue, an arrow from the submission, and for Datasets an arrow
    (category "block") from the task that made a block to each task that read it. Counters show the
    memory of the object store and of Datasets, what is on disk, and how many tasks run and wait.

    Args:
        filename: The file to write; None: the events are returned.
    """
    found = events()
    if filename is None:
        return found
    _save(found, filename)
    return None


def _save(found: list[Event], out: str | os.PathLike[str] | io.TextIOBase) -> None:
    if isinstance(out, io.TextIOBase):
        json.dump(found, out)
        return
    with open(out, "w") as f:
        json.dump(found, f)


def _of_row(r: tuple[Any, ...]) -> Task:
    """A task as the engine lists it (src/py/call/listing.c)."""
    id, parent, actor, _, submit, start, end, pid = r[:8]
    _, attempt, state, kind, _, name, fn, error = r[8:16]
    name = name or (fn + ".__init__" if kind == _INIT else fn)
    what = "" if error is None else error[1] or "exception"
    failed = state == _FAILED
    return Task(id, parent, actor, submit, start, end, name, pid, attempt, failed, what, r[-1])


def _event(ph: str, cat: str, name: str, pid: int, tid: int, ns: float, **more: Any) -> Event:
    """A trace event of phase `ph` at `ns` nanoseconds."""
    return {"ph": ph, "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ns / 1e3, **more}


def _lanes(runs: Iterable[Task], now: int) -> list[int]:
    """Assigns each task to a lane, so that no two in a lane overlap (calls of an actor may run
    concurrently). Returns the lanes."""
    free: list[int] = []  # free[i]: the time at which lane i becomes free
    out: list[int] = []
    for t in runs:
        lane = next((i for i, at in enumerate(free) if at <= t.start), len(free))
        free[lane:] = [t.end or now, *free[lane + 1 :]]
        out.append(lane)
    return out


def _apart(tasks: list[Task], driver: int) -> tuple[list[Task], dict[int, int]]:
    """(the tasks, of which no two machines have the same pid; the node of each pid)."""
    node_of = {driver: 0}
    out: list[Task] = []
    for t in tasks:
        if node_of.setdefault(t.pid, t.node) != t.node:
            t = t._replace(pid=t.pid + (t.node << _PID_BITS))
            node_of[t.pid] = t.node
        out.append(t)
    return out, node_of


def _trace(
    tasks: list[Task],
    driver: int,
    now: int,
    flows: list[tuple[int, int, int]] | None = None,
    names: dict[int, str] | None = None,
) -> list[Event]:
    """Slices, arrows and names of processes.

    Args:
        tasks: The attempts to show.
        driver: The driver's pid.
        now: Where slices of tasks that run end.
        flows: (block, task, ns) of blocks that tasks have made (ns: when) or taken (0).
        names: The names of the nodes by their numbers.
    """
    out: list[Event] = []
    tasks, node_of = _apart(tasks, driver)
    where = {t.id: t.pid for t in tasks if t.id}
    lanes: dict[int, list[int]] = {driver: []}
    at: dict[int, tuple[int, int, int, int]] = {}  # task -> place of its last attempt
    by_pid: dict[int, list[Task]] = {}
    for t in tasks:
        by_pid.setdefault(t.pid, []).append(t)
    for pid, runs in by_pid.items():
        runs.sort(key=lambda t: t.start)
        for lane, t in zip(_lanes(runs, now), runs, strict=True):
            end = max(t.end or now, t.start)
            if t.id not in at or at[t.id][2] <= t.start:
                at[t.id] = pid, pid + lane, t.start, end
            lanes.setdefault(pid, []).append(pid + lane)
            out += _slice(t, end, pid + lane, where.get(t.parent, driver))
    out += _arrows(at, flows or [])
    for pid, tids in lanes.items():
        node = node_of[pid]
        title = "driver" if pid == driver else f"worker {pid % (1 << _PID_BITS)}"
        if node:
            title += f" on {(names or {}).get(node, f'node {node}')}"
        out.append(_name("process_name", pid, pid, title))
        out += [_name("thread_name", pid, t, f"calls {t - pid}") for t in sorted(set(tids))]
    return out


def _slice(t: Task, end: int, tid: int, source: int) -> list[Event]:
    """The slice of an attempt, and for the first attempt an arrow from its submission."""
    args: dict[str, Any] = {"attempt": t.attempt}
    if t.id:
        args["task_id"] = ids.TaskID._of(t.id).hex()
    if t.actor:
        args["actor_id"] = ids.ActorID._of(t.actor).hex()
    if t.error:
        args["error"] = t.error
    run = _event("X", "task", t.name, t.pid, tid, t.start, dur=(end - t.start) / 1e3, args=args)
    if t.failed:
        run["cname"] = "terrible"
    flow = f"{t.id}.{t.attempt}"
    if t.attempt:
        return [run]  # a retry has no arrow, since the task was submitted once
    return [
        run,
        _event("f", "flow", "submit", t.pid, tid, t.start, bp="e", id=flow),
        _event("X", "submit", f"submit {t.name}", source, source, t.submit, dur=1, args=args),
        _event("s", "flow", "submit", source, source, t.submit, id=flow),
        _event("b", "queue", t.name, source, source, t.submit, id=flow),
        _event("e", "queue", t.name, source, source, t.start, id=flow),
    ]


def _arrows(
    at: dict[int, tuple[int, int, int, int]], flows: list[tuple[int, int, int]]
) -> list[Event]:
    """An arrow from the task that made a block to each task that took it."""
    out: list[Event] = []
    made = {block: (task, ns) for block, task, ns in flows if ns}
    for block, taker, ns in flows:
        maker, came = made.get(block, (0, 0))
        if ns or maker not in at or taker not in at:
            continue
        for ph, (pid, tid, start, end), when in (("s", at[maker], came), ("f", at[taker], 0)):
            ts = max(start, min(when, end - 1))  # a time within the slice
            arrow = _event(ph, "block", "block", pid, tid, ts, id=f"{block}.{taker}")
            out.append({**arrow, "bp": "e"} if ph == "f" else arrow)
    return out


def _name(what: str, pid: int, tid: int, name: str) -> Event:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def _counters(seen: dict[str, Any], pid: int) -> list[Event]:
    """Counters over time: of the store, of tasks, and of the memory of each run."""
    out: list[Event] = []
    begin, all_of_it = seen["started_ns"], seen["samples"]

    def count(name: str, ts: Iterable[float], start: float, **columns: list[int]) -> None:
        for i, t in enumerate(ts):
            ns = begin + (start + t) * 1e9
            args = {k: v[i] for k, v in columns.items()}
            out.append(_event("C", "memory", name, pid, pid, ns, args=args))

    t = all_of_it["t"]
    count("object store (bytes)", t, 0, used=all_of_it["store"], on_disk=all_of_it["spilled"])
    count("tasks", t, 0, running=all_of_it["running"], queued=all_of_it["queued"])
    for run in seen["runs"]:
        s = run["samples"]
        name = f"blocks of run {run['id']} (bytes)"
        count(name, s["t"], run["started"], in_memory=s["memory"], on_disk=s["disk"])
    return out
