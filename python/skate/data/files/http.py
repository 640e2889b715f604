"""Errors of HTTP requests with the answer of the server or the network about the URL. fsspec's HTTP
file system, and pyarrow on top of it, report each URL that they cannot read as missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def below(fs: Any) -> Any:
    """The HTTP file system of fsspec that a pyarrow file system wraps; None: it wraps another one,
    or none."""
    inner = getattr(getattr(fs, "handler", None), "fs", None)
    return (
        inner
        if inner is not None
        and "http"
        in (inner.protocol if isinstance(inner.protocol, (tuple, list)) else (inner.protocol,))
        else None
    )


def not_found(fs: Any, path: str) -> OSError:
    """The error about a path that a file system reports as missing."""
    inner = below(fs)
    try:
        if inner is not None:
            inner.info(path)
            inner.cat_file(path, 0, 1)  # a server may answer HEAD and still refuse the file
    except Exception as e:
        return said(e.__cause__ or e, path)
    return FileNotFoundError(2, "no such file or folder", path)


def said(e: BaseException, path: str) -> OSError:
    """The error of a request as an OSError: its status and reason, or what was wrong with the
    connection."""
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
        # fsspec raises FileNotFoundError for status 404 only
        FileNotFoundError(2, "HTTP status 404 Not Found", path)
        if isinstance(e, FileNotFoundError)
        else ConnectionError(f"{type(e).__name__}: {e}: {path!r}")
    )


def asked(fs: Any, path: str, work: Callable[[], Any]) -> Any:
    """Runs work(), which reads a path; errors contain the server's answer."""
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
