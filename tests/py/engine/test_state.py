"""State lists, timeline and memory summary: the engine's reports about itself."""

import json
import os
import re
import signal
import time

import pytest
from skate.util import state
from skate.util.state.exception import RayStateApiException, ServerUnavailable
from waits import wait_at, wait_until


def test_tasks_that_ended(fresh):
    ray = fresh()

    @ray.remote
    def plain():
        return 1

    @ray.remote
    def nested():
        return ray.get(plain.remote()), os.getpid()

    @ray.remote(max_retries=0)
    def bad():
        raise ValueError("as told")

    ray.get([plain.remote() for _ in range(3)])
    _, pid = ray.get(nested.options(name="outside").remote())
    with pytest.raises(ValueError):
        ray.get(bad.remote())
    rows = state.list_tasks(detail=True)
    assert [r.func_or_class_name for r in rows].count("plain") == 4
    outer = next(r for r in rows if r.func_or_class_name == "nested")
    assert (outer.name, outer.state, outer.type, outer.attempt_number) == (
        "outside",
        "FINISHED",
        "NORMAL_TASK",
        0,
    )
    assert (
        outer.worker_pid == pid
        and outer["worker_pid"] == pid
        and outer.required_resources == {"CPU": 1.0}
    )
    assert outer.creation_time_ms <= outer.start_time_ms <= outer.end_time_ms
    assert abs(outer.end_time_ms / 1e3 - time.time()) < 300
    assert [r.name for r in rows if r.parent_task_id == outer.task_id] == (
        ["plain"] if fresh.engine == "local" else []
    )
    failed = state.list_tasks(filters=[("state", "=", "failed")], detail=True)
    assert [(r.name, r.error_type) for r in failed] == [("bad", "TASK_EXECUTION_EXCEPTION")]
    assert "ValueError: as told" in failed[0].error_message
    assert len(state.list_tasks(filters=[("state", "!=", "FAILED"), ("name", "=", "plain")])) == 4
    assert state.get_task(outer.task_id) == outer
    assert state.get_task(ray.TaskID.from_random().hex()) is None


def test_get_task_of_a_ref(fresh):
    ray = fresh()

    @ray.remote
    def f():
        return 1

    ref = f.remote()
    ray.get(ref)
    assert state.get_task(ref).name == "f"


def test_each_attempt_is_a_row(fresh):
    ray = fresh()

    @ray.remote(max_retries=2, retry_exceptions=True)
    def f():
        if ray.get_runtime_context().get_attempt_number() < 2:
            raise ValueError

    ref = f.remote()
    ray.get(ref)
    rows = state.get_task(ref)
    assert [(r.attempt_number, r.state) for r in rows] == [
        (0, "FAILED"),
        (1, "FAILED"),
        (2, "FINISHED"),
    ]
    assert all(r.start_time_ms for r in rows)


def test_a_worker_that_died(tmp_path):
    import skate as ray

    ray.shutdown()
    ray.init(num_cpus=1, object_store_memory=64 << 20)

    @ray.remote(max_retries=1)
    def f():
        if ray.get_runtime_context().get_attempt_number() == 0:
            os.kill(os.getpid(), 9)
        return os.getpid()

    ref = f.remote()
    pid = ray.get(ref)
    first, second = state.get_task(ref)
    assert (first.state, first.error_type, second.state, second.worker_pid) == (
        "FAILED",
        "WORKER_DIED",
        "FINISHED",
        pid,
    )
    assert "killed by signal 9" in first.error_message and first.worker_pid not in (None, pid)
    ray.shutdown()


def test_tasks_under_way(fresh, gate):
    ray = fresh(num_cpus=1)
    if fresh.engine == "inline":
        ref = ray.remote(wait_at).remote(gate.path)
        # the inline engine runs a task when a caller waits for it
        assert [r.state for r in state.list_tasks()] == ["PENDING_NODE_ASSIGNMENT"]
        gate.let_go()
        ray.get(ref)
        return
    started = gate.path + ".started"
    os.mkfifo(started)
    fd = os.open(started, os.O_RDWR)

    @ray.remote
    def hold(path):
        with open(started, "wb", 0) as f:
            f.write(b"s")
        wait_at(path)

    @ray.remote
    def after(x):
        return x

    refs = [hold.remote(gate.path), hold.remote(gate.path)]
    last = after.remote(refs[1])
    os.read(fd, 1)
    rows = {r.task_id: r for r in state.list_tasks(detail=True)}
    got = [rows[r.task_id().hex()] for r in [*refs, last]]
    assert (
        got[0].state == "RUNNING"
        and got[0].start_time_ms
        and not got[0].end_time_ms
        and got[0].worker_pid
    )
    assert got[1].state in ("PENDING_NODE_ASSIGNMENT", "SUBMITTED_TO_WORKER")
    assert got[2].state == "PENDING_ARGS_AVAIL"
    assert state.get_objects(last.hex())[0].task_status == "WAITING_FOR_DEPENDENCIES"
    gate.let_go(2)
    assert ray.get(last) is None
    assert {r.state for r in state.list_tasks()} == {"FINISHED"}
    os.close(fd)


def test_actors(fresh):
    ray = fresh()

    @ray.remote
    class A:
        def m(self):
            return os.getpid()

    @ray.remote
    class B:
        def __init__(self):
            raise KeyError("never")

        def m(self):
            return ray.get_runtime_context().get_task_name()

    a = A.options(name="joe").remote()
    pid = ray.get(a.m.remote())
    b = B.remote()
    with pytest.raises(Exception, match="never"):
        ray.get(b.m.remote())
    rows = {r.class_name: r for r in state.list_actors(detail=True)}
    assert (rows["A"].state, rows["A"].name, rows["A"].pid, rows["A"].num_restarts) == (
        "ALIVE",
        "joe",
        pid,
        0,
    )
    assert (
        rows["A"].ray_namespace == ray.get_runtime_context().namespace
        and rows["A"].death_cause is None
    )
    assert (
        rows["B"].state == "DEAD"
        and "never" in rows["B"].death_cause["actor_died_error_context"]["error_message"]
    )
    assert state.get_actor(rows["A"].actor_id) == rows["A"]
    ray.kill(a)
    del b
    assert state.summarize_actors()["cluster"]["summary"]["B"]["state_counts"] == {"DEAD": 1}
    assert [r.state for r in state.list_actors(filters=[("class_name", "=", "a")])] == ["DEAD"]


def test_a_method_goes_by_its_own_class(fresh):
    ray = fresh()

    class Base:
        def m(self):
            return ray.get_runtime_context().get_task_name()

    a, b = (ray.remote(type(name, (Base,), {})).remote() for name in ("First", "Second"))
    assert ray.get(
        [a.m.remote(), b.m.remote(), b.m.options(name="other").remote(), b.m.remote()]
    ) == [
        "First.m",
        "Second.m",
        "other",
        "Second.m",
    ]
    # "m" is the name of the call with its own name
    names = {"First.__init__", "Second.__init__", "First.m", "Second.m", "m"}
    assert set(state.summarize_tasks()["cluster"]["summary"]) == names


def test_objects(fresh):
    import numpy as np

    ray = fresh()
    big, small = ray.put(np.zeros(1 << 16)), ray.put(1)
    boxed = ray.put([small])
    rows = {r.object_id: r for r in state.list_objects()}
    assert set(rows) == {big.hex(), small.hex(), boxed.hex()}
    assert (
        rows[big.hex()].object_size >= 8 << 16
        and rows[big.hex()].reference_type == "LOCAL_REFERENCE"
    )
    assert rows[big.hex()].pid == os.getpid() and rows[big.hex()].type == "DRIVER"
    inner = small.hex()
    del small
    # only the object `boxed` holds it
    assert [r.reference_type for r in state.get_objects(inner)] == ["USED_BY_PENDING_TASK"]
    total = state.summarize_objects()["cluster"]
    assert total["total_objects"] == 3 and total["total_size_mb"] >= 0.5
    del boxed
    assert state.get_objects(inner) == []


def test_from_a_task(fresh):
    ray = fresh()

    @ray.remote
    def look():
        return [
            len(f())
            for f in (
                state.list_tasks,
                state.list_actors,
                state.list_objects,
                state.list_workers,
                state.list_nodes,
            )
        ]

    tasks, actors, objects, workers, nodes = ray.get(look.remote())
    assert (tasks, actors, nodes) == (1, 0, 1) and objects >= 1 and workers >= 1


def test_many(fresh):
    ray = fresh()

    @ray.remote
    def f():
        pass

    ray.get([f.remote() for _ in range(10500)])
    assert state.summarize_tasks()["cluster"]["total_tasks"] == 10000  # the newest ones
    with pytest.warns(UserWarning, match="10000"):
        assert len(state.list_tasks(limit=7)) == 7


def test_other_lists(fresh):
    ray = fresh(resources={"widget": 1})
    group = ray.util.placement_group([{"CPU": 1}], name="g")
    ray.get(group.ready())
    row = state.get_placement_group(group.id.hex())
    assert (row.name, row.state) == ("g", "CREATED")
    assert sum(n.resources_total.get("widget", 0) for n in state.list_nodes()) == 1
    driver = state.list_workers(filters=[("worker_type", "=", "DRIVER")])
    assert [w.pid for w in driver] == [os.getpid()]
    assert (
        state.get_node(state.list_nodes()[0].node_id) and state.list_jobs()[0].status == "RUNNING"
    )


def test_what_cannot_be_listed(ray):
    with pytest.raises(ValueError, match="filters: .>. in .*: = and != are there"):
        state.list_tasks(filters=[("name", ">", "a")])
    with pytest.raises(ValueError, match="nme is not supported.*name"):
        state.list_tasks(filters=[("nme", "=", "a")])
    with pytest.raises(RayStateApiException, match="10001"):
        state.list_tasks(limit=10001)
    with pytest.raises(ServerUnavailable):
        state.list_actors(address="1.2.3.4:5")


def test_timeline(fresh, tmp_path):
    ray = fresh()

    @ray.remote
    def child():
        pass

    @ray.remote
    def parent():
        ray.get(child.remote())
        return os.getpid()

    @ray.remote(max_concurrency=2)
    class Wide:
        def m(self):
            pass

    pid = ray.get(parent.remote())
    wide = Wide.remote()
    ray.get([wide.m.remote() for _ in range(4)])
    path = tmp_path / "t.json"
    assert ray.timeline(str(path)) is None
    events = json.loads(path.read_text())
    assert len(events) == len(ray.timeline())
    runs = {e["name"]: e for e in events if e["ph"] == "X" and e["cat"] == "task"}
    assert runs["parent"]["pid"] == pid and set(runs) == {
        "parent",
        "child",
        "Wide.__init__",
        "Wide.m",
    }
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    for e in events:
        if e["ph"] == "f":
            assert starts[e["id"]]["ts"] <= e["ts"]
    slices = sorted(
        (e["tid"], e["ts"], e["dur"]) for e in events if e["ph"] == "X" and e["cat"] == "task"
    )
    for (tid, ts, dur), (tid2, ts2, _) in zip(slices, slices[1:]):
        # in the inline engine, tasks run inside those that wait for them
        if fresh.engine == "local":
            assert tid != tid2 or ts + dur <= ts2 + 0.001  # no two overlap in a lane


def test_memory_summary(fresh):
    import numpy as np

    ray = fresh()
    from skate._private.internal_api import memory_summary

    ref = ray.put(np.zeros(1 << 17))
    text = memory_summary()
    assert ref.hex() in text and "1 objects, 1.0 MiB" in text
    stats = memory_summary(stats_only=True)
    assert ref.hex() not in stats and (
        fresh.engine == "inline"
        or re.search(r"Plasma memory usage 1 MiB, 1 objects, \d\.\d+% full", stats)
    )
    with pytest.raises(ValueError, match="units"):
        memory_summary(units="XB")


def test_all_custom_resources_are_told(fresh):
    """Resources beyond the first 13 have no column of their own in the engine's rows."""
    ray = fresh(resources={f"r{i}": 2 for i in range(20)})

    @ray.remote(num_cpus=0, resources={"r2": 1, "r15": 2, "r19": 0.5})
    def f():
        return 1

    @ray.remote(num_cpus=0, resources={"r18": 1})
    class A:
        def m(self):
            return 2

    a = A.remote()
    assert ray.get([f.remote(), a.m.remote()]) == [1, 2]
    tasks = {r.name: r.required_resources for r in state.list_tasks(detail=True)}
    assert tasks["f"] == {"r2": 1, "r15": 2, "r19": 0.5}
    assert [r.required_resources for r in state.list_actors(detail=True)] == [{"r18": 1}]
    ray.kill(a)


def test_the_older_name_of_the_state_api():
    from skate.experimental.state import api as older
    from skate.util.state import api

    assert all(
        getattr(older, n) is getattr(api, n)
        for n in dir(older)
        if n.startswith(("list_", "get_", "summarize_"))
    )


def test_workers_that_have_ended(fresh):
    ray = fresh()
    if fresh.engine != "local":
        pytest.skip("an actor of its has no process")

    @ray.remote
    class A:
        def where(self):
            return ray.get_runtime_context().get_worker_id(), os.getpid()

    a = A.remote()
    worker, pid = ray.get(a.where.remote())
    assert state.get_worker(worker).is_alive and state.get_worker(worker).exit_type is None
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not state.get_worker(worker).is_alive)
    w = state.get_worker(worker)
    assert (
        w.exit_type == "SYSTEM_ERROR"
        and w.exit_detail.startswith("SIGTERM: ")
        and w.end_time_ms > 0
        and w.pid == pid
    )
    b = A.remote()
    worker, pid = ray.get(b.where.remote())
    ray.kill(b)
    wait_until(lambda: (w := state.get_worker(worker)) and not w.is_alive)
    w = state.get_worker(worker)
    assert w.exit_type == "INTENDED_SYSTEM_EXIT" and "SIGKILL" not in w.exit_detail
    assert {r.worker_id for r in state.list_workers(filters=[("is_alive", "=", False)])} >= {worker}


def test_the_task_of_a_ref_from_another_process(fresh, gate):
    ray = fresh()
    path = gate.path

    @ray.remote
    def waits():
        wait_at(path)

    @ray.remote
    def begins():
        ref = waits.remote()
        return [ref], ref.task_id().hex()

    if fresh.engine != "local":
        gate.let_go()  # the inline engine runs the task before the list is requested
    (ref,), task = ray.get(begins.remote())
    if fresh.engine == "local":
        assert ref.task_id().hex() == task and state.get_task(task).name == "waits"
        gate.let_go()
    ray.get(ref)
