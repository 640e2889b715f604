"""What the processes of an engine are doing, seen from another terminal (`skate stack`). It needs
no port and no daemon: it finds engines by the name of their control segment in /proc/<pid>/fd,
reads from the segment which task runs where, and sends each process a signal, after which the
process writes its stacks to a pipe (src/py/worker/stack.c)."""

import os
import pwd
import select
import time

from skate import _skate
from skate.exceptions import RaySystemError

_SEGMENT = "/memfd:skate-ctl"
_VIEW = "/memfd:skate-view"
# a process that has not answered after these seconds is stopped, or waits in the kernel
SECONDS = 5.0


def held(pid, name):
    """Yields the path of each open file of a process whose name begins with `name`, in the order of
    the descriptors; nothing if this user may not read its /proc entry."""
    try:
        fds = sorted(os.listdir(f"/proc/{pid}/fd"), key=int)
    except OSError:
        return  # the process has ended, or belongs to another user
    for fd in fds:
        path = f"/proc/{pid}/fd/{fd}"
        try:
            found = os.readlink(path).startswith(name)
        except OSError:
            continue  # the process has closed it meanwhile
        if found:
            yield path


def _segment(pid):
    """The path of the control segment that a process holds open, or of the view of a driver of a
    cluster, which has no workers of its own; None if it has none."""
    return next(held(pid, _SEGMENT), None) or next(held(pid, _VIEW), None)


def _owner(pid):
    """(user, group) of a process; None if it has ended."""
    try:
        st = os.stat(f"/proc/{pid}")
        return st.st_uid, st.st_gid
    except OSError:
        return None


def _holds(pid, path):
    """Whether a process holds this control segment open. The content of a segment comes from its
    maker and may be false; this answer comes from the kernel."""
    try:
        mine = _segment(pid)
        return (
            mine is not None
            and os.path.samestat(os.stat(mine), os.stat(path))
            and _owner(pid) == _owner(path.split("/")[2])
        )
    except OSError:
        return False


def _look(path):
    """Reads a segment: (pid of the driver, what the driver waits for, its workers); None if the
    engine is starting or ending, or is of another version."""
    try:
        if not os.readlink(path).startswith(_VIEW):
            return _skate.stack_look(path)
        seen = _skate.view_read(path)
        return None if seen["ended"] else (seen["pid"], seen["waits"], [])
    except (OSError, ValueError, RuntimeError, RaySystemError):
        return None


def _is_node(driver):
    """Whether an engine is a node of a cluster, which a driver elsewhere uses."""
    try:
        return any(
            _skate.view_read(path)["program"].startswith("a node of skate:")
            for path in held(driver, _VIEW)
        )
    except (OSError, ValueError, RuntimeError, RaySystemError):
        return False


def _parent(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return int(f.read().rpartition(")")[2].split()[1])
    except (OSError, ValueError):
        return 0


def is_of_a_node(pid, driver):
    """Whether a process belongs to a node that a driver has started on this machine."""
    return any(_is_node(e[0]) and _parent(e[0]) == driver for e in engines(pid))


def engines(pid=None, others=None):
    """All engines of this user: [(the driver's pid, what it waits for, [(worker's pid, task, ns,
    name)])]. With pid: only the engine of that process, whoever owns it. Only processes that hold
    the engine's segment open are listed, whatever the segment says. others: a list to which (pid,
    user) of the drivers of other users, which root can see, are appended."""
    out = {}
    for p in [str(pid)] if pid else filter(str.isdigit, os.listdir("/proc")):
        path = _segment(p)
        owner = _owner(p)
        if path is None or owner is None:
            continue
        if not pid and owner[0] != os.geteuid():
            if others is not None:
                others.append((int(p), owner[0]))
            continue
        if (found := _look(path)) is None:
            continue
        driver, waits, workers = found
        # only if p is the driver: a worker holds the segment open, too
        if (str(driver) == p or pid) and _holds(driver, path):
            out[driver] = (driver, waits, [w for w in workers if _holds(w[0], path)])
    return list(out.values())


def _become_owner(pid):
    """If root inspects the process of another user: becomes that user, so that this process can do
    no more than that user."""
    owner = _owner(pid)
    if os.geteuid() == 0 and owner is not None and owner[0] != 0:
        _skate.stack_become(*owner)


def _listens(pid):
    """Whether the process has a handler for the signal; without a handler the signal would end
    it. qemu 7.2 has one for every signal, and hands this one on under another number, which
    ends a program of skate for another processor."""
    try:
        if os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith("qemu-"):
            return False
        with open(f"/proc/{pid}/status") as f:
            for line in f:
                if line.startswith("SigCgt:"):
                    return bool(int(line.split()[1], 16) >> (_skate.stack_signal() - 1) & 1)
    except OSError:
        pass
    return False


def _state(pid):
    try:
        with open(f"/proc/{pid}/status") as f:
            return next(line.partition(":")[2].strip() for line in f if line.startswith("State:"))
    except (OSError, StopIteration):
        return "gone"


def stacks(pids, seconds=SECONDS, segment=None):
    """{pid: text}: the Python stacks of all threads of each process, or in brackets the reason why
    there are none. segment: skips processes that do not hold it open."""
    out, waiting = {}, {}
    poll = select.poll()
    try:
        for pid in pids:
            try:
                # an open pidfd keeps the kernel from giving the pid to another process
                end = os.pidfd_open(pid)
            except OSError as e:
                out[pid] = f"({e.strerror})"
                continue
            if not _listens(pid) or (segment and not _holds(pid, segment)):
                os.close(end)
                out[pid] = f"({_state(pid)}: it is not a process of skate that tells its stack)"
                continue
            r, w = os.pipe()
            try:
                _skate.stack_ask(end, w)
            except OSError as e:
                for fd in (r, w, end):
                    os.close(fd)
                out[pid] = f"({e.strerror})"
                continue
            waiting[r] = (pid, r, w, end, bytearray())
            waiting[end] = waiting[r]
            poll.register(r, select.POLLIN)
            poll.register(end, select.POLLIN)
        deadline = time.monotonic() + seconds
        left = set(pids) - set(out)
        while left and (rest := deadline - time.monotonic()) > 0:
            for fd, _ in poll.poll(rest * 1000):
                pid, r, _, _, text = waiting[fd]
                if fd != r:
                    poll.unregister(fd)
                    if pid in left:
                        out[pid] = "(it has ended)"
                        left.discard(pid)
                    continue
                text += os.read(r, 1 << 16)
                if text.endswith(b"\0"):
                    poll.unregister(r)
                    out[pid] = text[:-1].decode("utf-8", "replace").rstrip()
                    left.discard(pid)
        for pid in left:
            got = next(w[4] for w in waiting.values() if w[0] == pid).decode("utf-8", "replace")
            out[pid] = f"{got}(no answer within {seconds:g} s; the kernel says: {_state(pid)})"
    finally:
        for fd, (_, r, w, end, _) in waiting.items():
            if fd == r:
                for x in (r, w, end):
                    os.close(x)
    return out


def _user(uid):
    try:
        return f"{pwd.getpwuid(uid).pw_name} ({uid})"
    except KeyError:
        return str(uid)


def _is_driver(pid):
    """Whether a process is a driver, according to its segment. For display only, since the segment
    may be false."""
    path = _segment(pid)
    found = _look(path) if path is not None else None
    return found is not None and found[0] == pid


def command(pid):
    """The command line of a process, as text."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read().rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")[:120]
    except OSError:
        return "gone"


def only():
    """The driver of the only engine of this user. LookupError: there is none, or there are
    several."""
    found = [driver for driver, _, _ in engines()]
    if len(found) > 1:
        found = [driver for driver in found if not _is_node(driver)] or found
    if len(found) == 1:
        return found[0]
    which = "; ".join(f"{driver} ({command(driver)})" for driver in found)
    raise LookupError(
        f"{len(found)} programs run skate, say which by its pid: {which}" if found else none()
    )


def none(pid=None):
    """The sentence that says why there is no engine: of this user, or of the process."""
    if pid is None:
        return "no process of this user runs skate"
    owner = _owner(pid)
    if owner is None:
        return f"there is no process {pid}"
    if owner[0] != os.geteuid() and os.geteuid() != 0:
        return f"process {pid} is of user {_user(owner[0])}, and only its own user and root may look at it"
    return f"process {pid} does not run skate"


def look(pid=None, seconds=SECONDS):
    """What `skate stack` shows: (the engines of this user, or that of a process, with the stacks of
    their processes; the drivers of other users, which root can see). LookupError if there is
    none."""
    others: list = []
    if pid:
        _become_owner(pid)
    found = engines(pid, others)
    if found and pid and not found[0][2]:  # of a cluster: its nodes on this machine
        found += [e for e in engines() if _is_node(e[0]) and _parent(e[0]) == found[0][0]]
    # An engine in a single process: SKATE_ENGINE=inline.
    if not found and pid and _segment(pid) is None and _listens(pid):
        found = [(pid, "", [])]
    others = [{"pid": p, "user": _user(uid)} for p, uid in others if _is_driver(p)]
    if not found and not others:
        raise LookupError(none(pid))
    out = []
    for driver, waits, workers in found:
        text = stacks(
            [driver, *(w[0] for w in workers)],
            seconds,
            _segment(driver) or f"/proc/{driver}/fd/gone",
        )
        out.append(
            {
                "pid": driver,
                "program": command(driver),
                "waits": waits,
                "stack": text[driver],
                "workers": [
                    {
                        "pid": p,
                        "task": name if task else "",
                        "seconds": ns / 1e9 if task else None,
                        "stack": text[p],
                    }
                    for p, task, ns, name in workers
                ],
            }
        )
    return out, others
