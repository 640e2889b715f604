"""`skate memory`: shows, from another terminal, the memory of each process of an engine. For a list
of the objects that the driver's program holds in the store, call
skate._private.internal_api.memory_summary() in the driver."""

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


def _store(pid):
    """(bytes in memory, size) of the object store's segment; None if /proc cannot be read."""
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            path = f"/proc/{pid}/fd/{fd}"
            if os.readlink(path).startswith("/memfd:skate-data"):
                st = os.stat(path)
                return st.st_blocks * 512, st.st_size
    except OSError:
        pass
    return None


def _mib(n):
    return f"{n / 2**20:10.1f} MiB"


def report(pid=None):
    """The text of `skate memory`. LookupError if no engine is found."""
    found = stack.engines(pid)
    if not found:
        raise LookupError(
            f"process {pid} holds no engine of skate, or is another user's"
            if pid
            else "no process of this user runs skate"
        )
    out = []
    for driver, _, workers in found:
        store, total = _store(driver), 0
        for p, title in [
            (driver, f"driver ({stack.command(driver)})"),
            *((w[0], f"worker, {'task ' + w[3] if w[1] else 'idle'}") for w in workers),
        ]:
            n = _pss(p)
            total += n or 0
            out.append(f"{p:>9} {'?':>14}  {title}" if n is None else f"{p:>9} {_mib(n)}  {title}")
        out.append(
            f"{'sum':>9} {_mib(total)}  of which the object store: "
            + (f"{_mib(store[0]).strip()} of {_mib(store[1]).strip()}" if store else "?")
        )
        out.append("")
    return "\n".join(out)
