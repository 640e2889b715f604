"""Plans of thousands of operators and tables of thousands of columns: no function recurses that
deep, no time is quadratic, and every text has a limited length."""

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import skate
import skate.data as sd
from skate.data.plan import lower, node
from skate.data.values import frames

WIDE = pa.table({f"col_{i:05d}": np.arange(2.0) + i for i in range(3000)})


def looped(n, add):
    ds = sd.range(2, override_num_blocks=1)
    for i in range(n):
        ds = add(ds, i)
    return ds


def test_a_union_made_in_a_loop():
    ds = looped(600, lambda ds, i: ds.union(sd.range(1)))
    assert len(ds._node.inputs) == 601 and ds.count() == 602
    assert [r["id"] for r in ds.take_all()] == [0, 1] + [0] * 600
    with_functions = looped(30, lambda ds, i: ds.union(sd.range(1).map(lambda r: r)))
    assert [r["id"] for r in with_functions.limit(20).take_all()] == [0, 1] + [0] * 18


def test_a_chain_of_maps():
    ds = looped(1500, lambda ds, i: ds.map(lambda r: {"id": r["id"] + 1}))
    assert (
        len(repr(ds)) < 4000 and len(ds._repr_html_()) < 4000 and "1,477 more operators" in repr(ds)
    )
    assert ds.take_all() == [{"id": 1500}, {"id": 1501}]
    assert len(lower.explain(ds._node)) < 200_000


def test_a_chain_goes_to_another_process():
    ds = looped(1500, lambda ds, i: ds.map(str) if i == 1499 else ds.limit(1))
    again = pickle.loads(pickle.dumps(ds._node))
    assert (
        len(node.below(again)) == 1501
        and again.label == "Map(str)"
        and again.inputs[0].options["limit"] == 1
    )
    two = sd.range(1)
    both = pickle.loads(pickle.dumps(two.union(two)._node))
    assert both.inputs[0] is both.inputs[1]
    assert skate.get(
        skate.remote(lambda d: d.take_all()).remote(looped(1500, lambda ds, i: ds.limit(1)))
    ) == [{"id": 0}]


def test_columns_operators_and_filters_in_a_chain():
    ds = looped(
        1500,
        lambda ds, i: (
            ds.rename_columns({ds.columns()[0]: f"x{i}"})
            if i % 3
            else ds.select_columns(ds.columns())
        ),
    )
    assert ds.take_all() == [{"x1499": 0}, {"x1499": 1}]
    kept = looped(300, lambda ds, i: ds.filter(expr=f"id < {1000 - i}"))
    assert kept.take_all() == [{"id": 0}, {"id": 1}]


def test_predicates_of_a_long_chain_reach_the_reader(tmp_path):
    sd.range(10).write_parquet(tmp_path)
    ds = sd.read_parquet(tmp_path)
    for i in range(100):
        ds = ds.filter(expr=f"id > {i - 95}")
    assert [r["id"] for r in ds.take_all()] == [5, 6, 7, 8, 9]


def test_a_typo_among_many_columns():
    ds = sd.from_arrow(WIDE)
    for call in (
        lambda: ds.select_columns(["col_0l234"]),
        lambda: ds.drop_columns(["col_0l234"]),
        lambda: ds.sum("col_0l234"),
        lambda: (
            ds.map_batches(lambda b: b, batch_format="pyarrow")
            .select_columns(["col_0l234"])
            .take_all()
        ),
        lambda: ds.filter(expr="col_0l234 > 1").take_all(),
        lambda: ds.summary(columns=["col_0l234"]),
    ):
        with pytest.raises((KeyError, ValueError), match="did you mean .*'col_01234'") as e:
            call()
        assert len(str(e.value)) < 1000 and "3,000 columns" in str(e.value)
    with pytest.raises(ValueError, match=r"\['a'\] .* 2,992 more") as e:
        ds.rename_columns(["a"])
    assert len(str(e.value)) < 500
    with pytest.raises(KeyError, match="columns are id"):
        sd.range(1).select_columns(["x"])


def test_texts_of_a_wide_table_end():
    ds = sd.from_arrow(WIDE)
    assert max(len(repr(ds)), len(ds._repr_html_()), len(repr(ds.schema()))) < 10_000
    assert (
        len(repr(ds.map(lambda r: r))) < 2000
        and len(ds.select_columns(ds.columns())._node.label) < 200
    )
    assert (
        "col_00000" in repr(ds)
        and "col_02999" in repr(ds)
        and "2998.0" in repr(ds)
        and "(2,800 more)" in repr(ds.schema())
    )


def test_a_wide_dataframe_is_views_of_one_block():
    rb = WIDE.to_batches()[0]
    df = frames.to_pandas(rb)
    columns = dict(frames._columns(df))
    assert all(
        type(v) is np.ndarray and np.shares_memory(v, columns["col_00000"].base)
        for v in columns.values()
    )
    assert frames.from_pandas(df, "f", rb)[0].equals(rb)
    mixed = df.assign(
        text="t", when=pd.Timestamp("2020-01-01"), **{f"i{k}": np.arange(2) for k in range(20)}
    ).assign(masked=pd.array([1, None], "Int64"))
    (out,) = frames.from_pandas(mixed, "f")
    assert out.schema.names == list(mixed.columns) and out.column("text").to_pylist() == ["t", "t"]
    assert (
        out.column("masked").to_pylist() == [1, None]
        and out.column("i7").to_pylist() == [0, 1]
        and str(out.column("when").type).startswith("timestamp")
    )
    got = sd.from_arrow(WIDE).map_batches(lambda d: d + 1, batch_format="pandas").to_pandas()
    assert got.shape == (2, 3000) and got["col_01234"].tolist() == [1235.0, 1236.0]
