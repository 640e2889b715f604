"""nodes.py [--nodes N] [--rounds N] [--scale X] [--ray] [NAME ...]: the same jobs by one local
engine of N CPUs and by N nodes of one CPU (SKATE_NODES), in turns; with --ray also over a Ray
cluster of N raylets of one CPU on this machine, by skate and by Ray Data. Prints the medians.

With --ray it needs a Python that has Ray: `./dev test ray` makes one, then
PYTHONPATH=python build/ray/bin/python bench/py/nodes.py --ray. Each job checks its result, and
runs twice before it is timed. Ray Data is asked for fewer rows or tasks where the table says so
(`1/10`), since it takes minutes; then the rates are compared."""

import argparse
import json
import statistics
import subprocess
import sys
import time

import numpy as np

WARM, TIMED = 2, 3  # runs in a process: not timed, and timed (their median counts; Ray Data: one)


def wide(batch):
    """Rows of 100 bytes with random keys."""
    n = len(batch["id"])
    r = np.random.default_rng(int(batch["id"][0]))
    return {
        "key": r.integers(0, 1 << 40, n),
        "pad": np.full((n, 11), 7, np.int64),
        "one": np.ones(n, np.int64),
    }


def keyed(batch):
    n = len(batch["id"])
    r = np.random.default_rng(int(batch["id"][0]))
    return {"k": r.integers(0, 10_000, n), "v": batch["id"]}


def as_left(batch):
    return {"k": batch["id"], "a": batch["id"] * 2}


def as_right(batch):
    return {"k": batch["id"], "b": batch["id"] * 3}


def padded(batch):
    return {"id": batch["id"], "pad": np.zeros((len(batch["id"]), 8192 // len(batch["id"])))}


def same(batch):
    return batch


def count(batch):
    return {"n": np.array([len(next(iter(batch.values())))])}


class Model:
    def __call__(self, batch):
        time.sleep(0.002)
        return {"n": np.array([len(batch["id"])])}


def rows_of(ds):
    return int(ds.map_batches(count, batch_size=None).sum("n"))


def jobs(data, core, scale):
    """{name: (units, what runs, expected)}. data: skate.data or ray.data; core: skate or ray."""
    n = int(1_000_000 * scale)
    tasks, blocks = int(20_000 * scale), int(2_000 * scale)

    def noop():
        f = core.remote(num_cpus=1)(lambda: 1)
        return sum(core.get([f.remote() for _ in range(tasks)]))

    def join():
        left = data.range(n, override_num_blocks=8).map_batches(as_left, batch_size=None)
        right = data.range(n, override_num_blocks=8).map_batches(as_right, batch_size=None)
        return left.join(right, join_type="inner", num_partitions=8, on=("k",)).count()

    def numbers(k=8):
        return data.range(n, override_num_blocks=k)

    return {
        "no-op tasks": (tasks, noop, tasks),
        "two map stages, 64 KB blocks": (
            blocks,
            lambda: (
                data.range(blocks, override_num_blocks=blocks)
                .map_batches(padded, batch_size=None)
                .map_batches(same, batch_size=None, num_cpus=0.5)
                .materialize()
                .count()
            ),
            blocks,
        ),
        "sort": (n, lambda: rows_of(numbers(16).map_batches(wide, batch_size=None).sort("key")), n),
        "random_shuffle": (
            n,
            lambda: rows_of(numbers(16).map_batches(wide, batch_size=None).random_shuffle(seed=1)),
            n,
        ),
        "groupby": (
            n,
            lambda: numbers().map_batches(keyed, batch_size=None).groupby("k").sum("v").count(),
            10_000,
        ),
        "join": (n, join, n),
        "heterogeneous": (
            n // 1000,
            lambda: int(
                data.range(n // 1000, override_num_blocks=n // 4000)
                .map_batches(padded, batch_size=None)
                .map_batches(Model, batch_size=4, concurrency=2, num_cpus=0.5)
                .sum("n")
            ),
            n // 1000,
        ),
    }


def work(kind, n, name, scale, address):
    """In a process of its own: seconds of one job on one engine, and its units."""
    if kind == "ray data":
        import ray
        import ray.data

        ray.init(address=address, log_to_driver=False)
        ray.data.DataContext.get_current().enable_progress_bars = False
        core, data = ray, ray.data
    else:
        import skate
        import skate.data

        skate.data.DataContext.get_current().enable_progress_bars = False
        if kind == "skate over ray":
            skate.init(address=address, log_to_driver=False)
        else:
            skate.init(num_cpus=n, _system_config={"nodes": n if kind == "nodes" else 0})
        core, data = skate, skate.data
    units, run, want = jobs(data, core, scale)[name]
    took = []
    for _ in range(WARM + (1 if kind == "ray data" else TIMED)):
        start = time.perf_counter()
        got = run()
        took.append(time.perf_counter() - start)
        if got != want:
            raise SystemExit(f"{name} by {kind}: {got} instead of {want}")
    print(json.dumps([statistics.median(took[WARM:]), units]))
    if kind == "ray data":
        ray.shutdown()
    else:
        skate.shutdown()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("names", nargs="*")
    p.add_argument("--nodes", type=int, default=2)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--scale", type=float, default=1.0)
    p.add_argument("--less", type=float, default=10.0, help="Ray Data gets 1/LESS of the work")
    p.add_argument("--ray", action="store_true")
    p.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.work:
        work(a.work[0], a.nodes, a.names[0], a.scale, a.work[1])
        return
    kinds, cluster = ["local", "nodes"], None
    if a.ray:
        from ray.cluster_utils import Cluster

        cluster = Cluster()
        for _ in range(a.nodes):
            cluster.add_node(num_cpus=1, object_store_memory=1 << 30, include_dashboard=False)
        cluster.wait_for_nodes()
        kinds += ["skate over ray", "ray data"]
    address = cluster.address if cluster else ""
    names = a.names or list(jobs(None, None, 1))
    print(f"{'':30}" + "".join(f"{k:>18}" for k in kinds) + "   units/s, medians", flush=True)
    try:
        for name in names:
            took = {k: [] for k in kinds}
            for _ in range(a.rounds):
                for k in kinds:
                    scale = a.scale / (a.less if k == "ray data" else 1)
                    argv = [sys.executable, __file__, name, "--nodes", str(a.nodes)]
                    argv += ["--scale", str(scale), "--work", k, address]
                    r = subprocess.run(argv, capture_output=True, text=True)
                    if r.returncode:
                        print(f"{name} by {k}: {r.stderr[-600:]}", file=sys.stderr)
                        continue
                    seconds, units = json.loads(r.stdout.splitlines()[-1])
                    took[k].append(units / seconds)
            print(
                f"{name:30}"
                + "".join(
                    f"{statistics.median(t):>18,.0f}" if (t := took[k]) else f"{'-':>18}"
                    for k in kinds
                ),
                flush=True,
            )
    finally:
        if cluster:
            cluster.shutdown()


if __name__ == "__main__":
    main()
