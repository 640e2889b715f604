"""Tasks of exchanges that need no operator's code run in a worker without Python: no Python frame
is entered for them, and their output equals that of the operators."""

import os
import sys
from collections import Counter

import numpy as np
import pytest
import skate as ray
from skate.data import DataContext
from skate.data.aggregate import Max, Sum


@pytest.fixture
def strategy():
    context = DataContext.get_current()
    before = context.shuffle_strategy

    def use(name):
        context.shuffle_strategy = name

    yield use
    context.shuffle_strategy = before


def native(ds):
    """{first operator of a stage: (number of its tasks, number of those that ran without
    Python)}."""
    return {
        o["label"].split("->")[0].split("(")[0]: (
            o["tasks_done"],
            o["fused"][0]["native"] if o["fused"] else 0,
        )
        for o in ds.stats_dict()["ops"]
    }


def numbers(n=4000, blocks=8):
    return ray.data.range(n, override_num_blocks=blocks).map_batches(
        lambda b: {"k": b["id"] * 7919 % 1009, "id": b["id"]}
    )


def rows(ds):
    return [(r["k"], r["id"]) for r in ds.take_all()]


EXPECTED = sorted(((i * 7919 % 1009, i) for i in range(4000)), key=lambda r: r[0])


def all_native(ds, *stages):
    ran = native(ds)
    for stage in stages:
        assert ran[stage][0] >= 1 and ran[stage][1] == ran[stage][0], ran
    return ran


def test_a_sort_enters_no_interpreter_behind_its_maps(strategy):
    strategy("merge")
    ds = numbers().sort("k").materialize()
    assert all_native(ds, "SortMerge", "SortReduce")["ReadRange"][1] == 0
    assert rows(ds) == EXPECTED


def test_distinct_enters_no_interpreter_behind_its_maps(strategy):
    strategy("merge")
    ds = numbers().distinct(["k"]).materialize()
    assert all_native(ds, "DistinctMerge", "DistinctReduce")["ReadRange"][1] == 0
    first = dict(reversed(EXPECTED))
    assert rows(ds) == sorted(first.items())
    # these reduces run in Python
    assert rows(numbers().distinct(["k"]).map(lambda r: r)) == sorted(first.items())


def test_shuffles_enter_no_interpreter_behind_their_maps(strategy):
    strategy("merge")
    ds = numbers().random_shuffle(seed=3).materialize()
    all_native(ds, "RandomShuffleMerge", "RandomShuffleReduce")
    got = rows(ds)
    assert got != EXPECTED and sorted(got) == sorted(EXPECTED)
    # these reduces run in Python
    assert got == rows(numbers().random_shuffle(seed=3).map(lambda r: r))
    ds = numbers().repartition(5, shuffle=True).materialize()
    all_native(ds, "RepartitionMerge", "RepartitionReduce")
    assert ds.num_blocks() == 5 and sorted(rows(ds)) == sorted(EXPECTED)
    ds = numbers().repartition(5, keys=["k"], sort=True).materialize()
    all_native(ds, "RepartitionMerge", "RepartitionReduce")
    assert sorted(rows(ds)) == sorted(EXPECTED)


def test_aggregates_of_the_kernel_enter_no_interpreter_behind_their_maps():
    ds = numbers().groupby("k").aggregate(Sum("id"), Max("id")).materialize()
    all_native(ds, "AggregateReduce")
    frame = numbers().to_pandas().groupby("k")["id"]
    got = ds.to_pandas()
    assert got["sum(id)"].tolist() == frame.sum().tolist()
    assert got["max(id)"].tolist() == frame.max().tolist()


def test_a_sum_that_does_not_fit_says_so_as_before():
    big = ray.data.from_items([{"k": i % 2, "v": 2**62} for i in range(64)], override_num_blocks=4)
    with pytest.raises(OverflowError, match=r"^OverflowError: AggregateReduce\(k\): sum\(v\): "):
        big.groupby("k").sum("v").materialize()


def test_a_limit_ends_a_native_reduce():
    ds = numbers().random_shuffle(seed=5).limit(10)
    assert len(rows(ds)) == 10
    assert rows(numbers().sort("k").limit(7)) == EXPECTED[:7]


def test_a_cut_is_native_whatever_is_fused_behind_the_reduces():
    ds = numbers().sort("k").map_batches(lambda b: {"k": b["k"], "id": b["id"]}).materialize()
    tasks, without = native(ds)["SortReduce"]
    assert without == 1 and tasks > 1
    assert rows(ds) == EXPECTED


def note_calls(folder):
    """A setup hook for workers: writes a line for each Python function of skate.data that is
    entered."""

    def hook():
        def enters(frame, event, arg):
            code = frame.f_code
            if event == "call" and f"{os.sep}skate{os.sep}data{os.sep}" in code.co_filename:
                name = f"{os.path.basename(code.co_filename)}:{code.co_name}\n"
                with open(os.path.join(folder, str(os.getpid())), "a") as f:
                    f.write(name)

        sys.setprofile(enters)

    return hook


def called(folder):
    names = Counter()
    for file in folder.iterdir():
        names.update(file.read_text().splitlines())
    return names


def test_no_frame_of_python_is_entered_for_a_merge_or_a_cut(tmp_path, strategy):
    strategy("merge")
    env = {"worker_process_setup_hook": note_calls(str(tmp_path))}
    keep = ray.is_initialized()
    ray.shutdown()
    ray.init(num_cpus=2, runtime_env=env)
    try:
        ds = numbers().sort("k").map_batches(lambda b: {"k": b["k"], "id": b["id"]}).materialize()
        ran = native(ds)
    finally:
        ray.shutdown()
        if keep:
            ray.init(num_cpus=2, object_store_memory=1 << 30)
    names = called(tmp_path)
    with_python = sum(tasks - without for tasks, without in ran.values())
    assert names["stage.py:run_stage"] == with_python, names
    # the hook does record calls
    assert names["exchange_map.py:run"] and names["exchange_reduce.py:run"]
    assert not names["exchange_merge.py:run"] and not names["exchange_reduce.py:cut"]


def test_packs_of_different_schemas_go_through_python_and_come_out_the_same(strategy):
    strategy("merge")

    def widen(b):
        k = b["k"].astype(np.int64 if b["id"][0] % 1000 else np.float64)
        return {"k": k, "id": b["id"]}

    ds = numbers().map_batches(widen, batch_size=None).sort("k").materialize()
    tasks, without = native(ds)["SortMerge"]
    assert without < tasks
    assert rows(ds) == EXPECTED
