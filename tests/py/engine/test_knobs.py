"""Every knob of config.py has an effect, as an argument of init() or _system_config and by its name in the environment. A knob without a test here fails
the last of them."""

import os
import sys
import time

import numpy as np
import pytest
import skate
from skate import _skate, config
from waits import wait_until

MIB = 1 << 20
LOG = []  # of tasks in this process
TRIED = set()  # knobs that start() was given


@pytest.fixture
def start(monkeypatch):
    """start(**knobs): an engine with these, small otherwise. With `by_env=True` they are said in the environment."""

    def start(by_env=False, **knobs):
        skate.shutdown()
        TRIED.update(knobs)
        if by_env:
            for name, value in knobs.items():
                monkeypatch.setenv(config.KNOBS[name][1], str(value))
            knobs = {}
        usual = {"num_cpus": 2, "num_gpus": 0, "object_store_memory": 32 * MIB}
        usual = {k: v for k, v in usual.items() if config.KNOBS[k][1] not in os.environ}
        skate.init(_system_config={**usual, **knobs})

    yield start
    skate.shutdown()


@skate.remote(num_cpus=0)
def pid():
    return os.getpid()


@skate.remote(num_cpus=0)
def meet(n, folder):
    """Returns its process's number once so many processes have run these."""
    open(os.path.join(folder, str(os.getpid())), "w").close()
    end = time.monotonic() + 60
    while len(os.listdir(folder)) < n and time.monotonic() < end:
        time.sleep(0.001)
    return os.getpid()


@skate.remote
def log(i):
    sys.modules[__name__].LOG.append(i)  # functions are copied, with what they name


@skate.remote
def grow(mib, stay_s=0.0):
    """Takes memory, and stays for so long unless it is killed."""
    data = bytearray(mib * MIB)
    data[::4096] = b"x" * len(data[::4096])
    time.sleep(stay_s)
    return len(data)


@pytest.mark.parametrize("by_env", [False, True])
def test_what_there_is(start, by_env):
    start(by_env, num_cpus=3, num_gpus=2, memory=500 * MIB, object_store_memory=64 * MIB, memory_usage_threshold=0.5)
    have = skate.cluster_resources()
    assert (have["CPU"], have["GPU"], have["memory"], have["object_store_memory"]) == (3, 2, 500 * MIB, 64 * MIB)
    status = _skate.status()
    assert status["store_size_bytes"] == 64 * MIB
    assert status["memory_limit_bytes"] <= 564 * MIB  # of `memory` and `object_store_memory`
    start(by_env, memory_usage_threshold=0.5, memory_limit=1 << 60, memory_monitor_refresh_ms=50)
    wait_until(lambda: 0 < _skate.status()["memory_limit_bytes"] <= config.memory_bytes() * 0.5)


def test_engine_and_seed(start):
    orders = []
    for seed in (0, 7):
        start(by_env=True, engine="inline", seed=seed)
        assert skate.get(pid.remote()) == os.getpid()
        LOG.clear()
        skate.get([log.remote(i) for i in range(20)])
        orders.append(LOG[:])
    assert orders[0] == list(range(20)) and orders[1] != orders[0] and sorted(orders[1]) == orders[0]


@pytest.mark.parametrize("by_env", [False, True])
def test_max_retries(start, by_env, tmp_path):
    @skate.remote
    def dies(folder):
        open(os.path.join(folder, str(time.monotonic_ns())), "w").close()
        os._exit(1)

    def runs(f):
        before = len(os.listdir(tmp_path))
        with pytest.raises(skate.exceptions.WorkerCrashedError):
            skate.get(f.remote(str(tmp_path)))
        return len(os.listdir(tmp_path)) - before

    start(by_env, max_retries=1)
    assert runs(dies) == 2
    assert runs(dies.options(max_retries=0)) == 1

    @skate.remote
    def outer(folder):  # its tasks, too
        return skate.get(dies.remote(folder))

    with pytest.raises(skate.exceptions.WorkerCrashedError):
        skate.get(outer.options(max_retries=0).remote(str(tmp_path)))
    assert len(os.listdir(tmp_path)) == 5
    start(by_env, max_retries=0)
    assert runs(dies) == 1


@pytest.mark.parametrize("n, given, runs", [(5, {}, 6), (0, {}, 1), (5, {"max_retries": 1}, 2)])
def test_max_retries_of_datasets(start, n, given, runs, tmp_path):
    """It was not heard: four runs, whatever was asked for."""

    def dies(batch):
        open(os.path.join(tmp_path, str(time.monotonic_ns())), "w").close()
        os._exit(1)

    start(max_retries=n)
    with pytest.raises(skate.exceptions.WorkerCrashedError):
        skate.data.range(4, override_num_blocks=1).map_batches(dies, **given).materialize()
    assert len(os.listdir(tmp_path)) == runs


def test_spilling(start, tmp_path):
    start(by_env=True, spill_dir=tmp_path, spill_bytes=300 * MIB, overflow_bytes=8 * MIB)
    refs = [skate.put(np.full(8 * MIB, i, np.uint8)) for i in range(6)]
    status = _skate.status()
    assert status["spill_quota_bytes"] == 300 * MIB and status["spilled_bytes"] >= 16 * MIB
    assert [int(skate.get(r)[0]) for r in refs] == list(range(6))
    with pytest.raises(skate.exceptions.ObjectStoreFullError):
        skate.put(bytes(48 * MIB))  # larger than the store, and than what may lie behind it
    start(spill_dir=tmp_path, overflow_bytes=64 * MIB)
    assert len(skate.get(skate.put(bytes(48 * MIB)))) == 48 * MIB
    start(spill_dir="", overflow_bytes=0)
    with pytest.raises(skate.exceptions.ObjectStoreFullError):
        refs = [skate.put(np.full(8 * MIB, i, np.uint8)) for i in range(6)]


def test_lineage_bytes(start):
    @skate.remote
    def large():
        return np.zeros(100_000)

    start()
    ref = large.remote()
    skate.get(ref)
    assert _skate.status()["lineage_tasks"] == 1
    start(lineage_bytes=1)
    ref = large.remote()
    skate.get(ref)
    assert _skate.status()["lineage_tasks"] == 0
    del ref


def test_max_workers_and_idle_reap(start, tmp_path):
    start(max_workers=2)
    assert len(set(skate.get([meet.remote(2, str(tmp_path)) for _ in range(4)]))) == 2
    start(idle_reap_s=0.05, num_cpus=1)
    (tmp_path / "two").mkdir()
    assert len(set(skate.get([meet.remote(2, str(tmp_path / "two")) for _ in range(2)]))) == 2
    wait_until(lambda: _skate.status()["workers"] == 1)  # after 30 s as it is chosen


def test_preload_and_spin(start):
    @skate.remote
    def has(name):
        return name in sys.modules

    @skate.remote
    def sleep(s):
        time.sleep(s)

    def awake():  # seconds that this thread is on a CPU while it waits, or in line for one: others may have them all
        with open("/proc/thread-self/schedstat") as f:
            return sum(map(int, f.read().split()[:2])) / 1e9

    def cost():
        skate.get(sleep.remote(0))
        before = awake()
        skate.get(sleep.remote(0.3))
        return awake() - before

    start(preload="sndhdr_not_there,colorsys", spin_us=0)
    assert skate.get(has.remote("colorsys"))
    assert min(cost() for _ in range(3)) < 0.1
    start(spin_us=60_000_000)
    assert not skate.get(has.remote("colorsys"))
    assert min(cost() for _ in range(3)) > 0.2


@pytest.mark.parametrize("by_env", [False, True])
def test_print_labels(start, capsys, by_env):
    @skate.remote
    def f():
        print("hello")

    start(by_env, print_labels=0)
    skate.get(f.remote())
    assert capsys.readouterr().out == "hello\n"
    start(print_labels=1)
    skate.get(f.remote())
    assert capsys.readouterr().out.startswith("(f pid=")


def test_memory_is_watched(start):
    start(memory_limit=150 * MIB, memory_monitor_refresh_ms=20, task_oom_retries=0)
    with pytest.raises(skate.exceptions.OutOfMemoryError, match="task_oom_retries is 0"):
        skate.get(grow.remote(200, 60))
    start(memory_limit=150 * MIB, memory_monitor_refresh_ms=0)
    assert skate.get(grow.remote(200)) == 200 * MIB  # nobody looks


def test_every_knob_is_tried(request):
    """By the tests above."""
    chosen = {i.function for i in request.session.items}
    if any(name.startswith("test_") and f not in chosen for name, f in globals().items()):
        pytest.skip("only some of the tests above run")
    assert [name for name in config.KNOBS if name not in TRIED] == []
