"""Small functions of ray.util, under the same names."""

from __future__ import annotations

import skate
from skate.actor import list_named_actors  # noqa: F401

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any


def get_node_ip_address() -> str:
    """The IP address of this machine, as in skate.nodes()."""
    return "127.0.0.1"


def as_completed(
    refs: Iterable[skate.ObjectRef[Any]],
    *,
    chunk_size: int = 10,
    yield_obj_refs: bool = False,
    **kwargs: Any,
) -> Iterator[Any]:
    """Yields the values (or, with yield_obj_refs, the references) of `refs` as they become ready.
    kwargs: arguments of wait()."""
    pending = list(refs)
    if chunk_size < 1:
        raise ValueError("`chunk_size` must be >= 1")
    while pending:
        first = {"timeout": None if chunk_size == 1 else 0, **kwargs}
        ready, pending = skate.wait(pending, num_returns=min(chunk_size, len(pending)), **first)
        if not ready:
            ready, pending = skate.wait(pending, **{**kwargs, "num_returns": 1})
        yield from ready if yield_obj_refs else skate.get(ready)


def map_unordered(
    fn: Any,
    items: Iterable[Any],
    *,
    backpressure_size: int | float | None = 100,
    chunk_size: int = 10,
    yield_obj_refs: bool = False,
    **kwargs: Any,
) -> Iterator[Any]:
    """Runs fn.remote(item) for each item, at most backpressure_size at a time; yields the values as
    they become ready."""
    if not hasattr(fn, "remote"):
        raise ValueError("`fn` must be a remote function")
    if chunk_size < 1:
        raise ValueError("`chunk_size` must be >= 1")
    if backpressure_size is None:
        backpressure_size = float("inf")
    elif backpressure_size <= 0:
        raise ValueError("backpressure_size must be positive")
    it, pending, more = iter(items), [], True
    while more or pending:
        while more and len(pending) < backpressure_size:
            try:
                pending.append(fn.remote(next(it)))
            except StopIteration:
                more = False
        if pending:
            ready, pending = skate.wait(pending, **{**kwargs, "num_returns": 1})
            yield from ready if yield_obj_refs else skate.get(ready)
