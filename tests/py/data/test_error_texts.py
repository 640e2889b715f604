"""Errors say what, where and what to do: the text of each is what a user reads first."""

import inspect
import pickle
import re

import pyarrow as pa
import pytest
import skate
import skate.data
from cases import case


def said(call, kind=Exception):
    """The text of the error that call() raises."""
    with pytest.raises(kind) as e:
        call()
    return str(e.value)


# ---- calls whose arguments do not fit


def test_wrong_keywords_name_the_public_method_and_the_nearest():
    ds = skate.data.range(3)
    for call, text in (
        (lambda: ds.sort("id", desc=True), "Dataset.sort() got an unexpected keyword argument 'desc'; did you mean 'descending'?"),
        (lambda: ds.materialize().sort("id", desc=True), "Dataset.sort() got an unexpected keyword argument 'desc'; did you mean 'descending'?"),
        (lambda: ds.groupby("id").sum(onn="id"), "GroupedData.sum() got an unexpected keyword argument 'onn'; did you mean 'on'?"),
        (lambda: ds.to_pandas(lim=1), "Dataset.to_pandas() got an unexpected keyword argument 'lim'; did you mean 'limit'?"),
        (lambda: ds.iterator().iter_batches(batchsize=1), "DataIterator.iter_batches() got an unexpected keyword argument 'batchsize'; did you mean 'batch_size'?"),
        (lambda: ds.materialize(x=1), "Dataset.materialize() got an unexpected keyword argument 'x'; it takes none"),
        (lambda: ds.sort("id", qqqqqq=1), "Dataset.sort() got an unexpected keyword argument 'qqqqqq'; known are boundaries, descending, key"),
        (lambda: ds.sort(), "Dataset.sort() missing 1 required positional argument: 'key'"),
        (lambda: skate.data.read_text(pth="x"), "read_text() got an unexpected keyword argument 'pth'; did you mean 'paths'?"),
        (lambda: skate.data.from_items([1], para=1), "from_items() got an unexpected keyword argument 'para'; did you mean 'parallelism'?"),
        (lambda: skate.data.DataLoader(ds, batchsize=2), "DataLoader() got an unexpected keyword argument 'batchsize'; did you mean 'batch_size'?"),
        (lambda: skate.data.ActorPoolStrategy(sise=2), "ActorPoolStrategy() got an unexpected keyword argument 'sise'; did you mean 'size'?"),
    ):  # fmt: skip
        with case(text):
            assert said(call, TypeError) == text


def test_an_error_inside_of_a_function_is_left_as_it_is():
    def takes_one(row):
        return {"x": int("1", bas=3)}

    assert said(lambda: skate.data.range(3).map(takes_one).take_all(), TypeError).count("did you mean") == 0


def test_methods_go_by_the_name_of_their_public_class():
    for name, f in inspect.getmembers(skate.data.Dataset, callable):
        if not name.startswith("_"):
            with case(name):
                assert f.__qualname__.split(".")[0] in ("Dataset", "MaterializedDataset")
    assert pickle.loads(pickle.dumps(skate.data.Dataset.sort)) is skate.data.Dataset.sort


@skate.remote
def two(a, b=1):
    return a


@skate.remote
class Counts:
    def __init__(self, start):
        self.n = start

    def add(self, k):
        return self.n + k


def test_calls_of_remote_functions_name_them_and_what_they_take():
    counts = Counts.remote(1)
    for call, text in (
        (lambda: two.remote(1, 2, 3), "two(): too many positional arguments; it takes (a, b=1), and was given 3 positional arguments"),
        (lambda: two.remote(), "two(): missing a required argument: 'a'; it takes (a, b=1), and was given 0 positional arguments"),
        (lambda: two.remote(1, c=2), "two(): got an unexpected keyword argument 'c'; it takes (a, b=1), and was given 1 positional argument, c="),
        (lambda: Counts.remote(), "Counts.__init__(): missing a required argument: 'start'; it takes (start), and was given 0 positional arguments"),
        (lambda: counts.add.remote(1, 2), "Counts.add(): too many positional arguments; it takes (k), and was given 2 positional arguments"),
    ):  # fmt: skip
        with case(text):
            assert said(call, TypeError) == text


# ---- what is not there in time


def test_a_get_that_is_too_late_says_for_what(tmp_path):
    import os

    path = str(tmp_path / "gate")
    os.mkfifo(path)
    gate = os.open(path, os.O_RDWR)

    @skate.remote(num_cpus=0)
    def held(go):
        return go and open(path, "rb", 0).read(1)

    @skate.remote(num_cpus=0)
    def after(x):
        return x

    @skate.remote(num_cpus=0)
    def yields():
        yield open(path, "rb", 0).read(1)

    late = [held.remote(True) for _ in range(4)]
    refs, gen = [held.remote(False), *late, after.remote(late[0])], yields.remote()
    skate.get(refs[0])
    text = said(lambda: skate.get(refs, timeout=0.01), skate.exceptions.GetTimeoutError)
    assert text.startswith("Get timed out: some object(s) not ready: 5 of 6: ") and text.endswith(", and 2 more")
    assert re.search(rf"ObjectRef\({late[0].hex()}\) of task held, which (runs in|is queued on|waits for) .*, submitted \d+\.\d s ago", text)
    assert refs[0].hex() not in text
    text = said(lambda: skate.get(refs[-1], timeout=0), skate.exceptions.GetTimeoutError)
    assert f"1 of 1: ObjectRef({refs[-1].hex()}) of task after, which waits for 1 of its arguments, submitted" in text
    text = said(lambda: gen.next_within(0.01), skate.exceptions.GetTimeoutError)
    assert text.startswith("the next item is not ready: it is one of task yields, which ")
    os.write(gate, b"x" * 5)
    skate.get(late)
    os.close(gate)


# ---- names of tasks


def test_tasks_of_datasets_are_named_after_their_operators():
    from skate.util import state

    class Same:
        def __call__(self, batch):
            return batch

    skate.data.range(100).map_batches(Same, concurrency=1).random_shuffle().take_all()
    summary = state.summarize_tasks()["cluster"]["summary"]
    assert {"ReadRange", "MapBatches(Same)", "RandomShuffleReduce"} <= {n.split("->")[0] for n in summary}
    names = {(t.name, t.func_or_class_name) for t in state.list_tasks()} | {(None, a.class_name) for a in state.list_actors()}
    assert not [n for pair in names for n in pair if n is not None and (not n or "stage" in n or n == ".__init__")]
    assert "MapBatches(Same)" in {a.class_name for a in state.list_actors()}
    assert not [e for e in skate.timeline() if "stage" in str(e.get("name"))]
