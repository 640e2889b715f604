"""Starts the nodes of the engine `cluster` on a Ray cluster, by Ray's public API:
skate.init("HOST:PORT"), or skate.init(address, _engine="ray") with "auto", "local" (starts one) or
a Ray that is initialised already.

Each node of the Ray cluster gets one actor, which holds the node's CPUs, GPUs, memory and custom
resources for Ray, and whose process is a node of skate (node.py). Ray says which nodes there are,
and brings code and environments to them. Tasks, events and blocks go over connections of skate's
own: nodes listen at the address by which Ray knows them.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import logging
import os
import pickle
import queue
import socket
import sys
import threading
import time

from skate import _labels, _skate
from skate.calls import ambient_environment, by_value
from skate.engine import carry, node

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from typing import Any

OLDEST = (2, 50)
LOOK_S = 1.0  # how often the driver asks what has changed in the cluster
AGAIN_S = 20.0  # Ray has told by then whether the machine of a node that died is gone, too
STARTS = 4  # how often a node is started on one machine
# A program ends with an error when the head of the cluster (its GCS) has not answered for so long.
# Ray itself waits for 60 s, and then ends all its processes, programs included.
GONE_S = 20.0
MEMORY_MARGIN = 0.05  # of the machine: nodes stop tasks so far below what Ray's monitor allows
FOR_EVER_S = 1e9
PATIENCE_S = 10.0  # seconds to wait for answers that arrive at once unless something is wrong
# the most seconds for joining a cluster and checking all its nodes, so that an error comes within
# 10 s
CONNECT_S = 8.0
CONNECTIONS = ("auto", "tcp", "calls")
# names of Ray's own resources; others are the users'
OF_RAY = ("CPU", "GPU", "memory", "object_store_memory")


# ---- Joining and starting a cluster.


def _ray() -> Any:
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError as e:
        raise ImportError(
            f'this engine needs Ray, which is not installed ({e}): pip install "skate[ray]"'
        ) from None
    version = getattr(ray, "__version__", "")
    if getattr(ray, "__file__", None) is None or "skate" in (
        getattr(ray.init, "__module__", "") or ""
    ):
        raise RuntimeError(
            "`ray` is skate itself in this process (skate.as_ray); the engine over a Ray cluster needs Ray's own package"
        )
    if tuple(int(x) for x in version.split(".")[:2]) < OLDEST:
        raise RuntimeError(
            f"Ray {version} is too old for this engine: {'.'.join(map(str, OLDEST))} or newer"
        )
    return ray


def _within(seconds: float, what: str, call: Any) -> Any:
    """Runs call() on a new thread, since it may hang. (On the main thread ray.init() would replace
    signal handlers.)"""
    out: list[Any] = []

    def run() -> None:
        try:
            out.append((True, call()))
        except BaseException as e:
            out.append((False, e))

    t = threading.Thread(target=run, daemon=True, name="skate-ray")
    t.start()
    t.join(seconds)
    if not out:
        raise ConnectionError(
            f"{what}: no answer within {seconds:.0f} s; is it the head of a cluster, and is its token the same as here (RAY_AUTH_TOKEN)?"
        )
    good, value = out[0]
    if not good:
        raise value
    return value


def _connect(ray: Any, conf: dict[str, Any], address: str | None, until: float) -> bool:
    """Joins or starts a cluster. Returns whether this call did so, in which case the engine has to
    leave the cluster at its end. until: the deadline (time.monotonic()) for joining an existing
    cluster; starting a cluster has no deadline."""
    quiet = {"log_to_driver": bool(conf["prints"]), "logging_level": "ERROR"}
    if ray.is_initialized():
        return False
    if address is None:
        raise ConnectionError(
            'there is no Ray in this process: ray.init() first, or say the address ("auto", "local", "HOST:PORT")'
        )
    if address == "local":
        how = {
            "num_cpus": conf["num_cpus"],
            "object_store_memory": int(conf["object_store_memory"]),
            "include_dashboard": False,
        }
        _within(
            6 * PATIENCE_S, "Ray on this machine", lambda: ray.init(address="local", **how, **quiet)
        )
        return True
    if address != "auto":
        host, _, port = address.rpartition(":")
        try:  # ray.init() waits for minutes if there is no cluster
            socket.create_connection((host, int(port)), CONNECT_S / 2).close()
        except (OSError, ValueError) as e:
            raise ConnectionError(f"there is no Ray cluster at {address}: {e}") from None
    _within(
        until - time.monotonic(),
        f"the Ray cluster at {address}",
        lambda: ray.init(address=address, **quiet),
    )
    return True


def _actor_class() -> Any:
    """The class of the actor of a node. It is made in a function, so that it is pickled by value:
    the node may lack skate."""
    margin, later = MEMORY_MARGIN, PATIENCE_S / 2

    class SkateNode:
        def open(
            self, package: str, version: str, python: tuple[int, int], given: bytes
        ) -> tuple[str, str]:
            """Opens the node. Returns (its address, "") or ("", why it cannot work)."""
            try:
                skate = importlib.import_module(package)
            except ImportError as e:
                return "", f"has no skate ({e}): install it there, as here (skate {version})"
            if skate.__version__ != version:
                return "", f"has skate {skate.__version__}, and this is {version}"
            if sys.version_info[:2] != python:
                here = ".".join(map(str, sys.version_info[:2]))
                return "", f"runs Python {here}, and this is {'.'.join(map(str, python))}"
            self.node = importlib.import_module(f"{package}.engine.node")
            of = self.node.Given(*pickle.loads(given))
            # Ray would end this process, and with it all that the node has; skate ends one task.
            threshold = float(os.environ.get("RAY_memory_usage_threshold", "0.95")) - margin
            of.knobs["memory_usage_threshold"] = max(
                0.01, min(of.knobs["memory_usage_threshold"], threshold)
            )
            port = self.node.open_node(of)
            self.carry = importlib.import_module(f"{package}.engine.carry")
            if not self.carry.wants_tls():
                return self.carry.joined(of.name, port), ""
            try:
                tls = self.carry.Tls()
            except RuntimeError as e:
                return "", f"cannot encrypt: {e}"
            self.tls = self.carry.Running(tls)
            self.tls.call(tls.begin(of.carrier))
            port = self.tls.call(tls.serve(of.name, (of.listen, port)))
            return self.carry.joined(of.name, port), ""

        def unreachable(self, addresses: list[str]) -> list[str]:
            """The other nodes to which this one cannot connect."""
            return self.carry.unreachable(addresses)

        def wait(self) -> str:
            """Serves the driver until it has ended. Returns "", or what happened to it."""
            raylet = os.getppid()
            said = self.node.serve()
            if os.getppid() != raylet:
                os._exit(1)  # it would stay behind for minutes
            # The driver ends this actor, but it cannot if the head of the cluster is gone.
            end = threading.Timer(later, os._exit, (0,))
            end.daemon = True
            end.start()
            return said

    return SkateNode


class _Node:
    """A node of skate on a node of Ray's."""

    def __init__(
        self, there: dict[str, Any], where: Any, given: node.Given, actor: Any, opened: Any
    ):
        self.id: str = there["NodeID"]
        self.where = where  # the scheduling strategy of what runs there
        self.given, self.address = given, ""  # where it listens, when it has answered
        self.name = f"node {there['NodeManagerAddress']} of the Ray cluster"
        self.actor, self.opened = actor, opened  # opened: its answer
        self.end: Any = None  # comes when it has ended
        self.number = 0  # in the engine; 0: it has not joined yet
        self.drains = False


class Nodes:
    """The nodes of an engine `cluster` on a Ray cluster (engine.Starter). Its address is
    "HOST:PORT", "auto", "local", or None for the Ray of this process.

    Raises:
        ConnectionError: There is no cluster, or a node does not answer.
        RuntimeError: A node has another skate or another Python.
    """

    def __init__(self, wanted: node.Wanted):
        conf, address = wanted.conf, wanted.address
        # The program's sys.path is sent with functions: it may mean nothing on other machines.
        ambient_environment.begin([], None)
        self._ray = _ray()
        until = time.monotonic() + CONNECT_S
        self._wanted = wanted
        self._nodes: list[_Node] = []
        self._places = 0  # those that nodes have or had (node.py)
        self._tls: carry.Running | None = None
        self._calls: carry.RayCalls | None = None
        self.connections = conf["connections"]
        if self.connections not in CONNECTIONS:
            raise ValueError(
                f"connections={self.connections!r}: one of {', '.join(CONNECTIONS)} is wanted"
            )
        self._coming: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._starts: dict[str, int] = {}  # on this node of Ray's
        self._next: dict[str, float] = {}  # when a node may be started there
        self._leaving = threading.Lock()
        self._closed = threading.Event()
        self._ours = _connect(self._ray, conf, address, until)
        # Registered after Ray's exit handler, so it runs before it; after Ray's handler no node
        # could be ended.
        atexit.register(self._at_exit)
        if address == "local":
            # the cluster has to start its first worker first
            until = time.monotonic() + 3 * CONNECT_S
        there = self._new()
        self._names = sorted({k for n in there for k in n["Resources"] if _is_users(k)})
        try:
            if not there:
                raise ConnectionError("no node of the Ray cluster has CPUs")
            for n in there:
                self._places += 1
                self._open(n, self._places)
            for x in self._nodes:
                self._answer(x, until)
            addresses = self._connect()
        except BaseException:
            self.close(0.0)  # nodes that are open wait for a driver
            raise
        self.conf: dict[str, Any] = {
            "addresses": addresses,
            "carrier": carry.name_of(self._wanted.number, 0),
            "resources": {k: sum(n["Resources"].get(k, 0.0) for n in there) for k in self._names},
        }
        for number, x in enumerate(self._nodes, 1):
            x.number = number  # the engine counts in the order of the addresses
        self._head = str(self._ray.get_runtime_context().gcs_address)
        for watch in (self._watch, self._watch_head, self._join_all):
            threading.Thread(target=watch, name="skate-ray-nodes", daemon=True).start()

    def _connect(self) -> list[str]:
        """Chooses how the processes connect to each other, which stays so. Returns the addresses of
        the nodes."""
        addresses = [x.address for x in self._nodes]
        if carry.wants_tls():
            self.connections = "TLS"
            tls = carry.Tls()
            self._tls = carry.Running(tls)
            self._tls.call(tls.begin(carry.name_of(self._wanted.number, 0)))
        elif self.connections == "auto":
            asked = [x.actor.unreachable.remote(addresses) for x in self._nodes]
            there = self._ray.get(asked, timeout=carry.START_S)
            bad = {*carry.unreachable(addresses)}.union(*there)
            self.connections = "calls" if bad else "tcp"
            if bad:
                self._warn(
                    f"nodes cannot connect to {', '.join(sorted(bad))}: connections are calls of Ray's actors, which are slower"
                )
        if self.connections == "calls":
            self._calls = carry.RayCalls(self._ray, carry.name_of(self._wanted.number, 0))
            self._calls.add({x.address: (x.where, x.given) for x in self._nodes})
        return [self._reached(x) for x in self._nodes]

    def _reached(self, x: _Node) -> str:
        """The address by which other processes reach a node."""
        return f"@{x.address}" if self.connections in ("calls", "TLS") else x.address

    def _new(self) -> list[dict[str, Any]]:
        """The nodes of Ray's with CPUs where a node of skate is to be started."""
        now, drained = time.monotonic(), self._draining()
        out = [
            n
            for n in self._ray.nodes()
            if n["Alive"]
            and n["Resources"].get("CPU")
            and n["NodeID"] not in drained
            and self._next.get(n["NodeID"], 0.0) <= now
        ]
        self._next |= {n["NodeID"]: float("inf") for n in out}
        return out

    def _draining(self) -> dict[str, int]:
        """The nodes that Ray takes away, and until when (ms since 1970; 0: it does not say). Ray's
        public API does not tell."""
        return self._ray._private.state.state.get_draining_nodes()

    def _watch(self) -> None:
        """Lets nodes join that come to the cluster while the engine is open, and those go that
        leave it."""
        while not self._closed.wait(LOOK_S):
            if self._silent():
                continue  # a question that the head does not answer would end this process
            try:
                for n in self._new():
                    self._coming.put(n)
                self._let_go()
                self._drain()
            except Exception as e:
                self._warn(e)

    def _join_all(self) -> None:
        """Starts nodes that have come, one after the other, since their numbers are their places.
        One that cannot work is told in the log, and leaves its place to the next."""
        while (n := self._coming.get()) is not None:
            try:
                x = self._open(n, self._places + 1)
                try:
                    self._answer(x, time.monotonic() + 3 * CONNECT_S)
                    if self._calls is not None:
                        self._calls.add({x.address: (x.where, x.given)})
                    x.number = _skate.node_join(self._reached(x))
                    self._places += 1
                except Exception:
                    self._drop(x)
                    raise
            except Exception as e:
                self._warn(e)

    def _drop(self, x: _Node) -> None:
        with contextlib.suppress(ValueError):  # another thread has done it
            self._nodes.remove(x)
        self._ray.kill(x.actor)
        if self._calls is not None:
            self._calls.drop(x.address)

    def _let_go(self) -> None:
        """Gives back what nodes that have ended held of the cluster, and lets those start again
        whose process alone was lost."""
        there = {x.end: x for x in list(self._nodes) if x.end is not None}
        if not there:
            return
        ended, _ = self._ray.wait(list(there), num_returns=len(there), timeout=0)
        for end in ended:
            x = there[end]
            try:
                lost = self._ray.get(end)
            except Exception as e:
                lost = " ".join(str(e).split())
            self._drop(x)
            if lost:
                self._warn(f"{x.name} was lost: {lost}")
                if self._starts[x.id] < STARTS:
                    self._next[x.id] = time.monotonic() + AGAIN_S

    def _drain(self) -> None:
        """Empties the nodes that Ray takes away."""
        until = self._draining()
        for x in list(self._nodes):
            if x.id in until and x.number and not x.drains:
                x.drains = True
                seconds = until[x.id] / 1000 - time.time() if until[x.id] else FOR_EVER_S
                _skate.node_drain(x.number, max(seconds, 0.0))

    def _watch_head(self) -> None:
        """Gives the engine up when the head of the cluster is gone, which takes all nodes along."""
        heard, told = time.monotonic(), False
        while not self._closed.wait(LOOK_S):
            why = self._silent()
            if not why:
                heard, told = time.monotonic(), False
            elif time.monotonic() - heard > GONE_S:
                break
            elif not told:
                self._warn(
                    f"the head of the Ray cluster, at {self._head}, does not answer ({why}); the program goes on for {GONE_S:g} s at most"
                )
                told = True
        else:
            return
        try:
            _skate.node_give_up(
                f"the head of the Ray cluster, at {self._head}, has not answered for {GONE_S:g} s ({why})"
            )
        except Exception as e:  # it has ended meanwhile
            self._warn(e)
        self._leave()

    def _silent(self) -> str:
        """Why nobody answers at the address of the cluster's head; "": somebody does."""
        host, _, port = self._head.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), 2 * LOOK_S).close()
        except OSError as e:
            return e.strerror or str(e)
        return ""

    def _warn(self, what: object) -> None:
        if not self._closed.is_set():
            logging.getLogger("skate").warning("%s", what)

    def _open(self, n: dict[str, Any], place: int) -> _Node:
        """Starts the actor of a node of Ray's, and asks it to open."""
        self._starts[n["NodeID"]] = self._starts.get(n["NodeID"], 0) + 1
        has = n["Resources"]
        knobs = {
            "num_cpus": self._wanted.cpus(has["CPU"]),
            "num_gpus": int(has.get("GPU", 0)),
            "memory": int(has.get("memory", 0)),
            "object_store_memory": int(has.get("object_store_memory", 0)),
        }
        by_port = self.connections in ("auto", "tcp") and not carry.wants_tls()
        given = self._wanted.given(
            place,
            # behind a carrier, only processes of its machine connect to it
            n["NodeManagerAddress"] if by_port else "127.0.0.1",
            n["NodeManagerAddress"],
            {**node.settings(self._wanted.conf), **knobs},
            {k: has.get(k, 0.0) for k in self._names},
            labels={k: v for k, v in n.get("Labels", {}).items() if k != _labels.ID},
            carrier=carry.name_of(self._wanted.number, place),
        )
        where = importlib.import_module(
            "ray.util.scheduling_strategies"
        ).NodeAffinitySchedulingStrategy(n["NodeID"], soft=False)
        actor = (
            self._ray.remote(_actor_class())
            .options(
                num_cpus=knobs["num_cpus"],
                num_gpus=knobs["num_gpus"],
                resources={k: v for k, v in has.items() if k in self._names},
                scheduling_strategy=where,
                max_concurrency=2,
            )
            .remote()
        )
        opened = actor.open.remote(
            "skate",
            _skate.__version__,
            sys.version_info[:2],
            by_value.dumps(tuple(given), protocol=5),
        )
        self._nodes.append(_Node(n, where, given, actor, opened))
        return self._nodes[-1]

    def _answer(self, x: _Node, until: float) -> None:
        """Waits for the answer of a node, which is its address, and lets it serve."""
        ready, _ = self._ray.wait([x.opened], timeout=max(0.0, until - time.monotonic()))
        if not ready:
            raise ConnectionError(
                f"{x.name} does not answer within {CONNECT_S:g} s: if its CPUs are in use by others, take fewer by init(num_cpus=N)"
            )
        x.address, why = self._ray.get(x.opened)
        if why:
            raise RuntimeError(f"{x.name} {why}")
        x.end = x.actor.wait.remote()

    def _at_exit(self) -> None:
        sys.modules["skate"].shutdown()

    def close(self, patience_s: float = PATIENCE_S) -> None:
        """Waits for the nodes, which end with the driver's engine, and leaves the cluster if this
        object has joined it."""
        atexit.unregister(self._at_exit)
        self._closed.set()
        self._coming.put(None)
        with self._leaving:
            if self._ray.is_initialized():  # the program may have shut Ray down already
                if ends := [x.end for x in self._nodes if x.end is not None]:
                    self._ray.wait(ends, num_returns=len(ends), timeout=patience_s)
                for x in list(self._nodes):
                    self._drop(x)
        if self._tls is not None:
            self._tls.close()
        if self._calls is not None:
            self._calls.close()
        self._nodes.clear()
        self._leave()

    def _leave(self) -> None:
        """Leaves the cluster if this object has joined it."""
        with self._leaving:
            if self._ours:
                self._ray.shutdown()
            self._ours = False


def _is_users(resource: str) -> bool:
    return resource not in OF_RAY and not resource.startswith("node:")
