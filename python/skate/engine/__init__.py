"""Engines that are written in Python (guests): `skate.init(_engine="module:Class")`, or
SKATE_ENGINE=module:Class.

An engine runs tasks and stores values. skate manages ids, reference counts, tasks that wait for
arguments, and scheduling. The engine's `Class(conf)` gets the configuration (config.py, and `job`:
bytes for worker.begin) and has the methods of Engine below. One thread of skate calls all methods
but get(); none of them but close() should wait. examples/pool_engine.py is a complete engine;
docs/design/guest.md has the reasons.

skate passes a value to the engine as (handle, kind, bytes): a handle that the engine has given, or
None and the value itself. The engine passes a value to skate as (handle, 0, size in bytes), or as
(None, kind, bytes). A handle is any object; skate drops it when no reference to its value is left.
Values of kind worker.NOTE, which streams yield before each block, are always passed as (None, kind,
bytes).
"""

from __future__ import annotations

import os

from skate._deps import importlib
from skate.calls import ambient_environment

PATIENCE_S = 10.0  # for nodes to end with their driver
FAILED_S = 1.0  # ... which could not reach one of them, so that its error comes soon

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from skate.engine import node

    Value = tuple[Any, int, Any]

    class Engine(Protocol):
        """The methods that an engine's class has to have."""

        def __init__(self, conf: dict[str, Any]) -> None: ...
        def begin(self, wake: Callable[[], None]) -> None:
            """Starts the engine; it is the first call. The engine may call wake() from any thread
            when poll() has events."""

        def nodes(self) -> list[dict[str, Any]]:
            """The nodes, each as a dict: number (not 0, never used again), name, alive, num_cpus,
            num_gpus, memory, object_store_memory, disk_bytes, disk_limit (0: the node does not
            spill, so a full node is an error)."""
            ...

        def define(self, fn: int, name: str, definition: bytes) -> None:
            """Passes the definition of a function, class or method, to which tasks refer by its
            number `fn`; worker.call needs these bytes."""

        def submit(self, task: dict[str, Any]) -> None:
            """Starts a task whose arguments exist and whose actor has begun.

            The keys of `task`: task, fn, name, args (values), n_returns (None: a stream), need
            ({"CPU": 1.0, ...}), actor (0: none), is_init (the task is the constructor of the
            actor), max_retries (retries after a death; -1: no limit; for an actor: its restarts),
            retry_exceptions, max_calls (the process ends after this many runs of fn; 0: no limit),
            node (the number of the node where the task should run; 0: any), node_only (the task may
            run on no other node: if the node is lost, the task ends with SK_EINFEASIBLE). If the
            engine cannot run such a task it raises NotImplementedError, and the task ends with that
            error.
            """

        def cancel(self, task: int, force: bool) -> None:
            """Cancels a task; an event for its end follows all the same."""

        def actor_end(self, actor: int, restart: bool) -> None:
            """Ends an actor at once; an event follows for the end of each of its calls."""

        def put(self, kind: int, data: bytes) -> Any:
            """Stores a large value of the driver; returns a handle for it."""

        def get(self, handle: Any, timeout: float | None) -> tuple[int, Any]:
            """Returns (kind, bytes or a buffer) of a value. It may be called from any thread.
            Raises TimeoutError; LookupError if the value is lost."""
            ...

        def poll(self) -> list[dict[str, Any]]:
            """The events since the last call, in order; does not wait. Each is {"kind": "started" |
            "yielded" | "done" | "failed", "task": number, "values": [...], "node": number of a
            node, "attempt": 0.., "run_s": seconds}. The values of a stream are in its "yielded"
            events, and its "done" has none. "failed" has one value, an error, or "code" (such as
            "SK_EDEAD") and "text"."""
            ...

        def close(self) -> None:
            """Stops the engine; it is the last call."""

    class Starter(Protocol):
        """What starts the nodes of an engine `cluster`, or finds those that others have started. A
        node is a process that calls node.open_node() and node.serve().

        Attributes:
            conf: What the engine has to know: addresses ("host:port" of each node, by which the
                driver and the other nodes reach it), and resources (the custom ones of all
                nodes).
        """

        conf: dict[str, Any]

        def __init__(self, wanted: node.Wanted) -> None:
            """Has all nodes open and listening. An error has to come soon, and leaves nothing that
            runs."""

        def close(self, patience_s: float = PATIENCE_S) -> None:
            """Waits so long for what it has started, and ends what is left; nodes end with the
            driver's engine, which is closed by then. It is the last call."""


# The Starters, as module:Class. Programs may enter their own.
STARTERS = {
    "cluster": "skate.engine.nodes:Here",
    "hosts": "skate.engine.hosts:Hosts",
    "ray": "skate.engine.ray:Nodes",
}

# The engines whose workers are processes of this machine.
HERE = ("local", "cluster")

# The nodes of the engine that is open, as long as this process has started them.
_nodes: Any = None


def open_processes(
    conf: dict[str, Any],
    job: bytes,
    runtime_env: dict[str, Any],
    address: str | None,
    num_cpus: float | None,
) -> dict[str, Any]:
    """Starts the processes of an engine that has others than the workers of a local engine, and
    returns what init() of C has to know of them. {} for engines of this process and its workers.

    Args:
        conf: The configuration of the engine (config.py).
        job: The facts about the job (_job.py), pickled.
        runtime_env: The environment of the workers.
        address: Where a Ray cluster is, or None.
        num_cpus: The CPUs that init() was given, or None.
    """
    global _nodes
    name = conf["engine"]
    if name in STARTERS:
        about = {
            "job_number": int.from_bytes(os.urandom(7), "little"),
            "job_secret": os.urandom(32),
        }
        wanted = _found("skate.engine.node:Wanted")
        _nodes = _found(STARTERS[name])(
            wanted(conf, job, runtime_env, address, num_cpus, *about.values())
        )
        return {"preload": b"", "engine": "cluster", **about, **_nodes.conf}
    if ":" not in name:
        return {}  # it is of C, or there is none, which C says
    # Processes of such an engine have their own sys.path: the program's sys.path is sent with
    # functions.
    ambient_environment.begin([], None)
    guest = _found(name)({**conf, "job": job, "address": address})
    return {"preload": b"", "guest": guest}


def close_processes(patience_s: float = PATIENCE_S) -> None:
    """Waits so long for the end of the processes that open_processes() has started. The engine is
    closed."""
    global _nodes
    nodes, _nodes = _nodes, None
    if nodes is not None:
        nodes.close(patience_s)


def connections() -> str:
    """What carries bytes between the nodes of this program: "tcp", "TLS" or "calls" (carry.py)."""
    return getattr(_nodes, "connections", "tcp")


def of_address(address: str, name: str | None) -> str:
    """The name of the engine for an address of another machine. ConnectionError if no engine takes
    it."""
    if address.startswith("skate://"):
        return name or "hosts"
    if address.startswith("ray://"):
        raise ConnectionError(
            f"skate.init(address={address!r}): Ray Client has no streaming tasks, which skate needs; run this program on a node of the cluster, with the address "
            'of its head (HOST:6379) or _engine="ray", address="auto"'
        )
    if not address.rpartition(":")[2].isdigit():
        raise ConnectionError(
            f'skate.init(address={address!r}): "HOST:PORT" of a Ray cluster or "skate://HOST:PORT,..." is wanted, or nothing for this machine'
        )
    return name or "ray"


def _found(name: str) -> Any:
    """The class that `module:Class` names."""
    module, _, cls = name.partition(":")
    try:
        return getattr(importlib.import_module(module), cls)
    except (ImportError, AttributeError) as e:
        raise ValueError(f"there is no engine {name!r}: {e}") from e
