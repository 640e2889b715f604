"""list_*, get_*, summarize_*: the engine's records (src/engine/local/driver/tasks/state.c) with
Ray's fields, filtered and cut to the requested length."""

from __future__ import annotations

import os
import signal as signals
import sys
import time
import warnings

from skate import _job, _labels, _skate, api, ids
from skate.util.placement_group import placement_group_table
from skate.util.state import common
from skate.util.state.common import (
    DEFAULT_LIMIT,
    DEFAULT_RPC_TIMEOUT,
    RAY_MAX_LIMIT_FROM_API_SERVER,
)
from skate.util.state.exception import RayStateApiException, ServerUnavailable

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from typing import Any

_TASK_STATE = (
    "PENDING_ARGS_AVAIL",
    "PENDING_NODE_ASSIGNMENT",
    "SUBMITTED_TO_WORKER",
    "RUNNING",
    "FINISHED",
    "FAILED",
)
_TASK_TYPE = ("NORMAL_TASK", "ACTOR_CREATION_TASK", "ACTOR_TASK")
_ACTOR_STATE = ("DEPENDENCIES_UNREADY", "PENDING_CREATION", "ALIVE", "RESTARTING", "DEAD")
# Ray's types of the engine's error codes; an error of user code is TASK_EXECUTION_EXCEPTION
_ERROR_TYPE = {
    "SK_EACTOR": "ACTOR_DIED",
    "SK_ECANCEL": "TASK_CANCELLED",
    "SK_EDEAD": "WORKER_DIED",
    "SK_EFULL": "OBJECT_STORE_FULL",
    "SK_EGROUP": "TASK_PLACEMENT_GROUP_REMOVED",
    "SK_EOOM": "OUT_OF_MEMORY",
    "SK_EINFEASIBLE": "TASK_UNSCHEDULABLE_ERROR",
    "SK_ELOST": "OBJECT_LOST",
    "SK_ENOMEM": "OUT_OF_MEMORY",
    "SK_ENOSPC": "OUT_OF_DISK_ERROR",
    "SK_ESTALL": "TASK_UNSCHEDULABLE_ERROR",
    "SK_ETASK": "TASK_EXECUTION_EXCEPTION",
    "SK_EUNAVAIL": "ACTOR_UNAVAILABLE",
}
_EXIT_TYPE = (
    None,
    "INTENDED_USER_EXIT",
    "USER_ERROR",
    "SYSTEM_ERROR",
    "INTENDED_SYSTEM_EXIT",
    "NODE_OUT_OF_MEMORY",
)  # by enum sk_worker_end
_KILLED = 4  # the engine killed the worker, so its signal does not tell why it ended
_OWHERE_PENDING, _OWHERE_DISK, _OWHERE_ACTOR = 0, 3, 4
_LOCAL_ERROR = 0xEF  # SK_KIND_ENGINE_ERROR
_IP = "127.0.0.1"


def _job_facts():
    _job.ensure()
    return _job.facts()


def _rows(what):
    """Returns ([rows], what is missing: "", or a message). Each row ends with the number of its
    node."""
    custom = _job_facts().get("custom", [])
    rows, total, n_silent, silent = _skate.state(what, custom)
    missing = ""
    if total > len(rows):
        missing = (
            f"{total - len(rows)} of {total} rows are missing: the engine tells {len(rows)} at once"
        )
    if n_silent:
        name = next((n[1] for n in _skate.nodes([]) if n[0] == silent), str(silent))
        more = f" and {n_silent - 1} more" if n_silent > 1 else ""
        missing = f"node {name}{more} did not answer in time, and its rows are missing"
    return rows, missing


def _node_id(number):
    """The id of the node with that number in a row; 0: that of this process."""
    return (ids.NodeID._of(number) if number else _labels.node_id()).hex()


# Unix time minus the engine's clock. It is stored until the system clock is set, so that two
# answers show the same time.
_offset = 0


def _to_ms():
    """A function from nanoseconds of the engine's clock to Unix milliseconds; None for 0."""
    global _offset
    now = time.time_ns() - _skate.monotonic_ns()
    if abs(now - _offset) > 100_000_000:
        _offset = now
    offset = _offset
    return lambda ns: (ns + offset) // 1000000 if ns else None


def _id(kind, number):
    return kind._of(number).hex() if number else None


def _plain(resources):
    return {k: v for k, v in resources.items() if v}


# ---- Rows with all their fields.


def _error_type(error):
    if error is None:
        return None
    kind, code, _ = error
    return _ERROR_TYPE.get(code, code) if kind == _LOCAL_ERROR else "TASK_EXECUTION_EXCEPTION"


def _error_message(error):
    if error is None:
        return None
    kind, _, value = error
    return str(_skate.state_error(kind, value)) if value else "the error was too large to be kept"


def _tasks(detail):
    ms = _to_ms()
    rows, missing = _rows("tasks")
    env = _job_facts().get("runtime_env") or {}
    out = []
    for t in rows:
        (
            id,
            parent,
            actor,
            group,
            submit,
            start,
            end,
            pid,
            _,
            attempt,
            state,
            kind,
            _,
            name,
            fn,
            error,
            res,
            node,
        ) = t
        # a Dataset's task has no function: its name is made of the names of its operators
        called = (fn or name) + ".__init__" if kind == 1 else fn or name
        row = common.TaskState(
            task_id=ids.TaskID._of(id).hex(),
            attempt_number=attempt,
            name=called if kind == 1 else name or fn,
            state=_TASK_STATE[state],
            job_id=ids.JOB.hex(),
            actor_id=_id(ids.ActorID, actor),
            type=_TASK_TYPE[kind],
            func_or_class_name=called,
            parent_task_id=_id(ids.TaskID, parent) or ids.TaskID.nil().hex(),
            node_id=_node_id(node) if pid else None,
            worker_id=_id(ids.WorkerID, pid),
            worker_pid=pid or None,
            error_type=_error_type(error),
        )
        if detail:
            row.language = "PYTHON"
            # a call of an actor's method takes no resources: its actor has them
            row.required_resources = {} if kind == 2 else _plain(res)
            row.runtime_env_info = {"serialized_runtime_env": env}
            row.placement_group_id = _id(ids.PlacementGroupID, group)
            row.creation_time_ms, row.start_time_ms, row.end_time_ms = (
                ms(submit),
                ms(start),
                ms(end),
            )
            row.events = [
                {"state": s, "created_ms": t}
                for s, t in (
                    ("PENDING_ARGS_AVAIL", row.creation_time_ms),
                    ("RUNNING", row.start_time_ms),
                    (row.state if state >= 4 else None, row.end_time_ms),
                )
                if s and t
            ]
            row.error_message = _error_message(error)
            row.is_debugger_paused = False
        out.append(row)
    return out, missing


def _actors(detail):
    rows, missing = _rows("actors")
    out = []
    for a in rows:
        id, group, _, pid, _, state, restarts, _, detached, cls, name, space, why, res, node = a
        row = common.ActorState(
            actor_id=ids.ActorID._of(id).hex(),
            class_name=cls,
            state=_ACTOR_STATE[state],
            job_id=ids.JOB.hex(),
            name=name,
            node_id=_node_id(node) if pid else None,
            pid=pid,
            ray_namespace=space or _job.namespace(),
        )
        if detail:
            row.required_resources = _plain(res)
            row.is_detached = detached
            row.placement_group_id = _id(ids.PlacementGroupID, group)
            row.repr_name = ""
            row.num_restarts = restarts
            row.num_restarts_due_to_lineage_reconstruction = (
                row.num_restarts_due_to_node_preemption
            ) = 0
            if state == 4:
                text = _error_message(why) if isinstance(why, tuple) else why
                row.death_cause = {
                    "actor_died_error_context": {
                        "error_message": text,
                        "pid": pid,
                        "class_name": cls,
                    }
                }
        out.append(row)
    return out, missing


_OBJECT_STATUS = {
    0: "WAITING_FOR_DEPENDENCIES",
    1: "SCHEDULED",
    2: "WAITING_FOR_EXECUTION",
    3: "RUNNING",
    4: "FINISHED",
    5: "FINISHED",
}


def _objects(detail):
    rows, missing = _rows("objects")
    out = []
    for o in rows:
        id, size, refs, _, _, pid, worker, where, attempt, state, _, _ = o
        out.append(
            common.ObjectState(
                object_id=_object_hex(id),
                object_size=size,
                task_status=_OBJECT_STATUS[state],
                attempt_number=attempt + 1,
                reference_type="ACTOR_HANDLE"
                if where == _OWHERE_ACTOR
                else "LOCAL_REFERENCE"
                if refs
                else "USED_BY_PENDING_TASK",
                call_site="disabled",
                type="WORKER" if worker else "DRIVER",
                pid=pid,
                ip=_IP,
            )
        )
    return out, missing


def object_places(refs):
    """{ref: {"node_ids": [hex], "object_size": bytes or None, "did_spill": bool}}, for
    skate.experimental."""
    where = {_object_hex(o[0]): (o[1], o[7], o[11]) for o in _rows("objects")[0]}
    out = {}
    for ref in refs:
        size, at, node = where.get(ref.hex(), (0, _OWHERE_PENDING, 0))
        there = at != _OWHERE_PENDING
        out[ref] = {
            "node_ids": [_node_id(node)] if there else [],
            "object_size": size if there else None,
            "did_spill": at == _OWHERE_DISK,
        }
    return out


def _object_hex(number):
    return number.to_bytes(28, "big").hex()


def _workers(detail):
    rows, missing = _rows("workers")

    ms = _to_ms()

    def row(kind, pid, text="", end=0, signal=0, end_ns=0, node=0):
        w = common.WorkerState(
            worker_id=ids.WorkerID._of(pid).hex(),
            is_alive=not end,
            worker_type=kind,
            exit_type=_EXIT_TYPE[end],
            node_id=_node_id(node),
            ip=_IP,
            pid=pid,
        )
        if detail:
            w.end_time_ms, w.num_paused_threads = ms(end_ns) or 0, 0
            name = next((s.name for s in signals.Signals if s == signal and end != _KILLED), None)
            w.exit_detail = f"{name}: {text}" if name else text if end else None
        return w

    # Without workers that the engine is about to end.
    out = [row("WORKER", w[4], *w[7:]) for w in rows if w[6] != 3 or w[8]]
    # A worker does not know the driver: its parent is the fork server.
    if not _skate.in_worker():
        out.insert(0, row("DRIVER", os.getpid()))
    return out, missing


def _placement_groups(detail):
    _job.ensure()
    out = []
    for id, t in placement_group_table().items():
        row = common.PlacementGroupState(
            placement_group_id=id, name=t["name"], creator_job_id=ids.JOB.hex(), state=t["state"]
        )
        if detail:
            row.bundles = [
                {
                    "bundle_id": {"placement_group_id": id, "bundle_index": str(i)},
                    "node_id": t["bundles_to_node_id"][i],
                    "unit_resources": b,
                }
                for i, b in t["bundles"].items()
            ]
            row.is_detached, row.stats = False, t["stats"]
        out.append(row)
    return out, ""


def _nodes(detail):
    rows = [
        common.NodeState(
            node_id=n["NodeID"],
            node_ip=n["NodeManagerAddress"],
            is_head_node=i == 0,
            state="ALIVE" if n["Alive"] else "DEAD",
            node_name=n["NodeName"],
            resources_total=n["Resources"],
            labels=n["Labels"],
        )
        for i, n in enumerate(api.nodes())
    ]
    return rows, ""


def _jobs(detail):
    row = common.JobState(
        job_id=ids.JOB.hex(),
        type="DRIVER",
        status="RUNNING",
        entrypoint=" ".join(sys.argv),
        driver_info={"pid": str(os.getpid())},
    )
    if detail:
        row.metadata, row.runtime_env, row.driver_node_id = (
            _job_facts().get("metadata"),
            _job_facts().get("runtime_env"),
            _labels.node_id().hex(),
        )
    return [row], ""


def _runtime_envs(detail):
    env = _job_facts().get("runtime_env")
    return (
        (
            [
                common.RuntimeEnvState(
                    runtime_env=env, success=True, node_id=_labels.node_id().hex()
                )
            ],
            "",
        )
        if env
        else ([], "")
    )


# ---- Filters and limits.


def _check(address, timeout):
    if address not in (None, "auto", "local"):
        raise ServerUnavailable(
            f"address={address!r}: skate runs in this process only; leave address out"
        )
    if timeout < 1:
        raise ValueError(f"timeout={timeout}: at least one second")


def _matches(row, filters):
    for key, predicate, value in filters:
        have = getattr(row, key)
        if isinstance(have, bool):
            same = str(have).lower() == str(value).lower()
        elif isinstance(have, str):
            same = have.lower() == str(value).lower()
        else:
            same = have == value or (have is not None and str(have) == str(value))
        if same != (predicate == "="):
            return False
    return True


def _list(make, schema, address, filters, limit, timeout, detail, raise_on_missing_output):
    _check(address, timeout)
    if not 0 < limit <= RAY_MAX_LIMIT_FROM_API_SERVER:
        raise RayStateApiException(
            f"Given limit {limit} exceeds the supported limit {RAY_MAX_LIMIT_FROM_API_SERVER}. Use a lower limit."
            if limit > 0
            else f"limit={limit}: at least one row"
        )
    filters = list(filters or [])
    for i, f in enumerate(filters):
        if not isinstance(f, (tuple, list)) or len(f) != 3:
            raise ValueError(f"filters: (name, '=' or '!=', value) is wanted, not {f!r}")
        f = filters[i] = (f[0].lower(), f[1], f[2])
        if f[1] not in ("=", "!="):
            raise ValueError(f"filters: {f[1]!r} in {f}: = and != are there")
        if f[0] not in schema.filterable_columns():
            raise ValueError(
                f"Filter key {f[0]} is not supported: a {schema.__name__} can be filtered by {', '.join(sorted(schema.filterable_columns()))}"
            )
    rows, missing = make(detail or any(f[0] not in schema.base_columns() for f in filters))
    if missing:
        if raise_on_missing_output:
            raise RayStateApiException(missing)
        warnings.warn(missing, RuntimeWarning, stacklevel=3)
    rows = [r for r in rows if _matches(r, filters)]
    if len(rows) > limit:
        warnings.warn(
            f"Limit last {limit} entries (Total {len(rows)}). Use filters=... to see fewer, or a higher limit=...",
            UserWarning,
            stacklevel=3,
        )
    return rows[:limit]


def _lister(name, make, schema, what):
    def list_(
        address: str | None = None,
        filters: list[tuple[str, str, Any]] | None = None,
        limit: int = DEFAULT_LIMIT,
        timeout: float = DEFAULT_RPC_TIMEOUT,
        detail: bool = False,
        raise_on_missing_output: bool = True,
        _explain: bool = False,
    ) -> list[Any]:
        return _list(
            make, schema, address, filters, limit, timeout, detail, raise_on_missing_output
        )

    list_.__name__ = list_.__qualname__ = name
    list_.__doc__ = f"""{what}: a list of {schema.__name__}.

    filters: [(field, "=" or "!=", value), ...], all of which hold; texts are compared without case. limit: most rows (at most
    {RAY_MAX_LIMIT_FROM_API_SERVER}), with a UserWarning when there are more. detail: the fields that cost more, too. timeout (seconds) and _explain
    have no meaning here. ValueError for a filter that makes no sense, RayStateApiException for the limit, or when the engine
    holds more rows than it tells, or a node did not answer, and raise_on_missing_output is not False (then it is a warning)."""
    return list_


list_tasks = _lister(
    "list_tasks",
    _tasks,
    common.TaskState,
    "Tasks, by attempt: the last that have ended, then those under way",
)
list_actors = _lister("list_actors", _actors, common.ActorState, "Actors, dead ones first")
list_objects = _lister(
    "list_objects",
    _objects,
    common.ObjectState,
    "Objects that something references, a row for each process",
)
list_workers = _lister(
    "list_workers",
    _workers,
    common.WorkerState,
    "Processes: the last that have ended, then those that live",
)
list_placement_groups = _lister(
    "list_placement_groups", _placement_groups, common.PlacementGroupState, "Placement groups"
)
list_nodes = _lister(
    "list_nodes", _nodes, common.NodeState, "This machine, or the nodes of a cluster"
)
list_jobs = _lister("list_jobs", _jobs, common.JobState, "The job")
list_runtime_envs = _lister(
    "list_runtime_envs", _runtime_envs, common.RuntimeEnvState, "The job's environment"
)


def _getter(name, make, key, what):
    def get(id, address=None, timeout=DEFAULT_RPC_TIMEOUT, _explain=False):
        _check(address, timeout)
        return next((r for r in reversed(make(True)[0]) if getattr(r, key) == id), None)

    get.__name__ = get.__qualname__ = name
    get.__doc__ = f"The {what} of that id (hexadecimal) with all details; None when there is none."
    return get


get_actor = _getter("get_actor", _actors, "actor_id", "actor")
get_placement_group = _getter(
    "get_placement_group", _placement_groups, "placement_group_id", "placement group"
)
get_node = _getter("get_node", _nodes, "node_id", "node")
get_worker = _getter("get_worker", _workers, "worker_id", "worker")
get_job = _getter("get_job", _jobs, "job_id", "job")


def get_task(id, address=None, timeout=DEFAULT_RPC_TIMEOUT, _explain=False):
    """The task with that id (hexadecimal, or an ObjectRef of its results) with all details: its
    last attempt, or a list if it had several; None if there is no such task."""
    _check(address, timeout)
    if not isinstance(id, str):
        id = id.task_id().hex()
    rows = [r for r in _tasks(True)[0] if r.task_id == id]
    return None if not rows else rows[0] if len(rows) == 1 else rows


def get_objects(id, address=None, timeout=DEFAULT_RPC_TIMEOUT, _explain=False):
    """All rows about the object with that id (hexadecimal): one for each process that has
    references."""
    _check(address, timeout)
    return [r for r in _objects(True)[0] if r.object_id == id]


# ---- Summaries.


def _node(summary, **totals):
    return {"cluster": {"summary": summary, **totals}}


def _count(counts, key):
    counts[key] = counts.get(key, 0) + 1


def summarize_tasks(
    address=None, timeout=DEFAULT_RPC_TIMEOUT, raise_on_missing_output=True, _explain=False
):
    """{"cluster": {"summary": {name: {"type", "state_counts", ...}}, "total_tasks",
    "total_actor_tasks", "total_actor_scheduled"}}"""
    _check(address, timeout)
    summary, totals = {}, dict.fromkeys(_TASK_TYPE, 0)
    for t in _tasks(False)[0]:
        name = t.func_or_class_name
        _count(
            summary.setdefault(
                name, {"func_or_class_name": name, "type": t.type, "state_counts": {}}
            )["state_counts"],
            t.state,
        )
        totals[t.type] += 1
    return _node(
        summary,
        total_tasks=totals["NORMAL_TASK"],
        total_actor_tasks=totals["ACTOR_TASK"],
        total_actor_scheduled=totals["ACTOR_CREATION_TASK"],
        summary_by="func_name",
    )


def summarize_actors(
    address=None, timeout=DEFAULT_RPC_TIMEOUT, raise_on_missing_output=True, _explain=False
):
    """{"cluster": {"summary": {class: {"class_name", "state_counts"}}, "total_actors",
    "summary_by"}}"""
    _check(address, timeout)
    summary, rows = {}, _actors(False)[0]
    for a in rows:
        _count(
            summary.setdefault(a.class_name, {"class_name": a.class_name, "state_counts": {}})[
                "state_counts"
            ],
            a.state,
        )
    return _node(summary, total_actors=len(rows), summary_by="class")


def summarize_objects(
    address=None, timeout=DEFAULT_RPC_TIMEOUT, raise_on_missing_output=True, _explain=False
):
    """{"cluster": {"summary": {call site: {...}}, "total_objects", "total_size_mb", ...}}. Call
    sites are not recorded: there is one, "disabled"."""
    _check(address, timeout)
    rows, sizes, pids = _objects(False)[0], {}, set()
    s: dict = {"task_state_counts": {}, "task_attempt_number_counts": {}, "ref_type_counts": {}}
    for o in rows:
        sizes[o.object_id] = o.object_size
        if o.pid:
            pids.add(o.pid)
        _count(s["task_state_counts"], o.task_status)
        _count(s["task_attempt_number_counts"], str(o.attempt_number))
        _count(s["ref_type_counts"], o.reference_type)
    s.update(
        total_objects=len(sizes),
        total_size_mb=sum(sizes.values()) / 2**20,
        total_num_workers=len(pids),
        total_num_nodes=len(api.nodes()) if rows else 0,
    )
    return _node(
        {"disabled": s} if rows else {},
        total_objects=s["total_objects"],
        total_size_mb=s["total_size_mb"],
        callsite_enabled=False,
        summary_by="callsite",
    )
