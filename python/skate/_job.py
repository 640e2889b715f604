"""The facts about a job that each of its processes knows: its namespace, its session, its labels.
The driver sets it when its engine opens; a worker gets it with the first note to its fork server
(not from its environment, where one value is at most 128 KiB).

This module is below all modules that use it (actors, contexts, placement groups). api.py is above
them; it stores here the function that opens the engine.
"""

from __future__ import annotations

import _pickle as pickle  # without re and struct
import os

from skate import _skate
from skate._deps import hashlib, hmac

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# The prefix of namespaces for service actors; a module's name follows it. When a worker has made an
# actor in the namespace, the driver calls serve() of this module.
SERVED = "_skate:"

_facts: dict[str, Any] | None = None
handed = b""  # in a worker: the driver's facts, pickled
# the secret of this driver; in a worker: the secret of its driver
_own, _given = os.urandom(32), b""
_others: set[bytes] = set()
_open: Callable[[], None] | None = None


def tell(given: dict[str, Any] | None) -> None:
    """In the driver: sets the facts about the job. None: the engine is shut down."""
    global _facts
    _facts = given


def opened_by(open_engine: Callable[[], None]) -> None:
    """Sets the function that ensure() calls to open the engine."""
    global _open
    _open = open_engine


def ensure() -> None:
    """Opens the engine of this process with the defaults, if none is open."""
    if not _skate.is_initialized():
        assert _open is not None  # skate/__init__.py imports api
        _open()


def on_nodes() -> bool:
    """In a driver: whether tasks run on nodes, which may be other machines, and not in workers of
    this process."""
    return _skate.engine() in ("guest", "cluster")


def is_own(number: int) -> bool:
    """Whether this process, or one of the same node, made the object, actor or placement group with
    this number: the driver and each node have numbers of their own (SK_ID_RANGE of
    src/engine/foreign.h)."""
    job = facts()
    return number >> 53 == (job["node"] if job.get("on_node") else 0)


def facts() -> dict[str, Any]:
    """The facts about the job: namespace, default lifetime of actors, session, labels, names of
    custom resources, runtime_env and so on; {} without an engine."""
    global _facts
    if _facts is None and _skate.in_worker():
        _facts = pickle.loads(handed)
    return _facts or {}


def hand(job: bytes) -> None:
    """In a process that works for a driver: sets the facts that the driver has pickled."""
    global handed, _facts, _given
    handed, _facts, _given = job, None, b""


def secret() -> bytes:
    """32 random bytes that only the processes of this job know. With them the job recognises its
    own bytes (data/values/marks.py, signed()). They are never written to a file."""
    global _given
    if not handed:
        return _own
    _given = _given or pickle.loads(handed)["secret"]
    return _given


def join(other: bytes) -> None:
    """Adds the secret of another job that this process takes part in."""
    _others.add(other)


def secrets() -> tuple[bytes, ...]:
    """The secrets of the jobs that this process takes part in, its own first."""
    return (secret(), *_others)


def signed(data: bytes) -> bytes:
    """A pickle followed by its signature, which unpickling does not read."""
    return data + _signature(secret(), data)


def is_signed(data: bytes) -> bool:
    """Whether the bytes were made by signed() in this job."""
    return any(hmac.compare_digest(data[-32:], _signature(s, data[:-32])) for s in secrets())


def _signature(key: bytes, data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=32, key=key).digest()


def namespace() -> str:
    """The namespace in which the names of actors are looked up if the caller gives no namespace."""
    ensure()
    return facts().get("namespace", "")


def default_lifetime() -> str:
    """The lifetime of actors whose options name none: "non_detached" or "detached"."""
    return facts().get("lifetime", "non_detached")


def session() -> str:
    """The name of this session, which lasts from the opening to the shutdown of the engine."""
    return facts().get("session", "")
