"""Converts blocks, DataFrames and tensors to torch tensors on a device; the functions have Ray's
names. torch is imported when one of them is first called.

The memory of tensors (docs/design/ingest.md) is private pages over a block (`own_pages`), memory
into which a batch was gathered (page-locked if the batch goes to a GPU), or a copy.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from typing import Any

from skate import _skate
from skate._deps import np, torch
from skate.data.collate_fn import numbers, tensor
from skate.data.util import dtypes as _dtypes
from skate.data.values import gathered, missing, numpy_batch, private
from skate.data.values.unify import columns_are

# columns of a block of at most this many bytes are copied; larger ones are mapped a second time
SMALL = 1 << 16


def convert_pandas_to_torch_tensor(
    data_batch: Any, columns: Any = None, column_dtypes: Any = None, unsqueeze: bool = True
) -> Any:
    """A DataFrame's columns side by side as one tensor; or, for lists of columns, a list of
    tensors.

    Args:
        columns: Names, or lists of names; None: all.
        column_dtypes: A torch dtype; for lists of names one dtype, or one for each. TypeError for a
            list if the result is one tensor.
        unsqueeze: Whether each column first gets one more dimension.
    """
    several = bool(columns) and isinstance(columns[0], (list, tuple))
    if not several and column_dtypes and not isinstance(column_dtypes, torch.dtype):
        raise TypeError(
            f"columns is one list, so one tensor comes of it: column_dtypes is one torch.dtype or None, not {type(column_dtypes)}"
        )
    if not several:
        return _joined(data_batch, columns, column_dtypes, unsqueeze)
    dtypes = (
        column_dtypes
        if isinstance(column_dtypes, (list, tuple))
        else [column_dtypes] * len(columns)
    )
    return [_joined(data_batch, c, d, unsqueeze) for c, d in zip(columns, dtypes, strict=True)]


def _joined(df: Any, columns: Any, dtype: Any, unsqueeze: bool) -> Any:
    parts: dict[str, Any] = {}
    for name in columns or df.columns:
        if name not in df.columns:
            raise ValueError(
                f"there is no column {name!r} to make a tensor of; {columns_are(name, df.columns)}"
            )
        try:
            t = _tensor(_values(df[name]), None)
            _dtypes.checked(dtype, name, t)
            t = t if dtype is None else t.to(dtype)
        except Exception as e:
            more = "" if columns else "; feature_columns says which columns to take"
            raise ValueError(
                f"column {name} cannot become a tensor of {dtype or 'its own type'}: {e}{more}"
            ) from e
        parts[name] = t.unsqueeze(1) if unsqueeze else t
    if not parts:  # the label is the only column, and all other columns were wanted
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


def _values(s: Any) -> Any:
    """The array of a Series; masked numbers of pandas get the form of NumPy batches
    (values/batch.py)."""
    a = s.array
    if not hasattr(a, "_mask"):
        return s.to_numpy()
    return missing.shown(a._data, a._mask) if a._mask.any() else a._data


def _tensor(values: Any, dtype: Any) -> Any:
    if values.dtype == object:
        if any(v is None for v in values):
            raise TypeError(
                "there are nulls beside values that floats cannot hold; leave those rows out, or fill them first"
            )
        tensors = [_tensor(np.asarray(v), dtype) for v in values]
        same = len({t.shape for t in tensors}) == 1
        return torch.stack(tensors) if same else torch.nested.nested_tensor(tensors)
    return torch.as_tensor(values if values.flags.writeable else values.copy(), dtype=dtype)


def convert_ndarray_to_torch_tensor(
    ndarray: Any, dtype: Any = None, device: Any = None, pin_memory: bool = False
) -> Any:
    """An array as a tensor; RuntimeError for objects that are not arrays of one shape."""
    if ndarray.dtype == object:
        try:
            ndarray = np.stack([np.asarray(v) for v in ndarray])
        except ValueError:
            pass
        if ndarray.dtype == object:
            raise RuntimeError(
                "an array of objects of different shapes has no torch tensor; pass collate_fn to iter_torch_batches() to pad or list them"
            )
    t = torch.as_tensor(
        ndarray if ndarray.flags.writeable else ndarray.copy(), dtype=dtype, device=device
    )
    return t.pin_memory() if pin_memory else t


def convert_ndarray_batch_to_torch_tensor_batch(
    ndarrays: Any, dtypes: Any = None, device: Any = None, pin_memory: bool = False
) -> Any:
    """An array, or a dict of arrays, as tensors."""
    if not isinstance(ndarrays, Mapping):
        if isinstance(dtypes, dict):
            if len(dtypes) != 1:
                raise ValueError(
                    f"the batch is one tensor, so dtypes is one torch.dtype, not {dtypes}"
                )
            (dtypes,) = dtypes.values()
        return convert_ndarray_to_torch_tensor(ndarrays, dtypes, device, pin_memory)
    return {
        k: convert_ndarray_to_torch_tensor(v, _dtypes.asked(dtypes, k), device, pin_memory)
        for k, v in ndarrays.items()
    }


def concat_tensors_to_device(
    tensor_sequence: Any, device: Any = None, non_blocking: bool = True
) -> Any:
    """Concatenates tensors along the first dimension, on a device; AssertionError unless all have
    one dtype and the same other dimensions."""
    assert tensor_sequence, f"no tensors to join in {tensor_sequence!r}"
    wrong = [type(t) for t in tensor_sequence if not isinstance(t, torch.Tensor)]
    assert not wrong, f"only tensors can be joined; among them are {wrong}"
    first = tensor_sequence[0]
    dtypes = [t.dtype for t in tensor_sequence]
    assert len(set(dtypes)) == 1, f"tensors of several types cannot be joined: {dtypes}"
    shapes = [t.shape[1:] for t in tensor_sequence]
    assert len(set(shapes)) == 1, (
        f"tensors whose rows have several shapes cannot be joined: {shapes}"
    )
    if len(tensor_sequence) == 1 and (device is None or first.device == torch.device(device)):
        return first
    with torch.no_grad():
        out = torch.empty(
            (sum(len(t) for t in tensor_sequence), *shapes[0]), dtype=first.dtype, device=device
        )
        at = 0
        for t in tensor_sequence:
            out[at : at + len(t)].copy_(t, non_blocking=non_blocking)
            at += len(t)
    return out


def move_tensors_to_device(batch: Any, device: Any = None, non_blocking: bool = True) -> Any:
    """Moves a tensor, a sequence or dict of tensors, or a sequence or dict of sequences of tensors
    (each concatenated) to a device; ValueError for others."""

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


class Tensors:
    """Makes batches of tensors, a dict by column, from record batches.

    Args:
        dtypes: A torch dtype for all columns, a dict of dtypes by column, or None.
        device: Where the tensors go; None: they stay.
        pin: Whether the tensors are in page-locked memory.
        other: A function of a column's name, array and Arrow type that converts a column without a
            tensor form; None: such a column is a TypeError.
    """

    def __init__(self, dtypes: Any, device: Any, pin: bool, other: Any = None):
        self.other = other
        self.torch, self.dtypes, self.device, self.pin = torch, dtypes, device, pin
        # whether a batch needs more work than gathering its rows
        self.works = pin or dtypes is not None or device is not None or other is not None

    def gathered(self, planned: gathered.Planned) -> dict[str, Any]:
        """Gathers a planned batch; any thread may call this. The tensors are over the memory into
        which the batch is gathered; this memory is used again when the last tensor is gone.
        Page-locked memory is from torch's own cache, which gives it to another batch when no copy
        to a device needs it any more."""
        room: Any = None

        def page_locked(n: int) -> Any:
            nonlocal room
            room = self.torch.empty(n, dtype=self.torch.uint8, pin_memory=True)
            return room.numpy()

        arrays, converted = planned.arrays(page_locked if self.pin else None)
        out: dict[str, Any] = arrays
        for k, v in arrays.items():
            if k not in converted:
                t = out[k] = self._from(k, v)
                if room is not None:  # memory from torch's cache, which tracks the copies from it
                    at = t.data_ptr() - room.data_ptr()
                    out[k] = room[at : at + v.nbytes].view(t.dtype).view(t.shape)
        return self.finish(out, planned.columns.schema) if converted or self.works else out

    def of_block(self, rb: Any) -> dict[str, Any]:
        """The columns of a block: tensors over private pages of the block if possible, so that
        bytes are copied only when they are written; arrays for columns that can become tensors only
        batch by batch."""
        return {k: self._mapped(k, v) for k, v in numpy_batch.to_numpy(rb).items()}

    def _cut(self, rb: Any) -> Any:
        """Returns a function (first row, number of rows) -> the columns of these rows of a block,
        in the form of of_block()."""
        cols, varied = numpy_batch.to_cut(rb)
        whole = {k: v if v is None else self._mapped(k, v) for k, v in cols.items()}
        return lambda at, n: {
            k: varied[k](at, n) if v is None else v[at : at + n] for k, v in whole.items()
        }

    def _mapped(self, name: str, v: Any) -> Any:
        if v.dtype == object:
            return v
        v = numbers(name, v)
        if not (v.flags.writeable and v.flags.c_contiguous):
            pages = private.pages_of(v) if v.flags.c_contiguous and v.nbytes >= SMALL else None
            if pages is None:
                return v  # each batch is copied separately
            v = np.frombuffer(pages, v.dtype).reshape(v.shape)
        return self._from(name, v)

    def _from(self, name: str, v: Any) -> Any:
        try:
            return self.torch.from_numpy(v)
        except TypeError as e:
            raise TypeError(f"column {name!r} of {v.dtype} has no torch dtype: {e}") from None

    def finish(self, batch: dict[str, Any], schema: Any) -> dict[str, Any]:
        """Converts a batch to the requested dtypes and device."""
        out: dict[str, Any] = {}
        for k, v in batch.items():
            if not isinstance(v, self.torch.Tensor):
                if self.other is not None and _no_tensor(v):
                    out[k] = self.other(k, v, schema.field(k).type)
                    continue
                v = tensor(self.torch, k, v, None, None, self.pin)
            dtype = _dtypes.checked(self.dtypes, k, v)
            if dtype is not None or self.device is not None:
                v = v.to(device=self.device, dtype=dtype)
            out[k] = v.pin_memory() if self.pin and not v.is_pinned() else v
        return out

    def jobs(
        self, blocks: Iterator[Any], size: int, drop_last: bool, rows: Any
    ) -> Iterator[tuple[int, Any]]:
        """Yields (rows, function that gathers the batch), for the case that a _skate.Rows makes all
        batches."""
        for planned in gathered.Gather(rows).plans(blocks, size, drop_last):
            yield planned.num_rows, functools.partial(self.gathered, planned)

    def batches(
        self, blocks: Iterator[Any], size: int | None, drop_last: bool
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yields (rows, tensors) of the batches in order; only batches with rows of several blocks
        are gathered."""
        over, held = gathered.Gather(_skate.Rows()), 0
        for rb in blocks:
            at, n = 0, rb.num_rows
            if held and size is not None:
                at = min(size - held, n)
                over.add(rb.slice(0, at))
                held += at
                if held < size:
                    continue
                yield size, self.gathered(over.next(size))
                held = 0
            step = n if size is None else size
            full = (n - at) // step * step if n else 0
            if full:
                part, schema = self._cut(rb), rb.schema
                for i in range(at, at + full, step):
                    yield step, self.finish(part(i, step), schema)
            if at + full < n:
                over.add(rb.slice(at + full))
                held = n - at - full
        if held and not drop_last:
            yield held, self.gathered(over.next(held))


def at_once() -> int:
    """The number of threads that gather into page-locked memory: one thread writes 10 GB/s, and a
    bus transfers 50 GB/s."""
    return max(1, min(4, len(os.sched_getaffinity(0)) // 4))


class ToDevice:
    """Copies batches to a GPU on a separate CUDA stream, so that a batch is transferred while the
    one before is used.

    The thread that makes batches calls send(), and the thread that uses them calls arrived(), which
    makes its current CUDA stream wait for the copies; the thread itself does not wait.

    Args:
        device: A CUDA device.
        dtypes: The dtypes of the tensors on the device, as in Tensors. The cast is done on the
            device, so the bus transfers the types of the blocks.
    """

    def __init__(self, device: Any, dtypes: Any = None):
        self.torch, self.device, self.dtypes = torch, torch.device(device), dtypes
        self.stream = torch.cuda.Stream(self.device)

    def send(self, batch: Any) -> Any:
        """Returns (the batch on the device, an event for its arrival, the memory that it is copied
        from)."""
        with self.torch.cuda.stream(self.stream):
            casts = (
                None
                if self.dtypes is None
                else {k: _dtypes.checked(self.dtypes, k, v) for k, v in batch.items()}
            )
            there = move_tensors_to_device(batch, self.device)
            if casts is not None:
                there = {k: v.to(dtype=casts[k]) for k, v in there.items()}
            event = self.torch.cuda.Event()
            event.record(self.stream)
        return there, event, batch

    def arrived(self, sent: Any) -> Any:
        """Returns the batch, ready for the current CUDA stream of this thread."""
        there, event, _ = sent
        current = self.torch.cuda.current_stream(self.device)
        current.wait_event(event)
        for t in _tensors_of(there):
            # the memory belongs to the other stream, and must not be reused before this stream has
            # used it
            t.record_stream(current)
        return there


def _no_tensor(v: Any) -> bool:
    return v.dtype == object or v.dtype.kind in "Mm"


def _tensors_of(v: Any) -> Iterator[Any]:
    if isinstance(v, Mapping):
        v = list(v.values())
    if isinstance(v, (list, tuple)):
        for x in v:
            yield from _tensors_of(x)
    else:
        yield v
