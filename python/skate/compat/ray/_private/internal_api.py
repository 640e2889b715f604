"""memory_summary(), which lists the objects of the object store with their holders, and other names
of ray._private.internal_api that are useful here."""

from types import SimpleNamespace

import skate
from skate import _skate
from skate.util.state import api as state_api

_UNITS = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30}
_SORT = {
    "OBJECT_SIZE": lambda r: -r.object_size,
    "PID": lambda r: r.pid,
    "REFERENCE_TYPE": lambda r: r.reference_type,
}


def memory_summary(
    address=None,
    redis_password=None,
    group_by="NODE_ADDRESS",
    sort_by="OBJECT_SIZE",
    units="B",
    line_wrap=True,
    stats_only=False,
    num_entries=None,
):
    """A text with the objects, one line for each process that holds references, then totals and the
    amounts spilled.

    sort_by: OBJECT_SIZE, PID, REFERENCE_TYPE. units: B, KB, MB, GB. stats_only: only the totals.
    num_entries: the most lines. group_by, line_wrap and the addresses have no effect on one
    machine. ValueError for another unit or order."""
    if units not in _UNITS:
        raise ValueError(f"units={units!r}: one of {', '.join(_UNITS)} is wanted")
    if sort_by not in _SORT:
        raise ValueError(f"sort_by={sort_by!r}: one of {', '.join(_SORT)} is wanted")
    rows, missing = state_api._objects(False)
    rows.sort(key=_SORT[sort_by])
    out = []
    if not stats_only:
        out.append(
            f"{'Object ref':<56}  {'Size ' + units:>14}  {'Process':>8}  {'Type':<7} {'Reference':<20}  Task"
        )
        for r in rows[:num_entries]:
            size = r.object_size if units == "B" else round(r.object_size / _UNITS[units], 3)
            out.append(
                f"{r.object_id}  {size:>14}  {r.pid or '-':>8}  {r.type:<7} {r.reference_type:<20}  {r.task_status}"
            )
        if len(rows) > len(rows[:num_entries]):
            out.append(f"... and {len(rows) - len(rows[:num_entries])} more")
        if missing:
            out.append(missing)
        out.append("")
    s: dict = _skate.status()
    n = len({r.object_id for r in rows})
    out.append(
        f"{n} objects, {sum({r.object_id: r.object_size for r in rows}.values()) / 2**20:.1f} MiB"
    )
    if s.get("fork_server_restarts"):
        out.append(f"Fork server: started again {s['fork_server_restarts']} times")
    if "store_size_bytes" in s:  # these are Ray's words, since programs search the text for them
        used, size = s["store_sealed_bytes"], s["store_size_bytes"]
        stored = n - s.get("spill_objects_on_disk", 0)
        peak = s["store_peak_bytes"] >> 20
        out.append(
            f"Plasma memory usage {used >> 20} MiB, {stored} objects, {round(100 * used / size, 2)}% full, peak {peak} MiB"
        )
        if s.get("spilled_objects"):
            out.append(f"Spilled {s['spilled_bytes'] >> 20} MiB, {s['spilled_objects']} objects")
        if s.get("restored_objects"):
            out.append(f"Restored {s['restored_bytes'] >> 20} MiB, {s['restored_objects']} objects")
    return "\n".join(out) + "\n"


def free(object_refs, local_only=False):
    """Releases the extra holds on objects whose references were pickled by hand
    (cloudpickle.dumps(ref)); such an object then ends with its last ObjectRef, like any other. It
    takes one reference or a list. TypeError for anything else. local_only has no effect on one
    machine.

    An object that still has an ObjectRef stays: skate counts references exactly, and never removes
    a value that a holder may read."""
    for ref in object_refs if isinstance(object_refs, (list, tuple)) else [object_refs]:
        _skate.unpin(ref)


def get_state_from_address(address=None):
    """The argument for get_memory_info_reply(). The address has no effect, because there is one
    engine."""
    if not skate.is_initialized():
        skate.init()
    return None


def get_memory_info_reply(state=None, node_manager_address=None, node_manager_port=None):
    """Numbers of the object store in Ray's form: reply.store_stats.spilled_bytes_total and others.
    The arguments have no effect."""
    s: dict = _skate.status()
    stats = {
        "object_store_bytes_used": s.get("store_sealed_bytes", 0),
        "object_store_bytes_avail": s.get("store_size_bytes", 0),
        "num_local_objects": s.get("objects", 0),
        "spilled_bytes_total": s.get("spilled_bytes", 0),
        "spilled_objects_total": s.get("spilled_objects", 0),
        "restored_bytes_total": s.get("restored_bytes", 0),
        "restored_objects_total": s.get("restored_objects", 0),
    }
    return SimpleNamespace(store_stats=SimpleNamespace(**stats))
