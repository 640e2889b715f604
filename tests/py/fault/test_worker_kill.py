"""Random SIGKILLs of workers during a job: the output is byte for byte that of an undisturbed run (SKATE_TEST_ROUNDS rounds, default 3)."""

import hashlib
import os
import random
import signal
import subprocess
import sys
import uuid

import pytest

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
            h.update(f.encode() + x.read())
    return h.hexdigest()


def children(pid):
    out = []
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{p}/stat") as f:
                if int(f.read().rsplit(") ", 1)[1].split()[1]) == pid:
                    out.append(int(p))
        except OSError:
            pass
    return out


def run(src, out, kills, rnd, log):
    """Runs JOB; kills a random worker (a grandchild: driver -> fork server -> workers) `kills` times at random moments."""
    p = subprocess.Popen(
        [sys.executable, "-c", JOB, str(src), str(out)], stdout=subprocess.PIPE, stderr=open(log, "wb"), env=dict(os.environ)
    )
    killed = 0
    while p.poll() is None:
        try:
            p.wait(rnd.uniform(0.01, 0.15))
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


@pytest.mark.timeout(600)
def test_same_bytes(tmp_path):
    seed = int(os.environ.get("SKATE_TEST_SEED", random.randrange(1 << 30)))
    rnd = random.Random(seed)
    src = tmp_path / "src"
    src.mkdir()
    for i in range(600):
        (src / f"{i:04d}-{uuid.uuid5(uuid.NAMESPACE_URL, str(i)).hex}").write_bytes(rnd.randbytes(rnd.randrange(40_000)))
    code, text, _ = run(src, tmp_path / "quiet", 0, rnd, tmp_path / "log")
    assert code == 0 and text == b"done\n", (tmp_path / "log").read_text()
    want, total = digest(tmp_path / "quiet"), 0
    for i in range(int(os.environ.get("SKATE_TEST_ROUNDS", 3))):
        code, text, killed = run(src, tmp_path / f"out{i}", 3, rnd, tmp_path / "log")
        total += killed
        assert code == 0, f"round {i}, seed {seed}: " + (tmp_path / "log").read_text()
        assert digest(tmp_path / f"out{i}") == want, f"round {i}, seed {seed}: the output differs"
    print(f"{total} workers killed")
    assert total > 0, "no worker was killed: the job is too short for this test"
