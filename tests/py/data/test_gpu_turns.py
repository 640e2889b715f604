"""Stages whose GPUs do not fit on the machine together use the GPUs in turn."""

import numpy as np
import pytest
from skate.exceptions import TaskUnschedulableError


class Add:
    def __init__(self, n):
        self.n = n

    def __call__(self, batch):
        return {"id": batch["id"] + self.n}


@pytest.fixture(scope="module", autouse=True)
def engine():
    import skate

    skate.shutdown()
    skate.init(num_cpus=2, num_gpus=1, object_store_memory=1 << 28)
    yield
    skate.shutdown()


def test_two_pools_and_a_task_stage_on_one_gpu():
    from skate import data

    ds = data.range(1000, override_num_blocks=20)
    ds = ds.map_batches(
        Add, fn_constructor_args=(1,), batch_size=10, num_gpus=1, num_cpus=0, concurrency=1
    )
    ds = ds.map_batches(lambda b: {"id": b["id"] * 2}, batch_size=10, num_gpus=1)
    ds = ds.map_batches(
        Add, fn_constructor_args=(5,), batch_size=10, num_gpus=0.5, num_cpus=0, concurrency=2
    )
    got = np.concatenate([b["id"] for b in ds.iter_batches(batch_size=100)])
    assert got.tolist() == [(i + 1) * 2 + 5 for i in range(1000)]


def test_a_pool_larger_than_the_machine_is_refused_with_the_arithmetic():
    from skate import data

    ds = data.range(10).map_batches(
        Add, fn_constructor_args=(1,), batch_size=10, num_gpus=1, concurrency=2
    )
    with pytest.raises(
        TaskUnschedulableError,
        match=r"2 actors x 1 GPU = 2 GPUs at the same time, the machine has 1; use fewer actors",
    ):
        ds.take_all()


def test_a_gpu_stage_says_how_many_rows_it_takes():
    from skate import data

    with pytest.raises(ValueError, match="num_gpus needs batch_size"):
        data.range(10).map_batches(lambda b: b, num_gpus=1)
    data.range(10).map_batches(lambda b: b, num_gpus=0)
