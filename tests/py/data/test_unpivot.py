"""Compares Dataset.unpivot with a simple version over rows, and checks the optimiser's rules around
it."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import skate.data as sd
from hypothesis import given
from hypothesis import strategies as st
from rounds import examples
from skate.data.op import find
from skate.data.plan import optimise
from skate.data.worker.task import task

COLUMNS = st.lists(
    st.tuples(
        *[st.one_of(st.none(), st.integers(-9, 9))] * 2, st.one_of(st.none(), st.floats(-1, 1))
    ),
    max_size=8,
)


def naive(rows, on, index):
    return [
        {**{i: r[i] for i in index}, "variable": c, "value": r[c]}
        for r in rows
        for c in (on or [c for c in r if c not in index])
    ]


@examples(100)
@given(
    COLUMNS,
    st.sampled_from([None, ["a"], ["c", "a"], ["a", "b"]]),
    st.sampled_from([[], ["b"], ["i", "b"]]),
    st.integers(0, 2),
)
def test_rows_are_those_of_a_loop(columns, on, index, skip):
    if on and set(on) & set(index):
        index = ["i"]
    schema = pa.schema([("i", pa.int8()), ("a", pa.int32()), ("b", pa.int64()), ("c", "double")])
    given_rows = [dict(zip("iabc", (n, *c))) for n, c in enumerate(columns)]
    rb = pa.RecordBatch.from_pylist(given_rows, schema).slice(skip)
    params = {"on": on, "index": index, "names": ["variable", "value"], "label": "l"}
    got = pa.Table.from_batches(find("unpivot").run(params, iter([rb]), task))
    assert got.to_pylist() == naive(rb.to_pylist(), on, index)
    assert got.schema == find("unpivot").schema(params, schema)


def test_a_pipeline(tmp_path, monkeypatch):
    rows = [{"i": i, "x": i * 2, "y": i / 2, "z": str(i)} for i in range(200)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet", row_group_size=50)
    ds = (
        sd.read_parquet(tmp_path)
        .unpivot(["x", "y"], index=["i", "z"])
        .filter(expr="i > 150 and value > 90")
        .filter(expr="i < 180")
        .select_columns(["i", "variable", "value"])
    )
    text = ds.explain_text()
    assert "reads 3 of 4 columns: i, x, y" in text
    assert "(i < 180)" in text and "value" not in text[text.index("predicates") :]
    want = [
        {"i": r["i"], "variable": v, "value": float(r[v])}
        for r in rows
        for v in ("x", "y")
        if 150 < r["i"] < 180 and r[v] > 90
    ]
    assert ds.take_all() == want and ds.schema().types == [pa.int64(), pa.string(), pa.float64()]
    monkeypatch.setattr(optimise, "OFF", {"projection", "predicates", "limit", "fusion"})
    assert ds.take_all() == want


def test_all_others_whatever_is_wanted_of_the_index():
    # the columns are not known before a run
    ds = sd.from_items([{"a": 1, "b": 2, "c": 3}]).map(lambda r: r)
    ds = ds.unpivot(index=["a", "b"]).select_columns(["variable", "value"])
    assert ds.take_all() == [{"variable": "c", "value": 3}]


@pytest.mark.parametrize(
    ("args", "error", "text"),
    [
        ({"on": "q"}, KeyError, "no column 'q'"),
        ({"on": "a", "index": "q"}, KeyError, "no column 'q'"),
        ({"on": []}, ValueError, "`on` is empty"),
        ({"on": ["a", "a"]}, ValueError, "'a' is there twice"),
        ({"on": "a", "index": "b", "value_name": "b"}, ValueError, "'b' is there twice"),
        ({"index": ["a", "b", "t"]}, ValueError, "none is left"),
        ({"on": ["a", "t"]}, TypeError, "has type int64 in a and string in t"),
    ],
)
def test_what_is_wrong_is_said(args, error, text):
    for ds in (
        sd.from_items([{"a": 1, "b": 2, "t": "x"}]),
        sd.from_items([{"a": 1, "b": 2, "t": "x"}]).map(lambda r: r),
    ):
        with pytest.raises(error, match=text):
            ds.unpivot(**args).take_all()
