"""Cuts batches into batches of another size, with the same rows in the same order."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from skate._deps import pa
from skate.data.values.unify import merge


def rebatch(
    batches: Iterator[pa.RecordBatch], size: int | Callable[[], int] | None
) -> Iterator[pa.RecordBatch]:
    """Yields batches of exactly `size` rows (the last one may have fewer); a batch may have rows of
    several input batches. A function says the size of each batch. None: yields the batches
    unchanged."""
    if size is None:
        yield from batches
        return
    ask = size if callable(size) else None
    size = ask() if ask is not None else size
    assert isinstance(size, int)
    held: list[pa.RecordBatch] = []
    n = 0
    for rb in batches:
        at = 0
        rows = rb.num_rows
        while n + rows - at >= size:
            piece = rb.slice(at, size - n)
            at += size - n
            yield merge([*held, piece]) if held else piece
            held, n = [], 0
            size = ask() if ask is not None else size
        if at < rows:
            held.append(rb.slice(at) if at else rb)
            n += rows - at
    if held:
        yield merge(held)
