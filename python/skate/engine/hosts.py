"""Nodes of the engine `cluster` that were started by hand or by a launcher (ssh, srun, torchrun,
Kubernetes), without Ray: `skate node` on each machine, and skate.init("skate://HOST:PORT,...").

A node listens and the driver connects, or the other way round; then both say the same, in frames of
4 bytes of length and as many bytes:

    node -> driver: {"skate": version, "python": "3.12", "nonce": ...}
    driver -> node: {"nonce": ..., "proof": ...}
    node -> driver: {"proof": ..., "has": CPUs, memory, ...}, or {"why": ...}
    driver -> node: a proof and node.Given, pickled
    node -> driver: {"address": where the node listens for the job}, or {"why": ...}

A proof is a keyed hash of the other side's nonce, so the secret itself is never sent, and nothing is
unpickled before its sender has proved that it knows the secret. As long as it has not, no frame of
more than 1,024 bytes is read.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import pickle
import socket
import sys
import time

from skate import _skate
from skate.calls import ambient_environment, by_value
from skate.engine import node

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from typing import Any

SCHEME = "skate://"
CONNECT_S = 8.0  # the most seconds for reaching all nodes, so that an error comes within 10 s
COME_S = 60.0  # the most seconds that a driver which listens waits for its nodes
OPEN_S = 30.0  # the most seconds for opening the engines of all nodes
STRANGER_S = 2.0  # so long one that connects may take to prove what it knows
LEAST_SECRET = 16
STRANGERS = 1024  # bytes of a frame of one that has not proved anything
TRUSTED = 1 << 30
AGAIN_S = 0.2  # how often a node tries to connect to a driver that is not there yet
OWN = ("num_cpus", "num_gpus", "memory", "object_store_memory")
MAKE = "make one with `openssl rand -hex 32`"


class Refused(Exception):
    """The other side is not what it has to be; the text says why."""


# ---- what both sides say


def secret_of(path: str | None = None) -> bytes:
    """The secret that the driver and all nodes know: of the file `path` or SKATE_SECRET_FILE, or of
    SKATE_SECRET. ValueError if there is none."""
    path = path or os.environ.get("SKATE_SECRET_FILE")
    said = os.environ.get("SKATE_SECRET", "")
    if path:
        try:
            with open(path, encoding="utf-8") as f:
                said = f.read()
        except (OSError, UnicodeError) as e:
            raise ValueError(f"the secret of the nodes cannot be read: {e}") from None
    said = said.strip()
    if len(said) < LEAST_SECRET:
        what = (
            f"has {len(said)} characters, and {LEAST_SECRET} are wanted" if said else "is missing"
        )
        raise ValueError(
            f"the secret of the nodes {what}: {MAKE}, and give the driver and all nodes the same, in a file (SKATE_SECRET_FILE) or in SKATE_SECRET"
        )
    return said.encode()


def _python() -> str:
    return ".".join(map(str, sys.version_info[:2]))


def _nonce() -> str:
    return os.urandom(32).hex()


def _proof(secret: bytes, who: str, nonce: str, what: bytes = b"") -> str:
    return hmac.new(secret, f"{who} {nonce} ".encode() + what, hashlib.sha256).hexdigest()


def _send(to: socket.socket, body: bytes) -> None:
    to.sendall(len(body).to_bytes(4, "big") + body)


def _bytes(of: socket.socket, n: int, until: float) -> bytes:
    got = bytearray()
    while len(got) < n:
        of.settimeout(max(until - time.monotonic(), 0.001))
        more = of.recv(min(n - len(got), 1 << 20))
        if not more:
            raise Refused("the connection was closed")
        got += more
    return bytes(got)


def _frame(of: socket.socket, most: int, until: float) -> bytes:
    n = int.from_bytes(_bytes(of, 4, until), "big")
    if n > most:
        raise Refused("what it says is nothing of skate's")
    return _bytes(of, n, until)


def _said(of: socket.socket, until: float, most: int = STRANGERS) -> dict[str, Any]:
    try:
        said = json.loads(_frame(of, most, until))
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise Refused("what it says is nothing of skate's")
    if said.get("why"):
        raise Refused(str(said["why"]))
    return said


def _say(to: socket.socket, **what: Any) -> None:
    _send(to, json.dumps(what).encode())


def host_port(text: str) -> tuple[str, int]:
    """ "HOST:PORT" or "[HOST]:PORT"; ValueError."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f'"HOST:PORT" is wanted, not {text!r}')
    return host.removeprefix("[").removesuffix("]"), int(port)


def _listen(at: tuple[str, int]) -> socket.socket:
    try:
        return socket.create_server(
            at, family=socket.AF_INET6 if ":" in at[0] else socket.AF_INET, backlog=64
        )
    except OSError as e:
        why = (e.strerror or str(e)).partition(" (while")[0]
        raise ConnectionError(f"cannot listen at {_text(at)}: {why}") from None


def _text(at: tuple[Any, ...]) -> str:
    return f"[{at[0]}]:{at[1]}" if ":" in at[0] else f"{at[0]}:{at[1]}"


# ---- a node


def run_node(
    secret: bytes,
    has: dict[str, Any],
    resources: dict[str, float],
    listen: str | None,
    connect: str | None,
    wait_s: float,
) -> str:
    """Waits for a driver, serves it and ends with it. Returns "", or what happened to the driver.

    Args:
        secret: What the driver has to know (secret_of).
        has: CPUs, GPUs and memory that the node has, as knobs (config.py).
        resources: Custom resources that it has.
        listen: "HOST:PORT" at which the driver finds the node, or None.
        connect: "HOST:PORT" at which the node finds the driver, or None.
        wait_s: So long it waits for the driver.

    Raises:
        ConnectionError: No driver came, or the address cannot be used.
        RuntimeError: The engine could not be opened.
    """
    until = time.monotonic() + wait_s
    driver, given = (
        _come(host_port(listen), secret, has, resources, until)
        if listen
        else _go(host_port(connect or ""), secret, has, resources, until)
    )
    with driver:
        try:
            at = driver.getsockname()[0]
            port = node.open_node(given._replace(listen=at))
        except Exception as e:
            _say(driver, why=f"{type(e).__name__}: {' '.join(str(e).split())}"[:900])
            raise RuntimeError(str(e)) from e
        _say(driver, address=_text((at, port)))
    return node.serve(with_parent=False)


def _come(
    at: tuple[str, int],
    secret: bytes,
    has: dict[str, Any],
    resources: dict[str, float],
    until: float,
) -> tuple[socket.socket, node.Given]:
    """Listens until a driver has come."""
    with _listen(at) as listener:
        print(f"skate node: listens at {_text(listener.getsockname())}", flush=True)
        while (left := until - time.monotonic()) > 0:
            listener.settimeout(left)
            try:
                driver, peer = listener.accept()
            except TimeoutError:
                break
            try:
                return driver, _meet_driver(driver, secret, has, resources)
            except (Refused, OSError) as e:
                driver.close()
                print(f"skate node: refused {_text(peer)}: {e}", file=sys.stderr, flush=True)
    raise ConnectionError(f"no driver has come to {_text(at)}")


def _go(
    at: tuple[str, int],
    secret: bytes,
    has: dict[str, Any],
    resources: dict[str, float],
    until: float,
) -> tuple[socket.socket, node.Given]:
    """Connects to the driver, which may come later than the node."""
    while True:
        left = until - time.monotonic()
        try:
            driver = socket.create_connection(at, max(left, 0.001))
            break
        except OSError as e:
            if left <= AGAIN_S:
                raise ConnectionError(f"there is no driver at {_text(at)}: {e}") from None
            time.sleep(AGAIN_S)
    try:
        return driver, _meet_driver(driver, secret, has, resources)
    except (Refused, OSError) as e:
        driver.close()
        raise ConnectionError(f"the driver at {_text(at)}: {e}") from None


def _meet_driver(
    driver: socket.socket, secret: bytes, has: dict[str, Any], resources: dict[str, float]
) -> node.Given:
    """The node's part of the messages above, until it has what the driver gives. Refused."""
    until, mine = time.monotonic() + STRANGER_S, _nonce()
    _say(driver, skate=_skate.__version__, python=_python(), nonce=mine)
    said = _said(driver, until)
    its = str(said.get("nonce"))
    if not hmac.compare_digest(str(said.get("proof")), _proof(secret, "driver", mine)):
        why = "it has another secret"
        _say(driver, why=why)
        raise Refused(why)
    _say(driver, proof=_proof(secret, "node", its), has=has, resources=resources)
    until = time.monotonic() + COME_S + CONNECT_S  # the driver meets all its nodes first
    frame = _frame(driver, TRUSTED, until)
    proof, given = frame[:64], frame[64:]
    if not hmac.compare_digest(proof, _proof(secret, "given", mine, given).encode()):
        raise Refused("what it gave was changed on the way")
    return node.Given(*pickle.loads(given))


# ---- the driver


class _Node:
    """A connection of the driver to a node that has yet to open its engine."""

    def __init__(self, at: str, conn: socket.socket, secret: bytes, until: float):
        self.at, self._conn, self._secret, mine = at, conn, secret, _nonce()
        try:
            said = _said(conn, until)
            self._nonce = str(said.get("nonce"))
            here = _skate.__version__, _python()
            there = str(said.get("skate")), str(said.get("python"))
            if here != there:
                raise Refused(
                    f"it has skate {there[0]} and Python {there[1]}; this is skate {here[0]} and Python {here[1]}"
                )
            _say(conn, nonce=mine, proof=_proof(secret, "driver", self._nonce))
            said = _said(conn, until, 1 << 20)
            if not hmac.compare_digest(str(said.get("proof")), _proof(secret, "node", mine)):
                raise Refused("it has another secret")
        except BaseException as e:
            conn.close()
            if isinstance(e, (Refused, OSError)):
                raise ConnectionError(f"the node at {at}: {_why(e, CONNECT_S)}") from None
            raise
        self.has, self.resources = said["has"], said["resources"]

    def open(self, given: node.Given) -> None:
        frame = by_value.dumps(tuple(given), protocol=5)
        _send(self._conn, _proof(self._secret, "given", self._nonce, frame).encode() + frame)

    def address(self, until: float) -> str:
        """Where the node listens for the job, once it has opened its engine."""
        try:
            return str(_said(self._conn, until)["address"])
        except (Refused, OSError) as e:
            raise ConnectionError(f"the node at {self.at}: {_why(e, OPEN_S)}") from None

    def close(self) -> None:
        self._conn.close()


def _why(e: BaseException, seconds: float) -> str:
    if isinstance(e, TimeoutError):
        return f"no answer within {seconds:g} s"
    return getattr(e, "strerror", None) or str(e)


class Hosts:
    """The nodes of an engine `cluster` that others have started (engine.Starter). Its address is
    "skate://HOST:PORT,HOST:PORT", where nodes listen; or "skate://HOST:PORT?nodes=N", where this
    process listens until N nodes have come.

    Raises:
        ValueError: The address is none, or there is no secret.
        ConnectionError: A node does not answer as it must.
    """

    def __init__(self, wanted: node.Wanted):
        # The program's sys.path is sent with functions: it may mean nothing on other machines.
        ambient_environment.begin([], None)
        self._wanted = wanted
        self._password = secret_of()
        self._places, self._names = 0, [""]
        hosts, n = _parse(wanted.address or "")
        with contextlib.ExitStack() as closed:
            nodes = (
                _accept(hosts[0], n, self._password, closed)
                if n
                else _reach(hosts, self._password, closed)
            )
            self._names = sorted({name for x in nodes for name in x.resources})
            for x in nodes:
                x.open(self._given(x))
            until = time.monotonic() + OPEN_S
            addresses = [x.address(until) for x in nodes]
        self.conf: dict[str, Any] = {
            "addresses": addresses,
            "resources": {
                name: sum(x.resources.get(name, 0.0) for x in nodes) for name in self._names
            },
        }

    def add(self, at: str) -> int:
        """Lets one more node join, which listens at "HOST:PORT", while the engine is open. Returns
        its number."""
        with contextlib.ExitStack() as closed:
            (x,) = _reach([host_port(at)], self._password, closed)
            x.open(self._given(x))
            return _skate.node_join(x.address(time.monotonic() + OPEN_S))

    def _given(self, x: _Node) -> node.Given:
        self._places += 1
        knobs = {name: x.has[name] for name in OWN}
        knobs["num_cpus"] = self._wanted.cpus(knobs["num_cpus"])
        return self._wanted.given(
            self._places,
            "",  # the node knows by which of its addresses it was reached
            x.at,
            {**node.settings(self._wanted.conf), **knobs},
            {name: x.resources.get(name, 0.0) for name in self._names},
        )

    def close(self, patience_s: float = 0.0) -> None:
        """The nodes end with the driver's engine; whoever has started them waits for them."""


def _parse(address: str) -> tuple[list[tuple[str, int]], int]:
    """The places of an address, and for how many nodes to listen at the one place (0: connect)."""
    places, _, nodes = address.removeprefix(SCHEME).partition("?nodes=")
    try:
        hosts = [host_port(x) for x in places.split(",")]
        n = int(nodes) if nodes else 0
        if nodes and (n < 1 or len(hosts) != 1):
            raise ValueError("one place to listen at, and at least one node, are wanted")
    except ValueError as e:
        raise ValueError(
            f'init(address={address!r}): {e}; "{SCHEME}HOST:PORT,HOST:PORT" where nodes listen, or "{SCHEME}HOST:PORT?nodes=N" to listen there for N nodes'
        ) from None
    if len(set(hosts)) != len(hosts):
        raise ValueError(f"init(address={address!r}): a node is named twice")
    return hosts, n


def _reach(
    hosts: list[tuple[str, int]], secret: bytes, closed: contextlib.ExitStack
) -> list[_Node]:
    """Connects to nodes that listen. closed: closes the connections."""
    until, out = time.monotonic() + CONNECT_S, list[_Node]()
    for at in hosts:
        try:
            conn = socket.create_connection(at, max(until - time.monotonic(), 0.001))
        except OSError as e:
            raise ConnectionError(
                f"there is no node at {_text(at)} ({_why(e, CONNECT_S)}): start one there with `skate node --listen`; a node serves one program, and ends with it"
            ) from None
        out.append(_Node(_text(at), conn, secret, until))
        closed.callback(out[-1].close)
    return out


def _accept(
    at: tuple[str, int], n: int, secret: bytes, closed: contextlib.ExitStack
) -> list[_Node]:
    """Listens until n nodes have come. Others that come, too, or instead, are named if these do not."""
    out, refused = list[_Node](), ""
    until = time.monotonic() + COME_S
    with _listen(at) as listener:
        while len(out) < n:
            listener.settimeout(max(until - time.monotonic(), 0.001))
            try:
                conn, peer = listener.accept()
                out.append(_Node(_text(peer), conn, secret, time.monotonic() + STRANGER_S))
                closed.callback(out[-1].close)
            except TimeoutError:
                raise ConnectionError(
                    f"{len(out)} of {n} nodes have come to {_text(at)} within {COME_S:g} s{refused}"
                ) from None
            except ConnectionError as e:
                refused = f"; refused: {e}"
    return out
