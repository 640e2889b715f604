"""The use of memory by each worker and by the object store, and the limit that holds. The figures
are measured at each call."""

from skate import _skate


def usage():
    """Bytes, as a dict. limit_bytes and used_bytes: of the budget with the least left (limit_bytes
    is 0 when it cannot be known), `where` says whose it is; store_limit_bytes, store_may_bytes (it
    may grow to, as heaps are now), store_used_bytes (objects), store_present_bytes (pages, free
    ones too), spilled_bytes (on disk now); heap_bytes of all workers, driver_heap_bytes. stopped,
    kernel_killed: workers so far; alone: tasks that
    are to run alone. workers: a dict each of pid, number, heap_bytes, peak_bytes and asked_bytes
    (memory=) of what runs there, busy, actor, name.

    NotImplementedError in a worker, and in the inline engine; RaySystemError without /proc."""
    return _skate.memory()


def _mib(n):
    return f"{n / 1048576:.0f} MiB"


def summary():
    """The figures of usage() as text, the largest worker first. (Objects:
    ray._private.internal_api.memory_summary.)"""
    u = usage()
    limit = (
        f"of {_mib(u['limit_bytes'])} ({u['where']})"
        if u["limit_bytes"]
        else "of a limit that is not known"
    )
    lines = [
        f"{_mib(u['used_bytes'])} {limit} are used; stopped for memory: {u['stopped']}, killed by the kernel: {u['kernel_killed']}",
        f"object store {_mib(u['store_used_bytes'])} of {_mib(u['store_limit_bytes'])} (pages: {_mib(u['store_present_bytes'])}, may grow to "
        f"{_mib(u['store_may_bytes'])}), on disk {_mib(u['spilled_bytes'])}; workers {_mib(u['heap_bytes'])}, driver {_mib(u['driver_heap_bytes'])}",
        "     pid       heap       peak      asked  what",
    ]
    for w in sorted(u["workers"], key=lambda w: -w["heap_bytes"]):
        kind = "actor " if w["actor"] else ""
        what = kind + w["name"] + ("" if w["busy"] else " (idle)" if w["name"] else "idle")
        asked = _mib(w["asked_bytes"]) if w["asked_bytes"] else "-"
        lines.append(
            f"{w['pid']:8d} {_mib(w['heap_bytes']):>10} {_mib(w['peak_bytes']):>10} {asked:>10}  {what}"
        )
    return "\n".join(lines)
