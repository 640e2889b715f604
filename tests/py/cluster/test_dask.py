"""Nodes that Dask starts (examples/dask_nodes.py): whoever launches nodes needs no change to skate."""

import contextlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import time

import pytest
import skate
import skate.data
from patience import eventually
from procs import marked, wait_no_marked

pytestmark = pytest.mark.skipif(
    not importlib.util.find_spec("distributed"),
    reason="Dask's distributed is not installed here (`./dev test` has it)",
)
EXAMPLES = os.path.join(os.path.dirname(__file__), *[os.pardir] * 3, "examples")


class Dask:
    """A scheduler and workers of one thread, as processes."""

    def __init__(self, folder):
        self.file, self.tag = str(folder / "scheduler.json"), str(folder)
        self.scheduler = self.start("dask_scheduler", "--host", "127.0.0.1", "--port", "0")
        eventually(lambda: os.path.exists(self.file) and os.path.getsize(self.file))
        self.workers = [self.worker() for _ in range(2)]
        with open(self.file) as f:
            self.address = json.load(f)["address"]

    def start(self, program, *how, **env):
        env = {**os.environ, "SKATE_TEST_TAG": self.tag, **env}
        env.setdefault("PYTHONPATH", os.path.dirname(os.path.dirname(skate.__file__)))
        files = ("--scheduler-file", self.file, "--no-dashboard")
        return subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{program}", *files, *how],
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def worker(self, **env):
        how = ("--nthreads", "1", "--memory-limit", "500MB", "--no-nanny")
        return self.start("dask_worker", *how, **env)

    def ready(self, n):
        """Waits until the cluster has these many workers."""
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:
            eventually(lambda: len(client.scheduler_info()["workers"]) == n)

    def end(self, i):
        worker = self.workers.pop(i)
        worker.kill()
        worker.wait()

    def close(self):
        for p in (*self.workers, self.scheduler):
            p.kill()
            p.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """One for all tests: each process of Dask takes a second to import what it needs."""
    with contextlib.closing(Dask(tmp_path_factory.mktemp("dask"))) as dask:
        yield dask
    assert not wait_no_marked(dask.tag, 10)


@pytest.fixture
def dask(cluster, monkeypatch):
    """The cluster with two workers, and nothing of skate in it."""
    monkeypatch.syspath_prepend(os.path.abspath(EXAMPLES))
    import dask_nodes  # noqa: F401  (enters itself)

    skate.shutdown()
    cluster.ready(2)
    yield cluster
    skate.shutdown()
    eventually(lambda: len(marked(cluster.tag)) == 1 + len(cluster.workers))


@skate.remote
def where():
    return os.environ["SKATE_TEST_TAG"], os.getppid()


def test_tasks_and_datasets(dask):
    skate.init(address=dask.address, _engine="dask")
    assert skate.cluster_resources()["CPU"] == 2
    tags = {tag for tag, _ in skate.get([where.remote() for _ in range(300)])}
    assert tags == {dask.tag}
    ds = skate.data.range(4000, override_num_blocks=8).map_batches(lambda b: {"x": b["id"] * 2})
    assert [r["x"] for r in ds.iter_rows()] == list(range(0, 8000, 2))
    assert ds.sort("x", descending=True).take(1) == [{"x": 7998}]
    before = len(marked(dask.tag))
    skate.shutdown()
    assert before > 3
    eventually(lambda: len(marked(dask.tag)) == 3)  # Dask's own
    skate.init(address=dask.address, _engine="dask")  # the cluster serves the next program, too
    assert len({pid for _, pid in skate.get([where.remote() for _ in range(300)])})


def test_workers_that_join_and_workers_that_die(dask):
    skate.init(address=dask.address, _engine="dask")
    dask.workers.append(dask.worker())
    dask.ready(3)
    assert len(skate.engine._nodes.add()) == 1 and skate.cluster_resources()["CPU"] == 3

    def slow(batch):
        time.sleep(0.1)
        return batch

    ds = skate.data.range(2400, override_num_blocks=24).map_batches(slow, batch_size=None)
    got = []
    for batch in ds.iter_batches(batch_size=100):
        if not got:
            dask.end(0)
        got += batch["id"].tolist()
    assert got == list(range(2400))
    assert sum(n["Alive"] for n in skate.nodes()) == 2


def test_what_cannot_work(dask, tmp_path):
    begin = time.monotonic()
    with pytest.raises(ConnectionError, match="there is no Dask scheduler at tcp://127.0.0.1:1"):
        skate.init(address="tcp://127.0.0.1:1", _engine="dask")
    assert time.monotonic() - begin < 10
    (tmp_path / "skate").mkdir()
    (tmp_path / "skate" / "__init__.py").write_text("__version__ = '0.0.1'\n")
    dask.workers.append(dask.worker(PYTHONPATH=str(tmp_path)))
    dask.ready(3)
    with pytest.raises(RuntimeError, match=re.escape("of the Dask cluster has skate 0.0.1")):
        skate.init(address=dask.address, _engine="dask")
    eventually(lambda: len(marked(dask.tag)) == 4)
    dask.end(-1)
    skate.init(num_cpus=1, object_store_memory=100 << 20)
    assert skate.get(skate.remote(lambda: 1).remote()) == 1
