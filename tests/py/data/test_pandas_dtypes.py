"""A DataFrame that becomes a Dataset and then a DataFrame again keeps its dtypes and values,
whatever operators are in between."""

import datetime as dt

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import skate.data as sd

N = None
FRAME = pd.DataFrame(
    {
        "k": [1, 2, 1],
        "Int64": pd.array([1, N, 3], "Int64"),
        "large": pd.array([2**60 + 1, N, 3], "Int64"),
        "Int8 full": pd.array([1, 2, 3], "Int8"),
        "UInt16": pd.array([1, N, 3], "UInt16"),
        "Float64": pd.array([1.5, N, 2], "Float64"),
        "Float32 full": pd.array([1.5, 2, 2], "Float32"),
        "boolean": pd.array([True, N, False], "boolean"),
        "boolean full": pd.array([True, True, False], "boolean"),
        "string": pd.array(["a", N, "b"], "string"),
        "string of Python": pd.array(["a", "c", "b"], "string[python]"),
        "text": ["a", "b", N],
        "float": [0.5, np.nan, 2],
        "zone": pd.date_range("2020", periods=3, tz="Europe/Berlin"),
        "span": pd.to_timedelta([1, 2, N], unit="s"),
        "category": pd.Categorical(["a", N, "b"]),
        "ordered": pd.Categorical([1, 2, 1], ordered=True),
        "Arrow int": pd.array([1, N, 3], "int64[pyarrow]"),
        "Arrow int full": pd.array([1, 2, 3], "int8[pyarrow]"),
        "Arrow text": pd.array(["a", N, "b"], pd.ArrowDtype(pa.string())),
        "Arrow large text": pd.array(["a", N, "b"], pd.ArrowDtype(pa.large_string())),
        "Arrow bool": pd.array([True, N, False], "bool[pyarrow]"),
        "Arrow time": pd.array(
            [dt.datetime(2020, 1, 1)] * 3, pd.ArrowDtype(pa.timestamp("us", "UTC"))
        ),
        "Arrow day": pd.array([dt.date(2020, 1, 1)] * 3, pd.ArrowDtype(pa.date32())),
    }
)
OF = FRAME[FRAME["k"] == 1]
WAYS = {
    "nothing": (lambda ds: ds, FRAME),
    "more blocks": (lambda ds: ds.repartition(3), FRAME),
    "numpy": (lambda ds: ds.map_batches(lambda b: b), FRAME),
    "numpy anew": (
        lambda ds: ds.map_batches(lambda b: {k: v.copy() for k, v in b.items()}, batch_size=2),
        FRAME,
    ),
    "pandas": (lambda ds: ds.map_batches(lambda b: b.copy(), batch_format="pandas"), FRAME),
    "pyarrow": (lambda ds: ds.map_batches(lambda b: b, batch_format="pyarrow"), FRAME),
    "rows": (lambda ds: ds.map(lambda r: r), FRAME),
    "filter": (lambda ds: ds.filter(lambda r: r["k"] == 1), OF),
    "expression": (lambda ds: ds.filter(expr="k == 1"), OF),
    "sort": (
        lambda ds: ds.sort("k", descending=True),
        FRAME.sort_values("k", ascending=False, kind="stable"),
    ),
    "materialize": (lambda ds: ds.materialize().limit(2), FRAME[:2]),
    "split": (lambda ds: ds.split_at_indices([2])[0], FRAME[:2]),
    "groups": (
        lambda ds: ds.groupby("k").map_groups(lambda df: df, batch_format="pandas"),
        FRAME.sort_values("k", kind="stable"),
    ),
    "union": (lambda ds: ds.union(ds), pd.concat([FRAME, FRAME])),
}


@pytest.mark.parametrize("way", WAYS)
def test_dtypes_are_kept(way):
    do, want = WAYS[way]
    pd.testing.assert_frame_equal(
        do(sd.from_pandas(FRAME)).to_pandas(), want.reset_index(drop=True)
    )


def test_keys_of_groups_keep_theirs_and_new_values_have_their_own():
    out = sd.from_pandas(FRAME).groupby("Int64").count().to_pandas()
    assert str(out["Int64"].dtype) == "Int64" and out["Int64"].tolist() == [1, 3, pd.NA]
    other = (
        sd.from_pandas(FRAME)
        .map_batches(lambda b: {"Int64": b["Int64"] / 2, "boolean": b["k"]})
        .to_pandas()
    )
    assert other.dtypes.tolist() == [np.float64, np.int64] and other["Int64"].isna().tolist() == [
        False,
        True,
        False,
    ]


def test_what_frames_do_not_agree_on_is_as_pandas_has_it_by_default():
    a, b = pd.DataFrame({"x": pd.array([1, N], "Int64")}), pd.DataFrame({"x": [1, 2]})
    assert sd.from_pandas([a, b]).to_pandas()["x"].dtype == np.float64
    assert str(sd.from_pandas([a, a]).to_pandas()["x"].dtype) == "Int64"
    assert (
        sd.from_pandas(a).union(sd.from_pandas(a.astype("Int32"))).to_pandas()["x"].dtype
        == np.float64
    )
    table = pa.table({"x": pa.array([1, N]), "b": pa.array([True, N])})
    # data that never was a DataFrame
    assert sd.from_arrow(table).to_pandas().dtypes.tolist() == [np.float64, object]
