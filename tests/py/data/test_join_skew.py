"""Joins whose keys are not even: a hot partition is shared by several reduces where the kind allows it, and all of them complete with little memory. The rows, and their order, are those of a run
with enough memory."""

import numpy as np
import pyarrow as pa
import pytest
import skate.data as sd
from skate import _skate
from skate.data import joins

ROWS, BLOCKS, PARTS = 120_000, 24, 4
LITTLE = 2 << 20  # an eighth: 256 KiB
LARGER = 2  # of _skate.join_rules


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


def fact(how):
    table = pa.table({"id": keys(how, ROWS).astype(np.int64), "x": np.arange(ROWS)})
    return sd.from_blocks([table.slice(ROWS * i // BLOCKS, ROWS // BLOCKS) for i in range(BLOCKS)])


def dimension():
    return sd.range(5000, override_num_blocks=3).map_batches(lambda b: {"id": b["id"], "y": -b["id"]})


def run(ds):
    batches = [rb for t in ds.iter_batches(batch_size=None, batch_format="pyarrow") for rb in t.to_batches()]
    table = pa.Table.from_batches(batches).combine_chunks() if batches else None
    stats = ds._stats.to_dict()
    return table, stats, next(o for o in stats["ops"] if "JoinReduce" in o["label"])


CASES = [("hot", kind, side) for kind in joins.KINDS for side in (joins.LEFT, joins.RIGHT)]
CASES += [(how, kind, joins.RIGHT if kind.startswith("right") else joins.LEFT) for kind in joins.KINDS for how in ("zipf", "equal")]


@pytest.mark.parametrize(("how", "kind", "side"), CASES)
def test_a_hot_key(context, how, kind, side):
    shared = _skate.join_rules(kind)[2]

    def joined():  # a Dataset keeps the settings that it was made with
        large, other = fact(how), dimension()
        a, b = (large, other) if side == joins.LEFT else (other, large)
        return a.join(b, kind, num_partitions=PARTS)

    want, _, whole = run(joined())
    options = context.execution_options
    options.resource_limits = options.resource_limits.copy(object_store_memory=LITTLE)
    got, stats, reduce = run(joined())
    assert got == want and whole["tasks_done"] == PARTS
    assert reduce["exchange"]["largest_bytes"] > LITTLE / 8, "there is a hot partition"
    if shared in (side, LARGER):
        pieces = reduce["tasks_done"] - PARTS
        assert pieces >= reduce["exchange"]["largest_bytes"] // (LITTLE // 8), "and no reduce has more than its share of it"
        assert stats["memory_peak"] < 2 * LITTLE
    else:
        assert reduce["tasks_done"] == PARTS


def test_the_side_with_more_rows_of_a_partition_comes_first(context):
    left, right = sd.from_items([{"k": 1, "x": i} for i in range(2)]), sd.from_items([{"k": 1, "y": i} for i in range(3)])
    pairs = [(r["x"], r["y"]) for r in left.join(right, "inner", num_partitions=1, on=("k",)).take_all()]
    assert pairs == [(x, y) for y in range(3) for x in range(2)]
    pairs = [(r["x"], r["y"]) for r in left.join(right.limit(2), "inner", num_partitions=1, on=("k",)).take_all()]
    assert pairs == [(x, y) for x in range(2) for y in range(2)], "of as many rows the left one"
    pairs = [(r["x"], r["y"]) for r in left.join(right, "right_outer", num_partitions=1, on=("k",)).take_all()]
    assert pairs == [(x, y) for y in range(3) for x in range(2)]
