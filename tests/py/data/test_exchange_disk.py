"""An exchange whose disk becomes full: one error says so, and no file or memory is left."""

import gc
import time

import numpy as np
import pytest
import skate
import skate.data as sd
from skate import _skate
from skate.exceptions import ObjectStoreFullError, OutOfDiskError

MIB = 1 << 20


def rows(n):
    return sd.range(n, override_num_blocks=max(4, n // 20_000)).map_batches(
        lambda b: {"k": b["id"] * 2654435761 % n, "pad": np.zeros((len(b["id"]), 100), np.uint8)}
    )


@pytest.mark.parametrize("op", ["sort", "join"])
def test_the_disk_fills_in_the_middle(op):
    skate.shutdown()
    skate.init(
        num_cpus=2,
        object_store_memory=16 * MIB,
        _system_config={"preload": "numpy,light_pytest", "spill_bytes": 12 * MIB},
    )
    what = {
        "sort": lambda ds: ds.sort("k"),
        "join": lambda ds: ds.join(
            sd.range(1000), "left_outer", num_partitions=8, on=("k",), right_on=("id",)
        ),
    }[op]
    ds = what(rows(600_000))
    with pytest.raises(
        (OutOfDiskError, ObjectStoreFullError),
        match=r"quota|cannot be read back from disk|store is full",
    ) as e:
        for _ in ds.iter_batches(batch_size=None):
            pass
    del ds, e
    gc.collect()
    n = 0
    for b in what(rows(20_000)).iter_batches(batch_size=None):
        n += len(b["k"])
    assert n == 20_000, "and the next run goes on"
    gc.collect()
    until = time.monotonic() + 60
    while any(
        (left := _skate.status())[k]
        for k in ("spill_objects_on_disk", "spill_disk_bytes", "overflow_objects")
    ):
        # tasks that were still running when the run failed give their output back
        assert time.monotonic() < until, left
        time.sleep(0.01)
