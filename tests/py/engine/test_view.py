"""Snapshots of an engine: what others can see of its counters, workers, runs and errors."""

import json
import os
import sys
import threading

import pytest
from engine.waits import wait_at, wait_until
from skate._private import timeline, view


def local(engine):
    if engine != "local":
        pytest.skip("this engine has no view")


def test_an_engine_without_a_view_says_so(ray, engine):
    if engine == "local":
        pytest.skip("it has a view")
    with pytest.raises(LookupError, match="has no view"):
        view.own()


def test_counts_tasks_and_says_what_workers_do(ray, engine, gate):
    local(engine)
    path = gate.path

    @ray.remote(num_cpus=1)
    def held():
        wait_at(path)

    @ray.remote(max_retries=0)
    def wrong():
        raise ValueError("x")

    before = view.own()["tasks"]
    refs = [held.remote() for _ in range(6)]
    wait_until(lambda: view.own()["tasks"]["running"] == 4)
    wait_until(lambda: sum(w["task"].endswith("held") for w in view.own()["workers"]) == 4)
    seen = view.own()
    assert seen["tasks"]["queued"] == 2
    assert all(w["seconds"] >= 0 for w in seen["workers"] if w["task"])
    gate.let_go(6)
    ray.get(refs)
    with pytest.raises(ValueError, match="x"):
        ray.get(wrong.remote())
    wait_until(lambda: view.own()["tasks"]["failed"] == before["failed"] + 1)
    after = view.own()["tasks"]
    assert after["done"] == before["done"] + 6
    assert (after["running"], after["queued"]) == (0, 0)


def test_shows_the_engine_and_its_program(ray, engine):
    local(engine)
    seen = view.own()
    json.dumps(seen)
    assert (seen["version"], seen["pid"], seen["live"]) == (1, os.getpid(), True)
    assert (seen["ended"], seen["cpus"], seen["gpus"]) == (None, 4.0, 0.0)
    assert seen["store"]["capacity"] == 256 << 20
    assert seen["program"] == " ".join(sys.argv)[:200]
    wait_until(lambda: view.own()["seconds"] > seen["seconds"])


def test_a_task_sees_the_engine_of_its_driver(ray, engine):
    local(engine)

    @ray.remote
    def of_the_driver():
        return view.own()["pid"], view.snapshot(os.getpid())["pid"]

    assert ray.get(of_the_driver.remote()) == (os.getpid(), os.getpid())


def test_shows_a_run_while_it_goes_on_and_after_it(ray, engine, gate):
    local(engine)
    path = gate.path

    def second(batch):
        if batch["id"][0] >= 500:
            wait_at(path)
        return batch

    ds = ray.data.range(1000, override_num_blocks=2).map_batches(second, batch_size=None)
    thread = threading.Thread(target=ds.materialize)
    thread.start()
    wait_until(lambda: view.own()["runs"][-1:] and view.own()["runs"][-1]["state"] == "running")
    wait_until(lambda: view.own()["runs"][-1]["ops"][0]["done"] == 1)
    run = view.own()["runs"][-1]
    (op,) = run["ops"]
    assert (run["state"], op["total"], op["rows_out"], op["running"]) == ("running", 2, 500, 1)
    assert [f["label"] for f in op["fused"]] == ["ReadRange", "MapBatches(second)"]
    gate.let_go(1)
    thread.join()
    run = view.own()["runs"][-1]
    (op,) = run["ops"]
    assert (run["state"], op["done"], op["rows_out"]) == ("done", 2, 1000)
    assert op["inputs"] == [] and op["exchange"] is None and run["ops_left_out"] == 0
    samples = run["samples"]
    assert samples["t"] == sorted(samples["t"]) and 0 <= samples["t"][0] <= run["seconds"]
    assert {len(v) for v in [*samples.values(), *samples["queued"]]} == {len(samples["t"]), 1}


def test_shows_exchanges_failures_and_stops(ray, engine):
    local(engine)
    assert ray.data.range(100).random_shuffle().materialize().count() == 100
    op = view.own()["runs"][-1]["ops"][-1]
    assert op["exchange"]["phase"] == "done" and op["exchange"]["taken_bytes"] > 0

    def bad(batch):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        ray.data.range(10).map_batches(bad).materialize()
    assert view.own()["runs"][-1]["state"] == "failed"
    it = ray.data.range(1000, override_num_blocks=10).iter_batches(batch_size=10)
    next(it)
    it.close()
    runs = view.own()["runs"]
    assert runs[-1]["state"] == "stopped"
    assert [r["id"] for r in runs] == sorted(r["id"] for r in runs)


def test_keeps_the_last_runs_and_the_last_errors(ray, engine):
    local(engine)
    for _ in range(20):
        ray.data.range(1).materialize()
    ids = [r["id"] for r in view.own()["runs"]]
    assert len(ids) == 16 and ids == list(range(ids[0], ids[0] + 16))

    @ray.remote(max_retries=0)
    def wrong(i):
        raise ValueError(i)

    for i in range(20):
        with pytest.raises(ValueError):
            ray.get(wrong.remote(i))
    errors = view.own()["errors"]
    assert [e["text"] for e in errors] == [f"ValueError: {i}" for i in range(4, 20)]
    assert "wrong" in errors[0]["operator"]


def test_shows_the_errors_that_the_program_gets(ray, engine):
    local(engine)

    @ray.remote(max_retries=0)
    def wrong():
        raise ValueError("one\ntwo")

    @ray.remote(max_retries=0)
    def dies():
        os._exit(3)

    def bad(batch):
        raise KeyError("k")

    with pytest.raises(ValueError, match="one"):
        ray.get(wrong.remote())
    with pytest.raises(ray.exceptions.WorkerCrashedError):
        ray.get(dies.remote())
    with pytest.raises(KeyError):
        ray.data.range(10).map_batches(bad).materialize()
    *_, first, second, third = view.own()["errors"]
    assert first["text"] == "ValueError: one" and first["operator"].endswith("wrong")
    assert first["replay"] == "" and "exit" in second["text"]
    assert third["text"].startswith("KeyError") and "MapBatches(bad)" in third["operator"]
    assert len(third["replay"]) == 8
    assert first["seconds"] <= second["seconds"] <= third["seconds"] <= view.own()["seconds"]


def test_the_timeline_of_an_engine_that_goes_on(ray, engine, gate):
    local(engine)
    path = gate.path

    @ray.remote
    def held():
        wait_at(path)

    @ray.remote
    def quick():
        return os.getpid()

    pid = ray.get(quick.remote())
    ref = held.remote()
    wait_until(lambda: any(w["task"].endswith("held") for w in view.own()["workers"]))
    wait_until(lambda: view.own()["samples"]["done"][-1] > 0)
    own, other = timeline.events(), timeline.events_of(os.getpid())
    gate.let_go()
    ray.get(ref)
    for events in (own, other):
        runs = {e["name"]: e for e in events if e["ph"] == "X" and e["cat"] == "task"}
        quick_run = next(e for name, e in runs.items() if name.endswith("quick"))
        held_run = next(e for name, e in runs.items() if name.endswith("held"))
        assert quick_run["pid"] == pid and held_run["dur"] >= 0
        counters = {e["name"] for e in events if e["ph"] == "C"}
        assert {"object store (bytes)", "tasks"} <= counters


def test_counts_values_of_a_program_without_tasks():
    import skate

    skate.shutdown()
    skate.init(num_cpus=1, object_store_memory=64 << 20)
    refs = []

    def used():
        refs.append(skate.put(bytes(1 << 20)))
        return view.own()["store"]["used"] >= 1 << 20

    wait_until(used)
    assert view.own()["store"]["objects"] >= 1 and view.own()["workers"] == []
    skate.shutdown()


def test_long_plans_say_how_much_is_left_out(ray, engine):
    local(engine)
    ds = ray.data.range(10)
    for i in range(35):
        ds = ds.map_batches(lambda b: b, num_cpus=1 if i % 2 else 0.5)
    assert ds.materialize().count() == 10
    run = view.own()["runs"][-1]
    assert len(run["ops"]) == 32 and run["ops_left_out"] == 4
    assert len(run["samples"]["queued"]) == 32


def test_says_what_is_wrong(ray, engine, tmp_path):
    with pytest.raises(LookupError, match="no process 2147483647"):
        view.snapshot(2147483647)
    with pytest.raises(LookupError, match="No such file"):
        view.snapshot(tmp_path / "none")
    with pytest.raises(LookupError, match="Is a directory"):
        view.snapshot(str(tmp_path))
    (tmp_path / "text").write_text("hello")
    with pytest.raises(LookupError, match="not a record of a skate program; SKATE_TRACE"):
        view.snapshot(str(tmp_path / "text"))
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(LookupError, match="not a record"):
        view.snapshot(str(tmp_path / "fifo"))
    (tmp_path / "cut").write_bytes(b"1SKTVIEW" + bytes(1000))
    with pytest.raises(ValueError, match="damaged"):
        view.snapshot(str(tmp_path / "cut"))
    newer = b"1SKTVIEW" + (3).to_bytes(4, "little") + bytes(1000)
    (tmp_path / "newer").write_bytes(newer)
    with pytest.raises(ValueError, match="made by a newer skate"):
        view.snapshot(str(tmp_path / "newer"))
    (tmp_path / "older").write_bytes(b"1SKTVIEW" + (1).to_bytes(4, "little") + bytes(1000))
    with pytest.raises(ValueError, match="made by an older skate"):
        view.snapshot(str(tmp_path / "older"))
    with pytest.raises(LookupError, match="does not run skate"):
        view.snapshot(os.getppid())
