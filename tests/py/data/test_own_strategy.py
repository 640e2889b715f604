"""Strategies of exchanges in Python (skate.data.ExchangeStrategy): the rows and their order are
those of a built-in strategy, whatever the strategy does; an exception in it fails the run."""

import os
import random
import subprocess
import sys
import threading
import traceback

import numpy as np
import pytest
import skate
import skate.data
from cases import case
from skate.data import ExchangeStrategy
from skate.data.exchange_strategy import Group, Shuffle
from skate.data.run import execute

N = 20_000


class Rounds(ExchangeStrategy):
    """The recipe of the documentation: merges all packs that it holds when enough packs of a range
    wait."""

    def __init__(self, packs=3):
        self.packs = packs

    def came(self, shuffle, pack):
        if shuffle.hold().n >= self.packs:
            for group in shuffle.groups:
                shuffle.merge(group)


class HoldsAll(ExchangeStrategy):
    def came(self, shuffle, pack):
        shuffle.hold()


class MergesAtTheEnd(HoldsAll):
    def ended(self, shuffle):
        for group in shuffle.groups:
            shuffle.merge(group)


class Moody(ExchangeStrategy):
    """Makes random allowed choices."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def values(self, sizes):
        return 1 if sizes.runs else self.random.choice([1, 2, 5])

    def came(self, shuffle, pack):
        chance = self.random.random()
        if chance < 0.2:
            return
        if chance < 0.3:
            shuffle.pass_on()
            return
        group = shuffle.hold(self.random.choice([None, 1, 3]), self.random.choice([None, 0]))
        assert group.n and shuffle.held >= group.bytes
        if chance > 0.8:
            shuffle.merge(group)
        elif chance > 0.7:
            shuffle.pass_on(self.random.choice(shuffle.groups))


class PassesRuns(ExchangeStrategy):
    """Maps give several runs each, some of which are merged."""

    def values(self, sizes):
        return 3

    def came(self, shuffle, pack):
        if shuffle.hold().n == 2:
            shuffle.merge(shuffle.groups[0])


STRATEGIES = [Rounds(), HoldsAll(), MergesAtTheEnd(), Moody(1), Moody(2), PassesRuns()]


@pytest.fixture(autouse=True)
def settings(monkeypatch):
    """Sets sizes of blocks, which are settings of the process, for the tests of this file only."""
    ctx = skate.data.DataContext.get_current()
    for name in ("target_max_block_size", "target_min_block_size"):
        monkeypatch.setattr(ctx, name, getattr(ctx, name))


def keyed(n=N, blocks=12):
    ds = skate.data.range(n, override_num_blocks=blocks).map_batches(
        lambda b: {"id": b["id"], "k": b["id"] * 7919 % 97}
    )
    return small(ds)


def small(ds):
    ds.context.target_max_block_size = 40_000
    ds.context.target_min_block_size = 0
    return ds


def exchange_of(ds, i=-1):
    return [o["exchange"] for o in ds.stats_dict()["ops"] if "exchange" in o][i]


def rows(ds):
    return ds.take_all()


OPERATIONS = {
    "sort": lambda ds, s: ds.sort("k", strategy=s),
    "sort descending": lambda ds, s: ds.sort("k", descending=True, strategy=s),
    "random_shuffle": lambda ds, s: ds.random_shuffle(seed=7, strategy=s),
    "repartition": lambda ds, s: ds.repartition(5, shuffle=True, strategy=s),
    "repartition by keys": lambda ds, s: ds.repartition(5, keys="k", sort=True, strategy=s),
    "aggregate": lambda ds, s: ds.groupby("k", strategy=s).sum("id"),
    "map_groups": lambda ds, s: ds.groupby("k", strategy=s).map_groups(
        lambda g: {"k": g["k"][:1], "first": g["id"][:1], "n": np.array([len(g["id"])])}
    ),
    "distinct": lambda ds, s: ds.distinct("k", strategy=s),
    "join": lambda ds, s: ds.limit(3000).join(
        keyed(2000, 5).map_batches(lambda b: {"k": b["k"], "other": b["id"]}),
        "full_outer",
        num_partitions=4,
        on=("k",),
        strategy=s,
    ),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_rows_and_their_order_are_those_of_simple(operation):
    ds = keyed().materialize()
    small(ds)
    want = rows(OPERATIONS[operation](ds, "simple"))
    assert want
    for strategy in STRATEGIES:
        with case(type(strategy).__name__):
            assert rows(OPERATIONS[operation](ds, strategy)) == want


def test_merges_happen_and_stats_name_the_strategy():
    ds = keyed().random_shuffle(seed=1, strategy=Rounds(4)).materialize()
    exchange = exchange_of(ds)
    assert exchange["strategy"] == "Rounds" and exchange["merge"] == 4
    assert exchange["packs"] < 12 * 8 and "strategy Rounds" in ds.stats()
    merges = [o for o in ds.stats_dict()["ops"] if "merges" in o]
    assert merges[0]["tasks_done"] >= 8
    ds = keyed().sort("k", strategy=HoldsAll()).materialize()
    assert exchange_of(ds)["merge"] == 0
    assert [o["tasks_done"] for o in ds.stats_dict()["ops"] if "merges" in o] == [0]


class Records(ExchangeStrategy):
    seen: list = []  # noqa: RUF012  of all copies
    copies: list = []  # noqa: RUF012

    def __init__(self, name, values=4):
        self.name, self.n = name, values

    def note(self, what):
        if not any(c is self for c in Records.copies):
            Records.copies.append(self)
        Records.seen.append((self.name, [c is self for c in Records.copies].index(True), *what))

    def values(self, sizes):
        self.note(("values", sizes))
        return 1 if sizes.runs else self.n

    def came(self, shuffle, pack):
        self.note(("came", pack, shuffle.sizes))

    def ended(self, shuffle):
        assert shuffle.held == 0 and shuffle.groups == []
        self.note(("ended",))


def test_what_a_strategy_is_told_and_one_copy_for_each_input():
    Records.seen, Records.copies = [], []
    mine, other = Records("mine"), Records("join", values=2)
    right = keyed(3000, 4).random_shuffle(seed=2, strategy=mine)
    ds = keyed(3000, 6).join(
        right, "inner", num_partitions=6, on=("k",), right_suffix="_r", strategy=other
    )
    assert ds.count() > 0
    by_copy = {}
    for name, copy, *what in Records.seen:
        by_copy.setdefault((name, copy), []).append(what)
    assert sorted(name for name, _ in by_copy) == ["join", "join", "mine"]
    assert not any(c is mine or c is other for c in Records.copies)
    for (name, _), told in by_copy.items():
        with case(name):
            kinds = [t[0] for t in told]
            assert kinds[0] == "values" and kinds[-1] == "ended" and kinds.count("ended") == 1
            sizes = told[0][1]
            assert sizes.memory_bytes > 0 and sizes.slots >= 1 and sizes.nodes == 1
            assert sizes.merges and not sizes.runs and sizes.spills
            packs = [t[1] for t in told if t[0] == "came"]
            width = (96 if name == "mine" else 6) // (4 if name == "mine" else 2)
            assert {p.end - p.first for p in packs} == {width}
            assert all(p.bytes > 0 and p.node == 0 for p in packs)
            last = [t[2] for t in told if t[0] == "came"][-1]
            assert last.bytes >= sum(p.bytes for p in packs) / 2


class Again(ExchangeStrategy):
    """Merges what the last merge has made with two packs more."""

    seen: list = []  # noqa: RUF012  of all copies

    def came(self, shuffle, pack):
        group = shuffle.hold(values=1)
        assert group.bytes >= group.back + pack.bytes
        self.seen.append((group.n, group.back))
        if group.n < 3 - (group.back == 0):
            return
        shuffle.merge(group, again=1 << 20)
        (now,) = [g for g in shuffle.groups if g.first == group.first]
        while not now.back:  # until it has come back
            (now,) = [g for g in shuffle.groups if g.first == group.first]
        assert now.n == 1 and now.bytes == now.back


def test_a_merge_comes_back_in_front_of_later_packs():
    want = [rows(keyed().groupby("k").sum("id")), rows(keyed().sort("k"))]
    Again.seen = []
    assert [
        rows(keyed().groupby("k", strategy=Again()).sum("id")),
        rows(keyed().sort("k", strategy=Again())),
    ] == want
    assert {(n, back > 0) for n, back in Again.seen} == {(1, 0), (2, 0), (2, 1), (3, 1)}
    for again, error in [(-1, ValueError), (True, ValueError), ("1", TypeError)]:
        with pytest.raises(error):
            Shuffle(lambda *a: (0, ())).merge(Group(0, 1, 2, 3, 0), again=again)


class Raises(ExchangeStrategy):
    def __init__(self, where, after=0):
        self.where, self.after = where, after

    def may_raise(self, where):
        if where == self.where:
            if not self.after:
                raise LookupError(f"not in {where}")
            self.after -= 1

    def values(self, sizes):
        self.may_raise("values")
        return 4

    def came(self, shuffle, pack):
        self.may_raise("came")
        shuffle.hold()

    def ended(self, shuffle):
        self.may_raise("ended")


@pytest.mark.parametrize("where, after", [("values", 0), ("came", 0), ("came", 9), ("ended", 0)])
def test_what_a_strategy_raises_is_the_failure_of_the_run(where, after):
    for operation in ("random_shuffle", "join"):
        with case(operation):
            with pytest.raises(LookupError, match=f"not in {where}") as failed:
                rows(OPERATIONS[operation](keyed(), Raises(where, after)))
            text = "".join(traceback.format_exception(failed.value))
            assert "in may_raise" in text and f"in {where}" in text
    assert len(rows(keyed().sort("k", strategy=Rounds()))) == N  # the engine still works


class Does(ExchangeStrategy):
    def __init__(self, came):
        self.does = came

    def came(self, shuffle, pack):
        self.does(shuffle, pack)


def says(n):
    class Says(ExchangeStrategy):
        def values(self, sizes):
            return n

    return Says()


def twice(shuffle, pack):
    shuffle.hold()
    shuffle.pass_on()


def stale(shuffle, pack):
    group = shuffle.hold()
    shuffle.merge(group)
    shuffle.merge(group)


@pytest.mark.parametrize(
    "strategy, error, text",
    [
        (Does(twice), RuntimeError, "no pack is at hand"),
        (Does(stale), ValueError, r"merge: no packs of partitions \d+ to \d+ are held"),
        (Does(lambda s, p: s.hold(node=1)), ValueError, "nodes 0 to 0"),
        (Does(lambda s, p: s.hold(values=0)), ValueError, "1 to 4096, not 0"),
        (says(5000), ValueError, r"Says.values\(\): values are a whole number from 1 to 4096"),
        (says(None), TypeError, "not None"),
        (says(True), TypeError, "not True"),
    ],
)
def test_a_strategy_that_says_what_cannot_be(strategy, error, text):
    with pytest.raises(error, match=text):
        rows(keyed().random_shuffle(seed=1, strategy=strategy))


class NoEnd:
    def values(self, sizes):
        return 1

    def came(self, shuffle, pack):
        pass


def test_what_is_no_strategy():
    ds = skate.data.range(3)
    with pytest.raises(TypeError, match=r"sort: strategy: .* has no ended\(shuffle\); derive"):
        ds.sort("id", strategy=NoEnd())
    with pytest.raises(TypeError, match=r"no values\(sizes\) and no came\(shuffle, pack\) and"):
        ds.random_shuffle(strategy=3)
    with pytest.raises(TypeError, match=r"Rounds is a class: give an instance, Rounds\(...\)"):
        ds.groupby("id", strategy=Rounds)
    with pytest.raises(ValueError, match="no strategy is called 'marge' .did you mean 'merge'"):
        ds.distinct("id", strategy="marge")
    with pytest.raises(ValueError, match="'simple'"):
        ds.join(ds, "inner", strategy="")
    with pytest.raises(ValueError, match="strategy is for shuffle=True or keys"):
        ds.repartition(3, strategy=Rounds())
    with pytest.raises(TypeError, match=r"DataContext.shuffle_strategy: .* has no ended"):
        ds.context.shuffle_strategy = NoEnd()


def test_a_strategy_by_the_context_and_by_name(capsys):
    ds = keyed()
    ds.context.shuffle_strategy = Rounds(2)
    a, b = (ds.sort("k").materialize(), ds.sort("k", strategy="push_star").materialize())
    assert exchange_of(a)["strategy"] == "Rounds" and exchange_of(b)["strategy"] == "push_star"
    assert rows(a) == rows(b)
    ds.sort("k").random_shuffle(strategy=Moody(1)).explain()
    text = capsys.readouterr().out
    assert "strategy Rounds, as DataContext.shuffle_strategy asks; it may merge packs" in text
    assert "strategy Moody, as RandomShuffle asks; it may merge packs" in text


def test_a_strategy_that_cannot_be_copied():
    strategy = Rounds()
    strategy.lock = threading.Lock()
    with pytest.raises(TypeError, match="strategy Rounds: each input .* give its class a __deep"):
        rows(keyed().sort("k", strategy=strategy))


class Asks(ExchangeStrategy):
    """Calls the engine, whose locks its run takes, too."""

    def came(self, shuffle, pack):
        packs = skate.get(skate.remote(lambda n: n + 1).remote(shuffle.hold().n))
        if packs > 2:
            shuffle.merge(shuffle.groups[0])


def test_a_strategy_may_use_the_engine_while_others_look_at_its_run():
    ds = keyed(4000, 5).random_shuffle(seed=1, strategy=Asks())
    over, seen = threading.Event(), []

    def looks():
        while not over.is_set():
            for x in list(execute.running):
                seen.append((x.stats()["done"], x.quiet(), x.samples()))
            skate.get(skate.put(1))

    looker = threading.Thread(target=looks)
    looker.start()
    got = rows(ds)
    over.set()
    looker.join(60)
    assert seen
    assert got == rows(keyed(4000, 5).random_shuffle(seed=1, strategy="simple"))


def test_two_exchanges_in_one_plan():
    ds = keyed().random_shuffle(seed=3, strategy=Moody(3)).sort("id", strategy=Rounds(2))
    ds = ds.materialize()
    assert [r["id"] for r in rows(ds)] == list(range(N))
    assert [exchange_of(ds, i)["strategy"] for i in (0, 1)] == ["Moody", "Rounds"]


class Gate(ExchangeStrategy):
    """Answers when the test allows it."""

    came_first, go = threading.Event(), threading.Event()

    def came(self, shuffle, pack):
        Gate.came_first.set()
        assert Gate.go.wait(60)
        shuffle.hold()


@pytest.fixture
def gate():
    Gate.came_first.clear()
    Gate.go.clear()
    yield Gate
    Gate.go.set()


def answering():
    return [t for t in threading.enumerate() if t.name == "skate-shuffle"]


def behind_a_gate():
    """Rows that are ready at once, followed by those of an exchange that waits for its strategy."""
    return skate.data.range(100).union(keyed().sort("k", strategy=Gate()).select_columns("id"))


def test_a_slow_strategy_loses_nothing(gate):
    it = iter(behind_a_gate().iter_rows())
    assert next(it)["id"] == 0
    assert gate.came_first.wait(60)
    assert len(answering()) == 1
    gate.go.set()
    assert sum(1 for _ in it) == 99 + N


def test_a_run_ends_while_its_strategy_works(gate):
    it = iter(behind_a_gate().iter_rows())
    assert next(it)["id"] == 0
    assert gate.came_first.wait(60)
    threads = answering()
    it.close()  # does not wait for the strategy
    assert threads == answering() and not gate.go.is_set()
    gate.go.set()
    for t in threads:
        t.join(60)
        assert not t.is_alive()


def test_the_driver_ends_while_its_strategy_works():
    code = """
import sys; sys.path.insert(0, "tests/py/data"); sys.path.insert(0, "tests/py")
import skate, test_own_strategy as t
skate.init(num_cpus=2)
it = iter(t.behind_a_gate().iter_rows())
print(next(it))
assert t.Gate.came_first.wait(60)
"""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))
    env = {**os.environ, "PYTHONPATH": os.path.join(root, "python")}
    r = subprocess.run(
        [sys.executable, "-c", code], cwd=root, env=env, capture_output=True, text=True, timeout=60
    )
    assert (r.returncode, r.stdout) == (0, "{'id': 0}\n"), r.stderr


def test_a_limit_ends_an_exchange():
    for strategy in (Rounds(), HoldsAll()):
        ds = keyed().random_shuffle(seed=2, strategy=strategy)
        assert len(ds.limit(5).take_all()) == 5 and len(ds.take(3)) == 3
        assert rows(keyed().limit(50).sort("k", strategy=strategy).limit(7)) == rows(
            keyed().limit(50).sort("k").limit(7)
        )
    assert rows(skate.data.range(0).sort("id", strategy=Rounds())) == []


def test_workers_that_die(tmp_path):
    def dies(b):
        mark = tmp_path / str(int(b["id"][0]) % 3)
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), 9)
        return b

    want = rows(keyed().sort("k"))
    for strategy in (Rounds(), Moody(5)):
        for mark in tmp_path.iterdir():
            mark.unlink()
        ds = keyed().map_batches(dies, batch_size=None).sort("k", strategy=strategy)
        assert rows(small(ds.map_batches(dies, batch_size=None))) == want
        assert list(tmp_path.iterdir())


def test_a_dataset_in_a_worker():
    @skate.remote
    def inside():
        return keyed(3000, 6).sort("k", strategy=Rounds()).take_all()

    assert skate.get(inside.remote()) == rows(keyed(3000, 6).sort("k"))


def test_data_beyond_memory():
    skate.shutdown()
    skate.init(
        num_cpus=2, object_store_memory=32 << 20, _system_config={"preload": "numpy,light_pytest"}
    )
    ds = skate.data.range(300_000, override_num_blocks=30).map_batches(
        lambda b: {"id": b["id"], "pad": b["id"].astype("S200")}
    )
    ds.context.target_max_block_size = 1 << 20
    for strategy in (Rounds(4), HoldsAll()):
        got = ds.random_shuffle(seed=4, strategy=strategy).select_columns("id")
        got = [int(v) for b in got.iter_batches(batch_size=None) for v in b["id"]]
        assert sorted(got) == list(range(300_000))


@pytest.mark.parametrize("engine", ["inline"])
def test_other_engines(engine):
    want = [rows(OPERATIONS[o](keyed(), None)) for o in ("sort", "join")]
    skate.shutdown()
    skate.init(num_cpus=2, _engine=engine)
    try:
        for strategy in (Rounds(), Moody(4)):
            assert [rows(OPERATIONS[o](keyed(), strategy)) for o in ("sort", "join")] == want
        with pytest.raises(LookupError, match="not in came"):
            rows(keyed().random_shuffle(seed=1, strategy=Raises("came", 2)))
    finally:
        skate.shutdown()
