"""What tests wait with: for a condition, with an end; and, in a task, at the gate (see
conftest.Gate) until the test opens it."""

import time


def wait_until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "what was waited for did not come"
        time.sleep(0.01)


def wait_at(path):
    with open(path, "rb", 0) as f:
        return f.read(1)
