"""Options of tasks and actors that run users' functions: restarts, retries, max_calls, the wait for
actors."""

import os
import signal

import pytest
import skate
import skate.data as sd
from skate.exceptions import GetTimeoutError, RayActorError, WorkerCrashedError


class DieAt:
    """Ends its process at a row, the first `times` times (counted in a file)."""

    def __init__(self, row, path, times):
        self.row, self.path, self.times = row, path, times

    def __call__(self, batch):
        if self.row in batch["id"]:
            with open(self.path, "a") as f:
                f.write("x")
            if os.path.getsize(self.path) <= self.times:
                os.kill(os.getpid(), signal.SIGKILL)
        return batch


def pool(path, times, **options):
    ds = sd.range(20, override_num_blocks=10)
    return ds.map_batches(
        DieAt, fn_constructor_args=(7, str(path), times), batch_size=2, concurrency=1, **options
    )


def test_a_pool_starts_its_actors_again_and_a_batch_for_ever_where_asked(tmp_path):
    assert (
        pool(tmp_path / "n", 5, max_task_retries=-1).count() == 20
        and os.path.getsize(tmp_path / "n") == 6
    )
    assert pool(tmp_path / "m", 3).count() == 20 and os.path.getsize(tmp_path / "m") == 4


@pytest.mark.parametrize(
    "options, deaths, runs",
    [
        ({"max_restarts": 0}, 1, 1),
        ({"max_restarts": -1, "max_task_retries": 0}, 1, 1),
        ({"max_task_retries": 2}, 3, 3),
    ],
)
def test_restarts_and_retries_of_a_pool(tmp_path, options, deaths, runs):
    with pytest.raises(RayActorError):
        pool(tmp_path / "n", deaths, **options).count()
    assert os.path.getsize(tmp_path / "n") == runs
    if options != {"max_restarts": 0}:
        assert pool(tmp_path / "m", deaths - 1, **options).count() == 20


def test_dead_actors_leave_the_pool(tmp_path):
    """With max_restarts=0 and tasks that may fail, a dead actor is replaced, and only its call is
    lost."""
    made = tmp_path / "made"

    class Dies:
        def __init__(self):
            with open(made, "a") as f:
                f.write("x")

        def __call__(self, b):
            if b["id"][0] in (30, 31, 70):
                os._exit(1)
            return b

    ds = sd.range(100, override_num_blocks=100).map_batches(
        Dies,
        compute=sd.ActorPoolStrategy(size=2, max_tasks_in_flight_per_actor=1),
        batch_size=1,
        max_restarts=0,
        max_task_retries=0,
        num_cpus=0.5,
    )
    ds.context.max_errored_blocks = 3
    assert [r["id"] for r in ds.take_all()] == [i for i in range(100) if i not in (30, 31, 70)]
    assert ds.stats_dict()["errored_blocks"] == 3 and 4 <= len(made.read_text()) <= 5


def test_retries_of_tasks(tmp_path):
    def die(batch):
        return DieAt(7, str(tmp_path / "n"), 1)(batch)

    with pytest.raises(WorkerCrashedError):
        sd.range(20, override_num_blocks=10).map_batches(die, max_retries=0).count()
    os.unlink(tmp_path / "n")
    assert sd.range(20, override_num_blocks=10).map_batches(die, max_retries=1).count() == 20


def test_max_calls_of_tasks():
    pids = sd.range(6, override_num_blocks=6).map(lambda r: {"pid": os.getpid()}, max_calls=1)
    assert len({r["pid"] for r in pids.select_columns(["pid"]).take_all()}) == 6
    with pytest.raises(ValueError, match="max_calls"):
        sd.range(1).map(lambda r: r, ray_remote_args_fn=lambda: {"max_calls": 1})
    for bad in ({"max_retries": -2}, {"max_restarts": "no"}, {"max_calls": -1}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            sd.range(1).map(lambda r: r, **bad)


def test_the_wait_for_actors(tmp_path):
    fifo = str(tmp_path / "gate")
    os.mkfifo(fifo)

    class Slow:
        def __init__(self):
            with open(fifo) as f:  # blocks until the test opens the file
                f.read()

        def __call__(self, b):
            return b

    ds = sd.range(4).map_batches(Slow, concurrency=1)
    ds.context.wait_for_min_actors_s = 0.3
    with pytest.raises(
        GetTimeoutError, match="Timed out while starting actors.*wait_for_min_actors_s = 0.3"
    ):
        ds.take_all()
    (it,) = ds.streaming_split(1)
    with pytest.raises(GetTimeoutError, match="Timed out while starting actors"):
        list(it.iter_rows())

    class Quick:
        def __call__(self, b):
            return b

    class Bad(Quick):
        def __init__(self):
            raise KeyError("the reason")

    ds = sd.range(4).map_batches(Quick, concurrency=2)
    ds.context.wait_for_min_actors_s = 60
    assert ds.count() == 4
    ds = sd.range(4).map_batches(Bad, concurrency=1)
    ds.context.wait_for_min_actors_s = 60
    with pytest.raises(RayActorError, match="the reason"):
        ds.take_all()
    assert skate.is_initialized()
