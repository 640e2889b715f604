"""Opens local and remote files, and reads them whole."""

from __future__ import annotations

import errno
import os
import stat
from typing import Any

from skate.data.files import http
from skate.data.files.retry import RetriedFile, begin, retried

# Tells whether a file is unchanged since it was examined: its size in bytes; for a local file also
# its modification time and inode.
Stamp = tuple[int, ...]
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def not_regular(path: str, mode: int | None) -> OSError:
    """The error for a path that is no regular file: reading it might never end. mode: st_mode, if
    known."""
    kind = _KINDS.get(stat.S_IFMT(mode), "something else") if mode is not None else "something else"
    return OSError(
        errno.EINVAL,
        f"this is {kind}, not a file; copy its content into a file, or leave it out of the paths",
        path,
    )


def check_regular(path: str) -> None:
    """Raises OSError for a local path that is neither a file nor a folder."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise not_regular(path, mode)


def _opener(path: str, flags: int) -> int:
    fd = os.open(path, flags | os.O_NONBLOCK)  # opening a FIFO would wait for its writer
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return fd
    os.close(fd)
    raise not_regular(path, mode)


def stamp(fs: Any, f: Any) -> Stamp:
    """The Stamp of a file that open_file() returned."""
    if fs is not None:
        return (f.size(),)
    s = os.fstat(f.fileno())
    return s.st_size, s.st_mtime_ns, s.st_ino


def check_stamp(stamps: dict[str, Stamp], path: str, now: Stamp) -> None:
    """Raises OSError if a file has changed since it was examined."""
    known = stamps.get(path)
    if known is None or known == now:
        return
    said = (
        f"it had {known[0]:,} bytes, and has {now[0]:,} now"
        if known[0] != now[0]
        else "its time of change is another, or it is another file"
    )
    raise OSError(
        errno.ESTALE,
        f"the file was changed or replaced after its footer was read ({said}); make the Dataset anew, so that it knows the rows of the new one",
        path,
    )


def check_stamps(params: dict[str, Any]) -> None:
    """Like the function above, for all files of a reader that keeps stamps: if one changed, what
    was known of the files no longer holds."""
    stamps, fs = params.get("stamps") or {}, params.get("fs")
    if fs is None:
        for path in stamps:
            s = os.stat(path)
            check_stamp(stamps, path, (s.st_size, s.st_mtime_ns, s.st_ino))
    elif stamps:
        begin()
        paths = list(stamps)
        for path, info in zip(
            paths,
            retried(lambda: fs.get_file_info(paths), "look at files that were read"),
            strict=True,
        ):
            if info.size is None:
                raise FileNotFoundError(errno.ENOENT, "the file is not there any more", path)
            check_stamp(stamps, path, (info.size,))


def open_file(fs: Any, path: str) -> Any:
    """A seekable binary file object, OSError for a FIFO and the like; reads of a remote file are
    retried if the store has a transient failure (retry.py)."""
    if fs is None:
        return open(path, "rb", opener=_opener)
    return fs.open_input_file(path) if fs.type_name == "local" else RetriedFile(fs, path)


def read_bytes(fs: Any, path: str) -> bytes:
    if fs is None:
        with open(path, "rb", opener=_opener) as f:
            return f.read()

    def read() -> bytes:
        # not open_input_file(): an HTTP stream cannot seek
        with fs.open_input_stream(path, compression=None) as f:
            return f.read()

    return retried(lambda: http.asked(fs, path, read), f"read {path}")
