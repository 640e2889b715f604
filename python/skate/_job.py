"""What every process of the job knows of it: its namespace, its session, its labels. The driver
says it when its engine opens; a worker reads it from the first note to its fork server (not from
its environment, one value of which is at most 128 KiB).

Below all that asks for it (actors, contexts, placement groups). What opens the engine is above
them, in api.py, which leaves its function here."""

from __future__ import annotations

import _pickle as pickle  # without re and struct
import os

from skate import _skate
from skate._deps import hashlib, hmac

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# a namespace that begins so goes on with the name of a module: the driver calls its serve() once a
# worker has made an actor there
SERVED = "_skate:"

_facts: dict[str, Any] | None = None
handed = b""  # in a worker: what the driver said, pickled
_own, _given = os.urandom(32), b""  # the secret of a driver; in a worker that of its driver
_others: set[bytes] = set()
_open: Callable[[], None] | None = None


def tell(given: dict[str, Any] | None) -> None:
    """In the driver: this is what there is to know; None: the engine is shut down."""
    global _facts
    _facts = given


def opened_by(open_engine: Callable[[], None]) -> None:
    """What ensure() calls."""
    global _open
    _open = open_engine


def ensure() -> None:
    """Opens the engine of this process with the defaults, where none is open."""
    if not _skate.is_initialized():
        assert _open is not None  # skate/__init__.py imports api
        _open()


def facts() -> dict[str, Any]:
    """Namespace, lifetime (default of actors), session, labels, names of custom resources,
    runtime_env ...; {} without an engine."""
    global _facts
    if _facts is None and _skate.in_worker():
        _facts = pickle.loads(handed)
    return _facts or {}


def hand(job: bytes) -> None:
    """In a process that works for a driver: what that one said, pickled."""
    global handed, _facts, _given
    handed, _facts, _given = job, None, b""


def secret() -> bytes:
    """32 random bytes that the processes of this job know, and nobody else: by them it knows its
    own bytes (data/values/marks.py, signed()). Never in a file."""
    global _given
    if not handed:
        return _own
    _given = _given or pickle.loads(handed)["secret"]
    return _given


def join(other: bytes) -> None:
    """This process takes part in another job, too, whose secret this is."""
    _others.add(other)


def secrets() -> tuple[bytes, ...]:
    """Of the jobs that this process takes part in, its own first."""
    return (secret(), *_others)


def signed(data: bytes) -> bytes:
    """data, a pickle, with its signature behind it, which unpickling leaves unread."""
    return data + _signature(secret(), data)


def is_signed(data: bytes) -> bool:
    """Whether signed() of this job gave it."""
    return any(hmac.compare_digest(data[-32:], _signature(s, data[:-32])) for s in secrets())


def _signature(key: bytes, data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=32, key=key).digest()


def namespace() -> str:
    """Where names without a namespace are."""
    ensure()
    return facts().get("namespace", "")


def default_lifetime() -> str:
    """Of actors whose options do not say: "non_detached" or "detached"."""
    return facts().get("lifetime", "non_detached")


def session() -> str:
    """Name of this life of the engine."""
    return facts().get("session", "")
