"""Carriers of the connections of a cluster, where its processes cannot or must not connect to each
other by plain TCP: TLS, or calls of Ray's actors where ports are closed.

The engine of a process connects to the process's carrier, which is a socket in the abstract UNIX
namespace, and first writes the address (engine/cluster/tcp.h). The carrier then copies bytes both ways
between this connection and one to the engine at that address. It runs in an event loop.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import os
import secrets
import socket
import ssl
import struct
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any, TypeVar

    from skate.engine import node

    T = TypeVar("T")

ADDRESS = 80  # bytes: SK_TCP_ADDRESS
CHUNK = 1 << 20
PROBE_S = 2.0  # within which a connection to a node is made, unless something keeps it from that
HANDSHAKE_S = 5.0
START_S = 30.0
WAITING = (
    4096  # connections that wait until they are accepted; the kernel's own limit, if it is less
)
POLL_S = 5.0  # how long a call waits for bytes
TLS_FILES = ("RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT")


def name_of(job: int, place: int) -> str:
    """The name of the carrier of a node, by its place (node.py), or of the driver (0)."""
    return f"skate-carrier-{job:x}-{place}"


def split(address: str) -> tuple[str, int]:
    """(host, port) of "host:port" or "[host]:port"."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def unreachable(addresses: list[str]) -> list[str]:
    """Those of the addresses to which this process cannot connect."""

    def fails(address: str) -> bool:
        try:
            socket.create_connection(split(address), PROBE_S).close()
        except OSError:
            return True
        return False

    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        failed = list(pool.map(fails, addresses))
    return [address for address, bad in zip(addresses, failed, strict=True) if bad]


class Carrier:
    """A carrier; `carry` of its subclasses does the work."""

    def __init__(self) -> None:
        self.servers: list[asyncio.Server] = []

    async def begin(self, name: str) -> None:
        """Listens at the abstract UNIX address `name`."""
        self.servers.append(
            # without room, a connection of the engine fails at once: it does not wait
            await asyncio.start_unix_server(self._serve, "\0" + name, limit=CHUNK, backlog=WAITING)
        )

    async def carry(
        self, address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Copies bytes between the engine of this process (reader, writer) and the one at the
        address, until a side ends its connection. Raises OSError."""
        raise NotImplementedError

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = ""
        try:
            peer = writer.get_extra_info("socket").getsockopt(
                socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
            )
            if struct.unpack("3i", peer)[1] == os.geteuid():
                address = (await reader.readexactly(ADDRESS)).rstrip(b"\0").decode()
                await self.carry(address, reader, writer)
        except (OSError, asyncio.IncompleteReadError) as e:
            if address:
                logging.getLogger("skate").warning("connection to %s: %s", address, e)
        except asyncio.CancelledError:  # of Running.close
            pass
        finally:
            writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()


async def _both(*ways: Coroutine[Any, Any, None]) -> None:
    """Runs both ways of a connection until one ends. Raises OSError, but not if a side has closed."""
    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
    with contextlib.suppress(ConnectionError):
        for task in done:
            task.result()


async def _join(
    a: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    b: tuple[asyncio.StreamReader, asyncio.StreamWriter],
) -> None:
    """Copies bytes between two connections until one ends, and then closes both, when what has been
    read is written."""
    try:
        await _both(_copy(a[0], b[1]), _copy(b[0], a[1]))
    finally:
        a[1].close()
        b[1].close()


# ---- TLS -------------------------------------------------------------------------------------------


def wants_tls() -> bool:
    """Whether Ray encrypts what goes between its processes."""
    return os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true")


class Tls(Carrier):
    """Connections by TLS with Ray's own certificates, where RAY_USE_TLS is 1; both sides are checked,
    as Ray does.

    Raises:
        RuntimeError: A variable of Ray's for TLS is not set, or its file cannot be used.
    """

    def __init__(self) -> None:
        super().__init__()
        files = {name: os.environ.get(name) for name in TLS_FILES}
        if missing := [name for name, path in files.items() if not path]:
            raise RuntimeError(f"RAY_USE_TLS is set, but {', '.join(missing)} is not")
        cert, key, ca = files.values()
        try:
            self._accepts, self._dials = (
                ssl.SSLContext(kind) for kind in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT)
            )
            for context in (self._accepts, self._dials):
                context.load_cert_chain(cert or "", key)
                context.load_verify_locations(ca)
                context.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ssl.SSLError) as e:
            raise RuntimeError(
                f"TLS of Ray ({', '.join(f'{k}={v}' for k, v in files.items())}): {e}"
            ) from None

    async def serve(self, host: str, to: tuple[str, int]) -> int:
        """Accepts connections at a port of the host, which it returns, for the engine at `to`."""

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                near = await asyncio.open_connection(*to, limit=CHUNK)
            except OSError:  # the node has ended
                writer.close()
                return
            with contextlib.suppress(asyncio.CancelledError):  # of Running.close
                await _join((reader, writer), near)

        listens = await asyncio.start_server(
            accept,
            host,
            0,
            ssl=self._accepts,
            ssl_handshake_timeout=HANDSHAKE_S,
            limit=CHUNK,
            backlog=WAITING,
        )
        self.servers.append(listens)
        return listens.sockets[0].getsockname()[1]

    async def carry(
        self, address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        far = await asyncio.open_connection(
            *split(address),
            ssl=self._dials,
            ssl_handshake_timeout=HANDSHAKE_S,
            limit=CHUNK,
        )
        await _join((reader, writer), far)


# ---- calls of Ray's actors -------------------------------------------------------------------------


class Calls(Carrier):
    """Connections as streams of bytes in calls of Ray's actors: each node's machine has an actor of
    this class beside the node, and the driver has an object of it. Whoever connects makes all calls:
    `push` gives bytes, and `pull` takes them. Large arguments and results go through Ray's object
    store, as Ray has it."""

    def __init__(self, own: str | None = None):
        """own: the address of the engine beside this actor, for connections of others."""
        super().__init__()
        self._own = own
        self._peers: dict[str, Any] = {}
        # connections of others, by their names; None: it is over
        self._streams: dict[
            str, asyncio.Task[tuple[asyncio.StreamReader, asyncio.StreamWriter]] | None
        ] = {}

    async def know(self, peers: dict[str, Any]) -> None:
        """Names the actors beside the engines, by the engines' addresses."""
        self._peers.update(peers)

    async def push(self, stream: str, data: bytes) -> bool:
        """Takes bytes of a stream for the engine here; b"": it has ended. False: the engine ended it."""
        try:
            _, writer = await self._of(stream)
            if not data:
                writer.close()
                self._streams[stream] = None
                return False
            writer.write(data)
            await writer.drain()
        except OSError:
            self._streams[stream] = None
            return False
        return True

    async def pull(self, stream: str) -> bytes | None:
        """Bytes of the engine here for a stream. b"": it has ended; None: nothing came for a while."""
        try:
            reader, writer = await self._of(stream)
            data = await asyncio.wait_for(reader.read(CHUNK), POLL_S)
        except TimeoutError:
            return None
        except OSError:
            data = b""
        else:
            if not data:
                writer.close()
        if not data:
            self._streams[stream] = None
        return data

    async def _of(self, stream: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        assert self._own is not None, "a driver has no engine that others connect to"
        if stream not in self._streams:
            self._streams[stream] = asyncio.ensure_future(
                asyncio.open_connection(*split(self._own), limit=CHUNK)
            )
        opened = self._streams[stream]
        if opened is None:
            raise ConnectionError("the connection is over")
        return await asyncio.shield(opened)

    async def carry(
        self, address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        peer, stream = self._peers.get(address), secrets.token_hex(8)
        if peer is None:
            raise OSError("no actor is known there")

        async def up() -> None:
            while data := await reader.read(CHUNK):
                if not await _answer(peer.push.remote(stream, data)):
                    return

        async def down() -> None:
            while (data := await _answer(peer.pull.remote(stream))) != b"":
                if data is not None:
                    writer.write(data)
                    await writer.drain()

        try:
            await _both(up(), down())
        finally:
            peer.push.remote(stream, b"")


async def _answer(ref: Any) -> Any:
    """The result of a call. OSError: the other side's actor is gone."""
    try:
        return await asyncio.wrap_future(ref.future())
    except OSError:
        raise
    except Exception as e:
        raise OSError(" ".join(str(e).split())) from None


class RayCalls:
    """The carriers of a cluster whose connections are calls: an actor beside each node, and an object
    in this process, the driver."""

    def __init__(self, ray: Any, name: str):
        self._ray = ray
        self._here = Calls()
        self._running = Running(self._here)
        self._running.call(self._here.begin(name))
        self._actors: dict[str, Any] = {}

    def add(self, nodes: dict[str, tuple[Any, node.Given]]) -> None:
        """Starts the actors of nodes, which are named by their addresses, by the scheduling
        strategies of the nodes."""
        begun = []
        for address, (where, given) in nodes.items():
            self._actors[address] = (
                self._ray.remote(Calls)
                .options(num_cpus=0, max_concurrency=1000, scheduling_strategy=where)
                .remote(joined(given.listen, split(address)[1]))
            )
            begun.append(self._actors[address].begin.remote(given.carrier))
        self._ray.get(begun, timeout=START_S)
        peers = dict(self._actors)  # another thread drops those of nodes that were lost
        self._running.call(self._here.know(peers))
        told = [a.know.remote(peers) for a in peers.values()]
        # one that fails is gone with its node, which is found out elsewhere
        self._ray.wait(told, num_returns=len(told), timeout=START_S)

    def drop(self, address: str) -> None:
        actor = self._actors.pop(address, None)
        if actor is not None:
            self._ray.kill(actor)

    def close(self) -> None:
        self._running.close()


# ---- a carrier of this process ---------------------------------------------------------------------


class Running:
    """Runs a carrier on a thread of its own, until the process or `close` ends it."""

    def __init__(self, carrier: Carrier):
        self.carrier = carrier
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="skate-carrier", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def call(self, what: Coroutine[Any, Any, T], seconds: float = 10.0) -> T:
        """Runs a coroutine of the carrier, and returns its result."""
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(seconds)

    def close(self) -> None:
        """Ends all connections."""

        async def end() -> None:
            for server in self.carrier.servers:
                server.close()
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self.call(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
