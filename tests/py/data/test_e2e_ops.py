"""Pipelines on the engine compared with plain Python: the same rows in the same order."""

import os
import time

import numpy as np
import pyarrow as pa
import pytest
import skate
import skate.data as sd
from hypothesis import given
from hypothesis import strategies as st
from rounds import examples
from skate.data import ActorPoolStrategy
from skate.data.aggregate import Unique


def ids(ds):
    return [r["id"] for r in ds.take_all()]


def plus_one(b):
    return {"id": b["id"] + 1}


def test_sources():
    assert ids(sd.range(10)) == list(range(10))
    assert sd.range(0).take_all() == [] and sd.range(0).count() == 0
    assert ids(sd.range(10, override_num_blocks=3)) == list(range(10))
    assert sd.from_items([1, "a"][:1] * 3).take_all() == [{"item": 1}] * 3
    assert sd.from_items([]).take_all() == []
    assert sd.from_arrow(pa.table({"a": [1, 2]})).take_all() == [{"a": 1}, {"a": 2}]
    assert sd.from_numpy([np.zeros(2), np.ones(1)]).sum("data") == 1.0
    assert sd.range_tensor(3, shape=(2,)).take_batch()["data"].tolist() == [[0, 0], [1, 1], [2, 2]]


def test_data_of_this_process_goes_through_tasks():
    import pandas as pd

    assert sd.from_items(list(range(100))).map(lambda r: {"x": r["item"] * 2}).sum("x") == 9900
    assert sd.from_pandas(pd.DataFrame({"id": [3, 4]})).map_batches(plus_one).take_all() == [
        {"id": 4},
        {"id": 5},
    ]


def test_map_batches_map_filter_flat_map():
    n = 50_000
    assert sd.range(n).map_batches(plus_one).sum("id") == n * (n + 1) // 2
    assert ids(sd.range(5000).map(lambda r: {"id": r["id"] * 2})) == [2 * i for i in range(5000)]
    assert ids(sd.range(5000).filter(lambda r: r["id"] % 7 == 0)) == list(range(0, 5000, 7))
    assert ids(sd.range(5000).filter(expr="id % 7 == 0 and id > 70")) == list(range(77, 5000, 7))
    assert ids(sd.range(1000).flat_map(lambda r: [r] * (r["id"] % 3))) == [
        i for i in range(1000) for _ in range(i % 3)
    ]


def test_columns():
    ds = (
        sd.range(3)
        .add_column("y", lambda df: df["id"] * 2)
        .add_column("z", lambda b: b["id"] - 1, batch_format="numpy")
    )
    assert ds.take_all() == [{"id": i, "y": 2 * i, "z": i - 1} for i in range(3)]
    assert ds.select_columns(["z", "id"]).columns() == ["z", "id"]
    assert ds.drop_columns("y").rename_columns({"z": "q"}).take(1) == [{"id": 0, "q": -1}]


class Times:
    def __init__(self, k, add=0):
        self.k, self.add, self.pid = k, add, os.getpid()

    def __call__(self, b):
        return {"id": b["id"] * self.k + self.add, "pid": np.full(len(b["id"]), self.pid)}


@pytest.mark.parametrize(
    "how",
    [
        {"concurrency": 1},
        {"concurrency": 2},
        {"concurrency": (1, 2)},
        {"compute": ActorPoolStrategy(size=2, max_tasks_in_flight_per_actor=3)},
        {},
    ],
)
def test_class_functions(how):
    ds = sd.range(2000, override_num_blocks=20).map_batches(
        Times,
        fn_constructor_args=(3,),
        fn_constructor_kwargs={"add": 1},
        batch_size=10,
        num_cpus=0.5,
        **how,
    )
    rows = ds.take_all()
    assert [r["id"] for r in rows] == [3 * i + 1 for i in range(2000)]
    assert 1 <= len({r["pid"] for r in rows}) <= 2 and os.getpid() not in {r["pid"] for r in rows}


def test_class_functions_of_rows():
    class Plus:
        def __call__(self, r):
            return {"id": r["id"] + 1}

    class Even:
        def __call__(self, r):
            return r["id"] % 2 == 0

    assert ids(
        sd.range(100)
        .map(Plus, concurrency=1, num_cpus=0.5)
        .filter(Even, concurrency=1, num_cpus=0.5)
    ) == list(range(2, 101, 2))


def test_actors_on_all_cpus_finish_or_fail_at_once():
    """ray#44687: a pool that takes every CPU leaves none for the tasks that feed it. The pipeline
    must not hang: it finishes, or fails with the arithmetic before it starts."""
    try:
        assert (
            sd.range(100, override_num_blocks=10)
            .map_batches(Times, fn_constructor_args=(1,), concurrency=2)
            .count()
            == 100
        )
    except skate.exceptions.TaskUnschedulableError as e:
        assert "2 actors x 1 CPU" in str(e) and "the machine has 2" in str(e)


def test_limit_take_show(capsys):
    ds = sd.range(100_000, override_num_blocks=100)
    assert ids(ds.limit(7)) == list(range(7)) and ds.limit(7).count() == 7
    assert ids(ds.map_batches(plus_one).limit(1500)) == list(range(1, 1501))
    assert ids(ds.filter(expr="id % 1000 == 5").limit(3)) == [5, 1005, 2005]
    assert ds.limit(5).limit(3).count() == 3 and ids(ds.limit(0)) == []
    # no rows, but the columns, as SELECT ... LIMIT 0 gives them
    none = ds.map_batches(plus_one).limit(0)
    assert (
        none.count() == 0
        and none.schema().names == ["id"]
        and list(none.to_pandas().columns) == ["id"]
        and list(none.iter_batches()) == []
    )
    assert ds.take(2) == [{"id": 0}, {"id": 1}] and ds.take(0) == []
    assert ds.take_batch(3)["id"].tolist() == [0, 1, 2]
    sd.range(2).show()
    assert capsys.readouterr().out == "{'id': 0}\n{'id': 1}\n"
    with pytest.raises(ValueError, match="more than the limit of 5"):
        sd.range(10).take_all(limit=5)
    with pytest.raises(ValueError, match="empty"):
        sd.range(0).take_batch()


def test_limit_runs_only_what_it_needs(tmp_path):
    def touch(b):
        time.sleep(0.05)  # work that takes time, so that tasks beyond the limit would be launched
        (tmp_path / str(b["id"][0])).touch()
        return b

    assert sd.range(1_000_000, override_num_blocks=500).map_batches(touch).take(1) == [{"id": 0}]
    assert len(list(tmp_path.iterdir())) < 100


def test_union():
    a, b = sd.range(3), sd.range(2).map(lambda r: {"id": r["id"] + 10})
    assert ids(a.union(b, a)) == [0, 1, 2, 10, 11, 0, 1, 2]
    assert ids(a.union(sd.from_items([{"id": 7}])).map_batches(plus_one)) == [1, 2, 3, 8]


def test_count_schema_columns():
    ds = sd.range(1000).map_batches(
        lambda b: {"x": b["id"].astype(np.float32), "s": [str(i) for i in b["id"]]}
    )
    assert ds.count() == 1000
    assert ds.schema().names == ["x", "s"] and ds.schema().types == [pa.float32(), pa.string()]
    assert sd.range(5).filter(expr="id > 100").map_batches(plus_one).schema() is None
    assert sd.range(5).map(lambda r: r).filter(expr="id > 100").schema().names == ["id"]
    assert sd.range(5).filter(expr="id > 100").to_pandas().columns.tolist() == ["id"]


def test_aggregates():
    ds = sd.range(1000, override_num_blocks=7).map_batches(
        lambda b: {"a": b["id"], "b": b["id"] * 0.5}
    )
    assert (ds.sum("a"), ds.min("a"), ds.max("a"), ds.mean("a")) == (499500, 0, 999, 499.5)
    assert ds.sum(["a", "b"]) == {"sum(a)": 499500, "sum(b)": 249750.0}
    assert ds.std("b") == pytest.approx(np.std(np.arange(1000) * 0.5, ddof=1))
    assert ds.map(lambda r: {"k": r["a"] % 3}).unique("k") == [0, 1, 2]
    lists = sd.from_items([{"k": ["a", "b"]}, {"k": ["c"]}, {"k": ["a", "b"]}])
    assert lists.unique("k") == [["a", "b"], ["c"]] == lists.aggregate(Unique("k"))["unique(k)"]
    assert (
        sd.range(10).map_batches(lambda b: {"x": np.full(len(b["id"]), 2**62)}).sum("x")
        == 10 * 2**62
    )
    assert sd.range(0).sum("id") is None


def test_materialize_and_again():
    calls = sd.range(10_000, override_num_blocks=10).map_batches(plus_one).materialize()
    assert calls.num_blocks() == 10 and calls.count() == 10_000 and calls.size_bytes() >= 80_000
    for _ in range(2):
        assert (
            sum(int(b["id"].sum()) for b in calls.iter_batches(batch_size=333))
            == 10_000 * 10_001 // 2
        )
    assert calls.map_batches(plus_one).sum("id") == 10_000 * 10_001 // 2 + 10_000
    assert calls.limit(15).count() == 15 and ids(calls.limit(2)) == [1, 2]


def test_hand_over():
    ds = sd.range(100, override_num_blocks=4).map_batches(
        lambda b: {"id": b["id"], "s": [str(i) for i in b["id"]]}
    )
    assert pa.table(ds).to_pylist() == [{"id": i, "s": str(i)} for i in range(100)]
    assert ds.to_pandas()["s"].tolist() == [str(i) for i in range(100)]
    assert ds.to_arrow().num_rows == 100
    assert sum(t.num_rows for t in skate.get(ds.to_arrow_refs())) == 100
    with pytest.raises(ValueError, match="more than the limit"):
        ds.to_pandas(limit=5)


@examples(25)
@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=8),
    st.integers(1, 30),
    st.booleans(),
    st.sampled_from(["numpy", "pandas", "pyarrow"]),
)
def test_batch_size_means_batch_size(sizes, size, drop_last, fmt):
    at, blocks = 0, []
    for n in sizes:
        blocks.append(pa.table({"id": pa.array(range(at, at + n), pa.int64())}))
        at += n
    got = [
        np.asarray(b["id"]).tolist()
        for b in sd.from_blocks(blocks).iter_batches(
            batch_size=size, drop_last=drop_last, batch_format=fmt
        )
    ]
    want = [list(range(i, min(at, i + size))) for i in range(0, at, size)]
    assert got == [w for w in want if len(w) == size or not drop_last]


def test_local_shuffle_is_a_permutation_and_repeats():
    ds = sd.range(1000, override_num_blocks=10)
    a, b = (
        [
            v
            for x in ds.iter_batches(
                batch_size=64, local_shuffle_buffer_size=200, local_shuffle_seed=3
            )
            for v in x["id"].tolist()
        ]
        for _ in range(2)
    )
    assert a == b and sorted(a) == list(range(1000)) and a != list(range(1000))


def test_same_rows_whatever_the_workers():
    def work(b):
        return {"id": b["id"][b["id"] % 3 > 0], "pid": np.full(int((b["id"] % 3 > 0).sum()), 1)}

    runs = [
        ids(
            sd.range(30_000, override_num_blocks=30)
            .map_batches(work)
            .map(lambda r: {"id": r["id"]})
        )
        for _ in range(3)
    ]
    assert runs[0] == runs[1] == runs[2] == [i for i in range(30_000) if i % 3]


@pytest.mark.parametrize("fmt", ["numpy", "pandas", "pyarrow"])
def test_types_go_through_an_identity(fmt):
    table = pa.table(
        {
            "i": pa.array([2**53 + 1, None, 3], pa.int64()),
            "u8": pa.array([1, 2, 3], pa.uint8()),
            "f": pa.array([float("nan"), None, 1.5], pa.float32()),
            "s": pa.array(["a", None, "é"], pa.large_string()),
            "b": pa.array([b"\0", None, b""]),
            "t": pa.array([1, None, 3], pa.timestamp("ns", "Europe/Berlin")),
            "d": pa.array(["x", None, "x"]).dictionary_encode(),
            "l": pa.array([[1, None], None, []], pa.list_(pa.int16())),
            "n": pa.nulls(3),
            "st": pa.array([{"a": 1}, None, {"a": None}], pa.struct([("a", pa.int8())])),
            "bool": pa.array([True, None, False]),
        }
    )
    out = (
        sd.from_arrow(table)
        .map_batches(lambda b: b, batch_format=fmt)
        .map_batches(lambda b: b, batch_format=fmt, num_cpus=0.5)
        .to_arrow()
    )
    assert out.schema.equals(table.schema)
    assert repr(out.to_pylist()) == repr(table.to_pylist())


def test_iterator_object():
    it = sd.range(10).iterator()
    assert [r["id"] for r in it.iter_rows()] == list(range(10)) == [r["id"] for r in it]
    assert it.schema().names == ["id"] and it.materialize().count() == 10


def test_leaving_an_iterator_early_ends_the_run():
    for _ in range(20):
        for b in (
            sd.range(1_000_000, override_num_blocks=200)
            .map_batches(plus_one)
            .iter_batches(batch_size=10)
        ):
            assert b["id"][0] == 1
            break
    assert sd.range(10).count() == 10 and sd.range(10).map_batches(plus_one).sum("id") == 55


def test_blocks_stay_as_they_were_cut():
    """Each small block that exists already becomes its own task: the user may have divided a list
    of addresses into ten blocks for ten concurrent downloads."""
    m = sd.from_items(list(range(100)), override_num_blocks=10).map(lambda r: r).materialize()
    assert m.num_blocks() == 10 and m.take_all() == [{"item": i} for i in range(100)]
    parts = [pa.table({"a": [i] * (i + 1)}) for i in range(5)]
    batches = list(
        sd.from_blocks(parts)
        .map_batches(lambda b: b, batch_size=None)
        .iter_batches(batch_size=None)
    )
    assert [len(b["a"]) for b in batches] == [1, 2, 3, 4, 5]


def test_warns_of_fewer_parts_than_asked_for():
    with pytest.warns(UserWarning, match="can launch at most 1 task"):
        sd.range(2, override_num_blocks=1).map(lambda r: r, concurrency=2).materialize()


def test_added_columns_are_of_the_kind_of_the_batch():
    ds = sd.range(4, override_num_blocks=1)
    assert [r["c"] for r in ds.add_column("c", lambda b: 3).take_all()] == [3] * 4
    for fmt in ("numpy", "pyarrow"):
        with pytest.raises(TypeError, match=f"For {fmt} batch format"):
            ds.add_column("c", lambda b: [1] * 4, batch_format=fmt).materialize()
    with pytest.raises(ValueError):
        ds.add_column("c", lambda b: range(7)).materialize()


# ---- values that functions capture


def base_of(a):
    while isinstance(a, (np.ndarray, memoryview)):
        a = a.base if isinstance(a, np.ndarray) else a.obj
    return type(a).__name__


class Loads:
    """A large object that counts how often it is unpickled, in all workers."""

    def __init__(self, log):
        self.log, self.data = log, b"x" * (1 << 20)

    def __setstate__(self, state):
        self.__dict__.update(state)
        with open(self.log, "a") as f:
            f.write(f"{os.getpid()}\n")


def test_what_a_function_captures_is_loaded_once_a_worker_and_shared(tmp_path):
    table, loads = np.arange(1 << 18), Loads(str(tmp_path / "log"))

    def f(b):
        table[0] += 1  # changes this worker's copy only
        return {
            "base": [base_of(table)],
            "first": [table[0]],
            "last": [table[-1]],
            "n": [len(loads.data)],
        }

    rows = sd.range(12, override_num_blocks=12).map_batches(f).take_all()
    assert {(r["base"], r["last"], r["n"]) for r in rows} == {("_CowPages", (1 << 18) - 1, 1 << 20)}
    assert table[0] == 0 and sum(r["first"] == 1 for r in rows) == len(
        {*(tmp_path / "log").read_text().split()}
    )
    lines = (tmp_path / "log").read_text().split()
    assert len(lines) == len(set(lines)) <= 2


class Add:
    def __init__(self, table, *, more):
        self.table, self.more = table, more

    def __call__(self, b):
        return {
            "base": [base_of(self.table), base_of(self.more)],
            "sum": [self.table[-1] + self.more[-1]] * 2,
        }


def test_arguments_of_functions_and_classes_are_shared_too():
    table = np.arange(1 << 18)

    def f(b, t, u):
        return {"base": [base_of(t), base_of(u)], "sum": [t[-1] + u[-1]] * 2}

    for ds in (
        sd.range(2).map_batches(f, fn_args=(table,), fn_kwargs={"u": table}),
        sd.range(2).map_batches(
            Add, fn_constructor_args=(table,), fn_constructor_kwargs={"more": table}, concurrency=1
        ),
    ):
        assert {(r["base"], r["sum"]) for r in ds.take_all()} == {("_CowPages", 2 * (1 << 18) - 2)}


def test_a_description_stays_small_and_what_is_carried_goes_with_the_run():
    from skate import _skate
    from skate.data.plan.lower import dumped, lower

    table = np.zeros(3 << 18)
    ds = sd.range(2).map_batches(lambda b: {"n": [len(table)]})
    held = []
    assert len(dumped(ds._node, ds.context, held)) < 500 and len(held) == 1
    lower(ds._node, ds.context, held)
    held.clear()
    assert ds.take_all()[0]["n"] == 3 << 18

    def gone():
        # the workers check for unused objects when they load another stage
        sd.range(4, override_num_blocks=4).map(lambda r: r).materialize()
        return int(_skate.status()["store_sealed_bytes"]) < table.nbytes

    end = time.monotonic() + 60
    while not gone():
        assert time.monotonic() < end


def test_a_large_function_is_told_of_once_by_name(caplog):
    big = np.zeros(2_000_000)
    small = np.zeros(10)

    def f(b):
        return {"n": [len(big) + len(small)]}

    ds = sd.range(1).map_batches(f)
    for _ in range(2):
        ds.take_all()
    (r,) = [r.getMessage() for r in caplog.records if "takes" in r.getMessage()]
    assert r.startswith("MapBatches(f) takes 16 MB along to the workers, in each run: ")
    assert "f -> closure variable big (numpy.ndarray, 16 MB)" in r
    caplog.clear()
    sd.range(1).map_batches(lambda b, t: {"n": [len(t)]}, fn_args=(big,)).take_all()
    assert "fn_args[0] (numpy.ndarray, 16 MB)" in caplog.text
    caplog.clear()
    assert skate.get(skate.remote(lambda: len(big)).remote()) == 2_000_000
    assert (
        "<lambda> is 16 MB when it is sent to the workers: <lambda> -> closure variable big (numpy.ndarray, 16 MB)"
        in caplog.text
    )


def test_a_cancel_does_not_interrupt_what_closes_a_reader(tmp_path):
    """A run that has enough rows cancels its tasks, one of which may be closing its generators:
    there Python could only print an exception that a signal raises."""
    log = tmp_path / "log"

    def rows_until_closed(batch):
        import os
        import select
        import signal
        import sys

        (came, tell), handler = os.pipe(), signal.getsignal(signal.SIGINT)
        # A cancel that arrives before the reader closes is held until then. The test uses a pipe,
        # because a threading.Event has a lock that the interrupted thread may hold.
        signal.signal(signal.SIGINT, lambda number, frame: os.write(tell, b"!"))
        try:
            for i in range(len(batch["id"])):
                yield {"id": batch["id"][i : i + 1]}
        finally:

            def ignored(what):
                with log.open("a") as f:
                    f.write(f"ignored: {what.exc_value!r}\n")

            sys.unraisablehook = ignored
            try:
                cancelled = bool(select.select([came], [], [], 20)[0])
                handler(signal.SIGINT, sys._getframe())
            finally:
                signal.signal(signal.SIGINT, handler)
                os.close(came)
                os.close(tell)
                with log.open("a") as f:
                    f.write(f"closing, cancelled: {cancelled}\n")

    assert sd.range(1000, override_num_blocks=1).map_batches(rows_until_closed, num_cpus=2).take(
        1
    ) == [{"id": 0}]
    deadline = time.monotonic() + 30
    while not log.exists() and time.monotonic() < deadline:
        # the first task has all CPUs
        assert sd.range(10).map_batches(lambda b: b, num_cpus=2).count() == 10
    # by now the first task has ended
    assert sd.range(10).map_batches(lambda b: b, num_cpus=2).count() == 10
    assert log.read_text() == "closing, cancelled: True\n"
