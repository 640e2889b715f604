"""Joins with uneven keys: several reduces share a hot partition, and complete with little memory.
The rows and their order are those of a run with enough memory, and those of two nested loops."""

import functools

import numpy as np
import pyarrow as pa
import pytest
import skate.data as sd
from skate.data.by_key import join_args

ROWS, BLOCKS, PARTS = 120_000, 24, 4
LITTLE = 2 << 20  # an eighth of it is 256 KiB


@pytest.fixture
def context():
    ctx = sd.DataContext.get_current()
    ctx.broadcast_join_bytes = 0
    before = ctx.execution_options.resource_limits
    yield ctx
    ctx.execution_options.resource_limits = before
    ctx.broadcast_join_bytes = 10 << 20


def keys(how, n):
    rng = np.random.default_rng(1)
    if how == "hot":
        return np.where(rng.random(n) < 0.5, 7, rng.integers(0, 5000, n))
    return np.minimum(rng.zipf(1.3, n), 5000) if how == "zipf" else np.full(n, 7)


def blocks(table, n):
    return sd.from_blocks([table.slice(len(table) * i // n, len(table) // n) for i in range(n)])


def with_nulls(values, every):
    """The values as keys, in which every `every`-th is null."""
    return pa.array(values.astype(np.int64), mask=np.arange(len(values)) % every == 0)


@functools.cache
def fact(how):
    return pa.table({"id": with_nulls(keys(how, ROWS), 1000), "x": np.arange(ROWS)})


@functools.cache
def dimension():  # half of its keys have no partner
    return pa.table({"id": with_nulls(np.arange(9999), 100), "y": -np.arange(9999)})


@functools.cache
def partners(how):
    """Of fact() and dimension(): the (x, y) that have the same key; then, of the large side and of
    the small one, those that have a partner and those that have none."""
    large, small = fact(how), dimension()
    of = {}
    for k, y in zip(small["id"].to_pylist(), small["y"].to_pylist(), strict=True):
        of.setdefault(k, []).append(y)
    both, met, lone, seen = [], [], [], set()
    for k, x in zip(large["id"].to_pylist(), large["x"].to_pylist(), strict=True):
        some = of.get(k, ()) if k is not None else ()
        both += [(x, y) for y in some]
        (met if some else lone).append(x)
        if some:
            seen.add(k)
    small_met = [y for k in of if k in seen for y in of[k]]
    return both, met, lone, small_met, [y for k in of if k not in seen for y in of[k]]


def pairs(kind, how, side):
    """(x, y) of each row, with None where a side has no partner; sorted."""
    both, met, lone, small_met, small_lone = partners(how)
    mine = ("left_", "right_")[side]
    if kind in (mine + "semi", mine + "anti"):
        return sorted(met if kind.endswith("semi") else lone)
    if kind.endswith(("semi", "anti")):
        return sorted(small_met if kind.endswith("semi") else small_lone)
    out = [*both, *((x, None) for x in lone if kind in ("full_outer", mine + "outer"))]
    out += [
        (None, y) for y in small_lone if kind in ("full_outer", ("right_", "left_")[side] + "outer")
    ]
    return sorted(out, key=str)


def run(ds):
    batches = [
        rb
        for t in ds.iter_batches(batch_size=None, batch_format="pyarrow")
        for rb in t.to_batches()
    ]
    table = pa.Table.from_batches(batches).combine_chunks() if batches else None
    stats = ds._stats.to_dict()
    return table, stats, next(o for o in stats["ops"] if "JoinReduce" in o["label"])


CASES = [
    ("hot", kind, side) for kind in join_args.KINDS for side in (join_args.LEFT, join_args.RIGHT)
]
CASES += [
    (how, kind, join_args.RIGHT)
    for kind in ("left_outer", "full_outer", "left_anti", "right_semi")
    for how in ("zipf", "equal")
]


@pytest.mark.parametrize(("how", "kind", "side"), CASES)
def test_a_hot_key(context, how, kind, side):
    large, small = fact(how), dimension()

    def joined():  # a Dataset keeps the settings with which it was made
        a, b = blocks(large, BLOCKS), blocks(small, 3)
        a, b = (a, b) if side == join_args.LEFT else (b, a)
        return a.join(b, kind, num_partitions=PARTS)

    want, _, whole = run(joined())
    options = context.execution_options
    options.resource_limits = options.resource_limits.copy(object_store_memory=LITTLE)
    got, stats, reduce = run(joined())
    assert got == want and whole["tasks_done"] == PARTS
    assert reduce["exchange"]["largest_bytes"] > LITTLE / 8, "there is a hot partition"
    pieces = reduce["tasks_done"] - PARTS
    assert pieces >= reduce["exchange"]["largest_bytes"] // (LITTLE // 8), (
        "and no reduce has more than its share of it"
    )
    assert stats["memory_peak"] < 2 * LITTLE
    rows = zip(
        *(got[c].to_pylist() if c in got.schema.names else [None] * len(got) for c in ("x", "y")),
        strict=True,
    )
    if kind.endswith(("semi", "anti")):
        rows = [y if x is None else x for x, y in rows]
    assert sorted(rows, key=str) == sorted(pairs(kind, how, side), key=str)


def test_the_side_with_more_rows_of_a_partition_comes_first(context):
    left, right = (
        sd.from_items([{"k": 1, "x": i} for i in range(2)]),
        sd.from_items([{"k": 1, "y": i} for i in range(3)]),
    )
    pairs = [
        (r["x"], r["y"]) for r in left.join(right, "inner", num_partitions=1, on=("k",)).take_all()
    ]
    assert pairs == [(x, y) for y in range(3) for x in range(2)]
    pairs = [
        (r["x"], r["y"])
        for r in left.join(right.limit(2), "inner", num_partitions=1, on=("k",)).take_all()
    ]
    assert pairs == [(x, y) for x in range(2) for y in range(2)], "of as many rows the left one"
    for kind in ("right_outer", "left_outer", "full_outer"):
        lone = left.union(sd.from_items([{"k": 2, "x": 7}]))
        pairs = [
            (r["x"], r["y"])
            for r in lone.join(
                right.union(sd.from_items([{"k": 3, "y": 8}])), kind, num_partitions=1, on=("k",)
            ).take_all()
        ]
        alone = [(None, 8)] * (kind != "left_outer") + [(7, None)] * (kind != "right_outer")
        assert pairs == [(x, y) for y in range(3) for x in range(2)] + alone, (
            "what meets nothing: right rows in their place, left ones behind"
        )
