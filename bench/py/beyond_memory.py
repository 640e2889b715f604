"""beyond_memory.py skate [TIMES [POLICIES]]: pipelines whose blocks are TIMES (default 0.5,1,4,20)
the memory, which spill: what exec_sim data_beyond_memory has in the simulator. Two source tasks
yield blocks of 1 MiB as fast as they can, into a store of 64 MiB; two operators behind them sleep
20 ms a block; 8 CPU slots.

Per policy (default adaptive,downstream) and TIMES: seconds (bound: work of the operators / 8);
launches of which so many forced, beyond what memory allowed; bytes that were spilled, and the peak
of blocks by the run's own account and of the whole store, as multiples of the memory.

beyond_memory.py skate exchanges [TIMES [OPERATIONS]]: sort, random_shuffle, groupby (as many groups
as rows) and join (both sides so large) of TIMES (default 4,10) the memory, rows of 100 bytes, 2
CPUs, the same store; the output is looked at row by row (in order, each once) and let go.

beyond_memory.py skate hot [TIMES [KINDS]]: joins of a table of TIMES (default 2) the memory, rows
of 100 bytes, half of them of one key, with 5,000 rows of 16, in 4 partitions, whichever side the
large one is; a quarter of the small one's rows, and of the large one's keys, meet nothing. Reduces
(the largest partition, in memories) and peaks; the store is 16 MiB."""

import sys
import tempfile
import time

import numpy as np
from common import emit, module

STORE, BLOCK, NAP, CPUS = 64 << 20, 1 << 20, 0.02, 8


def run(skate, data, times, policy):
    blocks = int(times * STORE / BLOCK)

    def make(b):
        for i in b["id"]:
            for k in range(blocks // 2):
                yield {
                    "k": np.array([int(i) * (blocks // 2) + k]),
                    "x": np.full((1, BLOCK), k % 251, np.uint8),
                }

    def nap(b):
        time.sleep(NAP * len(b["k"]))
        return b

    with tempfile.TemporaryDirectory() as disk:
        skate.init(
            num_cpus=CPUS,
            object_store_memory=STORE,
            object_spilling_directory=disk,
            logging_level="error",
        )
        ctx = data.DataContext.get_current()
        ctx.scheduling_policy = policy
        ctx.target_max_block_size = BLOCK
        ds = data.range(2, override_num_blocks=2).map_batches(make, batch_size=1, num_cpus=1)
        ds = ds.map_batches(nap, batch_size=1, num_cpus=0.99).map_batches(
            nap, batch_size=1, num_cpus=0.98
        )
        t, got = time.perf_counter(), 0
        for b in ds.iter_batches(batch_size=None):
            if (b["x"][:, 0] != b["k"] % (blocks // 2) % 251).any():
                raise SystemExit("WRONG RESULT")
            got += len(b["k"])
        t = time.perf_counter() - t
        st, disk_st = ds.stats_dict(), skate._skate.status()
        skate.shutdown()
    if got != blocks // 2 * 2:
        raise SystemExit(f"WRONG RESULT: {got} rows of {blocks}")
    launches = sum(o["tasks_done"] for o in st["ops"])
    spilled, peak, store = (
        disk_st["spilled_bytes"] / STORE,
        st["memory_peak"] / STORE,
        disk_st["store_peak_bytes"] / STORE,
    )
    return (
        t,
        f"{t:.1f} s, {st.get('forced', '?')} of {launches}, spilled {spilled:.1f}, peak {peak:.2f}, store {store:.2f}",
    )


def rows_of(data, n):
    def make(b):
        k = b["id"] * 2654435761 % n  # n is odd and no multiple of it: each number once
        return {"k": k, "v": b["id"], "pad": np.repeat(k, 10).view("S80")}

    return data.range(n, override_num_blocks=max(2, n // 160_000)).map_batches(
        make, batch_size=None
    )


def checked(op, ds, n):
    """Takes the output of an operation; SystemExit where it is wrong."""
    seen, total, last, apart = 0, 0, -1, 0
    for b in ds.iter_batches(batch_size=None):
        k = b["k"]
        if op == "sort" and len(k) and (k[0] <= last or (np.diff(k) <= 0).any()):
            raise SystemExit("WRONG ORDER")
        if op == "join" and (b["w"] != -k).any():
            raise SystemExit("WRONG PARTNERS")
        last, seen, total = (k[-1] if len(k) else last), seen + len(k), total + int(k.sum())
        apart += int((np.diff(k) < 0).sum())
    if (
        seen != n
        or total != n * (n - 1) // 2
        or (op == "random_shuffle" and not 0.4 * n < apart < 0.6 * n)
    ):
        raise SystemExit(f"WRONG RESULT: {seen} rows of {n}")


def exchange(skate, data, op, times):
    n = int(times * STORE / 100 / (2 if op == "join" else 1)) | 1
    with tempfile.TemporaryDirectory() as disk:
        skate.init(
            num_cpus=2,
            object_store_memory=STORE,
            object_spilling_directory=disk,
            logging_level="error",
        )
        data.DataContext.get_current().enable_progress_bars = False
        ds = rows_of(data, n)
        if op == "sort":
            ds = ds.sort("k")
        elif op == "random_shuffle":
            ds = ds.random_shuffle(seed=1)
        elif op == "groupby":
            ds = ds.groupby("k").sum("v")
        else:
            ds = ds.join(
                rows_of(data, n).map_batches(
                    lambda b: {"k": b["k"], "w": -b["k"], "more": b["pad"]}
                ),
                "inner",
                num_partitions=96,
                on=("k",),
            )
        t = time.perf_counter()
        checked(op, ds, n)
        t = time.perf_counter() - t
        st, disk_st = ds.stats_dict(), skate._skate.status()
        skate.shutdown()
    spilled, peak, store = (
        disk_st["spilled_bytes"] / STORE,
        st["memory_peak"] / STORE,
        disk_st["store_peak_bytes"] / STORE,
    )
    return f"{t:.1f} s, spilled {spilled:.1f}, peak {peak:.2f}, store {store:.2f}"


KINDS = [
    "inner",
    "left_outer",
    "right_outer",
    "full_outer",
    "left_semi",
    "right_semi",
    "left_anti",
    "right_anti",
]


def hot_join(skate, data, kind, side, times):
    store, few = 16 << 20, 5000
    n = int(times * store / 100)

    def fact(b):
        return {
            "id": np.where(b["id"] % 2, 7, b["id"] % few),
            "x": b["id"],
            "pad": np.zeros((len(b["id"]), 80), np.uint8),
        }

    def counted(t):
        there = [
            t[c].is_valid().to_numpy() if c in t.column_names else np.zeros(len(t), bool)
            for c in ("x", "y")
        ]
        return {
            c: np.array([int(v.sum())])
            for c, v in zip(("x", "y", "both"), (*there, there[0] & there[1]), strict=True)
        }

    skate.init(num_cpus=2, object_store_memory=store, logging_level="error")
    ctx = data.DataContext.get_current()
    ctx.enable_progress_bars, ctx.broadcast_join_bytes = False, 0
    large = data.range(n, override_num_blocks=max(20, n // 30_000)).map_batches(fact)
    small = data.range(few).map_batches(lambda b: {"id": b["id"] + few // 4, "y": -b["id"]})
    small = small.union(data.from_items([{"id": 7, "y": -few}]))
    ds = (
        large.join(small, kind, num_partitions=4)
        if side == "left"
        else small.join(large, kind, num_partitions=4)
    ).map_batches(counted, batch_size=None, batch_format="pyarrow")
    t, got = time.perf_counter(), {"x": 0, "y": 0, "both": 0}
    for b in ds.iter_batches(batch_size=None):
        got = {c: got[c] + int(b[c].sum()) for c in got}
    t = time.perf_counter() - t
    st = ds.stats_dict()
    peak = skate._skate.status()["store_peak_bytes"] / store
    skate.shutdown()
    ids = np.where(np.arange(n) % 2, 7, np.arange(n) % few)
    met, met_small = (
        int(((ids >= few // 4) | (ids == 7)).sum()),
        int(np.isin(np.arange(few) + few // 4, ids).sum()) + 1,
    )
    mine, others = ("left", "right") if side == "left" else ("right", "left")
    want = {
        "x": 0 if kind in (others + "_semi", others + "_anti") else n - met if kind == mine + "_anti" else n if kind in (mine + "_outer", "full_outer") else met,
        "y": 0 if kind in (mine + "_semi", mine + "_anti") else met_small if kind == others + "_semi" else few + 1 - met_small if kind == others + "_anti"
        else met + (few + 1 - met_small) * (kind in (others + "_outer", "full_outer")),
        "both": 0 if kind.endswith(("semi", "anti")) else met,
    }  # fmt: skip
    if got != want:
        raise SystemExit(f"WRONG RESULT: {got}, not {want}")
    reduce = next(o for o in st["ops"] if "JoinReduce" in o["label"])
    return f"{t:.1f} s, {reduce['tasks_done']} reduces ({reduce['exchange']['largest_bytes'] / store:.2f}), peak {st['memory_peak'] / store:.2f}, store {peak:.2f}"


def hot(skate, data, args):
    given = args + ["2", ",".join(KINDS)][len(args) :]
    r = {}
    for times in map(float, given[0].split(",")):
        for kind in given[1].split(","):
            for side in ("left", "right"):
                name = f"{kind}, {times:g} x memory on the {side}"
                r[name] = hot_join(skate, data, kind, side, times)
                print(name, r[name], flush=True)
    return r


def exchanges(skate, data, args):
    given = args + ["4,10", "sort,random_shuffle,groupby,join"][len(args) :]
    r = {}
    for op in given[1].split(","):
        for times in map(float, given[0].split(",")):
            r[f"{op}, {times:g} x memory"] = exchange(skate, data, op, times)
            print(op, times, r[f"{op}, {times:g} x memory"], flush=True)
    return r


def main():
    name = sys.argv[1]
    skate, data = module(name), module(name, ".data")
    other = {"exchanges": exchanges, "hot": hot}.get("".join(sys.argv[2:3]))
    if other:
        emit("beyond_memory", name, **other(skate, data, sys.argv[3:]))
        return
    args = sys.argv[2:] + ["0.5,1,4,20", "adaptive,downstream"][len(sys.argv) - 2 :]
    r = {}
    for policy in args[1].split(","):
        for times in map(float, args[0].split(",")):
            blocks = int(times * STORE / BLOCK)
            _, r[f"{policy}, {times:g} x memory"] = run(skate, data, times, policy)
            print(
                policy,
                times,
                r[f"{policy}, {times:g} x memory"],
                f"(bound {2 * blocks * NAP / CPUS:.1f} s)",
                flush=True,
            )
    emit("beyond_memory", name, **r)


main()
