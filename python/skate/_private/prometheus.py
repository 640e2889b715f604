"""Metrics of an engine, and the user's own (skate.util.metrics), as text in the format that
Prometheus reads. The names are listed in docs/reference/metrics.md, which a test compares with
this file."""

from __future__ import annotations

import itertools
import os
import weakref
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from skate import _skate
from skate._deps import prometheus, prometheus_core
from skate._private import metrics_board, view

# The user's metrics of this process, as long as the program keeps them.
known: weakref.WeakSet[Any] = weakref.WeakSet()

# name, kind, what it is, where its value is
_ENGINE: tuple[tuple[str, str, str, str], ...] = (
    ("uptime_seconds", "gauge", "Time since the engine began.", "seconds"),
    ("cpus", "gauge", "CPUs that the engine gives to tasks.", "cpus"),
    ("gpus", "gauge", "GPUs that the engine gives to tasks.", "gpus"),
    (
        "store_used_bytes",
        "gauge",
        "Bytes of objects in the object store.",
        "store.used",
    ),
    (
        "store_capacity_bytes",
        "gauge",
        "Size of the object store.",
        "store.capacity",
    ),
    ("store_objects", "gauge", "Objects that exist.", "store.objects"),
    (
        "store_disk_bytes",
        "gauge",
        "Bytes of objects that are on disk now.",
        "store.spilled_now",
    ),
    (
        "store_spilled_bytes",
        "counter",
        "Bytes of objects that were written to disk.",
        "store.spilled_total",
    ),
    (
        "store_restored_bytes",
        "counter",
        "Bytes of objects that were read back from disk.",
        "store.restored_total",
    ),
)
_RUN: tuple[tuple[str, str, str, str], ...] = (
    ("seconds", "gauge", "Time since the run of a Dataset began.", "seconds"),
    (
        "share",
        "gauge",
        "Share of the run's work that is done, 0 to 1.",
        "share",
    ),
    ("left_seconds", "gauge", "Time until the run will have ended.", "left"),
    ("bad_rows", "counter", "Rows that failed and were left out.", "bad_rows"),
    (
        "failed_tasks",
        "counter",
        "Tasks that failed and whose output was left out.",
        "errored_blocks",
    ),
    ("memory_bytes", "gauge", "Bytes of the run's blocks in memory.", "memory.now"),
    (
        "memory_limit_bytes",
        "gauge",
        "The run's budget for blocks in memory.",
        "memory.limit",
    ),
    ("disk_bytes", "gauge", "Bytes of the run's blocks on disk.", "memory.disk"),
)
_OPERATOR: tuple[tuple[str, str, str, str], ...] = (
    ("rows_in", "counter", "Rows that an operator's tasks took.", "rows_in"),
    ("rows_out", "counter", "Rows that an operator's tasks gave.", "rows_out"),
    ("bytes_in", "counter", "Bytes that an operator's tasks took.", "bytes_in"),
    ("bytes_out", "counter", "Bytes that an operator's tasks gave.", "bytes_out"),
    ("blocks_out", "counter", "Blocks that an operator's tasks gave.", "blocks_out"),
    ("tasks_done", "counter", "Tasks of an operator that have ended.", "done"),
    ("tasks_running", "gauge", "Tasks of an operator that run.", "running"),
    ("tasks_retried", "counter", "Tasks of an operator that ran again.", "retries"),
    ("queued_blocks", "gauge", "Blocks that wait for an operator.", "queued_blocks"),
    ("queued_bytes", "gauge", "Bytes that wait for an operator.", "queued_bytes"),
    (
        "busy_seconds",
        "counter",
        "Time of workers in an operator's finished tasks.",
        "busy",
    ),
    ("actors", "gauge", "Actors of an operator.", "actors"),
)
_WAITS = ("input", "memory", "resource", "consumer")


# of a cluster, with the name of the node as a label
_NODE: tuple[tuple[str, str, str, str], ...] = (
    ("up", "gauge", "1 if the node is there, 0 if it is gone.", "up"),
    ("cpus", "gauge", "CPUs of the node.", "cpus"),
    ("cpus_free", "gauge", "CPUs of the node that no task has.", "cpus_free"),
    ("workers", "gauge", "Worker processes of the node.", "workers"),
    ("tasks_running", "gauge", "Tasks that run on the node.", "tasks.running"),
    ("tasks_done", "counter", "Tasks that have ended well on the node.", "tasks.done"),
    ("tasks_failed", "counter", "Tasks that have failed on the node.", "tasks.failed"),
    ("store_used_bytes", "gauge", "Bytes of objects in the node's store.", "store.used"),
    ("store_capacity_bytes", "gauge", "Size of the node's store.", "store.capacity"),
    ("store_disk_bytes", "gauge", "Bytes of objects on the node's disk.", "store.spilled_now"),
    (
        "store_spilled_bytes",
        "counter",
        "Bytes of objects that the node wrote to disk.",
        "store.spilled_total",
    ),
)


def prometheus_text(snapshot: dict[str, Any] | None = None) -> bytes:
    """Metrics as text for Prometheus (version 0.0.4). Needs the package prometheus-client.

    Args:
        snapshot: The state of an engine (skate._private.view.snapshot()); None: of this process's
            engine, if it has one. The metrics that this process has made with skate.util.metrics
            are added, unless the snapshot is of another process.

    Raises:
        ModuleNotFoundError: prometheus-client is not installed.
        ValueError: Two metrics of the program have one name and are of different kinds.
    """
    if snapshot is None:
        try:
            snapshot = view.own()
        except LookupError:
            snapshot = {"pid": os.getpid(), "none": True}
    registry = prometheus.CollectorRegistry(auto_describe=False)
    registry.register(_Collector(snapshot))
    return prometheus.generate_latest(registry)


def write_prometheus(path: str | os.PathLike[str]) -> None:
    """Writes prometheus_text() to a file, which is replaced in one step: for the textfile collector
    of Prometheus' node exporter. Needs the package prometheus-client.

    Args:
        path: The file, such as "/var/lib/node_exporter/skate.prom".

    Raises:
        OSError: The file cannot be written.
    """
    text = prometheus_text()
    temp = f"{os.fspath(path)}.{os.getpid()}.tmp"
    try:
        with open(temp, "wb") as f:
            f.write(text)
        os.replace(temp, path)
    except BaseException:
        if os.path.exists(temp):
            os.unlink(temp)
        raise


class _Collector:
    """Gives prometheus_client the metrics of one snapshot, and the user's."""

    def __init__(self, snapshot: dict[str, Any]):
        self.snapshot = snapshot

    def collect(self) -> Iterator[Any]:
        if "none" not in self.snapshot:
            yield from _engine(self.snapshot)
            yield from _runs(self.snapshot)
        if self.snapshot["pid"] == os.getpid() or _skate.in_worker():
            yield from _users()


def _at(of: dict[str, Any], path: str) -> Any:
    """The value below keys with points between them: "store.used"."""
    for key in path.split("."):
        of = of[key]
    return of


def _family(name: str, kind: str, what: str, labels: Iterable[str] = ()) -> Any:
    of = {
        "gauge": prometheus_core.GaugeMetricFamily,
        "counter": prometheus_core.CounterMetricFamily,
    }[kind]
    return of(name, what, labels=tuple(labels))


def _engine(s: dict[str, Any]) -> Iterator[Any]:
    info = _family("skate_info", "gauge", "The program, as labels; 1.", ("program", "pid"))
    info.add_metric((s["program"], str(s["pid"])), 1)
    yield info
    for name, kind, what, value in _ENGINE:
        f = _family(f"skate_{name}", kind, what)
        f.add_metric((), _at(s, value))
        yield f
    ended = _family("skate_tasks", "counter", "Tasks that have ended.", ("result",))
    open_tasks = _family("skate_tasks_open", "gauge", "Tasks that have not ended.", ("state",))
    for key in ("done", "failed"):
        ended.add_metric((key,), s["tasks"][key])
    for key in ("running", "queued"):
        open_tasks.add_metric((key,), s["tasks"][key])
    workers = _family("skate_workers", "gauge", "Worker processes.", ("state",))
    busy = sum(w["seconds"] is not None for w in s["workers"])
    workers.add_metric(("busy",), busy)
    workers.add_metric(("idle",), len(s["workers"]) - busy)
    yield from (ended, open_tasks, workers)
    yield from _nodes(s["nodes"])


def _nodes(nodes: list[dict[str, Any]]) -> Iterator[Any]:
    for name, kind, what, value in _NODE:
        f = _family(f"skate_node_{name}", kind, what, ("node", "number"))
        for n in nodes:
            at = {**n, "up": float(n["state"] != "gone")}
            f.add_metric((n["name"], str(n["number"])), _at(at, value))
        yield f


def _runs(s: dict[str, Any]) -> Iterator[Any]:
    """The runs that go on, and the last one. A label "run" of each run that ever was would be more
    than a Prometheus server keeps well."""
    runs = [r for r in s["runs"][:-1] if r["state"] == "running"] + s["runs"][-1:]
    for name, kind, what, value in _RUN:
        f = _family(f"skate_run_{name}", kind, what, ("run",))
        for r in runs:
            if (v := _at(r, value)) is not None:
                f.add_metric((str(r["id"]),), v)
        yield f
    ops = [((str(r["id"]), str(i), o["label"]), o) for r in runs for i, o in enumerate(r["ops"])]
    labels = ("run", "operator", "label")
    for name, kind, what, value in _OPERATOR:
        f = _family(f"skate_operator_{name}", kind, what, labels)
        for key, o in ops:
            f.add_metric(key, _at(o, value))
        yield f
    waits = _family(
        "skate_operator_wait_seconds",
        "counter",
        "Time in which an operator ran no task, or could run no more, by what it waited for.",
        (*labels, "reason"),
    )
    for key, o in ops:
        for reason in _WAITS:
            waits.add_metric((*key, reason), o[f"wait_{reason}"])
    yield waits


def _clean(name: str, first: str = "_") -> str:
    """A name as Prometheus wants it: letters, digits and underscores."""
    out = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
    return first + out if out[:1].isdigit() else out


class _Series(NamedTuple):
    """The numbers of a metric in one process, for one set of tags."""

    kind: str
    name: str
    what: str
    tag_keys: tuple[str, ...]
    boundaries: tuple[float, ...]
    tags: tuple[tuple[str, str], ...]
    values: list[float]  # a counter: [total]; a gauge: [value, time]; a histogram: [*buckets, sum]


def _series() -> Iterator[_Series]:
    """Those of this process, and those of its workers."""
    for m in sorted(known, key=lambda m: m.info["name"]):
        for key, value in m.values.items():
            if m.kind == "histogram":
                numbers = [*value[0], value[1]]
            else:
                numbers = [value] if m.kind == "counter" else [value, m._times[key]]
            kind, name, what, tag_keys, boundaries = m._what
            yield _Series(kind, name, what, tag_keys, boundaries, key, numbers)
    for (kind, name, what, tag_keys, boundaries, tags), numbers in metrics_board.read():
        key = tuple((k, v) for k, v in tags)
        yield _Series(kind, name, what, tuple(tag_keys), tuple(boundaries), key, numbers)


def _users() -> Iterator[Any]:
    by_name: dict[str, list[_Series]] = {_clean(m.info["name"]): [] for m in known}
    for s in _series():
        by_name.setdefault(_clean(s.name), []).append(s)
    kinds: dict[str, set[str]] = {name: {s.kind for s in some} for name, some in by_name.items()}
    whats: dict[str, str] = {}
    for m in known:
        kinds[_clean(m.info["name"])].add(m.kind)
        whats[_clean(m.info["name"])] = m.info["description"]
    for name, some in sorted(by_name.items()):
        if len(kinds[name]) > 1:
            raise ValueError(
                f"the program has a {' and a '.join(sorted(kinds[name]))} called {name}: give one of them another name"
            )
        (kind,) = kinds[name]
        tags = sorted({t for s in some for t in s.tag_keys})
        what = whats.get(name) or (some[0].what if some else "") or name
        labels = [_clean(t) for t in tags]
        f: Any
        if kind == "histogram":
            f = prometheus_core.HistogramMetricFamily(name, what, labels=labels)
        else:
            f = _family(name, kind, what, labels)
        for key, value in _merged(some).items():
            given = dict(key)
            at = [given.get(t, "") for t in tags]
            if kind == "histogram":
                f.add_metric(at, buckets=value[0], sum_value=value[1])
            else:
                f.add_metric(at, value)
        yield f


def _merged(some: list[_Series]) -> dict[Any, Any]:
    """The values of metrics of one name, by their tags: counts are added, of gauges the one that was
    set last counts. Histograms of one name have the buckets of the first; values: (buckets, sum)."""
    by_tags: dict[Any, list[_Series]] = {}
    for s in some:
        by_tags.setdefault(s.tags, []).append(s)
    out: dict[Any, Any] = {}
    for key, same in by_tags.items():
        first = same[0]
        if first.kind == "gauge":
            out[key] = max(same, key=lambda s: s.values[1]).values[0]
            continue
        fit = [s.values for s in same if s.boundaries == first.boundaries]
        sums = [sum(column) for column in zip(*fit, strict=True)]
        if first.kind == "counter":
            out[key] = sums[0]
        else:
            ends = [*map(float, first.boundaries), float("inf")]
            totals = itertools.accumulate(sums[:-1])
            out[key] = [(_bucket(e), n) for e, n in zip(ends, totals, strict=True)], sums[-1]
    return out


def _bucket(x: float) -> str:
    """A number as Prometheus writes the end of a bucket."""
    return "+Inf" if x == float("inf") else repr(x)
