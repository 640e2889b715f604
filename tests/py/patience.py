"""Waits with an end, for tests."""

import os
import signal
import threading
import time


def eventually(true, seconds=60):
    """Looks again and again until true() is; fails after so many seconds."""
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, f"not within {seconds} s"
        threading.Event().wait(0.002)


def stop(pid):
    """SIGSTOP, and the process has stopped: kill() does not wait for that."""
    os.kill(pid, signal.SIGSTOP)
    eventually(lambda: _state(pid) in "tT")


def _state(pid):
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rpartition(") ")[2][0]
