"""Retries of input and output after transient failures of a store: which errors, when, and for how
long.

The class and the text of an error decide whether it is transient (`passing`): throttling, a fault
of the service, a broken or stalled connection; never a missing file, a refused key or a damaged
file. Waits double from 50 ms to 5 s, and each is drawn at random between 0 and that time ("full
jitter"), so that a thousand readers that were refused together do not return together. A task,
which may be a listing of a folder, waits at most BUDGET_S in total; then the last error is raised,
with the number of attempts in it.

`counts` holds how often this process retried and how long it waited; stats() shows the sums of a
run (stage.py reports the difference that each task makes).
"""

from __future__ import annotations

import errno
import io
import os
import threading
from collections.abc import Callable
from typing import Any

from skate import _forked
from skate._deps import random, tempfile
from skate.data import context
from skate.data.files import http

ATTEMPTS = 10
FIRST_S, LONGEST_S, BUDGET_S = 0.05, 5.0, 120.0
_NUMBERS = {
    errno.ECONNRESET,
    errno.ECONNABORTED,
    errno.ECONNREFUSED,
    errno.EPIPE,
    errno.ETIMEDOUT,
    errno.EHOSTUNREACH,
    errno.ENETUNREACH,
    errno.ENETRESET,
}
_TEXTS = {
    "throttled": (
        "SLOW_DOWN",
        "SlowDown",
        "THROTTLING",
        "Throttling",
        "TooManyRequests",
        "HTTP status 429",
        "reduce your request rate",
    ),
    "service": (
        "INTERNAL_FAILURE",
        "InternalError",
        "SERVICE_UNAVAILABLE",
        "ServiceUnavailable",
        "HTTP status 50",
        "BadGateway",
        "RequestTimeout",
        "REQUEST_TIMEOUT",
    ),
    "connection": (
        "NETWORK_CONNECTION",
        "curlCode",
        "Connection reset",
        "Connection aborted",
        "Server disconnected",
        "timed out",
        "Timeout was reached",
    ),
}


class _Counts:
    """Counts of this process: retries, and nanoseconds waited before them."""

    def __init__(self) -> None:
        self.tries, self.wait_ns = 0, 0
        self.left_s = BUDGET_S
        self.lock = _forked.lock()  # threads read footers and listings


counts = _Counts()


def begin() -> None:
    """Begins a task or a listing, which gets a whole budget of waiting time."""
    counts.left_s = BUDGET_S


def passing(e: BaseException, texts: Any = None) -> str | None:
    """The kind of trouble if an error may be transient ("throttled", "service", "connection",
    "listed");
    None: it is permanent.

    Args:
        e: The error.
        texts: Texts of other transient errors; None: DataContext.retried_io_errors.
    """
    if texts is None:
        texts = context.DataContext.get_current().retried_io_errors
    said = str(e)
    if isinstance(e, (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)):
        return None
    if (
        isinstance(e, (ConnectionError, TimeoutError))
        or isinstance(e, OSError)
        and e.errno in _NUMBERS
    ):
        return "connection"
    if isinstance(e, (OSError, RuntimeError)) or type(e).__module__.split(".")[0] in (
        "aiohttp",
        "botocore",
        "requests",
        "urllib3",
        "fsspec",
    ):
        for kind, known in _TEXTS.items():
            if any(t in said for t in known):
                return kind
    return "listed" if any(t in said for t in texts or ()) else None


def retried(work: Callable[[], Any], what: str, texts: Any = None) -> Any:
    """Runs work(), with retries as the head of the file says. The last error gets a note with the
    number and kind of the attempts."""
    # an event that is never set, for waits with a timeout: a remote service does not say when it
    # works again
    pause = threading.Event()
    tried = 0
    while True:
        tried += 1
        try:
            return work()
        except Exception as e:
            kind = passing(e, texts)
            wait = random.uniform(0, min(LONGEST_S, FIRST_S * 2 ** (tried - 1)))
            with counts.lock:
                enough = kind is None or tried >= ATTEMPTS or counts.left_s < wait
                if not enough:
                    counts.left_s -= wait
                    counts.tries += 1
                    counts.wait_ns += int(wait * 1e9)
            if enough:
                if tried > 1:
                    e.add_note(f"{what}: tried {tried} times" + (f" ({kind})" if kind else ""))
                raise
        pause.wait(wait)


def taken(path: str) -> FileExistsError:
    """The error for a file name given by the user that another write has used already."""
    return FileExistsError(
        errno.EEXIST,
        "write: a file of that name is there already, of another write, and this one does not replace it. Let filename_provider put the write_uuid that it is given into its names, "
        "or write into another folder",
        path,
    )


class RetriedFile(io.RawIOBase):
    """A remote file for reading, with retries of each read; after a broken connection the file is
    opened again.

    Args:
        fs: A pyarrow file system.
        path: Path in the file system.
    """

    def __init__(self, fs: Any, path: str):
        self._fs, self._path, self._at = fs, path, 0
        self._f = retried(
            lambda: http.asked(fs, path, lambda: fs.open_input_file(path)), f"open {path}"
        )
        self._size = retried(lambda: self._f.size(), f"size of {path}")

    def _read(self, n: int) -> bytes:
        try:
            return http.asked(self._fs, self._path, lambda: self._f.read_at(n, self._at))
        except Exception as e:
            if passing(e):
                # a file object whose connection broke may stay broken
                self._f = self._fs.open_input_file(self._path)
            raise

    def read(self, n: int = -1) -> bytes:
        left = max(0, self._size - self._at)
        n = left if n is None or n < 0 else min(n, left)
        data = retried(lambda: self._read(n), f"read {self._path}") if n else b""
        self._at += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (
            0 if whence == io.SEEK_SET else self._at if whence == io.SEEK_CUR else self._size
        )
        return self._at

    def tell(self) -> int:
        return self._at

    def size(self) -> int:
        """Size of the file in bytes."""
        return self._size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed:
            self._f.close()
        super().close()


class RetriedOutput(io.RawIOBase):
    """A remote file for writing. It is sent when it is closed, and sent again as a whole after a
    transient failure. Until then it is in an unnamed temporary file, or in memory if it is small.

    Args:
        fs: A pyarrow file system.
        path: Path in the file system.
        stream: Arguments of open_output_stream (compression).
        replace: Whether an existing file is replaced; else it is a FileExistsError.
    """

    KEPT_BYTES = 16 << 20

    def __init__(self, fs: Any, path: str, stream: dict[str, Any], replace: bool = True):
        self._fs, self._path, self._stream, self._wanted, self._replace = (
            fs,
            path,
            stream,
            True,
            replace,
        )
        self._held = tempfile.SpooledTemporaryFile(self.KEPT_BYTES)  # noqa: SIM115

    def write(self, data: Any) -> int:
        return self._held.write(data)

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._held.tell()

    def abort(self) -> None:
        """Discards the content: nothing is sent."""
        self._wanted = False
        self.close()

    def _send(self) -> None:
        self._held.seek(0)
        new = None
        if not self._replace:
            new = self._new()
            self._replace = True  # a file that a failed attempt has left behind may be replaced
        with new or self._fs.open_output_stream(self._path, **self._stream) as out:
            while part := self._held.read(4 << 20):
                out.write(part)

    def _new(self) -> Any:
        """Opens a file under a name that must not exist yet. None: the name was free a moment ago,
        in file systems that have no exclusive creation. FileExistsError: the name is taken."""
        inner = getattr(getattr(self._fs, "handler", None), "fs", None)
        # an fsspec file system may support mode "x" (S3: a conditional PUT)
        if inner is not None and not self._stream:
            try:
                return inner.open(self._path, "xb")
            except FileExistsError:
                raise taken(self._path) from None
            except (ValueError, NotImplementedError):
                pass
        if self._fs.type_name == "local":
            try:
                os.close(
                    os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
                )
            except FileExistsError:
                raise taken(self._path) from None
        elif self._fs.get_file_info(self._path).type.name != "NotFound":
            raise taken(self._path)
        return None

    def close(self) -> None:
        if self.closed:
            return
        try:
            if self._wanted:
                retried(self._send, f"write {self._path}")
        finally:
            self._held.close()
            super().close()
