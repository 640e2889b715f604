"""What happens to a program over Ray when something of the cluster ends in the middle of its jobs:
a node's process, a raylet, the head, the program itself; and when Ray drains a node. Afterwards
nothing is left. `./dev test ray` runs this."""

import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time

import pytest

ray = pytest.importorskip(
    "ray",
    reason="Ray is not installed here: ./dev test ray installs it into build/ray and runs these",
)
if not hasattr(ray, "cluster_utils") and not hasattr(ray, "remote"):
    pytest.skip("what is called ray here is not Ray", allow_module_level=True)

import skate  # noqa: E402
from patience import eventually, stop  # noqa: E402
from procs import children, family, marked, wait_gone, wait_no_marked  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402

MIB = 1 << 20
BEGIN = """
import json, os, sys, time
import skate, skate.data

def say(*what):
    print(*what, flush=True)

@skate.remote
def f(x):
    time.sleep(0.05)
    return x

def tasks(n=8):
    assert skate.get([f.remote(k) for k in range(n)]) == list(range(n))

def alive():
    return sum(n["Alive"] for n in skate.nodes())

@skate.remote
def me():
    time.sleep(0.05)
    return skate.get_runtime_context().get_node_id()

def where():
    return set(skate.get([me.remote() for _ in range(20)]))

def there():
    return {n["NodeID"] for n in skate.nodes() if n["Alive"]}

begin = time.monotonic()
skate.init(address=ADDRESS, object_store_memory=80 << 20)
tasks()
say("ready", time.monotonic() - begin)
"""


class Program:
    """A program over the cluster, which says lines."""

    def __init__(self, address, text, tag):
        self.process = subprocess.Popen(
            [sys.executable, "-c", BEGIN.replace("ADDRESS", repr(address)) + text],
            env={**os.environ, "SKATE_TEST_TAG": tag},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.wait_for("ready")

    def wait_for(self, word):
        for line in self.process.stdout:
            if line.startswith(word):
                return line.split(None, 1)[-1].strip()
        pytest.fail(f"{word} was not said: {self.process.communicate()[1]}")

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def ends_well(self, seconds=60):
        """Waits for its end. Returns its stderr."""
        out, err = self.process.communicate(timeout=seconds)
        # Ray writes to the stdout of programs, too.
        assert self.process.returncode == 0 and out.endswith("over\n"), (out, err)
        return err


class Raylets:
    def __init__(self, n=2, **env):
        os.environ.update(env)
        os.environ["PYTHONPATH"] = os.path.dirname(os.path.dirname(skate.__file__))
        os.environ["RAY_health_check_period_ms"] = "500"
        os.environ["RAY_health_check_timeout_ms"] = "1000"
        os.environ["RAY_health_check_failure_threshold"] = "5"
        self.cluster = Cluster()
        for _ in range(n):
            self.add()
        self.cluster.wait_for_nodes()
        for name in env:
            del os.environ[name]
        self.address = self.cluster.address
        self.programs = []

    def add(self):
        return self.cluster.add_node(
            num_cpus=1, object_store_memory=80 * MIB, include_dashboard=False
        )

    def pid(self, name, node=0):
        return self.cluster.list_all_nodes()[node].all_processes[name][0].process.pid

    def agents(self):
        """The processes of skate's nodes, in the order of the raylets."""
        found = []
        for node in range(len(self.cluster.list_all_nodes())):
            found += [p for p in children(self.pid("raylet", node)) if is_node(p)]
        return found

    def drain(self, node):
        command = [os.path.join(os.path.dirname(sys.executable), "ray"), "drain-node"]
        told = {
            "address": self.address,
            "node-id": self.cluster.list_all_nodes()[node].node_id,
            "reason": "DRAIN_NODE_REASON_PREEMPTION",
            "reason-message": "a test",
            "deadline-remaining-seconds": "60",
        }
        command += [x for name, value in told.items() for x in (f"--{name}", value)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def start(self, text, tag):
        self.programs.append(Program(self.address, text, tag))
        return self.programs[-1]

    def close(self):
        for p in self.programs:
            p.process.kill()
            p.process.communicate()
        self.cluster.shutdown()


def is_node(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as f:
        return b"SkateNode" in f.read()
    return False


@pytest.fixture
def raylets():
    with contextlib.closing(Raylets()) as raylets:
        yield raylets


@pytest.fixture
def tag(tmp_path):
    """Marks a program's own processes."""
    return str(tmp_path)


# ---- the bytes of a job, whatever ends in its middle (pytest -rP says how long jobs took)

# A job of 24 tasks of 0.2 s, an exchange, and as many writes. began: a folder that counts the tasks.
JOB = """
import hashlib
import numpy as np

def job(folder, began, **how):
    def slow(batch):
        time.sleep(0.2)
        open(f"{began}/{batch['id'][0]}-{time.monotonic_ns()}", "w").close()
        return {"id": batch["id"], "x": np.sqrt(batch["id"] + 1.0)}

    ds = skate.data.range(120_000, override_num_blocks=24).map_batches(slow, batch_size=None)
    if not how:
        ds = ds.random_shuffle(seed=7)
    ds.write_parquet(folder, **how)

def digest(folder):
    names = sorted(os.listdir(folder), key=lambda name: name.partition("_")[2])
    files = [open(os.path.join(folder, name), "rb").read() for name in names if name[0] != "."]
    return [len(files), hashlib.sha256(b"".join(files)).hexdigest()]
"""


def local_bytes(folder, **how):
    """What the job writes over the local engine."""
    os.mkdir(f"{folder}/began-here")
    names = {"os": os, "time": time, "skate": skate}
    exec(JOB, names)
    skate.shutdown()
    skate.init(num_cpus=2)
    try:
        names["job"](f"{folder}/here", f"{folder}/began-here", **how)
    finally:
        skate.shutdown()
    return names["digest"](f"{folder}/here")


FAULTS = {
    "nothing": lambda raylets: None,
    "a node's process": lambda raylets: os.kill(raylets.agents()[1], signal.SIGKILL),
    "a raylet": lambda raylets: os.kill(raylets.pid("raylet", 1), signal.SIGKILL),
    "the head": lambda raylets: os.kill(raylets.pid("gcs_server"), signal.SIGKILL),
    "a drain": lambda raylets: raylets.drain(1),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_bytes_of_a_job(fault, tag, tmp_path, monkeypatch):
    """They are those of the local engine, and nothing is left."""
    before, left = shared_memory(), tmp_path / "temporary"
    left.mkdir()
    began = tmp_path / "began"
    began.mkdir()
    monkeypatch.setenv("TMPDIR", str(left))
    monkeypatch.setenv("RAY_TMPDIR", "/tmp")
    with contextlib.closing(Raylets()) as raylets:
        program = raylets.start(
            JOB
            + f"""
while alive() < 2: tasks()
say("both")
begin = time.monotonic()
job({str(tmp_path / "out")!r}, {str(began)!r})
say("wrote", time.monotonic() - begin)
say("bytes", json.dumps(digest({str(tmp_path / "out")!r})))
skate.shutdown()
say("over")
""",
            tag,
        )
        program.wait_for("both")
        nodes = [p for agent in raylets.agents() for p in family(agent)]
        eventually(lambda: len(os.listdir(began)) >= 6)
        FAULTS[fault](raylets)
        told = time.monotonic()
        program.wait_for("wrote")
        took = time.monotonic() - told
        print(f"{fault}: the job was over {took:.1f} s later")
        assert took < 30
        wrote = json.loads(program.wait_for("bytes"))
        program.ends_well()
        assert not wait_gone(nodes, 10)
        assert not wait_no_marked(tag, 5)
    assert shared_memory() == before and os.listdir(left) == []
    monkeypatch.delenv("TMPDIR")
    assert wrote == local_bytes(tmp_path)


def test_a_program_that_was_killed_resumes(raylets, tag, tmp_path):
    """What it had written is not done again; the bytes are those of the local engine."""
    (tmp_path / "began").mkdir()
    text = (
        JOB
        + f"""
job({str(tmp_path / "out")!r}, {str(tmp_path / "began")!r}, resume=True)
say("bytes", json.dumps(digest({str(tmp_path / "out")!r})))
skate.shutdown()
say("over")
"""
    )
    program = raylets.start(text, tag)
    eventually(lambda: len(os.listdir(tmp_path / "began")) >= 12)
    os.kill(program.process.pid, signal.SIGKILL)
    program.process.communicate()
    assert not wait_no_marked(tag, 15)
    again = raylets.start(text, tag)
    wrote = json.loads(again.wait_for("bytes"))
    again.ends_well()
    assert len(os.listdir(tmp_path / "began")) < 24 + 12
    assert wrote == local_bytes(tmp_path, resume=True)


LOOPS = """
count = 0
while not (os.path.exists(sys.argv[1]) if sys.argv[1:] else False):
    tasks()
    count += 1
    say("tasks", alive())
"""

# ---- a node's process


def test_the_process_of_a_node_is_killed(raylets, tag):
    """Its tasks run on the other one; after a while a new one is there."""
    program = raylets.start(
        """
while alive() < 2: tasks()
say("both")
while alive() == 2: tasks()
say("one")
tasks()
begin = time.monotonic()
while alive() < 2: tasks()
say("again", time.monotonic() - begin)
tasks(40)
assert where() <= there() and len(there()) == 2
skate.shutdown()
say("over")
""",
        tag,
    )
    program.wait_for("both")
    all_of_it = family(raylets.agents()[1])
    os.kill(all_of_it[0], signal.SIGKILL)
    program.wait_for("one")
    assert not wait_gone(all_of_it, 5)
    assert 15 < float(program.wait_for("again")) < 40
    err = program.ends_well()
    assert "of the Ray cluster was lost: " in err, err
    assert not raylets.agents()


def test_the_process_of_a_node_is_stopped(raylets, tag):
    program = raylets.start(
        """
while alive() < 2: tasks()
say("both")
while alive() == 2: tasks()
say("one")
tasks(40)
skate.shutdown()
say("over")
""",
        tag,
    )
    program.wait_for("both")
    agent = raylets.agents()[1]
    all_of_it = family(agent)
    begin = time.monotonic()
    stop(agent)
    program.wait_for("one")
    assert time.monotonic() - begin < 10  # 5 s without a sign of life
    program.ends_well()
    os.kill(agent, signal.SIGCONT)  # if Ray has not killed it
    assert not wait_gone(all_of_it, 10)


# ---- nodes that come


def test_a_node_that_comes_without_skate(tag, tmp_path, monkeypatch):
    """It is told in the log, and takes nothing from the one that comes after it."""
    with contextlib.closing(Raylets(1)) as raylets:
        program = raylets.start(
            """
say("one")
while alive() < 2: tasks()
while len(where()) < 2: pass
assert where() == there()
skate.shutdown()
say("over")
""",
            tag,
        )
        program.wait_for("one")
        with monkeypatch.context() as m:
            m.setenv("PYTHONPATH", str(tmp_path))
            raylets.add()
        for line in program.process.stderr:
            if "has no skate (No module named 'skate'): install it there" in line:
                break
        else:
            pytest.fail("the program has ended")
        raylets.add()
        program.ends_well()


# ---- a raylet


def test_a_raylet_is_killed(raylets, tag):
    program = raylets.start(
        """
while alive() < 2: tasks()
say("both")
input()
begin = time.monotonic()
ds = skate.data.range(4000, override_num_blocks=16)
def slow(batch):
    time.sleep(0.2)
    return batch
say("job")
assert [r["id"] for r in ds.map_batches(slow, batch_size=None).iter_rows()] == list(range(4000))
say("right", time.monotonic() - begin)
skate.shutdown()
say("over")
""",
        tag,
    )
    program.wait_for("both")
    second = family(raylets.agents()[1])
    program.go_on()
    program.wait_for("job")
    os.kill(raylets.pid("raylet", 1), signal.SIGKILL)
    assert float(program.wait_for("right")) < 20
    program.ends_well()
    assert not wait_gone(second, 10)


# ---- memory


@pytest.mark.slow
def test_memory_ends_one_task_and_no_node(tag):
    """Ray's monitor would end the processes of nodes, one after the other, which have all that there
    is to end."""
    with open("/proc/meminfo") as f:
        kib = {line.split(":")[0]: int(line.split()[1]) for line in f}
    if kib["MemAvailable"] < kib["MemTotal"] // 2:
        pytest.skip("half of the machine's memory is in use")
    threshold = 1 - kib["MemAvailable"] / kib["MemTotal"] + 0.15
    with contextlib.closing(Raylets(RAY_memory_usage_threshold=f"{threshold:.3f}")) as raylets:
        program = raylets.start(
            """
@skate.remote(max_retries=0)
def grows():
    x = []
    while True:
        x.append(bytearray(os.urandom(1 << 20) * 100))
        time.sleep(0.05)

refs = [f.remote(i) for i in range(100)]
try:
    skate.get(grows.remote())
except skate.exceptions.OutOfMemoryError:
    say("stopped", alive())
assert skate.get(refs) == list(range(100))
skate.shutdown()
say("over")
""",
            tag,
        )
        assert program.wait_for("stopped") == "2"
        program.ends_well()


# ---- a disk


def test_the_disk_of_a_node_is_full(raylets, tag):
    """What has no room there is an error that says so; the rest is right, and the node works on."""
    program = raylets.start(
        """
import numpy as np
skate.shutdown()
skate.init(
    address=ADDRESS,
    object_store_memory=80 << 20,
    _system_config={"overflow_bytes": 0, "preload": "numpy"},  # no mapped files
)
while alive() < 2: tasks()
say("both")
input()

@skate.remote
def make(i):
    return np.full(1 << 20, i)

refs, errors = [make.remote(i) for i in range(60)], []
for i, ref in enumerate(refs):
    try:
        value = skate.get(ref)
        assert value[0] == i and len(value) == 1 << 20
        del value
    except skate.exceptions.OutOfDiskError as e:
        errors.append(str(e))
del ref, refs
tasks(40)
assert len(where()) == 2
say("errors", json.dumps([len(errors), errors[:1]]))
skate.shutdown()
say("over")
""".replace("ADDRESS", repr(raylets.address)),
        tag,
    )
    program.wait_for("both")
    for pid in family(raylets.agents()[1]):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (5 * MIB, 5 * MIB))
    program.go_on()
    n, first = json.loads(program.wait_for("errors"))
    assert 0 < n < 60 and "nothing can be spilled: spill: writing in" in first[0]
    assert "No space left on device" in first[0]
    program.ends_well()


# ---- the program


def test_the_program_is_killed(raylets, tag):
    before = shared_memory()
    program = raylets.start(LOOPS, tag)
    program.wait_for("tasks 2")
    nodes = [p for agent in raylets.agents() for p in family(agent)]
    assert len(nodes) >= 4
    os.kill(program.process.pid, signal.SIGKILL)
    begin = time.monotonic()
    workers = [p for p in nodes if not is_node(p)]
    assert not wait_gone(workers, 5)
    assert time.monotonic() - begin < 5
    eventually(lambda: not raylets.agents())
    assert time.monotonic() - begin < 15  # Ray's processes of the nodes
    assert not wait_no_marked(tag, 5)
    assert shared_memory() == before
    program.process.communicate()
    again = raylets.start("skate.shutdown(); say('over')", tag)  # the CPUs are free again
    again.ends_well()


def shared_memory():
    """What lies in /dev/shm besides Ray's own."""
    return {x for x in os.listdir("/dev/shm") if not re.match("plasma|ray", x)}


# ---- the head


def test_the_head_is_killed(raylets, tag):
    """The job goes on for a while, then there is a clear error; the program itself goes on, also
    when Ray would have ended it (after 60 s)."""
    program = raylets.start(
        """
while alive() < 2: tasks()
say("both")
input()
begin, n = time.monotonic(), 0
try:
    while True:
        tasks()
        n += 1
except skate.exceptions.RayError as e:
    say("error", json.dumps([type(e).__name__, str(e), time.monotonic() - begin, n]))
begin = time.monotonic()
skate.shutdown()
say("closed", time.monotonic() - begin)
skate.init(num_cpus=1, object_store_memory=80 << 20)
tasks()
skate.shutdown()
input()
say("over")
""",
        tag,
    )
    program.wait_for("both")
    nodes = [p for agent in raylets.agents() for p in family(agent)]
    os.kill(raylets.pid("gcs_server"), signal.SIGKILL)
    killed = time.monotonic()
    program.go_on()
    kind, text, seconds, n = json.loads(program.wait_for("error"))
    assert 15 < seconds < 30 and n > 20, (kind, text, seconds, n)
    assert "the head of the Ray cluster, at" in text and "has not answered for 20 s" in text
    assert float(program.wait_for("closed")) < 20
    assert not wait_gone([p for p in nodes if not is_node(p)], 5)
    time_left = 66 - (time.monotonic() - killed)
    with contextlib.suppress(subprocess.TimeoutExpired):  # it lives on beyond Ray's 60 s
        program.process.wait(max(time_left, 0))
        pytest.fail(f"it has ended: {program.process.communicate()}")
    program.go_on()
    err = program.ends_well()
    assert "the program goes on for 20 s at most" in err, err


# ---- a drain


def test_ray_drains_a_node(raylets, tag):
    """Values and actors of the node move; no task is lost, though none may be run again."""
    program = raylets.start(
        """
import numpy as np
while alive() < 2: tasks()

@skate.remote(max_retries=0, num_cpus=1)
def make(i):
    time.sleep(0.2)
    return np.full(100_000, i)

@skate.remote(max_restarts=1, num_cpus=0)
class Actor:
    def where(self):
        return os.getppid()

@skate.remote(max_retries=0)
def where():
    return os.getppid()

values = [make.remote(i) for i in range(20)]
skate.wait(values, num_returns=20)
more = [make.remote(i) for i in range(20)]
say("made")
begin = time.monotonic()
while alive() == 2: tasks()
say("drained", time.monotonic() - begin)
assert [int(x[0]) for x in skate.get(values)] == list(range(20))
assert [int(x[0]) for x in skate.get(more)] == list(range(20))
tasks(40)
say("nodes", json.dumps([n["Alive"] for n in skate.nodes()]))
skate.shutdown()
say("over")
""",
        tag,
    )
    program.wait_for("made")
    second = family(raylets.agents()[1])
    raylets.drain(1)
    assert float(program.wait_for("drained")) < 20
    assert not wait_gone(second, 10)  # the node has given back what it held
    assert json.loads(program.wait_for("nodes")) in ([True, False], [False, True])
    err = program.ends_well()
    assert "Error" not in err, err
    assert marked(tag) == []
