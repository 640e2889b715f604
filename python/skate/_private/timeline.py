"""skate.timeline(): what ran where and when, for chrome://tracing and ui.perfetto.dev."""

import os
import struct
from collections import deque

from skate import _job, _skate, ids
from skate._deps import json

# What went where in pipelines of this engine: (blocks made, blocks taken) of the last runs that ended, and the runs under way. See exec.h: sk_exec_flows.
past = deque(maxlen=32)
running = set()


def ended(x):
    """Keeps the flows of a run that is about to be stopped."""
    running.discard(x)
    found = x.flows()
    if found is not None and found[1]:
        past.append(found)


def _flows():
    """[(block, task that made it, when in ns, task that took it)]"""
    out = []
    for found in [*past, *(x.flows() for x in list(running))]:
        if found is not None:
            made = {block: (task, ns) for block, task, ns in struct.iter_unpack("=QQq", found[0])}
            out += [(block, *made[block], task) for block, task, _ in struct.iter_unpack("=QQq", found[1]) if block in made]
    return out


def _lanes(runs):
    """[(start, end, ...)] -> lane of each, so that none overlaps another in its lane (calls of an actor that run side by side)."""
    free, out = [], []  # free[i]: when lane i ends
    for start, end, *_ in runs:
        lane = next((i for i, t in enumerate(free) if t <= start), len(free))
        free[lane:] = [end, *free[lane + 1 :]]
        out.append(lane)
    return out


def events():
    """A list of trace events (Chrome's JSON format): a slice for each run of a task on its worker, its time in the queue, and an arrow from where it
    was submitted; in pipelines an arrow from the task that made a block to each that took it. Of the last 10,000 attempts that ended, and those that run. Times in microseconds of the engine's clock."""
    _job.ensure()
    rows, _ = _skate.state("tasks", _job.facts().get("custom", []))
    now = _skate.monotonic_ns()
    driver = os.getpid() if not _skate.in_worker() else 0
    where = {r[0]: r[7] for r in rows if r[7]}  # task -> its process
    pids, slices = {driver: []}, {}
    at = {}  # task -> (process, lane, start, end) of its last attempt
    out = []
    for r in rows:
        id, parent, actor, _, submit, start, end, pid, _, attempt, state, kind, _, name, fn, error, res = r
        name = name or (fn + ".__init__" if kind == 1 else fn)
        if not (start and pid):
            continue
        slices.setdefault(pid, []).append((start, end or now, id, attempt, name, state, submit, parent, actor, error))
    for pid, runs in slices.items():
        runs.sort()
        for lane, (start, end, id, attempt, name, state, submit, parent, actor, error) in zip(_lanes(runs), runs):
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
                {
                    "ph": "X",
                    "cat": "task",
                    "name": name,
                    "pid": pid,
                    "tid": tid,
                    "ts": start / 1e3,
                    "dur": (end - start) / 1e3,
                    "args": args,
                },
                {"ph": "f", "bp": "e", "cat": "flow", "name": "submit", "id": flow, "pid": pid, "tid": tid, "ts": start / 1e3},
            ]
            if state == 5:
                out[-2]["cname"] = "terrible"
            if attempt:
                continue  # submitted once
            out += [
                {
                    "ph": "X",
                    "cat": "submit",
                    "name": f"submit {name}",
                    "pid": source,
                    "tid": source,
                    "ts": submit / 1e3,
                    "dur": 1,
                    "args": args,
                },
                {"ph": "s", "cat": "flow", "name": "submit", "id": flow, "pid": source, "tid": source, "ts": submit / 1e3},
                {"ph": "b", "cat": "queue", "name": name, "id": flow, "pid": source, "tid": source, "ts": submit / 1e3},
                {"ph": "e", "cat": "queue", "name": name, "id": flow, "pid": source, "tid": source, "ts": start / 1e3},
            ]
    for block, maker, ns, taker in _flows():
        if maker in at and taker in at:
            for ph, (pid, tid, start, end), when in (("s", at[maker], ns), ("f", at[taker], 0)):
                arrow = {
                    "ph": ph,
                    "cat": "block",
                    "name": "block",
                    "id": f"{block}.{taker}",
                    "pid": pid,
                    "tid": tid,
                    "ts": max(start, min(when, end - 1)) / 1e3,  # inside the slice
                }
                out.append({**arrow, "bp": "e"} if ph == "f" else arrow)
    for pid, tids in pids.items():
        title = "driver" if pid == driver else f"worker {pid}"
        out.append({"ph": "M", "name": "process_name", "pid": pid, "tid": pid, "args": {"name": title}})
        out += [{"ph": "M", "name": "thread_name", "pid": pid, "tid": t, "args": {"name": f"calls {t - pid}"}} for t in sorted(set(tids))]
    return out


def timeline(filename=None):
    """The trace events as a list, or written to a JSON file that chrome://tracing and ui.perfetto.dev open. OSError when it cannot be written.

    The last 10,000 attempts of tasks that ended are in it, and those that run: a slice on its worker, the time in the queue, an arrow from the submission,
    and of Datasets an arrow (category "block") from the task that made a block to each task that took it.

    Args:
        filename: The file to write; None: the events are returned.
    """
    found = events()
    if filename is None:
        return found
    with open(filename, "w") as f:
        json.dump(found, f)
