"""Joins whose side is measured before the run: a small side is broadcast, or a Bloom filter of its
keys goes to the other side. The rows are the same as with an exchange."""

import numpy as np
import pyarrow as pa
import pytest
import skate.data as sd
from skate import _skate
from skate.data.by_key import join_args

MANY, FEW = 20_000, 500


@pytest.fixture
def context():
    ctx = sd.DataContext.get_current()
    before = ctx.broadcast_join_bytes
    yield ctx
    ctx.broadcast_join_bytes = before


def large(blocks=7):
    return sd.range(MANY, override_num_blocks=blocks).map_batches(
        lambda b: {"id": b["id"] % 700, "x": b["id"], "s": (b["id"] % 9).astype(str)}
    )


def small(blocks=3):
    return sd.range(FEW, override_num_blocks=blocks).map_batches(
        lambda b: {"id": b["id"] // 2 * 4, "y": b["id"] * 0.5}
    )


def table(ds):
    return pa.Table.from_batches(
        [
            rb
            for rb in ds.iter_batches(batch_size=None, batch_format="pyarrow")
            for rb in rb.to_batches()
        ]
    ).combine_chunks()


def by_rows(t):
    return sorted(map(str, t.to_pylist()))


def said(ds):
    return [r for r in ds._stats.to_dict().get("rules", []) if r.startswith("join: ")]


@pytest.mark.parametrize("large_is", ["left", "right"])
@pytest.mark.parametrize("kind", join_args.KINDS)
def test_the_rows_of_the_exchange(context, kind, large_is):
    def joined(limit, **kw):
        context.broadcast_join_bytes = limit
        ds = (
            (large().join(small(), kind, **kw))
            if large_is == "left"
            else (small().join(large(), kind, **kw))
        )
        return table(ds), said(ds)

    want, nothing = joined(0)
    got, what = joined(10 << 20)
    assert (
        got.schema == want.schema
        and by_rows(got) == by_rows(want)
        and want.num_rows
        and nothing == []
    )
    side = join_args.LEFT if large_is == "left" else join_args.RIGHT
    by_block, may_lack, _ = _skate.join_rules(kind)
    if by_block[side]:
        assert "500 rows, 7.8 KiB: broadcast (at most 10.0 MiB)" in what[0]
    elif any(by_block):
        assert "20,000 rows" in what[0] and "broadcast" in what[0]
    else:
        assert what == [] and got == want
    filtered, what = joined(8000, num_partitions=5)
    assert filtered == joined(0, num_partitions=5)[0], (
        "the order is by partitions, as it was asked for"
    )
    assert ("Bloom" in str(what)) == may_lack[side]


def test_the_order_is_that_of_the_large_side_whatever_blocks_there_are(context):
    want = [
        (i, i % 700, k / 2)
        for i in range(MANY)
        if i % 700 % 4 == 0 and i % 700 < 1000
        for k in (i % 700 // 2, i % 700 // 2 + 1)
    ]
    for a, b in ((7, 3), (1, 1), (40, 5)):
        for ds in (large(a).join(small(b), "inner"), small(b).join(large(a), "inner")):
            t = table(ds)
            assert (
                list(zip(t["x"].to_pylist(), t["id"].to_pylist(), t["y"].to_pylist(), strict=True))
                == want
            )


def test_a_side_is_measured_not_guessed(context):
    """Both sides have about as many bytes; of a million rows a filter keeps a few on one side, and
    most on the other."""
    context.broadcast_join_bytes = 100_000
    keeps = sd.range(200_000, override_num_blocks=4).filter(expr="id < 1000")
    a = large().join(keeps, "left_semi")
    assert a.count() == MANY and "1,000 rows, 7.8 KiB: broadcast" in said(a)[0]
    most = sd.range(200_000, override_num_blocks=4).filter(expr="id >= 1000")
    a = sd.range(3_000_000, override_num_blocks=4).join(most, "inner")
    assert a.count() == 199_000 and "199,000 rows, 1.5 MiB: moved; a Bloom filter" in said(a)[0]
    a = sd.range(1000).join(sd.range(200_000), "full_outer")
    assert a.count() == 200_000 and said(a) == []


def test_a_filter_that_does_not_pay_is_given_up(context):
    context.broadcast_join_bytes = 1000
    met = sd.range(1_000_000, override_num_blocks=1).map_batches(
        lambda b: {"id": b["id"] % 900, "x": b["id"]}
    )
    ds = met.join(sd.range(1000), "inner", num_partitions=2)
    assert ds.count() == 1_000_000 and "Bloom" in said(ds)[0]


def test_what_others_take_too_runs_once(context):
    rows = sd.range(100, override_num_blocks=2).random_shuffle()
    both = rows.join(rows, "inner", right_suffix="_r")
    assert both.count() == 100 and said(both) == []
    again = rows.join(sd.range(5), "inner").union(rows)
    assert again.count() == 105 and "5 rows" in said(again)[0]


def test_bad_rows_are_kept_where_they_are_asked_for(context):
    def f(r):
        return {"id": 7 // r["id"]}

    context.on_error = "quarantine"
    try:
        ds = large().join(sd.range(5).map(f), "left_semi")
        assert ds.count() > 0 and said(ds) == [] and len(list(ds.errors().iter_rows())) == 1
    finally:
        context.on_error = "raise"


def test_an_error_of_the_small_side():
    def f(r):
        raise KeyError("of the small side")

    with pytest.raises(Exception, match="of the small side"):
        large().join(sd.range(5).map(f), "inner").count()


def test_sides_without_rows_or_columns():
    assert large().join(small().filter(lambda r: False), "inner").count() == 0
    assert large().join(sd.from_items([]), "left_semi").count() == 0
    assert sd.from_items([]).join(small(), "inner").count() == 0
    assert table(large().join(small().filter(lambda r: False), "left_outer")).num_rows == MANY


def test_a_chain_with_a_limit_and_in_explain():
    ds = (
        large()
        .join(small(), "inner")
        .join(sd.range(3).map(lambda r: {"id": r["id"] * 4, "z": 1}), "left_semi")
        .limit(10)
    )
    assert [r["id"] for r in ds.take_all()] == [0, 0, 4, 4, 8, 8, 0, 0, 4, 4]
    assert len(said(ds)) == 2 and "broadcast" in ds.stats()
    assert "the side that may be small runs first" in ds.explain_text()


def test_filters_of_keys():
    rng = np.random.default_rng(3)
    keys = rng.integers(0, 1 << 40, 5000)
    there = pa.record_batch({"a": keys.astype(np.int64), "b": [str(k % 7) for k in keys]})
    made = bytearray(_skate.bloom_bytes(5000))
    _skate.bloom_add(made, there)
    assert len(_skate.bloom_select(made, there)) == 4 * 5000, "none that is in it is left out"
    other = pa.record_batch({"a": keys.astype(np.int64) + 1, "b": [str(k % 7) for k in keys]})
    index = np.frombuffer(_skate.bloom_select(bytes(made), other), np.uint32)
    assert len(index) < 250 and (np.diff(index.astype(int)) > 0).all()
    for bad in ((b"", there), (made, pa.record_batch({"l": [[1]]}))):
        with pytest.raises(ValueError):
            _skate.bloom_select(*bad)
