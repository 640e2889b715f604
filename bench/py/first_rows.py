"""first_rows.py ENGINE: from the start of the process to the first ten rows of a Data pipeline (s): what a user waits for at the prompt.
Engines: skate, ray (the same program)."""

import sys
import time

import psutil
from common import RAY_LIKE, emit, module

BEGAN = psutil.Process().create_time()  # of this process, to 10 ms

if __name__ == "__main__":
    name = sys.argv[1]
    if name not in RAY_LIKE:
        sys.exit(f"first_rows: no engine {name!r}; there are: {', '.join(RAY_LIKE)}")
    data = module(name, ".data")
    rows = data.range(1000).map_batches(lambda b: {"x": b["id"] + 1}).take(10)
    took = time.time() - BEGAN
    assert [r["x"] for r in rows] == list(range(1, 11)), rows
    emit("first_rows", name, first_10_rows_s=took)
