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
import importlib
import logging
import os
import pickle
import socket
import sys
import threading
import time

from skate import _labels, _skate
from skate.calls import ambient_environment, by_value
from skate.engine import node

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from typing import Any

OLDEST = (2, 50)
LOOK_S = 1.0  # how often the driver asks for nodes that have joined
PATIENCE_S = 10.0  # seconds to wait for answers that arrive at once unless something is wrong
# the most seconds for joining a cluster and checking all its nodes, so that an error comes within
# 10 s
CONNECT_S = 8.0
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
        raise ConnectionError(f"{what}: no answer within {seconds:.0f} s")
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
            return f"{of.listen}:{self.node.open_node(of)}", ""

        def wait(self) -> None:
            """Serves the driver until it has ended."""
            self.node.serve()

    return SkateNode


class Nodes:
    """The nodes of an engine `cluster` on a Ray cluster.

    Args:
        conf: The configuration of the engine (config.py).
        job: The facts about the job (_job.py), pickled.
        runtime_env: The environment of the workers.
        address: "HOST:PORT", "auto", "local", or None for the Ray of this process.
        num_cpus: The CPUs to take of each node. None: all that the node has.

    Raises:
        ConnectionError: There is no cluster, or a node does not answer.
        RuntimeError: A node has another skate or another Python.
    """

    def __init__(
        self,
        conf: dict[str, Any],
        job: bytes,
        runtime_env: dict[str, Any],
        address: str | None,
        num_cpus: float | None,
    ):
        # The program's sys.path is sent with functions: it may mean nothing on other machines.
        ambient_environment.begin([], None)
        self._ray = _ray()
        until = time.monotonic() + CONNECT_S
        self._about = conf, job, runtime_env, num_cpus
        self._actors: list[Any] = []
        self._ends: list[Any] = []
        self._known: set[str] = set()
        self._closed = threading.Event()
        self._ours = _connect(self._ray, conf, address, until)
        # Registered after Ray's exit handler, so it runs before it; after Ray's handler no node
        # could be ended.
        atexit.register(self._at_exit)
        if address == "local":
            # the cluster has to start its first worker first
            until = time.monotonic() + 3 * CONNECT_S
        self._number, self._secret = int.from_bytes(os.urandom(7), "little"), os.urandom(32)
        there = self._new()
        self._names = sorted({k for n in there for k in n["Resources"] if _is_users(k)})
        try:
            if not there:
                raise ConnectionError("no node of the Ray cluster has CPUs")
            opened = [self._open(n) for n in there]
            addresses = [
                self._answer(n, *asked, until) for n, asked in zip(there, opened, strict=True)
            ]
        except BaseException:
            self.close()
            raise
        self.conf: dict[str, Any] = {
            "job_number": self._number,
            "job_secret": self._secret,
            "addresses": addresses,
            "resources": {k: sum(n["Resources"].get(k, 0.0) for n in there) for k in self._names},
        }
        threading.Thread(target=self._watch, name="skate-ray-nodes", daemon=True).start()

    def _new(self) -> list[dict[str, Any]]:
        """The nodes of Ray's with CPUs that are not known yet."""
        out = [
            n
            for n in self._ray.nodes()
            if n["Alive"] and n["Resources"].get("CPU") and n["NodeID"] not in self._known
        ]
        self._known |= {n["NodeID"] for n in out}
        return out

    def _watch(self) -> None:
        """Lets nodes join that come to the cluster while the engine is open. One that cannot is
        told in the log, and left out."""
        while not self._closed.wait(LOOK_S):
            try:
                for n in self._new():
                    self._join(n)
            except Exception as e:
                if not self._closed.is_set():
                    logging.getLogger("skate").warning("%s", e)

    def _join(self, n: dict[str, Any]) -> None:
        """Lets a node join; one that cannot leaves its place, which is its number, to the next."""
        actor, opened = self._open(n)
        try:
            until = time.monotonic() + 3 * CONNECT_S
            _skate.node_join(self._answer(n, actor, opened, until))
        except BaseException:
            self._actors.remove(actor)
            self._ray.kill(actor)
            raise

    def _open(self, n: dict[str, Any]) -> tuple[Any, Any]:
        """Starts the actor of a node of Ray's, and asks it to open: (actor, its answer)."""
        conf, job, runtime_env, num_cpus = self._about
        has = n["Resources"]
        knobs = {
            "num_cpus": min(num_cpus or has["CPU"], has["CPU"]),
            "num_gpus": int(has.get("GPU", 0)),
            "memory": int(has.get("memory", 0)),
            "object_store_memory": int(has.get("object_store_memory", 0)),
        }
        given = node.Given(
            self._number,
            self._secret,
            n["NodeManagerAddress"],
            n["NodeManagerAddress"],
            job,
            runtime_env,
            {**node.settings(conf), **knobs},
            {k: has.get(k, 0.0) for k in self._names},
            1 + len(self._actors),
            labels={k: v for k, v in n.get("Labels", {}).items() if k != _labels.ID},
        )
        at = importlib.import_module(
            "ray.util.scheduling_strategies"
        ).NodeAffinitySchedulingStrategy
        actor = (
            self._ray.remote(_actor_class())
            .options(
                num_cpus=knobs["num_cpus"],
                num_gpus=knobs["num_gpus"],
                resources={k: v for k, v in has.items() if k in self._names},
                scheduling_strategy=at(n["NodeID"], soft=False),
                max_concurrency=2,
            )
            .remote()
        )
        self._actors.append(actor)
        return actor, actor.open.remote(
            "skate",
            _skate.__version__,
            sys.version_info[:2],
            by_value.dumps(tuple(given), protocol=5),
        )

    def _answer(self, n: dict[str, Any], actor: Any, opened: Any, until: float) -> str:
        """Waits for the answer of a node, and lets it serve. Returns its address."""
        name = f"node {n['NodeManagerAddress']} of the Ray cluster"
        ready, _ = self._ray.wait([opened], timeout=max(0.0, until - time.monotonic()))
        if not ready:
            raise ConnectionError(
                f"{name} does not answer within {CONNECT_S:g} s: if its CPUs are in use by others, take fewer by init(num_cpus=N)"
            )
        address, why = self._ray.get(opened)
        if why:
            raise RuntimeError(f"{name} {why}")
        self._ends.append(actor.wait.remote())
        return address

    def _at_exit(self) -> None:
        sys.modules["skate"].shutdown()

    def close(self) -> None:
        """Waits for the nodes, which end with the driver's engine, and leaves the cluster if this
        object has joined it."""
        atexit.unregister(self._at_exit)
        self._closed.set()
        if self._ray.is_initialized():  # the program may have shut Ray down already
            if self._ends:
                self._ray.wait(self._ends, num_returns=len(self._ends), timeout=PATIENCE_S)
            for actor in self._actors:
                self._ray.kill(actor)
        self._actors.clear()
        if self._ours:
            self._ray.shutdown()


def _is_users(resource: str) -> bool:
    return resource not in OF_RAY and not resource.startswith("node:")
