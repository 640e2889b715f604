"""Random pipelines of skate.data on the real engine: little memory, workers killed at random, a
consumer that pauses. Each must end with the rows that a list of numbers predicts, in order. A
failure names the seed of its pipeline."""

import os
import random
import signal
import threading
import time

import numpy as np
import pytest
import rounds
import skate
from procs import children
from skate import data as sd

ROUNDS = rounds.rounds(12)


def fill(ids, size):
    """The bytes of a row, as a function of its number."""
    return ids[:, None].astype(np.uint8) + np.arange(size, dtype=np.uint8)


class Pool:
    """A stage with state, which must not affect the rows."""

    def __init__(self, size):
        self.size = size

    def __call__(self, b):
        return {"id": b["id"] + 1, "x": fill(b["id"] + 1, self.size)}


class Pipeline:
    """A Dataset, and the numbers that it must give."""

    def __init__(self, rng):
        self.rng, self.words = rng, []
        self.size = rng.choice([1, 100, 1000, 10_000, 100_000])
        self.rows = rng.randint(0, max(1, min(3000, 30_000_000 // self.size)))
        self.ds, self.ids = self.source(0)
        if rng.random() < 0.2:
            ds, ids = self.source(10_000)
            self.ds, self.ids = self.ds.union(ds), self.ids + ids
            self.words.append("union")
        for _ in range(rng.randint(0, 5)):
            getattr(self, rng.choice(["map", "filter", "twice", "pool", "limit", "zip", "grow"]))()

    def source(self, first):
        n, blocks, size = self.rows, self.rng.randint(1, 20), self.size
        self.words.append(f"range({n}, {blocks} blocks, {size} bytes)")
        ds = sd.range(n, override_num_blocks=blocks).map_batches(
            lambda b: {"id": b["id"] + first, "x": fill(b["id"] + first, size)}
        )
        return ds, list(range(first, first + n))

    def map(self):
        k, size, batch = self.rng.randint(1, 5), self.size, self.rng.choice([None, 1, 7, 100])
        self.words.append(f"map({k}, batch {batch})")
        self.ds = self.ds.map_batches(
            lambda b: {"id": b["id"] * k, "x": fill(b["id"] * k, size)}, batch_size=batch
        )
        self.ids = [i * k for i in self.ids]

    def filter(self):
        k = self.rng.randint(2, 4)
        self.words.append(f"filter({k})")
        self.ds = self.ds.filter(lambda r: r["id"] % k != 0)
        self.ids = [i for i in self.ids if i % k]

    def twice(self):
        if len(self.ids) * self.size > 40_000_000:
            return
        self.words.append("twice")
        self.ds = self.ds.flat_map(lambda r: [r, r])
        self.ids = [i for i in self.ids for _ in range(2)]

    def grow(self):
        """Each batch becomes several batches, so that tasks yield while they run."""
        size = self.size
        self.words.append("grow")

        def pieces(b):
            for i in range(0, len(b["id"]), 50):
                ids = b["id"][i : i + 50]
                yield {"id": ids, "x": fill(ids, size)}

        self.ds = self.ds.map_batches(pieces)

    def pool(self):
        n, least = self.rng.randint(1, 3), self.rng.choice([True, False])
        self.words.append(f"pool({n}, {least})")
        self.ds = self.ds.map_batches(
            Pool,
            fn_constructor_args=(self.size,),
            batch_size=self.rng.choice([None, 10]),
            concurrency=(1, n) if least else n,
        )
        self.ids = [i + 1 for i in self.ids]

    def limit(self):
        n = self.rng.randint(0, 2 * len(self.ids) + 1)
        self.words.append(f"limit({n})")
        self.ds, self.ids = self.ds.limit(n), self.ids[:n]

    def zip(self):
        ds, n = sd.range(len(self.ids), override_num_blocks=self.rng.randint(1, 9)), len(self.ids)
        self.words.append("zip")
        self.ds = self.ds.zip(ds.rename_columns({"id": "z"})).map_batches(
            lambda b: {"id": b["id"] + b["z"], "x": fill(b["id"] + b["z"], b["x"].shape[1])}
        )
        self.ids = [i + z for i, z in zip(self.ids, range(n), strict=True)]


class Killer:
    """Kills a worker twice in each run, after random times."""

    def __init__(self, rng):
        self.times = [rng.random() * 0.3 for _ in range(rng.randint(0, 2))]
        self.rng, self.end, self.killed = rng, threading.Event(), 0
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        for t in self.times:
            if self.end.wait(t):
                return
            workers = [w for server in children(os.getpid()) for w in children(server)]
            if workers:
                try:
                    os.kill(self.rng.choice(workers), signal.SIGKILL)
                    self.killed += 1
                except ProcessLookupError:
                    pass  # the worker has ended by itself

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.end.set()
        self.thread.join()


def consume(p, rng):
    got, pauses = [], rng.random() < 0.5
    for b in p.ds.iter_batches(
        batch_size=rng.choice([None, 1 + p.rows // 3, 64]), prefetch_batches=rng.choice([0, 1])
    ):
        got += b["id"].tolist()
        if len(b["id"]):
            assert (b["x"] == fill(b["id"], p.size)).all(), "bytes of a row"
        if pauses:
            time.sleep(rng.random() * 0.02)  # a slow consumer
    return got


@pytest.fixture
def engine():
    skate.shutdown()
    yield lambda mb: skate.init(num_cpus=2, object_store_memory=mb << 20)
    skate.shutdown()


@rounds.campaign(600)
def test_random_pipelines(engine):
    killed, first = 0, rounds.seed()
    for i in range(ROUNDS):
        seed = first + i
        rng = random.Random(seed)
        if i % 6 == 0:
            skate.shutdown()
            engine(rng.choice([32, 64, 256]))
        p = Pipeline(rng)
        where = f"SKATE_TEST_SEED={seed}: {' '.join(p.words)}"
        try:
            with Killer(rng) as k:
                got = consume(p, rng)
        except Exception as e:
            e.add_note(where)
            raise
        assert got == p.ids, where
        killed += k.killed
    print(f"{ROUNDS} pipelines, {killed} workers killed")
