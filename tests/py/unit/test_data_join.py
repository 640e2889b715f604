"""Blocks of many batches, written one behind the other (src/block/join.c): the same bytes as of one concatenated batch."""

import os

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rounds import examples
from skate import _skate

TEXT = st.one_of(st.none(), st.text(max_size=9))
NUMBER = st.one_of(st.none(), st.integers(-9, 9))
COLUMNS = {
    "i": (pa.int64(), NUMBER),
    "b": (pa.bool_(), st.one_of(st.none(), st.booleans())),
    "full": (pa.bool_(), st.booleans()),
    "s": (pa.string(), TEXT),
    "ls": (pa.large_string(), TEXT),
    "l": (pa.list_(pa.int16()), st.one_of(st.none(), st.lists(NUMBER, max_size=4))),
    "ll": (pa.large_list(pa.string()), st.one_of(st.none(), st.lists(TEXT, max_size=3))),
    "f": (pa.list_(pa.int8(), 3), st.one_of(st.none(), st.lists(NUMBER, min_size=3, max_size=3))),
    "t": (
        pa.struct([("a", pa.string()), ("b", pa.list_(pa.bool_()))]),
        st.fixed_dictionaries({"a": TEXT, "b": st.lists(st.booleans(), max_size=9)}),
    ),
    "m": (pa.map_(pa.string(), pa.int32()), st.lists(st.tuples(st.text(max_size=3), NUMBER), max_size=3)),
    "n": (pa.null(), st.none()),
    "d": (pa.decimal128(12, 2), st.one_of(st.none(), st.decimals(-999, 999, places=2))),
    # what is concatenated first
    "dict": (pa.dictionary(pa.int8(), pa.string()), TEXT),
    "v": (pa.string_view(), st.one_of(st.none(), st.text(max_size=30))),
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
    names = draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=4, unique=True))
    schema = pa.schema([(n, COLUMNS[n][0]) for n in names])
    out = []
    for rows in draw(st.lists(st.integers(0, 20), min_size=1, max_size=5)):
        cols = [pa.array(draw(st.lists(COLUMNS[n][1], min_size=rows, max_size=rows)), COLUMNS[n][0]) for n in names]
        rb = pa.RecordBatch.from_arrays(cols, schema=schema)
        a = draw(st.integers(0, rows))
        out.append(rb.slice(a, draw(st.integers(0, rows - a))))
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
        pa.RecordBatch.from_pydict({"x": np.arange(i, i + 1000), "s": [f"{k}" * (k % 7) if k % 3 else None for k in range(1000)]})
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
