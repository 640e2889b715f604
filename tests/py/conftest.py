import os
import signal
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "fault"))
signal.signal(signal.SIGQUIT, signal.SIG_DFL)  # programs inherit it, and a shell that starts us in the background has it ignored


def pytest_collection_modifyitems(config, items):
    """--timeout wins over the marks of single tests when it is longer. (The usual deadline is in pyproject.toml: it ends what hangs and measures nothing.)"""
    asked = config.getoption("timeout", None) or 0
    for item in items if asked else ():
        mark = item.get_closest_marker("timeout")
        if mark and mark.args and mark.args[0] < asked:
            item.add_marker(pytest.mark.timeout(asked), append=False)
