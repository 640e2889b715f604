"""The rows of a join, in the worker: which go together (codes of equal keys, counted and looked up by NumPy), and the batch of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skate.data.by_group import Groups, key_columns
from skate.data.joins import KINDS, LEFT, RIGHT, Join, check_types, columns
from skate.data.values.to_arrow import one_array
from skate.data.values.unify import cast_batch, unify


def joined(join: Join, left: pa.RecordBatch, right: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of two batches, joined: the columns of joins.columns(), the rows in the order of the left ones, then of the right ones; right rows that meet nothing stand at the end."""
    sides = (left, right)
    made = columns(join, (left.schema.names, right.schema.names))
    types = tuple([rb.schema.field(c).type for c in on] for rb, on in zip(sides, join.on, strict=True))
    check_types(join, types)  # type: ignore[arg-type]
    keys = _in_one_type(join, sides)
    at = _places(join, *_codes(keys))
    cols = []
    for c in made:
        col: Any = sides[c.side].column(c.column).take(at[c.side])
        if c.of_key >= 0:  # the key of both: the right side's, where the left one has no row
            cols_of = [k[c.of_key].take(i) for k, i in zip(keys, at, strict=True)]
            col = pc.if_else(pc.is_valid(at[LEFT]), *cols_of)
        cols.append(col)
    return pa.RecordBatch.from_arrays(cols, names=[c.name for c in made])


def _in_one_type(join: Join, sides: tuple[pa.RecordBatch, pa.RecordBatch]) -> list[list[Any]]:
    """The keys of both sides, column by column in one type."""
    names = [str(i) for i in range(len(join.on[0]))]
    both = [pa.RecordBatch.from_arrays(key_columns(rb, on, "join"), names=names) for rb, on in zip(sides, join.on, strict=True)]
    schema = unify([b.schema for b in both])
    return [list(cast_batch(b, schema).columns) for b in both]


def _codes(keys: list[list[Any]]) -> tuple[np.ndarray, np.ndarray]:
    """A number for each row of both sides, the same for equal keys; -1 where a part of the key is null."""
    n = len(keys[LEFT][0])
    ids = Groups([one_array(pa.chunked_array([a, b])) for a, b in zip(*keys, strict=True)], n + len(keys[RIGHT][0])).ids
    null = np.zeros(len(ids), bool)
    for a, b in zip(*keys, strict=True):
        for col, part in ((a, null[:n]), (b, null[n:])):
            if col.null_count:
                part |= pc.is_null(col).to_numpy(zero_copy_only=False)
    ids = np.where(null, -1, ids)
    return ids[:n], ids[n:]


def _places(join: Join, left: np.ndarray, right: np.ndarray) -> tuple[pa.Array, pa.Array]:
    """The row of each side, null for none, of each row of the result."""
    kind = KINDS[join.kind]
    if not kind.pairs:
        (side,) = kind.sides
        own, other = (left, right) if side == LEFT else (right, left)
        met = np.isin(own, other[other >= 0])
        at = pa.array(np.flatnonzero(~met if kind.alone else met))
        return (at, at)
    order = np.argsort(right, kind="stable")
    in_order = right[order]
    first = np.searchsorted(in_order, left, "left")
    n = np.where(left >= 0, np.searchsorted(in_order, left, "right") - first, 0)
    rows = np.maximum(n, 1) if LEFT in kind.alone else n
    li = np.repeat(np.arange(len(left)), rows)
    within = np.arange(len(li)) - np.repeat(np.cumsum(rows) - rows, rows)
    found = np.repeat(n > 0, rows)
    ri = np.full(len(li), -1, np.int64)
    ri[found] = order[(np.repeat(first, rows) + within)[found]]
    if RIGHT in kind.alone:
        alone = np.flatnonzero(~np.isin(right, left[left >= 0]))
        li, ri = np.concatenate([li, np.full(len(alone), -1)]), np.concatenate([ri, alone])
    return tuple(pa.array(i, mask=i < 0) for i in (li, ri))  # type: ignore[return-value]
