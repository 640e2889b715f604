"""Sorts, shuffles, groups and joins whose workers are killed at random times: the output is
compared, byte by byte, with that of a run without kills.

python tests/py/soak/exchange_kills.py [--kills 200 | --seconds S] [--rows N] [--seed N]

Each pair of runs takes a random strategy. A kill is SIGKILL of a worker that runs a task; the
worker's title is read just before, to know which task. The last lines say how many kills hit which
phase, how many runs gave other bytes (0), and how long runs with a kill took compared with those
without; the exit status is 1 if anything is wrong."""

import argparse
import os
import random
import signal
import statistics
import sys
import threading
import time
import zlib
from collections import Counter, defaultdict

import numpy as np
import skate
import skate.data as sd
from skate import _skate


def rows(n, blocks, keys):
    return sd.range(n, override_num_blocks=blocks).map_batches(
        lambda b: {"k": b["id"] * 2654435761 % keys, "v": b["id"], "pad": b["id"].astype("S40")}
    )


def hot(n, blocks):
    return sd.range(n, override_num_blocks=blocks).map_batches(
        lambda b: {"k": np.where(b["id"] % 2, 7, b["id"] * 2654435761 % 999), "v": b["id"]}
    )


def works(n):
    """{name: function that makes its Dataset}."""

    def other():
        return sd.range(n // 4, override_num_blocks=5).map_batches(
            lambda b: {"k": b["id"], "w": -b["id"]}
        )

    return {
        "sort": lambda: rows(n, 9, n).sort("k"),
        "random_shuffle": lambda: rows(n, 9, n).random_shuffle(seed=3),
        "repartition by key": lambda: rows(n, 9, 500).repartition(7, keys=["k"]),
        "groupby": lambda: rows(n, 9, 5000).groupby("k").sum("v"),
        "join": lambda: rows(n, 9, n).join(other(), "left_outer", num_partitions=8, on=("k",)),
        "join, hot key": lambda: hot(n, 12).join(other(), "inner", num_partitions=4, on=("k",)),
        # its split reduces send match reports
        "full outer join, hot key": lambda: hot(n, 12).join(
            other(), "full_outer", num_partitions=4, on=("k",)
        ),
        "join, broadcast": lambda: rows(n, 9, n).join(
            sd.range(900).map_batches(lambda b: {"k": b["id"], "w": b["id"]}), "inner", on=("k",)
        ),
    }


def run(ds):
    """({column: checksum over all of its bytes in order}, seconds)."""
    t, crc = time.perf_counter(), defaultdict(int)
    for b in ds.iter_batches(batch_size=None, batch_format="numpy"):
        for name, column in b.items():
            data = (
                b"".join(column)
                if column.dtype == object
                else np.ascontiguousarray(column).tobytes()
            )
            crc[name] = zlib.crc32(data, crc[name])
    return dict(crc), time.perf_counter() - t


def title(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def kill_one(rng, after, over, met):
    """Kills a worker that runs a task of an exchange, at a time after `after` seconds."""
    if over.wait(after):
        return
    while not over.is_set():
        found = [(w["pid"], title(w["pid"])) for w in _skate.memory()["workers"] if w["busy"]]
        found = [(p, t) for p, t in found if any(x in t for x in PHASES)]
        if found:
            pid, doing = rng.choice(found)
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            met.append(max((x for x in PHASES if x in doing), key=doing.rfind))
            return
        over.wait(0.001)


PHASES = (
    "Map(",
    "Merge(",
    "ShuffleMerge",
    "Reduce(",
    "ShuffleMap",
    "ShuffleReduce",
    "RepartitionMap",
    "RepartitionReduce",
    "Aggregate",
    "Broadcast",
    "Read",
    "Map",
    "Reduce",
)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--kills", type=int)
    p.add_argument("--seconds", type=float)
    p.add_argument("--rows", type=int, default=300_000)
    p.add_argument("--seed", type=int, default=int(time.time()))
    a = p.parse_args()
    wanted, until = (
        a.kills or (10**9 if a.seconds else 200),
        time.monotonic() + (a.seconds or 10**9),
    )
    rng = random.Random(a.seed)
    print("seed", a.seed, flush=True)
    skate.init(
        num_cpus=2,
        object_store_memory=256 << 20,
        logging_level="error",
        _system_config={"preload": "numpy"},
    )
    context = sd.DataContext.get_current()
    context.enable_progress_bars = False
    context.target_max_block_size = 1 << 20
    limits = context.execution_options.resource_limits
    context.execution_options.resource_limits = limits.copy(object_store_memory=12 << 20)
    made, want, took = works(a.rows), {}, defaultdict(lambda: ([], []))
    phases, wrong = Counter(), 0
    while sum(phases.values()) < wanted and time.monotonic() < until:
        name = rng.choice(list(made))
        context.shuffle_strategy = rng.choice(list(_skate.SHUFFLES))
        crc, s = run(made[name]())
        took[name][0].append(s)
        wrong += want.setdefault(name, crc) != crc
        over, met = threading.Event(), []
        killer = threading.Thread(target=kill_one, args=(rng, rng.random() * s, over, met))
        killer.start()
        try:
            got, t = run(made[name]())
        finally:
            over.set()
            killer.join()
        if met:
            took[name][1].append(t)
        phases.update(f"{name}: {m}" for m in met)
        if got != crc:
            wrong += 1
            print(f"WRONG: {name}, after a kill in {met}", flush=True)
    skate.shutdown()
    for name, (plain, killed) in sorted(took.items()):
        if killed:
            print(
                f"{name}: {statistics.median(plain):.2f} s, with a kill {statistics.median(killed):.2f} s ({len(killed)} kills)"
            )
    print(dict(phases))
    print(f"{sum(phases.values())} kills, {wrong} wrong outputs")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
