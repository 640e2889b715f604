import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "fault"))


def pytest_collection_modifyitems(config, items):
    """A deadline ends what hangs and measures nothing: long enough for a machine that many share."""
    seconds = max(300, config.getoption("timeout", None) or 0)
    for item in items:
        if not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(seconds))
