"""The memory use of each worker and of the object store, and the limit in force. The figures are
measured at each call."""

from skate import _skate

__all__ = [
    "summary",
    "usage",
]


def usage():
    """Bytes, as a dict. limit_bytes and used_bytes are those of the budget that has the least left,
    and `where` names this budget (limit_bytes is 0 if it is unknown); store_limit_bytes,
    store_may_bytes (the size to which the store may grow beside the present heaps),
    store_used_bytes (objects), store_present_bytes (pages, free ones included), spilled_bytes (on
    disk now); heap_bytes of all workers, driver_heap_bytes. stopped, kernel_killed: numbers of
    workers so far; alone: number of tasks that have to run alone. workers: for each a dict with
    pid, number, heap_bytes, peak_bytes, asked_bytes (memory= of what runs in it), busy, actor,
    name.

    NotImplementedError in a worker, and in the inline engine; RaySystemError without /proc."""
    return _skate.memory()


def _mib(n):
    return f"{n / 1048576:.0f} MiB"


def summary():
    """The figures of usage() as text, the largest worker first. (For the objects:
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
