"""Arrays that NumPy allocates in the store inside functions of map_batches (src/py/value/npmem.c):
what the arrays become, and whether their memory is freed."""

import os
import signal
import threading

import numpy as np
import pytest
import skate
import skate.data as sd
from skate import _skate

N = 1 << 19  # float64 values of an array, which is 4 MiB
LEAST = 2 << 20


@pytest.fixture(autouse=True)
def small_arrays_too():
    sd.DataContext.get_current().arrays_in_store = LEAST
    yield
    sd.DataContext.get_current().arrays_in_store = 32 << 20


def run(fn, n=8, **options):
    """Runs n tasks of one row each; returns their batches and the run's statistics."""
    ds = sd.range(n, override_num_blocks=n).map_batches(fn, batch_size=1, **options).materialize()
    return list(ds.iter_batches(batch_size=1)), ds.stats_dict(), ds


def filled(batch):
    return {"x": np.full((1, N), float(batch["id"][0])), "id": batch["id"]}


def leased_when_idle():
    """Bytes that are leased, but hold no value, once all workers have given back unused memory."""
    import time

    until = time.monotonic() + 20
    while (n := _skate.status()["store_leased_bytes"]) and time.monotonic() < until:
        time.sleep(0.01)  # workers report it in messages of their own
    return n


def test_a_block_is_the_array():
    got, stats, ds = run(filled)
    assert [(b["x"].shape, b["x"][0, 0], b["x"][0, -1], b["id"][0]) for b in got] == [
        ((1, N), i, i, i) for i in range(8)
    ]
    assert stats["in_place"] + stats["no_room"] == 8 and stats["in_place"] > 0
    assert "without a copy: " in ds.stats()
    del got, ds
    assert leased_when_idle() == 0


def test_the_bytes_are_those_of_a_copy():
    def several(batch):  # the largest array is in the middle
        i = int(batch["id"][0])
        return {
            "a": np.arange(3)[None] + i,
            "x": np.linspace(i, i + 1, N)[None],
            "s": np.array([f"row {i}"]),
            "y": np.ones((1, 5), np.float32),
        }

    tables = []
    for on in (LEAST, 0):
        sd.DataContext.get_current().arrays_in_store = on
        try:
            ds = run(several, 4)[2]
            tables.append((ds.to_arrow(), ds.stats_dict()["in_place"]))
        finally:
            sd.DataContext.get_current().arrays_in_store = LEAST
    assert tables[0][0].equals(tables[1][0])
    assert tables[0][1] > 0 and tables[1][1] == 0, "the switch turns it off"


def test_what_is_written_later_is_the_functions_own():
    class Again:  # uses the same array for all batches, as a program that saves allocations does
        x = None

        def __call__(self, batch):
            if self.x is None:
                self.x = np.zeros((1, N))
            self.x[:] = batch["id"][0]
            return {"x": self.x}

    got, stats, _ = run(Again, 6, concurrency=1)
    assert [b["x"][0, N // 2] for b in got] == [0, 1, 2, 3, 4, 5] and stats["in_place"] == 1


def test_views_slices_and_joined_batches_are_copied():
    def views(batch):
        x = np.full((6, N // 4), float(batch["id"][0]))
        return {"x": x[1:5]}

    got, stats, _ = run(views, 3)
    assert [b["x"][0, 0] for b in got] == [0] * 4 + [1] * 4 + [2] * 4 and stats["in_place"] == 0

    def twice(batch):
        x = np.full((1, N), float(batch["id"][0]))
        return {"x": x, "y": x, "t": x.T.copy().T}

    got, stats, _ = run(twice, 3)
    assert all(
        (b["x"] == i).all() and (b["y"] == i).all() and (b["t"] == i).all()
        for i, b in enumerate(got)
    )


def test_arrays_that_stay_are_valid_and_limited():
    class Keeps:
        def __init__(self):
            self.kept = []

        def __call__(self, batch):
            self.kept.append(np.full(N, float(batch["id"][0])))
            held = _skate.arrays_counts()[3]
            assert held <= (64 << 20) + 3 * 8 * N, held
            assert all((a == a[0]).all() for a in self.kept)
            return {"sum": np.array([sum(a[0] for a in self.kept)]), "held": np.array([held])}

    got = run(Keeps, 24, concurrency=1)[0]
    assert got[-1]["sum"][0] == sum(range(24))
    assert 0 < max(b["held"][0] for b in got) <= (64 << 20) + 3 * 8 * N


def test_resize_zeros_and_threads():
    def work(batch):
        i = int(batch["id"][0])
        z = np.zeros((1, N))
        assert not z.any()
        r = np.full(N, float(i))
        r.resize(2 * N, refcheck=False)
        assert (r[:N] == i).all() and not r[N:].any()
        r.resize(10, refcheck=False)
        assert (r == i).all()
        made = []
        threads = [
            threading.Thread(target=lambda: made.append(np.full(N, float(i)))) for _ in range(3)
        ]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        z += sum(made) / 3
        return {"x": z}

    assert [b["x"][0, 7] for b in run(work, 4)[0]] == [0, 1, 2, 3]


def test_a_child_of_a_fork_has_its_own():
    def forks(batch):
        x = np.full((1, N), 1.0)
        pid = os.fork()
        if pid == 0:
            ok = (x == 1.0).all()
            x[:] = 2.0
            os._exit(0 if ok else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert (x == 1.0).all()
        return {"x": x}

    assert all((b["x"] == 1.0).all() for b in run(forks, 2)[0])


def test_a_killed_worker_leaves_no_lease(tmp_path):
    def dies(batch):
        x = np.full((1, N), float(batch["id"][0]))
        mark = tmp_path / str(batch["id"][0])
        if batch["id"][0] % 2 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return {"x": x}

    got, _, ds = run(dies, 6)
    assert [b["x"][0, 1] for b in got] == list(range(6)) and len(list(tmp_path.iterdir())) == 3
    del got, ds
    assert leased_when_idle() == 0


@pytest.fixture
def small_store():
    skate.shutdown()
    skate.init(num_cpus=2, object_store_memory=24 << 20)
    yield
    skate.shutdown()
    skate.init(num_cpus=2, object_store_memory=1 << 30)


def test_a_store_with_little_room_is_not_waited_for(small_store):
    def temporaries(batch):
        i = float(batch["id"][0])
        many = [np.full((1, N), i + k) for k in range(8)]  # more bytes than the store has
        return {"x": sum(many) / 8 - 3.5}

    got, stats, _ = run(temporaries, 8)
    assert [b["x"][0, 3] for b in got] == list(range(8)) and stats["no_room"] > 0
