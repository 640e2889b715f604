"""Resolves a user's path or URI to a local path, or to a file system of pyarrow or fsspec. Nothing
is opened here."""

from __future__ import annotations

import os
from typing import Any

from skate._deps import fsspec, pafs
from skate.data.files import http
from skate.data.files.local import local_path
from skate.data.files.retry import begin, retried


def resolve(path: str, filesystem: Any = None) -> tuple[Any, str]:
    """(file system, path in it) of a path or URI; the file system is None for local files.
    ValueError or OSError if it names none."""
    at = local_path(path)
    if filesystem is None and at is not None:
        return None, at
    if filesystem is None:
        if path.startswith(("http://", "https://")):
            return pafs.PyFileSystem(pafs.FSSpecHandler(fsspec.filesystem("http"))), path
        return pafs.FileSystem.from_uri(path)
    fs = as_filesystem(filesystem)
    if http.below(fs) is not None or "://" not in path:
        return fs, path
    rest = path.split("://", 1)[-1]
    host, slash, tail = rest.partition("/")
    # the user in front of the bucket (s3://anonymous@bucket) is for the file system only
    return fs, host.rpartition("@")[2] + slash + tail


def is_folder(path: Any, filesystem: Any = None) -> bool:
    """Whether this is a single path of an existing folder."""
    if not isinstance(path, (str, os.PathLike)):
        return False
    fs, p = resolve(os.fspath(path), filesystem)
    if fs is None:
        return os.path.isdir(p)
    begin()
    return retried(lambda: fs.get_file_info(p), f"look at {p}").type == pafs.FileType.Directory


def as_filesystem(filesystem: Any) -> Any:
    """A pyarrow file system, made of a pyarrow or fsspec one."""
    return (
        filesystem
        if isinstance(filesystem, pafs.FileSystem)
        else pafs.PyFileSystem(pafs.FSSpecHandler(filesystem))
    )
