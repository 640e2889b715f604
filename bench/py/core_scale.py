"""core_scale.py ENGINE [QUEUED]: tasks, actors and objects beyond the small call: arguments of 10
KB, NumPy to and from actors, ten thousand arguments, three thousand returns, a long queue, a chain
whose worker dies, a hundred jobs in one process. Engines: skate, ray (the same program).

QUEUED is the number of tasks of the queue figure, for which a rate is reported (default 1,000,000
for skate; 20,000 for ray, which is kind to it)."""

import os
import signal
import statistics
import sys
import tempfile
import threading
import time

import numpy as np
from common import RAY_LIKE, emit, module, per_s, timed, tree_mem

R = {}


def check(ok, what):
    if not ok:
        raise SystemExit(f"WRONG RESULT: {what}")


def size(blob):
    return len(blob)


def count(*args):
    return len(args)


def many(n):
    return tuple(range(n))


def one(x):
    return x


def held(gate):
    while not os.path.exists(gate):
        time.sleep(0.01)
    return 0


class Adder:
    def __init__(self):
        self.calls = 0

    def add(self, a):
        self.calls += 1
        return a + 1


def step(x, pids):
    """One second of work. Its process id is left where the killer looks."""
    with open(os.path.join(pids, f"{x}.{os.getpid()}"), "w"):
        pass
    end = time.monotonic() + 1
    while time.monotonic() < end:
        time.sleep(0.01)
    return x + 1


def arguments(ray):
    f, blob = ray.remote(size), os.urandom(10_000)
    ray.get([f.remote(blob) for _ in range(200)])
    R["arg_10KB_sync_per_s"] = per_s(1000, lambda: [ray.get(f.remote(blob)) for _ in range(1000)])
    R["arg_10KB_async_per_s"] = per_s(
        5000,
        lambda: check(sum(ray.get([f.remote(blob) for _ in range(5000)])) == 50_000_000, "10 KB"),
    )
    a = ray.remote(Adder).remote()
    for name, n in (("8KB", 1000), ("800KB", 100_000)):
        x, calls = np.arange(n, dtype=np.int64), 1000
        ray.get(a.add.remote(x))

        def one_by_one():
            return [ray.get(a.add.remote(x)) for _ in range(calls)]  # noqa: B023

        def at_once():
            return ray.get([a.add.remote(x) for _ in range(calls)])  # noqa: B023

        # Results are kept. The first round writes memory that was never used (of a virtual machine:
        # that the host fetches), the others what the first left.
        for how, f in (("sync", one_by_one), ("async", at_once)):
            rates = []
            for _ in range(4):
                t, out = timed(f)
                check(len(out) == calls and all(int(y[-1]) == n for y in out), "NumPy")
                rates.append(calls / t)
                del out
            R[f"actor_numpy_{name}_{how}_first_per_s"] = rates[0]
            R[f"actor_numpy_{name}_{how}_per_s"] = statistics.median(rates[1:])
    ray.kill(a)


def wide(ray):
    f, g = ray.remote(count), ray.remote(many)
    refs = [ray.put(i) for i in range(10_000)]
    t, n = timed(lambda: ray.get(f.remote(*refs)))
    check(n == 10_000, "arguments")
    R["args_10k_s"] = t
    t, out = timed(lambda: ray.get(g.options(num_returns=3000).remote(3000)))
    check(out == list(range(3000)), "returns")
    R["returns_3k_s"] = t


def queue(ray, n):
    """n tasks wait behind two that hold both CPUs, then run."""
    f, h, gate = ray.remote(one), ray.remote(held), tempfile.mktemp()
    first = [h.remote(gate) for _ in range(2)]
    t0 = time.perf_counter()
    refs = [f.remote(i) for i in range(n)]
    t1 = time.perf_counter()
    with open(gate, "w"):
        pass
    out = ray.get(refs)
    t2 = time.perf_counter()
    check(out == list(range(n)) and ray.get(first) == [0, 0], "queue")
    R["queued"], R["queue_submit_per_s"], R["queue_run_per_s"], R["queue_per_s"] = (
        n,
        n / (t1 - t0),
        n / (t2 - t1),
        n / (t2 - t0),
    )
    R["queue_rss_MB"] = tree_mem()[1]


def chain(ray):
    """Ten steps of 1 s; the worker of the sixth is killed half-way through it: half a second is
    lost."""
    f, pids = ray.remote(step), tempfile.mkdtemp()
    f = f.options(max_retries=3)
    ray.get(f.remote(100, pids))

    def kill():
        end = time.monotonic() + 60
        while time.monotonic() < end:
            for name in os.listdir(pids):
                x, pid = name.split(".")
                if x == "5":
                    time.sleep(0.5)
                    os.kill(int(pid), signal.SIGKILL)
                    return
            time.sleep(0.005)

    t = threading.Thread(target=kill, daemon=True)
    t.start()

    def run():
        x = 0
        for _ in range(10):
            x = f.remote(x, pids)
        return ray.get(x)

    took, x = timed(run)
    t.join(60)
    check(x == 10 and len([n for n in os.listdir(pids) if n.startswith("5.")]) == 2, "chain")
    R["chain_killed_s"], R["chain_over_lost_work_pct"] = took, (took - 10.5) / 10.5 * 100


def jobs(ray, n):
    """n jobs one after another: what is left of each in this process."""

    def state():
        with open("/proc/self/smaps_rollup") as f:
            pss = next(int(line.split()[1]) for line in f if line.startswith("Pss:"))
        return pss / 1024, len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

    def job():
        ray.init(num_cpus=2, object_store_memory=1 << 28)
        a = ray.remote(Adder).remote()
        check(
            int(ray.get(a.add.remote(np.ones(100_000)))[0]) == 2
            and ray.get(ray.remote(one).remote(3)) == 3,
            "job",
        )
        del a
        ray.shutdown()

    for _ in range(max(2, n // 10)):
        job()
    before = state()
    t = timed(lambda: [job() for _ in range(n)])[0]
    after = state()
    R["jobs"], R["job_s"] = n, t / n
    for name, b, a in zip(
        ("jobs_grown_MB", "jobs_grown_fds", "jobs_grown_threads"), before, after, strict=True
    ):
        R[name] = a - b


if __name__ == "__main__":
    name = sys.argv[1]
    if name not in RAY_LIKE:
        sys.exit(f"core_scale: no engine {name!r}; there are: {', '.join(RAY_LIKE)}")
    ray = module(name)
    ray.init(num_cpus=2, object_store_memory=4 << 30)
    arguments(ray)
    wide(ray)
    queue(ray, int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000 if name == "skate" else 20_000)
    chain(ray)
    ray.shutdown()
    jobs(ray, 100 if name == "skate" else 3)
    emit("core_scale", name, **R)
