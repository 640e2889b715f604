"""Every knob of config.py has an effect, as an argument of init(), in _system_config, and by its
name in the environment. The last test fails if a knob has no test here."""

import itertools
import os
import sys
import time

import numpy as np
import pytest
import skate
from cases import case
from skate import _skate, config
from skate._private import view
from waits import wait_until

MIB = 1 << 20
LOG = []  # entries of tasks that ran in this process
TRIED = set()  # knobs that start() was called with
PRELOAD = {"preload": "numpy,light_pytest"}  # what this module imports, and the workers with it


@pytest.fixture
def start(monkeypatch):
    """start(**knobs): a small engine with these knobs. With `by_env=True` the knobs are set in the
    environment."""

    def start(by_env=False, **knobs):
        skate.shutdown()
        TRIED.update(knobs)
        if by_env:
            for name, value in knobs.items():
                monkeypatch.setenv(config.KNOBS[name][1], str(value))
            knobs = {}
        usual = {"num_cpus": 2, "num_gpus": 0, "object_store_memory": 32 * MIB, **PRELOAD}
        usual = {k: v for k, v in usual.items() if config.KNOBS[k][1] not in os.environ}
        skate.init(_system_config={**usual, **knobs})

    yield start
    skate.shutdown()


@skate.remote(num_cpus=0)
def pid():
    return os.getpid()


@skate.remote(num_cpus=0)
def meet(n, folder):
    """Waits until n processes have called it; returns the number of this process."""
    open(os.path.join(folder, str(os.getpid())), "w").close()
    end = time.monotonic() + 60
    while len(os.listdir(folder)) < n and time.monotonic() < end:
        time.sleep(0.001)
    return os.getpid()


@skate.remote
def log(i):
    # functions are copied together with the globals that they name
    sys.modules[__name__].LOG.append(i)


@skate.remote
def grow(mib, stay_s=0.0):
    """Allocates memory, and stays alive for stay_s seconds unless it is killed."""
    data = bytearray(mib * MIB)
    data[::4096] = b"x" * len(data[::4096])
    time.sleep(stay_s)
    return len(data)


@pytest.mark.parametrize("by_env", [False, True])
def test_what_there_is(start, by_env):
    start(
        by_env,
        num_cpus=3,
        num_gpus=2,
        memory=500 * MIB,
        object_store_memory=64 * MIB,
        memory_usage_threshold=0.5,
    )
    have = skate.cluster_resources()
    assert (have["CPU"], have["GPU"], have["memory"], have["object_store_memory"]) == (
        3,
        2,
        500 * MIB,
        64 * MIB,
    )
    status = _skate.status()
    assert status["store_size_bytes"] == 64 * MIB
    # the limit includes `memory` and `object_store_memory`
    assert status["memory_limit_bytes"] <= 564 * MIB
    start(by_env, memory_usage_threshold=0.5, memory_limit=1 << 60, memory_monitor_refresh_ms=50)
    wait_until(lambda: 0 < _skate.status()["memory_limit_bytes"] <= config.memory_bytes() * 0.5)


def test_page(start, capsys):
    for by_env, page, opened in ((False, 1, True), (True, 1, True), (True, 0, False)):
        start(by_env=by_env, page=page)
        said = capsys.readouterr().err
        assert ("a page shows this program: http://127.0.0.1:" in said) is opened


@pytest.mark.parametrize("by_env", [False, True])
def test_nodes(start, by_env):
    start(by_env, nodes=2, node_labels="a=1;a=2")
    assert _skate.engine() == "cluster" and len(skate.nodes()) == 2
    assert [n["Labels"]["a"] for n in skate.nodes()] == ["1", "2"]


def test_connections(start):
    """(engine/ray.py; tests/py/cluster/test_ray_carry.py has what it does)"""
    for by_env in (False, True):
        with pytest.raises((ValueError, ImportError), match="connections='udp'|needs Ray"):
            start(by_env, engine="ray", connections="udp")


def test_address(start):
    for by_env in (False, True):
        with pytest.raises(ConnectionError, match="address='nowhere'.*HOST:PORT"):
            start(by_env, address="nowhere")
    with pytest.raises(ConnectionError):
        skate.init(address="auto")
    skate.init(address="local", num_cpus=1)  # what the program says comes first
    assert skate.cluster_resources()["CPU"] == 1


def test_engine_and_seed(start):
    orders = []
    for seed in (0, 7):
        start(by_env=True, engine="inline", seed=seed)
        assert skate.get(pid.remote()) == os.getpid()
        LOG.clear()
        skate.get([log.remote(i) for i in range(20)])
        orders.append(LOG[:])
    assert (
        orders[0] == list(range(20)) and orders[1] != orders[0] and sorted(orders[1]) == orders[0]
    )


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
    def outer(folder):  # the knob holds for tasks of tasks, too
        return skate.get(dies.remote(folder))

    with pytest.raises(skate.exceptions.WorkerCrashedError):
        skate.get(outer.options(max_retries=0).remote(str(tmp_path)))
    assert len(os.listdir(tmp_path)) == 5
    start(by_env, max_retries=0)
    assert runs(dies) == 1


@pytest.mark.parametrize("n, given, runs", [(5, {}, 6), (0, {}, 1), (5, {"max_retries": 1}, 2)])
def test_max_retries_of_datasets(start, n, given, runs, tmp_path):
    """The knob once had no effect: there were four runs, whatever it was set to."""

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
        skate.put(bytes(48 * MIB))  # larger than the store, and than the overflow behind it
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
    wait_until(lambda: _skate.status()["workers"] == 1)  # the default is 30 s


def test_preload_and_spin(start):
    @skate.remote
    def has(name):
        return name in sys.modules

    @skate.remote
    def sleep(s):
        time.sleep(s)

    # Seconds that this thread is on a CPU, and those that it waits for one, since other processes
    # may have all CPUs.
    def awake():
        with open("/proc/thread-self/schedstat") as f:
            return [int(x) / 1e9 for x in f.read().split()[:2]]

    def cost():
        skate.get(sleep.remote(0))
        before = awake()
        skate.get(sleep.remote(0.3))
        return [b - a for a, b in zip(before, awake())]

    start(preload="sndhdr_not_there,colorsys", spin_us=0)
    assert skate.get(has.remote("colorsys"))
    assert min(cost()[0] for _ in range(3)) < 0.1
    start(spin_us=60_000_000)
    assert not skate.get(has.remote("colorsys"))
    assert min(sum(cost()) for _ in range(3)) > 0.2


@pytest.mark.parametrize("by_env", [False, True])
def test_trace(start, tmp_path, by_env):
    start(by_env, trace=str(tmp_path / "of-%p"))
    skate.get(pid.remote())
    skate.shutdown()
    seen = view.snapshot(tmp_path / f"of-{os.getpid()}")
    assert (seen["ended"], seen["tasks"]["done"]) == ("closed", 1)


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
    assert skate.get(grow.remote(200)) == 200 * MIB  # the check is off


# ---- tasks, actors, Datasets


def as_task(fn, **need):
    return skate.get(skate.remote(fn).options(**{"num_cpus": 0, **need}).remote(), timeout=60)


def as_actor(fn, **need):
    @skate.remote
    class Actor:
        def call(self):
            return fn()

    return skate.get(Actor.options(**{"num_cpus": 0, **need}).remote().call.remote(), timeout=60)


def as_dataset(fn, **need):
    ds = skate.data.range(1, override_num_blocks=1)
    return ds.map_batches(
        lambda batch: {"x": [fn()]}, batch_size=1, **(need or {"num_cpus": 0.1})
    ).take_all()[0]["x"]


def as_pool(fn, **need):
    class Pool:
        def __call__(self, batch):
            return {"x": [fn()]}

    ds = skate.data.range(1, override_num_blocks=1)
    return ds.map_batches(
        Pool, concurrency=1, batch_size=1, **(need or {"num_cpus": 0.1})
    ).take_all()[0]["x"]


WAYS = {"task": as_task, "actor": as_actor, "dataset": as_dataset, "pool": as_pool}


def works(way, fn, **need):
    """Whether the task can run, or lacks something that it needs."""
    try:
        way(fn, **need)
    except (skate.exceptions.RayError, ValueError, RuntimeError):
        return False
    return True


def needs(**need):
    return lambda way, folder, capsys: works(way, os.getpid, **need)


def does(fn):
    """Whether the function ends in a worker."""
    return lambda way, folder, capsys: works(way, fn)


def gives(fn):
    return lambda way, folder, capsys: way(fn)


def runs(fn):
    """The number of times that the function is begun."""

    def probe(way, folder, capsys):
        def counted():
            open(os.path.join(folder, str(time.monotonic_ns())), "w").close()
            return fn()

        works(way, counted)
        return len(os.listdir(folder))

    return probe


def prints(way, folder, capsys):
    way(lambda: print("hello"))
    return capsys.readouterr().out


def put_much():
    return len([skate.put(np.full(8 * MIB, i, np.uint8)) for i in range(5)])


def grows(stay_s):
    return lambda: grow._function(200, stay_s)


def ram(n, **more):
    return {"memory_limit": n, "memory_monitor_refresh_ms": 20, "task_oom_retries": 0, **more}


TIGHT = {"spill_dir": "", "overflow_bytes": 0}
HERE = os.getpid()

# knob: (its value and those of other knobs, the expected result of a call, the probe). A dict:
# different values by the kind of call.
HEARD = {
    "engine": [
        ({"engine": "local"}, False, gives(lambda: os.getpid() == HERE)),
        ({"engine": "inline"}, True, gives(lambda: os.getpid() == HERE)),
    ],
    "num_cpus": [
        ({"num_cpus": 2}, False, needs(num_cpus=3)),
        ({"num_cpus": 3}, True, needs(num_cpus=3)),
    ],
    "num_gpus": [
        ({"num_gpus": 0}, False, needs(num_gpus=2)),
        ({"num_gpus": 2}, True, needs(num_gpus=2)),
    ],
    "memory": [
        ({"memory": 200 * MIB}, False, needs(memory=300 * MIB)),
        ({"memory": 400 * MIB}, True, needs(memory=300 * MIB)),
    ],
    "object_store_memory": [
        (
            {"object_store_memory": 16 * MIB, **TIGHT},
            False,
            does(lambda: np.zeros(24 * MIB, np.uint8)),
        ),
        (
            {"object_store_memory": 96 * MIB, **TIGHT},
            True,
            does(lambda: np.zeros(24 * MIB, np.uint8)),
        ),
    ],
    "overflow_bytes": [
        (
            {"object_store_memory": 16 * MIB, **TIGHT},
            False,
            does(lambda: np.zeros(24 * MIB, np.uint8)),
        ),
        ({"object_store_memory": 16 * MIB}, True, does(lambda: np.zeros(24 * MIB, np.uint8))),
    ],
    "spill_dir": [
        ({**TIGHT}, False, does(put_much)),
        ({"overflow_bytes": 0}, True, does(put_much)),
    ],
    "spill_bytes": [
        ({"spill_bytes": 0, "overflow_bytes": 0}, False, does(put_much)),
        ({"overflow_bytes": 0}, True, does(put_much)),
    ],
    "memory_limit": [(ram(150 * MIB), False, does(grows(60))), (ram(0), True, does(grows(0)))],
    "memory_monitor_refresh_ms": [
        (ram(150 * MIB), False, does(grows(60))),
        (ram(150 * MIB, memory_monitor_refresh_ms=0), True, does(grows(0))),
    ],
    "task_oom_retries": [  # for tasks, like max_retries
        (ram(150 * MIB), {"task": 1, "dataset": 1, "actor": 1, "pool": 4}, runs(grows(60))),
        (
            ram(150 * MIB, task_oom_retries=1),
            {"task": 2, "dataset": 2, "actor": 1, "pool": 4},
            runs(grows(60)),
        ),
    ],
    "max_workers": [
        ({"max_workers": 1}, False, does(lambda: skate.get(pid.remote()))),
        ({"max_workers": 2}, True, does(lambda: skate.get(pid.remote()))),
    ],
    "preload": [
        ({"preload": ""}, False, gives(lambda: "colorsys" in sys.modules)),
        ({"preload": "colorsys"}, True, gives(lambda: "colorsys" in sys.modules)),
    ],
    "print_labels": [({"print_labels": 0}, "hello\n", prints)],
    # for tasks: actors have max_restarts and max_task_retries, as in Ray, also the actors of a
    # Dataset
    "max_retries": [
        (
            {"max_retries": 0},
            {"task": 1, "dataset": 1, "actor": 1, "pool": 4},
            runs(lambda: os._exit(1)),
        ),
        (
            {"max_retries": 4},
            {"task": 5, "dataset": 5, "actor": 1, "pool": 4},
            runs(lambda: os._exit(1)),
        ),
    ],
}
# Knobs of the engine as a whole, which change no task, actor or Dataset. The tests above check
# them.
OF_THE_ENGINE = {
    "address",
    "connections",
    "nodes",
    "node_labels",
    "memory_usage_threshold",
    "spin_us",
    "idle_reap_s",
    "lineage_bytes",
    "seed",
    "page",
    "trace",
}


@pytest.mark.parametrize("knob", HEARD)
def test_a_knob_is_heard_by(start, knob, tmp_path, capsys, monkeypatch):
    """One value is set in _system_config, the other in the environment."""
    for i, (given, expected, probe) in enumerate(HEARD[knob]):
        for _, variable, _ in config.KNOBS.values():
            monkeypatch.delenv(variable, raising=False)
        start(i == 1, **given)
        for way, call in WAYS.items():
            folder = tmp_path / f"{way}{i}"
            folder.mkdir()
            wanted = expected[way] if isinstance(expected, dict) else expected
            with case(way, given):
                assert probe(call, str(folder), capsys) == wanted


def test_both_ways_give_the_same(monkeypatch):
    """What _system_config and the environment say is the same to all behind config.resolve()."""
    for given, _, _ in itertools.chain(*HEARD.values()):
        for _, variable, _ in config.KNOBS.values():
            monkeypatch.delenv(variable, raising=False)
        wanted = config.resolve(given)
        for name, value in given.items():
            monkeypatch.setenv(config.KNOBS[name][1], str(value))
        with case(given):
            assert config.resolve({}) == wanted


def test_every_knob_has_a_row():
    assert set(config.KNOBS) == {*HEARD, *OF_THE_ENGINE} and not OF_THE_ENGINE & set(HEARD)


def test_every_knob_is_tried(request):
    """All knobs are used by the tests above."""
    chosen = {i.function for i in request.session.items}
    if any(name.startswith("test_") and f not in chosen for name, f in globals().items()):
        pytest.skip("only some of the tests above run")
    assert [name for name in config.KNOBS if name not in TRIED] == []
