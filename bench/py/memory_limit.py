"""memory_limit.py ENGINE [GB [SHARES [SIZES]]]: pipelines whose data is larger than the memory that
a cgroup grants: does each complete, and does the kernel kill nobody? Needs the right to make memory
cgroups. Engines: skate, ray.

GB (default 4) of rows of each of SIZES (default 1000,100000,10000000,100000000 bytes) under a limit
of GB times each of SHARES (default 0.25,0.1; never less than 400 MB, which Python and Arrow in four
processes take by themselves). The engine is started without arguments: it must find the limit.
  stream       rows of a quarter of the size are made, grow to it in one stage and shrink in the
               next, and are iterated
  materialize  the same rows kept as a whole (spilled), then iterated twice
Per cell: seconds, "ok" or what went wrong, peak_MB of what is not page cache (rss and shmem of the
group), how often the kernel killed."""

import json
import os
import subprocess
import sys
import threading
import time

import numpy as np
from common import emit, module

FLOOR = 400_000_000


def rows(ids, size):
    return {"id": ids, "x": np.repeat((ids % 251).astype(np.uint8)[:, None], size, axis=1)}


def work(name, kind, size, total):
    ray, data = module(name), module(name, ".data")
    ray.init(logging_level="error")
    n, batch = max(total // size, 2), max(1, 16_000_000 // size)
    small = size // 4 if kind == "stream" else size
    ds = data.range(n, override_num_blocks=min(n, max(8, total // 32_000_000))).map_batches(
        lambda b: rows(b["id"], small), batch_size=batch
    )
    if kind == "stream":
        ds = ds.map_batches(
            lambda b: {"id": b["id"], "x": np.tile(b["x"], (1, 4))}, batch_size=batch, num_cpus=0.99
        )
        ds = ds.map_batches(lambda b: {"id": b["id"], "x": b["x"][:, :small]}, batch_size=batch)
    else:
        ds = ds.materialize()
    for _ in range(1 if kind == "stream" else 2):
        seen = 0
        for b in ds.iter_batches(batch_size=batch):
            ids, x = b["id"], b["x"]
            if (
                x.shape != (len(ids), small)
                or not (x[:, [0, -1]] == (ids % 251)[:, None]).all()
                or ids[0] != seen
            ):
                raise SystemExit("WRONG RESULT")
            seen += len(ids)
        if seen != n:
            raise SystemExit(f"WRONG RESULT: {seen} rows of {n}")


class Group:
    """A memory cgroup, v1 or v2."""

    def __init__(self, limit):
        v1 = os.path.exists("/sys/fs/cgroup/memory/memory.limit_in_bytes")
        lines = [line.strip().split(":", 2) for line in open("/proc/self/cgroup")]
        mine = next(p for _, what, p in lines if (what == "memory" if v1 else what == ""))
        self.v1, self.path = (
            v1,
            f"/sys/fs/cgroup{'/memory' if v1 else ''}{mine}/skate_bench_{os.getpid()}",
        )
        os.mkdir(self.path)
        self.write("memory.limit_in_bytes" if v1 else "memory.max", limit)
        self.peak, self.end = 0, threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def write(self, name, value):
        with open(f"{self.path}/{name}", "w") as f:
            f.write(str(value))

    def table(self, name):
        with open(f"{self.path}/{name}") as f:
            return {k: int(v) for k, v in (line.split() for line in f)}

    def watch(self):
        while not self.end.wait(0.05):
            t = self.table("memory.stat")
            self.peak = max(self.peak, t.get("rss", t.get("anon", 0)) + t.get("shmem", 0))

    def kills(self):
        return self.table("memory.oom_control" if self.v1 else "memory.events").get("oom_kill", 0)

    def close(self):
        self.end.set()
        self.thread.join()
        for _ in range(100):
            try:
                return os.rmdir(self.path)
            except OSError:  # its last processes are on their way out
                time.sleep(0.1)


def cell(name, kind, size, total, limit):
    g = Group(limit)
    try:
        t = time.perf_counter()
        p = subprocess.run(
            [sys.executable, __file__, name, "--cell", kind, str(size), str(total)],
            preexec_fn=lambda: g.write("cgroup.procs", os.getpid()),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900,
        )  # fmt: skip
        last = (p.stdout.strip().splitlines() or [""])[-1]
        return {
            "s": round(time.perf_counter() - t, 1),
            "end": "ok" if p.returncode == 0 else f"rc {p.returncode}: {last[:300]}",
            "peak_MB": g.peak // 1_000_000,
            "kernel_kills": g.kills(),
        }
    except subprocess.TimeoutExpired:
        return {"end": "did not end in 900 s"}
    finally:
        g.close()


def main():
    name = sys.argv[1]
    if sys.argv[2:3] == ["--cell"]:
        return work(name, sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    total = int(float(sys.argv[2] if len(sys.argv) > 2 else 4) * 1e9)
    shares = [float(s) for s in (sys.argv[3] if len(sys.argv) > 3 else "0.25,0.1").split(",")]
    sizes = [
        int(s)
        for s in (sys.argv[4] if len(sys.argv) > 4 else "1000,100000,10000000,100000000").split(",")
    ]
    out = {}
    for share in shares:
        limit = max(int(total * share), FLOOR)
        for size in sizes:
            for kind in ("stream", "materialize"):
                out[f"{kind} {size} B rows in {limit // 1_000_000} MB"] = r = cell(
                    name, kind, size, total, limit
                )
                print(
                    json.dumps({"cell": f"{kind} {size} in {limit // 1_000_000} MB", **r}),
                    file=sys.stderr,
                    flush=True,
                )
    emit(
        "memory_limit",
        name,
        ok=all(c["end"] == "ok" and not c["kernel_kills"] for c in out.values()),
        total_GB=total / 1e9,
        cells=out,
    )


if __name__ == "__main__":
    main()
