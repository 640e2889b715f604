"""Random SIGKILLs of workers during a job: the output equals that of an undisturbed run, byte for
byte."""

import concurrent.futures
import hashlib
import os
import random
import signal
import subprocess
import sys
import sysconfig
import uuid

import pytest
import rounds
from procs import children

JOB = """
import sys, hashlib
import numpy as np
import skate as ray
import skate.data

ray.init(num_cpus=2, object_store_memory=1 << 28)

class Model:
    def __init__(self, k):
        self.k = k
    def __call__(self, batch):
        return {"path": batch["path"], "h": np.array([hashlib.sha256(bytes(b) * self.k).hexdigest() for b in batch["bytes"]])}

ds = skate.data.read_binary_files(sys.argv[1], include_paths=True)
ds = ds.map_batches(lambda b: {"path": b["path"], "bytes": np.array([bytes(x)[:20000] for x in b["bytes"]], dtype=object)})
ds = ds.map_batches(Model, fn_constructor_args=(20,), concurrency=2, batch_size=16, num_cpus=0.5)
ds.write_parquet(sys.argv[2])
print("done", flush=True)
"""


def digest(folder):
    h = hashlib.sha256()
    for f in sorted(os.listdir(folder)):
        with open(os.path.join(folder, f), "rb") as x:
            # the file's name without the write's id
            h.update(f.partition("_")[2].encode() + x.read())
    return h.hexdigest()


def run(command, kills, within, rnd, log):
    """Runs the command, and kills a random worker (a grandchild: driver -> fork server -> workers)
    `kills` times, at random times at most `within` s apart."""
    with open(log, "wb") as errors:
        p = subprocess.Popen(
            [sys.executable, *command], stdout=subprocess.PIPE, stderr=errors, env=dict(os.environ)
        )
    killed = 0
    while p.poll() is None:
        try:
            p.wait(rnd.uniform(0.01, within))
        except subprocess.TimeoutExpired:
            workers = [w for s in children(p.pid) for w in children(s)]
            if workers and killed < kills:
                try:
                    os.kill(rnd.choice(workers), signal.SIGKILL)
                    killed += 1
                except ProcessLookupError:
                    pass
    text = p.stdout.read()
    p.stdout.close()
    return p.returncode, text, killed


def same_bytes(command, within, rounds, tmp_path, seed):
    """Checks that command(out) with kills and without them writes the same files."""
    rnd, log = random.Random(seed), tmp_path / "log"
    code, text, _ = run(command(tmp_path / "quiet"), 0, within, rnd, log)
    assert code == 0 and text, log.read_text()
    want, total = digest(tmp_path / "quiet"), 0
    for i in range(rounds):
        code, _, killed = run(command(tmp_path / f"out{i}"), 3, within, rnd, log)
        total += killed
        assert code == 0, f"round {i}, seed {seed}: " + log.read_text()
        assert digest(tmp_path / f"out{i}") == want, f"round {i}, seed {seed}: the output differs"
    print(f"{total} workers killed in {rounds} runs")
    assert total > 0, "no worker was killed: the job is too short for this test"


@rounds.campaign(600)
def test_same_bytes(tmp_path):
    seed = rounds.seed()
    rnd = random.Random(seed)
    src = tmp_path / "src"
    src.mkdir()
    for i in range(600):
        (src / f"{i:04d}-{uuid.uuid5(uuid.NAMESPACE_URL, str(i)).hex}").write_bytes(
            rnd.randbytes(rnd.randrange(40_000))
        )
    same_bytes(lambda out: ["-c", JOB, str(src), str(out)], 0.15, rounds.rounds(2), tmp_path, seed)


@rounds.campaign(600)
def test_main_job_same_bytes(tmp_path):
    """The main job itself: Magika in a pool of actors, over a part of the standard library."""
    pytest.importorskip("magika")
    src = os.path.join(sysconfig.get_path("stdlib"), "idlelib")
    job = os.path.join(os.path.dirname(__file__), "../../../examples/classify_files.py")
    same_bytes(
        lambda out: [job, src, "--out", str(out), "--limit", "120"],
        0.4,
        rounds.rounds(1),
        tmp_path,
        rounds.seed(),
    )


def test_a_fork_server_that_is_killed_again_and_again():
    """After eight deaths in a row, tasks that waited for a worker once failed, and so did later
    queries while the server was killed."""
    import skate as ray
    from skate._private.internal_api import memory_summary

    @ray.remote(max_retries=0)
    def double(x):
        return x * 2

    def query():
        return ray.data.range(1000).map_batches(lambda b: {"n": b["id"] * 2}).sum("n")

    ray.shutdown()
    mine, killed = set(children(os.getpid())), set()
    ray.init(num_cpus=2, object_store_memory=64 << 20)
    refs = [double.remote(i) for i in range(10)]
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        got, total = threads.submit(ray.get, refs), threads.submit(query)
        try:
            # none of the fork servers has had the time to make a worker
            while len(killed) < 9 and not got.done():
                for pid in set(children(os.getpid())) - mine - killed:
                    os.kill(pid, signal.SIGKILL)
                    killed.add(pid)
                concurrent.futures.wait([got], 0.001)
            assert got.result(60) == [i * 2 for i in range(10)] and total.result(60) == 999_000
            assert len(killed) == 9 and "Fork server: started again " in memory_summary(
                stats_only=True
            )
        finally:
            ray.shutdown()
