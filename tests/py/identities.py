"""What a user function may do with a batch and hand back unchanged: one function for each batch format, RecordBatch -> RecordBatch."""

from skate.data import batch as B


def numpy_untouched(rb):
    d = B.NumpyBatch(rb)
    return B.from_batch(d, "f", rb, d)[0]


def numpy_identity(rb):
    d = B.NumpyBatch(rb)
    return B.from_batch(dict(d), "f", rb, d)[0]


def numpy_copy(rb):
    d = B.NumpyBatch(rb)
    return B.from_batch({k: v.copy() for k, v in d.items()}, "f", rb, d)[0]


def numpy_writable(rb):
    d = B.NumpyBatch(rb, writable=True)
    return B.from_batch({**d}, "f", rb, d)[0]


def pandas_identity(rb):
    return B.from_batch(B.to_pandas(rb), "f", rb)[0]


def pandas_copy(rb):
    return B.from_batch(B.to_pandas(rb).copy(), "f", rb)[0]


def arrow_identity(rb):
    return B.from_batch(B.to_batch(rb, "pyarrow"), "f", rb)[0]


def rows_identity(rb):
    return B.from_rows(B.to_rows(rb), "f", rb)


FORMATS = [numpy_untouched, numpy_identity, numpy_copy, numpy_writable, pandas_identity, pandas_copy, arrow_identity, rows_identity]
