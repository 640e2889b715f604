"""The batch that made a user's function fail is kept, so that `skate replay ID` can run it again
under pdb, in a process of its own.

What is kept: the operator with its function (as sent to the workers), and the one batch or row that
it had. Nothing of the run or of other data. Written by the worker when the error is on its way,
into a folder of this user alone (below the temporary folder, mode 0700; another owner is refused),
16 files at most, each DataContext.replay_bytes at most (0: nothing is kept). The files hold
pickles: like a script of one's own, they are to be run by who owns them, so replaying refuses
others.
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
    """The folder of this user's files, made when it is missing. PermissionError when it is not this
    user's alone."""
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
    """Keeps a batch with the operator that failed on it; its id, None when it is larger than `most`
    bytes."""
    if rb is None or rb.nbytes > most:
        return None
    sink = pa.BufferOutputStream()
    bare = marks.bare(rb)
    with pa.ipc.new_stream(sink, bare.schema) as w:
        w.write_batch(bare)
    made = {k: v for k, v in params.items() if k not in ("whole", "at")}
    if "ctor" in made:
        made["fn"] = type(made["fn"])  # the instance is made anew
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
    """Takes back what keep() wrote."""
    try:
        os.unlink(os.path.join(folder(), name))
    except FileNotFoundError:
        pass


def _forget_old(at: str) -> None:
    files = []
    for e in os.scandir(at):
        try:
            files.append((e.stat().st_mtime_ns, e.path))
        except FileNotFoundError:  # by another worker
            pass
    for _, path in sorted(files)[:-MOST]:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass


def load(name: str) -> dict[str, Any]:
    """What keep() wrote. LookupError when there is no such file, PermissionError when it is not
    this user's alone."""
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
