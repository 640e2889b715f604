"""Datasets and split iterators inside tasks and actors: the driver runs them, and the process that
asked gets the blocks."""

import importlib.util
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import skate
import skate.data as sd
from skate.data.expressions import col
from skate.data.run import remote
from skate.data.trainers import streaming_split


def ids(ds):
    return [r["id"] for r in ds.take_all()]


def test_a_dataset_as_argument():
    @skate.remote
    def inside(ds):
        head = [r["id"] for r in ds.take(3)]
        total = sum(int(b["id"].sum()) for b in ds.iter_batches(batch_size=64))
        return (
            head,
            ds.count(),
            total,
            ds.schema().names,
            ds.materialize().num_blocks() > 0,
            ds.sum("id"),
        )

    ds = sd.range(1000, override_num_blocks=5).map_batches(lambda b: {"id": b["id"] * 2})
    assert skate.get(inside.remote(ds), timeout=60) == (
        [0, 2, 4],
        1000,
        999000,
        ["id"],
        True,
        999000,
    )


def test_an_iterator_as_argument_and_epochs():
    torch = importlib.util.find_spec("torch") is not None

    @skate.remote
    class Trainer:
        def fit(self, it, epochs):
            batches = it.iter_torch_batches if torch else it.iter_batches
            return [sum(int(b["id"].sum()) for b in batches(batch_size=32)) for _ in range(epochs)]

    t = Trainer.remote()
    assert skate.get(t.fit.remote(sd.range(100).iterator(), 3), timeout=120) == [4950] * 3


def test_made_in_the_worker_and_on_all_cpus():
    """As many tasks as there are CPUs each run their own Dataset: while they wait, the pipelines
    use their CPUs."""

    @skate.remote(num_cpus=1)
    def own(n):
        ds = (
            sd.range(n, override_num_blocks=4)
            .map(lambda r: {"id": r["id"] + 1})
            .filter(expr=col("id") > 3)
        )
        return sorted(ids(ds))

    got = skate.get([own.remote(n) for n in (10, 20, 30)], timeout=60)
    assert got == [list(range(4, n + 1)) for n in (10, 20, 30)]


def test_blocks_of_the_worker_late_operators_unions_and_writes(tmp_path):
    @skate.remote
    def inside(ds, path):
        local = sd.from_items([{"id": i} for i in range(6)])
        out = [
            ids(local.map(lambda r: r).union(ds)),
            ids(ds.repartition(3)),
            ids(ds.zip(local).select_columns(["id"])),
        ]
        ds.write_parquet(path)
        return out

    a, b, c = skate.get(inside.remote(sd.range(6), str(tmp_path / "out")), timeout=60)
    assert a == [*range(6), *range(6)] and b == c == list(range(6))
    assert ids(sd.read_parquet(str(tmp_path / "out"))) == list(range(6))


def test_what_is_drawn_anew_is_drawn_anew_in_workers():
    @skate.remote
    def inside(ds):
        return [tuple(ids(ds)) for _ in range(4)]

    again = sd.range(40, override_num_blocks=8).randomize_block_order(
        seed=sd.RandomSeedConfig(seed=1, reseed_after_execution=True)
    )
    fixed = sd.range(40, override_num_blocks=8).randomize_block_order(seed=1)
    assert len(set(skate.get(inside.remote(again), timeout=60))) > 1
    assert len(set(skate.get(inside.remote(fixed), timeout=60))) == 1


def test_errors_stats_and_dead_letters_come_back():
    @skate.remote
    def inside(ds, bad):
        try:
            bad.take_all()
        except KeyError as e:
            said = str(e)
        n = len(ds.take_all())
        return said, n, "Map" in ds.stats(), len(ds.materialize().take_all())

    def fails(r):
        if r["id"] == 3:
            raise KeyError("the reason")
        return r

    @skate.remote
    def letters(ds):
        n = len(ds.take_all())
        return n, [r["error"] for r in ds.errors().take_all()]

    bad = sd.range(5).map(fails)
    said, n, in_stats, rows = skate.get(
        inside.remote(sd.range(5).map(lambda r: r), bad), timeout=60
    )
    assert "the reason" in said and n == rows == 5 and in_stats
    assert skate.get(letters.remote(sd.range(5).map(fails, on_error="quarantine")), timeout=60) == (
        4,
        ["KeyError"],
    )


def test_a_task_that_stops_early_or_dies_stops_its_run(tmp_path):
    """The run's tasks end: later tasks get the CPUs, and the service actor has no run left."""

    @skate.remote(max_retries=0)
    def first(ds, die):
        for b in ds.iter_batches(batch_size=10):
            if die:
                os.kill(os.getpid(), signal.SIGKILL)
            return int(b["id"][0])

    ds = sd.range(10**9, override_num_blocks=1000).map_batches(
        lambda b: {"id": b["id"], "x": np.ones((len(b["id"]), 4))}
    )
    assert skate.get(first.remote(ds, False), timeout=60) == 0
    with pytest.raises(skate.exceptions.WorkerCrashedError):
        skate.get(first.remote(ds, True), timeout=60)
    service = skate.get_actor(remote.NAME, namespace=remote.SPACE)
    skate.get(service.idle.remote(), timeout=60)
    assert sd.range(100).map(lambda r: r).count() == 100


def test_streaming_split_made_in_a_worker():
    @skate.remote
    def make():
        return sd.range(100, override_num_blocks=4).streaming_split(2, equal=True)

    @skate.remote(num_cpus=0)
    def use(it):
        return [[int(v) for b in it.iter_batches(batch_size=7) for v in b["id"]] for _ in range(2)]

    its = skate.get(make.remote(), timeout=60)
    a, b = skate.get([use.remote(it) for it in its], timeout=60)
    assert a[0] == a[1] and sorted(a[0] + b[0]) == list(range(100)) and len(a[0]) == 50


@skate.remote(num_cpus=0)
class Rank:
    def __init__(self, it):
        self.it = it

    def epoch(self, most=None):
        """Returns the rows of one epoch; stops after `most` batches."""
        out = []
        for k, b in enumerate(self.it.iter_batches(batch_size=10)):
            out += b["id"].tolist()
            if k + 1 == most:
                break
        return out

    def epoch_and_hold(self):
        """Begins an epoch and leaves its iteration open in the middle."""
        self.open = iter(self.it.iter_batches(batch_size=10))
        return next(self.open)["id"].tolist()

    def facts(self):
        return self.it.schema().names, self.it.stats(), self.it.world_size()


def test_split_epochs_of_actors_and_what_they_know():
    its = (
        sd.range(1000, override_num_blocks=10)
        .map(lambda r: {"id": r["id"]})
        .streaming_split(2, equal=True, locality_hints=["a", "b"])
    )
    ranks = [Rank.remote(it) for it in its]
    first = skate.get([r.epoch.remote() for r in ranks], timeout=60)
    assert [len(f) for f in first] == [500, 500] and sorted(first[0] + first[1]) == list(
        range(1000)
    )
    for _ in range(3):
        assert skate.get([r.epoch.remote() for r in ranks], timeout=60) == first
    names, stats, world = skate.get(ranks[0].facts.remote(), timeout=60)
    assert names == ["id"] and "Map" in stats and world == 2 and its[0].schema().names == ["id"]


def test_a_rank_that_stops_early_does_not_hold_the_others(monkeypatch):
    """The rank has more bytes than the service actor holds for one consumer: if the actor kept
    these for a rank that has stopped, the other rank would wait for ever."""
    monkeypatch.setattr(streaming_split, "held_bytes", lambda context, consumers: 1 << 18)
    wide = sd.range(400, override_num_blocks=40).map_batches(
        lambda b: {"id": b["id"], "x": np.zeros((len(b["id"]), 1 << 12))}
    )
    ranks = [Rank.remote(it) for it in wide.streaming_split(2, equal=True)]
    a, b = skate.get([ranks[0].epoch.remote(1), ranks[1].epoch.remote()], timeout=100)
    assert len(a) == 10 and len(b) == 200
    # the next epoch has all rows
    a, b = skate.get([ranks[0].epoch.remote(), ranks[1].epoch.remote(2)], timeout=100)
    assert len(a) == 200 and len(b) == 20


def test_a_rank_that_dies_breaks_the_epoch_for_all_and_the_next_one_is_whole(monkeypatch):
    """The ranks cannot end before it dies: the service actor holds less for it than its share."""
    monkeypatch.setattr(streaming_split, "held_bytes", lambda context, consumers: 1 << 18)
    wide = sd.range(400, override_num_blocks=40).map_batches(
        lambda b: {"id": b["id"], "x": np.zeros((len(b["id"]), 1 << 12))}
    )
    its = wide.streaming_split(3)
    ranks = [Rank.remote(it) for it in its]
    others = [r.epoch.remote() for r in ranks[1:]]
    assert len(skate.get(ranks[0].epoch_and_hold.remote(), timeout=60)) == 10
    skate.kill(ranks[0])
    for ref in others:
        with pytest.raises(
            RuntimeError, match=r"process of iterator 0 \(pid \d+\) ended in the middle of epoch 0"
        ):
            skate.get(ref, timeout=60)
    ranks[0] = Rank.remote(its[0])
    rows = skate.get([r.epoch.remote() for r in ranks], timeout=100)
    assert sorted(sum(rows, [])) == list(range(400))


def test_a_rank_that_dies_at_the_barrier_breaks_it():
    its = sd.range(100).streaming_split(2)
    ranks = [Rank.remote(it) for it in its]
    waits = ranks[0].epoch.remote()
    service = its[0]._service
    skate.get(service.waiting.remote(1), timeout=60)
    skate.kill(ranks[0])
    skate.get(service.waiting.remote(0), timeout=60)
    with pytest.raises(skate.exceptions.RayActorError):
        skate.get(waits, timeout=60)
    ranks[0] = Rank.remote(its[0])
    assert sorted(sum(skate.get([r.epoch.remote() for r in ranks], timeout=60), [])) == list(
        range(100)
    )


def test_the_service_actor_ends_with_the_last_iterator():
    its = sd.range(100).streaming_split(2)
    (pid,) = skate.get([its[0]._service.__ray_call__.remote(lambda self: os.getpid())], timeout=60)
    fd = os.pidfd_open(pid)
    del its
    import select

    assert select.select([fd], [], [], 60)[0], "the actor of iterators that nobody has goes on"
    os.close(fd)


def test_the_driver_never_knew_of_one():
    """The first Dataset of the program is made in a task; first in a placement group that is
    removed afterwards."""
    skate.shutdown()
    skate.init(num_cpus=2, object_store_memory=1 << 30)
    from skate.util.placement_group import placement_group, remove_placement_group
    from skate.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    @skate.remote
    def own():
        return sd.range(3).count(), ids(sd.range(3).map(lambda r: r))

    pg = placement_group([{"CPU": 1}])
    inside = PlacementGroupSchedulingStrategy(
        placement_group=pg, placement_group_capture_child_tasks=True
    )
    assert skate.get(own.options(scheduling_strategy=inside).remote(), timeout=60) == (3, [0, 1, 2])
    remove_placement_group(pg)
    assert skate.get([own.remote() for _ in range(4)], timeout=60) == [(3, [0, 1, 2])] * 4


def test_the_driver_is_busy():
    """The driver computes in Python and never waits for the engine."""
    skate.shutdown()
    skate.init(num_cpus=2, object_store_memory=1 << 30)

    @skate.remote
    def own():
        return ids(sd.range(3).map(lambda r: r))

    ref = own.remote()
    end = time.monotonic() + 60
    while not skate.wait([ref], timeout=0)[0]:
        assert time.monotonic() < end
        sum(range(10000))
    assert skate.get(ref) == [0, 1, 2]


def test_where_tasks_run_in_the_caller():
    code = """
import skate, skate.data as sd
skate.init(num_cpus=2)
@skate.remote
def inside(ds):
    return ds.map(lambda r: r).count(), [r["id"] for r in ds.take_all()]
print(skate.get(inside.remote(sd.range(3))))
try:
    sd.range(3).streaming_split(1)
except NotImplementedError as e:
    print(e)
"""
    env = {
        **os.environ,
        "SKATE_ENGINE": "inline",
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    r = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60
    )
    assert r.returncode == 0, r.stderr
    assert "(3, [0, 1, 2])" in r.stdout and "SKATE_ENGINE=inline" in r.stdout
