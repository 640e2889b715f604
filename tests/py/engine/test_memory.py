"""One budget for the object store and the heaps of the workers. The rules are tested in
tests/c/test_engine_memory.c; tests/c/test_engine_oom.c has C tasks and a real cgroup."""

import gc
import os
import time

import pytest
import skate
from skate import _skate, config
from waits import wait_at, wait_until

MIB = 1 << 20


@pytest.fixture
def start():
    """start(limit in MiB, **options of init) -> skate."""

    def go(limit=300, **kw):
        skate.shutdown()
        given = {"memory_limit": limit * MIB, "preload": "light_pytest"}
        given |= kw.pop("_system_config", {})
        skate.init(**{"num_cpus": 3, "object_store_memory": 80 * MIB, **kw}, _system_config=given)
        return skate

    yield go
    skate.shutdown()


def eat(mib):
    return [b"x" * MIB for _ in range(mib)]


def hog(mib):
    return len(eat(mib))


def test_the_message_names_who_and_how_much(start):
    ray = start()
    f = ray.remote(hog)
    with pytest.raises(ray.exceptions.OutOfMemoryError) as e:
        ray.get(f.options(name="the_hog").remote(3000))
    lines = str(e.value).splitlines()
    assert (
        lines[0].startswith("task the_hog ran out of memory: it had grown to ")
        and "of 300 MiB" in lines[0]
        and "memory_limit" in lines[0]
    )
    assert lines[1] == "It had been stopped before, and ran alone this time."
    assert "batches" in lines[2] and "memory=" in lines[2] and len(lines) == 3
    assert _skate.status()["memory_stops"] == 2
    with pytest.raises(ray.exceptions.OutOfMemoryError, match="its max_retries is 0"):
        ray.get(f.options(max_retries=0).remote(3000))
    assert ray.get(f.remote(50)) == 50


def test_a_little_that_is_free_in_the_store_keeps_no_process(start):
    """Pages of the store that were free, but too few to be given back, were waited for for ever,
    and no process was stopped."""
    ray = start()
    kept = [ray.put(b"x" * 20_000) for _ in range(2)]
    assert len(ray.get(kept[0])) == 20_000
    del kept[0]
    gc.collect()
    wait_until(lambda: 0 < _skate.status()["store_warm_bytes"] < 1 << 16)
    with pytest.raises(ray.exceptions.OutOfMemoryError):
        ray.get(ray.remote(hog).options(max_retries=0).remote(1000))


def test_together_too_much_alone_enough(start, tmp_path):
    ray = start()

    @ray.remote(max_retries=1)
    def work(i, folder):
        x = eat(70)
        (folder / str(i)).touch()
        if not any(folder.glob("again*")):  # by then all have their first half
            wait_until(lambda: len(list(folder.glob("[0-9]"))) == 3 or any(folder.glob("again*")))
        if ray.get_runtime_context().get_task_id() in seen(folder):
            (folder / f"again{i}").touch()
        seen(folder, ray.get_runtime_context().get_task_id())
        x += eat(60)
        return len(x)

    def seen(folder, add=None):
        path = folder / "seen"
        if add:
            with open(path, "a") as f:
                f.write(add + "\n")
        return path.read_text().split() if path.exists() else []

    assert ray.get([work.remote(i, tmp_path) for i in range(3)]) == [130] * 3  # 390 of 300
    assert 1 <= _skate.status()["memory_stops"] <= 4 and _skate.status()["memory_alone"] == 0


def test_what_was_asked_for_is_the_share(start, gate):
    """Two tasks of equal size, one of which has declared its memory: the other one is stopped."""
    ray = start(limit=400)

    @ray.remote(max_retries=0)
    def hold(mib, path):
        x = eat(mib)
        wait_at(path)
        return len(x)

    said = hold.options(memory=250 * MIB).remote(180, gate.path)
    wait_until(lambda: _skate.memory()["heap_bytes"] > 180 * MIB)
    unsaid = hold.remote(3000, gate.path)
    with pytest.raises(
        ray.exceptions.OutOfMemoryError, match="its share was (1[0-9][0-9]|2[0-2][0-9]),"
    ):
        ray.get(unsaid)
    gate.let_go()
    assert ray.get(said) == 180 and _skate.status()["memory_stops"] == 1


def test_actor(start):
    ray = start()

    @ray.remote(max_restarts=1)
    class Leaker:
        def __init__(self):
            self.kept = []

        def leak(self, mib):
            self.kept += eat(mib)
            return len(self.kept)

    a = Leaker.remote()
    assert ray.get(a.leak.remote(30)) == 30
    with pytest.raises(ray.exceptions.OutOfMemoryError, match="leak.*grown to"):
        ray.get(a.leak.remote(3000))

    def there():  # as in Ray: a call without retries does not wait for the actor's next process
        try:
            return ray.get(a.leak.remote(5)) >= 5
        except ray.exceptions.ActorUnavailableError:
            return False

    wait_until(there)
    assert ray.get(a.leak.remote(5)) == 10  # the actor was restarted
    with pytest.raises(ray.exceptions.OutOfMemoryError):
        ray.get(a.leak.remote(3000))
    with pytest.raises(ray.exceptions.RayActorError, match="memory"):
        ray.get(a.leak.remote(5))


def test_objects_make_room_for_heaps(start, tmp_path):
    ray = start(
        limit=260,
        num_cpus=1,
        object_store_memory=160 * MIB,
        object_spilling_directory=str(tmp_path),
    )
    refs = [ray.put(bytes([i]) * (4 * MIB)) for i in range(32)]  # 128 MiB in all
    f = ray.remote(max_retries=0)(hog)
    assert ray.get([f.remote(170) for _ in range(4)]) == [170] * 4
    assert _skate.status()["memory_stops"] == 0 and _skate.status()["spilled_bytes"] > 0
    assert all(ray.get(r) == bytes([i]) * (4 * MIB) for i, r in enumerate(refs))


def test_pipeline(start):
    """Four batches at a time do not fit, one does: the job ends with the correct rows."""
    ray = start(limit=400, num_cpus=4)

    def fat(batch):
        x = eat(110)
        time.sleep(0.2)  # the work that needs the memory
        return {"id": batch["id"] + len(x)}

    ds = ray.data.range(12, override_num_blocks=12).map_batches(fat, batch_size=1)
    assert sorted(r["id"] for r in ds.take_all()) == [i + 110 for i in range(12)]


def test_pipeline_that_cannot(start):
    ray = start(limit=300)
    ds = ray.data.range(4, override_num_blocks=4).map_batches(
        lambda b: {"n": [len(eat(3000))]}, batch_size=None
    )
    with pytest.raises(ray.exceptions.OutOfMemoryError, match="(?s)ran out of memory.*ran alone"):
        ds.take_all()


def test_off_and_retries(start):
    ray = start(_system_config={"task_oom_retries": 0})
    with pytest.raises(ray.exceptions.OutOfMemoryError, match="task_oom_retries is 0"):
        ray.get(ray.remote(hog).remote(3000))
    ray = start(limit=100, _system_config={"memory_monitor_refresh_ms": 0})
    assert ray.get(ray.remote(hog).remote(300)) == 300
    assert _skate.status()["memory_stops"] == 0


def test_the_kernel_ends_workers_first(start):
    ray = start()

    def adjusted():
        with open("/proc/self/oom_score_adj") as f:
            return int(f.read())

    assert ray.get(ray.remote(adjusted).remote()) == 1000 > adjusted()


def test_usage_and_summary(start, gate):
    ray = start()

    @ray.remote
    def hold(mib, path):
        x = eat(mib)
        wait_at(path)
        return len(x)

    ref = hold.options(memory=100 * MIB).remote(60, gate.path)
    big = ray.put(b"x" * (8 * MIB))
    wait_until(lambda: ray.memory.usage()["heap_bytes"] > 60 * MIB)
    u = ray.memory.usage()
    (w,) = [w for w in u["workers"] if w["busy"]]
    assert w["name"].endswith("hold") and w["asked_bytes"] == 100 * MIB and not w["actor"]
    assert 60 * MIB < w["heap_bytes"] <= w["peak_bytes"] < 120 * MIB
    assert (
        u["limit_bytes"] == 300 * MIB
        and u["store_used_bytes"] >= 8 * MIB
        and u["store_limit_bytes"] == 80 * MIB
    )
    text = ray.memory.summary()
    assert "hold" in text.splitlines()[3] and "100 MiB" in text and "of 300 MiB" in text
    gate.let_go()
    assert ray.get(ref) == 60
    del big


def test_arrow_gives_back(start):
    """Memory that Arrow's allocator holds is given back when the worker is idle."""
    ray = start(limit=2000)

    @ray.remote
    def table():
        import pyarrow as pa

        parts = [pa.array(range(200_000)) for _ in range(40)]
        return len(parts), os.getpid()

    n, pid = ray.get(table.remote())
    (w,) = [w for w in ray.memory.usage()["workers"] if w["pid"] == pid]
    assert n == 40 and w["peak_bytes"] > 60 * MIB
    wait_until(lambda: ray.memory.usage()["heap_bytes"] < w["peak_bytes"] - 50 * MIB)


def test_memory_of_init_is_a_budget(start, monkeypatch):
    assert (
        config.resolve({"memory": 500 * MIB, "object_store_memory": 100 * MIB})["memory_limit"]
        == 600 * MIB
    )
    assert config.resolve({"memory": 500 * MIB, "memory_limit": 5})["memory_limit"] == 5
    # too little for a worker: the value only limits what tasks ask for
    assert config.resolve({"memory": 2})["memory_limit"] == 0
    assert config.resolve({})["memory_limit"] == 0
    monkeypatch.setenv("SKATE_MEMORY", str(200 * MIB))
    assert config.resolve({"object_store_memory": MIB})["memory_limit"] == 201 * MIB
    monkeypatch.delenv("SKATE_MEMORY")
    with pytest.raises(ValueError, match="memory_usage_threshold"):
        config.resolve({"memory_usage_threshold": 1.5})
    skate.shutdown()
    skate.init(num_cpus=1, _memory=200 * MIB, object_store_memory=50 * MIB)
    assert skate.memory.usage()["limit_bytes"] == 250 * MIB
    with pytest.raises(skate.exceptions.OutOfMemoryError, match="of 250 MiB"):
        skate.get(skate.remote(hog).remote(3000))


def test_flat_over_jobs(start):
    """Memory that jobs used is given back: five jobs leave no more than one."""
    ray = start(limit=1000)
    f = ray.remote(hog)

    def job():
        ray.get([f.remote(60) for _ in range(6)])
        gc.collect()

    job()
    wait_until(lambda: ray.memory.usage()["heap_bytes"] < 60 * MIB)
    for _ in range(5):
        job()
    wait_until(lambda: ray.memory.usage()["heap_bytes"] < 60 * MIB)
    assert _skate.status()["memory_stops"] == 0
