"""GroupedData.iter_partial(): results that improve, their error bounds, and the last result, which
equals that of aggregate()."""

import numpy as np
import pandas as pd
import pytest
import skate
import skate.data
from skate.data.aggregate import AggregateFn, Count, Max, Mean, Sum

AGGS = (Count(), Sum("x"), Mean("x"), Max("x"))


def drawn(b):
    r, n = np.random.default_rng(int(b["id"][0])), len(b["id"])
    return {"k": r.zipf(1.5, n) % 20, "x": r.normal(10, 5, n)}


def numbers(parts=60):
    return skate.data.range(60_000, override_num_blocks=parts).map_batches(drawn, batch_size=None)


def test_results_get_better_and_end_as_the_aggregate():
    grouped = numbers().groupby("k")
    want = grouped.aggregate(*AGGS).to_pandas()
    held = {name: [] for name in ("count()", "sum(x)", "mean(x)")}
    for seed in range(3):
        seen = list(grouped.iter_partial(*AGGS, seed=seed))
        assert (
            [p.fraction for p in seen] == sorted({p.fraction for p in seen})
            and seen[0].fraction <= 0.05
            and seen[-1].fraction == 1.0
        )
        pd.testing.assert_frame_equal(seen[-1].table.to_pandas(), want)
        assert seen[-1].table.schema.field("count()").type == "int64"
        for p in seen[:-1]:
            assert list(p.errors) == list(held)
            df = p.to_pandas().merge(want, on="k", suffixes=("", " true"))
            assert len(df) == len(p.table) and df["k"].is_monotonic_increasing
            assert (df["max(x)"] <= df["max(x) true"]).all()
            for name, within in held.items():
                known = df[f"{name} +-"].notna()
                within += (abs(df[name] - df[f"{name} true"]) <= df[f"{name} +-"])[known].tolist()
        errors = [float(np.nanmean(p.errors["sum(x)"])) for p in seen[1:]]
        assert errors[-1] == 0 and errors[len(errors) // 2] < errors[0]
    for name, within in held.items():
        assert 0.9 < np.mean(within) < 0.99, (name, np.mean(within))  # the intervals are for 95 %


def test_the_same_seed_gives_the_same_results():
    def tables(seed):
        return [
            p.table.to_pydict()
            for p in numbers(12).groupby("k").iter_partial(Sum("x"), Count(), seed=seed)
        ]

    assert tables(4) == tables(4) != tables(5)
    with_more = [
        p.errors["sum(x)"]
        for p in numbers(12).groupby("k").iter_partial(Sum("x"), seed=4, confidence=0.999)
    ]
    less = [
        p.errors["sum(x)"]
        for p in numbers(12).groupby("k").iter_partial(Sum("x"), seed=4, confidence=0.5)
    ]
    assert (with_more[3] > less[3]).all()


def test_a_task_of_several_pieces_does_to_each_what_a_task_of_its_own_does():
    def first_of_batch(b):
        return {"k": b["id"] % 7, "x": np.full(len(b["id"]), b["id"][0])}

    def mixed(b):
        # some pieces have ints, others floats
        return {"k": b["k"], "x": b["x"] + 0.5 if b["x"][0] % 3 == 0 else b["x"]}

    ds = skate.data.range(2000, override_num_blocks=100).map_batches(first_of_batch, batch_size=9)
    for some in (ds, ds.map_batches(mixed, batch_size=None)):
        want = some.groupby("k").aggregate(*AGGS).to_pandas()
        *_, last = some.groupby("k").iter_partial(*AGGS, seed=5)
        pd.testing.assert_frame_equal(last.table.to_pandas(), want)


def test_no_key_no_rows_nulls_and_an_aggregate_of_ones_own():
    got = list(
        skate.data.range(10, override_num_blocks=4)
        .groupby(None)
        .iter_partial(Sum("id"), Mean("id"), seed=1)
    )
    assert got[-1].table.to_pylist() == [{"sum(id)": 45, "mean(id)": 4.5}]
    nothing = skate.data.range(8, override_num_blocks=4).filter(lambda r: r["id"] < 0)
    assert {p.table.num_rows for p in nothing.groupby("id").iter_partial(Count())} == {0}
    longest = AggregateFn(
        init=lambda k: 0, accumulate_row=lambda a, r: max(a, r["id"]), merge=max, name="most"
    )
    ds = skate.data.range(12, override_num_blocks=4).map(
        lambda r: {"k": None if r["id"] % 3 == 0 else r["id"] % 3, "id": r["id"]}
    )
    got = list(ds.groupby("k").iter_partial(longest, Count("k", ignore_nulls=True), seed=2))
    assert (
        got[-1].table.to_pylist()
        == ds.groupby("k").aggregate(longest, Count("k", ignore_nulls=True)).take_all()
    )
    assert all(list(p.errors) == ["count(k)"] for p in got)


def test_what_is_no_sample():
    for ds in (
        skate.data.range(10).limit(3),
        skate.data.range(10).sort("id"),
        skate.data.range(10).materialize(),
        skate.data.range(10).union(skate.data.range(3)),
    ):
        with pytest.raises(ValueError, match="one reader"):
            ds.groupby("id").iter_partial(Count())
    with pytest.raises(ValueError, match="confidence"):
        skate.data.range(10).groupby("id").iter_partial(Count(), confidence=95)
    with pytest.raises(ValueError, match="nope"):
        list(skate.data.range(10).groupby("id").iter_partial(Sum("nope")))
    it = numbers().groupby("k").iter_partial(Count(), seed=1)
    next(it)
    it.close()  # stops the run
