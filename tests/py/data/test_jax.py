"""iter_jax_batches: the rows of iter_batches as jax.Arrays, and what JAX cannot hold."""

import numpy as np
import pytest
import skate.data as sd

jax = pytest.importorskip("jax")


def test_batches_are_those_of_numpy():
    ds = sd.range(1000, override_num_blocks=3).map_batches(
        lambda b: {"id": b["id"], "half": b["id"] / 2, "a": np.stack([b["id"]] * 3, axis=1)}
    )
    want = list(ds.iter_batches(batch_size=64))
    got = list(ds.iter_jax_batches(batch_size=64))
    assert len(got) == len(want)
    for g, w in zip(got, want):
        assert all(isinstance(v, jax.Array) for v in g.values())
        for name in w:
            np.testing.assert_array_equal(np.asarray(g[name]), w[name])
    assert {k: str(v.dtype) for k, v in got[0].items()} == {
        "id": "int32",
        "half": "float32",
        "a": "int32",
    }
    assert len(list(ds.iter_jax_batches(batch_size=64, drop_last=True))) == 15
    # a batch stays as it is when the iterator has gone on
    first = next(iter(ds.iter_jax_batches(batch_size=64)))
    del ds
    assert np.asarray(first["id"]).tolist() == list(range(64))


def test_dtypes_device_and_shuffle():
    ds = sd.range(100)
    b = next(iter(ds.iter_jax_batches(batch_size=10, dtypes={"id": jax.numpy.bfloat16})))
    assert b["id"].dtype == jax.numpy.bfloat16
    there = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    b = next(iter(ds.iter_jax_batches(batch_size=10, device=there, prefetch_batches=0)))
    assert b["id"].sharding == there
    mixed = [
        i
        for b in ds.iter_jax_batches(
            batch_size=10, local_shuffle_buffer_size=50, local_shuffle_seed=1
        )
        for i in b["id"].tolist()
    ]
    assert sorted(mixed) == list(range(100)) != mixed


def test_an_iterator_goes_on_behind_a_batch():
    it = sd.range(100).iterator()
    batches = it.iter_jax_batches(batch_size=10)
    for _ in range(3):
        next(batches)
    state = it.state_dict()
    again = sd.range(100).iterator()
    again.load_state_dict(state)
    assert next(again.iter_jax_batches(batch_size=10))["id"].tolist() == list(range(30, 40))


def test_what_jax_cannot_hold_is_told():
    with pytest.raises(TypeError, match="column 's' holds .*drop_columns"):
        next(iter(sd.from_items([{"s": "x"}]).iter_jax_batches()))
    big = sd.from_items([{"n": 1 << 40}])
    with pytest.raises(ValueError, match="column 'n' has whole numbers that 32 bits cannot hold"):
        next(iter(big.iter_jax_batches()))
    assert next(iter(big.iter_jax_batches(dtypes="float32")))["n"].tolist() == [float(1 << 40)]
    missing = sd.from_items([{"n": 1}, {"n": None}])
    assert np.isnan(next(iter(missing.iter_jax_batches()))["n"]).tolist() == [False, True]
    with pytest.raises(TypeError, match="missing values"):
        next(iter(missing.iter_jax_batches(dtypes="int32")))
