"""Dividing and joining Datasets by rows, compared with plain lists, over blocks of any size."""

import numpy as np
import pyarrow as pa
import pytest
import skate
import skate.data as sd
from hypothesis import given
from hypothesis import strategies as st
from rounds import examples
from skate.data.expressions import col


def ids(ds):
    return [r["id"] for r in ds.take_all()]


def blocks(sizes):
    """The numbers 0.. in blocks of these sizes."""
    out, at = [], 0
    for n in sizes:
        out.append(pa.table({"id": pa.array(range(at, at + n), pa.int64())}))
        at += n
    return sd.from_blocks(out)


SIZES = st.lists(st.integers(0, 7), min_size=1, max_size=8)


@examples(15)
@given(SIZES, st.integers(1, 5), st.booleans())
def test_split(sizes, n, equal):
    total = sum(sizes)
    parts = [ids(d) for d in blocks(sizes).split(n, equal=equal)]
    assert len(parts) == n
    rows = [r for p in parts for r in p]
    assert rows == list(range(total // n * n if equal else total))
    assert max(map(len, parts)) - min(map(len, parts)) <= (0 if equal else 1)


@examples(15)
@given(SIZES, st.lists(st.integers(0, 40), min_size=1, max_size=4).map(sorted))
def test_split_at_indices(sizes, at):
    rows = list(range(sum(sizes)))
    want = [rows[a:b] for a, b in zip([0, *at], [*at, len(rows)], strict=True)]
    assert [ids(d) for d in blocks(sizes).split_at_indices(at)] == [
        w if a <= len(rows) else [] for w, a in zip(want, [0, *at], strict=True)
    ]


@examples(15)
@given(SIZES, st.integers(1, 9))
def test_repartition_keeps_rows_and_evens_blocks(sizes, k):
    ds = blocks(sizes).repartition(k).materialize()
    assert ids(ds) == list(range(sum(sizes)))
    got = [b[2] for b in ds._node.options["blocks"]]
    if sum(sizes) >= k:
        assert len(got) == k and max(got) - min(got) <= 1


def test_repartition_by_rows():
    ds = sd.range(100, override_num_blocks=3).repartition(target_num_rows_per_block=7)
    assert ids(ds) == list(range(100))
    sizes = [len(b["id"]) for b in ds.iter_batches(batch_size=None)]
    assert max(sizes) == 7 and sum(sizes) == 100
    strict = sd.range(100, override_num_blocks=3).repartition(
        target_num_rows_per_block=7, strict=True
    )
    assert [len(b["id"]) for b in strict.iter_batches(batch_size=None)] == [7] * 14 + [2]
    with pytest.raises(ValueError, match="not both"):
        sd.range(3).repartition(2, 2)


def test_a_key_that_does_not_exist_is_told_first():
    for call in (sd.range(3).sort, sd.range(3).groupby):
        with pytest.raises(KeyError, match="no column 'idd'"):
            call("idd")


@examples(15)
@given(st.data())
def test_zip_aligns_rows_over_any_blocks(data):
    total = data.draw(st.integers(1, 20))

    def cut():
        at = sorted(data.draw(st.lists(st.integers(0, total), max_size=4)))
        return [b - a for a, b in zip([0, *at], [*at, total], strict=True)]

    out = blocks(cut()).zip(blocks(cut()).rename_columns({"id": "b"}), blocks(cut())).take_all()
    assert out == [{"id": i, "b": i, "id_1": i} for i in range(total)]


def test_zip_streams_and_keeps_columns_of_nothing():
    out = sd.range(100_000, override_num_blocks=7).zip(
        sd.range(100_000, override_num_blocks=5).map_batches(lambda b: {"x": b["id"] * 2})
    )
    assert sum(b["x"].sum() - 2 * b["id"].sum() for b in out.iter_batches(batch_size=333)) == 0
    assert "Zip" in out.stats() and out.limit(5).take_all() == [
        {"id": i, "x": 2 * i} for i in range(5)
    ]
    none = sd.range(4).filter(expr="id > 9")
    assert none.zip(none).schema().names == ["id", "id_1"]


def test_zip_cuts_where_blocks_of_the_largest_end():
    small = sd.from_items([{"a": i} for i in range(12)], override_num_blocks=4)
    large = sd.from_items([{"b": i, "c": "x" * 10} for i in range(12)], override_num_blocks=2)
    for ds, names in (
        (small.zip(large), ["a", "b", "c"]),
        (large.zip(small), ["b", "c", "a"]),
        (small.zip(small, large), ["a", "a_1", "b", "c"]),
    ):
        made = ds.materialize()
        assert (
            made.num_blocks() == 2
            and made.columns() == names
            and [r["b"] for r in made.take_all()] == list(range(12))
        )
    assert (
        small.map(lambda r: r).materialize().zip(large.map(lambda r: r)).materialize().num_blocks()
        == 4
    ), "bytes are not known beforehand"


def test_zip_of_different_lengths_says_so():
    with pytest.raises(ValueError, match="different number of rows: (at least )?3, 2"):
        sd.range(3).zip(sd.range(2)).materialize()


def test_train_test_split():
    train, test = sd.range(10).train_test_split(0.25)
    assert ids(train) == list(range(7)) and ids(test) == [7, 8, 9]
    train, test = sd.range(10).train_test_split(4)
    assert len(ids(test)) == 4
    for bad in (0, 10, 1.5, 0.0, -1):
        with pytest.raises(ValueError, match="test_size"):
            sd.range(10).train_test_split(bad)


def test_streaming_train_test_split_is_a_partition():
    ds = sd.range(1000, override_num_blocks=7)
    for kind in ({"seed": 3}, {}, {"split_type": "hash", "hash_column": "id"}):
        train, test = ds.streaming_train_test_split(0.3, **kind)
        a, b = ids(train), ids(test)
        assert sorted(a + b) == list(range(1000)) and 200 < len(b) < 400, kind
    again = ds.streaming_train_test_split(0.3, seed=3)[1]
    assert ids(again) == ids(ds.streaming_train_test_split(0.3, seed=3)[1])


def test_proportions():
    assert [d.count() for d in sd.range(10).split_proportionately([0.2, 0.5])] == [2, 5, 3]
    for bad in ([], [0.5, 0.5], [0.0, 0.2]):
        with pytest.raises(ValueError, match="proportions"):
            sd.range(10).split_proportionately(bad)


def test_block_order_and_samples_by_seed():
    ds = sd.range(40, override_num_blocks=8)
    one = ids(ds.randomize_block_order(seed=1))
    assert one == ids(ds.randomize_block_order(seed=1)) != list(range(40)) and sorted(one) == list(
        range(40)
    )
    again = ds.randomize_block_order(seed=sd.RandomSeedConfig(seed=1, reseed_after_execution=True))
    assert len({tuple(ids(again)) for _ in range(4)}) > 1
    fixed = ds.random_sample(0.5, seed=sd.RandomSeedConfig(seed=1, reseed_after_execution=False))
    assert ids(fixed) == ids(fixed)
    free = ds.random_sample(0.5)
    assert len({tuple(ids(free)) for _ in range(4)}) > 1
    with pytest.raises(ValueError, match="empty"):
        sd.range(0).random_sample(0.2)


@pytest.mark.parametrize("equal", [True, False])
def test_streaming_split_in_other_processes(equal):
    ds = sd.range(1000, override_num_blocks=10).with_column("x", col("id") + 1)
    its = ds.streaming_split(2, equal=equal)

    @skate.remote(num_cpus=0)
    def consume(it, epochs):
        return [
            [int(v) for b in it.iter_batches(batch_size=64) for v in b["x"]] for _ in range(epochs)
        ]

    a, b = skate.get([consume.remote(it, 2) for it in its], timeout=60)
    assert a[0] == a[1] and b[0] == b[1]  # an iterator gets the same rows in every epoch
    assert sorted(a[0] + b[0]) == list(range(1, 1001))
    if equal:
        assert len(a[0]) == len(b[0]) == 500


def test_streaming_split_leaves_out_a_remainder_and_passes_errors_on():
    its = sd.range(7, override_num_blocks=3).streaming_split(2, equal=True)
    import threading

    got = [None, None]

    def take(i):
        got[i] = [r["id"] for r in its[i].iter_rows()]

    ts = [threading.Thread(target=take, args=(i,)) for i in range(2)]
    [t.start() for t in ts]
    [t.join(60) for t in ts]
    assert len(got[0]) == len(got[1]) == 3 and not set(got[0]) & set(got[1])

    def bad(r):
        raise KeyError("the reason")

    (it,) = sd.range(5).map(bad).streaming_split(1)
    with pytest.raises(KeyError, match="the reason"):
        list(it.iter_rows())


def test_batches_can_be_iterated_again():
    it = sd.range(10).iter_batches(batch_size=4)
    assert [len(b["id"]) for b in it] == [4, 4, 2] == [len(b["id"]) for b in it]
    assert next(it)["id"].tolist() == [0, 1, 2, 3] and next(it)["id"].tolist() == [4, 5, 6, 7]
    it.close()


def test_ragged_tensors_come_back_from_other_processes():
    arrays = [np.ones((2, 2)), np.zeros((1, 3)), None]
    ds = sd.from_items([{"a": a, "i": i} for i, a in enumerate(arrays)]).map_batches(lambda b: b)
    for rows in (
        ds.take_all(),
        ds.map(lambda r: r).take_all(),
        ds.map_batches(lambda t: t, batch_format="pandas").take_all(),
    ):
        for r in rows:
            want = arrays[r["i"]]
            assert r["a"] is None if want is None else np.array_equal(r["a"], want), rows


class Thing:
    def __init__(self, n):
        self.n = n


@pytest.mark.parametrize("fmt", ["numpy", "pandas", "pyarrow"])
def test_python_objects_survive(fmt):
    ds = sd.from_items([{"o": Thing(i) if i else None, "i": i} for i in range(3)]).map_batches(
        lambda b: b, batch_format=fmt
    )
    rows = ds.map(lambda r: r).take_all()
    assert rows[0]["o"] is None and [r["o"].n for r in rows[1:]] == [1, 2]
    with pytest.raises(TypeError, match="mixed types"):
        sd.from_items([{"o": 1}, {"o": "a"}])
