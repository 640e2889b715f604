"""Functions that convert batches of a Dataset to training batches, for
iter_torch_batches(collate_fn=...). A function's base class determines its batch format."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any

from skate._deps import np, torch
from skate.data.util import dtypes as _dtypes
from skate.data.values import numpy_batch, to_arrow, unify

__all__ = [
    "ArrowBatchCollateFn",
    "CollateFn",
    "DefaultCollateFn",
    "NumpyBatchCollateFn",
    "PandasBatchCollateFn",
]


def _is_tensor(batch: Any) -> bool:
    return isinstance(batch, torch.Tensor)


def _is_tensor_sequence(batch: Any) -> bool:
    return isinstance(batch, (list, tuple)) and all(_is_tensor(t) for t in batch)


def _is_nested_tensor_sequence(batch: Any) -> bool:
    return isinstance(batch, (list, tuple)) and all(_is_tensor_sequence(t) for t in batch)


def _is_tensor_mapping(batch: Any) -> bool:
    return isinstance(batch, Mapping) and all(_is_tensor(v) for v in batch.values())


def _is_tensor_sequence_mapping(batch: Any) -> bool:
    return isinstance(batch, Mapping) and all(_is_tensor_sequence(v) for v in batch.values())


def is_tensor_batch_type(batch: Any) -> bool:
    """Whether this is a torch tensor, a sequence of tensors, a sequence of such sequences, or a
    dict of any of these."""
    tests = (
        _is_tensor,
        _is_tensor_sequence,
        _is_nested_tensor_sequence,
        _is_tensor_mapping,
        _is_tensor_sequence_mapping,
    )
    return any(t(batch) for t in tests)


class CollateFn(abc.ABC):
    """A function from a batch to a training batch. Subclass one of the classes below."""

    batch_format = "numpy"

    @abc.abstractmethod
    def __call__(self, batch: Any) -> Any:
        """The training batch."""


class NumpyBatchCollateFn(CollateFn):
    """A function that takes a dict of arrays."""


class ArrowBatchCollateFn(CollateFn):
    """A function that takes a pyarrow Table."""

    batch_format = "pyarrow"


class PandasBatchCollateFn(CollateFn):
    """A function that takes a DataFrame."""

    batch_format = "pandas"


class DefaultCollateFn(ArrowBatchCollateFn):
    """Turns a pyarrow Table into a dict of tensors, as iter_torch_batches() does without a
    collate_fn.

    Args:
        dtypes: A torch dtype for all columns, or a dict by column.
        device: The device of the tensors; None: the CPU.
        pin_memory: Whether CPU tensors are in page-locked memory.
        num_workers: Has no effect: converting a block makes a view of it.
    """

    def __init__(
        self, dtypes: Any = None, device: Any = None, pin_memory: bool = False, num_workers: int = 0
    ):
        self.dtypes, self.pin_memory, self.num_workers = dtypes, pin_memory, num_workers
        self.device = torch.device(device) if isinstance(device, (str, int)) else device

    def __call__(self, batch: Any) -> dict[str, Any]:
        arrays = numpy_batch.to_numpy(unify.merge(to_arrow.from_table(batch)))
        return {
            k: tensor(torch, k, v, self.dtypes, self.device, self.pin_memory)
            for k, v in arrays.items()
        }


def tensor(torch: Any, name: str, v: Any, dtypes: Any, device: Any, pin: bool) -> Any:
    """A torch tensor of a column. A read-only column is copied, since torch has no read-only
    tensors."""
    v = numbers(name, v)
    t = torch.from_numpy(v if v.flags.writeable and v.flags.c_contiguous else v.copy())
    dtype = _dtypes.checked(dtypes, name, t)
    if pin:
        t = t.pin_memory()
    return t.to(device=device, dtype=dtype, non_blocking=pin)


def numbers(name: str, v: Any) -> Any:
    """The array of a column in a form that torch accepts; TypeError if there is no such form."""
    if v.dtype == object:
        null = [x is None for x in v]
        if all(null):
            return np.full(len(v), np.nan)
        if any(null):
            first = v[null.index(False)]
            raise TypeError(
                f"column {name!r} has nulls beside "
                + (
                    "integers that float64 cannot hold exactly"
                    if isinstance(first, int)
                    else f"{type(first).__name__} values"
                )
                + f", which torch tensors cannot hold; {_dtypes.FILL.format(name=name)}, or pass collate_fn"
            )
        try:
            v = np.stack([np.asarray(x) for x in v])
        except ValueError as e:
            raise TypeError(
                f"column {name!r} holds arrays of different shapes: {e}; pass collate_fn to pad them"
            ) from None
        if v.dtype.kind in "OUS":
            raise TypeError(
                f"column {name!r} holds {type(v.flat[0]).__name__} values, which torch tensors cannot hold; drop it or pass collate_fn"
            )
    if v.dtype.kind in "Mm":
        raise TypeError(
            f"column {name!r} of {v.dtype} has no torch dtype; turn it into integers first"
        )
    return v
