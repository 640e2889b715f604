"""Memory that was never used is mapped by huge pages, not by a fault for each 4 KiB (196 faults for
800 KB, 4 us each); memory of a worker's heap is reused."""

import os
import resource

import numpy as np
import pytest

MIB = 1 << 20


def huge_pages():
    # MADV_COLLAPSE of shared memory needs Linux 6.1
    kernel = tuple(int(x) for x in os.uname().release.split(".")[:2])
    return kernel >= (6, 1) and os.path.exists("/sys/kernel/mm/transparent_hugepage/shmem_enabled")


def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


class Maker:
    def array(self, n, i):
        return np.full(n, i)

    def faults(self):
        return faults()

    def scalar(self, n):
        import pyarrow as pa

        before = faults()
        scalar = pa.array([b"x" * n])[0]
        return faults() - before, len(scalar.as_buffer())


def begun(fresh, **how):
    if fresh.engine == "inline" or not huge_pages() or os.environ.get("SKATE_TEST_SANITIZER"):
        pytest.skip(
            "no store in shared memory here, or a kernel without MADV_COLLAPSE, or memory that a sanitizer touches"
        )
    return fresh(**how)


@pytest.fixture
def store(fresh):
    return begun(fresh, object_store_memory=256 * MIB)


def test_put(store):
    x = np.arange(100_000)
    before = faults()
    refs = [store.put(x) for _ in range(100)]
    assert faults() - before < 100 * 100
    assert all((store.get(r) == x).all() for r in refs)


def test_results_of_an_actor(store):
    a = store.remote(Maker).remote()
    store.get(a.array.remote(100_000, 0))
    before = store.get(a.faults.remote())
    refs = [a.array.remote(100_000, i) for i in range(100)]
    out = store.get(refs)
    assert store.get(a.faults.remote()) - before < 100 * 100
    assert all(len(v) == 100_000 and (v == i).all() for i, v in enumerate(out))


def test_large_values_of_an_actor(fresh):
    """Memory that an actor's calls free is kept for the next call, whichever code allocates it:
    Python, or a library in C++ (a scalar of Arrow is a std::string)."""
    skate = begun(fresh, num_cpus=1, object_store_memory=512 * MIB)
    a = skate.remote(Maker).remote()
    # less than half of the memory that is kept, a quarter of the store; more than malloc itself
    # would keep
    size = 48 * MIB
    # without a pause, since an idle worker would give memory back
    calls = [a.scalar.remote(size) for _ in range(5)]
    first, *others = skate.get(calls)
    assert first[1] == size
    assert all(n < size // 4096 // 4 and m == size for n, m in others), others


def test_neighbours_keep_their_bytes(store):
    """A huge page is mapped around objects that exist already, of this and of other processes,
    while they are being read."""
    a = store.remote(Maker).remote()
    rng = np.random.default_rng(5)
    kept = []
    for i in range(300):
        n = int(rng.integers(1_200, 60_000))
        x = rng.integers(0, 255, n)
        kept += [(x, store.get(store.put(x))), (np.full(n, i), store.get(a.array.remote(n, i)))]
        if i % 3 == 0:
            del kept[int(rng.integers(len(kept)))]
    assert all(np.array_equal(x, y) for x, y in kept)


def test_a_large_value_of_python_in_a_worker(store):
    """Code that reads a file makes bytes objects; these are on huge pages, as arrays of NumPy
    are."""
    with open("/sys/kernel/mm/transparent_hugepage/enabled") as f:
        if "[never]" in f.read():
            pytest.skip("no huge pages here")

    @store.remote
    def faults_of(n):
        before = faults()
        with open("/dev/zero", "rb") as f:
            assert len(f.read(n)) == n
        return faults() - before

    assert store.get(faults_of.remote(64 * MIB)) < 64 * MIB // 4096 // 4
