"""The exact sum of 64-bit integers (py/data/sum.c) beside Python's own."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rounds import examples
from skate import _skate
from skate.data.combine import _sum

INT64 = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([-(2**63), 2**63 - 1, -1, 0, -(2**32), 2**32 - 1]),
)
UINT64 = st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([2**64 - 1, 2**63, 2**32, 0]))


@examples(50)
@given(st.data())
def test_sums_are_pythons(data):
    kind, values = data.draw(st.sampled_from([(pa.int64(), INT64), (pa.uint64(), UINT64)]))
    of = data.draw(
        st.lists(st.one_of(st.none(), values), min_size=1, max_size=50).filter(
            lambda v: any(x is not None for x in v)
        )
    )
    want = sum(v for v in of if v is not None)
    col = pa.array(of, kind)
    cut = data.draw(st.integers(0, len(of)))
    assert _sum(col) == want
    assert _sum(pa.chunked_array([col[:cut], col[cut:]], kind)) == want
    if any(v is not None for v in of[cut:]):
        assert _sum(col[cut:]) == sum(v for v in of[cut:] if v is not None)


def test_many_of_the_largest_and_the_smallest():
    for v in (-(2**63), 2**63 - 1):
        assert _sum(pa.array(np.full(100_000, v, np.int64))) == 100_000 * v
    assert _sum(pa.array(np.full(100_000, 2**64 - 1, np.uint64))) == 100_000 * (2**64 - 1)


@pytest.mark.parametrize(
    "values",
    [np.zeros(3, np.int32), np.zeros(3), b"12345678", np.zeros((2, 2), "datetime64[s]").view("S8")],
    ids=str,
)
def test_what_are_no_such_integers(values):
    with pytest.raises(TypeError, match="integers of 64 bits"):
        _skate.sum_halves(values)
