"""What every process of the job knows of it: its namespace, its session, its labels. The driver says it when its engine opens; a worker reads it
from the first note to its fork server (not from its environment, one value of which is at most 128 KiB).

Below all that asks for it (actors, contexts, placement groups). What opens the engine is above them, in api.py, which leaves its function here."""

from __future__ import annotations

import _pickle as pickle  # without re and struct

from skate import _skate

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

SERVED = "_skate:"  # a namespace that begins so goes on with the name of a module: the driver calls its serve() once a worker has made an actor there

_facts: dict[str, Any] | None = None
handed = b""  # in a worker: what the driver said, pickled
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
    """Namespace, lifetime (default of actors), session, labels, names of custom resources, runtime_env ...; {} without an engine."""
    global _facts
    if _facts is None and _skate.in_worker():
        _facts = pickle.loads(handed)
    return _facts or {}


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
