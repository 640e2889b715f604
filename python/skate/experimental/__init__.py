"""skate.experimental: those names of ray.experimental that are useful on one machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skate import ObjectRef, _lazy, is_initialized
from skate.util.state import api as state_api

__path__.append(f"{_lazy.OF_RAY}/experimental")


def get_object_locations(
    obj_refs: Sequence[Any], timeout_ms: int = -1
) -> dict[Any, dict[str, Any]]:
    """Where objects are, and their sizes.

    Args:
        obj_refs: References.
        timeout_ms: Has no effect: the answer needs no other machine.

    Returns:
        For each reference a dict with "node_ids" (the hex id of this machine; empty while the
        object does not exist), "object_size" in bytes (None while the object does not exist) and
        "did_spill" (whether it is on disk only).

    Raises:
        RuntimeError: No engine is running.
        TypeError: An item of the list is no reference.
    """
    if not is_initialized():
        raise RuntimeError("get_object_locations: skate has not been started; call init() first")
    for ref in obj_refs:
        if not isinstance(ref, ObjectRef):
            raise TypeError(
                f"get_object_locations: references are wanted, not {type(ref).__name__}"
            )
    return state_api.object_places(obj_refs) if obj_refs else {}


def get_local_object_locations(obj_refs: Sequence[Any]) -> dict[Any, dict[str, Any]]:
    """The same as get_object_locations().

    Args:
        obj_refs: References.
    """
    return get_object_locations(obj_refs)


def __getattr__(name):
    return _lazy.attribute("skate.experimental", name)
