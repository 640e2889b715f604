"""Functions that return their batch unchanged, as user functions would: one for each batch format,
RecordBatch -> RecordBatch."""

import numpy as np
from skate.data.values import batch, frames, numpy_batch, row_dicts, unify


def numpy_untouched(rb):
    d = numpy_batch.NumpyBatch(rb)
    return batch.from_batch(d, "f", rb, d)[0]


def numpy_identity(rb):
    d = numpy_batch.NumpyBatch(rb)
    return batch.from_batch(dict(d), "f", rb, d)[0]


def numpy_copy(rb):
    d = numpy_batch.NumpyBatch(rb)
    return batch.from_batch({k: v.copy() for k, v in d.items()}, "f", rb, d)[0]


def numpy_writable(rb):
    d = numpy_batch.NumpyBatch(rb, writable=True)
    return batch.from_batch({**d}, "f", rb, d)[0]


def numpy_pieces(rb):
    """Cuts the arrays into pieces and joins them again, so that the values are the same in other
    arrays of other lengths."""
    d = numpy_batch.NumpyBatch(rb)
    k = rb.num_rows // 2
    return batch.from_batch(
        {n: np.concatenate([v[:k], v[k:][::-1].copy()[::-1]]) for n, v in d.items()}, "f", rb, d
    )[0]


def numpy_some(rb):
    """Each row as its own batch; the batches are unified to one type, as blocks are."""
    parts = []
    for i in range(rb.num_rows):
        d = numpy_batch.NumpyBatch(rb)
        parts += batch.from_batch({n: v[[i]] for n, v in d.items()}, "f", rb, d)
    return unify.merge(parts) if parts else rb


def pandas_identity(rb):
    return batch.from_batch(frames.to_pandas(rb), "f", rb)[0]


def pandas_copy(rb):
    return batch.from_batch(frames.to_pandas(rb).copy(), "f", rb)[0]


def arrow_identity(rb):
    return batch.from_batch(batch.to_batch(rb, "pyarrow"), "f", rb)[0]


def rows_identity(rb):
    return row_dicts.from_rows(row_dicts.to_rows(rb), "f", rb)


FORMATS = [
    numpy_untouched,
    numpy_identity,
    numpy_copy,
    numpy_pieces,
    numpy_some,
    numpy_writable,
    pandas_identity,
    pandas_copy,
    arrow_identity,
    rows_identity,
]
