"""Compares Dataset.explode with a simple version over rows, and checks the optimiser's rules around
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

LISTS = st.lists(
    st.one_of(st.none(), st.lists(st.one_of(st.none(), st.integers(-9, 9)), max_size=4)),
    min_size=1,
    max_size=12,
)


def naive(rows, column):
    return [{**r, column: v} for r in rows for v in (r[column] or [None])]


@examples(100)
@given(LISTS, st.sampled_from([pa.list_(pa.int64()), pa.large_list(pa.int32())]), st.integers(0, 3))
def test_rows_are_those_of_a_loop(lists, t, skip):
    rb = pa.RecordBatch.from_arrays(
        [pa.array(range(len(lists))), pa.array(lists, t)], names=["i", "x"]
    ).slice(skip)
    got = pa.Table.from_batches(
        find("explode").run({"col": "x", "label": "l"}, iter([rb]), task)
    ).to_pylist()
    assert got == naive(rb.to_pylist(), "x")


def test_a_pipeline(tmp_path, monkeypatch):
    rows = [{"i": i, "x": list(range(i % 4)), "y": str(i)} for i in range(200)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet", row_group_size=50)
    ds = (
        sd.read_parquet(tmp_path)
        .explode("x")
        .filter(expr="i > 150 and x is not null")
        .filter(expr="i < 180")
        .select_columns(["i", "x"])
    )
    text = ds.explain_text()
    assert (
        "reads 2 of 3 columns: i, x" in text
        and "(i < 180)" in text
        and "x is not" not in text[text.index("predicates") :]
    )
    want = [
        {"i": r["i"], "x": r["x"]}
        for r in naive(rows, "x")
        if 150 < r["i"] < 180 and r["x"] is not None
    ]
    assert ds.take_all() == want and ds.schema().types == [pa.int64(), pa.int64()]
    monkeypatch.setattr(optimise, "OFF", {"projection", "predicates", "limit", "fusion"})
    assert ds.take_all() == want


def test_what_it_refuses():
    with pytest.raises(KeyError, match="no column 'z'"):
        sd.range(3).explode("z")
    with pytest.raises(TypeError, match="of type int64, not of lists"):
        sd.range(3).explode("id")
    with pytest.raises(TypeError, match="of type int64, not of lists"):
        sd.range(3).map(lambda r: r).explode("id").take_all()
