"""Hand-over to and from Polars, DuckDB, Hugging Face datasets and Dask; the Arrow stream both ways. Types without a form there are refused, not changed."""

import decimal

import numpy as np
import pyarrow as pa
import pytest
import skate.data as sd

TABLE = pa.table(
    {
        "i": pa.array([1, None, 2**53 + 1], pa.int64()),
        "s": pa.array(["a", None, "ß"], pa.large_string()),
        "t": pa.array([0, None, 10**15], pa.timestamp("us", tz="UTC")),
        "l": pa.array([[1, 2], None, []], pa.large_list(pa.int32())),
        "st": pa.array([{"a": 1}, {"a": None}, {"a": 3}], pa.struct([("a", pa.int16())])),
        "b": pa.array([b"x", b"", None], pa.large_binary()),
        "d": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("-2.25")], pa.decimal128(10, 2)),
    }
)


def datasets():
    """Eager, lazy over several blocks, without rows."""
    return [
        sd.from_arrow(TABLE),
        sd.from_arrow([TABLE, TABLE]).map_batches(lambda b: b, batch_format="pyarrow"),
        sd.from_arrow(TABLE.slice(0, 0)),
    ]


@pytest.mark.parametrize("k", range(3))
def test_arrow_stream_out_and_in(k):
    ds = datasets()[k]
    want = [TABLE, pa.concat_tables([TABLE, TABLE]), TABLE.slice(0, 0)][k]
    got = pa.table(ds)
    assert got.schema.equals(want.schema) and got.combine_chunks().equals(want.combine_chunks())
    back = sd.from_arrow(pa.RecordBatchReader.from_stream(ds))
    assert back.to_arrow().equals(want.combine_chunks())


def test_a_stream_runs_while_it_is_read():
    done = []
    ds = sd.range(400, override_num_blocks=100).map_batches(lambda b: b)
    reader = pa.RecordBatchReader.from_stream(ds)
    done.append(reader.read_next_batch().num_rows)
    del reader  # closing it ends the run
    assert done == [4]
    with pytest.raises(Exception, match="boom"):
        pa.table(sd.range(4).map(lambda r: {"x": 1 / 0 if r["id"] == 5 else (_ for _ in ()).throw(ValueError("boom"))}))


def test_polars():
    import polars as pl

    ds = datasets()[1]
    df = pl.DataFrame(ds)
    assert df.shape == (6, 7) and df["i"].to_list() == [1, None, 2**53 + 1] * 2
    assert ds.to_polars().equals(df)
    back = sd.from_polars(df).to_arrow()
    for name in TABLE.column_names:
        assert back[name].to_pylist() == pa.concat_tables([TABLE, TABLE])[name].to_pylist(), name
    assert sd.from_polars(df.lazy().filter(pl.col("i") > 1)).count() == 2
    out = sd.from_polars(pl.DataFrame({"x": [1, 2, 3]})).map_batches(lambda b: pl.DataFrame({"y": b["x"] * 2}))
    assert out.take_all() == [{"y": 2}, {"y": 4}, {"y": 6}]
    assert pl.DataFrame(sd.from_numpy(np.arange(6).reshape(3, 2)))["data"].to_list() == [[0, 1], [2, 3], [4, 5]]


def test_huggingface():
    import datasets as hf

    ds = datasets()[1]
    d = ds.to_huggingface()
    assert isinstance(d, hf.Dataset) and d.num_rows == 6 and d[1]["i"] is None and d[2]["i"] == 2**53 + 1
    back = sd.from_huggingface(d, override_num_blocks=3)
    assert back.take_all() == ds.take_all()
    odd = d.select([4, 0]).filter(lambda r: r["i"] == 1)
    assert sd.from_huggingface(odd).select_columns(["i", "s"]).take_all() == [{"i": 1, "s": "a"}]
    stream = d.select_columns(["i"]).to_iterable_dataset().map(lambda r: {"i": (r["i"] or 0) + 1})
    assert [r["i"] for r in sd.from_huggingface(stream).take_all()] == [2, 1, 2**53 + 2] * 2
    with pytest.raises(DeprecationWarning, match="train, test"):
        sd.from_huggingface(hf.DatasetDict({"train": d, "test": d}))


def test_duckdb():
    import duckdb

    ds = datasets()[1]
    con = duckdb.connect()
    rel = con.from_arrow(pa.RecordBatchReader.from_stream(ds))
    assert rel.aggregate("count(*), max(i)").fetchall() == [(6, 2**53 + 1)]
    assert con.sql("select sum(i) from ds").fetchall() == [(2 + 2 * (2**53 + 1),)]  # found by name, through __arrow_c_stream__
    all_rows = ds.to_duckdb(con)
    assert all_rows.columns == TABLE.column_names and con.sql("select max(i) from all_rows").fetchall() == [(2**53 + 1,)]
    assert ds.to_duckdb().aggregate("count(*)").fetchall() == [(6,)]
    back = sd.from_duckdb(con.sql("select range as x, range % 2 = 0 as even from range(5)"))
    assert back.count() == 5 and back.filter(expr="even").take_all() == [
        {"x": 0, "even": True},
        {"x": 2, "even": True},
        {"x": 4, "even": True},
    ]


def test_dask():
    import dask.dataframe as dd
    import pandas as pd

    df = pd.DataFrame({"x": range(10), "y": [f"v{i}" for i in range(10)]})
    ds = sd.from_dask(dd.from_pandas(df, npartitions=3))
    assert ds.count() == 10 and ds.num_blocks() == 3 and ds.take(1) == [{"x": 0, "y": "v0"}]
    assert ds.map(lambda r: {"x": r["x"] * 2}).to_dask()["x"].sum().compute() == 90
