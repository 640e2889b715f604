"""map_groups.py ENGINE [ROWS [GROUPS]]: `groupby("k").map_groups(f, batch_format="pandas")` over
GROUPS groups (10,000) of ROWS rows (1,000,000) in 40 blocks, with 2 CPUs. f takes a DataFrame and
gives one with a column more, each value less the mean of its group. The rows are checked: how many,
and that the new column sums up to nothing in each group."""

import sys
import time

import numpy as np
from common import emit, module

name = sys.argv[1]
rows, groups = (
    (int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000),
    (int(sys.argv[3]) if len(sys.argv) > 3 else 10_000),
)


def centred(frame):
    return frame.assign(c=frame["v"] - frame["v"].mean())


def source(b):
    return {"k": b["id"] * 2654435761 % groups, "v": (b["id"] % 1000).astype(np.float64)}


ray, data = module(name), module(name, ".data")
data.DataContext.get_current().enable_progress_bars = False
t0 = time.perf_counter()
ray.init(num_cpus=2, logging_level="error")
t1 = time.perf_counter()
n, sums = 0, np.zeros(groups)
for b in (
    data.range(rows, override_num_blocks=40)
    .map_batches(source)
    .groupby("k")
    .map_groups(centred, batch_format="pandas")
    .iter_batches(batch_size=None)
):
    n += len(b["k"])
    np.add.at(sums, b["k"], b["c"])
t2 = time.perf_counter()
ray.shutdown()
if n != rows or np.abs(sums).max() > 1e-6:
    raise SystemExit(f"WRONG RESULT: {n} rows, a sum of {np.abs(sums).max()}")
emit(
    "map_groups", name, seconds=round(t2 - t1, 2), start_s=round(t1 - t0, 2), rows=n, groups=groups
)
