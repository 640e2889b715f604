"""skate.empty(): arrays that are made in the store and handed over without a copy."""

import gc
import os
import signal
import time

import numpy as np
import pytest
from patience import eventually
from skate import _skate

MIB = 1 << 20


def address(a):
    return a.__array_interface__["data"][0]


def store(key):
    return _skate.status().get(key, 0)


def comes_to(value, most=0):
    """Waits until the value is at most `most`, since the driver learns a little later what a worker
    released, or left at its death."""
    eventually(lambda: value <= used() <= value + most, 30)
    return True


def used():
    gc.collect()
    return store("store_leased_bytes") + store("store_sealed_bytes")


@pytest.mark.parametrize(
    "dtype", ["?", "b", "<u2", "i4", "f2", "f4", "f8", "c8", "c16", int, float]
)
@pytest.mark.parametrize("shape", [(), 0, 5, (3, 0), (7, 11), (40, 50, 3), (2,) * 9, (300, 300)])
def test_values(ray, shape, dtype):
    a = ray.empty(shape, dtype)
    assert (
        type(a) is np.ndarray
        and a.flags.writeable
        and a.flags.c_contiguous
        and a.dtype == np.dtype(dtype)
    )
    assert a.shape == np.empty(shape).shape
    raw = np.random.default_rng(1).integers(0, 2, a.shape).astype(a.dtype)
    a[...] = raw
    b = ray.get(ray.put(a))
    assert (
        b.dtype == raw.dtype
        and b.shape == raw.shape
        and b.tobytes() == raw.tobytes() == a.tobytes()
    )
    assert not a.flags.writeable and not b.flags.writeable
    with pytest.raises(ValueError):
        a.flags.writeable = True


def test_refused(ray):
    for dtype in (object, "U5", "M8[s]", ">f8", [("x", "f8")]):
        with pytest.raises(TypeError, match="plain number type"):
            ray.empty(3, dtype)
    with pytest.raises(ValueError):
        ray.empty(-1)
    with pytest.raises(ValueError):
        ray.empty((-2, -3))
    with pytest.raises((ValueError, MemoryError)):
        ray.empty((1 << 40, 1 << 40))


def test_the_object_is_the_memory(fresh):
    ray = fresh()
    if fresh.engine == "inline":
        pytest.skip("the inline engine copies")
    before = used()
    a = ray.empty(4 * MIB)
    a[:] = 1
    assert 32 * MIB <= used() - before <= 33 * MIB
    ref = ray.put(a)
    assert 32 * MIB <= used() - before <= 33 * MIB and store("store_leased_bytes") == 0
    assert ray.put(a) == ref, "the same object"
    b = ray.get(ref)
    assert address(b) != address(a)  # the writer has its own mapping
    del ref
    assert b.sum() == a.sum() == 4 * MIB
    del a, b
    assert used() == before


def test_what_older_views_write_nobody_sees(ray):
    a = ray.empty((100, 1000))
    a[:] = 2
    part, flat, raw = a[10], a.reshape(-1), memoryview(a)
    ref = ray.put(flat)  # a view of the whole array, with another number of axes
    b = ray.get(ref)
    assert b.shape == (100_000,)
    part[:] = 3
    raw[0, 0] = 5.0
    assert (b == 2).all() and (ray.get(ref) == 2).all()
    assert part[0] == 3 and a[10, 0] == 3 and a[0, 0] == 5 and a[50, 50] == 2
    for x in (a, flat):
        with pytest.raises(ValueError):
            x[0] = 1


def test_parts_and_containers_are_copied(ray):
    a = ray.empty((100, 1000))
    a[:] = 2
    refs = [ray.put(a[1:]), ray.put(a.T), ray.put([a]), ray.put(a[:, ::2]), ray.put(a.astype("f4"))]
    assert a.flags.writeable
    a[:] = 9
    assert all((np.asarray(x) == 2).all() for x in ray.get(refs))
    del a, refs


def test_other_type_same_memory(ray):
    a = ray.empty(10_000, "f8")
    a[:] = np.arange(10_000)
    b = ray.get(ray.put(a.view("i8").reshape(100, 100)))
    assert b.dtype == np.int64 and b.tobytes() == np.arange(10_000, dtype="f8").tobytes()


def test_arguments_results_and_streams(ray):
    @ray.remote
    def make(n):
        a = ray.empty(n)
        a[:] = n
        return a

    @ray.remote(num_returns=2)
    def two(n):
        a = ray.empty(n)
        a[:] = 1
        return a, a

    @ray.remote(num_returns="streaming")
    def stream(n):
        for i in range(4):
            a = ray.empty(n)
            a[:] = i
            yield a

    @ray.remote
    def total(a, b=None):
        return float(a.sum()), a.flags.writeable, b is not None and float(b.sum())

    assert (ray.get(make.remote(100_000)) == 100_000).all()
    assert [x.sum() for x in ray.get(two.remote(50_000))] == [50_000, 50_000]
    assert [ray.get(r).sum() for r in stream.remote(20_000)] == [0, 20_000, 40_000, 60_000]
    a = ray.empty(30_000)
    a[:] = 1
    assert ray.get([total.remote(a), total.remote(a, b=a)]) == [
        (30_000, False, False),
        (30_000, False, 30_000),
    ]
    assert not a.flags.writeable


def test_an_actor_keeps_what_it_returned(ray):
    @ray.remote
    class Frames:
        def make(self, n):
            self.a = ray.empty(n)
            self.a[:] = 1
            self.part = self.a[5:10]
            return self.a

        def put(self):
            b = ray.empty(20_000)
            b[:] = 4
            return [ray.put(b)]

        def look(self):
            self.part[:] = 7
            return float(self.a.sum()), self.a.flags.writeable

    f = Frames.remote()
    b = ray.get(f.make.remote(40_000))
    ref = f.make.remote(50_000)
    del ref
    # would take the array's place if no process held it
    filler = [ray.put(np.full(50_000, 3.0)) for _ in range(20)]
    assert ray.get(f.look.remote()) == (50_000 + 5 * 6, False)
    assert b.sum() == 40_000 and all(ray.get(x)[0] == 3 for x in filler)
    assert ray.get(ray.get(f.put.remote())[0]).sum() == 80_000


def test_dropped_unsealed(fresh):
    ray = fresh()
    if fresh.engine == "inline":
        pytest.skip("the inline engine does not take it from the store")
    before = used()
    for _ in range(50):  # 1.6 GiB through a store of 128 MiB
        a = ray.empty(4 * MIB)
        a[::512] = 1
    part = a[:3]
    del a
    assert used() - before >= 32 * MIB
    part[0] = 7
    del part
    assert used() == before

    @ray.remote
    def drop():
        for _ in range(50):
            ray.empty(4 * MIB)[0] = 1
        return os.getpid()

    ray.get(drop.remote())
    assert comes_to(before, 8 * MIB)  # the memory that the worker leases in advance


def test_full_store(fresh):
    ray = fresh(_system_config={"overflow_bytes": 0})
    with pytest.raises((ray.exceptions.ObjectStoreFullError, ray.exceptions.OutOfDiskError)):
        a = [ray.empty(100 * MIB // 8) for _ in range(3)]
        ray.put(np.zeros(100 * MIB // 8)), [ray.put(x) for x in a]  # the inline engine copies them


def test_larger_than_the_store(fresh):
    """The arrays are on disk, mapped into memory; everything else is the same."""
    ray = fresh()
    if fresh.engine == "inline":
        pytest.skip("the inline engine has no disk")
    n = 2 * store("store_size_bytes") // 8

    @ray.remote
    def total(a):
        return int(a[0] + a[-1]), len(a)

    @ray.remote
    def make():
        a = ray.empty(n)
        a[:] = 3
        return a

    a = ray.empty(n)
    a[:] = 1
    b = a[:1]
    refs = [ray.put(a), make.remote()]
    b[0] = 9  # others do not see this write
    assert ray.get([total.remote(r) for r in refs]) == [(2, n), (6, n)]
    assert ray.get(refs[0])[0] == 1 and a[0] == 9
    assert store("overflow_bytes_on_disk") >= 16 * n
    del a, b, refs
    gc.collect()
    end = time.monotonic() + 30
    while store("overflow_bytes_on_disk") and time.monotonic() < end:
        gc.collect()
    assert store("overflow_bytes_on_disk") == 0


def test_killed_while_it_writes(fresh):
    ray = fresh()
    if fresh.engine == "inline":
        pytest.skip("there is no process to kill")
    before = used()

    @ray.remote(max_retries=0)
    def write():
        a = ray.empty(6 * MIB)
        a[: len(a) // 2] = 1
        b = ray.empty(4 * MIB)
        keep = [ray.put(b)]  # noqa: F841 (sealed, and referenced by this process only)
        os.kill(os.getpid(), signal.SIGKILL)

    for _ in range(4):
        with pytest.raises(ray.exceptions.WorkerCrashedError):
            ray.get(write.remote())
    assert comes_to(before)


def test_spilled_and_read_back(fresh, tmp_path):
    ray = fresh(object_spilling_directory=str(tmp_path), object_store_memory=64 * MIB)
    if fresh.engine == "inline":
        pytest.skip("the inline engine does not spill")
    refs = []
    for i in range(20):
        a = ray.empty((MIB,))
        a[:] = np.arange(i, i + MIB)
        refs.append(ray.put(a))
    del a
    assert store("spilled_bytes") >= 90 * MIB
    for i in (0, 19, 7, 3):
        assert np.array_equal(ray.get(refs[i]), np.arange(i, i + MIB))
    kept = ray.empty((MIB,))
    kept[:] = 5
    refs.append(ray.put(kept))
    # pushes out all objects that can be spilled
    refs += [ray.put(np.full(MIB, float(i))) for i in range(20)]
    assert (kept == 5).all() and (ray.get(refs[20]) == 5).all()


def test_after_a_shutdown(fresh):
    ray = fresh()
    a, b = ray.empty(10_000), ray.empty(10_000)
    a[:] = b[:] = 1
    ray.put(a)
    ray.shutdown()
    b[0] = 2
    assert a.sum() == 10_000
    ray = fresh()
    assert ray.get(ray.put(a)).sum() == 10_000 and ray.get(ray.put(b)).sum() == 10_001


def test_a_task_that_fails_after_a_result(fresh):
    ray = fresh()
    if fresh.engine == "inline":
        pytest.skip("the inline engine copies")
    before = used()

    class No:
        def __reduce__(self):
            raise RuntimeError("no")

    @ray.remote
    class Keeps:
        @ray.method(num_returns=2)
        def broken(self, how):
            self.a = ray.empty(4 * MIB)
            self.a[:] = 1
            return self.a, how()  # taken already when the second one fails

        def total(self):
            return float(self.a.sum())

    k = Keeps.remote()
    for _ in range(4):
        with pytest.raises(TypeError, match="RuntimeError: no"):
            ray.get(k.broken.remote(No))
        filler = ray.put(np.full(6 * MIB, 2.0))
        assert ray.get(k.total.remote()) == 4 * MIB
        del filler
    assert used() - before <= 2 * 33 * MIB
    ray.kill(k)
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(k.total.remote())
    assert comes_to(before)


def test_nothing_stays_pinned(fresh):
    ray = fresh()
    if fresh.engine == "inline":
        pytest.skip("the inline engine copies")
    before, pins = used(), store("store_pins")

    @ray.remote(num_returns=2)
    def make(n):
        a, b = ray.empty(n), ray.empty(n)
        a[:], b[:] = 1, 2
        return a, b

    @ray.remote(num_returns="streaming")
    def stream(n):
        for _ in range(5):
            yield ray.empty(n)

    @ray.remote(max_concurrency=4)
    class Actor:
        def make(self, n):
            # the previous array is released; another call may put its own array there at once
            mine = self.last = ray.empty(n)
            mine[:] = 3
            return mine

    actor = Actor.remote()
    for _ in range(20):
        refs = make.remote(40_000)
        assert ray.get(refs[0])[0] == 1 and ray.get(refs[1])[-1] == 2
        assert all(ray.get(r).shape == (30_000,) for r in stream.remote(30_000))
        assert [ray.get(r)[7] for r in [actor.make.remote(50_000) for _ in range(4)]] == [3] * 4
    del refs
    ray.kill(actor)
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(actor.make.remote(5))
    end = time.monotonic() + 30
    # a release by a worker wakes no other process
    while store("store_pins") != pins and time.monotonic() < end:
        ray.get([r for _ in range(4) for r in make.remote(1)])
    assert store("store_pins") == pins and used() - before <= 16 * MIB
