"""The server of the page: http.server at 127.0.0.1 or at a UNIX socket, a thread for each connection.

A connection has one request and is closed. Its head must be there in time and have at most
guard.HEAD_BYTES; guard.py says which requests are answered. A browser that does not read is cut off.
The number of threads is limited (Limits). No path of a request becomes a path of a file.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import hashlib
import hmac
import io
import json
import logging
import os
import re
import secrets
import socket
import socketserver
import struct
import threading
import time
import weakref
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from skate import _forked
from skate.page import guard
from skate.page.feed import Changes, Feed, pause
from skate.page.source import Engine, Source

BEAT_S = 15.0  # a stream without news sends an empty line so often, to find out if it is read
HTML = Path(__file__).with_name("page.html")
_BUSY = "The page is asked for another stack or trace, and that takes long. Ask again later."


def leads_to(url: str) -> str:
    """HTML that leads a browser to another address."""
    return f'<!doctype html><title>skate</title><meta http-equiv="refresh" content="0; url={url}">'


class Limits(NamedTuple):
    """What the server bears of its clients, all of which are programs of this machine."""

    connections: int = 32
    streams: int = 8  # of the connections: those that wait for events
    head_s: float = 5.0  # seconds for a request to arrive
    send_s: float = 10.0  # seconds for an answer, or an event, to be taken
    turn_s: float = 10.0  # seconds that a request for a stack or a trace waits for those before it


def _policy(html: str) -> str:
    """The Content-Security-Policy of the page: its own script and its own style, by their hashes,
    and requests to this server."""

    def sources(tag: str) -> str:
        parts = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.S)
        hashes = (base64.b64encode(hashlib.sha256(p.encode()).digest()).decode() for p in parts)
        return " ".join(f"'sha256-{h}'" for h in hashes)

    return (
        f"default-src 'none'; script-src {sources('script')}; style-src {sources('style')}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )


def _head(connection: socket.socket, seconds: float) -> bytes:
    """The head of a request, with its empty line. TimeoutError: it takes too long; ValueError: it
    is too long; b"" if there is none, as the client has gone."""
    end, head = time.monotonic() + seconds, b""
    while b"\r\n\r\n" not in head and b"\n\n" not in head:
        if len(head) > guard.HEAD_BYTES:
            raise ValueError
        connection.settimeout(max(end - time.monotonic(), 0.001))
        part = connection.recv(guard.HEAD_BYTES + 1 - len(head))
        if not part:
            return b""
        head += part
        if time.monotonic() > end:
            raise TimeoutError
    return head


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]
    protocol_version = default_request_version = "HTTP/1.1"
    wbufsize = 0

    def handle(self) -> None:
        self.close_connection = True
        self.requestline = self.command = ""
        self.request_version = self.protocol_version
        try:
            try:
                head = _head(self.connection, self.server.limits.head_s)
            except TimeoutError:
                return self.send_error(408)
            except ValueError:
                return self.send_error(431)
            finally:
                self.connection.settimeout(self.server.limits.send_s)
            if not head:
                return
            self.rfile = io.BytesIO(head)
            self.raw_requestline = self.rfile.readline()
            if self.parse_request():
                self._answer()
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            pass  # the browser has gone, or does not read

    def handle_expect_100(self) -> bool:
        self.send_error(417)
        return False

    def _answer(self) -> None:
        page = self.server.page
        if len(self.headers.get_all("Host", ())) > 1:
            return self._send(400, "A request has one Host.")
        enters = page._is_way_in(self.path)
        wrong = guard.refused(self.command, self.headers.get, page.port, enters)
        if wrong is not None:
            return self._send(wrong.status, wrong.text)
        if enters and page._take_way_in():
            return self._send(200, leads_to(f"/{page.token}/"), "text/html; charset=utf-8")
        what = guard.route(self.path, page.token)
        if what is None:
            return self._send(
                403,
                "The address of this page has a token: use the whole address that skate printed.",
            )
        if what == "/":
            return self._send(308, "", location=f"/{page.token}/")
        part, rest = ("stack/", what[6:]) if what.startswith("stack/") else (what, "")
        answer = self._PARTS.get(part)
        if answer is None:
            return self._send(404, "There is no such part of the page.")
        try:
            answer(self, rest)
        except LookupError as e:
            self._send(404, str(e.args[0]))

    # ---- the parts of the page

    def _page(self, _: str) -> None:
        self._send(200, self.server.html, "text/html; charset=utf-8")

    def _snapshot(self, _: str) -> None:
        self._send(200, _json(self.server.page.feed.latest()), "application/json")

    def _stack(self, pid: str) -> None:
        page = self.server.page
        if not pid.isascii() or not pid.isdecimal() or len(pid) > 10:
            raise LookupError("The number of a process is wanted.")
        with page.a_turn() as mine:
            answer = page.source.stack(int(pid)) if mine else None
        if answer is None:
            return self._send(503, _BUSY)
        self._send(200, answer)

    def _trace(self, _: str) -> None:
        page = self.server.page
        with page.a_turn() as mine:
            trace = page.source.trace() if mine else None
        if trace is None:
            return self._send(503, _BUSY)
        name = f"skate-{page.feed.latest(float('inf'))['pid']}.json"
        self._send(200, trace, "application/json", download=name)

    def _metrics(self, _: str) -> None:
        page = self.server.page
        text = page.source.metrics(page.feed.latest())
        self._send(200, text, "text/plain; version=0.0.4; charset=utf-8")

    def _events(self, _: str) -> None:
        page = self.server.page
        with self.server.a_stream() as free:
            if not free:
                most = self.server.limits.streams
                return self._send(503, f"The page is open {most} times, which is the most.")
            first = page.feed.latest()
            self._start(200, "text/event-stream")
            if self.command == "HEAD":
                return
            changes, sent = Changes(), float("-inf")
            last = None
            while True:
                closing, cost = page.closing.is_set(), time.thread_time()
                now = first if last is None else page.feed.latest(0 if closing else 0.25)
                if now is not last:
                    self.wfile.write(b"data: %b\n\n" % _json(changes.since(now)))
                    last, sent = now, time.monotonic()
                elif time.monotonic() - sent > BEAT_S:
                    self.wfile.write(b":\n\n")
                    sent = time.monotonic()
                if closing or page.feed.over:
                    self.wfile.write(b"event: end\ndata: {}\n\n")
                    return
                page.closing.wait(pause(time.thread_time() - cost, self.server.streams))

    _PARTS = {
        "": _page,
        "events": _events,
        "snapshot.json": _snapshot,
        "stack/": _stack,
        "trace.json": _trace,
        "metrics": _metrics,
    }

    # ---- answers

    def _start(
        self,
        status: int,
        kind: str,
        length: int | None = None,
        location: str | None = None,
        download: str | None = None,
    ) -> None:
        self.send_response_only(status)
        self.send_header("Content-Type", kind)
        if length is not None:
            self.send_header("Content-Length", str(length))
        if location is not None:
            self.send_header("Location", location)
        if download is not None:
            self.send_header("Content-Disposition", f'attachment; filename="{download}"')
        if status == 405:
            self.send_header("Allow", ", ".join(guard.METHODS))
        for name, value in self.server.safe:
            self.send_header(name, value)
        self.end_headers()

    def _send(
        self,
        status: int,
        body: str | bytes,
        kind: str = "text/plain; charset=utf-8",
        location: str | None = None,
        download: str | None = None,
    ) -> None:
        data = body.encode("utf-8", "replace") if isinstance(body, str) else body
        self._start(status, kind, len(data), location, download)
        if self.command != "HEAD":
            self.wfile.write(data)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What http.server calls for a request that it cannot read."""
        self._send(int(code), self.responses.get(code, ("The request is refused.",))[0])

    def log_message(self, format: str, *args: Any) -> None:
        pass  # no line for each request


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 32

    def __init__(self, page: Page, address: Any, family: int, limits: Limits):
        self.page, self.limits = page, limits
        self.address_family = family
        self._changed = threading.Condition(_forked.lock())
        self._open: set[socket.socket] = set()
        self.streams = 0
        self.html = HTML.read_text("utf-8")
        self.safe = (
            ("Content-Security-Policy", _policy(self.html)),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cache-Control", "no-store"),
            ("Connection", "close"),
        )
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # without the look-up of this machine's name that http.server makes
        socketserver.TCPServer.server_bind(self)

    def get_request(self) -> tuple[Any, Any]:
        try:
            connection, address = super().get_request()
        except OSError:  # the page is closed, or the process has no descriptor left
            self.page.closing.wait(0.1)
            raise
        return connection, address or ("", 0)  # a UNIX socket's peer has no address

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Whether a thread may be started for a connection: there are not too many, and at a UNIX
        socket the kernel says that the peer is this user, or root."""
        if self.address_family == socket.AF_UNIX:
            got = request.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            if struct.unpack("3i", got)[1] not in (0, os.geteuid()):
                return False
        with self._changed:
            free = len(self._open) < self.limits.connections
            if free:
                self._open.add(request)
        if not free:
            with contextlib.suppress(OSError):
                request.setblocking(False)
                request.send(b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\r\n")
        return free

    def shutdown_request(self, request: Any) -> None:
        with self._changed:
            self._open.discard(request)
        with contextlib.suppress(OSError):
            # What was not read would make the kernel drop the answer on its way.
            request.shutdown(socket.SHUT_WR)
            request.setblocking(False)
            request.recv(1 << 16)
        self.close_request(request)

    @contextlib.contextmanager
    def a_stream(self) -> Any:
        """Counts a stream of events; yields whether there may be one more."""
        with self._changed:
            free = self.streams < self.limits.streams
            self.streams += free
        try:
            yield free
        finally:
            with self._changed:
                self.streams -= free
                self._changed.notify_all()

    def await_streams(self, seconds: float) -> None:
        """Waits until no stream is open, at most so long."""
        with self._changed:
            self._changed.wait_for(lambda: not self.streams, seconds)

    def run(self) -> None:
        """Answers requests until the page is closed."""
        while not self.page.closing.is_set():
            self.handle_request()

    def stop(self) -> None:
        """Wakes run()."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        logging.getLogger("skate").warning("the page could not answer a request", exc_info=True)

    def forget(self) -> None:
        """In the child of a fork: closes the sockets, which are the parent's."""
        for s in (self.socket, *self._open):
            with contextlib.suppress(OSError):
                os.close(s.detach())


class Page:
    """A page that is open. Its threads are daemons: it does not keep the program alive. close()
    ends it; `with` does, too.

    Attributes:
        url: The address, with the token. At a UNIX socket: the path below any tunnel to it.
        port: The port at 127.0.0.1; None at a UNIX socket.
        token: The part of the path without which nothing is answered.
    """

    def __init__(
        self,
        source: Source,
        port: int,
        path: str | None = None,
        limits: Limits = Limits(),  # noqa: B008
    ):
        self.source, self.feed = source, Feed(source)
        self.token = secrets.token_urlsafe(24)
        self.closing = threading.Event()
        self._asking = _forked.lock()  # one stack or trace at a time
        self._entering = _forked.lock()
        self._path = path
        self._way_in: str | None = None
        family, address = (
            (socket.AF_INET, ("127.0.0.1", port)) if path is None else (socket.AF_UNIX, path)
        )
        try:
            self._server = _Server(self, address, family, limits)
        except OSError as e:
            raise type(e)(e.errno, _why_not(e, port, path)) from None
        if path is not None:
            os.chmod(path, 0o600)
        self.port: int | None = None if path is not None else self._server.server_address[1]
        host = "localhost" if path is not None else f"127.0.0.1:{self.port}"
        self.url = f"http://{host}/{self.token}/"
        self._thread = threading.Thread(target=self._server.run, name="skate-page", daemon=True)
        self._thread.start()
        _pages.add(self)

    @contextlib.contextmanager
    def a_turn(self) -> Iterator[bool]:
        """The turn of a request that only one may have at a time; False if it does not come
        soon."""
        mine = self._asking.acquire(timeout=self._server.limits.turn_s)
        try:
            yield mine
        finally:
            if mine:
                self._asking.release()

    def way_in(self) -> str:
        """An address that leads to the page, once. It is for a file that only this user can read, to
        which a browser can be sent: the address of the page itself would be in the browser's command
        line, which other users see."""
        self._way_in = f"/{secrets.token_urlsafe(24)}"
        return f"http://127.0.0.1:{self.port}{self._way_in}"

    def _is_way_in(self, path: str) -> bool:
        """Whether the path of a request is that of the way in, and it is not used yet."""
        way = self._way_in
        return way is not None and hmac.compare_digest(
            path.encode("utf-8", "replace"), way.encode()
        )

    def _take_way_in(self) -> bool:
        """Uses up the way in. False: another request was quicker."""
        with self._entering:
            way, self._way_in = self._way_in, None
        return way is not None

    def close(self, seconds: float = 1.0) -> None:
        """Sends the last state to those who look, and ends the server. Calling it again does
        nothing.

        Args:
            seconds: How long browsers have to take the last state.
        """
        if self.closing.is_set():
            return
        self.closing.set()
        self._server.stop()
        self._server.await_streams(seconds)
        self._thread.join()
        self._server.server_close()
        _pages.discard(self)
        if self._path is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)

    def _forget(self) -> None:
        """In the child of a fork, which has none of the threads: closes the sockets, which are the
        parent's."""
        self.closing = threading.Event()
        self.closing.set()
        self._server.forget()

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


_pages: weakref.WeakSet[Page] = weakref.WeakSet()


def _in_child() -> None:
    for page in list(_pages):
        page._forget()
    _pages.clear()


os.register_at_fork(after_in_child=_in_child)


def _why_not(e: OSError, port: int, path: str | None) -> str:
    """What to do about a server that could not be started."""
    if path is not None:
        if e.errno == errno.EADDRINUSE:
            return f"the page cannot be at {path}: the file exists; remove it if no page is there, or choose another path"
        return f"the page cannot be at {path}: {e.strerror or e}"
    if e.errno == errno.EADDRINUSE:
        return f"port {port} of 127.0.0.1 is in use, so the page cannot be there: choose another one, or 0 for any that is free"
    if e.errno == errno.EACCES:
        return f"port {port} of 127.0.0.1 is not for this user: choose one from 1024 on, or 0 for any that is free"
    return f"the page cannot be at port {port} of 127.0.0.1: {e.strerror or e}"


def serve(
    where: int | str | os.PathLike[str] | None = None,
    port: int = 0,
    *,
    socket_path: str | os.PathLike[str] | None = None,
    source: Source | None = None,
) -> Page:
    """Opens a page in a thread of this process. It can be reached from this machine only, with the
    token in its address.

    Args:
        where: What it shows: the pid of any process of an engine of this user, the path of a record
            of a run that is over, or None: the engine of this process.
        port: The port at 127.0.0.1; 0: any that is free.
        socket_path: The path of a UNIX socket to be made, which is for this user only, instead of a
            port; a tunnel (ssh -L) leads browsers to it.
        source: Where the page reads, instead of `where`.

    Returns:
        The page; its url is what a browser opens.

    Raises:
        LookupError: There is no such engine or record.
        PermissionError: It is of another user.
        ValueError: The port is no port; a newer skate has made the record, or it is damaged.
        OSError: The port or the path is in use, or not for this user.

    Example:
        >>> import skate
        >>> from skate.page import serve
        >>> _ = skate.init(num_cpus=2, ignore_reinit_error=True)
        >>> with serve() as page:
        ...     page.url.startswith("http://127.0.0.1:")
        True
    """
    if isinstance(port, bool) or not 0 <= port <= 65535:
        raise ValueError(f"the page's port: a number from 0 to 65535 is wanted, not {port!r}")
    path = os.fspath(socket_path) if socket_path is not None else None
    return Page(source or Engine(where), port, path)
