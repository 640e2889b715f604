"""Dataset.join, distinct and unique on the engine, compared with pandas and plain Python."""

import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import skate.data as sd
from skate.data.by_key import join_args
from skate.exceptions import RayTaskError

HOW = {"inner": "inner", "left_outer": "left", "right_outer": "right", "full_outer": "outer"}


def sides(n=300, m=200, blocks=5):
    rng = np.random.default_rng(1)
    left = pa.table(
        {
            "k": rng.integers(0, 80, n),
            "t": pa.array([f"t{i % 3}" for i in range(n)]),
            "x": np.arange(n),
        }
    )
    right = pa.table(
        {
            "k": rng.integers(40, 120, m),
            "t": pa.array([f"t{i % 4}" for i in range(m)]),
            "y": np.arange(m),
        }
    )
    return left, right, in_blocks(left, blocks), in_blocks(right, blocks + 2)


def in_blocks(table, n):
    ends = [table.num_rows * i // n for i in range(n + 1)]
    return sd.from_blocks([table.slice(a, b - a) for a, b in zip(ends, ends[1:], strict=False)])


def rows_of(df):
    """The rows in a fixed order, with None for missing values."""
    return sorted(
        (tuple(None if v is None or v != v else v for v in r) for r in df.itertuples(index=False)),
        key=lambda r: [(v is None, v or 0) for v in r],
    )


@pytest.mark.parametrize("kind", join_args.KINDS)
def test_every_kind_as_pandas_has_it(kind):
    left, right, a, b = sides()
    on = ["k", "t"]
    got = a.join(b, kind, on=on).to_pandas()
    le, ri = left.to_pandas(), right.to_pandas()
    if kind in HOW:
        want = le.merge(ri, how=HOW[kind], on=on)
        want = want[got.columns.tolist()]
    else:
        own, other = (le, ri) if kind.startswith("left") else (ri, le)
        met = (
            own.merge(other[on].drop_duplicates(), how="left", on=on, indicator=True)._merge
            == "both"
        )
        want = own[met.to_numpy() == kind.endswith("semi")]
    assert rows_of(got) == rows_of(want) and len(want) > 0


def test_the_same_on_every_run_and_layout():
    _, _, a, b = sides()
    want = a.join(b, "full_outer", on=("k",), left_suffix="_l").take_all()
    again = [sides(blocks=n) for n in (1, 4)]
    assert all(
        x.join(y, "full_outer", on=("k",), left_suffix="_l").take_all() == want
        for _, _, x, y in again
    )


@pytest.mark.parametrize("n", [1, 3, 200])
def test_partitions_that_were_asked_for(n):
    left, right, a, b = sides()
    got = a.join(b, "inner", num_partitions=n, on=("k", "t")).materialize()
    assert got.count() == len(left.to_pandas().merge(right.to_pandas(), on=["k", "t"]))
    assert got.num_blocks() == n or n == 200, "those without rows are left out"


def test_names_and_schema():
    a = sd.from_items([{"id": 1, "v": "a"}])
    b = sd.from_items([{"id": 1, "v": 2.0}])
    got = a.join(b, "inner", left_suffix="_l", right_suffix="_r")
    assert got.schema(fetch_if_missing=False).names == ["id", "v_l", "v_r"]
    assert got.take_all() == [{"id": 1, "v_l": "a", "v_r": 2.0}]
    with pytest.raises(ValueError, match="'v' would be there twice"):
        a.join(b, "inner")
    late = a.map(lambda r: r).join(b, "inner")
    with pytest.raises(RayTaskError, match='Field "v" exists 2 times') as e:
        late.count()
    assert 'Field "v" exists 2 times' in str(e.value.cause)


def test_keys_of_other_names_and_types():
    a = sd.from_arrow(pa.table({"id": pa.array([1, 2, 3], pa.int8()), "x": ["a", "b", "c"]}))
    b = sd.from_arrow(pa.table({"of": pa.array([3, 4, 400], pa.int64()), "y": [1, 2, 3]}))
    assert a.join(b, "inner", on=("id",), right_on=("of",)).take_all() == [
        {"id": 3, "x": "c", "y": 1}
    ]
    whole = a.join(b, "full_outer", on=("id",), right_on=("of",))
    assert (
        sorted(r["id"] for r in whole.take_all()) == [1, 2, 3, 4, 400]
        and whole.schema().types[0] == pa.int64()
    )
    with pytest.raises(TypeError, match="cannot be compared"):
        a.join(b, "inner", on=("x",), right_on=("y",))


def test_keys_that_are_decimals():
    """Beside integers they are compared exactly; a float is no decimal but by chance."""
    price = pa.array([Decimal("1.00"), Decimal("2.50"), None])
    left = sd.from_arrow(pa.table({"k": price, "a": [1, 2, 3]}))
    right = sd.from_arrow(pa.table({"k": pa.array([1, 2**63 - 1]), "b": [4, 5]}))
    assert left.join(right, "inner", 2, on=("k",)).take_all() == [{"k": 1, "a": 1, "b": 4}]
    floats = sd.from_arrow(pa.table({"k": pa.array([1.0, 2.5]), "b": [4, 5]}))
    with pytest.raises(
        TypeError, match="decimal128.* and column 'k' of type double cannot be comp"
    ):
        left.join(floats, "inner", 2, on=("k",)).take_all()


def test_null_meets_nothing_and_nan_meets_nan():
    a = sd.from_arrow(pa.table({"k": pa.array([None, math.nan, -0.0]), "x": [1, 2, 3]}))
    b = sd.from_arrow(pa.table({"k": pa.array([0.0, None, math.nan]), "y": [4, 5, 6]}))
    assert sorted((r["x"], r["y"]) for r in a.join(b, "inner", on=("k",)).take_all()) == [
        (2, 6),
        (3, 4),
    ]
    assert sorted(
        (r["x"] or 0, r["y"] or 0) for r in a.join(b, "full_outer", on=("k",)).take_all()
    ) == [(0, 5), (1, 0), (2, 6), (3, 4)]


@pytest.mark.parametrize("kind", join_args.KINDS)
def test_a_side_without_rows(kind):
    rows = sd.from_items([{"id": i, "x": i} for i in range(5)], override_num_blocks=3)
    none = sd.from_items([{"id": i, "y": i} for i in range(5)]).filter(lambda r: False)
    kept = {"left_outer": 5, "full_outer": 5, "left_anti": 5}
    got = rows.join(none, kind).take_all()
    assert len(got) == kept.get(kind, 0)
    if kind.endswith("outer") and got:
        assert got[0].keys() == {"id", "x", "y"} and {r["y"] for r in got} == {None}
    kept = {"right_outer": 5, "full_outer": 5, "right_anti": 5}
    assert len(none.join(rows, kind).take_all()) == kept.get(kind, 0)


def test_a_dataset_with_itself_and_a_chain():
    a = sd.range(20, override_num_blocks=4).map(lambda r: {"id": r["id"], "double": 2 * r["id"]})
    b = a.join(a, "inner", on=("id",), right_suffix="_r").join(
        sd.range(10), "left_semi", on=("id",)
    )
    assert sorted(b.take_all(), key=lambda r: r["id"]) == [
        {"id": i, "double": 2 * i, "double_r": 2 * i} for i in range(10)
    ]
    assert b.groupby("id").count().count() == 10


def test_columns_of_lists_and_arrays_come_along():
    a = sd.from_items([{"id": i, "l": [i] * i, "t": np.full((2, 2), i)} for i in range(3)])
    b = sd.from_items([{"id": 0, "v": "x"}, {"id": 5, "v": "y"}])
    got = {r["id"]: r for r in a.join(b, "full_outer").take_all()}
    assert got[5] == {"id": 5, "l": None, "t": None, "v": "y"}
    assert (
        got[2]["l"] == [2, 2]
        and got[2]["v"] is None
        and got[0]["v"] == "x"
        and got[2]["t"].tolist() == [[2, 2], [2, 2]]
    )


def test_arguments():
    ds = sd.range(4)
    for kw, said in (
        ({"join_type": "outer"}, "Invalid join type: 'outer'"),
        ({"on": "id"}, r"Expected tuple or list as `on` \(got str\)"),
        ({"right_on": "id"}, r"Expected tuple or list as `right_on` \(got str\)"),
        ({"num_partitions": 0}, "must be a positive integer"),
        ({"on": ("nope",)}, "there is no column 'nope'"),
        ({"on": ("id",), "right_on": ("id", "x")}, "Number of columns"),
    ):
        with pytest.raises(ValueError, match=said):
            ds.join(ds, **{"join_type": "inner", **kw})
    floats = sd.range(4).map(lambda r: {"id": float(r["id"])})
    with pytest.raises(
        ValueError,
        match="Key columns are expected to be present and have the same types in both left and right operands",
    ):
        ds.join(floats, "inner", on=("id",), validate_schemas=True)
    with pytest.raises(TypeError, match="unexpected keyword"):
        ds.join(ds, "inner", aggregator_ray_remote_args={"num_cpu": 1})
    assert (
        ds.join(
            ds,
            "inner",
            2,
            on=["id"],
            partition_size_hint=1,
            aggregator_ray_remote_args={"num_cpus": 0.5},
            validate_schemas=True,
        ).count()
        == 4
    )


# ---- distinct, unique


def test_distinct_rows_of_none_have_columns():
    none = sd.range(9, override_num_blocks=3).filter(lambda r: False).distinct("id")
    assert none.join(
        sd.from_items([{"id": 1, "x": 2}]), "right_outer", num_partitions=2
    ).take_all() == [{"id": 1, "x": 2}]


def test_distinct():
    _, _, a, _ = sides()
    df = a.to_pandas()
    want = df.drop_duplicates(["t", "k"]).sort_values(["t", "k"]).reset_index(drop=True)
    pd.testing.assert_frame_equal(a.distinct(["t", "k"]).to_pandas(), want)
    pd.testing.assert_frame_equal(
        a.distinct("t", num_partitions=7).to_pandas(),
        df.drop_duplicates("t").sort_values("t").reset_index(drop=True),
    )
    twice = a.union(a)
    pd.testing.assert_frame_equal(
        twice.distinct().to_pandas(),
        df.drop_duplicates().sort_values(["k", "t", "x"]).reset_index(drop=True),
    )
    assert (
        sd.from_items([{"k": v} for v in (None, math.nan, 1.0, math.nan, None)])
        .distinct("k")
        .count()
        == 3
    )
    assert a.filter(lambda r: False).distinct("k").take_all() == []
    with pytest.raises(ValueError, match="there is no column 'q'"):
        a.distinct("q")


def test_unique():
    ds = sd.from_blocks(
        [
            pa.table({"v": v})
            for v in ([1.0, math.nan, None], [math.nan, 1.0, 2.0], [None, 2.0, -0.0], [0.0])
        ]
    )
    assert repr(ds.unique("v")) == "[1.0, nan, None, 2.0, -0.0]"
    assert repr(ds.unique("v", ignore_nulls=True)) == "[1.0, nan, 2.0, -0.0]"


@pytest.mark.parametrize(
    "how",
    [
        "inner",
        "left_outer",
        "right_outer",
        "full_outer",
        "left_semi",
        "left_anti",
        "right_semi",
        "right_anti",
    ],
)
def test_a_side_without_rows_has_columns(how):
    """A side without rows still has columns, for whatever reason it has no rows; a side without
    columns has no key either."""
    some = sd.from_arrow(pa.table({"k": [2, 3, 4], "b": [5, 6, 7]}))
    none = sd.from_arrow(pa.table({"k": [1, 2], "a": [1, 2]}))
    nothing = sd.from_arrow(
        pa.table({"k": pa.array([], pa.int64()), "a": pa.array([], pa.int64())})
    )
    for empty in (
        none.limit(0),
        none.sort("k").limit(0),
        none.filter(lambda r: False),
        none.limit(0).sort("k"),
        nothing.filter(lambda r: True),
    ):
        for n in (2, None):  # a side is not measured if a number of partitions is given
            kept = {"right_outer", "full_outer", "right_anti"}
            assert empty.join(some, how, n, on=("k",)).count() == (3 if how in kept else 0)
            assert some.join(empty, how, n, on=("k",)).count() == (
                3 if how in {"left_outer", "full_outer", "left_anti"} else 0
            )
    unknown = sd.from_items([])
    never = none.map(lambda r: r).filter(lambda r: False).map(lambda r: r)
    for nobody_knows in (unknown, never):
        for n in (2, None):
            kept = {"left_outer", "full_outer", "left_anti"}
            rows = some.join(nobody_knows, how, n, on=("k",)).take_all()
            assert sorted(rows, key=lambda r: r["k"]) == (some.take_all() if how in kept else [])
            kept = {"right_outer", "full_outer", "right_anti"}
            rows = nobody_knows.join(some, how, n, on=("k",)).take_all()
            assert sorted(rows, key=lambda r: r["k"]) == (some.take_all() if how in kept else [])
            if how == "full_outer":  # the key has the name of the left side
                rows = nobody_knows.join(some, how, n, on=("j",), right_on=("k",)).take_all()
                assert sorted(r["j"] for r in rows) == [2, 3, 4] and sorted(rows[0]) == ["b", "j"]
