"""Tasks and runs of Datasets as spans of OpenTelemetry, for a program that sends its traces
somewhere. Needs the package opentelemetry-api; the program configures the SDK, as it does for spans
of its own. See skate.timeline() for a trace without any of this."""

from __future__ import annotations

import os
from typing import Any

from skate import _skate, ids
from skate._deps import otel_trace
from skate._private import view

__all__ = ["export_spans"]

# Of each engine, known by the time at which it began: the end (ns) of the last task and the number
# of the last run that were exported.
_exported: dict[int, tuple[int, int]] = {}


def export_spans(where: int | str | os.PathLike[str] | None = None) -> int:
    """Exports what has ended since the last call as spans, through the tracer provider of the
    program: a span for each attempt of a task, whose parent is the span of the task that submitted
    it, and a span for each run of a Dataset, with one for each of its operators.

    The engine keeps the last 16,384 attempts of tasks and the last 16 runs: a long program calls this
    from time to time.

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
    last_end, last_run = _exported.get(begin, (0, 0))
    tasks = [t for t in _skate.view_tasks(file)[0] if t[4] and t[5] > last_end]
    runs = [r for r in seen["runs"] if r["state"] != "running" and r["id"] > last_run]
    tracer = otel_trace.get_tracer("skate")
    wall = round(seen["started"] * 1e9)  # unix time at which the engine began
    n = _tasks(tracer, tasks, wall - begin) + sum(_run(tracer, r, wall) for r in runs)
    _exported[begin] = (
        max([last_end, *(t[5] for t in tasks)]),
        max([last_run, *(r["id"] for r in runs)]),
    )
    return n


def _tasks(tracer: Any, tasks: list[tuple[Any, ...]], shift: int) -> int:
    """Exports tasks, those that submit others first. shift: unix time minus the engine's time."""
    contexts: dict[int, Any] = {}
    # a task was submitted before its children were
    for id, parent, actor, submit, start, end, name, pid, attempt, _, _, failed in sorted(
        tasks, key=lambda t: t[3]
    ):
        attributes = {
            "skate.task_id": ids.TaskID._of(id).hex(),
            "skate.attempt": attempt,
            "skate.queued_seconds": (start - submit) / 1e9,
            "process.pid": pid,
        }
        if actor:
            attributes["skate.actor_id"] = ids.ActorID._of(actor).hex()
        span = tracer.start_span(
            name, context=contexts.get(parent), start_time=start + shift, attributes=attributes
        )
        if failed:
            span.set_status(otel_trace.StatusCode.ERROR)
        span.end(end_time=max(start, end) + shift)
        contexts[id] = otel_trace.set_span_in_context(span)
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
