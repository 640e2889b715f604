"""An engine written in Python (examples/pool_engine.py) gives the same results as the local engine,
for Datasets and tasks."""

import os
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import skate

EXAMPLES = os.path.join(os.path.dirname(__file__), "..", "..", "..", "examples")


@pytest.fixture(scope="module", params=["local", "pool_engine:Pool"])
def engine(request):
    sys.path.insert(0, os.path.abspath(EXAMPLES))
    skate.shutdown()
    skate.init(num_cpus=2, num_gpus=0, object_store_memory=128 << 20, _engine=request.param)
    yield request.param
    skate.shutdown()
    sys.path.remove(os.path.abspath(EXAMPLES))


def double(batch):
    return {"id": batch["id"], "twice": batch["id"] * 2}


def odd(row):
    return row["id"] % 2 == 1


def rows_of(ds):
    return [row for row in ds.iter_rows()]


FILES = 3


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for i in range(FILES):
        pq.write_table(
            pa.table(
                {
                    "id": np.arange(i * 1000, i * 1000 + 1000),
                    "text": [f"row {k}" for k in range(1000)],
                }
            ),
            folder / f"{i}.parquet",
        )
    return str(folder)


def pipelines(files):
    data = skate.data
    numbers = data.range(5000, override_num_blocks=6)
    return {
        "range": numbers,
        "map_batches": numbers.map_batches(double, batch_size=512),
        "a stage behind a stage": numbers.map_batches(double).map_batches(
            double, num_cpus=0.5, batch_size=100
        ),
        "filter": numbers.filter(odd),
        "limit": numbers.map_batches(double).limit(1234),
        "union": numbers.limit(10).union(data.range(20, override_num_blocks=2)),
        "zip": numbers.zip(data.range(5000, override_num_blocks=4).map_batches(double)),
        "files": data.read_parquet(files)
        .filter(odd)
        .map_batches(lambda b: {"id": b["id"], "text": b["text"]}),
        "flat_map": data.range(100).flat_map(lambda row: [row] * (row["id"] % 3)),
        "large blocks": data.range(400_000, override_num_blocks=2).map_batches(
            double, batch_size=None
        ),
        "empty": numbers.filter(lambda row: False),
    }


NAMES = [
    "range",
    "map_batches",
    "a stage behind a stage",
    "filter",
    "limit",
    "union",
    "zip",
    "files",
    "flat_map",
    "large blocks",
    "empty",
]


def expected(files, name):
    ids = np.arange(5000)
    rows = {
        "range": lambda: [{"id": int(i)} for i in ids],
        "map_batches": lambda: [{"id": int(i), "twice": int(2 * i)} for i in ids],
        "a stage behind a stage": lambda: [{"id": int(i), "twice": int(2 * i)} for i in ids],
        "filter": lambda: [{"id": int(i)} for i in ids if i % 2],
        "limit": lambda: [{"id": int(i), "twice": int(2 * i)} for i in ids[:1234]],
        "union": lambda: [{"id": i} for i in range(10)] + [{"id": i} for i in range(20)],
        "zip": lambda: [{"id": int(i), "id_1": int(i), "twice": int(2 * i)} for i in ids],
        "files": lambda: [
            {"id": int(i), "text": f"row {i % 1000}"} for i in range(FILES * 1000) if i % 2
        ],
        "flat_map": lambda: [{"id": i} for i in range(100) for _ in range(i % 3)],
        "large blocks": lambda: [{"id": i, "twice": 2 * i} for i in range(400_000)],
        "empty": lambda: [],
    }
    return rows[name]()


@pytest.mark.parametrize("name", NAMES)
def test_rows_and_their_order(engine, files, name):
    assert rows_of(pipelines(files)[name]) == expected(files, name)


def test_aggregates_and_counts(engine):
    ds = skate.data.range(10_000, override_num_blocks=7).map_batches(double)
    assert ds.count() == 10_000
    assert ds.sum("twice") == 10_000 * 9_999
    assert (ds.min("id"), ds.max("id"), ds.mean("twice")) == (0, 9_999, 9_999.0)
    assert ds.take(3) == [{"id": 0, "twice": 0}, {"id": 1, "twice": 2}, {"id": 2, "twice": 4}]


class Pairs(skate.data.ExchangeStrategy):
    def came(self, shuffle, pack):
        if (group := shuffle.hold()).n == 2:
            shuffle.merge(group)


def test_a_strategy_of_an_exchange_in_python(engine):
    ds = skate.data.range(5000, override_num_blocks=9)
    mine = ds.random_shuffle(seed=5, strategy=Pairs()).materialize()
    assert mine.take_all() == ds.random_shuffle(seed=5, strategy="simple").take_all()
    assert [o["exchange"]["merge"] for o in mine.stats_dict()["ops"] if "exchange" in o] == [2]


def test_batches_of_one_size(engine):
    ds = skate.data.range(2500, override_num_blocks=3).map_batches(double)
    got = [b["twice"] for b in ds.iter_batches(batch_size=400)]
    assert [len(b) for b in got] == [400] * 6 + [100]
    np.testing.assert_array_equal(np.concatenate(got), np.arange(2500) * 2)


def test_the_numbers_of_a_run(engine):
    ds = skate.data.range(3000, override_num_blocks=3).map_batches(double).filter(odd)
    assert ds.count() == 1500
    done = ds.filter(odd).materialize()
    assert done.count() == 1500
    text = done.stats()
    assert "Filter" in text and "1,500" in text or "1500" in text, text


def test_what_a_function_raises(engine):
    def fails(batch):
        raise ZeroDivisionError("of the user")

    with pytest.raises(ZeroDivisionError, match="of the user"):
        skate.data.range(100).map_batches(fails).materialize()


def test_a_large_capture(engine):
    table = np.arange(200_000)
    ds = skate.data.range(1000, override_num_blocks=4).map_batches(
        lambda b: {"x": table[b["id"]] + 1}
    )
    assert ds.sum("x") == 500_500


def test_a_run_that_is_quiet_is_looked_at(engine):
    from skate.data.run import stall

    assert skate.data.range(10).count() == 10
    assert stall.sample().begins or engine == "local"  # the local engine's workers can be inspected
    assert "CPU" in skate.cluster_resources() and "CPU" in skate.available_resources()


def test_an_early_end_gives_everything_back(engine):
    for n in (0, 1, 3):
        it = iter(
            skate.data.range(5000, override_num_blocks=10)
            .map_batches(double)
            .iter_batches(batch_size=100)
        )
        for _ in range(n):
            next(it)
        del it
    assert skate.data.range(10).count() == 10


# ---- tasks and values


@skate.remote
def add(a, b):
    return a + b


@skate.remote(num_returns=2)
def parts(x):
    return x[:2], x[2:]


@skate.remote
def bad():
    raise KeyError("no such")


def test_tasks_and_values(engine):
    assert skate.get(add.remote(1, 2)) == 3
    assert skate.get(add.remote(add.remote(1, 2), add.remote(skate.put(10), 20))) == 33
    a, b = parts.remote([1, 2, 3])
    assert skate.get([a, b]) == [[1, 2], [3]]
    big = np.arange(100_000)
    total = skate.get(add.remote(skate.put(big), big))
    np.testing.assert_array_equal(total, big * 2)
    ready, rest = skate.wait([add.remote(1, 1), add.remote(2, 2)], num_returns=2, timeout=60)
    assert len(ready) == 2 and not rest
    with pytest.raises(KeyError, match="no such"):
        skate.get(bad.remote())
    with pytest.raises(KeyError, match="no such"):
        skate.get(add.remote(bad.remote(), 1))


@skate.remote(max_retries=1)
def dies(path):
    with open(path, "a") as f:
        f.write("x")
    if os.path.getsize(path) == 1:
        os._exit(1)
    return "second attempt"


@skate.remote(max_retries=0)
def dies_for_good():
    os._exit(1)


def test_the_death_of_a_worker(engine, tmp_path):
    assert skate.get(dies.remote(str(tmp_path / "f"))) == "second attempt"
    with pytest.raises(skate.exceptions.WorkerCrashedError):
        skate.get(dies_for_good.remote())
    assert skate.get(add.remote(1, 2)) == 3


def test_what_it_does_not_have(engine):
    if engine == "local":
        pytest.skip("it has these")
    with pytest.raises(skate.exceptions.TaskUnschedulableError, match="CPU"):
        skate.get(add.options(num_cpus=64).remote(1, 2))

    @skate.remote
    class Actor:
        def f(self):
            return 1

    with pytest.raises(NotImplementedError, match="no actors"):
        skate.get(Actor.remote().f.remote())
    with pytest.raises(NotImplementedError, match="no max_calls"):
        skate.get(skate.remote(max_calls=1)(lambda: os.getpid()).remote())
    with pytest.raises(NotImplementedError, match="no max_calls"):
        skate.data.range(2).map(lambda row: row, max_calls=1).take_all()
    with pytest.raises(NotImplementedError, match="cannot use skate itself"):
        skate.get(skate.remote(lambda: skate.put(1)).remote())
    with pytest.raises(NotImplementedError):
        skate.get(skate.remote(lambda ds: ds.take_all()).remote(skate.data.range(3)))


def test_generators_of_the_user(engine):
    @skate.remote(num_returns="streaming")
    def upto(n, fails=False):
        for i in range(n):
            yield bytes([i]) * (i * 10_000)
        if fails:
            raise ValueError("at the end")

    assert [len(skate.get(r)) for r in upto.remote(4)] == [0, 10_000, 20_000, 30_000]
    g = upto.remote(2)
    assert skate.get(g.completed()) is None and len(list(g)) == 2 and g.is_finished()
    *good, bad = upto.remote(2, fails=True)
    assert len(good) in (0, 2)  # an engine may give the values of a task all at once, at its end
    with pytest.raises(ValueError, match="at the end"):
        skate.get(bad)
    g = upto.remote(3, fails=True)
    next(g)
    end = g.completed()
    g.close()  # the rest is dropped, and the end is known all the same
    with pytest.raises(ValueError, match="at the end"):
        skate.get(end)


def test_an_engine_that_is_not_there():
    skate.shutdown()
    with pytest.raises(ValueError, match="no_such_module"):
        skate.init(_engine="no_such_module:X")
    assert not skate.is_initialized()


def test_concurrency_within_an_actor_is_refused(engine):
    """It is not ignored, because calls that should run concurrently would wait for each other."""

    @skate.remote
    class Waits:
        def f(self):
            return 1

    if engine == "local":
        assert skate.get(Waits.options(max_concurrency=1).remote().f.remote()) == 1
        assert skate.get(Waits.options(max_concurrency=4).remote().f.remote()) == 1
    else:
        with pytest.raises(
            NotImplementedError, match="Waits: this engine has no concurrency within an actor"
        ):
            Waits.options(max_concurrency=4).remote()


def test_nodes_are_those_of_the_engine(engine):
    rows, sums = skate.nodes(), skate.cluster_resources()
    assert [n["Alive"] for n in rows] == [True] and sums["CPU"] == 2.0
    for key in ("CPU", "memory", "object_store_memory"):
        assert rows[0]["Resources"].get(key) == sums.get(key)
    assert rows[0]["NodeManagerAddress"] == ("127.0.0.1" if engine == "local" else "the pool")
