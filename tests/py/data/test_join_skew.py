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


@pytest.mark.parametrize("kind", joins.KINDS)
@pytest.mark.parametrize("how", ["hot", "zipf", "equal"])
def test_a_hot_key(context, how, kind):
    shared = _skate.join_rules(kind)[2]

    def joined():  # a Dataset keeps the settings that it was made with
        large, other = fact(how), dimension()
        a, b = (large, other) if shared != joins.RIGHT else (other, large)
        return a.join(b, kind, num_partitions=PARTS)

    want, _, whole = run(joined())
    options = context.execution_options
    options.resource_limits = options.resource_limits.copy(object_store_memory=LITTLE)
    got, stats, reduce = run(joined())
    assert got == want and whole["tasks_done"] == PARTS
    assert reduce["exchange"]["largest_bytes"] > LITTLE / 8, "there is a hot partition"
    if shared >= 0:
        pieces = reduce["tasks_done"] - PARTS
        assert pieces >= reduce["exchange"]["largest_bytes"] // (LITTLE // 8), "and no reduce has more than its share of it"
        assert stats["memory_peak"] < 2 * LITTLE
    else:
        assert reduce["tasks_done"] == PARTS
