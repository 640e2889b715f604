"""Processes of a test's own, found by a mark in their environment, and waiting for their end
without sleeping."""

import os
import select
import time


def marked(tag):
    """Pids of all processes that carry SKATE_TEST_TAG=tag."""
    want, out = f"SKATE_TEST_TAG={tag}".encode(), []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                if want in f.read().split(b"\0"):
                    out.append(int(pid))
        except OSError:
            pass  # gone meanwhile, or not ours
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
            pass  # gone meanwhile
    return out


def family(pid):
    """`pid`, and all that descend from it."""
    return [pid, *(p for c in children(pid) for p in family(c))]


def spill_files(path):
    """Spill files of this process below `path`, which have no name any more, as paths of /proc."""
    out = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            link = f"/proc/self/fd/{fd}"
            # not the store's overflow, where nothing is
            if os.readlink(link).startswith(str(path)) and os.stat(link).st_blocks:
                out.append(f"/proc/self/fd/{fd}")
        except OSError:
            pass
    return out


def wait_gone(pids, seconds):
    """Those of pids that still run after at most `seconds` (zombies count as gone)."""
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
    """Those that carry the tag after at most `seconds`. Looks again each time those it knew are
    gone: a process may be born while its parent dies."""
    deadline = time.monotonic() + seconds
    while pids := marked(tag):
        left = wait_gone(pids, deadline - time.monotonic())
        if left or time.monotonic() > deadline:
            return left or marked(tag)
    return []
