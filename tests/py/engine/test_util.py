"""skate.util: ActorPool, Queue, multiprocessing.Pool, joblib, helpers, progress bars."""

import asyncio
import builtins
import os
import threading

import numpy as np
import pytest
import skate
from skate.util import ActorPool, as_completed, map_unordered
from skate.util.multiprocessing import Pool, TimeoutError
from skate.util.queue import Empty, Full, Queue
from waits import wait_at, wait_until


@pytest.fixture(scope="module")
def ray():
    skate.shutdown()
    skate.init(
        num_cpus=4, object_store_memory=128 << 20, _system_config={"preload": "light_pytest"}
    )
    yield skate
    skate.shutdown()


class Doubler:
    def double(self, x):
        return 2 * x

    def read(self, path):
        return wait_at(path)


def test_actor_pool(ray, gate):
    D = ray.remote(num_cpus=0)(Doubler)
    a, b = D.remote(), D.remote()
    pool = ActorPool([a, b])
    assert list(pool.map(lambda a, v: a.double.remote(v), range(20))) == [2 * i for i in range(20)]
    assert sorted(pool.map_unordered(lambda a, v: a.double.remote(v), range(20))) == [
        2 * i for i in range(20)
    ]
    pool.submit(lambda a, v: a.read.remote(v), gate.path)
    assert pool.has_next() and pool.has_free()
    with pytest.raises(builtins.TimeoutError, match="Timed out"):
        pool.get_next(timeout=0.01)
    gate.let_go()
    assert pool.get_next() == b"g" and not pool.has_next()
    with pytest.raises(StopIteration):
        pool.get_next()
    with pytest.raises(StopIteration):
        pool.get_next_unordered()
    x = pool.pop_idle()
    assert (
        x in (a, b)
        and pool.pop_idle() is not None
        and pool.pop_idle() is None
        and not pool.has_free()
    )
    pool.submit(lambda a, v: a.double.remote(v), 5)  # waits for an idle actor
    pool.push(x)
    assert pool.get_next() == 10
    with pytest.raises(ValueError, match="in this pool already"):
        pool.push(x)


def test_queue(ray):
    q = Queue(2)
    q.put(1)
    q.put_nowait([2])
    assert len(q) == q.qsize() == q.size() == 2 and q.full() and not q.empty()
    for full in (
        lambda: q.put(3, block=False),
        lambda: q.put_nowait(3),
        lambda: q.put(3, timeout=0.01),
        lambda: q.put_nowait_batch([3, 4]),
    ):
        with pytest.raises(Full):
            full()
    assert q.get() == 1 and q.get_nowait() == [2]
    for empty in (
        lambda: q.get(block=False),
        q.get_nowait,
        lambda: q.get(timeout=0.01),
        lambda: q.get_nowait_batch(1),
    ):
        with pytest.raises(Empty):
            empty()
    for wrong in (
        lambda: q.put(1, timeout=-1),
        lambda: q.get(timeout=-1),
        lambda: q.get_nowait_batch(-1),
    ):
        with pytest.raises(ValueError):
            wrong()
    q.put_nowait_batch([5, 6])
    assert q.get_nowait_batch(2) == [5, 6]

    async def coroutines():
        waiting = asyncio.ensure_future(q.get_async())
        await q.put_async("late")
        assert await waiting == "late"
        with pytest.raises(Empty):
            await q.get_async(block=False)
        with pytest.raises(Empty):
            await q.get_async(timeout=0.01)

    asyncio.run(coroutines())
    ref = ray.remote(lambda q: q.get()).remote(q)  # waits in another process
    q.put("there")
    assert ray.get(ref) == "there"
    q.shutdown()
    assert q.actor is None


def cube(x):
    return x**3


def power(x, y):
    return x**y


def fails(x):
    if x == 3:
        raise KeyError(x)
    return x


def test_pool(ray):
    with Pool(3) as pool:
        assert pool.map(cube, range(50)) == [i**3 for i in range(50)] and pool.map(cube, []) == []
        assert pool.starmap(power, [(2, i) for i in range(10)], chunksize=3) == [
            2**i for i in range(10)
        ]
        assert pool.apply(power, (2,), {"y": 5}) == 32
        assert list(pool.imap(cube, iter(range(30)), chunksize=4)) == [i**3 for i in range(30)]
        assert sorted(pool.imap_unordered(cube, range(30))) == [i**3 for i in range(30)]
        assert len(set(pool.map(lambda _: os.getpid(), range(30), chunksize=1))) == 3
        got, failed = [], []
        done = threading.Event()
        r = pool.map_async(cube, range(3), callback=got.append)
        assert (
            r.get(timeout=60) == [0, 1, 8] and r.ready() and r.successful() and got == [[0, 1, 8]]
        )
        r = pool.apply_async(fails, (3,), error_callback=lambda e: (failed.append(e), done.set()))
        with pytest.raises(KeyError):
            r.get()
        assert done.wait(60) and isinstance(failed[0], KeyError) and not r.successful()
        with pytest.raises(KeyError):
            pool.map(fails, range(6))
        it = pool.imap(fails, range(6))
        assert [next(it) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(KeyError):
            next(it)
        assert next(it) == 4
        with pytest.raises(ValueError, match="still running"):
            pool.join()
    with pytest.raises(ValueError, match="not running"):
        pool.map(cube, [1])
    for wrong in ({"processes": 0}, {"processes": 100}, {"maxtasksperchild": 0}):
        with pytest.raises(ValueError):
            Pool(**wrong)


def test_pool_processes(ray, gate, tmp_path):
    log = tmp_path / "log"

    def start(text):
        with open(log, "a") as f:
            f.write(text)

    with Pool(2, initializer=start, initargs=("i",), maxtasksperchild=2) as pool:
        pids = pool.map(lambda _: os.getpid(), range(8), chunksize=1)
        assert len(set(pids)) == 4 and log.read_text() == "iiii"
        r = pool.apply_async(Doubler().read, (gate.path,))
        with pytest.raises(TimeoutError):
            r.get(timeout=0.01)
        assert not r.ready()
        with pytest.raises(ValueError, match="not ready"):
            r.successful()
        gate.let_go()
        assert r.get() == b"g"
        pool.close()
        pool.join()


def test_helpers(ray):
    f = ray.remote(cube)
    assert sorted(as_completed([f.remote(i) for i in range(10)])) == [i**3 for i in range(10)]
    assert sorted(map_unordered(f, range(10), backpressure_size=3)) == [i**3 for i in range(10)]
    refs = list(map_unordered(f, range(3), yield_obj_refs=True))
    assert sorted(ray.get(refs)) == [0, 1, 8]
    with pytest.raises(ValueError):
        next(map_unordered(cube, [1]))
    assert skate.util.log_once("a key of this test") and not skate.util.log_once(
        "a key of this test"
    )


def test_joblib(ray):
    joblib = pytest.importorskip("joblib")
    from skate.util.joblib import register_ray

    register_ray()
    with joblib.parallel_backend("ray", n_jobs=2):
        assert joblib.Parallel()(joblib.delayed(power)(2, i) for i in range(40)) == [
            2**i for i in range(40)
        ]
        with pytest.raises(KeyError):
            joblib.Parallel()(joblib.delayed(fails)(i) for i in range(6))


def test_dask(ray):
    """Graphs of dask as tasks give the same results as dask's own scheduler."""
    dask = pytest.importorskip("dask")
    import dask.array as da
    import dask.dataframe as dd
    import pandas as pd
    from skate.util import dask as on_ray

    x = da.arange(600, chunks=100).reshape(20, 30)
    table = pd.DataFrame({"k": np.arange(100) % 7, "v": np.arange(100.0)})
    frame = dd.from_pandas(table, npartitions=3)
    calls = []
    with on_ray.enable_dask_on_ray():
        assert ((x + 1) @ x.T).sum().compute() == (
            (np.arange(600).reshape(20, 30) + 1) @ np.arange(600).reshape(20, 30).T
        ).sum()
        pd.testing.assert_series_equal(
            frame.groupby("k").v.mean().compute(), table.groupby("k").v.mean()
        )
        assert frame.shuffle("k").compute().sort_index().equals(table)
        # their values stay in the store
        kept = (frame.assign(w=frame.v * 2).persist(), (x * 2).persist())
        assert all(
            isinstance(v, ray.ObjectRef) or type(v).__name__ == "Alias"
            for k in kept
            for v in dict(k.__dask_graph__()).values()
        )
        assert dask.compute(kept[0].w.sum(), kept[1].sum()) == (table.v.sum() * 2, 599 * 600)
        with pytest.raises(KeyError):
            dask.delayed(fails)(3).compute()
        with on_ray.RayDaskCallback(
            ray_postsubmit=lambda task, key, deps, ref: calls.append(deps), ray_finish=calls.append
        ):
            assert dask.delayed(max)([dask.delayed(abs)(-2), 1]).compute() == 2
        assert len(calls) == 3 and calls[0] == {} and len(calls[1]) == 1 and calls[2] == (2,)
        with on_ray.RayDaskCallback(ray_presubmit=lambda task, key, deps: 5):
            assert dask.delayed(abs)(-2).compute() == 5
        where = dask.delayed(lambda: ray.get_runtime_context().get_assigned_resources())()
        assert where.compute(ray_remote_args={"num_cpus": 2})["CPU"] == 2
        with pytest.raises(ValueError, match="ray_remote_args"):
            where.compute(resources={"a": 1})
    assert dask.config.get("scheduler", None) is None and x.sum().compute() == 599 * 300
    assert dask.delayed(abs)(-3).compute(scheduler=on_ray.ray_dask_get_sync) == 3


def test_bars():
    from skate.experimental import tqdm_ray

    manager = tqdm_ray.instance()
    manager.bar_groups.clear()
    assert sum(tqdm_ray.tqdm(range(10), desc="work", flush_interval_s=0)) == 45
    (bar,) = manager.bar_groups[os.getpid()].bars_by_uuid.values()
    assert (bar.bar.n, bar.bar.total, bar.bar.desc) == (10, 10, "work")
    b = tqdm_ray.tqdm(total=5)
    b.update(2)
    b.set_description("d")
    b.close()
    assert len(manager.bar_groups[os.getpid()].bars_by_uuid) == 1


def test_bars_of_workers(ray, gate, capfd):
    """The bars reach the driver's manager, and are not printed as text."""
    from skate.experimental import tqdm_ray

    manager = tqdm_ray.instance()
    manager.bar_groups.clear()

    @ray.remote
    def work(path):
        bar = tqdm_ray.tqdm(total=5, desc="there", flush_interval_s=0)
        bar.update(3)
        wait_at(path)
        bar.close()
        return os.getpid()

    ref = work.remote(gate.path)
    wait_until(
        lambda: (
            [b.bar.n for g in manager.bar_groups.values() for b in g.bars_by_uuid.values()] == [3]
        )
    )
    (bar,) = (b for g in manager.bar_groups.values() for b in g.bars_by_uuid.values())
    assert (bar.bar.desc, bar.bar.total) == ("there", 5)
    gate.let_go()
    assert ray.get(ref) == bar.state["pid"]
    wait_until(lambda: not manager.bar_groups)
    assert capfd.readouterr() == ("", "")


def test_object_locations(ray, gate):
    from skate.experimental import get_local_object_locations, get_object_locations

    here, coming = ray.put(bytes(100_000)), ray.remote(Doubler).remote().read.remote(gate.path)
    places = get_object_locations([here, coming])
    assert (
        places[here]["node_ids"] == [ray.get_runtime_context().get_node_id()]
        and places[here]["object_size"] >= 100_000
    )
    assert places[coming] == {"node_ids": [], "object_size": None, "did_spill": False}
    gate.let_go(1)
    ray.get(coming)
    assert get_local_object_locations([coming])[coming]["object_size"] > 0
    with pytest.raises(TypeError, match="references are wanted, not int"):
        get_object_locations([1])
