"""sort(): compared with a stable sort of rows in Python, for all types and directions, blocks of
any size, little memory and kills; boundaries; arguments that are refused."""

import datetime
import decimal
import functools
import math
import os
import random

import pyarrow as pa
import pytest
import skate
import skate.data
from cases import case
from key_order import cell, in_order
from rounds import rounds
from skate.data.op.exchange_map import check_keys
from skate.data.values.types import PythonObjectType

KEYS = {  # type -> a value of it from a random number generator
    pa.int64(): lambda r: r.randrange(-50, 50),
    pa.uint8(): lambda r: r.randrange(9),
    pa.int32(): lambda r: r.randrange(-(2**31), 2**31),
    pa.float64(): lambda r: r.choice([math.nan, 0.0, -0.0, 1.5, -math.inf, r.uniform(-1, 1)]),
    pa.float32(): lambda r: r.choice([math.nan, float(r.randrange(9))]),
    pa.bool_(): lambda r: r.random() < 0.5,
    pa.string(): lambda r: r.choice(
        ["", "a", "a\0", "ab", "the same beginning " + str(r.randrange(30)), "ä", "\U0001f600"]
    ),
    pa.large_binary(): lambda r: bytes(r.randrange(256) for _ in range(r.randrange(12))),
    pa.dictionary(pa.int16(), pa.string()): lambda r: r.choice(["z", "y", "x", "w" * 20]),
    pa.decimal128(20, 3): lambda r: decimal.Decimal(r.randrange(-(10**6), 10**6)).scaleb(-3),
    pa.date32(): lambda r: datetime.date(2020, 1, 1 + r.randrange(28)),
    pa.timestamp("us"): lambda r: (
        datetime.datetime(2020, 1, 1) + datetime.timedelta(microseconds=r.randrange(10**9))
    ),
    pa.null(): lambda r: None,
}


def values(rng, of, n, nulls):
    return pa.array([None if rng.random() < nulls else KEYS[of](rng) for _ in range(n)], of)


def blocks_of(rng, kinds, sizes):
    first, out = 0, []
    for n in sizes:
        cols = {f"k{i}": values(rng, t, n, 0.2) for i, t in enumerate(kinds)}
        cols["row"] = pa.array(range(first, first + n), pa.int64())
        cols["more"] = pa.array([[j] * (j % 3) for j in range(n)], pa.list_(pa.int32()))
        out.append(pa.table(cols))
        first += n
    return out


def rows_of(ds):
    return [row for ref in ds.to_arrow_refs() for row in skate.get(ref).to_pylist()]


def small(ds, target=2000):
    """With blocks of 2,000 bytes, so that there are many maps and reduces."""
    ds.context.target_max_block_size = target
    ds.context.target_min_block_size = 0
    return ds


def test_random_tables():
    rng = random.Random(5)
    for i in range(rounds(25)):
        kinds = rng.sample(list(KEYS), rng.randrange(1, 4))
        sizes = [rng.choice([0, 1, 3, 40, 300]) for _ in range(rng.randrange(1, 8))]
        directions = [rng.random() < 0.5 for _ in kinds]
        with case(i, kinds, sizes, directions):
            tables = blocks_of(rng, kinds, sizes)
            keys = [f"k{i}" for i in range(len(kinds))]
            ds = skate.data.from_arrow(tables)
            got = rows_of(
                (small(ds) if rng.random() < 0.7 else ds).sort(keys, descending=directions)
            )
            want = in_order([row for t in tables for row in t.to_pylist()], keys, directions)
            assert [r["row"] for r in got] == [r["row"] for r in want]
            assert str(got) == str(want)


def test_blocks_come_in_order_of_the_keys_and_have_about_the_target():
    ds = (
        small(
            skate.data.range(20_000, override_num_blocks=8).map(
                lambda r: {"k": r["id"] * 7919 % 20011}
            ),
            16 << 10,
        )
        .sort("k")
        .materialize()
    )
    blocks = [skate.get(ref)["k"].to_pylist() for ref in ds.to_arrow_refs()]
    assert [k for b in blocks for k in b] == sorted(i * 7919 % 20011 for i in range(20_000))
    assert len(blocks) > 5 and max(map(len, blocks)) * 8 <= 16 << 10


def test_mixed_directions_are_stable():
    rows = [{"a": i % 3, "b": i % 2, "i": i} for i in range(200)]
    got = (
        small(skate.data.from_items(rows, override_num_blocks=5), 500)
        .sort(["a", "b"], descending=[True, False])
        .take_all()
    )
    assert got == sorted(rows, key=lambda r: (-r["a"], r["b"]))


def test_all_keys_equal():
    got = (
        small(
            skate.data.range(5000, override_num_blocks=9).add_column("k", lambda b: b["id"] * 0),
            1000,
        )
        .sort("k")
        .take_all()
    )
    assert [r["id"] for r in got] == list(range(5000))


def test_boundaries():
    rng = random.Random(1)
    for bounds, want in [
        ([10, 20], [10, 20]),
        ([20, 10, 10], [10, 20]),
        ([9.5, 15], [9.5, 15]),
        ([-5, 100], [-5, 100]),
        ([15], [15]),
        ([], None),
    ]:
        for descending in (False, True):
            for kind in (pa.int32(), pa.float64()):
                with case(bounds, descending, kind):
                    tables = [
                        pa.table(
                            {
                                "k": pa.array(
                                    [rng.choice([None, rng.randrange(30)]) for _ in range(n)], kind
                                )
                            }
                        )
                        for n in (0, 50, 1)
                    ]
                    ds = (
                        skate.data.from_arrow(tables)
                        .sort("k", descending=descending, boundaries=bounds)
                        .materialize()
                    )
                    blocks = [skate.get(r)["k"].to_pylist() for r in ds.to_arrow_refs()]
                    flat = [v for t in tables for v in t["k"].to_pylist()]
                    assert [v for b in blocks for v in b] == sorted(
                        flat, key=lambda v: cell(v, descending)
                    )
                    if want is None:
                        continue
                    edges = [-math.inf, *want, math.inf]
                    parts = [
                        sorted(v for v in flat if v is not None and a <= v < b)
                        for a, b in zip(edges, edges[1:], strict=False)
                    ]
                    parts = [sorted(p, reverse=True) for p in parts[::-1]] if descending else parts
                    parts[-1] += [None] * flat.count(None)
                    assert blocks == [p for p in parts if p]  # blocks without rows are left out


def test_sort_by_a_sample_of_kinds_of_input():
    ds = skate.data.range(100, override_num_blocks=4)
    ids = list(range(100))
    back = lambda d: [r["id"] for r in d.take_all()]  # noqa: E731
    assert back(ds.sort("id", descending=True)) == ids[::-1]
    assert back(ds.sort("id", descending=True).limit(7)) == ids[:-8:-1]
    assert back(ds.sort("id", descending=True).sort("id")) == ids
    assert back(ds.union(ds).sort("id")) == sorted(ids + ids)
    assert back(ds.filter(lambda r: r["id"] % 2 == 0).sort("id")) == ids[::2]
    assert back(ds.sort("id", descending=True).map(lambda r: {"id": -r["id"]})) == [
        -i for i in ids[::-1]
    ]
    assert back(ds.sort("id", descending=True).filter(lambda r: r["id"] < 3)) == [2, 1, 0]
    assert back(ds.limit(5).sort("id", descending=True)) == [4, 3, 2, 1, 0]
    assert back(ds.repartition(3).sort("id", descending=True).repartition(2)) == ids[::-1]
    assert back(ds.materialize().sort("id", descending=True)) == ids[::-1]
    assert ds.sort("id").count() == 100
    assert ds.sort("id").schema().names == ["id"]
    assert ds.sort("id", descending=True).take(2) == [{"id": 99}, {"id": 98}]
    assert list(ds.sort("id").iter_batches(batch_size=30))[1]["id"].tolist() == list(range(30, 60))


def test_a_limit_behind_it_makes_it_top_k():
    ds = small(
        skate.data.range(5000, override_num_blocks=4).map(
            lambda r: {"k": r["id"] * 7919 % 5003, "id": r["id"]}
        )
    )
    want = sorted(({"k": i * 7919 % 5003, "id": i} for i in range(5000)), key=lambda r: -r["k"])
    for n in (0, 1, 17, 1000, 6000):
        with case(n):
            assert ds.sort("k", descending=True).limit(n).take_all() == want[:n]
    top = ds.sort("k", descending=True).rename_columns({"k": "x"}).limit(9)
    assert [r["id"] for r in top.take_all()] == [r["id"] for r in want[:9]]
    assert "SortMap" in top.stats() and "top-k" in top.explain_text()
    assert (
        sum(o["rows_out"] for o in top.stats_dict()["ops"] if "SortMap" in o["label"]) <= 9 * 60
    ), top.stats()
    assert [
        r["id"]
        for r in ds.sort("k", descending=True).filter(lambda r: r["k"] < 100).limit(3).take_all()
    ] == [r["id"] for r in want if r["k"] < 100][:3]


def test_written_in_order(tmp_path):
    small(skate.data.range(3000, override_num_blocks=5), 4000).sort(
        "id", descending=True
    ).write_parquet(str(tmp_path))
    import pyarrow.parquet as pq

    ids = [v for f in sorted(tmp_path.iterdir()) for v in pq.read_table(f)["id"].to_pylist()]
    assert ids == list(range(2999, -1, -1))


def test_nothing_to_sort():
    ds = skate.data.range(50, override_num_blocks=3).filter(lambda r: False).sort("id")
    assert ds.take_all() == []
    empty = skate.data.from_arrow(
        pa.table({"k": pa.array([], pa.int64()), "s": pa.array([], pa.string())})
    ).sort(["s", "k"])
    assert empty.take_all() == [] and empty.schema().names == ["k", "s"]
    assert skate.data.from_items([]).sort("x").take_all() == []
    assert skate.data.from_items([{"x": 3}]).sort("x").take_all() == [{"x": 3}]


def test_blocks_of_other_types():
    """The rule of values/unify.py: null then int, int then float, texts with and without a
    dictionary."""

    def made(b):
        i = int(b["id"][0]) // 10
        n = len(b["id"])
        kinds = [
            pa.nulls(n),
            pa.array(b["id"] * 2),
            pa.array(b["id"] + 0.5),
            pa.array(b["id"].astype("int8")),
        ]
        words = pa.array([f"w{v % 4}" for v in b["id"]])
        return pa.table(
            {"k": kinds[i % 4], "w": words.dictionary_encode() if i % 2 else words, "id": b["id"]}
        )

    ds = skate.data.range(80, override_num_blocks=8).map_batches(made, batch_size=10)
    plain = [
        row
        for t in (made({"id": skate_range(a)}) for a in range(0, 80, 10))
        for row in t.to_pylist()
    ]
    for keys, directions in [(["k"], [False]), (["k"], [True]), (["w", "k"], [True, False])]:
        for target in (None, 200):
            with case(keys, directions, target):
                d = small(ds, target) if target else ds
                assert d.sort(keys, descending=directions).take_all() == in_order(
                    plain, keys, directions
                )


def skate_range(a):
    import numpy as np

    return np.arange(a, a + 10)


def test_refused():
    ds = skate.data.from_items([{"a": 1, "b": [1], "c": {"x": 1}}])
    for args, words in [
        ({"key": None}, "cannot be None"),
        ({"key": 3}, "must be a string or a list"),
        ({"key": []}, "must be a string or a list"),
        ({"key": ["a", 3]}, "must be a string or a list"),
        ({"key": ["a"], "descending": [True, False]}, "Length of `descending`"),
        ({"key": "a", "boundaries": ["x"]}, "must be int or float"),
        ({"key": "a", "boundaries": [math.nan]}, "must be int or float"),
    ]:
        with case(args), pytest.raises(ValueError, match=words):
            ds.sort(**args)
    with pytest.raises(KeyError, match="no_such"):
        ds.sort("no_such").take_all()
    with pytest.raises(ValueError, match="no_such"):
        ds.map(lambda r: r).sort("no_such").take_all()
    for key, words in [("b", "'b'.*list"), ("c", "'c'.*struct")]:
        with case(key), pytest.raises(ValueError, match=words):
            ds.sort(key).take_all()
    with pytest.raises(TypeError, match="no order"):
        check_keys(pa.schema([("a", PythonObjectType())]), ["a"])
    with pytest.raises(TypeError, match="for columns of numbers"):
        skate.data.from_items([{"a": "x"}]).sort("a", boundaries=[1]).take_all()


def test_explain():
    text = skate.data.range(10).sort("id", descending=True).explain_text()
    assert "SortMap(id descending)" in text and "SortReduce(id descending)" in text
    text = skate.data.range(10).sort("id", boundaries=[3, 5]).explain_text()
    assert "3 partitions" in text


# ---- other engines: these tests must be last


def numbers(n=200_000, blocks=11):
    return skate.data.range(n, override_num_blocks=blocks).map_batches(
        lambda b: {"id": b["id"], "k": b["id"] * 7919 % 1009, "pad": b["id"].astype("S80")}
    )


def checksum(ds):
    """A checksum over the rows in their order, and over the blocks."""
    return [
        (rb.num_rows, hash(rb["id"].to_numpy().tobytes()))
        for rb in (skate.get(r) for r in ds.to_arrow_refs())
    ]


def test_the_same_whatever_workers_and_memory_there_are():
    """Also with spilling: 20 MB through a store of 64 MB, of which blocks may have 6."""
    seen = []
    for cpus, store, limit in [(1, 512, None), (3, 512, None), (2, 64, 6 << 20)]:
        skate.shutdown()
        skate.init(
            num_cpus=cpus,
            object_store_memory=store << 20,
            _system_config={"preload": "numpy,light_pytest"},
        )
        ds = small(numbers(), 1 << 20)
        if limit:
            ds.context.execution_options.resource_limits = (
                ds.context.execution_options.resource_limits.copy(object_store_memory=limit)
            )
        ids = [
            int(v)
            for rb in ds.sort("k").iter_batches(batch_size=None, batch_format="pyarrow")
            for v in rb["id"].to_pylist()
        ]
        seen.append(ids)
    want = sorted(range(200_000), key=lambda i: i * 7919 % 1009)
    assert seen[0] == want
    assert seen[1] == want and seen[2] == want


def test_workers_that_are_killed(tmp_path):
    skate.shutdown()
    skate.init(
        num_cpus=2, object_store_memory=512 << 20, _system_config={"preload": "numpy,light_pytest"}
    )

    def dies(name, b):
        """Ends its process once for each part of the input."""
        mark = tmp_path / f"{name}{int(b['id'][0]) % 5}"
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), 9)
        return b

    ds = small(numbers(50_000, 5), 1 << 20)
    once = [r["id"] for r in ds.sort("k").take_all()]
    again = (
        small(numbers(50_000, 5), 1 << 20)
        .map_batches(functools.partial(dies, "map"), batch_size=None)
        .sort("k")
    )
    assert [
        r["id"]
        for r in again.map_batches(functools.partial(dies, "reduce"), batch_size=None).take_all()
    ] == once
    assert len(list(tmp_path.iterdir())) > 2
