"""Metrics that tasks and actors count are in the driver's text for Prometheus."""

import os
import signal

import pytest
from prometheus_client.parser import text_string_to_metric_families
from skate._private import metrics_board
from skate.util.metrics import Counter, Gauge, Histogram, prometheus_text


@pytest.fixture
def ray(fresh):
    if fresh.engine != "local":
        pytest.skip("without workers, tasks count in the driver's process")
    return fresh(num_cpus=2, num_gpus=0)


def values(name):
    """{tags: value} of the samples of that name."""
    return {
        tuple(s.labels.values()): s.value
        for f in text_string_to_metric_families(prometheus_text().decode())
        for s in f.samples
        if s.name == name
    }


def test_tasks_actors_and_the_driver(ray):
    c = Counter("test_rows", "Rows.", ("k",))
    h = Histogram("test_took", "Times.", boundaries=[1, 10])

    @ray.remote
    def f(i):
        c.inc(2, {"k": str(i % 2)})
        h.observe(i)

    @ray.remote
    class A:
        def __init__(self):
            self.own = Counter("test_own")

        def f(self):
            c.inc(1, {"k": "actor"})
            self.own.inc()
            return self.own.values

    c.inc(5, {"k": "0"})
    h.observe(0.5)
    ray.get([f.remote(i) for i in range(20)])
    a = A.remote()
    assert ray.get([a.f.remote(), a.f.remote()])[1] == {(): 2.0}
    assert values("test_rows_total") == {("0",): 25.0, ("1",): 20.0, ("actor",): 2.0}
    assert values("test_own_total") == {(): 2.0}
    assert values("test_took_bucket") == {("1.0",): 3, ("10.0",): 12, ("+Inf",): 21}
    assert values("test_took_sum") == {(): 190.5}
    assert c.values == {(("k", "0"),): 5.0}


def test_the_gauge_that_was_set_last(ray):
    g = Gauge("test_last")
    f = ray.remote(lambda i: g.set(i))
    ray.get(f.remote(1))
    g.set(2)
    assert values("test_last") == {(): 2}
    ray.get(f.remote(3))
    assert values("test_last") == {(): 3}


def test_numbers_of_workers_that_ended_stay(ray):
    c = Counter("test_deaths")

    @ray.remote(max_calls=1)
    def ends():
        c.inc()
        return os.getpid()

    @ray.remote(max_retries=0)
    def killed():
        c.inc()
        os.kill(os.getpid(), signal.SIGKILL)

    pids = ray.get([ends.remote() for _ in range(8)])
    for _ in range(2):
        with pytest.raises(ray.exceptions.WorkerCrashedError):
            ray.get(killed.remote())
    assert len(set(pids)) == 8
    assert values("test_deaths_total") == {(): 10}


def test_slots_are_taken_over(ray):
    c = Counter("test_slots")

    @ray.remote(max_calls=1, num_cpus=2)
    def alone():
        c.inc()
        return os.getpid(), int(metrics_board.mine()._fields[0])

    for _ in range(5):  # one after the other: whoever comes has to wait for both CPUs
        pid, owner = ray.get(alone.remote())
        assert pid == owner
    assert values("test_slots_total") == {(): 5}
    used = [name for name, _ in metrics_board.read() if name[1] == "test_slots"]
    assert 1 <= len(used) <= 2  # the one before may not have ended when the next one counts


def test_a_child_of_a_task_counts_for_itself(ray):
    c = Counter("test_children")

    @ray.remote
    def f():
        c.inc()
        if not (pid := os.fork()):
            c.inc(100)
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    assert ray.get(f.remote()) == 0
    assert values("test_children_total") == {(): 1}


def test_functions_of_a_dataset(ray):
    c = Counter("test_batches")

    def f(batch):
        c.inc(len(batch["id"]))
        return batch

    assert ray.data.range(100, override_num_blocks=4).map_batches(f).materialize().count() == 100
    assert values("test_batches_total") == {(): 100}


def test_a_slot_that_is_full(ray):
    @ray.remote
    def f():
        c = Counter("test_many", "m" * 100, ("i",))
        for i in range(5000):
            c.inc(1, {"i": str(i)})
        return len(c.values)

    assert ray.get(f.remote()) == 5000
    found = values("test_many_total")
    assert 500 < len(found) < 5000 and set(found.values()) == {1}


def test_a_new_engine_begins_at_zero(fresh):
    c = Counter("test_engines")
    for _ in range(2):
        ray = fresh(num_cpus=2, num_gpus=0)
        ray.get(ray.remote(lambda: c.inc()).remote())
        assert values("test_engines_total") == {(): 1}
    ray.shutdown()
    assert list(metrics_board.read()) == []


def test_a_program_that_closes_the_descriptor_of_the_board(ray, tmp_path):
    c = Counter("test_closed")
    ray.get(ray.remote(lambda: c.inc()).remote())
    assert values("test_closed_total") == {(): 1}
    number = metrics_board._fd
    with open(tmp_path / "mine", "w") as mine:
        os.dup2(mine.fileno(), number)
    try:
        assert values("test_closed_total") == {}
        ray.shutdown()
        assert os.path.samestat(os.fstat(number), os.stat(tmp_path / "mine"))
    finally:
        os.close(number)


def test_where_there_is_no_board():
    assert metrics_board._taken(os.getpid(), 0) is None
    assert metrics_board._taken(os.getpid(), 987654) is None
