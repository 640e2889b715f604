"""Engines that are written in Python: `skate.init(_engine="module:Class")`, or
SKATE_ENGINE=module:Class.

An engine runs tasks and keeps values; skate has the ids, the reference counts, the tasks that wait
for arguments and all that is scheduled. `Class(conf)` gets the configuration (config.py, and `job`:
bytes for worker.begin) and has the methods of Engine below. All but get() are called by one thread
of skate's; none but close() should wait. examples/pool_engine.py is a whole one;
docs/design/guest.md says why it is so.

A value on its way to the engine is (handle, kind, bytes): a handle that the engine has given, or
None and the value itself. On its way from the engine it is (handle, 0, size in bytes), or (None,
kind, bytes). A handle is any object; it is dropped when nothing refers to its value any more.
Values of kind worker.NOTE, which streams yield before each block, always come as (None, kind,
bytes).
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    Value = tuple[Any, int, Any]

    class Engine(Protocol):
        """What a class has to have."""

        def __init__(self, conf: dict[str, Any]) -> None: ...
        def begin(self, wake: Callable[[], None]) -> None:
            """First. wake() may be called from any thread: poll() has something to tell."""

        def nodes(self) -> list[dict[str, Any]]:
            """number (not 0, never used again), name, alive, num_cpus, num_gpus, memory,
            object_store_memory, disk_bytes, disk_limit (0: a full node is an error)."""
            ...

        def define(self, fn: int, name: str, definition: bytes) -> None:
            """A function, class or method that tasks name by its number; worker.call wants the
            bytes."""

        def submit(self, task: dict[str, Any]) -> None:
            """task, fn, name, args (values), n_returns (None: a stream), need ({"CPU": 1.0, ...}),
            actor (0: none), is_init (it makes the actor), max_retries (after a death; -1: for ever;
            of an actor: its restarts), retry_exceptions, max_calls (its process ends after so many
            runs of fn; 0: no limit), node (number of the one where it should be; 0: anywhere),
            node_only (and nowhere else: when that node goes it ends with SK_EINFEASIBLE). It can
            begin: its arguments exist, its actor has begun. What the engine cannot is
            NotImplementedError, and the task ends with it."""

        def cancel(self, task: int, force: bool) -> None:
            """It ends with an event all the same."""

        def actor_end(self, actor: int, restart: bool) -> None:
            """Now; the calls that it has end with events."""

        def put(self, kind: int, data: bytes) -> Any:
            """A handle for a large value of the driver."""

        def get(self, handle: Any, timeout: float | None) -> tuple[int, Any]:
            """(kind, bytes or a buffer). From any thread. TimeoutError; LookupError: it is lost."""
            ...

        def poll(self) -> list[dict[str, Any]]:
            """What has happened, in order: {"kind": "started" | "yielded" | "done" | "failed",
            "task": number, "values": [...], "node": number of a node, "attempt": 0.., "run_s":
            seconds}. Of a stream "yielded" has the values and "done" none; "failed" has one value,
            an error, or "code" (as "SK_EDEAD") and "text". Does not wait."""
            ...

        def close(self) -> None:
            """Last."""


NAMED = {"ray": "skate.engine.ray:Ray"}


def is_foreign(name: str) -> bool:
    """Whether an engine of this name is one of Python's."""
    return ":" in name or name in NAMED


def of_address(address: str, name: str | None) -> str:
    """The engine for an address that is not this machine's. ConnectionError: there is none."""
    if address.startswith("ray://"):
        raise ConnectionError(
            f"skate.init(address={address!r}): Ray Client has no streaming tasks, which skate needs; run this program on a node of the cluster, with the address "
            'of its head (HOST:6379) or _engine="ray", address="auto"'
        )
    if not address.rpartition(":")[2].isdigit():
        raise ConnectionError(
            f'skate.init(address={address!r}): "HOST:PORT" of a Ray cluster is wanted, or nothing for this machine'
        )
    return name or "ray"


def make(name: str, conf: dict[str, Any]) -> Any:
    """The engine `module:Class`, or that of NAMED."""
    module, _, cls = NAMED.get(name, name).partition(":")
    try:
        found = getattr(importlib.import_module(module), cls)
    except (ImportError, AttributeError) as e:
        raise ValueError(f"there is no engine {name!r}: {e}") from e
    return found(conf)
