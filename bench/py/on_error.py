"""on_error.py: what on_error="skip" costs an operator while no row is bad: process time of the
operator alone beside that of "raise", medians of 41, interleaved; %."""

import time

import numpy as np
import pyarrow as pa
from skate.data.expr.evaluation import parse
from skate.data.op import find
from skate.data.worker.task import task


def plus(r):
    return {"id": r["id"] + 1}


def listed(r):
    return [plus(r)]


def even(r):
    return r["id"] % 2 == 0


def parts(rows, n):
    return [pa.RecordBatch.from_arrays([pa.array(np.arange(rows))], names=["id"]) for _ in range(n)]


BASE = {
    "fn_args": (),
    "fn_kwargs": {},
    "label": "x",
    "batch_size": None,
    "batch_format": "numpy",
    "zero_copy_batch": True,
}
CASES = {
    "map": (find("map"), {"fn": plus}, parts(50_000, 2)),
    "flat_map": (find("flat_map"), {"fn": listed}, parts(50_000, 2)),
    "filter": (find("filter"), {"fn": even}, parts(50_000, 2)),
    "map_batches of 4,096": (find("map_batches"), {"fn": plus}, parts(4096, 400)),
    "filter(expr=)": (find("filter"), {"expr": parse("id % 2 == 0")}, parts(65_536, 100)),
}


def main():
    for name, (op, params, batches) in CASES.items():

        def run(policy, op=op, params=params, batches=batches):
            t = time.process_time()
            for _ in op.run({**BASE, **params, "on_error": policy}, iter(batches), task):
                pass
            return time.process_time() - t

        run("raise")
        took = {"raise": [], "skip": []}
        for i in range(41):
            for policy in ("raise", "skip") if i % 2 else ("skip", "raise"):
                took[policy].append(run(policy))
        a, b = (sorted(v)[20] for v in took.values())
        print(
            f"{name}: raise {a * 1e3:.1f} ms, skip {b * 1e3:.1f} ms, {100 * (b / a - 1):+.1f} %",
            flush=True,
        )


if __name__ == "__main__":
    main()
