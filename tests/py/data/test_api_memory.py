"""Checks that each call holds the memory that docs/design/api_memory.md states for it."""

import os
import re
import threading

import numpy as np
import pytest
import skate
import skate.data as sd
from skate import _skate

HERE = os.path.dirname(__file__)
MIB = 1 << 20
LEASED = 16 * MIB  # bytes that two workers lease for writing, and the batch in progress
used_for = ""  # the kind of call that the engine was last used for
ALL, WINDOW, LITTLE = 64 * MIB, 16 * MIB, 40 * MIB


def table():
    with open(os.path.join(HERE, "../../../docs/design/api_memory.md")) as f:
        return re.findall(r"^\| `(.+)` \| (\w+) \| (\w+) \|$", f.read(), re.M)


def make(batch):
    n = len(batch["id"])
    return {"id": batch["id"], "x": np.zeros((n, MIB // 8)) + batch["id"][:, None]}


def anonymous():
    """Bytes of this process's own memory, without what it has mapped of the store."""
    with open("/proc/self/status") as f:
        return 1024 * int(re.search(r"RssAnon:\s+(\d+)", f.read())[1])


class Peak:
    """Records the largest anonymous() while it is active."""

    def __enter__(self):
        self.before = self.most = anonymous()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.look)
        self.thread.start()
        return self

    def look(self):
        while not self.over.wait(0.001):
            self.most = max(self.most, anonymous())

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        self.more = max(self.most, anonymous()) - self.before


def dataset():
    ds = sd.range(64, override_num_blocks=64).map_batches(make, batch_size=1)
    limits = ds.context.execution_options.resource_limits
    ds.context.execution_options.resource_limits = limits.copy(object_store_memory=WINDOW)
    return ds


@pytest.fixture(scope="module", autouse=True)
def warm():
    """Imports modules that are imported at first use, so that no call is charged for them."""
    exec(
        "import pandas, pyarrow.compute, pyarrow.parquet, torch"
        if os.environ.get("SKATE_TEST_TORCH")
        else "import pandas, pyarrow.compute, pyarrow.parquet"
    )
    sd.range(4).map_batches(make).sum("id")
    yield
    skate.shutdown()


def test_every_call_is_there():
    assert len(table()) >= 36


@pytest.fixture
def its_engine(blocks):
    """The engine. A store keeps its peak, so a call that may use as much as the one before goes on
    with that one's engine, if nothing is left in it, and each other call has one of its own."""
    global used_for
    now = _skate.status() if blocks == used_for == "window" else None
    left = now is None or now["tasks_known"] or now["store_sealed_bytes"]
    if left or now["store_peak_bytes"] > WINDOW + LEASED:
        skate.shutdown()
        skate.init(
            num_cpus=2,
            object_store_memory=512 * MIB,
            _system_config={"preload": "numpy,light_pytest"},
        )
    used_for = blocks


@pytest.mark.parametrize("call, blocks, driver", table())
def test_memory_of(its_engine, call, blocks, driver, tmp_path, capsys):
    names = {"ds": dataset(), "sd": sd, "out": str(tmp_path / "out")}
    kept = []
    with Peak() as peak:
        if call.startswith("for "):
            exec(call, names)
        else:
            kept.append(eval(call, names))
    store = _skate.status()["store_peak_bytes"]
    if blocks == "none":
        assert store <= LEASED
    elif blocks == "window":
        assert store <= WINDOW + LEASED, store / MIB
    else:
        most = (1.6 if blocks == "joins" else 1.2) * ALL + LEASED
        assert 0.95 * ALL <= store <= most, store / MIB
    if driver == "little":
        assert peak.more <= LITTLE, peak.more / MIB
    else:
        assert peak.more <= 2.2 * ALL, peak.more / MIB
