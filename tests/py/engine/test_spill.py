"""More bytes than the store holds are written to disk and read back. For the C side see
tests/c/test_engine_spill.c."""

import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import skate
from procs import spill_files
from skate import _skate
from waits import wait_until

MIB = 1 << 20


@pytest.fixture
def start(tmp_path):
    """start(**options of init) -> skate, with a store of 32 MiB that spills to tmp_path."""

    def go(**kw):
        skate.shutdown()
        skate.init(
            **{
                "num_cpus": 2,
                "object_store_memory": 32 * MIB,
                "object_spilling_directory": str(tmp_path),
                **kw,
            }
        )
        return skate

    yield go
    skate.shutdown()
    assert not os.listdir(tmp_path)


def pattern(i, n=MIB):
    return np.arange(i, i + n // 8, dtype=np.int64)


def test_puts_come_back(start):
    ray = start()
    refs = [ray.put(pattern(i)) for i in range(128)]
    assert _skate.status()["spilled_bytes"] >= 90 * MIB
    for i in list(range(128)) + [5, 100, 17]:
        assert np.array_equal(ray.get(refs[i]), pattern(i))
    assert [int(a[0]) for a in ray.get(refs[40:60])] == list(range(40, 60))
    status = _skate.status()
    assert (
        status["restored_bytes"] >= 90 * MIB
        and status["spilled_bytes"] <= 129 * MIB
        and status["spill_failures"] == 0
    )
    del refs, status
    assert (
        _skate.status()["spill_objects_on_disk"] == 0 and _skate.status()["spill_disk_bytes"] == 0
    )


def test_small_objects_lists_and_references_inside(start):
    ray = start()
    small = [ray.put(os.urandom(1) * 10_000) for _ in range(6000)]
    outer = ray.put({"all": small, "a": np.ones(100_000)})
    first = [ray.get(s)[0] for s in small]
    assert _skate.status()["spilled_objects"] > 2000
    inner = ray.get(outer)["all"]
    assert [v[0] for v in ray.get(inner[:1000])] == first[:1000] and ray.get(inner[5999]) == bytes(
        [first[5999]]
    ) * 10_000


def test_results_arguments_and_streams(start):
    ray = start()

    @ray.remote
    def make(i):
        return pattern(i)

    @ray.remote
    def add(a, b):
        return a + b

    @ray.remote(num_returns="streaming")
    def stream(n):
        for i in range(n):
            yield pattern(i)

    refs = [make.remote(i) for i in range(100)]
    sums = [add.remote(refs[i], refs[99 - i]) for i in range(100)]
    for i in range(100):
        assert np.array_equal(ray.get(sums[i]), pattern(i) + pattern(99 - i))
    del sums
    kept = list(stream.remote(80))
    for i, ref in enumerate(kept):
        assert np.array_equal(ray.get(ref), pattern(i))
    assert _skate.status()["restored_objects"] > 0


@pytest.mark.parametrize("n", [4060, 8200])
def test_a_task_whose_arguments_are_all_of_the_store(start, n):
    """The message with the names of the arguments needs room in the store, too. Twice as many tasks
    as the store has room for run one after another, without a wait for each."""
    ray = start()

    @ray.remote
    def total(*arrays):
        return sum(int(a[0]) for a in arrays)

    refs = [ray.put(np.full(1024, i)) for i in range(n)]
    assert ray.get(total.remote(*refs), timeout=120) == n * (n - 1) // 2


def test_after_a_refusal_of_the_disk_tasks_run(start):
    """After a while the driver tries the disk again. If all objects in the store are arguments,
    none can be spilled then (the driver once tried without end)."""
    ray = start(_system_config={"spill_bytes": MIB})

    @ray.remote
    def total(*arrays):
        return sum(int(a[0]) for a in arrays)

    refs = []
    with pytest.raises(skate.exceptions.OutOfDiskError):
        while True:
            refs.append(ray.put(np.full(1024, len(refs))))
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        assert ray.get(total.remote(*refs), timeout=60) == len(refs) * (len(refs) - 1) // 2


def test_actors(start):
    ray = start()

    @ray.remote
    class Adder:
        def __init__(self):
            self.kept = []

        def keep(self, refs):
            self.kept.append(refs[0])
            return len(self.kept)

        def total(self):
            return sum(int(ray.get(r)[0]) for r in self.kept)

        def plus(self, a, x):
            return a + x

    a = Adder.remote()
    refs = [ray.put(pattern(i)) for i in range(70)]
    for r in refs:
        a.keep.remote([r])
    more = [a.plus.remote(refs[i], i) for i in range(70)]
    del refs
    assert ray.get(a.total.remote()) == sum(range(70))
    for i, m in enumerate(more):
        assert np.array_equal(ray.get(m), pattern(i) + i)


def test_a_dataset_larger_than_the_store(start):
    ray = start()
    import skate.data

    def wide(batch):
        return {"id": batch["id"], "x": np.repeat(batch["id"][:, None], 1000, axis=1)}

    ds = skate.data.range(12_000, override_num_blocks=24).map_batches(wide).materialize()
    assert _skate.status()["spilled_bytes"] > 50 * MIB
    for _ in range(2):
        assert sum(int(b["x"][:, 999].sum()) for b in ds.iter_batches(batch_size=1000)) == sum(
            range(12_000)
        )
    assert sum(
        int(b["y"].sum()) for b in ds.map_batches(lambda b: {"y": b["x"][:, 5]}).iter_batches()
    ) == sum(range(12_000))
    del ds
    assert ray.is_initialized()


def test_quota_is_one_error_soon(start):
    ray = start(_system_config={"spill_bytes": 24 * MIB})
    keep = []
    with pytest.raises(ray.exceptions.OutOfDiskError, match="quota"):
        for i in range(100):
            keep.append(ray.put(pattern(i)))
    assert len(keep) > 45
    for i, r in enumerate(keep):
        assert np.array_equal(ray.get(r), pattern(i))

    @ray.remote(max_retries=0)
    def make():
        return np.zeros(20 * MIB)

    with pytest.raises(ray.exceptions.RayError):
        ray.get(make.remote())
    del keep
    assert ray.get(ray.put(pattern(3)))[0] == 3


def test_directories_in_turn(start, tmp_path):
    dirs = [tmp_path / "a", tmp_path / "b"]
    ray = start(object_spilling_directory=[str(d) for d in dirs])
    # the size of one write: with smaller objects, the number in a turn depends on the load
    size = 4 * MIB
    refs = [ray.put(pattern(i, size)) for i in range(25)]

    def differ():
        """By how many turns one directory is ahead of the other."""
        on = [sum(os.stat(f).st_blocks for f in spill_files(d)) * 512 for d in dirs]
        return abs(on[0] - on[1]) / size if min(on) >= 6 * size else 25

    wait_until(lambda: differ() < 1.5)  # files that are being written are counted in part
    for i, r in enumerate(refs):
        assert np.array_equal(ray.get(r), pattern(i, size))
    del refs, r
    skate.shutdown()
    for d in dirs:
        d.rmdir()  # the directory must be empty


def test_a_full_directory_is_passed_over(start, tmp_path):
    """A file system of 8 MiB, and one with room: that the first is full causes no error."""
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(small)], capture_output=True
    ).returncode:
        pytest.skip("mounting a small tmpfs needs root")
    try:
        ray = start(
            object_spilling_directory=[str(small), str(tmp_path / "b")],
            _system_config={"spill_bytes": 1 << 40},
        )
        refs = [ray.put(pattern(i)) for i in range(128)]
        assert _skate.status()["spill_failures"] > 0
        for i, r in enumerate(refs):
            assert np.array_equal(ray.get(r), pattern(i))
        del refs, r
        skate.shutdown()
    finally:
        skate.shutdown()
        assert subprocess.run(["umount", str(small)]).returncode == 0
    small.rmdir()
    (tmp_path / "b").rmdir()


def test_disk_follows_what_is_alive(start, tmp_path):
    """Every second of many objects is freed: their bytes on disk are freed, though their neighbours
    stay."""
    ray = start()
    refs = [ray.put(pattern(i, 100_000)) for i in range(1500)]
    full = _skate.status()["spill_disk_bytes"]
    assert full > 100 * MIB
    del refs[::2]
    status = _skate.status()
    assert status["spill_disk_bytes"] < 0.7 * full
    until = time.monotonic() + 60
    while (
        sum(os.stat(f).st_blocks for f in spill_files(tmp_path)) * 512
        > status["spill_disk_bytes"] + 8 * MIB
    ):
        assert time.monotonic() < until
        ray.get(refs[-1])
    for k, r in enumerate(refs):
        assert np.array_equal(ray.get(r), pattern(2 * k + 1, 100_000))


def test_wait_counts_what_is_on_disk(start):
    ray = start()
    refs = [ray.put(pattern(i)) for i in range(100)]
    before = _skate.status()["restored_objects"]
    for fetch in (True, False):
        ready, rest = ray.wait(refs, num_returns=100, timeout=0, fetch_local=fetch)
        assert ready == refs and not rest
    assert _skate.status()["restored_objects"] == before


def test_the_inline_engine_does_not_spill():
    skate.shutdown()
    skate.init(local_mode=True, object_store_memory=8 * MIB)
    try:
        with pytest.raises(
            skate.exceptions.ObjectStoreFullError, match="inline engine does not spill"
        ):
            keep = [skate.put(pattern(i)) for i in range(9)]
            del keep
    finally:
        skate.shutdown()


def test_files_that_somebody_cut(start, tmp_path):
    ray = start()

    @ray.remote(max_retries=2)
    def make(i):
        return pattern(i)

    put = [ray.put(pattern(i)) for i in range(4)]
    made = [make.remote(i) for i in range(60)]
    ray.wait(made, num_returns=60, timeout=30)
    files = spill_files(tmp_path)
    assert files
    for f in files:
        os.truncate(f, 0)
    for i in range(60):
        assert np.array_equal(ray.get(made[i]), pattern(i))
    assert _skate.status()["reruns"] > 0
    lost = 0
    for i, r in enumerate(put):
        try:
            assert np.array_equal(ray.get(r), pattern(i))
        except ray.exceptions.ObjectLostError as e:
            assert "spill: " in str(e) and "put()" in str(e)
            lost += 1
    assert lost


def test_without_spilling_a_full_store_is_an_error(start):
    ray = start(
        object_spilling_directory=None, _system_config={"automatic_object_spilling_enabled": False}
    )
    with pytest.raises(ray.exceptions.ObjectStoreFullError):
        keep = [ray.put(pattern(i)) for i in range(64)]
        del keep


def test_directories_that_cannot_be(tmp_path):
    skate.shutdown()
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file", tmp_path / "no" / "such"):
        with pytest.raises(Exception, match="spill"):
            skate.init(num_cpus=1, object_spilling_directory=str(path))
    assert not skate.is_initialized()


SCRIPT = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it, and so would we
import numpy as np
import skate as ray
ray.init(num_cpus=2, object_store_memory=32 << 20)

@ray.remote
def hold(a):
    open(os.environ["TMPDIR"] + "/held", "w").close()
    time.sleep(1000)

if sys.argv[1] == "wait":
    h = hold.remote(ray.put(np.zeros(20 << 20, np.uint8)))
    while not os.path.exists(os.environ["TMPDIR"] + "/held"):
        ray.wait([h], timeout=0.01)
    try:
        print("held", flush=True)
        ray.put(np.zeros(20 << 20, np.uint8))
    except KeyboardInterrupt:
        print("interrupted", flush=True)
else:
    refs = [ray.put(np.zeros(1 << 20, np.uint8)) for i in range(100)]
    print("held", flush=True)
    while True:
        for r in refs:
            ray.get(r)
        refs = refs[10:] + [ray.put(np.zeros(1 << 20, np.uint8)) for i in range(10)]
"""


def run(tmp_path, what):
    root = os.path.dirname(os.path.dirname(os.path.abspath(skate.__file__)))
    env = {**os.environ, "PYTHONPATH": root, "TMPDIR": str(tmp_path)}
    p = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, what], env=env, stdout=subprocess.PIPE, text=True
    )
    line = p.stdout.readline()
    if line != "held\n":
        p.kill()
        raise AssertionError(f"the script ended with {line!r}")
    return p


def test_a_put_that_waits_can_be_interrupted(tmp_path):
    p = run(tmp_path, "wait")
    until = time.monotonic() + 20
    while time.monotonic() < until and open(f"/proc/{p.pid}/wchan").read() in ("0", ""):
        pass  # until it sleeps; a signal that arrives before the sleep must end it, too
    p.send_signal(signal.SIGINT)
    try:
        out, _ = p.communicate(timeout=60)
    finally:
        p.kill()
    assert out == "interrupted\n" and p.returncode == 0


def test_a_killed_driver_leaves_no_bytes(tmp_path):
    for _ in range(3):
        p = run(tmp_path, "churn")
        p.kill()
        p.wait()
        p.stdout.close()
        assert not os.listdir(tmp_path)


def test_summary_in_the_words_of_ray(start):
    from skate._private.internal_api import memory_summary

    ray = start()
    refs = [ray.put(pattern(i)) for i in range(64)]
    assert ray.get(refs[0])[0] == 0
    text = memory_summary(stats_only=True)
    for words in (
        r"Plasma memory usage \d+ MiB, \d+ objects, [\d.]+% full",
        r"\nSpilled \d+ MiB, \d+ objects",
        r"\nRestored \d+ MiB, \d+ objects",
    ):
        assert re.search(words, text), text
