"""Expressions in pipelines: aggregates in agg(), random numbers by row, unnest."""

import re

import numpy as np
import pyarrow as pa
import pytest
import skate.data as sd
from hypothesis import given
from hypothesis import strategies as st
from rounds import examples
from skate.data.aggregate import Sum
from skate.data.expressions import col, lit, monotonically_increasing_id, random, uuid, when
from skate.data.op import find
from skate.data.worker.task import task

ROWS = [{"k": i % 3, "x": i, "y": None if i % 5 == 0 else i / 2} for i in range(60)]


def groups():
    return {k: [r for r in ROWS if r["k"] == k] for k in range(3)}


def test_aggregates_as_expressions_are_those_of_a_loop():
    ds = sd.from_items(ROWS, override_num_blocks=4).groupby("k")
    got = ds.agg(
        col("x").sum(),
        col("y").count(),
        col("x").max().alias("most"),
        mean=col("y").mean(),
        spread=col("x").max() - col("x").min(),
        squares=(col("x") ** 2).sum() + col("k") * 1000,
        doubled=(col("x") * 2).sum(),
        plain=Sum("x"),
        distinct=(col("x") // 2).n_unique(),
        first=col("y").first(),
    ).take_all()
    want = []
    for k, rows in groups().items():
        x, y = [r["x"] for r in rows], [r["y"] for r in rows if r["y"] is not None]
        want.append(
            {
                "k": k,
                "sum(x)": sum(x),
                "count(y)": len(y),
                "most": max(x),
                "mean": sum(y) / len(y),
                "spread": max(x) - min(x),
                "squares": sum(v * v for v in x) + k * 1000,
                "doubled": 2 * sum(x),
                "plain": sum(x),
                "distinct": len({v // 2 for v in x}),
                "first": y[0],
            }
        )
    assert got == want


def test_aggregates_alone_are_the_kernels():
    grouped = sd.from_items(ROWS).groupby("k")
    ds = grouped.agg(col("x").sum(), col("y").std(ddof=0).alias("s"), col("y").median())
    assert "Project" not in ds.explain_text()
    assert ds.columns() == ["k", "sum(x)", "s", "median(y)"]
    want = [np.std([r["y"] for r in g if r["y"] is not None]) for g in groups().values()]
    assert [r["s"] for r in ds.take_all()] == pytest.approx(want)
    assert sd.from_items(ROWS).groupby(None).agg(n=col("x").count()).take_all() == [{"n": 60}]
    lists = grouped.agg(col("x").implode(), q=col("x").quantile(0.5), v=col("x").var()).take(1)[0]
    assert lists["list(x)"] == list(range(0, 60, 3))
    assert (lists["q"], lists["v"]) == (28.5, pytest.approx(np.var(range(0, 60, 3), ddof=1)))


def test_agg_says_what_is_wrong():
    g = sd.from_items(ROWS).groupby("k")
    for args, named, error, text in [
        ((col("x"),), {}, ValueError, "aggregates nothing"),
        ((col("x").sum() + col("y"),), {}, ValueError, "'y' has many values in a group"),
        ((col("x").sum(), Sum("x")), {}, ValueError, "'sum(x)' is the name of"),
        ((), {"k": col("x").sum()}, ValueError, "'k' is the name of a key"),
        (("x",), {}, TypeError, "not str"),
        ((), {}, ValueError, "at least one"),
    ]:
        with pytest.raises(error, match=re.escape(text)):
            g.agg(*args, **named)
    with pytest.raises(TypeError, match="an aggregate of an aggregate"):
        col("x").sum().max()
    with pytest.raises(TypeError, match=r"groupby\(...\).agg"):
        sd.from_items(ROWS).with_column("s", col("x").sum())
    with pytest.raises(TypeError, match=r"groupby\(...\).agg"):
        sd.from_items(ROWS).filter(expr=col("x").sum() > 3)


def test_random_and_uuid_are_functions_of_seed_and_place():
    def rows(seed, blocks=7):
        ds = sd.range(500, override_num_blocks=blocks)
        made = ds.with_columns({"r": random(seed=seed), "u": uuid(seed=seed), "t": random(seed=1)})
        return made.take_all()

    once = rows(1)
    assert once == rows(1)
    assert all(r["r"] == r["t"] for r in once)
    assert once != rows(2)
    r = np.array([row["r"] for row in once])
    assert len(set(r)) == 500 and 0 <= r.min() < 0.05 and 0.95 < r.max() < 1
    assert abs(r.mean() - 0.5) < 0.05
    version = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
    assert len({row["u"] for row in once if version.fullmatch(row["u"])}) == 500
    # without a seed: another one for each expression, the same one for each run of it
    ds = sd.range(3).with_columns({"a": random(), "b": random()})
    assert ds.take_all() == ds.take_all()
    assert ds.take(1)[0]["a"] != ds.take(1)[0]["b"]
    for bad in (-1, 1.5, True, 1 << 64):
        with pytest.raises(ValueError, match="from 0 to"):
            random(seed=bad)


def test_a_filter_by_chance_is_no_predicate_of_the_rows_before_it(tmp_path):
    sd.range(1000, override_num_blocks=4).write_parquet(str(tmp_path))
    ds = sd.read_parquet(str(tmp_path))
    by_chance = ds.filter(expr=random(seed=3) < 0.3)
    ids = [r["id"] for r in by_chance.take_all()]
    assert 200 < len(ids) < 400
    # the rows that a later filter keeps are a part of these: it does not go before the numbering
    assert [r["id"] for r in by_chance.filter(expr="id >= 500").take_all()] == [
        i for i in ids if i >= 500
    ]
    numbered = ds.filter(expr=monotonically_increasing_id() >= 0).with_column("n", lit(1))
    assert numbered.count() == 1000


def test_when_computes_a_value_for_its_rows_only():
    ds = sd.from_items([{"a": 6, "b": 2}, {"a": 1, "b": 0}, {"a": None, "b": 3}])
    ratio = when(col("b") != 0).then(col("a") // col("b")).otherwise(-1)
    assert [r["c"] for r in ds.with_column("c", ratio).take_all()] == [3, -1, None]


def test_unnest_in_a_pipeline():
    rows = [{"i": i, "s": {"a": i, "b": str(i)} if i % 3 else None} for i in range(20)]
    ds = sd.from_items(rows, override_num_blocks=3).unnest("s").filter(expr="a > 10")
    assert ds.columns() == ["i", "a", "b"]
    assert ds.take_all() == [{"i": i, "a": i, "b": str(i)} for i in range(11, 20) if i % 3]
    ds = sd.from_items(rows)
    with pytest.raises(TypeError, match="not of structs"):
        ds.unnest("i")
    with pytest.raises(KeyError, match="no column"):
        ds.unnest("t")
    with pytest.raises(ValueError, match="'a'"):
        sd.from_items([{"a": 1, "s": {"a": 2}}]).unnest("s")


@examples(60)
@given(
    st.lists(st.none() | st.tuples(st.none() | st.integers(-9, 9), st.text("ab", max_size=2))),
    st.integers(0, 2),
    st.sampled_from([None, "_"]),
)
def test_unnest_is_a_loop(structs, skip, separator):
    kind = pa.struct([("a", pa.int32()), ("b", pa.string())])
    rb = pa.RecordBatch.from_arrays(
        [
            pa.array([None if s is None else {"a": s[0], "b": s[1]} for s in structs], kind),
            pa.array(range(len(structs)), pa.int8()),
        ],
        names=["s", "i"],
    ).slice(skip)
    params = {"cols": ["s"], "separator": separator, "label": "l"}
    (got,) = find("unnest").run(params, iter([rb]), task)
    head = "" if separator is None else "s_"
    want = [
        {head + "a": (r["s"] or {}).get("a"), head + "b": (r["s"] or {}).get("b"), "i": r["i"]}
        for r in rb.to_pylist()
    ]
    assert got.to_pylist() == want
    assert got.schema == find("unnest").schema(params, rb.schema)
