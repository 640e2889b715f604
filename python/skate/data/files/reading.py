"""Opening files and reading them whole, local ones and remote ones."""

from __future__ import annotations

from typing import Any

from skate.data.files import http
from skate.data.files.retry import RetriedFile, retried


def open_file(fs: Any, path: str) -> Any:
    """A seekable binary file object; reads of a remote one are tried again when the store is not well (retry.py)."""
    if fs is None:
        return open(path, "rb")
    return fs.open_input_file(path) if fs.type_name == "local" else RetriedFile(fs, path)


def read_bytes(fs: Any, path: str) -> bytes:
    if fs is None:
        with open(path, "rb") as f:
            return f.read()

    def read() -> bytes:
        with fs.open_input_stream(path, compression=None) as f:  # not open_input_file(): a stream of HTTP cannot seek
            return f.read()

    return retried(lambda: http.asked(fs, path, read), f"read {path}")
