"""first_rows.py ENGINE: from the start of the process to the first ten rows of a Data pipeline (s):
what a user waits for at the prompt.
Engines: skate, ray (the same program)."""

import os
import sys
import time

from common import RAY_LIKE, emit, module


def age():
    """Seconds since this process was started, to 10 ms (proc(5): starttime, in clock ticks since
    the machine's start)."""
    with open("/proc/self/stat") as f:
        ticks = int(f.read().rsplit(") ", 1)[1].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    name = sys.argv[1]
    if name not in RAY_LIKE:
        sys.exit(f"first_rows: no engine {name!r}; there are: {', '.join(RAY_LIKE)}")
    data = module(name, ".data")
    rows = data.range(1000).map_batches(lambda b: {"x": b["id"] + 1}).take(10)
    took = age()
    assert [r["x"] for r in rows] == list(range(1, 11)), rows
    emit("first_rows", name, first_10_rows_s=took)
