"""Many cases in one test, where a test each would take longer to begin than to run."""

import contextlib


@contextlib.contextmanager
def case(*what):
    """A failure inside says which case it was."""
    try:
        yield
    except BaseException as e:
        e.add_note(f"case: {', '.join(map(str, what))}")
        raise
