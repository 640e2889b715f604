"""Finds the processes of a test by a mark in their environment, and waits for their end without
sleeping."""

import os
import select
import time


def marked(tag):
    """The pids of all processes whose environment has SKATE_TEST_TAG=tag."""
    want, out = f"SKATE_TEST_TAG={tag}".encode(), []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                if want in f.read().split(b"\0"):
                    out.append(int(pid))
        except OSError:
            pass  # the process has ended in the meantime, or belongs to another user
    return out


def children(pid):
    """Pids of the processes whose parent is `pid`."""
    out = []
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{p}/stat") as f:
                if int(f.read().rsplit(") ", 1)[1].split()[1]) == pid:
                    out.append(int(p))
        except OSError:
            pass  # the process has ended in the meantime
    return out


def family(pid):
    """`pid` and all of its descendants."""
    return [pid, *(p for c in children(pid) for p in family(c))]


def spill_files(path):
    """The spill files of this process below `path`, as paths in /proc, since they have no name."""
    out = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            link = f"/proc/self/fd/{fd}"
            # without the store's overflow file as long as it is empty
            if os.readlink(link).startswith(str(path)) and os.stat(link).st_blocks:
                out.append(f"/proc/self/fd/{fd}")
        except OSError:
            pass
    return out


def wait_gone(pids, seconds):
    """The pids that still run after at most `seconds` (zombies count as ended)."""
    deadline, fds = time.monotonic() + seconds, {}
    for pid in pids:
        try:
            fds[os.pidfd_open(pid)] = pid
        except ProcessLookupError:
            pass
    left = dict(fds)
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    while left and (rest := deadline - time.monotonic()) > 0:
        for fd, _ in poll.poll(rest * 1000):
            poll.unregister(fd)
            left.pop(fd)
    for fd in fds:
        os.close(fd)
    return list(left.values())


def wait_no_marked(tag, seconds):
    """The processes that have the tag after at most `seconds`. Lists them again each time the known
    ones have ended, since a process may be forked while its parent dies."""
    deadline = time.monotonic() + seconds
    while pids := marked(tag):
        left = wait_gone(pids, deadline - time.monotonic())
        if left or time.monotonic() > deadline:
            return left or marked(tag)
    return []
