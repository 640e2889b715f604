"""C code that makes Python objects of a column's strings and bytes: the result equals pyarrow's,
for every length, offset and repetition; invalid buffers are an error."""

import random
import sys

import numpy as np
import pyarrow as pa
import pytest
from skate import _skate
from skate.data.values import batch, from_arrow, numpy_batch

TYPES = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]


def values(kind, n, seed):
    r = random.Random(seed)
    words = [
        "",
        "a",
        "ab",
        "exactly8",
        "é",
        "\0",
        "日本語",
        "x" * 300,
        "prefix of the same kind 1",
        "prefix of the same kind 2",
    ]
    if kind == "few":
        out = [r.choice(words) for _ in range(n)]
    elif kind == "distinct":
        out = [f"{i}-{r.random()}" for i in range(n)]
    elif kind == "turns":  # the table of repeated values is given up in the middle
        out = [r.choice(words) if i < n // 2 else f"{i}ü" for i in range(n)]
    else:  # many lengths, with equal ends
        out = ["q" * r.randrange(40) for _ in range(n)]
    return [None if r.random() < 0.1 else v for v in out]


@pytest.mark.parametrize("t", TYPES, ids=str)
@pytest.mark.parametrize("kind", ["few", "distinct", "turns", "lengths"])
@pytest.mark.parametrize("n", [0, 1, 1023, 1024, 12_000])
def test_the_same_as_pyarrow(t, kind, n):
    col = pa.array(values(kind, n, n), pa.large_string()).cast(t)
    for part in (col, col.slice(n // 3), col.slice(n // 7, n // 2), col.drop_null()):
        want = part.to_pylist()
        assert from_arrow.to_objects("x", part) == want
        v = from_arrow.column_to_numpy("x", part)
        assert (
            v.dtype == object
            and v.shape == (len(want),)
            and v.tolist() == want
            and all(type(a) is type(b) for a, b in zip(v, want))
        )


def test_values_that_repeat_are_one_object():
    v = from_arrow.column_to_numpy("x", pa.array(["some words", "other words"] * 5000))
    assert len({id(o) for o in v}) == 2
    v = from_arrow.column_to_numpy(
        "x", pa.array([f"word {i % 1000}" for i in range(20_000)])
    )  # so many that the first thousand look-ups find nothing
    assert len({id(o) for o in v}) < 10_000 and v[:1000].tolist() == v[19_000:].tolist() == [
        f"word {i}" for i in range(1000)
    ]


@pytest.mark.parametrize("wide", [np.int32, np.int64])
@pytest.mark.parametrize("offsets", [[0, 7], [0, 3, 2], [-1, 2], [0, 2**31 - 1], [5, 4, 6]])
def test_offsets_beyond_the_data_are_an_error(offsets, wide):
    with pytest.raises(ValueError, match="row [01] of the column has offsets"):
        _skate.text_objects(
            [None] * (len(offsets) - 1),
            False,
            wide is np.int64,
            0,
            None,
            np.array(offsets, wide),
            b"abcdef",
        )


@pytest.mark.parametrize("n", [1, 3000])
def test_what_is_no_utf8_is_an_error(n):
    col = pa.array([b"ok", *[b"\xff\xfe"] * n]).view(pa.string())
    for f in (from_arrow.to_objects, from_arrow.column_to_numpy):
        with pytest.raises(ValueError, match="'x' .*utf-8"):
            f("x", col)
    assert from_arrow.to_objects("x", col.view(pa.binary())) == [b"ok"] + [b"\xff\xfe"] * n


def test_buffers_that_are_too_short_are_an_error():
    offsets, data = np.array([0, 1, 2], np.int32), b"ab"
    out = [None] * 2
    _skate.text_objects(out, False, False, 0, None, offsets, data)
    assert out == ["a", "b"]
    for at, valid, offs in [
        (1, None, offsets),
        (0, b"", offsets),
        (-1, None, offsets),
        (2**62, None, offsets),
        (0, None, None),
    ]:
        with pytest.raises((ValueError, TypeError)):
            _skate.text_objects([None] * 2, False, False, at, valid, offs, data)
    with pytest.raises(ValueError, match="None"):
        _skate.text_objects([None, "taken"], False, False, 0, None, offsets, data)
    for out in (np.zeros(2), np.empty((2, 2), object)[:, 0], ("a",)):
        with pytest.raises((TypeError, ValueError, BufferError)):
            _skate.text_objects(out, False, False, 0, None, offsets, data)


def test_same_objects():
    a = np.array(["x", "yy", None], object)
    assert _skate.same_objects(a, a.copy()) and _skate.same_objects(a[:0], a[:0].copy())
    b = a.copy()
    b[1] = "".join(["y", "y"])
    assert not _skate.same_objects(a, b) and not _skate.same_objects(a, a[:2])
    with pytest.raises(TypeError):
        _skate.same_objects(a, np.zeros(3))


@pytest.mark.parametrize(
    "t", [*TYPES, pa.dictionary(pa.int8(), pa.string()), pa.string_view()], ids=str
)
def test_a_column_that_comes_back_is_the_column(t):
    words = ["x", "y", "zz"] * 500
    col = pa.array([w.encode() for w in words] if "binary" in str(t) else words).cast(t)
    rb = pa.RecordBatch.from_arrays([col], names=["s"])
    d = numpy_batch.NumpyBatch(rb)
    plain = dict(d)
    out = batch.from_batch(plain, "f", rb, d)[0]
    assert out.column(0).type == t and [b.address for b in out.column(0).buffers() if b] == [
        b.address for b in col.buffers() if b
    ]
    plain["s"][3] = plain["s"][4]
    out = batch.from_batch(plain, "f", rb, d)[0]
    assert (
        out.column(0).type == t
        and out.column(0).to_pylist()
        == col.to_pylist()[:3] + [col[4].as_py()] + col.to_pylist()[4:]
    )


def test_objects_by_codes():
    values, codes = np.array(["a", "bb", None], object), np.array([1, 0, 2, 1], np.int32)
    out = np.empty(4, object)
    _skate.coded_objects(out, values, codes)
    assert (
        out.tolist() == ["bb", "a", None, "bb"]
        and out[0] is values[1]
        and _skate.same_coded(out, values, codes)
    )
    out[3] = "".join(["b", "b"])  # equal to the value in the column, but another object
    assert not _skate.same_coded(out, values, codes)
    own = np.array([object()], object)
    counts = [sys.getrefcount(own[0])]
    more = np.empty(1000, object)
    _skate.coded_objects(more, own, np.zeros(1000, np.int32))
    counts.append(sys.getrefcount(own[0]))
    del more
    counts.append(sys.getrefcount(own[0]))
    assert counts[1:] == [counts[0] + 1000, counts[0]]
    for bad in ([3], [-1]):
        with pytest.raises(ValueError, match="code"):
            _skate.coded_objects(np.empty(1, object), values, np.array(bad, np.int32))
        assert not _skate.same_coded(np.empty(1, object), values, np.array(bad, np.int32))
    with pytest.raises(ValueError, match="row 0"):
        _skate.coded_objects(np.array(["taken"], object), values, codes[:1])
    with pytest.raises(ValueError, match="4 rows have 3 codes"):
        _skate.coded_objects(np.empty(4, object), values, codes[:3])
    with pytest.raises(TypeError, match="dtype object"):
        _skate.coded_objects(np.zeros(4), values, codes)
