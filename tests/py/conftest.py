import gc
import os
import signal
import subprocess
import sys
import tempfile

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "fault"))
# A shell that starts pytest in the background has set both signals to be ignored, and child
# programs inherit this: tests of Ctrl-C would hang.
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# pytest captures the stderr of a process, which is lost if the process aborts. So the engine's
# failed assertions also go to a file, which is shown at the end.
assert_log = os.environ.setdefault(
    "SKATE_ASSERT_LOG", os.path.join(tempfile.gettempdir(), f"skate-assert-{os.getpid()}.log")
)


def pytest_terminal_summary(terminalreporter):
    if not hasattr(terminalreporter.config, "workerinput") and os.path.exists(assert_log):
        with open(assert_log) as f:
            terminalreporter.section("failed assertions of the engine")
            terminalreporter.write(f.read())
        os.unlink(assert_log)


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item, settings):
    """Before a test that hangs is failed, it prints what the engine and its workers are doing."""
    made = yield
    fail = signal.getsignal(signal.SIGALRM)

    def tell(signum, frame):
        command = [sys.executable, "-m", "skate", "stack", str(os.getpid())]
        got = subprocess.run(command, capture_output=True, text=True, timeout=60)
        print(got.stdout, got.stderr)
        fail(signum, frame)

    if callable(fail):
        signal.signal(signal.SIGALRM, tell)
    return made


def pytest_collection_finish():
    """Objects that are loaded by now stay: later garbage collections skip them."""
    gc.freeze()


def pytest_collection_modifyitems(config, items):
    """--timeout takes precedence over the marks of single tests if it is longer. (pyproject.toml
    has the default deadline, which ends tests that hang and measures nothing.)"""
    asked = config.getoption("timeout", None) or 0
    for item in items if asked else ():
        mark = item.get_closest_marker("timeout")
        if mark and mark.args and mark.args[0] < asked:
            item.add_marker(pytest.mark.timeout(asked), append=False)
