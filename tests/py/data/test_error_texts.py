"""Errors say what, where and what to do: the text of each is what a user reads first."""

import inspect
import pickle

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
