"""Stages in the worker: cutting, caps, retries, notes, errors. No engine."""

import pickle
import re
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rounds import examples
from skate.data.expr.evaluation import parse
from skate.data.op import flat_map
from skate.data.values.rebatch import rebatch
from skate.data.values.unify import merge
from skate.data.worker import rows, stage
from skate.data.worker.task import task

UDF = {
    "fn_args": (),
    "fn_kwargs": {},
    "batch_size": None,
    "batch_format": "numpy",
    "zero_copy_batch": True,
}
ROW = {"fn_args": (), "fn_kwargs": {}}


def ids(*cols):
    return pa.RecordBatch.from_pydict({"id": pa.array(list(cols), pa.int64())})


def numbers(n, start=0):
    return pa.RecordBatch.from_arrays([pa.array(np.arange(start, start + n))], names=["id"])


def flat(batches):
    return [v for b in batches for v in b.column(0).to_pylist()]


def nbytes(rb):
    return rb.num_rows * 8


class Out:
    """Replaces _skate.BlockOut; each column has 8 bytes a row."""

    def __init__(self, batch):
        self.batch, self.nbytes = batch, nbytes(batch)

    @classmethod
    def join(cls, parts):
        return cls(merge([p.batch for p in parts]))


def cut(batches, target, cap):
    return [o.batch for o in stage.cut(batches, target, cap, Out)]


@examples(200)
@given(st.lists(st.integers(0, 300), max_size=12), st.integers(8, 2000), st.integers(-1, 500))
def test_cut_keeps_rows_and_order(sizes, target, cap):
    at, batches = 0, []
    for n in sizes:
        batches.append(numbers(n, at))
        at += n
    want = list(range(at)) if cap < 0 else list(range(min(at, cap)))
    out = cut(iter(batches), target, cap)
    assert flat(out) == want
    assert [b.num_rows for b in out] == [b.num_rows for b in cut(iter(batches), target, cap)]
    if want:
        assert all(0 < b.num_rows and (nbytes(b) <= target or b.num_rows == 1) for b in out)
    else:
        assert len(out) == (1 if batches else 0), "one empty batch keeps the schema"


def test_cut_joins_neighbours_and_slices_evenly():
    out = cut(iter([numbers(10)] * 32), 8 * 160, -1)
    # blocks may have a 16th, an eighth, ... of the target, and are three quarters full
    assert [b.num_rows for b in out] == [10, 20, 30, 60, 120, 80]
    out = cut(iter([numbers(100)]), 8 * 30, -1)
    assert [b.num_rows for b in out] == [25, 25, 25, 25]


def test_cut_does_not_join_different_schemas():
    out = cut(iter([numbers(2), pa.RecordBatch.from_pydict({"x": ["a"]})]), 1 << 20, -1)
    assert [b.schema.names for b in out] == [["id"], ["x"]]


def test_cut_stops_the_source_at_the_cap():
    pulled = []

    def source():
        for i in range(100):
            pulled.append(i)
            yield numbers(10, 10 * i)

    assert flat(cut(source(), 1 << 20, 15)) == list(range(15))
    assert len(pulled) == 2


@examples(100)
@given(st.lists(st.integers(0, 30), max_size=10), st.integers(1, 40))
def test_rebatch_is_exact(sizes, size):
    at, batches = 0, []
    for n in sizes:
        batches.append(numbers(n, at))
        at += n
    out = list(rebatch(iter(batches), size))
    assert flat(out) == list(range(at))
    assert all(b.num_rows == size for b in out[:-1]) and (not out or 0 < out[-1].num_rows <= size)


def test_chain_and_notes(worker):
    chain = [
        ("read", "ReadRange", {"format": "range", "shape": None}),
        ("map_batches", "MapBatches(inc)", {**UDF, "fn": lambda b: {"id": b["id"] + 1}}),
        ("filter", "Filter", {"expr": parse("id % 2 == 0")}),
        ("map", "Map(neg)", {**ROW, "fn": lambda r: {"id": -r["id"]}}),
    ]
    out = worker(chain, unit=struct.pack("<qq", 0, 10))
    assert flat(out) == [-2, -4, -6, -8, -10]
    (note,) = worker.notes
    assert [rows for rows, *_ in note] == [10, 10, 5, 5]
    assert (
        all(ns >= 0 and not any(counts) for _, ns, *counts in note)
        and sum(ns for _, ns, *_ in note) > 0
    )


def test_a_retry_yields_the_same_blocks(worker):
    chain = [
        ("read", "r", {"format": "range", "shape": None}),
        ("flat_map", "f", {**ROW, "fn": lambda r: [r] * (r["id"] % 3)}),
    ]
    runs = [
        [
            (b.num_rows, b.column(0).to_pylist()[:1])
            for b in worker(chain, unit=struct.pack("<qq", 0, 20000), target=20000)
        ]
        for _ in range(2)
    ]
    assert runs[0] == runs[1] and len(runs[0]) > 3


def test_ranges_select_rows_of_blocks(worker):
    chain = [("map_batches", "m", {**UDF, "fn": lambda b: b})]
    out = worker(chain, [numbers(10), numbers(10, 10)], ranges=[(8, 2, 0), (0, 3, 0)])
    assert flat(out) == [8, 9, 10, 11, 12]


def test_actor_stage_constructs_once(worker):
    class Model:
        made = 0

        def __init__(self, k, *, add=0):
            Model.made += 1
            self.k, self.add = k, add

        def __call__(self, b):
            return {"id": b["id"] * self.k + self.add}

    chain = [("map_batches", "M", {**UDF, "fn": Model, "ctor": ((3,), {"add": 1})})]
    assert flat(worker(chain, [numbers(3)], actor=True)) == [1, 4, 7]


def test_constructor_errors_are_the_users(worker):
    class Bad:
        def __init__(self):
            raise LookupError("no model")

    with pytest.raises(LookupError, match="no model") as e:
        worker(
            [("map_batches", "M", {**UDF, "fn": Bad, "ctor": ((), {})})], [numbers(1)], actor=True
        )
    assert "constructing Bad" in e.value.__notes__[0]


def test_batch_size_over_borders_and_whole_blocks(worker):
    seen = []
    sizes = {**UDF, "batch_size": 4, "fn": lambda b: (seen.append(len(b["id"])), b)[1]}
    assert flat(
        worker([("map_batches", "m", sizes)], [numbers(3), numbers(3, 3), numbers(3, 6)])
    ) == list(range(9))
    assert seen == [4, 4, 1]
    seen.clear()
    whole = [
        ("map", "r", {**ROW, "fn": lambda r: r}),
        ("map_batches", "m", {**UDF, "fn": lambda b: (seen.append(len(b["id"])), b)[1]}),
    ]
    worker(whole, [numbers(1000), numbers(10)])
    assert seen == [1000, 10], "a row function before it does not change what a whole block is"


def test_row_functions_stop_early(worker):
    calls = []
    out = worker(
        [("map", "m", {**ROW, "fn": lambda r: (calls.append(1), r)[1]})], [numbers(100000)], cap=5
    )
    assert flat(out) == [0, 1, 2, 3, 4] and len(calls) <= rows.PIECE_FIRST


def test_pieces_follow_the_bytes(worker):
    calls = []

    def big(rb):
        calls.append(rb.num_rows)
        return [pa.RecordBatch.from_arrays([pa.array([b"x" * 100_000] * rb.num_rows)], names=["x"])]

    assert (
        sum(b.num_rows for b in rows.pieces(iter([numbers(500)]), task, big, False, False)) == 500
    )
    assert max(calls[1:]) <= 16, "100 KB rows go in pieces of about 1 MiB"


def test_user_errors_keep_their_class_and_say_where(worker):
    class MyError(Exception):
        pass

    def fail(r):
        if r["id"] == 70:
            raise MyError("seventy")
        return r

    with pytest.raises(MyError, match="seventy") as e:
        worker(
            [
                ("read", "r", {"format": "range", "shape": None}),
                ("map", "Map(fail)", {**ROW, "fn": fail}),
            ],
            unit=struct.pack("<qq", 0, 1000),
            seq=7,
        )
    (note,) = e.value.__notes__
    assert (
        "Map(fail)" in note
        and "input row 70" in note
        and "range 0..999" in note
        and "task 7" in note
    )

    def fail_batch(b):
        raise MyError("batch")

    with pytest.raises(MyError) as e:
        worker(
            [
                (
                    "map_batches",
                    "MapBatches(fail_batch)",
                    {
                        **UDF,
                        "batch_size": 10,
                        "fn": lambda b: fail_batch(b) if 20 in b["id"] else b,
                    },
                )
            ],
            [numbers(50)],
        )
    assert "input rows 20..29" in e.value.__notes__[0]
    assert len(pickle.loads(pickle.dumps(ValueError("x"))).args) == 1


def test_row_results_are_checked(worker):
    with pytest.raises(ValueError, match="for row 3 of its batch; return a dict"):
        worker([("map", "m", {**ROW, "fn": lambda r: r if r["id"] < 3 else 5})], [numbers(9)])
    for bad in (None, 5, {"a": 1}, "ab"):
        with pytest.raises(ValueError, match="return a list of dicts"):
            worker([("flat_map", "m", {**ROW, "fn": lambda r, bad=bad: bad})], [numbers(2)])


def test_items_of_generators_are_built_as_they_come():
    made, closed = [], []

    def items(r):
        try:
            for i in range(5000):
                made.append(i)
                yield {"id": 5000 * r["id"] + i}
        finally:
            closed.append(r["id"])

    out = flat_map.operator.run(
        {**ROW, "label": "f", "fn": items}, iter([numbers(9), numbers(60, 9)]), task
    )
    got = []
    for b in out:
        got += b["id"].to_pylist()
        assert len(got) == len(made)  # none waits
        assert b.num_rows <= rows.PIECE_MAX
        if len(got) > 100_000:
            break
    assert got == list(range(len(got))) and b.num_rows == rows.PIECE_MAX
    out.close()
    assert closed == list(range(len(got) // 5000 + 1))


def test_batches_of_items_follow_their_bytes():
    big = np.zeros(rows.PIECE_BYTES // 8, np.int64)  # an item is as large as a batch should be
    fn = lambda r: ({"x": big} for _ in range(30))  # noqa: E731
    out = flat_map.operator.run({**ROW, "label": "f", "fn": fn}, iter([numbers(2)]), task)
    assert [b.num_rows for b in out] == [rows.PIECE_MIN] + [1] * 52


def test_items_of_generators_that_are_wrong_name_their_row(worker):
    def fails(r):
        yield {"id": 1}
        if r["id"] == 37:
            raise ValueError("no")

    with pytest.raises(ValueError, match="^no") as e:
        worker([("flat_map", "f", {**ROW, "fn": fails})], [numbers(30), numbers(30, 30)])
    assert e.value.__notes__[0].startswith("in f: input row 37")

    def wrong(r):
        yield {"id": 1}
        yield 5 if r["id"] == 37 else {"id": 2}

    with pytest.raises(ValueError, match="return a list of dicts") as e:
        worker([("flat_map", "f", {**ROW, "fn": wrong})], [numbers(60)])
    assert re.match(r"in f: input rows \d+\.\.\d+", e.value.__notes__[0])
    first, last = map(int, re.findall(r"\d+", e.value.__notes__[0])[:2])
    assert first <= 37 <= last

    def mixed(r):
        return [r] if r["id"] % 2 else iter(({"id": r["id"]},))

    assert flat(worker([("flat_map", "f", {**ROW, "fn": mixed})], [numbers(9)])) == list(range(9))
    none = {**ROW, "fn": lambda r: ({"id": 1} for _ in ())}
    assert flat(worker([("flat_map", "f", none)], [numbers(9)])) == []


def test_generators_and_every_batch_format(worker):
    def gen(b):
        for i in range(0, len(b["id"]), 2):
            yield {"id": b["id"][i : i + 2]}

    assert flat(worker([("map_batches", "g", {**UDF, "fn": gen})], [numbers(5)])) == list(range(5))
    import pandas as pd

    for fmt, kind in (
        ("numpy", dict),
        ("default", dict),
        ("pandas", pd.DataFrame),
        ("pyarrow", pa.Table),
    ):

        def same(b, kind=kind):
            assert isinstance(b, kind)
            return b

        assert flat(
            worker([("map_batches", "f", {**UDF, "batch_format": fmt, "fn": same})], [numbers(5)])
        ) == list(range(5))


def test_zero_copy_false_gives_writable_arrays(worker):
    def plus(b):
        b["id"] += 1
        return b

    with pytest.raises(ValueError, match="read-only"):
        worker([("map_batches", "m", {**UDF, "fn": plus})], [numbers(3)])
    assert flat(
        worker([("map_batches", "m", {**UDF, "zero_copy_batch": False, "fn": plus})], [numbers(3)])
    ) == [1, 2, 3]


def test_one_empty_batch_keeps_the_schema(worker):
    out = worker([("filter", "f", {"expr": parse("id > 100")})], [numbers(5)])
    assert [b.num_rows for b in out] == [0] and out[0].schema.names == ["id"]


def test_chains_are_decoded_once():
    import cloudpickle

    data = [("map_batches", "m", cloudpickle.dumps({**UDF, "fn": lambda b: b}), b"")]
    assert stage._chain([tuple(x) for x in data]) is stage._chain(data)
