"""Iterators of a streaming_split for processes that skate did not start: those of torchrun, mpirun
or a shell.

The driver serves (serve_ranks) on a UNIX socket in its own folder (0700), and only to processes of
the same user (SO_PEERCRED). A trainer attaches to a rank (attach) and gets a message for each block
with the block's place. It gets the file of the store once, read-only (SCM_RIGHTS), and maps it
copy-on-write, so nothing is copied and no other process sees what a trainer writes. A block stays
in its place until the trainer reports that its arrays are released, or ends. The driver of several
nodes has no store: there each block that is not small has a file in memory of its own. Messages are
JSON; nothing is unpickled. Each message of a trainer is first checked against a table (SAYS): a
trainer that sends anything else gets an error and is disconnected; the other trainers are not
affected.

A *seat* in the driver represents each rank and records which rows the rank has consumed: the rows
of batches after which the trainer asked for another batch. If a trainer is killed in an epoch,
another process can attach to the rank and continue with the batch that was in progress; the other
ranks wait during that time. The seat therefore begins an epoch at the service actor on behalf of
its trainer.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import select
import shutil
import socket
import struct
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import skate
from skate import _job, _skate
from skate.data.run import feed
from skate.data.trainers.streaming_split import SplitIterator
from skate.data.values.private import Mapped
from skate.data.values.unify import Widening

MOST = 1 << 17  # maximum bytes of a message
# seconds that the successor of an ended trainer waits for the answers to requests that are open
LEAVE_S = 60.0


def _is_count(v: Any) -> bool:
    return type(v) is int and 0 <= v < 1 << 62


# kinds of values in messages: (description, test)
_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "count": ("a whole number from 0 on", _is_count),
    "counts": (
        "a list of whole numbers from 0 on",
        lambda v: type(v) is list and all(map(_is_count, v)),
    ),
    "place": (
        "null, or the number of an epoch and a row",
        lambda v: v is None or type(v) is list and len(v) == 2 and all(map(_is_count, v)),
    ),
}
# messages of a trainer: the field that identifies a message -> its other fields and their kinds; a
# field whose kind has a question mark is optional
SAYS = {
    "rank": {"rank": "count"},  # only as the first message
    "begin": {"named?": "place", "free?": "counts"},
    "next": {"free?": "counts"},
    "leave": {"free?": "counts"},
    "had": {"had": "count", "free?": "counts"},
}


class Refused(ValueError):
    """A trainer has sent an invalid message."""


def understood(message: bytes, first: bool = False) -> dict[str, Any]:
    """Parses a message of a trainer and checks it against the table; raises Refused. first: the
    message must be the first one, which names the rank."""
    try:
        said = json.loads(str(message.removesuffix(b"\n"), "utf-8"))
    except (ValueError, RecursionError) as e:
        raise Refused(f"it is no JSON: {e}") from None
    if type(said) is not dict:
        raise Refused(f"it is {type(said).__name__}, not an object")
    what = "rank" if first else said.pop("do", None) if "do" in said else "had"
    fields = SAYS.get(what) if type(what) is str and (what == "rank") is first else None
    if fields is None:
        raise Refused(f"'do' is {what!r:.80}, not begin, next or leave")
    for name, kind in fields.items():
        optional, name = name.endswith("?"), name.removesuffix("?")
        if name not in said:
            if optional:
                continue
            raise Refused(f"{what}: there is no {name!r}")
        words, fits = _KINDS[kind]
        if not fits(said[name]):
            raise Refused(f"{what}: {name!r} is {said[name]!r:.80}, not {words}")
    if unknown := said.keys() - {name.removesuffix("?") for name in fields}:
        raise Refused(f"{what}: there is no field {min(unknown)!r:.80}")
    return {"do": what, **said}


class Ranks:
    """The result of serve_ranks(): a context manager that serves trainers until close().

    Args:
        its: The iterators of one streaming_split.
    """

    def __init__(self, its: list[Any]):
        self._folder = tempfile.mkdtemp(prefix="skate-ranks-")  # 0700
        self.address = os.path.join(self._folder, "s")
        self._seats = [_Seat(it) for it in its]
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(self.address)
        self._listener.listen(len(its))
        self._lock, self._open = threading.Lock(), set[socket.socket]()
        threading.Thread(target=self._serve, name="skate-ranks", daemon=True).start()

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def environ(self) -> dict[str, str]:
        """The environment for trainers: that of this process, and the address for attach()."""
        return {**os.environ, "SKATE_RANKS": self.address}

    def close(self) -> None:
        """Stops serving; attached trainers get a ConnectionError."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for s in self._open:
                with contextlib.suppress(OSError):
                    s.shutdown(socket.SHUT_RDWR)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _serve(self) -> None:
        while True:
            try:
                s, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self._open.add(s)
            threading.Thread(target=self._talk, args=(s,), name="skate-rank", daemon=True).start()

    def _talk(self, s: socket.socket) -> None:
        seat = None
        try:
            pid, uid = _peer(s)
            if uid not in (0, os.getuid()):
                return
            hello = s.recv(MOST)
            if not hello:
                return
            rank = understood(hello, first=True)["rank"]
            if rank >= len(self._seats):
                return _say(
                    s, {"error": f"there is no rank {rank!r}: {len(self._seats)} are served"}
                )
            if not self._seats[rank].take(pid):
                return _say(
                    s, {"error": f"rank {rank} is taken by process {self._seats[rank].pid}"}
                )
            seat = self._seats[rank]
            it = seat.it
            _say(
                s,
                {
                    "n": it._deal.n,
                    "equal": it._deal.equal,
                    "batch": it._deal.batch,
                    "total": it._total,
                    "sure": it._sure,
                    "secret": _job.secret().hex(),
                },
            )
            seat.serve(s)
        except OSError:
            pass  # the trainer has ended
        except Refused as e:
            with contextlib.suppress(OSError):
                _say(
                    s,
                    {
                        "error": f"the driver does not understand this message, and has let go of the rank: {e}"
                    },
                )
        except Exception as e:
            with contextlib.suppress(OSError):
                _say(s, {"error": f"{type(e).__name__}: {e}"})
        finally:
            if seat is not None:
                seat.left()
            with self._lock:
                self._open.discard(s)
            s.close()


class _Seat:
    """One rank: holds the blocks that its trainer has received and may need again. it: the rank's
    iterator."""

    def __init__(self, it: SplitIterator):
        self.it, self.pid, self.pidfd, self.free = it, 0, -1, threading.Condition()
        # the number of the current epoch at the service actor, and the number that consumers give
        # this epoch
        self.epoch = self.number = -1
        # the row at which the epoch began, and the number of this rank's rows that were consumed
        self.first = self.had = 0
        self.rows: deque[Any] = deque()  # blocks that were not consumed, in order
        self.sent = 0  # the number of these blocks that were sent to the current trainer
        self.coming: Any = None
        self.end: Any = None  # the message that is sent after the last block
        self.open = False
        self.pins: dict[int, Any] = {}
        self.files: set[int] = set()

    def take(self, pid: int) -> bool:
        """Tries to assign the seat to this process; returns whether it succeeded. The end of a
        trainer may be noticed a little after its successor has attached."""
        with self.free:
            if self.pid and (self.pidfd < 0 or not select.select([self.pidfd], [], [], 0)[0]):
                return False
            if not self.free.wait_for(lambda: not self.pid, LEAVE_S):
                return False
            self.pid = pid
            with contextlib.suppress(OSError):
                self.pidfd = os.pidfd_open(pid)
            return True

    def left(self) -> None:
        self.pins.clear()
        self.files.clear()
        self.sent = 0
        with self.free:
            if self.pidfd >= 0:
                os.close(self.pidfd)
            self.pid, self.pidfd = 0, -1
            self.free.notify_all()

    def serve(self, s: socket.socket) -> None:
        while message := s.recv(MOST):
            said = understood(message)
            for k in said.get("free", ()):
                self.pins.pop(k, None)
            do = said["do"]
            if do == "had":
                self._done(said["had"])
            elif do == "begin":
                self._begin(said.get("named"))
                _say(s, {"epoch": self.number, "first": self.first, "given": self.had})
            elif do == "next":
                self._next(s)
            elif do == "leave" and self.open:
                self.open = False
                self.it._service.leave.remote(self.it._i, self.epoch)

    def _begin(self, named: Any) -> None:
        self.sent = 0
        if self.open and (
            named is None or list(named) == [self.number, self.first + self.it._deal.n * self.had]
        ):
            return  # the new trainer continues the epoch
        self.open = False
        self.epoch, self.number = skate.get(
            self.it._service.begin.remote(self.it._i, os.getpid(), tuple(named) if named else None)
        )
        self.first, self.had, self.end, self.open = named[1] if named else 0, 0, None, True
        self.rows.clear()
        self.coming = self.it._service.next.remote(self.it._i, self.epoch)

    def _done(self, had: int) -> None:
        if had > (
            most := self.had + sum(rows for _, _, rows, _ in itertools.islice(self.rows, self.sent))
        ):
            raise Refused(f"had: it is {had:,} rows, and this rank has got {most:,}")
        left = had - self.had
        self.had = max(had, self.had)
        while left > 0 and self.rows:
            ref, row0, rows, size = self.rows[0]
            if rows > left:
                self.rows[0] = (ref, row0 + left, rows - left, size * (rows - left) // rows)
                break
            self.rows.popleft()
            self.sent -= 1
            left -= rows
        if self.end is not None and not self.rows:
            self.open = False

    def _next(self, s: socket.socket) -> None:
        if self.coming is None:
            raise Refused("next: no epoch has begun")
        while self.sent >= len(self.rows) and self.end is None:
            got = skate.get(self.coming)
            if isinstance(got, tuple):
                self.coming = self.it._service.next.remote(self.it._i, self.epoch)
                self.rows.extend(got)
            else:
                error = skate.get(got[0])
                self.end = {"end": None if error is None else f"{type(error).__name__}: {error}"}
                if not self.rows:
                    self.open = False
        if self.sent >= len(self.rows):
            return _say(s, self.end or {})
        ref, row0, rows, _ = self.rows[self.sent]
        self.sent += 1
        data = _skate.raw(ref)
        where = _skate.file_of(data)
        out = {"row0": row0, "rows": rows}
        size = len(memoryview(data))
        if where is None and size <= MOST // 2:  # a small block, which has no place in the store
            return _say(s, out, bytes(data))
        key = max(self.pins, default=0) + 1
        if where is None:  # a block of a node, of which this process has a copy
            self.pins[key] = None
            with _file_with(data) as fd:
                return _say_with(s, out | {"id": key, "at": 0, "size": size, "file": None}, fd)
        fd, at = where
        self.pins[key] = data
        out |= {"id": key, "at": at, "size": size, "file": fd}
        if fd in self.files:
            return _say(s, out)
        self.files.add(fd)
        _say_with(s, out, fd)


def _peer(s: socket.socket) -> tuple[int, int]:
    """(pid, uid) of the process at the other end, according to the kernel."""
    pid, uid, _ = struct.unpack("3i", s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, uid


def _say(
    s: socket.socket, what: dict[str, Any], data: bytes = b"", fds: list[int] | None = None
) -> None:
    message = json.dumps(what).encode() + b"\n" + data
    if fds:
        socket.send_fds(s, [message], fds)
    else:
        s.sendall(message)


def _say_with(s: socket.socket, what: dict[str, Any], fd: int) -> None:
    """Sends a message with a descriptor of the file that can only be read."""
    readable = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _say(s, what, fds=[readable])
    finally:
        os.close(readable)


@contextlib.contextmanager
def _file_with(data: Any) -> Iterator[int]:
    """A file in memory with these bytes."""
    fd = os.memfd_create("skate-block", os.MFD_CLOEXEC)
    try:
        with open(fd, "wb", 0, closefd=False) as f:
            left = memoryview(data)
            while left:
                left = left[f.write(left) :]
        yield fd
    finally:
        os.close(fd)


def _heard(s: socket.socket) -> dict[str, Any] | None:
    """Receives a message; None: the other process has closed the connection."""
    message = s.recv(MOST)
    return json.loads(message.partition(b"\n")[0]) if message else None


def serve_ranks(its: list[Any]) -> Ranks:
    """Serves the iterators of a streaming_split to processes that skate did not start, such as
    those of torchrun; these call attach().

    Args:
        its: All iterators of one streaming_split, which must not be used elsewhere; ValueError for
            others. Rank i gets its[i].

    Example:
        >>> import skate
        >>> its = skate.data.range(100).materialize().streaming_split(2, equal=True, batch_size=10)
        >>> with skate.data.serve_ranks(its) as ranks:
        ...     environ = ranks.environ()  # for subprocess.run(["torchrun", ...], env=environ)
    """
    if not its or any(type(it) is not SplitIterator for it in its) or len(its) != its[0]._deal.n:
        raise ValueError("serve_ranks takes all iterators of one streaming_split()")
    return Ranks(list(its))


def attach(address: str | None = None, rank: int | None = None) -> RankIterator:
    """The iterator of a rank, for a process that skate did not start. If a process is killed in an
    epoch, another process can attach to its rank and continue.

    Args:
        address: The address of serve_ranks(); None: SKATE_RANKS from the environment.
        rank: Number of the rank; None: RANK from the environment.

    Raises:
        RuntimeError: The rank does not exist, or another process is attached to it.
        ConnectionError: No server listens at the address.
    """
    where = address or os.environ.get("SKATE_RANKS")
    if not where:
        raise RuntimeError(
            "attach: no address; give it Ranks.address, or start this process with the environment of Ranks.environ()"
        )
    if rank is None:
        rank = int(os.environ["RANK"])
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        s.connect(where)
        _, uid = _peer(s)
        if uid not in (0, os.getuid()):  # another user's data must not be taken for this job's
            raise ConnectionError(f"the process there is of the user {uid}, not of {os.getuid()}")
        _say(s, {"rank": rank})
        hello = _heard(s)
    except OSError as e:
        s.close()
        raise ConnectionError(f"attach: nobody serves ranks at {where}: {e}") from None
    if hello is None or "error" in hello:
        s.close()
        raise RuntimeError(f"attach: {hello['error'] if hello else 'the driver has ended'}")
    _job.join(bytes.fromhex(hello["secret"]))
    return RankIterator(
        s,
        rank,
        feed.Deal(hello["n"], hello["equal"], hello["batch"]),
        hello["total"],
        hello["sure"],
    )


class RankIterator(SplitIterator):
    """The result of attach(): an iterator of a streaming_split in a process that skate did not
    start. It cannot be pickled: other processes call attach() themselves."""

    def __init__(
        self, s: socket.socket, rank: int, deal: feed.Deal, rows: int | None, seeded: bool
    ):
        super().__init__(None, rank, deal, None, None, None, rows, seeded)
        self._s, self._files = s, dict[int | None, int]()
        self._lock, self._freed = threading.Lock(), deque[int]()

    def __reduce__(self) -> Any:
        raise TypeError(
            "an iterator that attach() gave stays in its process; let the other one attach()"
        )

    def schema(self) -> Any:
        """Always None: the schema is not known in this process; the batches show it."""
        return None

    def stats(self) -> str:
        """Says that statistics are not known in this process: the driver has them."""
        return ""

    def close(self) -> None:
        """Releases the rank, so that another process may attach to it."""
        self._s.close()
        for fd in self._files.values():
            os.close(fd)
        self._files.clear()

    def _send(self, **what: Any) -> None:
        free = []
        with contextlib.suppress(IndexError):
            while True:
                free.append(self._freed.popleft())
        try:
            _say(self._s, {**what, "free": free} if free else what)
        except OSError as e:
            raise ConnectionError(f"rank {self._i}: the driver has ended: {e}") from None

    def _ask(self, **what: Any) -> tuple[dict[str, Any], bytes]:
        with self._lock:
            self._send(**what)
            try:
                message, fds, _, _ = socket.recv_fds(self._s, MOST, 1)
            except OSError:
                message, fds = b"", []
        if not message:
            raise ConnectionError(
                f"rank {self._i}: the driver has ended, or serves ranks no longer"
            )
        head, _, data = message.partition(b"\n")
        said = json.loads(head)
        for fd in fds:
            self._files[said["file"]] = fd
        if "error" in said:
            raise RuntimeError(said["error"])
        return said, data

    def _block(self, said: dict[str, Any], data: bytes) -> Any:
        if "id" not in said:
            room = _skate.pages(len(data))
            memoryview(room)[:] = data
            rb = _skate.block(room, room)
        else:
            once = said["file"] is None
            fd = self._files.pop(None) if once else self._files[said["file"]]
            m = Mapped(fd, said["at"], said["size"])
            if once:
                os.close(fd)
            m.freed = lambda freed=self._freed, k=said["id"]: freed.append(k)
            rb = m.block()
        return rb.slice(said["row0"], said["rows"])

    def _record_batches(self, row: int = 0, live: list[Any] | None = None) -> Iterator[Any]:
        fit = Widening("streaming_split", None, sure=False)
        at, named, self._named = self._at, self._named, None
        begun, _ = self._ask(do="begin", named=named)
        if at is not None:
            at.epoch, at.first, at.given = begun["epoch"], begun["first"], begun["given"]
        at_end = False
        try:
            while True:
                said, data = self._ask(do="next")
                if "end" in said:
                    break
                yield fit(self._block(said, data))
                del data
            at_end = True
            if said["end"] is not None:
                raise RuntimeError(said["end"])
        finally:
            if not at_end:
                with contextlib.suppress(ConnectionError):
                    self._send(do="leave")

    def _iterate(self, *args: Any, **more: Any) -> Iterator[Any]:
        it = super()._iterate(*args, **more)
        try:
            for batch in it:
                yield batch
                del batch
                self._send(had=self._at.given)  # type: ignore[union-attr]
        finally:
            it.close()  # type: ignore[attr-defined]
