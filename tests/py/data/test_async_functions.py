"""Async functions of map, flat_map, filter and map_batches: how many calls of a task run at once,
what is held, the order of results, errors, and calls that are left when a task ends early."""

import asyncio

import numpy as np
import pyarrow as pa
import pytest
import skate.data as sd
from patience import eventually
from skate.data.op import find
from skate.data.worker import coroutines
from skate.data.worker.task import task

N = 200


class Counted:
    """An async function that counts the calls that run; `most` of its result is their highest
    number so far."""

    def __init__(self):
        self.running = self.most = 0

    async def __call__(self, given):
        self.running += 1
        self.most = max(self.most, self.running)
        for _ in range(200 + int(np.min(given["id"])) * 7 % 5):
            await asyncio.sleep(0)
        self.running -= 1
        if np.isscalar(given["id"]):
            return {"id": given["id"], "most": self.most}
        return {"id": given["id"], "most": np.full(len(given["id"]), self.most)}


@pytest.mark.parametrize("limit", [None, 1, 3, 40])
@pytest.mark.parametrize("how", ["map", "flat_map", "lambda", "class", "map_batches"])
def test_as_many_calls_run_at_once_as_max_concurrency_says(how, limit):
    counted = Counted()

    async def listed(row):
        return [await counted(row)]

    ds = sd.range(N, override_num_blocks=1)
    more = {} if limit is None else {"max_concurrency": limit}
    if how == "flat_map":
        out = ds.flat_map(listed, **more)
    elif how == "lambda":
        out = ds.map(lambda row: counted(row), **more)
    elif how == "class":
        out = ds.map(Counted, concurrency=1, **more)
    elif how == "map_batches":
        out = ds.map_batches(Counted, batch_size=2, concurrency=1, **more)
    else:
        out = ds.map(counted.__call__, **more)
    rows = out.take_all()
    assert [r["id"] for r in rows] == list(range(N))
    default = coroutines.BATCHES if how == "map_batches" else coroutines.ROWS
    assert max(r["most"] for r in rows) == (limit or default)


def test_rows_of_large_results_run_side_by_side_too():
    """The calls do not stop at the end of a piece, which has 8 rows of this size."""

    counted = Counted()

    async def large(row):
        out = await counted(row)
        return {**out, "data": np.zeros(1 << 17)}

    rows = sd.range(60, override_num_blocks=1).map(large).select_columns(["most"]).take_all()
    assert max(r["most"] for r in rows) == coroutines.ROWS


def params(fn, **more):
    given = {"fn": fn, "fn_args": (), "fn_kwargs": {}, "label": "F(f)", "last": True}
    batches = {"batch_format": "default", "batch_size": 2, "zero_copy_batch": True}
    return {**given, **batches, **more}


@pytest.fixture
def run():
    """Runs an operator without an engine over one batch of the numbers 0..N-1."""
    from skate import _skate

    task.careful, task.nbytes, task.seq, task._source = False, _skate.block_nbytes, 0, ""
    return lambda op, p: find(op).run(p, iter([pa.RecordBatch.from_pydict({"id": range(N)})]), task)


def test_results_that_wait_for_an_earlier_one_are_bounded(run):
    started = []

    async def first_is_last(row):
        started.append(row["id"])
        if row["id"] == 0:
            for _ in range(1000):
                await asyncio.sleep(0)
            return {"seen": len(started)}
        return {"seen": 0}

    out = run("map", params(first_is_last, max_concurrency=5))
    assert next(out)["seen"][0].as_py() == 10  # itself, 4 that run beside it, 5 that are finished


@pytest.mark.parametrize("op", ["map", "map_batches"])
def test_calls_that_are_left_are_cancelled(run, op):
    begun, ended = [], []

    async def f(given):
        i = int(np.min(given["id"]))
        begun.append(i)
        try:
            if i >= 64:
                await asyncio.get_running_loop().create_future()
            for _ in range(i % 5):
                await asyncio.sleep(0)
            return given
        finally:
            ended.append(i)

    out = run(op, params(f))
    next(out)  # 64 rows of map, 2 of map_batches
    while max(begun) < 64:
        next(out)
    assert 64 not in ended
    out.close()
    assert sorted(begun) == sorted(ended)


def test_a_consumer_that_leaves_ends_the_calls(tmp_path):
    async def f(row):
        i = row["id"]
        try:
            if i >= 64:  # the rows of the first piece end
                (tmp_path / f"begun {i}").touch()
                await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            (tmp_path / f"ended {i}").touch()
            raise
        return {"id": i, "x": np.zeros(30_000)}

    seen = iter(sd.range(1000, override_num_blocks=1).map(f).iter_batches(batch_size=8))
    assert next(seen)["id"].tolist() == list(range(8))
    eventually(lambda: len(list(tmp_path.glob("begun *"))) == coroutines.ROWS)
    del seen
    eventually(lambda: len(list(tmp_path.glob("ended *"))) == coroutines.ROWS)
    assert sd.range(10).map(passed).count() == 10  # the worker goes on


@pytest.mark.parametrize("lazy", [False, True])
def test_the_row_that_failed_is_named(run, lazy):
    cancelled = []

    async def fails(row):
        if row["id"] == 70:
            raise ValueError("seventy")
        try:
            if row["id"] > 70:
                await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            cancelled.append(row["id"])
            raise
        return row

    out = run("map", params(fails if not lazy else lambda row: one(row)))

    async def one(row):
        if row["id"] == 70:
            raise ValueError("seventy")
        return row

    with pytest.raises(ValueError, match="seventy") as e:
        list(out)
    assert "input row 70" in "".join(e.value.__notes__)
    assert sorted(cancelled) == ([] if lazy else list(range(71, 71 + coroutines.ROWS)))


def test_the_batch_that_failed_is_named(run):
    async def fails(batch):
        if 70 in batch["id"]:
            raise ValueError("seventy")
        return batch

    with pytest.raises(ValueError, match="seventy") as e:
        list(run("map_batches", params(fails)))
    assert "input rows 70..71" in "".join(e.value.__notes__)


def test_async_generators_of_batches_hold_one_item_each(run):
    made = {}

    async def items(batch):
        first = int(batch["id"][0])
        for i in range(10):
            made[first] = i + 1
            yield {"id": batch["id"], "i": np.full(len(batch["id"]), i)}

    out = run("map_batches", params(items, max_concurrency=3))
    got = [next(out) for _ in range(10)]
    assert [b["i"][0].as_py() for b in got] == list(range(10))
    assert made == {0: 10, 2: 1, 4: 1}
    rest = list(out)
    assert [b["id"][0].as_py() for b in rest[::10]] == list(range(2, N, 2))


def test_async_operators_in_one_task():
    ds = sd.range(N, override_num_blocks=2).map(passed).map(passed).filter(truth)
    ids = [r["id"] for r in ds.map_batches(passed, batch_size=7).take_all()]
    assert ids == [i for i in range(N) if i % 3]


async def truth(row):
    await asyncio.sleep(0)
    return row["id"] % 3


async def passed(given):
    await asyncio.sleep(0)
    return given


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "2"])
def test_wrong_limits(wrong):
    with pytest.raises(ValueError, match="max_concurrency must be"):
        sd.range(3).map(passed, max_concurrency=wrong)
