"""Dataset.mix: rows in turns by weights, compared with a loop; it stops, resumes and splits exactly."""

import itertools
import json
import threading
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
import skate.data as sd
from hypothesis import given
from hypothesis import strategies as st
from rounds import examples
from skate.data.methods.mixing import rows_of, shares
from skate.data.op.mix import places, turns


def naive(parts, rows, shortest):
    """[(input, number of the row)] of the mix: in each round the rows of an input stand where
    (j + 1/2) / parts[k] of it are over."""
    order = sorted((Fraction(2 * j + 1, 2 * p), k) for k, p in enumerate(parts) for j in range(p))
    out, taken = [], [0] * len(parts)
    while any(taken[k] < rows[k] for k in range(len(parts))):
        for _, k in order:
            if taken[k] < rows[k]:
                out.append((k, taken[k]))
                taken[k] += 1
            elif shortest:
                return out
    return out


@examples(200)
@given(
    st.lists(st.tuples(st.integers(1, 7), st.integers(0, 40)), min_size=2, max_size=4),
    st.booleans(),
)
def test_places_are_those_of_a_loop(inputs, shortest):
    parts, rows = [p for p, _ in inputs], [n for _, n in inputs]
    want = naive(parts, rows, shortest)
    assert rows_of(parts, rows, shortest) == len(want)
    if shortest:  # what a task gets: whole rounds, and one that lacks rows
        rounds = min(n // p for n, p in zip(rows, parts)) + 1
        rows = [min(n, rounds * p) for n, p in zip(rows, parts)]
    first = np.concatenate([[0], np.cumsum(rows)])
    got = places(parts, rows, shortest)
    assert got.tolist() == [int(first[k]) + j for k, j in want]


def test_turns_are_spread():
    assert turns([3, 1]).tolist() == [0, 0, 1, 0]
    assert turns([2, 2]).tolist() == [0, 1, 0, 1]
    assert turns([1, 1, 4]).tolist() == [2, 2, 0, 1, 2, 2]


def test_weights():
    two = [None, None]
    assert shares(two, None) == [1, 1]
    assert shares(two, [0.7, 0.3]) == [7, 3]
    assert shares(two, [1 / 3, 2 / 3]) == [1, 2]
    assert shares(two, [12, 4]) == [3, 1]
    assert shares([None] * 3, [0.623, 0.291, 0.086]) == [623, 291, 86]
    assert shares(two, [1, 10**6]) == [1, 999]
    assert shares(two, [np.pi, 1.0]) == [759, 241]
    for wrong, text in [
        ([1], "1 weights for 2"),
        ([1, 0], "above 0, not 0"),
        ([1, float("nan")], "not nan"),
        ([True, 1], "not True"),
    ]:
        with pytest.raises(ValueError, match=text):
            shares(two, wrong)
    with pytest.raises(ValueError, match="2 to 64 Datasets, not 1"):
        sd.Dataset.mix([sd.range(3)])
    with pytest.raises(ValueError, match="stopping_condition"):
        sd.Dataset.mix([sd.range(3)] * 2, stopping_condition="never")  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="mix: .*'id'"):
        sd.Dataset.mix([sd.range(3), sd.from_items([{"id": "x"}])])


def inputs(rows, blocks=(3, 5, 2)):
    return [
        sd.range(n, override_num_blocks=min(blocks[k], max(n, 1))).map_batches(
            lambda b, k=k: {"k": np.full(len(b["id"]), k), "i": b["id"]}, batch_size=None
        )
        for k, n in enumerate(rows)
    ]


def rows_out(ds):
    return [(r["k"], r["i"]) for r in ds.take_all()]


@pytest.mark.parametrize("shortest", [True, False])
@pytest.mark.parametrize(
    "rows,weights",
    [((100, 100, 100), [2, 1, 1]), ((7, 900, 40), [0.5, 0.25, 0.25]), ((0, 20, 20), None)],
)
def test_a_run_gives_the_rows_of_a_loop(rows, weights, shortest):
    ds = sd.Dataset.mix(
        inputs(rows),
        weights=weights,
        stopping_condition="first_exhausted" if shortest else "all_exhausted",
    )
    want = naive(shares(rows, weights), rows, shortest)
    assert rows_out(ds) == want
    assert ds.count() == len(want)
    assert rows_out(ds.limit(5)) == want[:5]


def test_what_is_left_is_not_computed():
    """The second input would fail far behind the rows that the mix needs."""

    def fails(batch):
        if batch["id"][0] >= 50_000_000:
            raise ValueError("too far")
        return batch

    long = sd.range(100_000_000, override_num_blocks=10_000).map_batches(fails, batch_size=None)
    ds = sd.Dataset.mix([sd.range(40), long], weights=[1, 3])
    got = [r["id"] for r in ds.take_all()]
    assert got == [j for _, j in naive([1, 3], [40, 10_000], True)]


def test_columns_become_one_schema():
    a = sd.from_items([{"x": 1}, {"x": 2}])
    b = sd.from_items([{"x": 0.5, "y": "t"}, {"x": 1.5, "y": "u"}])
    want = [
        {"x": 1.0, "y": None},
        {"x": 0.5, "y": "t"},
        {"x": 2.0, "y": None},
        {"x": 1.5, "y": "u"},
    ]
    assert sd.Dataset.mix([a, b]).take_all() == want
    later = sd.Dataset.mix([a.map(lambda r: r), b.map(lambda r: r)])
    assert later.take_all() == want
    assert later.columns() == ["x", "y"]
    empty = sd.Dataset.mix([a.filter(expr="x > 5"), b.filter(expr="x > 5")])
    assert empty.count() == 0 and empty.take_all() == []


def test_an_iterator_goes_on_behind_any_row_and_with_other_ranks():
    def mixed():
        return sd.Dataset.mix(inputs((300, 200, 500)), weights=[3, 2, 5])

    want = naive([3, 2, 5], (300, 200, 500), True)
    it = mixed().iterator()
    seen, states = [], []
    for batch in it.iter_batches(batch_size=30):
        seen += list(zip(batch["k"].tolist(), batch["i"].tolist()))
        states.append(json.dumps(it.state_dict()))
    assert seen == want
    for at in (0, 7, 20):
        again = mixed().iterator()
        again.load_state_dict(json.loads(states[at]))
        rest = [
            pair
            for b in again.iter_batches(batch_size=30)
            for pair in zip(b["k"].tolist(), b["i"].tolist())
        ]
        assert rest == want[(at + 1) * 30 :]
    # two ranks take the first steps, three go on
    state, flat = steps_of(mixed().streaming_split(2, batch_size=10), 4, None)
    assert flat == want[:80]
    _, flat = steps_of(mixed().streaming_split(3, batch_size=10), 2, state)
    assert flat == want[80:140]


def steps_of(ranks, steps, state):
    """The rows that all ranks together get in some steps, and a state behind them."""
    taken = [[] for _ in ranks]

    def train(rank):
        if state is not None:
            ranks[rank].load_state_dict(state)
        batches = ranks[rank].iter_batches(batch_size=10)
        taken[rank] = [
            list(zip(b["k"].tolist(), b["i"].tolist())) for b in itertools.islice(batches, steps)
        ]
        states[rank] = ranks[rank].state_dict()
        batches.close()

    states = {}
    threads = [threading.Thread(target=train, args=(rank,)) for rank in range(len(ranks))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len({json.dumps(s) for s in states.values()}) == 1
    return states[0], [pair for step in zip(*taken) for batch in step for pair in batch]


def test_small_blocks_are_told():
    a = sd.from_blocks([pa.table({"x": [i]}) for i in range(600)])
    b = sd.range(1000).map_batches(lambda b: {"x": b["id"]})
    with pytest.raises(ValueError, match="more than 64 blocks of an input"):
        sd.Dataset.mix([a, b], weights=[500, 499]).take_all()
    assert sd.Dataset.mix([a, b], weights=[1, 1]).count() == 1200
