"""streaming_split by batches: ranks in step, epochs by number, and resuming with another number of
ranks (docs/design/ingest.md)."""

import threading

import pyarrow as pa
import pytest
import skate.data as sd
from hypothesis import given
from hypothesis import strategies as st
from rounds import examples
from skate.data.random_config import RandomSeedConfig
from skate.data.run import feed


def in_step(its, use):
    """Calls use(i, iterator) for all iterators concurrently; returns the results, or raises the
    first error."""
    out, errors = [None] * len(its), []

    def run(i):
        try:
            out[i] = use(i, its[i])
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(its))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]
    return out


def epoch(its, batch, most=10**9):
    """Runs an epoch in which each rank takes `most` batches; returns [[ids of each batch] of each
    rank] and the state of each rank after them."""

    def use(i, it):
        got = []
        if most == 0:
            return got, it.state_dict()
        for b in it.iter_batches(batch_size=batch):
            got.append(b["id"].tolist())
            if len(got) == most:
                break
        return got, it.state_dict()

    both = in_step(its, use)
    return [g for g, _ in both], [s for _, s in both]


@examples(60)
@given(
    st.lists(st.integers(0, 9), max_size=9),
    st.integers(1, 5),
    st.integers(1, 4),
    st.sampled_from(["", "drop", "pad"]),
)
def test_rows_are_dealt_in_steps(sizes, n, batch, equal):
    blocks, at = [], 0
    for size in sizes:
        blocks.append(("a reference", at, size, size))
        at += size
    deal = feed.Deal(n, equal, batch)
    ranks = [[] for _ in range(n)]
    for dealt in feed._by_batch(iter(blocks), deal):
        for i, (_, row, rows, _) in dealt:
            ranks[i] += range(row, row + rows)
    rows = [r for rank in ranks for r in rank]
    if equal == "drop":
        assert len(set(map(len, ranks))) == 1 and sorted(rows) == list(range(at // n * n))
    elif equal == "pad":
        assert (
            len(set(map(len, ranks))) == 1
            and set(rows) == set(range(at))
            and len(rows) == -(-at // n) * n
        )
    else:
        assert sorted(rows) == list(range(at))
    for i, rank in enumerate(ranks):
        assert feed.batches_of(at, deal, i) == -(-len(rank) // batch)
        for step in range(at // (n * batch)):
            first = (step * n + i) * batch
            assert rank[step * batch : (step + 1) * batch] == list(range(first, first + batch))


@pytest.mark.parametrize("equal", [False, "drop", "pad"])
def test_ranks_get_what_len_says_each_epoch(equal):
    ds = sd.range(101, override_num_blocks=7)
    its = ds.streaming_split(3, equal=equal, batch_size=8)
    for _ in range(2):
        got, states = epoch(its, 8)
        assert [len(g) for g in got] == [len(it) for it in its]
        assert {r for g in got for b in g for r in b} == set(range(99 if equal == "drop" else 101))
    assert states == [{"version": 1, "epoch": 2, "rows": 0}] * 3
    with pytest.raises(ValueError, match="batches of 8 rows"):
        its[0].iter_batches(batch_size=9)


def shuffled(rows=240):
    return sd.range(rows, override_num_blocks=5).random_shuffle(seed=RandomSeedConfig(7))


def test_ranks_go_on_with_another_number_of_ranks_and_each_row_comes_once_an_epoch():
    """8, then 4, then 6 ranks in one epoch, followed by the next epoch."""
    ds = shuffled().materialize()
    seen, state = [], None
    for n, most in ((8, 4), (4, 5), (6, 100)):
        its = ds.streaming_split(n, equal="drop", batch_size=3)
        if state is not None:
            for it in its:
                it.load_state_dict(state)
        got, states = epoch(its, 3, most)
        assert len({str(s) for s in states}) == 1, "any rank's state is that of all"
        state = states[0]
        seen += [r for g in got for b in g for r in b]
    assert sorted(seen) == list(range(240)) and state == {"version": 1, "epoch": 1, "rows": 0}


def test_epochs_by_number_are_the_same_in_any_order_and_process():
    def order(numbers):
        its = shuffled().streaming_split(2, equal=True, batch_size=10)
        out = {}
        for e in numbers:
            for it in its:
                it.set_epoch(e)
            out[e] = epoch(its, 10)[0]
        return out

    assert order([0, 1, 2]) == order([2, 0, 1])
    its = shuffled().streaming_split(2, equal=True, batch_size=10)
    whole = order([3])[3]
    for it in its:
        it.load_state_dict({"version": 1, "epoch": 3, "rows": 60})
    assert epoch(its, 10)[0] == [g[3:] for g in whole]
    for it in its:
        it.set_epoch(4)
    assert epoch(its, 10)[0] == order([4])[4]


def test_ranks_that_do_not_agree_hear_so():
    its = sd.range(100).streaming_split(2, equal=True, batch_size=5)
    its[0].set_epoch(3)
    its[1].set_epoch(4)
    with pytest.raises(
        RuntimeError, match="different epochs.*0: epoch 3 from row 0, 1: epoch 4 from row 0"
    ):
        epoch(its, 5)
    for it in its:
        it.set_epoch(5)
    assert sum(len(b) for g in epoch(its, 5)[0] for b in g) == 100


def test_what_has_no_len_or_state_says_what_to_do():
    plain = sd.range(10).streaming_split(2)[0]
    unknown = sd.range(10).filter(lambda r: True).streaming_split(2, batch_size=2)[0]
    for call, error, why in (
        (lambda: len(plain), TypeError, "batch_size"),
        (lambda: len(unknown), TypeError, "materialize"),
        (plain.state_dict, ValueError, "batch_size"),
        (
            lambda: sd.range(10).random_shuffle().streaming_split(2, batch_size=2)[0].state_dict(),
            ValueError,
            "no seed",
        ),
        (lambda: sd.range(10).streaming_split(2, equal="pad"), ValueError, "batch_size"),
        (lambda: sd.range(10).streaming_split(2, equal="no"), ValueError, "equal='no'"),
        (lambda: unknown.load_state_dict({"version": 1}), ValueError, "no state"),
    ):
        with pytest.raises(error, match=why):
            call()
    assert sd.from_blocks([pa.table({"id": [1, 2]})]).streaming_split(1, equal=True, batch_size=2)[
        0
    ]
