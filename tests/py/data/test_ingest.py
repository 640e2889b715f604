"""Batches for training: the memory of their arrays, the local shuffle, and resuming an iteration
(docs/design/ingest.md)."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import skate.data as sd
from rounds import campaign, rounds, seed
from skate import _skate
from skate.data.values.numpy_batch import to_numpy

SOAK = Path(__file__).resolve().parents[1] / "soak"

torch = None
try:
    import torch
except ImportError:
    pass
needs_torch = pytest.mark.skipif(torch is None, reason="torch is not installed")


def numbers(rows, width, blocks):
    """A materialized Dataset in the store; row i of column "x" is i * width, i * width + 1, ..."""

    def make(batch):
        return {"x": batch["id"][:, None] * width + np.arange(width), "id": batch["id"]}

    return (
        sd.range(rows, override_num_blocks=blocks).map_batches(make, batch_size=None).materialize()
    )


def ids(batches):
    return [b["id"].tolist() for b in batches]


# ---- Rows


def take(rows, n, alloc=None):
    """Returns (batch of the next n rows, the memory that it was gathered into); None: no row is
    left."""
    plan = rows.plan(n)
    if plan is None:
        return None
    memory, _ = plan.write(alloc)
    return _skate.block(memory, memory), memory


def test_gathered_batches_have_the_rows_of_all_types():
    batches = [
        pa.record_batch(
            {
                "n": [i, None, i + 2],
                "s": ["a" * i, None, "é"],
                "l": [[i], [], None],
                "b": [True, None, False],
            }
        )
        for i in range(5)
    ]
    whole = pa.Table.from_batches(batches)
    rows = _skate.Rows()
    for b in batches:
        rows.add(b)
    rows.end()
    got = []
    while (taken := take(rows, 4)) is not None:
        got.append(taken[0])
    assert [b.num_rows for b in got] == [4, 4, 4, 3]
    assert pa.Table.from_batches(got).to_pylist() == whole.to_pylist()


def test_memory_of_a_batch_is_used_again_when_nobody_looks_at_it():
    rows = _skate.Rows()
    rows.add(pa.record_batch({"n": np.arange(100_000)}))

    def address(taken):
        return np.frombuffer(taken[1], np.uint8).__array_interface__["data"][0]

    first = take(rows, 20_000)
    kept = first[0].column(0).to_numpy()
    at, before = address(first), kept.copy()
    del first
    second = take(rows, 20_000)
    assert address(second) != at and (kept == before).all()
    del kept
    assert address(take(rows, 20_000)) == at
    with pytest.raises(ValueError, match="bytes at .* for a batch of"):
        take(rows, 20_000, lambda n: bytearray(10))


def test_memory_is_kept_for_the_next_epoch_and_for_a_last_batch_that_is_not_full():
    def addresses():
        rows, out = _skate.Rows(), []
        rows.add(pa.record_batch({"n": np.arange(800_000)}))
        rows.end()
        while (taken := take(rows, 600_000)) is not None:
            out.append(np.frombuffer(taken[1], np.uint8).__array_interface__["data"][0])
            assert taken[0].column(0).to_numpy()[0] == 600_000 * (len(out) - 1)
            del taken
        return out

    first = addresses()
    assert len(first) == 2 and first == addresses() and first[0] == first[1]
    assert first[0] % (2 << 20) == 0, "a large piece begins at a huge page"


def test_a_batch_of_another_schema_is_refused_until_what_is_held_is_cast():
    rows = _skate.Rows()
    rows.add(pa.record_batch({"n": pa.array([1], pa.int64())}))
    other = pa.record_batch({"n": pa.array([2.5])})
    with pytest.raises(ValueError, match="another schema"):
        rows.add(other)
    with pytest.raises(ValueError, match="number of rows"):
        rows.cast(lambda b: b.slice(0, 0))
    rows.cast(lambda b: b.cast(other.schema))
    rows.add(other)
    rows.end()
    assert take(rows, 5)[0].column(0).to_pylist() == [1.0, 2.5]


def test_the_memory_of_a_batch_goes_back_when_the_last_array_over_it_is_gone():
    """The pieces of memory in use are those of the batches of which any array is alive; an
    iteration that has ended, or was left, has none."""
    ds = numbers(400, 50, 4)
    used, _ = _skate.pages_counts()
    options = {"batch_size": 32, "local_shuffle_buffer_size": 100}
    for make in (ds.iter_batches, *([ds.iter_torch_batches] if torch is not None else [])):
        for ahead in (1, 3):
            kept = [b["x"][3] for b in make(**options, prefetch_batches=ahead)]
            assert _skate.pages_counts()[0] - used == len(kept) == 13
            want = [k.tolist() for k in kept]
            del kept[:6]
            assert _skate.pages_counts()[0] - used == 7
            # new batches must not overwrite batches that are alive
            again = [b for b in make(**options, prefetch_batches=ahead)][:2]
            assert [k.tolist() for k in kept] == want[6:]
            del again, kept
            left = iter(make(**options, prefetch_batches=ahead))
            next(left)
            left.close()
            assert _skate.pages_counts()[0] == used


def test_columns_that_are_gathered_are_as_those_of_a_block():
    """Columns that are arrays over the gathered memory, and columns that go through Arrow, equal
    those that to_numpy() makes of the same batch; some batches have nulls."""
    n = 120
    tensors = np.arange(n * 6, dtype=np.float32).reshape(n, 2, 3)
    flat = pa.FixedSizeListArray.from_arrays(pa.array(tensors.reshape(-1)), 6)
    columns = {
        "id": pa.array(np.arange(n)),
        "f16": pa.array(np.arange(n).astype(np.float16)),
        "some": pa.array([None if i == 77 else i for i in range(n)]),
        "s": pa.array([str(i) for i in range(n)]),
        "when": pa.array(np.arange(n)).cast(pa.timestamp("us")),
        "ray": pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.float32(), (2, 3)), flat),
        "turned": pa.ExtensionArray.from_storage(
            pa.fixed_shape_tensor(pa.float32(), (2, 3), permutation=[1, 0]), flat
        ),
        "pairs": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(2 * n)), 2),
        "gaps": pa.FixedSizeListArray.from_arrays(
            pa.array([None if i == 150 else i for i in range(2 * n)]), 2
        ),
        "lists": pa.array([[i, i + 1] for i in range(n)]),
        "yes": pa.array([i % 3 == 0 for i in range(n)]),
    }
    ds = sd.from_arrow([pa.table(columns).slice(at, 30) for at in range(0, n, 30)])
    options = {"batch_size": 7, "local_shuffle_buffer_size": 40, "local_shuffle_seed": 1}
    rows = 0
    for b, arrow in zip(
        ds.iter_batches(**options), ds.iter_batches(**options, batch_format="pyarrow"), strict=True
    ):
        rows += len(b["id"])
        for name, expected in to_numpy(arrow.to_batches()[0]).items():
            v = b[name]
            assert (type(v), v.dtype, v.shape, v.flags.writeable) == (
                type(expected),
                expected.dtype,
                expected.shape,
                expected.flags.writeable,
            ), name
            assert repr(v.tolist()) == repr(expected.tolist()), name
    assert rows == n


# ---- local shuffle


@pytest.mark.parametrize("fmt", ["numpy", "pandas", "pyarrow"])
def test_local_shuffle_has_each_row_once_and_rows_stay_whole(fmt):
    ds = sd.from_blocks(
        [
            pa.table({"id": range(i, i + 30), "s": [str(k) for k in range(i, i + 30)]})
            for i in range(0, 300, 30)
        ]
    )
    got = []
    for b in ds.iter_batches(
        batch_size=16, batch_format=fmt, local_shuffle_buffer_size=50, local_shuffle_seed=3
    ):
        columns = b.to_pydict() if fmt == "pyarrow" else {k: list(v) for k, v in b.items()}
        assert [str(i) for i in columns["id"]] == columns["s"]
        got += columns["id"]
    assert sorted(got) == list(range(300)) != got


def test_local_shuffle_widens_the_types_of_rows_that_it_holds():
    ds = sd.from_blocks([pa.table({"id": [1, 2]}), pa.table({"id": [3, 4]})]).map_batches(
        lambda b: {"id": b["id"].astype(float) + 0.5 if b["id"][0] > 2 else b["id"]}
    )
    got = [
        x
        for b in ds.iter_batches(batch_size=2, local_shuffle_buffer_size=4, local_shuffle_seed=1)
        for x in b["id"].tolist()
    ]
    assert sorted(got) == [1.0, 2.0, 3.5, 4.5]


def test_local_shuffle_is_a_function_of_seed_epoch_and_row_not_of_blocks():
    def order(blocks, seed=5, epoch=0):
        it = sd.range(2000, override_num_blocks=blocks).iterator()
        it.set_epoch(epoch)
        return sum(
            ids(
                it.iter_batches(
                    batch_size=64, local_shuffle_buffer_size=300, local_shuffle_seed=seed
                )
            ),
            [],
        )

    assert order(1) == order(7) == order(40)
    orders = [order(2, seed, epoch) for seed in (5, 6) for epoch in (0, 1)]
    assert all(a != b for i, a in enumerate(orders) for b in orders[:i])


def test_local_shuffle_moves_rows_far_and_without_bias():
    """For a uniform permutation, the mean displacement within a window of W rows is W / 3."""
    w, n = 200, 20_000
    got = np.concatenate(
        [
            b["id"]
            for b in sd.range(n).iter_batches(
                batch_size=100, local_shuffle_buffer_size=w, local_shuffle_seed=0
            )
        ]
    )
    moved = got - np.arange(n)
    assert abs(moved.mean()) < 1e-9
    assert 0.3 * w < np.abs(moved).mean() < 0.4 * w


# ---- tensors


@needs_torch
def test_tensors_lie_over_the_block_and_what_is_written_into_them_stays_there():
    ds = numbers(600, 200, 2)
    expected = np.arange(600 * 200).reshape(600, 200)
    before = [len(ds._node.blocks), ds._node.blocks[0][2]]
    assert before[1] >= 100
    for _ in range(2):
        got = []
        for b in ds.iter_torch_batches(batch_size=50):
            got.append(b["x"].clone())
            b["x"].zero_()
            b["id"] += 1
        assert (torch.cat(got).numpy() == expected).all()
    kept = next(iter(ds.iter_torch_batches(batch_size=50)))["x"]
    address = next(iter(ds.iter_batches(batch_size=50)))["x"].__array_interface__["data"][0]
    assert kept.data_ptr() != address, "private pages, not the store's own"
    del ds
    assert (kept.numpy() == expected[:50]).all()


@needs_torch
@pytest.mark.parametrize("shuffle", [None, 64])
def test_tensors_of_all_kinds_of_columns(shuffle):
    n = 100
    ds = sd.from_arrow(
        pa.table(
            {
                "u8": pa.array(np.arange(n) % 251, pa.uint8()),
                "f32": pa.array(np.arange(n), pa.float32()),
                "b": pa.array((np.arange(n) % 3 == 0).tolist()),
                "fixed": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(2 * n)), 2),
                "list": [[i, i + 1] for i in range(n)],
                "id": range(n),
            }
        )
    )
    options = {"local_shuffle_buffer_size": shuffle, "local_shuffle_seed": 1} if shuffle else {}
    parts = list(ds.iter_torch_batches(batch_size=7, dtypes={"u8": torch.float64}, **options))
    got = {k: torch.cat([p[k] for p in parts]) for k in parts[0]}
    i = got["id"]
    assert (i.sort().values == torch.arange(n)).all() and bool((i == torch.arange(n)).all()) is (
        shuffle is None
    )
    assert got["u8"].dtype == torch.float64 and (got["u8"] == i % 251).all()
    assert got["f32"].dtype == torch.float32 and (got["f32"] == i).all()
    assert got["b"].dtype == torch.bool and (got["b"] == (i % 3 == 0)).all()
    assert (got["fixed"] == torch.stack([2 * i, 2 * i + 1], 1)).all() and (
        got["list"] == torch.stack([i, i + 1], 1)
    ).all()
    assert [len(p["id"]) for p in parts] == [7] * 14 + [2]
    assert len(list(ds.iter_torch_batches(batch_size=7, drop_last=True, **options))) == 14


@needs_torch
@pytest.mark.parametrize("options", [{}, {"local_shuffle_buffer_size": 4}])
def test_what_has_no_tensor_says_which_column(options):
    for values, why in (
        ([[1], [1, 2], [1]], "arrays of different shapes.*pass collate_fn"),
        ([2**60, None, 2], "has nulls beside integers.*is_not_null"),
        ([[1], None, [1]], "has nulls beside ndarray"),
        (["a", "b", "c"], "holds str"),
    ):
        with pytest.raises(TypeError, match=f"column 'c'.*{why}"):
            list(sd.from_arrow(pa.table({"c": values})).iter_torch_batches(batch_size=3, **options))


@needs_torch
def test_without_a_gpu_page_locked_memory_is_refused():
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU: see tests/py/gpu")
    for options in ({"pin_memory": True}, {"device": "cuda"}):
        with pytest.raises(ValueError, match="needs a GPU"):
            sd.range(3).iter_torch_batches(**options)


@needs_torch
@pytest.mark.parametrize("ahead", [0, 1, 3])
def test_collate_fn_runs_ahead_in_order_and_its_error_comes_in_its_place(ahead):
    def collate(b):
        if 40 in b["id"]:
            raise KeyError("the fifth")
        return torch.as_tensor(b["id"].copy())

    got = []
    with pytest.raises(KeyError, match="the fifth"):
        for t in sd.range(100).iter_torch_batches(
            batch_size=10, collate_fn=collate, prefetch_batches=ahead
        ):
            got += t.tolist()
    assert got == list(range(40))


@pytest.mark.parametrize("workers", [1, 4])
def test_work_ahead_keeps_its_order_and_errors_come_in_their_place(workers):
    from skate.data.run.ahead import Ahead

    begun = threading.Barrier(workers)

    def work(i):
        if i < workers:
            begun.wait(60)  # all threads are working at the same time
        if i == 70:
            raise KeyError("seventy")
        return i * i

    def items():
        yield from range(100)

    ahead, got = Ahead(items, 5, work=work, workers=workers), []
    with pytest.raises(KeyError, match="seventy"):
        for x in ahead:
            got.append(x)
    ahead.close()
    assert got == [i * i for i in range(70)]
    early = Ahead(items, 5, work=lambda i: -i, workers=workers)
    assert next(early) == 0
    early.close()
    assert list(early) == []


def test_an_iteration_that_is_left_early_ends_its_thread_and_its_run():
    before = set(threading.enumerate())
    for _ in range(5):
        it = iter(
            sd.range(10_000, override_num_blocks=50).iter_batches(
                batch_size=10, _collate_fn=lambda b: b, prefetch_batches=4
            )
        )
        next(it)
        it.close()
    left = [
        t for t in threading.enumerate() if t not in before and t.name.startswith("skate-ahead")
    ]
    assert not left


# ---- resuming an iteration


@pytest.mark.parametrize("source", ["materialized", "range", "map", "filter"])
@pytest.mark.parametrize("shuffle", [None, 150])
def test_an_iteration_goes_on_where_a_state_says(source, shuffle):
    def dataset():
        ds = sd.range(2000, override_num_blocks=9)
        if source == "materialized":
            return ds.materialize()
        if source == "map":
            return ds.map(lambda row: {"id": row["id"]}).select_columns(["id"])
        return ds.filter(lambda row: row["id"] % 7 != 0) if source == "filter" else ds

    options = {"batch_size": 64} | (
        {"local_shuffle_buffer_size": shuffle, "local_shuffle_seed": 4} if shuffle else {}
    )
    whole = ids(dataset().iter_batches(**options))
    it, states = dataset().iterator(), []
    for _ in it.iter_batches(**options):
        states.append(it.state_dict())
    for k in (0, 3, len(whole) - 2, len(whole) - 1):
        again = dataset().iterator()
        again.load_state_dict(json.loads(json.dumps(states[k])))
        assert again.state_dict() == states[k]
        assert ids(again.iter_batches(**options)) == whole[k + 1 :]
        assert ids(again.iter_batches(**options)) == whole, "the next epoch is whole"
    it.load_state_dict(it.state_dict())
    assert ids(it.iter_batches(**options)) == whole, "behind the last batch begins the next epoch"
    assert len(json.dumps(states[-1])) < 300


def test_a_state_of_a_random_order_of_the_whole_dataset():
    def dataset(seed):
        return sd.range(500).random_shuffle(seed=seed)

    it = dataset(3).iterator()
    whole, half = ids(it.iter_batches(batch_size=50)), None
    for i, _ in enumerate(it.iter_batches(batch_size=50)):
        if i == 4:
            half = it.state_dict()
            break
    again = dataset(3).iterator()
    again.load_state_dict(half)
    assert ids(again.iter_batches(batch_size=50)) == whole[5:]
    it = dataset(None).iterator()
    next(iter(it.iter_batches(batch_size=50)))
    with pytest.raises(ValueError, match="has no seed"):
        it.state_dict()


def test_states_that_do_not_fit_are_refused():
    it = sd.range(100).iterator()
    for wrong in ({}, [], {"version": 2, "rows": 1}, {"version": 1, "rows": "5"}):
        with pytest.raises(ValueError, match="no state"):
            it.load_state_dict(wrong)
    state = {"version": 1, "epoch": 0, "rows": 10, "window": 20, "seed": 1}
    for options, why in (
        ({}, "buffer_size=0"),
        ({"local_shuffle_buffer_size": 20, "local_shuffle_seed": 2}, "seed=2"),
    ):
        it.load_state_dict(state)
        with pytest.raises(ValueError, match=why):
            next(iter(it.iter_batches(batch_size=5, **options)))
    with pytest.raises(ValueError, match="epoch"):
        it.set_epoch(-1)


@campaign()
def test_killed_at_random_steps_the_rows_are_those_of_a_run_that_was_not():
    """With a local shuffle, with a shuffle of all rows, and with 8, 4 or 6 ranks."""
    command = [
        sys.executable,
        str(SOAK / "training_kills.py"),
        "--kills",
        str(rounds(3)),
        "--seed",
        str(seed()),
    ]
    p = subprocess.run(command, capture_output=True, text=True)
    assert p.returncode == 0, p.stdout + p.stderr
    assert " 0 wrong streams" in p.stdout and p.stdout.count("the same rows") == 3


def test_what_lies_before_is_not_made_where_rows_are_known():
    def late(row):
        if row["id"] < 800_000:
            raise RuntimeError("a row that nobody asks for")
        return row

    ds = sd.range(1_000_000, override_num_blocks=20).map(late)
    it = ds.iterator()
    it.load_state_dict({"version": 1, "epoch": 0, "rows": 999_900, "runs": []})
    assert ids(it.iter_batches(batch_size=100)) == [list(range(999_900, 1_000_000))]
