"""Waits with a deadline, for tests."""

import os
import signal
import threading
import time


def eventually(true, seconds=60):
    """Calls true() again and again until it returns a true value; fails after `seconds`."""
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, f"not within {seconds} s"
        threading.Event().wait(0.002)


def stop(pid):
    """Sends SIGSTOP and waits until all threads of the process have stopped, for which kill() does
    not wait."""
    os.kill(pid, signal.SIGSTOP)
    threads = f"/proc/{pid}/task"
    eventually(lambda: all(_state(f"{threads}/{t}") in "tT" for t in os.listdir(threads)))


def _state(folder):
    with open(f"{folder}/stat") as f:
        return f.read().rpartition(") ")[2][0]
