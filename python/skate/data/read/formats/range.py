"""range and range_tensor: the numbers 0..n-1; each unit becomes one block."""

from __future__ import annotations

import builtins
import math
import struct
from collections.abc import Iterator
from typing import Any, Unpack

from skate._deps import np, pa
from skate.data.context import DataContext
from skate.data.read.options import BlockOptions, takes_blocks
from skate.data.read.source import Facts, Source, asked_blocks, min_units
from skate.data.values import to_arrow


@takes_blocks()
def range(n: int, **options: Unpack[BlockOptions]) -> Source:
    """A Dataset of the numbers 0..n-1 in a column "id".

    Args:
        n: Number of rows, 0 or more.
        options: See BlockOptions.

    Raises:
        ValueError: n is negative.

    Example:
        >>> import skate
        >>> skate.data.range(3).take_all()
        [{'id': 0}, {'id': 1}, {'id': 2}]
    """
    n = int(n)
    if n < 0:
        raise ValueError(f"range needs a count of 0 or more, not {n}")
    k = _blocks(n, 8, options)
    units = [(struct.pack("<qq", a, b), b - a, 8 * (b - a)) for a, b in _cuts(n, k)]
    return Source(
        "ReadRange",
        {"format": "range", "shape": None},
        units,
        {"concurrency": options.get("concurrency")},
        Facts(n, _schema),
    )


@takes_blocks()
def range_tensor(
    n: int,
    *,
    shape: tuple[int, ...] = (1,),
    **options: Unpack[BlockOptions],
) -> Source:
    """A Dataset of n tensors in a column "data"; all elements of the i-th tensor are i.

    Args:
        n: Number of rows, 0 or more.
        shape: Shape of each tensor.
        options: See BlockOptions.

    Raises:
        ValueError: n is negative.

    Example:
        >>> import skate
        >>> skate.data.range_tensor(2, shape=(2, 2)).take_batch()["data"].shape
        (2, 2, 2)
    """
    n = int(n)
    shape = tuple(shape)
    each = 8 * math.prod(shape)
    k = _blocks(n, each, options)
    units = [(struct.pack("<qq", a, b), b - a, each * (b - a)) for a, b in _cuts(n, k)]
    return Source(
        "ReadRange",
        {"format": "range", "shape": shape, "by_settings": True},
        units,
        {"concurrency": options.get("concurrency")},
        Facts(n, lambda: _tensors(shape)),
    )


def _blocks(n: int, each: int, options: BlockOptions) -> int:
    asked = asked_blocks(options)
    if asked is not None:
        return max(1, min(n, asked))
    size = DataContext.get_current().read_block_size
    return max(1, -(-n * each // size), min(n, min_units()))


def _cuts(n: int, k: int) -> list[tuple[int, int]]:
    return [(i * n // k, (i + 1) * n // k) for i in builtins.range(k)]


def _schema() -> Any:
    return pa.schema([("id", pa.int64())])


def _tensors(shape: tuple[int, ...]) -> Any:
    """The schema of range_tensor, taken from the column of one row."""
    return pa.schema(
        [("data", to_arrow.array_from_numpy(np.zeros((1, *shape), np.int64), None).type)]
    )


_SCHEMA: Any = None


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    global _SCHEMA
    start, stop = struct.unpack("<qq", task.unit)
    shape = params["shape"]
    task.source = f"range {start}..{stop - 1}"
    if shape is not None:
        each = max(1, 8 * int(np.prod(shape)))
        step = max(1, task.target // each)
        for a in builtins.range(start, max(stop, start + 1), step):
            b = min(stop, a + step)
            data = np.ones((b - a, *shape), np.int64) * np.arange(a, b, dtype=np.int64).reshape(
                -1, *(1 for _ in shape)
            )
            yield pa.RecordBatch.from_arrays(
                [to_arrow.array_from_numpy(data, None)], names=["data"]
            )
        return
    if _SCHEMA is None:
        _SCHEMA = pa.schema([("id", pa.int64())])
    step = max(1, task.target // 8)
    a = start
    while True:
        b = min(stop, a + step)
        yield pa.RecordBatch.from_arrays(
            [to_arrow.array_from_numpy(np.arange(a, b, dtype=np.int64), None)], schema=_SCHEMA
        )
        if b >= stop:
            return
        a = b
