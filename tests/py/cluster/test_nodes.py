"""The engine `cluster` from Python: two nodes that are processes of this machine."""

import pytest
import skate


@pytest.fixture(scope="module", autouse=True)
def nodes():
    skate.init(num_cpus=2, _system_config={"nodes": 2})
    yield
    skate.shutdown()


@skate.remote
def same(x):
    return x


@skate.remote
class Keeper:
    def __init__(self, x=0):
        self.x = x

    def get(self):
        return self.x

    def inner(self):
        return [skate.put(1)]


# ---- references inside values: their numbers mean something to one engine only ----


def test_a_reference_is_an_argument_of_its_own():
    ref = skate.put(5)
    assert skate.get(same.remote(ref)) == 5
    assert skate.get(Keeper.remote(ref).get.remote()) == 5


def test_a_reference_inside_an_argument_is_an_error():
    ref, keeper = skate.put(5), Keeper.remote()
    for arg in ([ref], skate.put([ref]), keeper, {"k": keeper}):
        with pytest.raises(NotImplementedError, match="as an argument of its own"):
            same.remote(arg)
        with pytest.raises(NotImplementedError, match="as an argument of its own"):
            Keeper.remote(arg)


def test_a_reference_in_a_closure_is_an_error():
    ref = skate.put(5)

    @skate.remote
    def f():
        return skate.get(ref)

    with pytest.raises(NotImplementedError, match="f refers to an ObjectRef"):
        f.remote()


def test_a_reference_inside_a_result_is_an_error():
    @skate.remote
    def small():
        return [skate.put(7)]

    @skate.remote(num_returns=2)
    def large():
        return 1, [skate.put(7), b"x" * 100_000]

    @skate.remote
    def handle():
        return Keeper.remote()

    keeper = Keeper.remote()
    for ref in (small.remote(), *large.remote(), handle.remote(), keeper.inner.remote()):
        with pytest.raises(NotImplementedError, match="contains a reference"):
            skate.get(ref)


def test_a_stray_reference_is_never_another_object():
    """One in an exception is not counted, so nothing refuses it."""
    kept = [skate.put(i) for i in range(50)]

    @skate.remote
    def fails():
        raise ValueError([skate.put(-i) for i in range(50)])

    with pytest.raises(ValueError) as e:
        skate.get(fails.remote())
    for ref in e.value.cause.args[0]:
        with pytest.raises(skate.exceptions.ObjectLostError, match="another node"):
            skate.get(ref)
    assert skate.get(kept) == list(range(50))
