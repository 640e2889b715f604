"""on_error: what becomes of bad records, and what counts as one.

A bad record is an Exception of the user's code, or data that a reader cannot understand. Never: an
I/O error (with an errno, or of a remote store), MemoryError, a cancelled task, the constructor of a
class, objects that are not unpickled: these end the run whatever on_error says. What a task does
with bad records: worker/dead_letters.py; what a run has received
of them: run/dead_letters.py.
"""

from __future__ import annotations

from typing import Any

from skate.exceptions import TaskCancelledError


class UntrustedPickleError(ValueError):
    """Bytes from outside of this job that would have to be unpickled, which runs code:
    DataContext.trust_pickled_columns is off (docs/design/security.md)."""


POLICIES = ("raise", "skip", "quarantine")


def check_policy(v: Any) -> Any:
    """v, or ValueError."""
    if v is not None and v not in POLICIES:
        raise ValueError(f"on_error must be 'raise', 'skip' or 'quarantine', not {v!r}")
    return v


def error_limit(v: Any) -> tuple[int, float | None]:
    """max_errors as (rows, -1 for any number; share or None). ValueError for what is neither."""
    if v is None:
        return -1, None
    if isinstance(v, bool) or not isinstance(v, (int, float)) or v < 0:
        raise ValueError(
            f"max_errors must be a number of rows, a share between 0.0 and 1.0, or None, not {v!r}"
        )
    if isinstance(v, int):
        return v, None
    if v > 1:
        raise ValueError(
            f"max_errors is a share when it is a float, so between 0.0 and 1.0, not {v!r}; give an int for a number of rows"
        )
    return -1, v


def is_io(e: BaseException) -> bool:
    """An error of a disk, a network or a store: the data may be good."""
    if not isinstance(e, OSError):
        return False
    return e.errno is not None or any(
        t in str(e) for t in ("AWS Error", "curl", "HTTP", "google::cloud", "timed out")
    )


def is_fatal(e: BaseException, reading: bool = False) -> bool:
    """Not a bad record."""
    return (
        not isinstance(e, Exception)
        or isinstance(e, (MemoryError, TaskCancelledError, UntrustedPickleError))
        or (reading and is_io(e))
    )
