"""Saves the batch on which a user's function failed, so that `skate replay ID` can run the function
on it again under pdb, in a process of its own.

A file has the operator with its function (as sent to the workers), and the one batch or row that
the function was called with; nothing else of the run. The worker writes the file before it reports
the error, into a folder that only this user may read (below the temporary folder, mode 0700; a
folder of another owner is refused). There are at most 16 files, each of at most
DataContext.replay_bytes (0: nothing is saved). The files are pickles, which run code when loaded,
so replaying refuses the files of other users.
"""

from __future__ import annotations

import os
import pickle
import stat
import sys
from typing import Any

from skate._deps import by_value, pa, tempfile
from skate.data.values import marks

MOST = 16


def folder() -> str:
    """The folder of this user's files; makes it if it is missing. PermissionError if another user
    owns the folder or may read it."""
    path = os.path.join(tempfile.gettempdir(), f"skate-replay-{os.getuid()}")
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    s = os.lstat(path)
    if not stat.S_ISDIR(s.st_mode) or s.st_uid != os.getuid() or s.st_mode & 0o077:
        raise PermissionError(
            f"{path} must be a folder of this user (uid {os.getuid()}) with mode 0700; remove it"
        )
    return path


def keep(params: dict[str, Any], rb: Any, where: str, most: int) -> str | None:
    """Writes the operator that failed and its batch into a file. where: the place of the failure,
    in words. Returns the file's id; None if the file would be larger than `most` bytes."""
    if rb is None or rb.nbytes > most:
        return None
    sink = pa.BufferOutputStream()
    bare = marks.bare(rb)
    with pa.ipc.new_stream(sink, bare.schema) as w:
        w.write_batch(bare)
    made = {k: v for k, v in params.items() if k not in ("whole", "at")}
    if "ctor" in made:
        made["fn"] = type(made["fn"])  # the class is saved; replay makes a new instance
    data = by_value.dumps(
        {
            "params": made,
            "where": where,
            "batch": sink.getvalue().to_pybytes(),
            "schema": rb.schema,
            "path": sys.path,
            "cwd": os.getcwd(),
        },
        5,
    )
    if len(data) > most + (1 << 20):
        return None
    at = folder()
    name = os.urandom(4).hex()
    fd = os.open(os.path.join(at, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(fd, "wb") as f:
        f.write(data)
    _forget_old(at)
    return name


def drop(name: str) -> None:
    """Removes the file that keep() wrote."""
    try:
        os.unlink(os.path.join(folder(), name))
    except FileNotFoundError:
        pass


def _forget_old(at: str) -> None:
    files = []
    for e in os.scandir(at):
        try:
            files.append((e.stat().st_mtime_ns, e.path))
        except FileNotFoundError:  # another worker has removed the file
            pass
    for _, path in sorted(files)[:-MOST]:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass


def load(name: str) -> dict[str, Any]:
    """Reads a file that keep() wrote. LookupError if it does not exist, PermissionError if it does
    not belong to this user alone."""
    path = os.path.join(folder(), os.path.basename(name))
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        raise LookupError(
            f"there is no {path}: the newest {MOST} are kept; run the program again"
        ) from None
    with open(fd, "rb") as f:
        s = os.fstat(fd)
        if s.st_uid != os.getuid() or s.st_mode & 0o022:
            raise PermissionError(f"{path} can be written by others than this user")
        head = f.read()
    data = pickle.loads(head)
    for p in data["path"]:
        if p not in sys.path:
            sys.path.append(p)
    return data
