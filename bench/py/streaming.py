"""streaming.py ENGINE [CASES]: rows S1, S2, S3, S8, S9, S10 of ../shared/field/papers.md 2.1 (the
streaming batch paper, arXiv 2501.12407) with sleeps for
the work, on one machine. Engines: skate, ray. CASES: s1,s2,s3,s8,s9,s10 (default: all).

  s1  retrieve (I/O, many slots) -> embed (CPU) -> generate (GPU, four at once on each), lognormal
      times: streamed against stage by stage, against the bound sum(generate) / slots, and 8 GPUs
          against 1
  s2  decode (1 to many, skewed) -> infer (GPU): share of the optimum, first output against stage by
      stage
  s3  s2 with a worker killed half-way: time over the undisturbed run
  s8  partition size from 6.4 KB to 51 MB (a tenth of the paper's 64 KB to 512 MB) over 8,192 rows
      of 100 KB, 2 ms a row and stage: the worst over the best
  s9  two stages as a Dataset against the same written by hand with tasks
  s10 two stages, the second three times slower half-way: no concurrency given against the best
  static split of the CPUs"""

import os
import random
import signal
import sys
import threading
import time

import numpy as np
from common import emit, module

R = {}


def lognormal(i, mean, sigma):
    return float(np.random.default_rng(i).lognormal(np.log(mean) - sigma * sigma / 2, sigma))


def nap(ids, mean, sigma, salt):
    for i in ids:
        time.sleep(lognormal(int(i) * 10 + salt, mean, sigma) if sigma else mean)


def stage(mean, sigma=0.0, salt=0):
    def sleep(b):
        nap(b["id"], mean, sigma, salt)
        return b

    return sleep


def timed(ds):
    """(seconds, seconds to the first row, rows)."""
    t, first, n = time.perf_counter(), None, 0
    for b in ds.iter_batches(batch_size=None):
        first = first or time.perf_counter() - t
        n += len(b["id"])
    return time.perf_counter() - t, first, n


def check(ok, what):
    if not ok:
        raise SystemExit(f"WRONG RESULT: {what}")


def s1(ray, data):
    n, gen, sigma = 1024, 0.25, 0.5
    work = sum(lognormal(i * 10 + 3, gen, sigma) for i in range(n))

    def run(gpus, staged):
        ray.init(num_cpus=8, num_gpus=gpus, logging_level="error")
        t = time.perf_counter()
        ds = data.range(n, override_num_blocks=n).map_batches(
            stage(0.08, sigma, 1), batch_size=1, num_cpus=0.25
        )
        ds = ds.materialize() if staged else ds
        ds = ds.map_batches(stage(0.02, sigma, 2), batch_size=1, num_cpus=0.99)
        ds = ds.materialize() if staged else ds
        _, _, rows = timed(
            ds.map_batches(stage(gen, sigma, 3), batch_size=1, num_cpus=0, num_gpus=0.25)
        )
        t = time.perf_counter() - t
        check(rows == n, "s1")
        ray.shutdown()
        return t

    eight, one, staged = run(8, False), run(1, False), run(8, True)
    R["s1_s"], R["s1_over_bound"] = eight, eight / (work / 32)
    R["s1_staged_over_streamed"], R["s1_8_gpus_over_1"] = staged / eight, one / eight


def frames_of(i):
    return int(min(40, 1 + np.random.default_rng(i).pareto(1.2) * 3))


def decode(b):
    for i in b["id"]:
        n = frames_of(int(i))
        time.sleep(0.02 * n)
        for k in range(n):
            yield {"id": np.array([int(i) * 100 + k]), "x": np.full((1, 100_000), k, np.uint8)}


class Infer:
    def __call__(self, b):
        time.sleep(0.009 * len(b["id"]))
        return {"id": b["id"]}


def videos(data, n, staged=False):
    ds = data.range(n, override_num_blocks=n).map_batches(decode, batch_size=1)
    if staged:
        ds = ds.materialize()
    return ds.map_batches(Infer, batch_size=4, num_cpus=0, num_gpus=1, concurrency=2)


def s2(ray, data):
    n = 300
    frames = sum(frames_of(i) for i in range(n))
    optimum = max(0.02 * frames / 4, 0.009 * frames / 2)
    out = {}
    for staged in (False, True):
        ray.init(num_cpus=4, num_gpus=2, logging_level="error")
        t = time.perf_counter()
        ds = videos(data, n, staged)
        before = time.perf_counter() - t
        s, first, rows = timed(ds)
        check(rows == frames, "s2")
        out[staged] = before + s, before + first
        ray.shutdown()
    R["s2_s"], R["s2_of_optimum"] = out[False][0], optimum / out[False][0]
    R["s2_first_output_s"], R["s2_first_output_staged_s"] = out[False][1], out[True][1]


def s3(ray, data):
    n = 300
    frames = sum(frames_of(i) for i in range(n))
    times = {True: [], False: []}
    for kill in (False, True) * 3:
        ray.init(num_cpus=4, num_gpus=2, logging_level="error")
        end = threading.Event()

        def killer(end=end):
            if end.wait(3):
                return
            me = {os.getpid()}
            for _ in range(4):  # the workers are below a fork server
                me |= {p for p, parent, _ in processes() if parent in me}
            found = [p for p, _, title in processes() if p in me and "MapBatches(decode)" in title]
            os.kill(random.choice(found), signal.SIGKILL)

        t = threading.Thread(target=killer, daemon=True) if kill else None
        if t:
            t.start()
        s, _, rows = timed(videos(data, n))
        end.set()
        check(rows == frames, "s3")
        times[kill].append(s)
        ray.shutdown()
    R["s3_killed_over_undisturbed"] = sorted(times[True])[1] / sorted(times[False])[1]


def processes():
    """(pid, parent, command line) of all."""
    out = []
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{p}/stat") as f, open(f"/proc/{p}/cmdline") as g:
                out.append(
                    (
                        int(p),
                        int(f.read().rsplit(") ", 1)[1].split()[1]),
                        g.read().replace("\0", " "),
                    )
                )
        except OSError:
            pass
    return out


def s8(ray, data):
    n, row = 8192, 100_000
    ray.init(num_cpus=8, object_store_memory=2 << 30, logging_level="error")
    make = lambda b: {"id": b["id"], "x": np.repeat(b["id"].astype(np.uint8)[:, None], row, axis=1)}  # noqa: E731

    def nap_rows(b):
        time.sleep(0.002 * len(b["id"]))
        return b

    times = {}
    for kb in (6.4, 64, 640, 6400, 51200):
        data.DataContext.get_current().target_max_block_size = int(kb * 1000)
        rows = max(1, int(kb * 1000) // row)  # of a partition
        ds = data.range(n, override_num_blocks=max(1, n // rows)).map_batches(
            make, batch_size=min(rows, 64)
        )
        ds = ds.map_batches(nap_rows, batch_size=min(rows, 64)).map_batches(
            nap_rows, batch_size=min(rows, 64), num_cpus=0.99
        )
        s, _, got = timed(ds)
        check(got == n, "s8")
        times[kb] = s
    R["s8_s_by_kB"] = {str(k): round(v, 2) for k, v in times.items()}
    R["s8_worst_over_best"] = max(times.values()) / min(times.values())
    data.DataContext.get_current().target_max_block_size = 128 << 20
    ray.shutdown()


def s9(ray, data):
    n = 400

    def load(i):
        time.sleep(0.02)
        return np.full(1_000_000, i % 251, np.uint8)

    def work(x):
        time.sleep(0.02)
        return x[:1].copy()

    ray.init(num_cpus=4, logging_level="error")
    by = {"hand": [], "data": []}
    for _ in range(3):
        t = time.perf_counter()
        f, g = ray.remote(load), ray.remote(work)
        got = ray.get([g.remote(f.remote(i)) for i in range(n)])
        by["hand"].append(time.perf_counter() - t)
        check(len(got) == n, "s9 by hand")
        ds = data.range(n, override_num_blocks=n).map_batches(
            lambda b: {"id": b["id"], "x": load(int(b["id"][0]))[None]}, batch_size=1
        )
        ds = ds.map_batches(
            lambda b: {"id": b["id"], "y": work(b["x"][0])}, batch_size=1, num_cpus=0.99
        )
        s, _, rows = timed(ds)
        check(rows == n, "s9")
        by["data"].append(s)
    R["s9_data_over_hand"] = sorted(by["data"])[1] / sorted(by["hand"])[1]
    R["s9_s"] = {k: round(sorted(v)[1], 2) for k, v in by.items()}
    ray.shutdown()


def s10(ray, data):
    n, cpus = 240, 6

    def second(b):
        time.sleep(0.05 if int(b["id"][0]) < n // 2 else 0.15)
        return b

    def run(a, b):
        ray.init(num_cpus=cpus, logging_level="error")
        ds = data.range(n, override_num_blocks=n).map_batches(
            stage(0.05), batch_size=1, concurrency=a
        )
        s, _, rows = timed(ds.map_batches(second, batch_size=1, num_cpus=0.99, concurrency=b))
        check(rows == n, "s10")
        ray.shutdown()
        return s

    static = {f"{a}+{cpus - a}": run(a, cpus - a) for a in range(1, cpus)}
    dynamic = run(None, None)
    R["s10_s"], R["s10_static_s"] = dynamic, {k: round(v, 2) for k, v in static.items()}
    R["s10_over_best_static"] = dynamic / min(static.values())
    R["s10_over_bound"] = dynamic / (n * (0.05 + 0.1) / cpus)


CASES = {"s1": s1, "s2": s2, "s3": s3, "s8": s8, "s9": s9, "s10": s10}

if __name__ == "__main__":
    name = sys.argv[1]
    ray, data = module(name), module(name, ".data")
    for c in sys.argv[2].split(",") if len(sys.argv) > 2 else CASES:
        CASES[c](ray, data)
    emit("streaming", name, **{k: round(v, 4) if isinstance(v, float) else v for k, v in R.items()})
