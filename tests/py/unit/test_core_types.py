"""Types of the extension, without an engine."""

import gc
import sys
import weakref

import pytest
import skate
from skate import _skate


def test_types_are_not_made_by_hand():
    for t in (_skate.ObjectRef, _skate.ObjectRefGenerator, _skate.ActorToken):
        with pytest.raises(TypeError):
            t()
    with pytest.raises(TypeError):
        _skate.Template()
    for args, kw in (
        (("what", len, "x"), {}),
        (("task", len), {}),
        (("task", len, "x"), {"num_returns": 100001}),
        (("task", len, "x"), {"num_cpus": -1}),
        (("task", len, "x"), {"resources": [1]}),
        (("method", len, "x"), {}),
        (("method", (1, "x"), "x"), {}),
        (("task", len, "x"), {"nope": 1}),
    ):
        with pytest.raises((TypeError, ValueError)):
            _skate.Template(*args, **kw)


def test_generic_alias():
    assert _skate.ObjectRef[int] is not None


def test_hooks():
    with pytest.raises(TypeError, match="no hook"):
        _skate.set_hooks(nope=1)
    with pytest.raises(TypeError):
        _skate.set_hooks(1)


def test_outside_of_tasks():
    for call in (_skate.task_skip, lambda: _skate.task_note([])):
        with pytest.raises(RuntimeError, match="inside a task"):
            call()
    assert (
        _skate.current_task() is None
        and not _skate.in_worker()
        and _skate.crash_fd() == -1
        and _skate.serve() is False
    )


def test_a_remote_function_is_collected():
    def make():
        def f():
            return g

        g = skate.remote(f)
        return weakref.ref(g), weakref.ref(f)

    refs = make()
    gc.collect()
    assert [r() for r in refs] == [None, None]


@pytest.fixture
def inline():
    skate.shutdown()
    skate.init(num_cpus=1, _system_config={"engine": "inline"})
    yield
    skate.shutdown()


def test_nothing_leaks(inline):
    import numpy as np

    @skate.remote
    def f(*args, **kw):
        return args[0] if args else kw

    @skate.remote
    def gen(n):
        for i in range(n):
            yield np.zeros(2000)

    @skate.remote
    def boom(x):
        raise ValueError(x)

    @skate.remote
    class A:
        def m(self, x):
            return x

    def work():
        a = A.remote()
        skate.get(
            [
                f.remote(1),
                f.remote(x="y"),
                f.remote(np.zeros(5)),
                f.remote(np.zeros(5000)),
                f.remote([skate.put("z" * 20_000)]),
            ]
        )
        [skate.get(r) for r in gen.remote(3)]
        next(gen.remote(3))
        for bad in (
            lambda: skate.get(boom.remote("t")),
            lambda: f.remote(x=lambda: (yield), y=sys._getframe()),
            lambda: skate.get(5),
            lambda: skate.get([1]),
        ):
            with pytest.raises((ValueError, TypeError)):
                bad()
        skate.get(a.m.remote(np.arange(3000)))
        skate.wait([f.remote(1), f.remote(2)])
        skate.put({"a": [np.zeros(3000), b"x" * 9000]})

    for _ in range(3):
        work()
    gc.collect()
    bytes0, blocks0 = _skate.mem_bytes(), sys.getallocatedblocks()
    objects0 = _skate.status()["objects"]
    for _ in range(50):
        work()
    gc.collect()
    assert _skate.status()["objects"] <= objects0
    assert (
        _skate.mem_bytes() - bytes0 < 20_000 + 50 * 600
    )  # state lists keep each round's errors and dead actors, up to their limits
    assert sys.getallocatedblocks() - blocks0 < 500


def test_templates_stay_valid_over_engines(inline):
    @skate.remote
    def f():
        return 1

    g = f.options(name="g", num_cpus=1)
    for _ in range(3):
        assert skate.get([f.remote(), g.remote()]) == [1, 1]
        skate.shutdown()
        skate.init(num_cpus=1, _system_config={"engine": "inline"})


def test_inline_order_by_seed():
    orders = set()
    for seed in (0, 1, 2, 3, 1):
        skate.shutdown()
        skate.init(num_cpus=1, _system_config={"engine": "inline", "seed": seed})
        seen = []

        @skate.remote
        def f(i):
            pass

        refs = [f.remote(i) for i in range(20)]
        while refs:
            ready, refs = skate.wait(refs)
            seen.append(ready[0].hex())
        orders.add((seed, tuple(seen)))
        if seed == 0:
            assert seen == sorted(seen)
    skate.shutdown()
    assert len(orders) == 4  # four seeds, each with its own order


def test_names_for_type_checkers():
    class Counter:
        @skate.method
        def next(self) -> int:
            return 1

    from skate.actor import ActorClass, ActorProxy

    assert ActorClass[Counter].__args__ == (Counter,) and ActorProxy[Counter] is ActorProxy
    assert skate.remote(Counter).__class__ is ActorClass and Counter().next() == 1


def test_a_random_uuid_is_one():
    import uuid

    from skate import ids

    some = {ids.random_uuid() for _ in range(100)}
    assert len(some) == 100
    assert all(
        str(u) in some and u.version == 4 and u.variant == uuid.RFC_4122
        for u in map(uuid.UUID, some)
    )
