"""on_error: what to do with bad records, and which errors make a record bad.

A bad record is one for which the user's code raises an Exception, or data that a reader cannot
parse. Other errors end the run whatever on_error is: I/O errors (with an errno, or from a remote
store), MemoryError, a cancelled task, an error in the constructor of a class, and objects that must
not be unpickled. worker/dead_letters.py handles the bad records of a task; run/dead_letters.py
collects those of a run.
"""

from __future__ import annotations

from typing import Any

from skate.exceptions import TaskCancelledError


class UntrustedPickleError(ValueError):
    """Bytes from outside this job would have to be unpickled, which runs code, but
    DataContext.trust_pickled_columns is off (docs/design/security.md)."""


POLICIES = ("raise", "skip", "quarantine")


def check_policy(v: Any) -> Any:
    """Returns v if it is a valid value of on_error; else raises ValueError."""
    if v is not None and v not in POLICIES:
        raise ValueError(f"on_error must be 'raise', 'skip' or 'quarantine', not {v!r}")
    return v


def error_limit(v: Any) -> tuple[int, float | None]:
    """max_errors as (number of rows, or -1 for any number; share, or None). ValueError for other
    values."""
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
    """Whether this is an error of a disk, a network or a store, so that the data itself may be
    good."""
    if not isinstance(e, OSError):
        return False
    return e.errno is not None or any(
        t in str(e) for t in ("AWS Error", "curl", "HTTP", "google::cloud", "timed out")
    )


def is_fatal(e: BaseException, reading: bool = False) -> bool:
    """Whether this error ends the run instead of making a bad record."""
    return (
        not isinstance(e, Exception)
        or isinstance(e, (MemoryError, TaskCancelledError, UntrustedPickleError))
        or (reading and is_io(e))
    )
