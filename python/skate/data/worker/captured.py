"""Sends the parameters of operators to the workers: users' functions with their code, the values
that they capture, and their arguments.

The description of a stage is sent with each of its tasks, so it has to be small. If the pickled
parameters of an operator are large, they become one object in the store, and the description has
only the object's number: a worker reads the object once, in the first task of the stage that it
runs. Buffers of an array (pickle protocol 5) are not copied: in the worker they are copy-on-write
pages over the store (py/value/cow_pages.c), which all workers share until one writes. The driver
holds the user's own object and the one in the store, but no pickle.

Lifetime: the object lives as long as the run holds its ObjectRef (execute.run). A worker holds what
it has read while the object exists. When the worker is idle, or reads another such object, it asks
whether the object still exists (forget() in stage.py), and drops its copy if not.
"""

from __future__ import annotations

import logging
import pickle
import weakref
from collections.abc import Iterator
from typing import Any

from skate import _skate
from skate.calls import ambient_environment
from skate.serialize import TOLD, cloudpickled, heaviest

SMALL = 256 << 10  # the most bytes of pickled parameters that are sent with each task
SHARED = 1 << 20  # the least bytes of a buffer that is shared and not copied


class _Load:
    """Parameters that are to be put into the store: the pickle and its buffers, which are written
    without another copy."""

    def __init__(self, data: bytes, buffers: list[Any]):
        self.data, self.buffers = data, buffers

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _parts, (pickle.PickleBuffer(self.data), *self.buffers)


def _parts(data: Any, *buffers: Any) -> tuple[Any, tuple[Any, ...]]:
    return data, buffers


class _Away:
    """Stands in a description for parameters that are in the store."""

    __slots__ = ("number", "run")

    def __init__(self, number: int, run: int):
        self.number, self.run = number, run

    def __reduce__(self) -> Any:
        return _Away, (self.number, self.run)


def dump(params: dict[str, Any], label: str, hold: list[Any] | None) -> bytes:
    """Parameters as bytes of a description. hold: a list to which ObjectRefs that must live as long
    as the run are appended; None: all parameters go into the bytes. Errors of pickling are
    raised."""
    buffers: list[Any] = []
    data = cloudpickled(params, buffers, lambda b: hold is not None and b.raw().nbytes >= SHARED)
    size = len(data) + sum(b.raw().nbytes for b in buffers)
    _tell(params, label, size)
    if hold is None or size <= SMALL:
        return ambient_environment.along(data)
    ref = _skate.put(_Load(data, buffers))
    hold.append(ref)
    return ambient_environment.along(pickle.dumps(_Away(ref._number(), id(hold)), 5))


def load(data: bytes) -> tuple[dict[str, Any], int]:
    """In a worker: returns (parameters, number of the object that has them; 0: no object)."""
    params = pickle.loads(data)
    if not isinstance(params, _Away):
        return params, 0
    view, buffers = _skate.borrowed(params.number)
    return pickle.loads(view, buffers=[_skate.own(b) for b in buffers]), params.number


# ---- The warning about large functions.

_told: weakref.WeakSet[Any] = weakref.WeakSet()


def _tell(params: dict[str, Any], label: str, size: int) -> None:
    """Warns about a large function, once for each function, and names the part that makes it
    large."""
    fn = params.get("fn")
    if params.get("shared"):  # made by skate, not by the user
        return
    try:
        if size < TOLD or fn in _told:
            return
        _told.add(fn)
    except TypeError:  # the object cannot be weakly referenced, or cannot be hashed
        pass
    found = heaviest(list(_given(params)), size)
    what = f": {found[0]} ({found[1]}, {found[2] / 1e6:.0f} MB)" if found else ""
    logging.getLogger("ray.data").warning(
        "%s takes %.0f MB along to the workers, in each run%s. It can be made there instead (in the constructor of a class), or be put once: "
        "ref = skate.put(value) here, skate.get(ref) in the function.",
        label,
        size / 1e6,
        what,
    )


def _given(params: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yields (name, value) of everything that the user passed to an operator."""
    fn = params.get("fn")
    if fn is not None:
        yield getattr(fn, "__qualname__", None) or type(fn).__name__, fn
    ctor = params.get("ctor") or ((), {})
    for name, args, kwargs in (
        ("fn", params.get("fn_args") or (), params.get("fn_kwargs") or {}),
        ("fn_constructor", ctor[0], ctor[1]),
    ):
        for i, value in enumerate(args):
            yield f"{name}_args[{i}]", value
        for key, value in kwargs.items():
            yield f"{name}_kwargs[{key!r}]", value
