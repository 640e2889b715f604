"""Python objects, ragged and fixed tensors (and other columns beside them) go through functions
that return their input: nothing changes, in any batch format, for random schemas, values, slices
and block sizes. Each case is a function of its seed, which the message of a failure names."""

import datetime as dt
import decimal
import fractions
import math
import random

import numpy as np
import pyarrow as pa
import pytest
import rounds
import skate.data as sd
from identities import FORMATS
from skate.data.extensions import ArrowPythonObjectArray
from skate.data.values import from_arrow, tensor_types, to_arrow


def seeds(usual):
    first = rounds.seed()
    return range(first, first + rounds.rounds(usual))


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __eq__(self, other):
        return type(other) is Point and (self.x, self.y) == (other.x, other.y)

    __hash__ = None


def helper(x):
    return x


# ---- random values

DTYPES = (
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "bool",
)
SCALARS = [
    lambda r: Point(r.randint(0, 9), "x" * r.randint(0, 3)),
    lambda r: {r.randint(0, 9) for _ in range(3)},
    lambda r: frozenset("ab"),
    lambda r: complex(r.random(), 1),
    lambda r: fractions.Fraction(r.randint(1, 9), 7),
    lambda r: helper,
    lambda r: Point,
    lambda r: range(r.randint(0, 5)),
    lambda r: (1, "a", Point(0, None)),
    lambda r: {"k": Point(1, 2), 3: b"x"},
    lambda r: [Point(1, 2), {"deep": [1, (2,)]}],
    lambda r: r.randint(-(2**70), 2**70),
    lambda r: r.choice([True, 0, -1, 1.5, float("nan"), "text", b"bytes", "", b""]),
    lambda r: decimal.Decimal(r.randint(0, 99)),
    lambda r: dt.datetime(2020, 1, r.randint(1, 28), tzinfo=dt.UTC),
    lambda r: np.float32(r.random()),
    lambda r: np.arange(r.randint(0, 3)),
    lambda r: Ellipsis,
]


def objects(r, n):
    # a column has few kinds of values, so that some columns look like plain ones
    kinds = r.sample(SCALARS, r.randint(1, 3))
    return ArrowPythonObjectArray.from_objects(
        [None if r.random() < 0.2 else r.choice(kinds)(r) for _ in range(n)]
    )


def tensor(r, dtype, shape):
    a = np.frombuffer(
        r.randbytes(int(np.prod(shape)) * np.dtype(dtype).itemsize),
        np.uint8 if dtype == "bool" else dtype,
    )
    return (a % 2 == 1 if dtype == "bool" else a).reshape(shape)


def ragged(r, n):
    dtype, ndim = r.choice(DTYPES), r.randint(2, 4)
    values = [
        None if r.random() < 0.2 else tensor(r, dtype, [r.randint(0, 3) for _ in range(ndim)])
        for _ in range(n)
    ]
    if all(v is None for v in values):
        values[0] = tensor(r, dtype, [1] * ndim)
    shapes = {v.shape for v in values if v is not None}
    if len(shapes) == 1:  # a single shape would make the column a fixed-shape tensor
        values += [tensor(r, dtype, [s + 1 for s in shapes.pop()])]
        return to_arrow.from_objects(values, None).slice(1)
    return to_arrow.from_objects(values, None)


def fixed(r, n):
    return to_arrow.array_from_numpy(
        tensor(r, r.choice(DTYPES), [n, *(r.randint(0, 3) for _ in range(r.randint(1, 3)))]), None
    )


def plain(r, n):
    t, value = r.choice(
        [
            (pa.int32(), lambda: r.randint(-9, 9)),
            (pa.float64(), lambda: r.choice([0.5, -0.0, math.nan, math.inf])),
            (pa.string(), lambda: r.choice(["", "a", "é"])),
            (
                pa.list_(pa.struct([("a", pa.int8()), ("b", pa.large_string())])),
                lambda: [{"a": r.randint(0, 9), "b": "x"}] * r.randint(0, 2),
            ),
            (pa.timestamp("us", "Europe/Berlin"), lambda: r.randint(0, 1 << 40)),
            (pa.decimal128(9, 3), lambda: decimal.Decimal(r.randint(0, 999)) / 1000),
        ]
    )
    return pa.array([None if r.random() < 0.2 else value() for _ in range(n)], t)


def numbers(r, n):
    """Numbers and bools, some of which are missing: as single values, in lists, and in arrays of
    one shape."""
    t, value = r.choice(
        [
            (pa.bool_(), lambda: r.random() < 0.5),
            (pa.uint8(), lambda: r.randint(0, 255)),
            (
                pa.int64(),
                lambda: r.choice([r.randint(-9, 9), 2**53 * r.choice([-1, 1]) + r.randint(-1, 1)]),
            ),
            (pa.int64(), lambda: r.randint(-9, 9)),
            (pa.uint64(), lambda: r.choice([0, 2**53, 2**64 - 1])),
            (pa.float16(), lambda: np.float16(r.choice([0.5, -0.0, math.nan, math.inf]))),
            (pa.float32(), lambda: r.choice([0.5, -0.0, math.nan, math.inf])),
            (pa.float64(), lambda: r.choice([0.1, -0.0, math.nan, -math.nan, 1e300])),
        ]
    )

    def some(k):
        return pa.array([None if r.random() < 0.3 else value() for _ in range(k)], t)

    form = r.randint(0, 3)
    if form == 0 or t == pa.bool_():
        return some(n)
    size = r.randint(1, 3)
    if form == 1:
        ends = np.cumsum([0, *(r.randint(0, 3) for _ in range(n))])
        col = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), some(int(ends[-1])))
    elif form == 2:
        col = pa.FixedSizeListArray.from_arrays(some(n * size), size)
    else:
        col = tensor_types.of_flat(some(n * size), n, tensor_types.ArrowTensorTypeV2((size,), t))
    return (
        col.take(pa.array([None if r.random() < 0.2 else i for i in range(n)], pa.int64()))
        if r.random() < 0.5
        else col
    )


KINDS = {"objects": objects, "ragged": ragged, "fixed": fixed, "plain": plain, "numbers": numbers}


def table(seed):
    """Returns (random, a record batch of random columns, which is a slice of a longer one)."""
    r = random.Random(seed)
    n = r.randint(2, 12)
    kinds = [
        r.choice(["objects", "ragged", "numbers"]),
        *(r.choice(list(KINDS)) for _ in range(r.randint(0, 3))),
    ]
    r.shuffle(kinds)
    columns = [KINDS[k](r, n) for k in kinds]
    at = r.randint(0, n - 2)
    return r, pa.RecordBatch.from_arrays(
        columns, names=[f"{k}{i}" for i, k in enumerate(kinds)]
    ).slice(at, r.randint(1, n - at))


# ---- sameness


def same(a, b):
    """Whether two Python or NumPy values have the same types, shapes and bits."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        values = same(a.tolist(), b.tolist()) if a.dtype == object else a.tobytes() == b.tobytes()
        return a.dtype == b.dtype and a.shape == b.shape and values
    if isinstance(a, float) and math.isnan(a):
        return math.isnan(b)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(v, b[k]) for k, v in a.items())
    return a == b


def cells(column):
    """The values of a column in the form of the numpy format: ragged tensors as arrays, objects as
    objects."""
    if isinstance(column.type, pa.BaseExtensionType):
        v = from_arrow.column_to_numpy("x", column)
        return [None if not ok.as_py() else x for x, ok in zip(v, column.is_valid(), strict=True)]
    return column.to_pylist()


def check(want, got, what):
    assert got.schema.names == want.schema.names and got.num_rows == want.num_rows, what
    for name, a, b in zip(want.schema.names, want.columns, got.columns, strict=True):
        assert a.type == b.type, (what, name, a.type, b.type)
        x, y = cells(a), cells(b)
        assert same(x, y), (what, name, x, y)


# ---- one batch, every format


@rounds.campaign()
@pytest.mark.parametrize("fmt", FORMATS, ids=lambda f: f.__name__)
def test_one_batch(fmt):
    for seed in seeds(60):
        _, rb = table(seed)
        check(rb, fmt(rb), f"seed {seed}, {rb.schema}")


def test_objects_that_are_pickled_in_other_words_when_they_were_read():
    rb = pa.RecordBatch.from_arrays(
        [ArrowPythonObjectArray.from_objects([Point(4, "x"), float("nan"), None])], names=["o"]
    )
    for fmt in FORMATS:
        check(rb, fmt(rb), fmt.__name__)


# ---- whole pipelines


@rounds.campaign()
def test_pipelines():
    """Blocks of random sizes go through several functions in random formats with random batch
    sizes, in workers."""
    for seed in seeds(10):
        pipeline(seed)


def pipeline(seed):
    r, rb = table(seed)
    parts, at = [], 0
    while at < rb.num_rows:
        n = r.randint(1, rb.num_rows - at)
        parts.append(rb.slice(at, n))
        at += n
    ds, chain = sd.from_blocks([pa.Table.from_batches([p]) for p in parts]), []
    for _ in range(r.randint(1, 4)):
        fmt, size = r.choice(["numpy", "pandas", "pyarrow", "rows"]), r.choice([None, 1, 2, 5])
        chain.append((fmt, size))
        ds = (
            ds.map(lambda row: row)
            if fmt == "rows"
            else ds.map_batches(lambda b: b, batch_format=fmt, batch_size=size)
        )
    got = list(ds.iter_batches(batch_format="pyarrow", batch_size=rb.num_rows))
    assert len(got) == 1, (seed, chain)
    out = got[0].combine_chunks().to_batches()[0]
    check(rb, out, f"seed {seed}, {chain}, blocks of {[p.num_rows for p in parts]}, {rb.schema}")
