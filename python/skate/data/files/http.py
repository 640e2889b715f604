"""What a server or the network said of a URL. fsspec's HTTP file system, and pyarrow above it, say
of each URL that they cannot have that it is not there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def below(fs: Any) -> Any:
    """The HTTP file system of fsspec that is below a pyarrow one; None: another one is."""
    inner = getattr(getattr(fs, "handler", None), "fs", None)
    return (
        inner
        if inner is not None
        and "http"
        in (inner.protocol if isinstance(inner.protocol, (tuple, list)) else (inner.protocol,))
        else None
    )


def not_found(fs: Any, path: str) -> OSError:
    """The error about a path where a file system says that nothing is."""
    inner = below(fs)
    try:
        if inner is not None:
            inner.info(path)
            inner.cat_file(path, 0, 1)  # a server may answer HEAD, and not give the file
    except Exception as e:
        return said(e.__cause__ or e, path)
    return FileNotFoundError(2, "no such file or folder", path)


def said(e: BaseException, path: str) -> OSError:
    """The error of a request, in the classes of files: its status and reason, or what was wrong
    with the connection."""
    status = getattr(e, "status", None)
    if isinstance(status, int):
        text = f"HTTP status {status} {getattr(e, 'message', None) or getattr(e, 'reason', '')}".rstrip()
        if status in (404, 410):
            return FileNotFoundError(2, text, path)
        return (
            PermissionError(13, text, path)
            if status in (401, 403)
            else OSError(f"{text}: {path!r}")
        )
    return (
        # the one status that fsspec makes this of
        FileNotFoundError(2, "HTTP status 404 Not Found", path)
        if isinstance(e, FileNotFoundError)
        else ConnectionError(f"{type(e).__name__}: {e}: {path!r}")
    )


def asked(fs: Any, path: str, work: Callable[[], Any]) -> Any:
    """work(), which reads a path; its errors say what the server said."""
    try:
        return work()
    except FileNotFoundError:
        if below(fs) is None:
            raise
        raise not_found(fs, path) from None
    except Exception as e:
        if below(fs) is None or not isinstance(getattr(e, "status", None), int):
            raise
        raise said(e, path) from None
