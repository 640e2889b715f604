"""Selects rows of a batch by their numbers or by a mask, and values of a column, whatever their
types.

Arrow's kernels do this for the types that they support, since they are fastest. They do not support
text and binary views, run ends, and types that contain these: for these types, the code that
gathers blocks is used (src/block/block.h: sk_block_measure_places), which supports every type. No
other module of skate.data calls Arrow's take and filter on columns with users' types.
"""

from __future__ import annotations

from typing import Any

from skate import _skate
from skate._deps import np, pa, pa_kernels
from skate.data.values.flat import of_numpy, plain_view, stored, valid_bits

NONE = 2**32 - 1  # number of a batch that stands for a row of nulls


def take(rb: Any, index: Any) -> Any:
    """The rows with these numbers, in this order; a number may repeat.

    Args:
        rb: A RecordBatch or a Table; the result is of the same class.
        index: A NumPy array of ints, a list, or an Arrow array of ints, without nulls.
    """
    at = index if isinstance(index, pa.Array) else of_numpy(np.asarray(index, np.int64))
    try:
        return pa_kernels.call_function("take", [rb, at])
    except pa.ArrowNotImplementedError:
        if isinstance(rb, pa.Table):
            return pa.Table.from_batches(
                [
                    _gathered(
                        rb.to_batches() or [pa.RecordBatch.from_pylist([], rb.schema)],
                        plain_view(at),
                    )
                ]
            )
        return _gathered([rb], plain_view(at))


def where(rb: pa.RecordBatch, keep: Any) -> pa.RecordBatch:
    """The rows for which keep is true.

    `RecordBatch.filter` imports pyarrow.compute, which makes a Python function for each of hundreds
    of kernels: 35 ms in each worker. The kernel works without that import.

    Args:
        rb: The batch.
        keep: A NumPy array of bool, or an Arrow array of bool, in which null counts as false; one
            value for each row.
    """
    mask = keep if isinstance(keep, pa.Array) else of_numpy(keep)
    try:
        return pa_kernels.call_function("filter", [rb, mask])
    except pa.ArrowNotImplementedError:
        return _gathered([rb], np.flatnonzero(stored(mask) & valid_bits(mask)))


def take_values(col: pa.Array, index: pa.Array) -> pa.Array:
    """The values at these indices; null where the index is null."""
    try:
        return pa_kernels.call_function("take", [col, index])
    except pa.ArrowNotImplementedError:
        rb = pa.RecordBatch.from_arrays([col], names=["values"])
        return _gathered(
            [rb], plain_view(index), valid_bits(index) if index.null_count else None
        ).column(0)


def decoded(col: pa.DictionaryArray) -> pa.Array:
    """Replaces the codes of a dictionary by its values."""
    try:
        return col.dictionary_decode()
    except pa.ArrowNotImplementedError:
        return take_values(col.dictionary, col.indices)


def listed(col: Any) -> Any:
    """A column of list views as lists. Arrow's own cast makes lists without the last offset."""
    large = pa.types.is_large_list_view(col.type)
    sizes, none = plain_view(col.sizes, np.dtype(np.int64 if large else np.int32)), ~valid_bits(col)
    ends = np.cumsum(np.where(none, 0, sizes))
    offsets = of_numpy(np.concatenate([[0], ends]).astype(sizes.dtype))
    make = pa.LargeListArray if large else pa.ListArray
    return make.from_arrays(offsets, col.flatten(), mask=of_numpy(none) if none.any() else None)


def _gathered(
    batches: list[pa.RecordBatch], index: np.ndarray, valid: np.ndarray | None = None
) -> pa.RecordBatch:
    """The rows with these numbers, counted through all batches; a row of nulls where `valid` is
    false."""
    ends = np.cumsum([rb.num_rows for rb in batches])
    if valid is not None:
        index = np.where(valid, index, 0)
    wrong = (index < 0) | (index >= ends[-1])
    if (wrong if valid is None else wrong & valid).any():
        raise IndexError(f"rows {index.min()} to {index.max()} of {ends[-1]}")
    places = np.zeros((len(index), 2), np.uint32)
    places[:, 1] = index
    if len(batches) > 1:
        places[:, 0] = np.searchsorted(ends, index, "right")
        places[:, 1] = index - (ends - [rb.num_rows for rb in batches])[places[:, 0]]
    if valid is not None:
        places[~valid, 0] = NONE
    return _skate.gather(batches, places)
