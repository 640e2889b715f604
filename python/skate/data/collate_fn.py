"""Functions that convert batches of a Dataset to training batches, for
iter_torch_batches(collate_fn=...). A function's base class determines its batch format."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any

from skate._deps import np, torch
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
        dtypes = (
            self.dtypes if isinstance(self.dtypes, dict) else dict.fromkeys(arrays, self.dtypes)
        )
        return {
            k: tensor(torch, k, v, dtypes.get(k), self.device, self.pin_memory)
            for k, v in arrays.items()
        }


def tensor(torch: Any, name: str, v: Any, dtype: Any, device: Any, pin: bool) -> Any:
    """A torch tensor of a column. A read-only column is copied, since torch has no read-only
    tensors."""
    v = numbers(name, v)
    t = torch.from_numpy(v if v.flags.writeable and v.flags.c_contiguous else v.copy())
    check_missing(name, t, dtype)
    if pin:
        t = t.pin_memory()
    return t.to(device=device, dtype=dtype, non_blocking=pin)


_FILL = "leave those rows out (ds.filter(expr=col({name!r}).is_not_null())) or fill them (preprocessors.SimpleImputer) first"


def check_missing(name: str, t: Any, dtype: Any) -> None:
    """Raises TypeError if a tensor with NaN is to be cast to integers or bools, where NaN would
    become an arbitrary number."""
    if (
        dtype is not None
        and t.is_floating_point()
        and not (dtype.is_floating_point or dtype.is_complex)
        and t.isnan().any()
    ):
        raise no_room(name, dtype)


def no_room(name: str, dtype: Any) -> TypeError:
    """The error about a column with missing values that is to become integers or bools."""
    return TypeError(
        f"column {name!r} has missing values (NaN), which {dtype} cannot hold; {_FILL.format(name=name)}, or ask for a dtype of floats"
    )


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
                + f", which torch tensors cannot hold; {_FILL.format(name=name)}, or pass collate_fn"
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
