"""DataFrames and tensors to torch tensors on a device, under Ray's names. torch is imported when the first function is called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skate.data.values.unify import columns_are


def convert_pandas_to_torch_tensor(data_batch: Any, columns: Any = None, column_dtypes: Any = None, unsqueeze: bool = True) -> Any:
    """A DataFrame's columns side by side as one tensor; or a list of tensors for lists of columns.

    Args:
        columns: Names, or lists of names; None: all.
        column_dtypes: A torch dtype; for lists of names a dtype for each, or one. TypeError for a list where there is one tensor.
        unsqueeze: Each column gets one more dimension first.
    """
    import torch

    several = bool(columns) and isinstance(columns[0], (list, tuple))
    if not several and column_dtypes and not isinstance(column_dtypes, torch.dtype):
        raise TypeError(
            f"columns is one list, so one tensor comes of it: column_dtypes is one torch.dtype or None, not {type(column_dtypes)}"
        )
    if not several:
        return _joined(data_batch, columns, column_dtypes, unsqueeze)
    dtypes = column_dtypes if isinstance(column_dtypes, (list, tuple)) else [column_dtypes] * len(columns)
    return [_joined(data_batch, c, d, unsqueeze) for c, d in zip(columns, dtypes, strict=True)]


def _joined(df: Any, columns: Any, dtype: Any, unsqueeze: bool) -> Any:
    import torch

    parts: dict[str, Any] = {}
    for name in columns or df.columns:
        if name not in df.columns:
            raise ValueError(f"there is no column {name!r} to make a tensor of; {columns_are(name, df.columns)}")
        try:
            t = _tensor(df[name].to_numpy(), dtype)
        except Exception as e:
            more = "" if columns else "; feature_columns says which columns to take"
            raise ValueError(f"column {name} cannot become a tensor of {dtype or 'its own type'}: {e}{more}") from e
        parts[name] = t.unsqueeze(1) if unsqueeze else t
    if not parts:  # all but the label, and there is only the label
        return torch.empty((len(df), 0), dtype=dtype)
    if len(parts) == 1:
        return next(iter(parts.values()))
    try:
        return torch.cat(list(parts.values()), dim=1)
    except (RuntimeError, IndexError) as e:
        shapes = ", ".join(f"{n} {tuple(t.shape)}" for n, t in parts.items())
        raise ValueError(
            f"columns of these shapes cannot be side by side in one tensor: {shapes}; feature_columns as a dict, or as lists of names, makes several tensors ({e})"
        ) from None


def _tensor(values: Any, dtype: Any) -> Any:
    import numpy as np
    import torch

    if values.dtype == object:
        tensors = [_tensor(np.asarray(v), dtype) for v in values]
        same = len({t.shape for t in tensors}) == 1
        return torch.stack(tensors) if same else torch.nested.nested_tensor(tensors)
    return torch.as_tensor(values if values.flags.writeable else values.copy(), dtype=dtype)


def convert_ndarray_to_torch_tensor(ndarray: Any, dtype: Any = None, device: Any = None, pin_memory: bool = False) -> Any:
    """An array as a tensor; RuntimeError for one of objects that are not arrays of one shape."""
    import numpy as np
    import torch

    if ndarray.dtype == object:
        try:
            ndarray = np.stack([np.asarray(v) for v in ndarray])
        except ValueError:
            pass
        if ndarray.dtype == object:
            raise RuntimeError(
                "an array of objects of different shapes has no torch tensor; pass collate_fn to iter_torch_batches() to pad or list them"
            )
    t = torch.as_tensor(ndarray if ndarray.flags.writeable else ndarray.copy(), dtype=dtype, device=device)
    return t.pin_memory() if pin_memory else t


def convert_ndarray_batch_to_torch_tensor_batch(ndarrays: Any, dtypes: Any = None, device: Any = None, pin_memory: bool = False) -> Any:
    """An array, or a dict of them, as tensors."""
    if not isinstance(ndarrays, Mapping):
        if isinstance(dtypes, dict):
            if len(dtypes) != 1:
                raise ValueError(f"the batch is one tensor, so dtypes is one torch.dtype, not {dtypes}")
            (dtypes,) = dtypes.values()
        return convert_ndarray_to_torch_tensor(ndarrays, dtypes, device, pin_memory)
    return {
        k: convert_ndarray_to_torch_tensor(v, dtypes.get(k) if isinstance(dtypes, dict) else dtypes, device, pin_memory)
        for k, v in ndarrays.items()
    }


def concat_tensors_to_device(tensor_sequence: Any, device: Any = None, non_blocking: bool = True) -> Any:
    """Tensors one after another along the first dimension, on a device; AssertionError unless all have one dtype and the same other dimensions."""
    import torch

    assert tensor_sequence, f"no tensors to join in {tensor_sequence!r}"
    wrong = [type(t) for t in tensor_sequence if not isinstance(t, torch.Tensor)]
    assert not wrong, f"only tensors can be joined; among them are {wrong}"
    first = tensor_sequence[0]
    dtypes = [t.dtype for t in tensor_sequence]
    assert len(set(dtypes)) == 1, f"tensors of several types cannot be joined: {dtypes}"
    shapes = [t.shape[1:] for t in tensor_sequence]
    assert len(set(shapes)) == 1, f"tensors whose rows have several shapes cannot be joined: {shapes}"
    if len(tensor_sequence) == 1 and (device is None or first.device == torch.device(device)):
        return first
    with torch.no_grad():
        out = torch.empty((sum(len(t) for t in tensor_sequence), *shapes[0]), dtype=first.dtype, device=device)
        at = 0
        for t in tensor_sequence:
            out[at : at + len(t)].copy_(t, non_blocking=non_blocking)
            at += len(t)
    return out


def move_tensors_to_device(batch: Any, device: Any = None, non_blocking: bool = True) -> Any:
    """A tensor, a sequence or dict of tensors, or a sequence or dict of sequences of them (each joined to one) on a device; ValueError for others."""
    import torch

    def tensors(v: Any) -> bool:
        return isinstance(v, (list, tuple)) and all(isinstance(t, torch.Tensor) for t in v)

    if device is None:
        return batch
    with torch.no_grad():
        if isinstance(batch, torch.Tensor):
            return batch.to(device, non_blocking=non_blocking)
        if tensors(batch):
            return type(batch)([t.to(device, non_blocking=non_blocking) for t in batch])
        if isinstance(batch, (list, tuple)) and all(map(tensors, batch)):
            return type(batch)([concat_tensors_to_device(t, device, non_blocking) for t in batch])
        if isinstance(batch, Mapping) and all(isinstance(v, torch.Tensor) for v in batch.values()):
            return {k: v.to(device, non_blocking=non_blocking) for k, v in batch.items()}
        if isinstance(batch, Mapping) and all(map(tensors, batch.values())):
            return {k: concat_tensors_to_device(v, device, non_blocking) for k, v in batch.items()}
    raise ValueError(
        f"Invalid input type: {_kind(batch)}; a batch is a tensor, a list or tuple of tensors, or a dict of one of these by name"
    )


def _kind(v: Any) -> str:
    if isinstance(v, (list, tuple)):
        return f"{type(v).__name__}[{' | '.join(sorted({_kind(x) for x in v}))}]"
    if isinstance(v, dict):
        return f"{type(v).__name__}[str, {' | '.join(sorted({_kind(x) for x in v.values()}))}]"
    return type(v).__name__
