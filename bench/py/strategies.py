"""strategies.py skate [TIMES [MAPS [STRATEGIES [STORE [ROUNDS [OPS]]]]]]: the strategies of
src/shuffle/by/ against each other, and what "auto" takes: random_shuffle and sort of rows of 100
bytes, TIMES the memory (default 0.3,2,6), in each number of MAPS (default 16,64), through a store
of STORE MiB (default 64), 2 CPUs.

Per cell the median of ROUNDS (default 3) runs, the strategies in turns, each with an engine of its
own: seconds, and CPU seconds of all processes (which other load on the machine touches less); and
what auto is over the best of the others, of both. A last line has the largest of these. The rows
are checked: a shuffle's sum, a sort's order."""

import resource
import statistics
import sys
import tempfile
import time

import numpy as np
from common import emit, module

PAD = 92


def rows_of(b):
    k = (b["id"] * 7919 + 13) % 1_000_003
    return {"k": k, "pad": np.full(len(k), b"x" * PAD)}


def cpu():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def run(skate, data, op, rows, maps, strategy, store):
    with tempfile.TemporaryDirectory() as disk:
        used = cpu()
        skate.init(
            num_cpus=2,
            object_store_memory=store << 20,
            object_spilling_directory=disk,
            logging_level="error",
        )
        ctx = data.DataContext.get_current()
        ctx.shuffle_strategy = strategy
        ctx.target_max_block_size = max(1 << 20, (store << 20) // 16)
        data.range(100, override_num_blocks=2).random_shuffle(seed=1).count()  # workers start
        ds = data.range(rows, override_num_blocks=maps).map_batches(rows_of, batch_size=None)
        ds = ds.random_shuffle(seed=1) if op == "shuffle" else ds.sort("k")
        t, n, total, last = time.perf_counter(), 0, 0, -1
        for b in ds.iter_batches(batch_size=None):
            k = b["k"]
            if op == "sort" and (k[0] < last or (k[1:] < k[:-1]).any()):
                raise SystemExit("WRONG RESULT: not sorted")
            n, total, last = n + len(k), total + int(k.sum()), k[-1]
        t = time.perf_counter() - t
        x = next(o["exchange"] for o in ds.stats_dict()["ops"] if "exchange" in o)
        skate.shutdown()
        used = cpu() - used
    if n != rows or total != int(((np.arange(rows) * 7919 + 13) % 1_000_003).sum()):
        raise SystemExit("WRONG RESULT")
    return t, used, f"{x['values']}/{x['merge']}"


def main():
    name = sys.argv[1]
    skate, data = module(name), module(name, ".data")
    given = sys.argv[2:]
    default = ["0.3,2,6", "16,64", ",".join(skate._skate.SHUFFLES), "64", "3", "shuffle,sort"]
    times, maps, strategies, store, rounds, ops = given + default[len(given) :]
    names, store, r, worst = strategies.split(","), int(store), {}, [0.0, 0.0]
    print(f"{'cell':24}", *(f"{s:>12}" for s in names), "  auto/best  auto took")
    for op in ops.split(","):
        for n in map(int, maps.split(",")):
            for x in map(float, times.split(",")):
                rows = int(x * (store << 20) / 100)
                runs = [
                    [run(skate, data, op, rows, n, s, store) for s in names]
                    for _ in range(int(rounds))
                ]
                over, cell = [], f"{op} {x:g} x, {n} maps"
                medians = [
                    {s: statistics.median(k[i][what] for k in runs) for i, s in enumerate(names)}
                    for what in (0, 1)
                ]
                for of in medians:
                    over.append(
                        of.get("auto", 0) / min([t for s, t in of.items() if s != "auto"] or [1])
                    )
                worst = [max(w, o) for w, o in zip(worst, over, strict=True)]
                took = runs[-1][names.index("auto")][2] if "auto" in names else ""
                print(
                    f"{cell:24}",
                    *(f"{medians[0][s]:6.2f} {medians[1][s]:5.2f}" for s in names),
                    f"{over[0]:6.2f} {over[1]:.2f}  {took}",
                    flush=True,
                )
                r[cell] = f"{over[0]:.2f} {over[1]:.2f}"
    print(f"auto over the best of the others, at most: {worst[0]:.2f}, of CPU time {worst[1]:.2f}")
    emit("strategies", name, **r)


main()
