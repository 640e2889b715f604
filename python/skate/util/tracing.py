"""Tasks and runs of Datasets as spans of OpenTelemetry, for a program that sends its traces
somewhere. Needs the package opentelemetry-api; the program configures the SDK, as it does for spans
of its own. See skate.timeline() for a trace without any of this."""

from __future__ import annotations

import os
from typing import Any

from skate import _job, _skate, ids
from skate._deps import otel_trace
from skate._private import timeline, view

__all__ = ["export_spans"]

# Of each engine, known by the time at which it began: the attempts of tasks that were there at the
# last export, and the number of the last run that was exported.
_exported: dict[int, tuple[set[tuple[int, int, int]], int]] = {}


def export_spans(where: int | str | os.PathLike[str] | None = None) -> int:
    """Exports what has ended since the last call as spans, through the tracer provider of the
    program: a span for each attempt of a task, whose parent is the span of the task that submitted
    it, and a span for each run of a Dataset, with one for each of its operators.

    The engine keeps the last 16,384 attempts of tasks (over nodes: the last 10,000) and the last 16
    runs: a long program calls this from time to time. Of another engine that runs over nodes there
    are the tasks which its driver has submitted.

    Args:
        where: The pid of a process of another engine, or the path of a record; None: the engine of
            this process.

    Returns:
        The number of spans.

    Raises:
        LookupError: There is no engine, or it has no view (SKATE_ENGINE=inline).
        ModuleNotFoundError: opentelemetry-api is not installed.

    Example:
        >>> import skate
        >>> from skate.util.tracing import export_spans
        >>> ds = skate.data.range(10).materialize()
        >>> export_spans() > 0
        True
    """
    if where is None:
        if not _skate.is_initialized():
            raise LookupError("no engine is open in this process; skate.init() opens one")
        where = os.getpid()
    seen = view.snapshot(where)
    file = view.path(where)[1] if isinstance(where, int) else os.fspath(where)
    begin: int = _skate.view_read(file)["started_ns"]
    had, last_run = _exported.get(begin, (set(), 0))
    # what tasks on nodes have submitted is told by these only
    own = where == os.getpid() and _job.on_nodes()
    there, whole = timeline.told() if own else (timeline.ended(file)[0], True)
    there = [t for t in there if t.end]
    tasks = [t for t in there if (t.id, t.attempt, t.pid) not in had]
    runs = [r for r in seen["runs"] if r["state"] != "running" and r["id"] > last_run]
    tracer = otel_trace.get_tracer("skate")
    wall = round(seen["started"] * 1e9)  # unix time at which the engine began
    n = _tasks(tracer, tasks, wall - begin) + sum(_run(tracer, r, wall) for r in runs)
    now = {(t.id, t.attempt, t.pid) for t in there}
    # a node that is silent now tells of the same tasks later
    _exported[begin] = now if whole else now | had, max([last_run, *(r["id"] for r in runs)])
    return n


def _tasks(tracer: Any, tasks: list[timeline.Task], shift: int) -> int:
    """Exports tasks, those that submit others first. shift: unix time minus the engine's time."""
    contexts: dict[int, Any] = {}
    # a task was submitted before its children were
    for t in sorted(tasks, key=lambda t: t.submit):
        attributes = {
            "skate.task_id": ids.TaskID._of(t.id).hex(),
            "skate.attempt": t.attempt,
            "skate.queued_seconds": (t.start - t.submit) / 1e9,
            "process.pid": t.pid,
        }
        if t.node:
            attributes["skate.node_id"] = ids.NodeID._of(t.node).hex()
        if t.actor:
            attributes["skate.actor_id"] = ids.ActorID._of(t.actor).hex()
        span = tracer.start_span(
            t.name,
            context=contexts.get(t.parent),
            start_time=t.start + shift,
            attributes=attributes,
        )
        if t.failed:
            span.set_status(otel_trace.StatusCode.ERROR)
        span.end(end_time=max(t.start, t.end) + shift)
        contexts[t.id] = otel_trace.set_span_in_context(span)
    return len(tasks)


def _run(tracer: Any, run: dict[str, Any], wall: int) -> int:
    """Exports a run and its operators, which are shown as long as the run."""
    start = wall + round(run["started"] * 1e9)
    end = start + round(run["seconds"] * 1e9)
    name = "->".join(o["label"] for o in run["ops"]) or "Dataset"
    attributes = {
        "skate.run": run["id"],
        "skate.state": run["state"],
        "skate.memory_peak_bytes": run["memory"]["peak"],
        "skate.bad_rows": run["bad_rows"],
    }
    span = tracer.start_span(name, start_time=start, attributes=attributes)
    if run["state"] == "failed":
        span.set_status(otel_trace.StatusCode.ERROR)
    context = otel_trace.set_span_in_context(span)
    for o in run["ops"]:
        counts = {f"skate.{k}": o[k] for k in ("rows_in", "rows_out", "bytes_out", "retries")}
        counts |= {"skate.tasks": o["done"], "skate.busy_seconds": o["busy"]}
        child = tracer.start_span(o["label"], context=context, start_time=start, attributes=counts)
        child.end(end_time=end)
    span.end(end_time=end)
    return 1 + len(run["ops"])
