"""skate over a real Ray of two raylets with one CPU each: rows and their order are the same as over
the local engine. `./dev test ray` installs Ray and runs this."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ray = pytest.importorskip(
    "ray",
    reason="Ray is not installed here: ./dev test ray installs it into build/ray and runs these",
)
if not hasattr(ray, "cluster_utils") and not hasattr(ray, "remote"):
    pytest.skip("what is called ray here is not Ray", allow_module_level=True)

import skate  # noqa: E402
from patience import stop  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402
from skate.data.plan import node  # noqa: E402
from skate.engine import ray as nodes  # noqa: E402

MIB = 1 << 20
HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, *[os.pardir] * 3, "examples")
IDLELIB = os.path.join(sysconfig.get_path("stdlib"), "idlelib")


def raylets(cpus=2):
    """Two raylets on this machine, with so many CPUs each. With two, the tests' engine takes one of each, and the
    programs that they start take the others."""
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [os.path.dirname(os.path.dirname(skate.__file__)), HERE, EXAMPLES]
    )
    os.environ["RAY_health_check_period_ms"] = "500"
    os.environ["RAY_health_check_timeout_ms"] = "1000"
    os.environ["RAY_health_check_failure_threshold"] = "5"
    cluster = Cluster()
    cluster.add_node(num_cpus=cpus, object_store_memory=150 * MIB, include_dashboard=False)
    cluster.add_node(num_cpus=cpus, object_store_memory=150 * MIB, include_dashboard=False)
    cluster.wait_for_nodes()
    return cluster


@pytest.fixture(scope="module")
def cluster():
    c = raylets()
    skate.shutdown()
    skate.init(address=c.address, num_cpus=1)
    yield c
    skate.shutdown()
    c.shutdown()


def double(batch):
    return {"id": batch["id"], "twice": batch["id"] * 2}


def odd(row):
    return row["id"] % 2 == 1


class Adder:
    def __init__(self, n):
        self.n = n

    def __call__(self, batch):
        return {"id": batch["id"] + self.n}


def test_two_nodes(cluster):
    assert skate.cluster_resources()["CPU"] == 2.0


def test_the_nodes_of_the_cluster(cluster):
    alive = {n["NodeManagerAddress"]: n for n in ray.nodes() if n["Alive"]}
    ours = skate.nodes()
    assert (
        len(ours) == 2
        and len({n["NodeID"] for n in ours}) == 2
        and {n["NodeManagerAddress"] for n in ours} == set(alive)
    )
    for key, total in (("CPU", 2.0), ("object_store_memory", 300.0 * MIB), ("memory", None)):
        each = sorted(n["Resources"][key] for n in ours)
        if key != "CPU":
            assert each == sorted(int(n["Resources"][key]) for n in ray.nodes() if n["Alive"])
        assert skate.cluster_resources()[key] == sum(each) and total in (None, sum(each))


def test_calls_of_an_actor_run_at_once(cluster):
    @skate.remote
    class Meets:
        def __init__(self):
            self.both = threading.Barrier(2)

        def f(self):
            return self.both.wait(60)

    a = Meets.options(max_concurrency=2).remote()
    assert sorted(skate.get([a.f.remote(), a.f.remote()])) == [0, 1]


@pytest.mark.parametrize(
    "begin, end",
    [
        ("skate.init(address=address, num_cpus=1)", ""),
        (
            "ray.init(address=address, log_to_driver=False); skate.init(_engine='ray', num_cpus=1)",
            "",
        ),
        ("skate.init(address=address, num_cpus=1)", "ray.shutdown()"),
        (
            "skate.init(address=address, num_cpus=1)",
            "skate.shutdown(); skate.init(address=address, num_cpus=1); skate.data.range(3).count()",
        ),
    ],
)
def test_a_program_without_shutdown_ends_in_order(cluster, begin, end):
    program = f"""
address = {cluster.address!r}
import skate, skate.data, ray
{begin}
@skate.remote
def f(x):
    return x
@skate.remote
class A:
    def g(self):
        return 1
a = A.remote()
assert skate.get([f.remote(1), a.g.remote()]) == [1, 1] and skate.data.range(10).map(lambda r: r).count() == 10
print("done", flush=True)
{end}
"""
    r = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ,
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (
        (r.returncode, r.stdout) == (0, "done\n")
        and "Traceback" not in r.stderr
        and "Error" not in r.stderr
    ), r.stderr


@pytest.mark.parametrize("order", ["skate.data, ray.data", "ray.data, skate.data"])
def test_tensors_beside_ray_data(cluster, order, tmp_path):
    """Ray Data and skate in one program: tensors in Datasets, in files that the other one reads,
    and passed over as tables."""
    program = f"""
import sys
import numpy as np
import {order}, ray, skate
skate.init(num_cpus=1)
ray.init(address={cluster.address!r}, log_to_driver=False)
ray.data.DataContext.get_current().enable_progress_bars = False
want = np.arange(16.0).reshape(4, 2, 2)
for _ in range(2):
    for one, other, name in ((skate.data, ray.data, "a"), (ray.data, skate.data, "b")):
        ds = one.from_numpy(want)
        assert (ds.map_batches(lambda b: b).take_batch(4)["data"] == want).all()
        ds.write_parquet({str(tmp_path)!r} + "/" + name, mode="overwrite")
        for both in (one, other):
            assert (both.read_parquet({str(tmp_path)!r} + "/" + name).take_batch(4)["data"] == want).all()
        t = next(iter(ds.iter_batches(batch_format="pyarrow", batch_size=None)))
        assert (other.from_arrow(t).map_batches(lambda b: b).take_batch(4)["data"] == want).all()
print("done")
"""
    r = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ,
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (r.returncode, r.stdout) == (0, "done\n"), r.stderr


def test_rows_and_their_order(cluster):
    data = skate.data
    numbers = data.range(4000, override_num_blocks=6)
    ids = np.arange(4000)
    assert list(numbers.iter_rows()) == [{"id": int(i)} for i in ids]
    assert list(numbers.map_batches(double).filter(odd).iter_rows()) == [
        {"id": int(i), "twice": int(2 * i)} for i in ids if i % 2
    ]
    assert list(numbers.map_batches(double).limit(777).iter_rows()) == [
        {"id": int(i), "twice": int(2 * i)} for i in ids[:777]
    ]
    two = numbers.map_batches(double).map_batches(
        lambda b: {"id": b["id"] + 1}, num_cpus=0.5, batch_size=100
    )
    assert [r["id"] for r in two.iter_rows()] == list(range(1, 4001))
    assert [
        r["id"] for r in numbers.limit(10).union(data.range(20, override_num_blocks=2)).iter_rows()
    ] == [*range(10), *range(20)]
    zipped = numbers.zip(data.range(4000, override_num_blocks=4).map_batches(double))
    assert [(r["id"], r["twice"]) for r in zipped.iter_rows()] == [
        (int(i), int(2 * i)) for i in ids
    ]
    assert [
        r["id"] for r in data.range(100).flat_map(lambda row: [row] * (row["id"] % 3)).iter_rows()
    ] == [i for i in range(100) for _ in range(i % 3)]


def test_aggregates_and_batches(cluster):
    ds = skate.data.range(5000, override_num_blocks=5).map_batches(double)
    assert (ds.count(), ds.sum("twice"), ds.min("id"), ds.max("id"), ds.mean("twice")) == (
        5000,
        5000 * 4999,
        0,
        4999,
        4999.0,
    )
    got = [b["twice"] for b in ds.iter_batches(batch_size=700)]
    assert [len(b) for b in got] == [700] * 7 + [100]
    np.testing.assert_array_equal(np.concatenate(got), np.arange(5000) * 2)


def test_files_and_large_blocks(cluster, tmp_path):
    for i in range(3):
        pq.write_table(
            pa.table({"id": np.arange(i * 1000, i * 1000 + 1000), "text": ["x" * 20] * 1000}),
            tmp_path / f"{i}.parquet",
        )
    ds = skate.data.read_parquet(str(tmp_path)).filter(odd)
    assert [r["id"] for r in ds.iter_rows()] == list(range(1, 3000, 2))
    big = (
        skate.data.range(3_000_000, override_num_blocks=3)
        .map_batches(double, batch_size=None)
        .map_batches(lambda b: {"s": b["twice"] + b["id"]}, num_cpus=0.5)
    )
    assert big.sum("s") == 3 * sum(range(3_000_000))


def test_a_pool_of_actors(cluster):
    ds = skate.data.range(1000, override_num_blocks=4).map_batches(
        Adder, fn_constructor_args=(5,), concurrency=2, num_cpus=0.5
    )
    assert [r["id"] for r in ds.iter_rows()] == list(range(5, 1005))


def test_what_a_function_raises(cluster):
    def fails(batch):
        raise ZeroDivisionError("of the user")

    with pytest.raises(ZeroDivisionError, match="of the user"):
        skate.data.range(100).map_batches(fails).materialize()


@skate.remote
def add(a, b):
    return a + b


def test_tasks_and_values(cluster):
    big = np.arange(100_000)
    assert skate.get(add.remote(add.remote(1, 2), skate.put(30))) == 33
    np.testing.assert_array_equal(skate.get(add.remote(skate.put(big), 1)), big + 1)


def test_a_worker_that_dies(cluster, tmp_path):
    path = str(tmp_path / "once")

    def dies(batch):
        if not os.path.exists(path):
            open(path, "w").close()
            os._exit(1)
        return batch

    assert [
        r["id"] for r in skate.data.range(300, override_num_blocks=3).map_batches(dies).iter_rows()
    ] == list(range(300))


def test_a_node_that_is_lost(cluster):
    def slow(batch):
        time.sleep(0.3)
        return batch

    ds = skate.data.range(2000, override_num_blocks=8).map_batches(slow, batch_size=None)
    got = []
    for i, batch in enumerate(ds.iter_batches(batch_size=250)):
        got += batch["id"].tolist()
        if i == 0:
            cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)
    assert got == list(range(2000))


def test_limits_that_cancel(cluster):
    """A cancel at the time at which a task begins or ends: ray.cancel() on a thread of skate's
    aborted this process once in about 50 times."""
    ds = skate.data.range(4000, override_num_blocks=40).map_batches(double)
    for n in range(1, 120):
        assert [r["twice"] for r in ds.limit(n).iter_rows()] == list(range(0, 2 * n, 2))


def test_what_raises_is_tried_again(cluster, tmp_path):
    @skate.remote(retry_exceptions=True, max_retries=3)
    def third(folder):
        n = len(os.listdir(folder))
        open(os.path.join(folder, str(n)), "w").close()
        if n < 2:
            raise ValueError(f"attempt {n}")
        return n

    assert skate.get(third.remote(str(tmp_path))) == 2


def test_a_batch_that_kills_its_actor_does_not_for_ever(cluster):
    class Dies:
        def __call__(self, batch):
            os._exit(3)

    with pytest.raises(skate.exceptions.RayError):
        skate.data.range(100, override_num_blocks=2).map_batches(
            Dies, concurrency=1, num_cpus=0.5
        ).materialize()


def test_a_long_chain_in_a_task(cluster):
    """A task loads 1,500 operators, and runs them by the engine of its node."""
    ds = skate.data.range(2, override_num_blocks=1)
    for _ in range(1500):
        ds = ds.limit(1)

    @skate.remote(max_retries=0)
    def look(ds, take):
        return ds.take_all() if take else (os.getpid(), len(node.below(ds._node)))

    first, operators = skate.get(look.remote(ds, False))
    assert operators == 1501
    assert skate.get(look.remote(ds, True)) == [{"id": 0}]
    os.kill(first, 0)
    assert ds.take_all() == [{"id": 0}]


# ---- the main job: examples/classify_files.py


def classify(data, out):
    """Reads the files of idlelib, prepares them, runs the model in a pool of two actors, writes
    Parquet. data: skate.data or ray.data."""
    import classify_files

    # a model and a task on each node, because Ray Data needs the CPUs of both at once
    half = {"num_cpus": 0.5}
    ds = data.read_binary_files(
        classify_files.list_files(IDLELIB)[0], include_paths=True, ray_remote_args=half
    )
    ds = ds.map_batches(classify_files.prepare, **half).map_batches(
        classify_files.Classify, batch_size=64, concurrency=2, **half
    )
    ds.write_parquet(out, ray_remote_args=half)


def rows_of(folder):
    return [
        r
        for name in sorted(os.listdir(folder))
        for r in pq.read_table(os.path.join(folder, name)).to_pylist()
    ]


def test_the_main_job(cluster, tmp_path, monkeypatch):
    """The rows equal those of the example over the local engine, in the same order."""
    pytest.importorskip("magika")
    monkeypatch.syspath_prepend(EXAMPLES)
    classify(skate.data, str(tmp_path / "ray"))
    program = [
        sys.executable,
        os.path.join(EXAMPLES, "classify_files.py"),
        IDLELIB,
        "--limit",
        "0",
        "--out",
        str(tmp_path / "local"),
    ]
    env = {k: v for k, v in os.environ.items() if k != "SKATE_ENGINE"}
    subprocess.run(program, env=env, check=True, capture_output=True, timeout=120)
    got = rows_of(tmp_path / "ray")
    assert len(got) > 100 and got == rows_of(tmp_path / "local")


# ---- clusters that do not exist or cannot be used: each gives a clear error within 10 s in all, in
# a new program


def refused(address, before="", how=""):
    """The error of skate.init(address). before: statements at the beginning of the program; how:
    more arguments."""
    program = f"""
import json, os, time
import ray
{before}
import skate
start = time.monotonic()
try:
    skate.init(address={address!r}{how})
except Exception as e:
    print(json.dumps([type(e).__name__, str(e), time.monotonic() - start, skate.is_initialized()]), flush=True)
os._exit(0)  # a thread of Ray's may still wait for its cluster
"""
    env = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(skate.__file__))}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=env,
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0 and done.stdout, done.stderr
    kind, text, seconds, initialised = json.loads(done.stdout)
    assert seconds < 10 and not initialised, done.stdout
    return kind, text


def test_no_cluster():
    kind, text = refused("127.0.0.1:1")
    assert kind == "ConnectionError" and "there is no Ray cluster at 127.0.0.1:1" in text


def test_a_port_that_is_not_rays():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        kind, text = refused(address)
    assert kind == "ConnectionError" and f"the Ray cluster at {address}" in text


@pytest.fixture
def filtered():
    """An address that does not answer: the kernel drops what comes to a listener whose backlog is
    full."""
    with socket.socket() as full, contextlib.ExitStack() as clients:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(3):
            c = clients.enter_context(socket.socket())
            c.setblocking(False)
            c.connect_ex(full.getsockname())
        yield "{}:{}".format(*full.getsockname())


def test_the_port_of_the_head_is_filtered(filtered):
    kind, text = refused(filtered)
    assert kind == "ConnectionError" and f"there is no Ray cluster at {filtered}: timed out" in text


def test_the_port_of_a_node_is_filtered(cluster, filtered):
    before = f"""
from skate.engine import ray as nodes
answer = nodes.Nodes._answer
def at_a_filtered_port(self, x, until):
    answer(self, x, until)
    x.address = {filtered!r}
nodes.Nodes._answer = at_a_filtered_port
"""
    tcp = (
        ', num_cpus=1, _system_config={"connections": "tcp"}'  # by default, calls carry connections
    )
    kind, text = refused(cluster.address, before, tcp)
    assert kind == "GetTimeoutError"
    assert f"node at {filtered}: no answer within 5.0 s; is it reachable from here?" in text


def test_the_cpus_are_in_use(cluster):
    kind, text = refused(cluster.address)
    assert kind == "ConnectionError" and "does not answer within 8 s: if its CPUs are" in text
    assert "in use by others, take fewer by init(num_cpus=N)" in text


def test_a_raylet_is_stopped(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(os.path.dirname(skate.__file__)))
    c = Cluster()
    for _ in range(2):
        c.add_node(num_cpus=1, object_store_memory=80 * MIB, include_dashboard=False)
    c.wait_for_nodes()
    raylet = c.list_all_nodes()[1].all_processes["raylet"][0].process.pid
    stop(raylet)
    try:
        kind, text = refused(c.address)
    finally:
        os.kill(raylet, signal.SIGCONT)
        c.shutdown()
    assert kind == "ConnectionError" and "of the Ray cluster does not answer within 8 s" in text


def test_another_python():
    here = nodes._actor_class()().open("skate", skate.__version__, (3, 9), b"")
    assert here == ("", f"runs Python {'{}.{}'.format(*sys.version_info)}, and this is 3.9")


def test_another_token(monkeypatch):
    """The cluster has a token, and the program another one."""
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "a" * 32)
    program = """
from ray.cluster_utils import Cluster
c = Cluster()
c.add_node(num_cpus=1, object_store_memory=80 << 20, include_dashboard=False)
print(c.address, flush=True)
input()
c.shutdown()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as p:
        address = p.stdout.readline().strip()
        monkeypatch.setenv("RAY_AUTH_TOKEN", "b" * 32)
        kind, text = refused(address)
        p.communicate("\n", timeout=60)
    assert kind == "ConnectionError" and f"the Ray cluster at {address}: no answer within" in text
    assert "is its token the same as here (RAY_AUTH_TOKEN)?" in text


def test_a_resource_that_no_node_has(cluster):
    for how in ({"resources": {"nope": 1}}, {"num_cpus": 64}, {"num_gpus": 1}):
        with pytest.raises(skate.exceptions.TaskUnschedulableError, match="can never run here"):
            skate.get(add.options(**how).remote(1, 2))


def test_ray_client():
    kind, text = refused("ray://127.0.0.1:10001")
    assert kind == "ConnectionError" and "Ray Client has no streaming" in text


def test_an_old_ray():
    kind, text = refused("127.0.0.1:1", before="ray.__version__ = '2.49.2'")
    assert kind == "RuntimeError" and "Ray 2.49.2 is too old for this engine: 2.50 or newer" in text


def test_a_cluster_of_another_version_of_ray(cluster):
    kind, text = refused(cluster.address, before="ray.__version__ = '2.59.1'")
    assert kind == "RuntimeError" and "2.59.1" in text and ray.__version__ in text


@pytest.mark.parametrize("there", [None, "0.0.1"])
def test_a_node_without_this_skate(there, tmp_path, monkeypatch):
    """The second node of a cluster has no skate, or an old version."""
    if there:
        (tmp_path / "skate").mkdir()
        (tmp_path / "skate" / "__init__.py").write_text(f"__version__ = {there!r}\n")
    c = Cluster()
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(os.path.dirname(skate.__file__)))
    c.add_node(num_cpus=1, object_store_memory=80 * MIB, include_dashboard=False)
    try:
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        c.add_node(num_cpus=1, object_store_memory=80 * MIB, include_dashboard=False)
        c.wait_for_nodes()
        kind, text = refused(c.address)
    finally:
        c.shutdown()
    wanted = (
        f"has skate {there}, and this is {skate.__version__}"
        if there
        else "has no skate (No module named 'skate'): install it there"
    )
    assert kind == "RuntimeError" and wanted in text


if __name__ == "__main__":  # compares with Ray Data, in turn: test_ray.py [rows]
    import statistics
    import tempfile

    import ray.data

    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000
    c = raylets()
    sys.path.insert(0, EXAMPLES)
    ray.data.DataContext.get_current().enable_progress_bars = False

    def numbers(data):
        return (
            data.range(rows, override_num_blocks=8)
            .map_batches(double, batch_size=None)
            .filter(odd)
            .sum("twice")
        )

    def main_job(data):
        with tempfile.TemporaryDirectory() as out:
            classify(data, os.path.join(out, "out"))
            return len(rows_of(os.path.join(out, "out")))

    skate.init(address=c.address)
    for job in numbers, main_job:
        took = {}
        for name, data in [("skate", skate.data), ("Ray Data", ray.data)] * 3:
            start = time.perf_counter()
            got = job(data)
            took.setdefault(name, []).append(time.perf_counter() - start)
            print(f"{job.__name__:10} {name:10} {took[name][-1]:7.2f} s  {got}", flush=True)
        print(
            f"{job.__name__:10} medians:",
            {name: round(statistics.median(t), 2) for name, t in took.items()},
            flush=True,
        )
    skate.shutdown()
    c.shutdown()
