"""spill.py ENGINE [GB [SIZES]]: objects through a store of 1 GB that is much smaller: put, spilled,
read back, against what the disk does by itself.
Engines: skate, ray. GB (default 16) of objects of each of SIZES (default
10000,100000,1000000,10000000 bytes); $SPILL_DIR (default /tmp).

For each size: objects are put, each with a stamp of its own, then got in order of putting, 64 MB at
a time, stamps checked; each for at most
LIMIT_S. The disk: O_DIRECT writes and reads of 4 MiB by two threads in the same directory, before
and after each size. write_*: MB/s from the moment the store was nearly full; read_*: MB/s of all
gets; *_of_disk: the same as a share of the disk's. MB = 1e6 bytes.

Then churn: objects of 100 KB in 4 GB of places, GB of puts, each in the place of a random one
before: the most disk that is held, as a share of what is alive (skate only)."""

import mmap
import os
import sys
import threading
import time

import numpy as np
from common import emit, module

CHUNK = 4 << 20
STORE = 1_000_000_000
LIMIT_S = 25
BATCH = 64_000_000


def disk(path, total=1_500_000_000, threads=2):
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


def start(ray, path):
    ray.init(
        num_cpus=1, object_store_memory=STORE, object_spilling_directory=path, logging_level="error"
    )


def through(ray, size, total, path):
    """(write, read) in bytes/s, and how many bytes went through."""
    start(ray, path)
    data = np.random.default_rng(1).integers(0, 255, size, dtype=np.uint8)
    stamp = data[:8].view(np.int64)
    refs, full = [], int(STORE * 0.9) // size
    t0 = begin = time.perf_counter()
    for i in range(total // size):
        if i == full:
            t0 = time.perf_counter()
        stamp[0] = i
        refs.append(ray.put(data))
        if i % 16 == 0 and i > 2 * full and time.perf_counter() - begin > LIMIT_S:
            break
    write = (len(refs) - full) * size / (time.perf_counter() - t0)
    step, got = max(BATCH // size, 1), 0
    t0 = time.perf_counter()
    while got < len(refs) and time.perf_counter() - t0 < LIMIT_S:
        for k, a in enumerate(ray.get(refs[got : got + step])):
            if a[:8].view(np.int64)[0] != got + k or a[-1] != data[-1]:
                sys.exit(f"object {got + k} of {size} bytes came back wrong")
        got = min(got + step, len(refs))
    read = got * size / (time.perf_counter() - t0)
    del refs, a
    ray.shutdown()
    return write, read, len(data) * got


def churn(ray, total, path, size=100_000):
    """Most disk held / bytes alive, and the MB/s of the puts."""
    from skate import _skate

    start(ray, path)
    n = min(4_000_000_000, total // 2) // size
    rnd, data, most = np.random.default_rng(2), np.zeros(size, np.uint8), 0
    refs = [ray.put(data) for _ in range(n)]
    t0 = time.perf_counter()
    places = rnd.integers(0, n, total // size - n)
    for i, k in enumerate(places):
        refs[k] = ray.put(data)
        if i % 256 == 0:
            most = max(most, _skate.status()["spill_disk_bytes"])
    took = time.perf_counter() - t0
    del refs
    ray.shutdown()
    return most / (n * size), len(places) * size / took


def main():
    engine = sys.argv[1]
    total = int(float(sys.argv[2]) * 1e9) if len(sys.argv) > 2 else 16_000_000_000
    sizes = (
        [int(s) for s in sys.argv[3].split(",")]
        if len(sys.argv) > 3
        else [10_000, 100_000, 1_000_000, 10_000_000]
    )
    path = os.environ.get("SPILL_DIR", "/tmp")
    ray = module(engine)
    s = os.statvfs(path)
    if total * 1.1 > s.f_bavail * s.f_frsize:
        sys.exit(
            f"{path} has {s.f_bavail * s.f_frsize / 1e9:.0f} GB free, less than {total * 1.1 / 1e9:.0f}"
        )
    out, before = {}, disk(path)
    for size in sizes:
        write, read, n = through(ray, size, total, path)
        after = disk(path)
        w, r = ((x + y) / 2 for x, y in zip(before, after))
        before = after
        out |= {f"write_{size}_MB_s": write / 1e6, f"write_{size}_of_disk": write / w}
        out |= {
            f"read_{size}_MB_s": read / 1e6,
            f"read_{size}_of_disk": read / r,
            f"GB_{size}": n / 1e9,
        }
        out |= {f"disk_write_{size}_MB_s": w / 1e6, f"disk_read_{size}_MB_s": r / 1e6}
    if engine == "skate":
        out["churn_disk_per_alive"], rate = churn(ray, total, path)
        out["churn_MB_s"] = rate / 1e6
    emit("spill", engine, **out)


if __name__ == "__main__":
    main()
