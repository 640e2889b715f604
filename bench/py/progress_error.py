"""progress_error.py [NAME ...] [--series] [--json FILE]: how wrong the time left is that the
progress line shows, over 24 pipelines of 3 to 12 seconds (spill_more, a shuffle of 30 memories: 20
to 40), each in a process of its own with 2 CPUs.

A thread asks for the statistics of the run every 0.1 s. For each pipeline the table has: seconds of
the run; when the first estimate came (% of the run); and, after a tenth of the run, the worst
factor between the predicted and the real total, the worst factor between the predicted and the real
time left, the share of the samples that are within 2x of the real time left, the last share before
the end; and the % of the samples in which the line says that it guesses (a stage has not begun), or
that nothing is known yet; these are not judged. Times left are compared as the line shows them, in whole seconds: two times that
differ by a second or less count as equal.

The tasks of "uneven" take four times as long from one of them on, which nothing in its input says.
For such a pipeline a second line has: when the first of these tasks began and when the first of
them ended (the change has been seen), in seconds; the worst factors between predicted and real time
left before and after that; and after how many seconds the estimate was within 2x for good."""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np


def nap(seconds):
    def f(b):
        time.sleep(seconds)
        return b

    return f


def burn(seconds):
    def f(b):
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass
        return b

    return f


class Model:
    def __init__(self, start, each):
        time.sleep(start)
        self.each = each

    def __call__(self, b):
        time.sleep(self.each)
        return b


def wide(rows):
    """A batch of numbers becomes rows of 100 bytes with a random key."""

    def f(b):
        n = len(b["id"])
        r = np.random.default_rng(int(b["id"][0]))
        return {"k": r.integers(0, 1 << 40, n), "pad": np.full((n, rows), 7, np.uint8)}

    return f


def keyed(keys):
    def f(b):
        return {"k": b["id"] * 7919 % keys, "v": b["id"].astype(float)}

    return f


def pipelines(sd):
    def r(n, blocks):
        return sd.range(n, override_num_blocks=blocks)

    class Path:
        @property
        def new(self):
            return tempfile.mkdtemp()

    path = Path()

    def stored(n, blocks):
        at = path.new
        c = r(n, blocks).map_batches(wide(64))
        c.context.enable_progress_bars = False
        c.write_parquet(at)
        return sd.read_parquet(at, override_num_blocks=blocks)

    def all_of(ds):
        return lambda: sum(len(b["k" if "k" in b else "id"]) for b in ds.iter_batches())

    def slow_consumer(ds, seconds):
        def work():
            for _ in ds.iter_batches(batch_size=1000):
                time.sleep(seconds)

        return work

    def skewed(b):
        g = np.random.default_rng(int(b["id"][0]))
        time.sleep(float(min(g.lognormal(-3.5, 1.0), 1.0)))
        return b

    def uneven(b):  # the second half of the input is four times as slow as the first
        time.sleep(0.03 if b["id"][0] < 20000 else 0.12)
        return b

    def grow(row):
        return [{"id": row["id"] * 10 + i} for i in range(10)]

    def big(n, blocks):
        return r(n, blocks).map_batches(wide(92))

    return {
        "read_map": lambda: all_of(r(40000, 400).map_batches(nap(0.03))),
        "slow_after_fast": lambda: all_of(
            r(100000, 100).map_batches(nap(0.01)).map_batches(burn(0.1), num_cpus=0.9)
        ),
        "fast_after_slow": lambda: all_of(
            r(100000, 100).map_batches(burn(0.1)).map_batches(nap(0.01), num_cpus=0.9)
        ),
        "pool_slow_start": lambda: all_of(
            r(60000, 60).map_batches(Model, fn_constructor_args=(2.5, 0.2), concurrency=2)
        ),
        "sort": lambda: all_of(big(40_000_000, 400).sort("k")),
        "sort_slow_map": lambda: all_of(
            r(1_000_000, 20)
            .map_batches(burn(0.1))
            .sort("id")
            .map_batches(nap(0.5), batch_size=50000)
        ),
        "groupby_few": lambda: all_of(
            r(600_000_000, 300).map_batches(keyed(10)).groupby("k").sum("v")
        ),
        "groupby_many": lambda: all_of(
            r(100_000_000, 200).map_batches(keyed(50_000_000)).groupby("k").sum("v")
        ),
        "map_groups": lambda: all_of(
            r(200_000, 40)
            .map_batches(keyed(100))
            .groupby("k")
            .map_groups(lambda b: (time.sleep(0.08), {"k": b["k"][:1]})[1])
        ),
        "join": lambda: all_of(
            r(50_000_000, 100)
            .map_batches(keyed(16_000_000))
            .join(r(16_000_000, 40).map_batches(lambda b: {"k": b["id"]}), "inner", 16, on=("k",))
        ),
        "random_shuffle": lambda: all_of(big(60_000_000, 600).random_shuffle(seed=1)),
        "write_parquet": lambda: lambda: big(8_000_000, 160).write_parquet(path.new),
        "limit": lambda: all_of(r(100_000, 200).map_batches(nap(0.15)).limit(40_000)),
        "union": lambda: all_of(
            r(40000, 40).map_batches(nap(0.05)).union(r(40000, 40).map_batches(burn(0.2)))
        ),
        "zip": lambda: all_of(
            r(200000, 50)
            .map_batches(nap(0.1))
            .zip(r(200000, 50).map_batches(lambda b: {"b": b["id"]}).map_batches(nap(0.05)))
        ),
        "filter": lambda: all_of(
            r(200000, 100)
            .map_batches(burn(0.05))
            .filter(lambda row: row["id"] % 100 == 0)
            .map_batches(nap(0.1), num_cpus=0.9)
        ),
        "flat_map": lambda: all_of(
            r(100000, 50).map_batches(nap(0.05)).flat_map(grow).map_batches(burn(0.1), num_cpus=0.9)
        ),
        "skewed": lambda: all_of(r(200000, 200).map_batches(skewed)),
        "uneven": lambda: all_of(r(40000, 160).map_batches(uneven)),
        "few_long_tasks": lambda: all_of(r(50000, 5).map_batches(nap(3.0))),
        "spill": lambda: all_of(big(32_000_000, 320).random_shuffle(seed=1)),
        "spill_more": lambda: all_of(big(56_000_000, 560).random_shuffle(seed=1)),
        "slow_consumer": lambda: slow_consumer(r(100000, 100).map_batches(nap(0.01)), 0.08),
        "inference": lambda: inference(stored(200_000, 50), path.new),
    }


def inference(ds, to):
    out = ds.map_batches(burn(0.03)).map_batches(
        Model, fn_constructor_args=(1.0, 0.1), concurrency=1, batch_size=2000
    )
    return lambda: out.write_parquet(to)


def measure(name):
    import skate
    import skate.data as sd
    from skate.data.run import progress

    store = 200 << 20 if name.startswith("spill") else 8 << 30
    skate.init(num_cpus=2, object_store_memory=store)
    runs, rows, over = [], [], threading.Event()
    begin = progress.Progress.__init__

    def seen(self, x, *more):
        runs.append((x, time.monotonic()))
        rows.clear()  # of the run of one row that asked for the schema
        begin(self, x, *more)

    progress.Progress.__init__ = seen
    work = pipelines(sd)[name]()
    runs.clear()

    def look():
        while not over.wait(0.1):
            if not runs:
                continue
            x, start = runs[-1]
            s = x.stats()
            if s and not s["done"]:
                left = s.get("left_ns", -1)
                ops = [
                    [
                        o["label"][-24:],
                        o["tasks_done"],
                        o["tasks_running"],
                        o["tasks_queued"],
                        round(o["task_ns_total"] / 1e9, 2),
                        o["bytes_in"],
                        o["bytes_out"],
                        [round(f["ns"] / 1e9, 3) for f in o["fused"]],
                        o["n_actors"],
                    ]
                    for o in s["ops"]
                ]
                rows.append(
                    (
                        time.monotonic() - start,
                        s["share"],
                        None if left < 0 else left / 1e9,
                        s["left_guess"],
                        ops,
                    )
                )

    eye = threading.Thread(target=look)
    eye.start()
    t0 = time.monotonic()
    work()
    end = time.monotonic()
    over.set()
    eye.join()
    print(
        json.dumps({"total": end - (runs[-1][1] if runs else t0), "runs": len(runs), "rows": rows})
    )


# pipelines whose tasks change at some point: the number of their tasks before it
CHANGES = {"uneven": 80}


def factor(a, b, slack=0.0):
    """How far a is from b, as a factor of 1 or more."""
    if abs(a - b) <= slack:
        return 1.0
    return max(a, b) / max(min(a, b), 1e-9)


def judged(d):
    total = d["total"]
    known = [r for r in d["rows"] if r[2] is not None and not r[3]]
    after = [r for r in d["rows"] if r[0] >= total / 10]
    late = [r for r in known if r[0] >= total / 10]
    lefts = [factor(r[2], total - r[0], 1.0) for r in late]
    return {
        "seconds": round(total, 1),
        "first": round(100 * known[0][0] / total) if known else None,
        "total x": round(max((factor(r[0] + r[2], total) for r in late), default=0), 2),
        "left x": round(max(lefts, default=0), 2),
        "within 2x": round(100 * sum(x <= 2 for x in lefts) / max(len(lefts), 1)),
        "last share": round(late[-1][1], 2) if late else None,
        "guess": round(100 * sum(bool(r[3]) for r in after) / max(len(after), 1)),
        "unknown": round(100 * sum(r[2] is None for r in after) / max(len(after), 1)),
    }


def after_change(d, tasks):
    """What the time left was before and after the first task behind `tasks` others had ended."""
    total = d["total"]
    done = [(r[0], sum(o[1] for o in r[4])) for r in d["rows"]]
    begun = next(t for t, n in done if n >= tasks)
    seen = next(t for t, n in done if n > tasks)
    off = [
        (r[0], factor(r[2], total - r[0], 1.0))
        for r in d["rows"]
        if r[2] is not None and r[0] >= total / 10
    ]
    late = [t for t, x in off if t >= seen and x > 2]
    good = next((t for t, _ in off if t >= seen and (not late or t > late[-1])), None)
    return {
        "change at": round(begun, 1),
        "seen at": round(seen, 1),
        "before x": round(max((x for t, x in off if t < seen), default=0), 2),
        "after x": round(max((x for t, x in off if t >= seen), default=0), 2),
        "within 2x after": "never" if good is None else f"{good - seen:.1f} s",
    }


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    a.add_argument("names", nargs="*")
    a.add_argument("--series", action="store_true", help="also print the series of each pipeline")
    a.add_argument("--json", help="write all samples to this file")
    a.add_argument("--one", help=argparse.SUPPRESS)
    o = a.parse_args()
    if o.one:
        measure(o.one)
        return
    names = o.names or list(pipelines(None))
    found = {}
    for name in names:
        out = subprocess.run(
            [sys.executable, __file__, "--one", name], capture_output=True, text=True
        )
        if out.returncode:
            print(name, "failed:", out.stderr[-800:])
            continue
        d = found[name] = json.loads(out.stdout.splitlines()[-1])
        j = judged(d)
        print(f"{name:16}", " · ".join(f"{k} {v}" for k, v in j.items()), flush=True)
        if name in CHANGES:
            told = after_change(d, CHANGES[name])
            print(f"{'':16}", " · ".join(f"{k} {v}" for k, v in told.items()), flush=True)
        if o.series:
            for t, share, left, guess, _ in d["rows"]:
                said = "unknown" if left is None else f"{t + left:.1f}" + " guess" * guess
                print(f"  {t:6.1f}  share {share}  predicted total {said}  real {d['total']:.1f}")
    ok = sum(0 < judged(d)["left x"] <= 2 for d in found.values())
    print(f"{ok} of {len(found)} within 2x of the real time left after a tenth of the time")
    if o.json:
        with open(o.json, "w") as f:
            json.dump(found, f)


if __name__ == "__main__":
    main()
