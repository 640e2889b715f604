"""What one sees of a program over nodes, by node: rows of skate.util.state, the view, `skate top`,
metrics, the page, the timeline and spans; also when a node does not answer, or is lost."""

import io
import os
import signal
import subprocess
import sys
import time

import pytest
import skate
from engine.conftest import Gate
from engine.waits import wait_at, wait_until
from patience import stop
from skate._private import stack, timeline, view
from skate.cli import screen
from skate.util import state
from skate.util.state.exception import RayStateApiException


@pytest.fixture
def two():
    skate.shutdown()
    skate.init(num_cpus=2, object_store_memory=128 << 20, _system_config={"nodes": 2})
    yield
    skate.shutdown()


@pytest.fixture
def gate(tmp_path):
    g = Gate(tmp_path)
    yield g
    os.close(g.fd)


@skate.remote(max_retries=1)
def held(path):
    wait_at(path)
    return os.getpid()


@skate.remote
def child():
    return os.getpid()


@skate.remote
def large():
    return bytes(1 << 20)


@skate.remote
def parent():
    # without CPUs it never waits for room, so no other node takes it
    return os.getpid(), skate.get(child.options(num_cpus=0).remote())


@skate.remote
class Keeper:
    def pid(self):
        return os.getpid()


def held_on_each(gate):
    """Two tasks, one on each node, that wait at the gate."""
    refs = [held.remote(gate.path) for _ in range(2)]
    wait_until(lambda: len(running()) == 2)
    return refs


def running():
    return [t for t in state.list_tasks() if t.state == "RUNNING"]


def of_view(name="held"):
    return [w for w in view.own()["workers"] if w["task"].endswith(name)]


# ---- rows


def test_rows_have_their_nodes(two, gate):
    nodes = {n.node_id: n for n in state.list_nodes()}
    assert len(nodes) == 2 and {n.state for n in nodes.values()} == {"ALIVE"}
    refs = held_on_each(gate)
    tasks = {t.node_id: t for t in running()}
    assert tasks.keys() == nodes.keys()
    assert {t.func_or_class_name for t in tasks.values()} == {"held"}
    workers = {w.pid: w for w in state.list_workers() if w.worker_type == "WORKER"}
    for node, t in tasks.items():
        assert workers[t.worker_pid].node_id == node
        assert state.list_tasks(filters=[("node_id", "=", node), ("state", "=", "RUNNING")]) == [t]
    summary = state.summarize_tasks()["cluster"]["summary"]["held"]
    assert summary["state_counts"] == {"RUNNING": 2}
    gate.let_go(2)
    assert set(skate.get(refs)) == {t.worker_pid for t in tasks.values()}
    wait_until(lambda: not running())
    assert [t.state for t in state.list_tasks()] == ["FINISHED"] * 2


def test_actors_and_objects_have_their_nodes(two):
    keepers = [Keeper.options(num_cpus=1).remote() for _ in range(2)]
    pids = skate.get([k.pid.remote() for k in keepers])
    actors = {a.pid: a for a in state.list_actors(detail=True)}
    assert actors.keys() == set(pids)
    assert {a.node_id for a in actors.values()} == {n.node_id for n in state.list_nodes()}
    for k, pid in zip(keepers, pids, strict=True):
        assert actors[pid].actor_id == k._actor_id.hex()
    del keepers, k

    big = large.remote()
    skate.wait([big])
    (row,) = [o for o in state.list_objects() if o.object_id == big.hex()]
    assert (row.pid, row.type, row.object_size >= 1 << 20) == (os.getpid(), "DRIVER", True)
    place = skate.experimental.get_object_locations([big])[big]
    (task,) = [t for t in state.list_tasks() if t.func_or_class_name == "large"]
    assert place["node_ids"] == [task.node_id]
    assert state.summarize_objects()["cluster"]["total_objects"] == 1


def test_what_tasks_have_submitted_is_there(two):
    pid, child_pid = skate.get(parent.remote())
    rows = {t.func_or_class_name: t for t in state.list_tasks(detail=True)}
    assert rows["child"].parent_task_id == rows["parent"].task_id
    assert (rows["parent"].worker_pid, rows["child"].worker_pid) == (pid, child_pid)
    assert rows["child"].node_id == rows["parent"].node_id  # it stays where it was submitted


def test_a_task_sees_its_node(two):
    @skate.remote
    def sees():
        own = skate.get_runtime_context().get_node_id()
        return own, {t.node_id for t in state.list_tasks()}, view.own()["nodes"]

    own, seen, nodes = skate.get(sees.remote())
    assert seen == {own} and nodes == []
    assert own in {n.node_id for n in state.list_nodes()}


# ---- the view, and who reads it


def test_the_view_has_nodes_and_their_workers(two, gate):
    refs = held_on_each(gate)
    wait_until(lambda: len(of_view()) == 2)
    seen = view.own()
    numbers = {n["number"]: n for n in seen["nodes"]}
    assert len(numbers) == 2 and {w["node"] for w in of_view()} == numbers.keys()
    wait_until(lambda: all(n["tasks"]["running"] == 1 for n in view.own()["nodes"]))
    for n in view.own()["nodes"]:
        assert (n["state"], n["cpus"], n["cpus_free"]) == ("alive", 1.0, 0.0)
        assert n["store"]["capacity"] > 0 and n["workers"] >= 1
    assert view.own()["tasks"]["running"] == 2

    said = io.StringIO()
    from rich.console import Console

    Console(file=said, width=120).print(screen.render(view.own(), None, 120))
    lines = [line.split() for line in said.getvalue().splitlines()]
    for w in of_view():
        assert [numbers[w["node"]]["name"], str(w["pid"])] in [line[:2] for line in lines]
    for n in numbers.values():
        assert [n["name"], "1/1"] in [line[:2] for line in lines]
    gate.let_go(2)
    skate.get(refs)
    wait_until(lambda: sum(n["tasks"]["done"] for n in view.own()["nodes"]) == 2)
    assert view.own()["tasks"]["done"] == 2


def test_metrics_have_nodes_as_labels(two):
    from prometheus_client.parser import text_string_to_metric_families
    from skate.util.metrics import prometheus_text

    skate.get([child.remote() for _ in range(8)])
    names = {n["name"] for n in view.own()["nodes"]}

    def done():
        text = prometheus_text().decode()
        found = {f.name: f.samples for f in text_string_to_metric_families(text)}
        assert {s.labels["node"] for s in found["skate_node_up"] if s.value == 1} == names
        return sum(s.value for s in found["skate_node_tasks_done"])

    wait_until(lambda: done() == 8)


def test_a_page_shows_processes_of_nodes(two, gate):
    from skate.page.source import Engine

    refs = held_on_each(gate)
    wait_until(lambda: len(of_view()) == 2)
    page = Engine(None)
    assert [n["state"] for n in page.snapshot()["nodes"]] == ["alive"] * 2
    for w in of_view():
        assert "wait_at" in page.stack(w["pid"])
    with pytest.raises(LookupError, match="none of this engine"):
        page.stack(os.getppid())
    gate.let_go(2)
    skate.get(refs)


def test_stacks_of_all_nodes(two, gate):
    refs = held_on_each(gate)
    found, _ = stack.look(os.getpid())
    assert found[0]["pid"] == os.getpid() and len(found) == 3  # the driver and two nodes
    said = [w["stack"] for e in found for w in e["workers"] if w["task"].endswith("held")]
    assert len(said) == 2 and all("wait_at" in text for text in said)
    gate.let_go(2)
    skate.get(refs)


def test_the_timeline_has_nodes(two):
    keepers = [Keeper.options(num_cpus=1).remote() for _ in range(2)]
    pids = skate.get([k.pid.remote() for k in keepers])
    del keepers
    wait_until(lambda: len({n["cpus_free"] for n in view.own()["nodes"]} - {1.0}) == 0)
    of_parent = skate.get(parent.remote())
    names = {n["name"] for n in view.own()["nodes"]}
    for events in (timeline.events(), timeline.events_of(os.getpid())):
        titles = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
        of = {pid: titles[pid].partition(" on ")[2] for pid in pids}
        assert {titles[pid] for pid in pids} == {f"worker {pid} on {of[pid]}" for pid in pids}
        assert set(of.values()) == names and titles[os.getpid()] == "driver"
    runs = {e["name"]: e for e in timeline.events() if e["ph"] == "X" and e["cat"] == "task"}
    assert (runs["parent"]["pid"], runs["child"]["pid"]) == of_parent


def test_spans_have_nodes(two):
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from skate.util import tracing

    def exported():
        """The spans of what has ended since the last call, by their names."""
        seen, provider = InMemorySpanExporter(), sdk.TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(seen))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tracing.otel_trace, "get_tracer", provider.get_tracer)
            assert tracing.export_spans() == len(seen.get_finished_spans())
        return {s.name.rpartition(".")[2]: s for s in seen.get_finished_spans()}

    skate.get(parent.remote())
    spans = exported()
    assert spans["child"].parent.span_id == spans["parent"].context.span_id
    (node,) = {s.attributes["skate.node_id"] for s in spans.values()}
    assert node in {n.node_id for n in state.list_nodes()}
    assert exported() == {}
    skate.get(large.remote())
    assert exported().keys() == {"large"}


def test_processes_of_two_machines_may_have_one_number():
    def task(id, node, pid=7):
        return timeline.Task(id, 0, 0, 1, 2, 3, "f", pid, 0, False, "", node)

    events = timeline._trace([task(1, 1), task(2, 2), task(3, 1)], 9, 5, [], {1: "a", 2: "b"})
    titles = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert sorted(titles.values()) == ["driver", "worker 7 on a", "worker 7 on b"]
    slices = [titles[e["pid"]] for e in events if e["ph"] == "X" and e["cat"] == "task"]
    assert slices == ["worker 7 on a", "worker 7 on a", "worker 7 on b"]


RECORDED = """
import skate
skate.init(num_cpus=2, _system_config={"nodes": 2})
@skate.remote
def f(x):
    return x
assert skate.get([f.remote(i) for i in range(20)]) == list(range(20))
skate.shutdown()
"""


def test_a_record_has_nodes(tmp_path):
    file = tmp_path / "record"
    subprocess.run(
        [sys.executable, "-c", RECORDED],
        env={**os.environ, "SKATE_TRACE": str(file)},
        check=True,
        timeout=100,
    )
    seen = view.snapshot(str(file))
    assert (seen["ended"], seen["tasks"]["done"]) == ("closed", 20)
    assert [n["number"] for n in seen["nodes"]] == [1, 2]
    titles = [e["args"]["name"] for e in timeline.events_of(str(file)) if e["ph"] == "M"]
    assert any(" on " in title for title in titles)


# ---- a node that does not answer, and one that is lost


def test_a_node_that_does_not_answer_is_named_in_time(two, gate):
    refs = held_on_each(gate)
    (slow,) = {stack.engines(t.worker_pid)[0][0] for t in running()[:1]}
    stop(slow)
    try:
        began = time.monotonic()
        try:
            state.list_tasks()
        except RayStateApiException as e:
            assert "did not answer in time, and its rows" in str(e)
            assert time.monotonic() - began < 4.0  # it waits for two seconds
        else:  # the machine is so busy that the node was silent for five seconds
            assert [n.state for n in state.list_nodes()].count("DEAD") == 1
            return
        view.own()  # asks nobody
    finally:
        os.kill(slow, signal.SIGCONT)
    assert len(running()) == 2
    gate.let_go(2)
    skate.get(refs)


def test_a_late_get_asks_a_silent_node_once(two, gate):
    refs = held_on_each(gate)
    (slow,) = {stack.engines(t.worker_pid)[0][0] for t in running()[:1]}
    stop(slow)
    try:
        began = time.monotonic()
        with pytest.raises(skate.exceptions.GetTimeoutError, match="2 of 2"):
            skate.get(refs, timeout=0.2)
        assert time.monotonic() - began < 3.5  # an answer is waited for for two seconds
    finally:
        os.kill(slow, signal.SIGCONT)
    gate.let_go(2)
    skate.get(refs)


def test_a_lost_node_is_no_part_of_it_any_more(two, gate):
    refs = held_on_each(gate)
    wait_until(lambda: len(of_view()) == 2)
    gone = running()[0]
    os.kill(stack.engines(gone.worker_pid)[0][0], signal.SIGKILL)
    wait_until(lambda: [n.state for n in state.list_nodes()].count("DEAD") == 1)
    wait_until(lambda: sorted(n["state"] for n in view.own()["nodes"]) == ["alive", "gone"])
    assert {n.node_id for n in state.list_nodes() if n.state == "DEAD"} == {gone.node_id}
    left = {n.node_id for n in state.list_nodes()} - {gone.node_id}
    assert {w.node_id for w in state.list_workers() if w.worker_type == "WORKER"} == left
    wait_until(lambda: len({w["node"] for w in view.own()["workers"]}) == 1)
    # both run on the node that is left, one after the other
    gate.let_go(2)
    skate.get(refs)
    assert {t.node_id for t in state.list_tasks()} == left
    wait_until(lambda: view.own()["tasks"]["running"] == 0)


def test_what_was_seen_stays_when_all_nodes_are_lost(two):
    skate.get([child.remote() for _ in range(4)])
    wait_until(lambda: view.own()["tasks"]["done"] == 4)
    for pid in {stack.engines(w.pid)[0][0] for w in state.list_workers() if w.pid != os.getpid()}:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: [n["state"] for n in view.own()["nodes"]] == ["gone"] * 2)
    assert view.own()["tasks"]["done"] == 4
    assert state.list_tasks() == [] and skate._skate.status()["nodes"] == 0
