"""DataFrames of groups (data/values/frame_groups.py): each equals a DataFrame of its rows alone,
and results that are joined give the same columns as when they are converted one by one."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from skate.data.values.batch import from_batch, to_batch
from skate.data.values.frame_groups import Frames, Held


def batch():
    return pa.record_batch(
        {
            "i": pa.array([1, 2, 3, 4, None, 6], pa.int32()),
            "f": pa.array([1.0, None, float("nan"), 4.0, 5.0, 6.0]),
            "b": pa.array([True, True, None, False, False, True]),
            "s": pa.array(["a", None, "c", "d", "e", "f"]),
            "t": pa.array([0, 1, 2, None, 4, 5], pa.timestamp("ms", "Europe/Berlin")),
            "l": pa.array([[1], [2], None, [], [5, 5], [6]]),
            "n": pa.array(range(6), pa.uint8()),
        }
    )


@pytest.mark.parametrize(("at", "n"), [(0, 1), (0, 6), (1, 2), (3, 1), (5, 1), (2, 3)])
def test_a_group_is_as_if_it_were_alone(at, n):
    rb = batch()
    got, want = Frames(rb).of(at, rb.slice(at, n)), to_batch(rb.slice(at, n), "pandas")
    assert got.dtypes.tolist() == want.dtypes.tolist() and got.index.equals(pd.RangeIndex(n))
    pd.testing.assert_frame_equal(got, want)


@pytest.mark.filterwarnings("error")
def test_groups_may_be_changed_and_do_not_see_each_other():
    rb = batch()
    frames = Frames(rb)
    a, b = frames.of(0, rb.slice(0, 2)), frames.of(2, rb.slice(2, 2))
    a["n"] = 9
    a.loc[0, "s"] = "new"
    a["more"] = 1
    assert (
        b.n.tolist() == [2, 3] and list(b.columns) == rb.schema.names and a.s.tolist()[0] == "new"
    )
    assert frames.of(0, rb.slice(0, 2)).columns.tolist() == rb.schema.names


def kept(outs, rb):
    held, got = Held("f", rb), []
    for out in outs:
        if not held.takes(out):
            got += [*held.batches(), *from_batch(out, "f", rb)]
    return [*got, *held.batches()]


def test_frames_that_go_together_become_one_batch():
    rb = batch()
    frames = Frames(rb)
    outs = [frames.of(i, rb.slice(i, 1))[["n", "s", "l"]].assign(x=i * 0.5) for i in range(6)]
    (got,) = kept(outs, rb)
    assert (
        got.schema.field("n").type == pa.uint8()
        and got.column("n").to_pylist() == list(range(6))
        and got.column("x").to_pylist() == [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]
    )
    assert (
        got.column("s").equals(rb.column("s"))
        and got.column("l").to_pylist() == rb.column("l").to_pylist()
    )


def test_frames_that_do_not_stay_apart():
    rb = batch()
    outs = [
        pd.DataFrame({"x": [1]}),
        pd.DataFrame({"x": [1.5]}),  # another type
        pd.DataFrame({"y": [1]}),
        pd.DataFrame({"y": [1]}, index=pd.Index(["i"])),  # an index that contains data
        pd.DataFrame({"y": [1]}, index=pd.Index([3], name="z")),
        {"x": np.array([1])},
        pd.DataFrame({"x": []}),
    ]
    got = kept(outs, rb)
    assert [b.schema.names for b in got] == [
        ["x"],
        ["x"],
        ["y"],
        ["__index_level_0__", "y"],
        ["z", "y"],
        ["x"],
        ["x"],
    ]
    assert got[0].column(0).type == pa.int64() and got[1].column(0).type == pa.float64()
    with pytest.raises(ValueError, match="twice"):
        kept([pd.DataFrame([[1, 2]], columns=["x", "x"])], rb)


def test_it_is_full_by_rows_and_by_frames():
    held = Held("f", batch())
    assert held.takes(pd.DataFrame({"x": np.zeros(1 << 16)})) and held.full()
    list(held.batches())
    assert not held.full()
    for _ in range(64):
        assert held.takes(pd.DataFrame({"o": [object()]}))
    assert held.full(), "objects may be large"
