"""The memory of each process of an engine, read from another process (`skate memory`)."""

import os

from skate._private import stack


def _pss(pid):
    """The memory of a process in bytes: its private memory, and its share of shared memory. None if
    /proc cannot be read."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as f:
            for line in f:
                if line.startswith("Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def store(pid):
    """(bytes in memory, size) of the object store's segment; None if /proc cannot be read."""
    try:
        for path in stack.held(pid, "/memfd:skate-data"):
            st = os.stat(path)
            return st.st_blocks * 512, st.st_size
    except OSError:
        pass  # the process has just ended
    return None


def memory(driver, waits, workers):
    """The memory of the processes of an engine, whose driver and workers stack.engines() has
    found."""
    rows = [
        {"pid": pid, "task": name if task else "", "bytes": _pss(pid)}
        for pid, task, name in [(driver, 0, ""), *((w[0], w[1], w[3]) for w in workers)]
    ]
    held = store(driver)
    return {
        "pid": driver,
        "program": stack.command(driver),
        "processes": rows,
        "bytes": sum(row["bytes"] or 0 for row in rows),
        "store": held and {"resident": held[0], "capacity": held[1]},
    }
