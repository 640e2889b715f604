"""Waits for tests: until a condition holds, with a deadline; and, in a task, until the test opens
the gate (conftest.Gate)."""

import time


def wait_until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "what was waited for did not come"
        time.sleep(0.01)


def wait_at(path):
    with open(path, "rb", 0) as f:
        return f.read(1)
