"""stats_overhead.py: what counting (rows, time, tries of each operator: data/worker/stage.py
_timed) costs a task: process time of tasks with it and without, medians of 41, interleaved.

Three fused operators that do next to nothing, on one block of 1,000 rows and on 50 of 4,096.
"""

import pickle
import time

import numpy as np
import pyarrow as pa
from skate.data.worker import stage


def same(b):
    return b


def plus(b):
    return {"id": b["id"] + 1}


def plain(it, ns, rows, i):
    return iter(it)


def main():
    base = {
        "fn_args": (),
        "fn_kwargs": {},
        "batch_size": None,
        "batch_format": "numpy",
        "zero_copy_batch": True,
    }
    ops = [
        ("map_batches", n, pickle.dumps({**base, "fn": f}))
        for n, f in (("a", same), ("b", plus), ("c", same))
    ]
    counted = stage._timed
    stage._skate.task_note = lambda note: None
    for rows, blocks, times in ((1000, 1, 300), (4096, 50, 20)):
        data = [
            pa.RecordBatch.from_arrays([pa.array(np.arange(rows))], names=["id"])
            for _ in range(blocks)
        ]
        ranges = [(0, rows, 0)] * blocks
        took = {True: [], False: []}
        for i in range(82):
            on = bool(i % 2)
            stage._timed = counted if on else plain
            t = time.process_time()
            for _ in range(times):
                for _ in stage.run_stage(ops, (0, -1, 1 << 24, b"", ranges), *data):
                    pass
            took[on].append((time.process_time() - t) / times)
        with_it, without = (sorted(took[k])[20] for k in (True, False))
        print(
            f"{blocks} block(s) of {rows:,} rows: {with_it * 1e6:.1f} us a task, {without * 1e6:.1f} without: {100 * (with_it / without - 1):+.1f} %",
            flush=True,
        )


if __name__ == "__main__":
    main()
