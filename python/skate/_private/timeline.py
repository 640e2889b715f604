"""skate.timeline(): which tasks ran where and when, for chrome://tracing and ui.perfetto.dev."""

import os
import struct
from collections import deque

from skate import _job, _skate, ids
from skate._deps import json

# The flow of blocks in the runs of this engine: (blocks made, blocks taken) of the last runs that
# have ended, and the runs that are active. See exec.h: sk_exec_flows.
past = deque(maxlen=32)
running = set()


def ended(x):
    """Saves the block flow of a run that is about to be stopped."""
    running.discard(x)
    found = x.flows()
    if found is not None and found[1]:
        past.append(found)


def _flows():
    """Returns [(block, task that made it, time in ns, task that took it)]."""
    out = []
    for found in [*past, *(x.flows() for x in list(running))]:
        if found is not None:
            made = {block: (task, ns) for block, task, ns in struct.iter_unpack("=QQq", found[0])}
            out += [
                (block, *made[block], task)
                for block, task, _ in struct.iter_unpack("=QQq", found[1])
                if block in made
            ]
    return out


def _lanes(runs):
    """Assigns each of [(start, end, ...)] to a lane, so that no two in a lane overlap (calls of an
    actor may run concurrently). Returns the lanes."""
    free, out = [], []  # free[i]: the time at which lane i becomes free
    for start, end, *_ in runs:
        lane = next((i for i, t in enumerate(free) if t <= start), len(free))
        free[lane:] = [end, *free[lane + 1 :]]
        out.append(lane)
    return out


def _event(ph, cat, name, pid, tid, ns, **more):
    """A trace event of phase `ph` at `ns` nanoseconds."""
    return {"ph": ph, "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ns / 1e3, **more}


def events():
    """A list of trace events (Chrome's JSON format): a slice for each run of a task on its worker,
    the task's time in the queue, and an arrow from the place of its submission; in pipelines, an
    arrow from the task that made a block to each task that read it. It covers the last 10,000
    attempts that have ended and those that are running. Times are microseconds of the engine's
    clock."""
    _job.ensure()
    rows, _ = _skate.state("tasks", _job.facts().get("custom", []))
    now = _skate.monotonic_ns()
    driver = os.getpid() if not _skate.in_worker() else 0
    where = {r[0]: r[7] for r in rows if r[7]}  # task -> the process that ran it
    pids, slices = {driver: []}, {}
    at = {}  # task -> (process, lane, start, end) of its last attempt
    out = []
    for r in rows:
        id, parent, actor, _, submit, start, end, pid = r[:8]
        _, attempt, state, kind, _, name, fn, error, _ = r[8:]
        name = name or (fn + ".__init__" if kind == 1 else fn)
        if not (start and pid):
            continue
        slices.setdefault(pid, []).append(
            (start, end or now, id, attempt, name, state, submit, parent, actor, error)
        )
    for pid, runs in slices.items():
        runs.sort()
        for lane, (start, end, id, attempt, name, state, submit, parent, actor, error) in zip(
            _lanes(runs), runs
        ):
            args = {"task_id": ids.TaskID._of(id).hex(), "attempt": attempt}
            if actor:
                args["actor_id"] = ids.ActorID._of(actor).hex()
            if error is not None:
                args["error"] = error[1] or "exception"
            tid, flow = pid + lane, f"{id}.{attempt}"
            source = where.get(parent, driver)
            if id not in at or at[id][2] <= start:
                at[id] = pid, tid, start, end
            pids.setdefault(pid, []).append(tid)
            out += [
                _event("X", "task", name, pid, tid, start, dur=(end - start) / 1e3, args=args),
                _event("f", "flow", "submit", pid, tid, start, bp="e", id=flow),
            ]
            if state == 5:
                out[-2]["cname"] = "terrible"
            if attempt:
                continue  # a retry has no arrow, since the task was submitted once
            out += [
                _event("X", "submit", f"submit {name}", source, source, submit, dur=1, args=args),
                _event("s", "flow", "submit", source, source, submit, id=flow),
                _event("b", "queue", name, source, source, submit, id=flow),
                _event("e", "queue", name, source, source, start, id=flow),
            ]
    for block, maker, ns, taker in _flows():
        if maker in at and taker in at:
            for ph, (pid, tid, start, end), when in (("s", at[maker], ns), ("f", at[taker], 0)):
                ts = max(start, min(when, end - 1))  # a time within the slice
                arrow = _event(ph, "block", "block", pid, tid, ts, id=f"{block}.{taker}")
                out.append({**arrow, "bp": "e"} if ph == "f" else arrow)
    for pid, tids in pids.items():
        title = "driver" if pid == driver else f"worker {pid}"
        out.append(
            {"ph": "M", "name": "process_name", "pid": pid, "tid": pid, "args": {"name": title}}
        )
        out += [
            {
                "ph": "M",
                "name": "thread_name",
                "pid": pid,
                "tid": t,
                "args": {"name": f"calls {t - pid}"},
            }
            for t in sorted(set(tids))
        ]
    return out


def timeline(filename=None):
    """The trace events as a list, or in a JSON file that chrome://tracing and ui.perfetto.dev open.
    OSError if the file cannot be written.

    It covers the last 10,000 attempts of tasks that have ended, and those that are running: a slice
    on the worker, the time in the queue, an arrow from the submission, and for Datasets an arrow
    (category "block") from the task that made a block to each task that read it.

    Args:
        filename: The file to write; None: the events are returned.
    """
    found = events()
    if filename is None:
        return found
    with open(filename, "w") as f:
        json.dump(found, f)
