"""Runs many cases in one test, because starting a test for each would take longer than the
cases."""

import contextlib


@contextlib.contextmanager
def case(*what):
    """A context manager: a failure inside it says which case it was."""
    try:
        yield
    except BaseException as e:
        e.add_note(f"case: {', '.join(map(str, what))}")
        raise
