"""Dataset.groupby on the engine: aggregates by group and functions over groups, compared with
pandas and plain Python."""

import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import skate
import skate.data as sd
from skate.data import aggregate as ag
from skate.data.datatype import DataType
from skate.data.expressions import col, udf
from skate.exceptions import RayTaskError

N = 1000


def numbers(blocks=7):
    rng = np.random.default_rng(3)
    table = pa.table(
        {
            "k": rng.integers(0, 23, N),
            "t": pa.array([f"t{i % 5}" for i in range(N)]),
            "x": rng.normal(size=N),
            "i": rng.integers(-50, 50, N),
        }
    )
    ends = sorted([0, N, *rng.integers(0, N, blocks - 1).tolist()])
    return table, sd.from_blocks(
        [table.slice(a, b - a) for a, b in zip(ends, ends[1:], strict=False)]
    )


def test_aggregates_as_pandas_has_them():
    table, ds = numbers()
    got = ds.groupby("k").aggregate(
        ag.Count(),
        ag.Sum("i"),
        ag.Min("x"),
        ag.Max("x"),
        ag.Mean("x"),
        ag.Std("x"),
        ag.AbsMax("i"),
        ag.Quantile("x"),
        ag.CountDistinct("t"),
        ag.Unique("t"),
    )
    assert got.columns() == [
        "k",
        "count()",
        "sum(i)",
        "min(x)",
        "max(x)",
        "mean(x)",
        "std(x)",
        "abs_max(i)",
        "quantile(x)",
        "count_distinct(t)",
        "unique(t)",
    ]
    got = got.to_pandas()
    g = table.to_pandas().groupby("k")
    want = pd.DataFrame(
        {
            "count()": g.size(),
            "sum(i)": g.i.sum(),
            "min(x)": g.x.min(),
            "max(x)": g.x.max(),
            "mean(x)": g.x.mean(),
            "std(x)": g.x.std(),
            "abs_max(i)": g.i.agg(lambda s: s.abs().max()),
            "quantile(x)": g.x.quantile(),
            "count_distinct(t)": g.t.nunique(),
        }
    ).reset_index()
    pd.testing.assert_frame_equal(
        got.drop(columns=["unique(t)", "quantile(x)"]), want.drop(columns="quantile(x)"), rtol=1e-9
    )
    pd.testing.assert_series_equal(got["quantile(x)"], want["quantile(x)"], atol=1e-5)
    assert [list(v) for v in got["unique(t)"]] == [list(v) for v in g.t.unique()]


def test_groups_come_in_order_over_all_blocks():
    _, ds = numbers()
    rows = ds.groupby(["t", "k"]).count().take_all()
    assert [(r["t"], r["k"]) for r in rows] == sorted({(r["t"], r["k"]) for r in rows})
    assert sum(r["count()"] for r in rows) == N


def test_the_same_on_every_layout():
    def result(blocks, n):
        return (
            numbers(blocks)[1]
            .groupby("k", num_partitions=n)
            .aggregate(ag.Sum("i"), ag.AsList("i"), ag.Unique("t"), ag.ValueCounter("t"))
            .take_all()
        )

    want = result(1, None)
    assert want == result(7, None) == result(13, 4) == result(3, 100)


@pytest.mark.parametrize("strategy", ["merge", "two_level", "grouped"])
def test_the_same_by_each_strategy(strategy):
    _, ds = numbers()
    want = ds.groupby("k").aggregate(ag.Sum("i"), ag.AsList("x")).take_all()
    ds.context.shuffle_strategy = strategy
    assert ds.groupby("k").aggregate(ag.Sum("i"), ag.AsList("x")).take_all() == want


def test_null_and_nan_are_keys():
    ds = sd.from_blocks(
        [
            pa.table({"k": pa.array(v, pa.float64())})
            for v in ([1.0, None, math.nan], [-0.0, 0.0, None], [math.nan, 1.0, 2.0])
        ]
    )
    got = ds.groupby("k").count().take_all()
    assert [(repr(r["k"]), r["count()"]) for r in got] == [
        ("0.0", 2),
        ("1.0", 2),
        ("2.0", 1),
        ("nan", 2),
        ("None", 2),
    ]


def test_missing_values():
    ds = sd.from_items(
        [{"k": 1, "v": 1.0}, {"k": 1, "v": None}, {"k": 1, "v": math.nan}, {"k": 2, "v": 4.0}]
    )
    assert ds.groupby("k").mean("v").take_all() == [
        {"k": 1, "mean(v)": 1.0},
        {"k": 2, "mean(v)": 4.0},
    ]
    assert ds.groupby("k").sum("v", ignore_nulls=False).take_all() == [
        {"k": 1, "sum(v)": None},
        {"k": 2, "sum(v)": 4.0},
    ]
    assert ds.groupby("k").aggregate(
        ag.Count("v"), ag.Count("v", ignore_nulls=True)
    ).take_all() == [
        {"k": 1, "count(v)": 3, "count(v)_2": 1},
        {"k": 2, "count(v)": 1, "count(v)_2": 1},
    ]
    none = sd.from_items([{"k": i % 2, "v": None} for i in range(6)])
    assert none.groupby("k").sum("v").take_all() == [
        {"k": 0, "sum(v)": None},
        {"k": 1, "sum(v)": None},
    ]


def test_all_columns_and_some():
    ds = sd.from_items([{"k": 1, "x": 2, "y": 3}, {"k": 1, "x": 4, "y": 5}])
    assert ds.groupby("k").max().take_all() == [{"k": 1, "max(x)": 4, "max(y)": 5}]
    assert ds.groupby("k").min(["y", "x"]).take_all() == [{"k": 1, "min(y)": 3, "min(x)": 2}]
    assert ds.groupby(["k", "x"]).std("y", ddof=0).take_all() == [
        {"k": 1, "x": 2, "std(y)": 0.0},
        {"k": 1, "x": 4, "std(y)": 0.0},
    ]
    with pytest.raises(ValueError, match="at least one column"):
        ds.groupby(["k", "x", "y"]).sum()


def test_no_key_is_one_group():
    ds = sd.range(100, override_num_blocks=5)
    assert ds.groupby(None).sum("id").take_all() == [{"sum(id)": 4950}]
    assert ds.groupby(None).aggregate(ag.Count(), ag.Max("id")).take_all() == [
        {"count()": 100, "max(id)": 99}
    ]
    assert ds.groupby(None).map_groups(lambda g: {"n": [len(g)]}).take_all() == [{"n": 100}]


def test_nothing_to_group():
    assert sd.range(10).filter(lambda r: False).groupby("id").count().take_all() == []
    assert sd.range(10).filter(lambda r: False).groupby("nothing").count().count() == 0, (
        "where there are no rows none lacks a column"
    )
    assert (
        sd.range(10).filter(lambda r: False).groupby("id").map_groups(lambda g: g).take_all() == []
    )


class Second(ag.AggregateFnV2):
    """The second largest value: its state is a list."""

    def __init__(self, on):
        super().__init__(f"second({on})", list, on=on, ignore_nulls=True)

    def aggregate_block(self, block):
        return sorted(block.column(self.get_target_column()).to_pylist())[-2:]

    def combine(self, current_accumulator, new):
        return sorted(current_accumulator + new)[-2:]

    def finalize(self, accumulator):
        return accumulator[0] if len(accumulator) == 2 else None


def test_aggregates_of_users():
    table, ds = numbers()
    made = ag.AggregateFn(
        init=lambda k: [k, 0],
        accumulate_row=lambda a, r: [a[0], a[1] + r["i"]],
        merge=lambda a, b: [a[0], a[1] + b[1]],
        finalize=str,
        name="made",
    )
    got = (
        ds.groupby("k")
        .aggregate(
            made, Second("i"), ag.ApproximateTopK("t", k=1), ag.ApproximateQuantile("i", [0.0, 1.0])
        )
        .take_all()
    )
    for r, (k, g) in zip(got, table.to_pandas().groupby("k"), strict=True):
        assert (
            r["k"] == k
            and r["made"] == str([k, int(g.i.sum())])
            and r["second(i)"] == sorted(g.i)[-2]
        )
        assert r["approx_topk(t)"][0]["count"] == g.t.value_counts().max()
        assert r["approx_quantile(i)"] == [g.i.min(), g.i.max()]


class SumOfSquares(ag.Sum):
    """Its aggregate_block() returns results of blocks instead of states."""

    def aggregate_block(self, block):
        return sum(v * v for v in block.column(self.get_target_column()).to_pylist())


class Percent(ag.Mean):
    def finalize(self, accumulator):
        return 100 * super().finalize(accumulator)


class Counted(ag.Max):
    calls = 0

    def combine(self, current_accumulator, new):
        type(self).calls += 1
        return super().combine(current_accumulator, new)


class Alien(ag.Std):
    def aggregate_block(self, block):
        return 1


class Same(ag.Quantile):
    """A subclass that overrides nothing."""


def test_subclasses_of_built_in_aggregates():
    ds = sd.range(12, override_num_blocks=4)
    aggs = [SumOfSquares("id"), Percent("id"), Counted("id"), Same("id"), ag.Count()]
    want = {"sum(id)": 506, "mean(id)": 550.0, "max(id)": 11, "quantile(id)": 5.5, "count()": 12}
    assert ds.aggregate(*aggs) == want and Counted.calls > 0
    assert ds.groupby(None).aggregate(*aggs).take_all() == [want]
    assert ag.takes([Same("id")], ["q"]) and not ag.takes(aggs, ["a", "b", "c", "d", "e"])
    assert ag.Max("id", zero_factory=lambda: 99).in_kernel() is False
    zero = ag.Max("id", ignore_nulls=False, zero_factory=lambda: 99)
    assert ds.aggregate(zero) == {"max(id)": 99}
    with pytest.raises(
        TypeError, match=r"std\(id\): .* override combine\(\) and finalize\(\), too"
    ):
        ds.aggregate(Alien("id"))


def test_an_aggregate_that_raises_names_itself_and_the_group():
    def bad(a, r):
        raise RuntimeError("no")

    ds = (
        sd.range(10)
        .groupby("id")
        .aggregate(ag.AggregateFn(init=lambda k: 0, accumulate_row=bad, merge=max, name="mine"))
    )
    with pytest.raises(RuntimeError, match="no") as e:
        ds.take_all()
    assert "in the aggregate 'mine', of the group " in str(e.value)


def test_functions_over_groups():
    table, ds = numbers()
    df = table.to_pandas()
    want = df.groupby("k").x.agg(lambda s: (s - s.mean()).abs().sum()).tolist()

    def pandas(g):
        assert (
            isinstance(g, pd.DataFrame)
            and g.index.equals(pd.RangeIndex(len(g)))
            and g.k.nunique() == 1
        )
        return pd.DataFrame({"k": g.k[:1], "v": [(g.x - g.x.mean()).abs().sum()]})

    def numpy(g):
        assert isinstance(g["x"], np.ndarray)
        return {"k": g["k"][:1], "v": [np.abs(g["x"] - g["x"].mean()).sum()]}

    def arrow(g):
        assert isinstance(g, pa.Table)
        x = pc.subtract(g["x"], pc.mean(g["x"]))
        return pa.table({"k": g["k"][:1], "v": [pc.sum(pc.abs(x)).as_py()]})

    for fn, fmt in (
        (pandas, "default"),
        (pandas, "pandas"),
        (numpy, "numpy"),
        (arrow, "pyarrow"),
        (arrow, None),
    ):
        rows = ds.groupby("k").map_groups(fn, batch_format=fmt).take_all()
        assert [r["k"] for r in rows] == sorted(set(df.k)) and np.allclose(
            [r["v"] for r in rows], want
        )


def test_rows_of_a_group_keep_their_order():
    table, ds = numbers()
    got = ds.groupby(["t", "k"]).map_groups(lambda g: g).to_pandas()
    want = table.to_pandas().sort_values(["t", "k"], kind="stable").reset_index(drop=True)
    pd.testing.assert_frame_equal(got, want)


def test_a_generator_gives_several_batches_and_nothing_gives_none():
    ds = sd.from_items([{"k": i % 3, "v": i} for i in range(9)])

    def twice(g):
        yield g.assign(v=g.v * 2)
        yield g.assign(v=g.v * 3)

    assert [r["v"] for r in ds.groupby("k").map_groups(twice).take_all()] == [
        0,
        6,
        12,
        0,
        9,
        18,
        2,
        8,
        14,
        3,
        12,
        21,
        4,
        10,
        16,
        6,
        15,
        24,
    ]
    assert ds.groupby("k").map_groups(lambda g: g[g.v > 100]).count() == 0


class Scaled:
    def __init__(self, by, plus=0):
        self.by, self.plus = by, plus

    def __call__(self, g, minus, *, more):
        return {"v": g["v"] * self.by + self.plus - minus + more}


def test_classes_run_in_actors():
    ds = sd.from_items([{"k": i % 2, "v": i} for i in range(6)])
    got = ds.groupby("k").map_groups(
        Scaled,
        concurrency=1,
        batch_format="numpy",
        fn_constructor_args=[10],
        fn_constructor_kwargs={"plus": 1},
        fn_args=[3],
        fn_kwargs={"more": 2},
    )
    assert [r["v"] for r in got.take_all()] == [0, 20, 40, 10, 30, 50]
    got = ds.groupby("k").map_groups(lambda g: g.assign(v=g.v + 1), num_cpus=2, concurrency=1)
    assert [r["v"] for r in got.take_all()] == [1, 3, 5, 2, 4, 6]


def test_a_function_that_raises_names_the_group():
    def bad(g):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match=r"MapBatches\(bad\): the group id=\d+, input rows"):
        sd.range(10).groupby("id").map_groups(bad).take_all()


@udf(return_dtype=DataType.int64())
def lowest(values: pa.Array) -> pa.Array:
    return pa.array([pc.min(values).as_py()] * len(values))


def test_with_column():
    ds = sd.from_items([{"g": 2, "v": 3}, {"g": 1, "v": 2}, {"g": 1, "v": 1}, {"g": 2, "v": 4}])
    assert [
        (r["g"], r["v"], r["m"])
        for r in ds.groupby("g").with_column("m", lowest(col("v"))).take_all()
    ] == [
        (1, 2, 1),
        (1, 1, 1),
        (2, 3, 3),
        (2, 4, 3),
    ]
    assert ds.groupby("g").with_column("v", col("v") * 2).take_all() == [
        {"g": g, "v": v} for g, v in [(1, 4), (1, 2), (2, 6), (2, 8)]
    ]
    with pytest.raises(ValueError, match="column_name must be a text that is not empty"):
        ds.groupby("g").with_column("", col("v"))
    with pytest.raises(TypeError, match="expr must be an expression"):
        ds.groupby("g").with_column("x", 5)
    with pytest.raises(TypeError, match="downloads"):
        ds.groupby("g").with_column("x", skate.data.expressions.download("v"))


def test_groups_larger_than_a_block_are_one_call():
    context = sd.DataContext.get_current().copy()
    context.target_max_block_size = 4096
    ds = sd.range(20_000, override_num_blocks=8).map_batches(
        lambda b: {"k": b["id"] // 9000, "id": b["id"]}
    )
    ds.context.target_max_block_size = 4096
    assert ds.groupby("k").map_groups(
        lambda g: {"n": [len(g)], "last": [g["id"].iloc[-1]]}
    ).take_all() == [
        {"n": 9000, "last": 8999},
        {"n": 9000, "last": 17999},
        {"n": 2000, "last": 19999},
    ]


def test_errors_at_the_call():
    ds = sd.from_items([{"a": 1, "l": [1], "t": "x"}])
    for key, said in (
        ("b", "there is no column 'b'"),
        (["a", "b"], "there is no column 'b'"),
        ((lambda r: 1), "Key must be a string or a list of strings"),
        (5, "Key must be a string or a list of strings"),
        (["a", "a"], "named twice"),
        ("l", "of type list<.*> cannot be a key"),
    ):
        with pytest.raises(ValueError, match=said):
            ds.groupby(key)
    for n in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="`num_partitions` must be a positive integer"):
            ds.groupby("a", num_partitions=n)
    g = ds.groupby("a")
    assert repr(g) == f"GroupedData(dataset={ds!r}, key='a')"
    for aggs, kind, said in (
        ((), ValueError, "at least one"),
        ((5,), TypeError, "AggregateFn objects, not int"),
        ((ag.Sum(),), ValueError, "give the name of a column"),
        ((ag.Sum("b"),), ValueError, "there is no column 'b'"),
        ((ag.Sum("a", alias_name="a"),), ValueError, "'a' is there twice"),
    ):
        with pytest.raises(kind, match=said):
            g.aggregate(*aggs)
    with pytest.raises(ValueError, match="batch_format"):
        g.map_groups(lambda b: b, batch_format="cudf")
    with pytest.raises(TypeError, match="UserDefinedFunction"):
        g.map_groups(5)


def test_errors_of_the_run():
    ds = sd.from_items([{"a": 1, "t": "x"}]).map(lambda r: r)
    with pytest.raises(
        (RayTaskError, TypeError), match=r"sum\(t\) over column 't' of type string is not possible"
    ):
        ds.groupby("a").sum("t").take_all()
    with pytest.raises(ValueError, match="no such column|there is no column 'b'"):
        ds.groupby("b").count().take_all()
    with pytest.raises(ValueError, match="cannot be a key"):
        sd.from_items([{"a": [1]}]).map(lambda r: r).groupby("a").count().take_all()
    with pytest.raises(OverflowError, match="more than int64 holds"):
        sd.from_items([{"a": 1, "v": 2**62}] * 4).groupby("a").sum("v").take_all()


def test_a_group_of_a_plan_says_what_it_does(capsys):
    text = sd.range(10).groupby("id").count().explain_text()
    assert "AggregateMap(id)" in text and "AggregateReduce(id)" in text
    assert (
        "GroupReduce(id)->MapBatches(<lambda>)"
        in sd.range(10).groupby("id").map_groups(lambda g: g).explain_text()
    )


def test_no_rows_have_columns():
    none = sd.from_arrow(pa.table({"k": pa.array([], pa.int64()), "a": pa.array([], pa.float64())}))
    for empty in (none, none.filter(lambda r: True), none.sort("k")):
        got = (
            empty.groupby("k")
            .aggregate(ag.Count(), ag.Sum("a"), ag.CountDistinct("a"))
            .materialize()
        )
        assert got.count() == 0
        assert got.schema().names == ["k", "count()", "sum(a)", "count_distinct(a)"]
