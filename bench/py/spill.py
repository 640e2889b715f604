"""Objects through a store that is much smaller: put, spilled, read back, against what the disk does by itself.

    python bench/py/spill.py [--gb 16] [--store-gb 1] [--sizes 10000,100000,1000000,10000000] [--dir DIR] [--json]

For each size: `--gb` of objects are put (each with a stamp of its own), then got in order of putting, `--batch-mb` at a time, stamps checked. The
disk: sequential O_DIRECT writes and reads of 4 MiB in the same directory, before and after each size; two threads, as spilling uses. Rates are of
bytes on their way through the disk: what was spilled per second from the moment the store was (nearly) full, what was restored per second of
the gets. MB = 1e6 bytes."""

import argparse
import json
import mmap
import os
import sys
import threading
import time

import numpy as np
import skate as ray
from skate import _skate

CHUNK = 4 << 20


def disk(path, total, threads=2):
    """(write, read) in bytes/s."""
    fd = os.open(path, os.O_TMPFILE | os.O_RDWR | os.O_DIRECT, 0o600)
    n = max(total // CHUNK // threads, 1)
    bufs = [mmap.mmap(-1, CHUNK) for _ in range(threads)]
    for b in bufs:
        b.write(os.urandom(CHUNK))

    def timed(f):
        ts = [threading.Thread(target=f, args=(i,)) for i in range(threads)]
        t0 = time.perf_counter()
        for t in ts:
            t.start()
        for t in ts:
            t.join()
        return n * threads * CHUNK / (time.perf_counter() - t0)

    def write(i):
        for k in range(n):
            os.pwritev(fd, [bufs[i]], (k * threads + i) * CHUNK)

    def read(i):
        for k in range(n):
            os.preadv(fd, [bufs[i]], (k * threads + i) * CHUNK)

    try:
        return timed(write), timed(read)
    finally:
        os.close(fd)
        for b in bufs:
            b.close()


def through(size, total, store, path, batch):
    ray.init(num_cpus=1, object_store_memory=store, object_spilling_directory=path)
    n = total // size
    data = np.random.default_rng(1).integers(0, 255, size, dtype=np.uint8)
    stamp = data[:8].view(np.int64)
    refs = []
    t0 = time.perf_counter()
    full, s0 = int(store * 0.9) // size, _skate.status()
    for i in range(n):
        if i == full:
            t0, s0 = time.perf_counter(), _skate.status()
        stamp[0] = i
        refs.append(ray.put(data))
    t1 = time.perf_counter()
    s1 = _skate.status()
    step = max(batch // size, 1)
    for i in range(0, n, step):
        for k, a in enumerate(ray.get(refs[i : i + step])):
            if a[:8].view(np.int64)[0] != i + k or a[-1] != data[-1]:
                sys.exit(f"object {i + k} of {size} bytes came back wrong")
    t2 = time.perf_counter()
    s2 = _skate.status()
    del refs, a
    ray.shutdown()
    return {
        "size": size,
        "n": n,
        "put_s": t1 - t0,
        "get_s": t2 - t1,
        "write": (s1["spilled_bytes"] - s0["spilled_bytes"]) / (t1 - t0),
        "read": (s2["restored_bytes"] - s1["restored_bytes"]) / (t2 - t1),
        "spilled_per_needed": s1["spilled_bytes"] / max(n * size - store, 1),
        "rewritten": s2["spilled_bytes"] - s1["spilled_bytes"],
    }


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--gb", type=float, default=16)
    p.add_argument("--store-gb", type=float, default=1)
    p.add_argument("--sizes", default="10000,100000,1000000,10000000")
    p.add_argument("--batch-mb", type=float, default=64)
    p.add_argument("--dir", default="/tmp")
    p.add_argument("--json", action="store_true")
    a = p.parse_args()
    total, store = int(a.gb * 1e9), int(a.store_gb * 1e9)
    s = os.statvfs(a.dir)
    if total * 1.1 > s.f_bavail * s.f_frsize:
        sys.exit(f"{a.dir} has {s.f_bavail * s.f_frsize / 1e9:.0f} GB free, less than {total * 1.1 / 1e9:.0f}")
    probe = min(total // 4, int(2e9))
    out, before = [], disk(a.dir, probe)
    if not a.json:
        print("  object    put MB/s  disk w   ratio    get MB/s  disk r   ratio   spilled/needed")
    for size in map(int, a.sizes.split(",")):
        r = through(size, total, store, a.dir, int(a.batch_mb * 1e6))
        after = disk(a.dir, probe)
        r["disk_write"], r["disk_read"] = ((x + y) / 2 for x, y in zip(before, after))
        before = after
        out.append(r)
        if not a.json:
            print(
                f"{size:>9} {r['write'] / 1e6:>9.0f} {r['disk_write'] / 1e6:>8.0f} {r['write'] / r['disk_write']:>7.2f} "
                f"{r['read'] / 1e6:>10.0f} {r['disk_read'] / 1e6:>8.0f} {r['read'] / r['disk_read']:>7.2f} {r['spilled_per_needed']:>9.2f}",
                flush=True,
            )
    if a.json:
        print(json.dumps(out))


if __name__ == "__main__":
    main()
