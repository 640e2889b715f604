"""A block of several batches, written one after another (src/block/join.c), has the same bytes as a
block of one concatenated batch."""

import decimal
import os
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rounds import examples
from skate import _skate
from skate.data.worker import stage  # noqa: F401  # it sets the merge hook


def text(r, most=9):
    return "".join(r.choice("abzé日\U0001f600\0 ") for _ in range(r.randint(0, most)))


def number(r):
    return r.randint(-9, 9)


def maybe(draw):
    return lambda r: None if r.random() < 0.3 else draw(r)


def many(draw, most):
    return lambda r: [draw(r) for _ in range(r.randint(0, most))]


COLUMNS = {  # type -> how a value of it is drawn
    "i": (pa.int64(), maybe(number)),
    "b": (pa.bool_(), maybe(lambda r: r.random() < 0.5)),
    "full": (pa.bool_(), lambda r: r.random() < 0.5),
    "s": (pa.string(), maybe(text)),
    "ls": (pa.large_string(), maybe(text)),
    "l": (pa.list_(pa.int16()), maybe(many(maybe(number), 4))),
    "ll": (pa.large_list(pa.string()), maybe(many(maybe(text), 3))),
    "f": (pa.list_(pa.int8(), 3), maybe(lambda r: [maybe(number)(r) for _ in range(3)])),
    "t": (
        pa.struct([("a", pa.string()), ("b", pa.list_(pa.bool_()))]),
        lambda r: {"a": maybe(text)(r), "b": many(lambda r: r.random() < 0.5, 9)(r)},
    ),
    "m": (pa.map_(pa.string(), pa.int32()), many(lambda r: (text(r, 3), maybe(number)(r)), 3)),
    "n": (pa.null(), lambda r: None),
    "d": (
        pa.decimal128(12, 2),
        maybe(lambda r: decimal.Decimal(r.randint(-99900, 99900)).scaleb(-2)),
    ),
    # types that are concatenated before they are written
    "dict": (pa.dictionary(pa.int8(), pa.string()), maybe(text)),
    "v": (pa.string_view(), maybe(lambda r: text(r, 30))),
}


@pytest.fixture(scope="module", autouse=True)
def engine():
    import skate

    before = os.environ.get("SKATE_ENGINE")
    os.environ["SKATE_ENGINE"] = "inline"
    skate.shutdown()
    skate.init(num_cpus=1)
    yield
    skate.shutdown()
    os.environ.pop("SKATE_ENGINE") if before is None else os.environ.update(SKATE_ENGINE=before)


@st.composite
def parts(draw):
    """Batches of one schema, each a slice of a longer batch. hypothesis draws the structure; the
    values follow from a seed."""
    names = draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=4, unique=True))
    schema = pa.schema([(n, COLUMNS[n][0]) for n in names])
    r, out = random.Random(draw(st.integers(0, 2**32))), []
    for rows in draw(st.lists(st.integers(0, 20), min_size=1, max_size=5)):
        cols = [pa.array([COLUMNS[n][1](r) for _ in range(rows)], COLUMNS[n][0]) for n in names]
        rb = pa.RecordBatch.from_arrays(cols, schema=schema)
        a = r.randint(0, rows)
        out.append(rb.slice(a, r.randint(0, rows - a)))
    return out


@examples(400)
@given(parts())
def test_joined_is_concatenated(batches):
    whole = pa.concat_batches(batches)
    outs = [_skate.BlockOut(b) for b in batches]
    assert [o.nbytes for o in outs] == [_skate.block_nbytes(b) for b in batches]
    joined = _skate.BlockOut.join(outs)
    assert joined.nbytes == _skate.block_nbytes(whole)
    got = _skate.get(_skate.put_block(joined))
    got.validate(full=True)
    assert got.schema.equals(whole.schema) and got.equals(whole)
    assert [c.null_count for c in got.columns] == [c.null_count for c in whole.columns]


def test_many_parts_and_large_ones():
    batches = [
        pa.RecordBatch.from_pydict(
            {
                "x": np.arange(i, i + 1000),
                "s": [f"{k}" * (k % 7) if k % 3 else None for k in range(1000)],
            }
        )
        for i in range(300)
    ]
    got = _skate.get(_skate.put_block(_skate.BlockOut.join([_skate.BlockOut(b) for b in batches])))
    assert got.equals(pa.concat_batches(batches))


@pytest.mark.parametrize("bad", [[], "x", [1], None])
def test_join_takes_blocks_only(bad):
    with pytest.raises(TypeError, match="list of BlockOuts"):
        _skate.BlockOut.join(bad)


def test_join_of_joined_is_refused():
    o = _skate.BlockOut(pa.RecordBatch.from_pydict({"x": [1]}))
    assert _skate.BlockOut.join([o]) is o
    with pytest.raises(TypeError, match="one batch each"):
        _skate.BlockOut.join([_skate.BlockOut.join([o, o]), o])
