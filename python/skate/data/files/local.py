"""Tells which paths and URIs are files of this machine."""

from __future__ import annotations

import os

from skate._deps import urllib_parse


def local_path(path: str) -> str | None:
    """The local path that a path or URI names; None if it is elsewhere. URIs are file:///a%20b,
    file:/a, file://localhost/a, and local:///a, whose path is not percent-decoded."""
    if path.startswith("local://"):
        path = path[len("local://") :]
    elif path.startswith("file:/"):
        path = urllib_parse.unquote(path[len("file:") :])
        path = path[2:] if path.startswith("//") else path
        path = path[len("localhost") :] if path.startswith("localhost/") else path
    elif "://" in path:
        return None
    return os.path.expanduser(path)
