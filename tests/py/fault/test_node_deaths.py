"""A node of the engine `cluster` is killed, stopped, or outlives its driver: results equal those of
a run without faults, and nothing is left."""

import contextlib
import os
import random
import signal
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
import rounds
import skate
import skate.engine
import skate.engine.nodes
from patience import eventually
from procs import children, family

ROWS = 40_000
NODES = 3


def start():
    skate.init(
        num_cpus=NODES,
        object_store_memory=600 << 20,
        _system_config={"nodes": NODES, "preload": "numpy,pyarrow"},
    )


@pytest.fixture(scope="module", autouse=True)
def cluster():
    skate.shutdown()
    yield
    skate.shutdown()


@pytest.fixture
def nodes():
    """The processes of the nodes: those that the test before has left, and one that joins for each
    that it has lost."""
    if not skate.is_initialized():
        start()
    for _ in range(NODES - sum(n["Alive"] for n in skate.nodes())):
        skate.engine._nodes.add()
    yield [pid for pid in children(os.getpid()) if is_node(pid)]


def is_node(pid):
    with open(f"/proc/{pid}/cmdline", "rb") as f:
        return b"skate.engine.node" in f.read()


def exists(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


class Once:
    """Kills a node when the function has been called n times, in whatever processes."""

    def __init__(self, folder, pid, n):
        self.folder, self.pid, self.n = str(folder), pid, n

    def takes(self, i):
        try:
            os.close(os.open(os.path.join(self.folder, str(i)), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def __call__(self):
        i = len(os.listdir(self.folder))
        while not self.takes(i):  # several processes call at once
            i += 1
        if i == self.n:
            with contextlib.suppress(ProcessLookupError):  # an idle worker has ended by itself
                os.kill(self.pid, signal.SIGKILL)


def pipelines(tmp_path):
    def numbers():
        return skate.data.range(ROWS, override_num_blocks=24)

    def wide(batch):
        return {**batch, "key": batch["id"] * 7919 % 97, "pad": np.zeros((len(batch["id"]), 40))}

    def pool(f):
        return type("Pool", (), {"__call__": lambda self, batch: f(batch)})

    def written(ds):
        out = str(tmp_path / "out")
        ds.write_parquet(out, mode="overwrite")
        return sorted(pq.read_table(out, columns=["id"])["id"].to_pylist())

    def rows(ds):
        return [r["id"] for r in ds.iter_rows()]

    return {
        "map": lambda f: rows(numbers().map_batches(f)),
        "two maps": lambda f: rows(numbers().map_batches(wide).map_batches(f, num_cpus=0.5)),
        "sort": lambda f: rows(numbers().map_batches(wide).map_batches(f).sort("key")),
        "shuffle": lambda f: rows(
            numbers().map_batches(wide).map_batches(f).random_shuffle(seed=5)
        ),
        "after the exchange": lambda f: rows(
            numbers().map_batches(wide).random_shuffle(seed=5).map_batches(f, batch_size=1000)
        ),
        "groupby": lambda f: (
            numbers()
            .map_batches(wide)
            .map_batches(f)
            .groupby("key")
            .sum("id")
            .sort("key")
            .take_all()
        ),
        "write": lambda f: written(numbers().map_batches(wide).map_batches(f)),
        "pool": lambda f: rows(numbers().map_batches(pool(f), concurrency=3, num_cpus=0.5)),
        "after a pool": lambda f: rows(  # which has ended, but its blocks may be lost
            numbers()
            .map_batches(pool(wide), concurrency=3, num_cpus=0.5)
            .random_shuffle(seed=5)
            .map_batches(f, batch_size=1000)
        ),
    }


@pytest.mark.parametrize("what", pipelines(None))
def test_a_killed_node(nodes, tmp_path, what):
    at = random.Random(rounds.seed()).choice((1, 9, 20))  # an early, a later, or a late call
    run = pipelines(tmp_path)[what]
    want = run(lambda batch: batch)
    below = family(nodes[1])
    (tmp_path / "calls").mkdir()
    kill = Once(tmp_path / "calls", nodes[1], at)

    def f(batch):
        kill()
        return batch

    assert run(f) == want
    eventually(lambda: not any(map(exists, below)))
    eventually(lambda: sum(n["Alive"] for n in skate.nodes()) == NODES - 1)


@rounds.campaign()
def test_random_kills(tmp_path):
    """Nodes and workers are killed at random calls; a node joins after each loss."""
    seed = rounds.seed()
    rnd = random.Random(seed)
    skate.shutdown()
    want = {}
    for i in range(rounds.rounds(2)):
        if not skate.is_initialized():
            start()
        folder = tmp_path / str(i)
        folder.mkdir()
        what = rnd.choice(sorted(pipelines(None)))
        run = pipelines(folder)[what]
        want[what] = want.get(what) or run(lambda batch: batch)
        there = [pid for pid in children(os.getpid()) if is_node(pid)]
        victim = rnd.choice(there)
        if rnd.random() < 0.3:  # one of its workers
            victim = rnd.choice(family(victim)[1:])
        (folder / "calls").mkdir()
        kill = Once(folder / "calls", victim, rnd.randrange(24))

        def f(batch, kill=kill):
            kill()
            return batch

        assert run(f) == want[what], f"round {i}, seed {seed}: {what}"
        for _ in range(NODES - sum(map(exists, there))):
            skate.engine._nodes.add()
        if rnd.random() < 0.1:
            skate.shutdown()
    skate.shutdown()


def test_a_stopped_node_is_given_up(nodes):
    stopped = nodes[2]
    pid = skate.remote(os.getppid)
    assert len(set(skate.get([pid.remote() for _ in range(300)]))) == NODES
    os.kill(stopped, signal.SIGSTOP)
    got = skate.data.range(ROWS, override_num_blocks=24).map_batches(lambda b: b).sum("id")
    assert got == ROWS * (ROWS - 1) // 2
    below = family(stopped)
    os.kill(stopped, signal.SIGCONT)
    eventually(lambda: not any(map(exists, below)))


def test_the_last_node(nodes):
    for pid in nodes:
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(skate.exceptions.RayError, match="all nodes of the cluster are lost"):
        skate.get(skate.remote(os.getpid).remote())
    skate.shutdown()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, None])
def test_nodes_end_with_their_driver(how):
    """Also if the driver ends without shutdown()."""
    program = f"""
import os, sys, time
import skate
skate.init(num_cpus=2, _system_config={{"nodes": 2}})
f = skate.remote(time.sleep)
refs = [f.remote(0 if {how is None} else 1000) for _ in range(4)]
skate.get(skate.remote(os.getpid).options(num_cpus=0).remote())
print("begun", flush=True)
if {how is not None}:
    time.sleep(1000)
"""
    driver = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert driver.stdout.readline() == "begun\n"
    below = family(driver.pid)[1:]
    assert how is None or sum(map(is_node, below)) == 2
    if how is not None:
        driver.send_signal(how)
    driver.wait(60)
    driver.stdout.close()
    eventually(lambda: not any(map(exists, below)))


def test_a_node_that_cannot_start(monkeypatch):
    skate.shutdown()
    monkeypatch.setattr(skate.engine.nodes, "ADDRESS", "203.0.113.1")  # an address of others
    with pytest.raises(RuntimeError, match="did not start: .*203.0.113.1"):
        skate.init(num_cpus=2, _system_config={"nodes": 2})
    assert not skate.is_initialized()
    assert not [pid for pid in children(os.getpid()) if is_node(pid)]


def test_fewer_cpus_than_nodes():
    skate.shutdown()
    with skate.init(num_cpus=2, _system_config={"nodes": 3}):
        assert len(skate.nodes()) == 2
