import gc
import os
import signal
import sys
import tempfile

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "fault"))
# A shell that starts us in the background has both ignored: tests of Ctrl-C would hang, and
# programs inherit it.
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# pytest holds the stderr of a process, and it is lost with a process that aborts: what a failed
# assertion of the engine said is shown at the end.
assert_log = os.environ.setdefault(
    "SKATE_ASSERT_LOG", os.path.join(tempfile.gettempdir(), f"skate-assert-{os.getpid()}.log")
)


def pytest_terminal_summary(terminalreporter):
    if not hasattr(terminalreporter.config, "workerinput") and os.path.exists(assert_log):
        with open(assert_log) as f:
            terminalreporter.section("failed assertions of the engine")
            terminalreporter.write(f.read())
        os.unlink(assert_log)


def pytest_collection_finish():
    """What is loaded by now stays: each collection of garbage from here on passes it over."""
    gc.freeze()


def pytest_collection_modifyitems(config, items):
    """--timeout wins over the marks of single tests when it is longer. (The usual deadline is in
    pyproject.toml: it ends what hangs and measures nothing.)"""
    asked = config.getoption("timeout", None) or 0
    for item in items if asked else ():
        mark = item.get_closest_marker("timeout")
        if mark and mark.args and mark.args[0] < asked:
            item.add_marker(pytest.mark.timeout(asked), append=False)
