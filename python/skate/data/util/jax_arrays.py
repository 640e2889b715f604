"""Batches as jax.Arrays (iter_jax_batches)."""

from __future__ import annotations

from typing import Any

from skate._deps import np
from skate.data.checks import library
from skate.data.util import dtypes as _dtypes


class ToJax:
    """Makes the jax.Arrays of a batch.

    Args:
        dtypes: A dtype, or a dict of dtypes by column, or None.
        device: A jax.Device or a jax.sharding.Sharding, or None.
    """

    def __init__(self, dtypes: Any, device: Any):
        self.jax = library("jax", "iter_jax_batches")
        self.dtypes, self.device = dtypes, device

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        # one call for all columns: JAX sends them together
        return self.jax.device_put({k: self._array(k, v) for k, v in batch.items()}, self.device)

    def _array(self, name: str, v: Any) -> Any:
        if v.dtype.kind not in "biufc":
            raise TypeError(
                f"iter_jax_batches: column {name!r} holds {v.dtype}, for which JAX has no type; leave it out with drop_columns([{name!r}])"
            )
        dtype = _dtypes.checked(self.dtypes, name, v)
        if dtype is not None:
            v = v.astype(dtype)
        if v.dtype.kind in "iu" and v.dtype.itemsize == 8 and v.size:
            self._check_room(name, v)
        return v

    def _check_room(self, name: str, v: Any) -> None:
        if self.jax.config.jax_enable_x64:
            return
        room = np.iinfo(np.int32 if v.dtype.kind == "i" else np.uint32)
        if v.min() < room.min or v.max() > room.max:
            raise ValueError(
                f"iter_jax_batches: column {name!r} has whole numbers that 32 bits cannot hold, which JAX would make of them: set jax_enable_x64, or dtypes={{{name!r}: 'float32'}}"
            )
