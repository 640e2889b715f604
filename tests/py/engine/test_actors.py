"""Actors: constructors, order, handles in other processes, death."""

import asyncio
import gc
import os
import time

import numpy as np
import pytest
import skate
from waits import wait_at, wait_until


@skate.remote
class Counter:
    """Counts."""

    def __init__(self, start=0, *, step=1):
        self.n, self.step = start, step

    def inc(self, k=None):
        self.n += self.step if k is None else k
        return self.n

    def get(self):
        return self.n

    @skate.method(num_returns=2)
    def pair(self):
        return self.n, -self.n

    def upto(self, n):
        yield from range(n)

    def fail(self):
        raise KeyError("in a method")

    @staticmethod
    def static(x):
        return x * 2

    @classmethod
    def name(cls):
        return cls.__name__

    def pid(self):
        return os.getpid()


def test_calls_and_state(ray):
    c = Counter.remote(10, step=2)
    assert ray.get([c.inc.remote(), c.inc.remote(5), c.inc.remote(k=1), c.get.remote()]) == [
        12,
        17,
        18,
        18,
    ]
    assert ray.get(c.pair.remote()) == [18, -18]
    assert [ray.get(r) for r in c.upto.remote(4)] == [0, 1, 2, 3]
    assert ray.get(c.static.remote(4)) == 8 and ray.get(c.name.remote()) == "Counter"
    assert ray.get(c.pair.options(num_returns=1).remote()) == (18, -18)
    assert c.inc is c.inc


def test_order(ray):
    c = Counter.remote()
    refs = [c.inc.remote() for _ in range(500)]
    assert ray.get(refs) == list(range(1, 501))


def test_order_with_arguments_that_come_late(ray, gate):
    path = gate.path

    @ray.remote
    def late(x):
        wait_at(path)
        return x

    @ray.remote
    class Log:
        def __init__(self):
            self.seen = []

        def add(self, x):
            self.seen.append(x)
            return list(self.seen)

    log = Log.remote()
    log.add.remote(late.remote("first"))
    log.add.remote("second")
    third = log.add.remote("third")
    gate.let_go()
    assert ray.get(third) == ["first", "second", "third"]


def test_two_actors_are_two(ray):
    a, b = Counter.remote(), Counter.remote(100)
    ray.get([a.inc.remote(), b.inc.remote()])
    assert ray.get([a.get.remote(), b.get.remote()]) == [1, 101]
    assert a != b and a == a and hash(a) != hash(b)


def test_a_method_that_raises_leaves_the_actor_alive(ray):
    c = Counter.remote()
    with pytest.raises(KeyError, match="in a method"):
        ray.get(c.fail.remote())
    assert ray.get(c.inc.remote()) == 1


def test_a_constructor_that_raises(ray):
    @ray.remote
    class Broken:
        def __init__(self, x):
            raise ValueError(f"cannot start with {x}")

        def m(self):
            return 1

    b = Broken.remote(5)
    early = b.m.remote()
    with pytest.raises(ray.exceptions.ActorDiedError) as info:
        ray.get(early)
    text = str(info.value)
    assert text.startswith(
        "The actor died in __init__: an error raised in its creation task, ray::Broken.__init__() (pid="
    )
    assert f"actor_id={b._actor_id.hex()}, repr=" in text and text.endswith(
        "ValueError: cannot start with 5"
    )
    assert isinstance(info.value, ray.exceptions.RayActorError) and isinstance(
        info.value.cause, ValueError
    )
    with pytest.raises(ray.exceptions.ActorDiedError, match="cannot start with 5"):
        ray.get(b.m.remote())
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(b.__ray_ready__.remote())


def test_arguments_of_the_constructor(ray):
    @ray.remote
    class Holds:
        def __init__(self, ref_value, *, refs, big):
            import skate

            self.x = ref_value + sum(skate.get(refs)) + big.size

        def get(self):
            return self.x

    h = Holds.remote(ray.put(1), refs=[ray.put(2), ray.put(3)], big=np.zeros(100_000))
    assert ray.get(h.get.remote()) == 100_006
    for call in (
        lambda: Counter.remote(1, 2),
        lambda: Counter.remote(stop=1),
        lambda: Holds.remote(),
    ):
        with pytest.raises(TypeError):
            call()


def test_wrong_calls_of_methods(ray):
    c = Counter.remote()
    for call in (lambda: c.inc.remote(1, 2), lambda: c.inc.remote(z=1), lambda: c.get.remote(1)):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(AttributeError, match="nothing_here"):
        _ = c.nothing_here
    with pytest.raises(TypeError, match=r"call it as '<handle>.inc.remote\(\)'"):
        c.inc()
    with pytest.raises(TypeError, match="cannot be instantiated directly"):
        Counter()
    assert ray.get(c.inc.remote()) == 1


def test_handles_in_tasks_and_actors(ray):
    c = Counter.remote()

    @ray.remote
    def use(handle, k):
        import skate

        return skate.get([handle.inc.remote() for _ in range(k)])[-1]

    assert ray.get(use.remote(c, 3)) == 3

    @ray.remote
    class Owner:
        def __init__(self, handles):
            self.h = handles["c"]

        def go(self):
            import skate

            return skate.get(self.h.inc.remote())

        def handle(self):
            return self.h

    o = Owner.remote({"c": c})
    assert ray.get(o.go.remote()) == 4
    again = ray.get(o.handle.remote())
    assert again == c and ray.get(again.inc.remote()) == 5
    assert ray.get(again.pair.remote()) == [5, -5]


def test_an_actor_made_in_a_task_lives_with_its_handle(ray):
    @ray.remote
    def make():
        c = Counter.remote(7)
        c.inc.remote()
        return c

    c = ray.get(make.remote())
    assert ray.get(c.inc.remote()) == 9


def test_an_actor_only_held_by_an_object(ray):
    ref = ray.put([Counter.remote(3)])
    gc.collect()
    for _ in range(3):
        ray.get(ray.get(ref)[0].inc.remote())
    assert ray.get(ray.get(ref)[0].get.remote()) == 6


def test_a_dropped_handle_ends_the_actor_after_its_calls(ray, tmp_path):
    path = str(tmp_path / "x")

    @ray.remote
    class Writer:
        def write(self):
            with open(path, "a") as f:
                f.write("x")

        def size(self):
            return os.path.getsize(path)

    w = Writer.remote()
    refs = [w.write.remote() for _ in range(5)]
    last = w.size.remote()
    del w
    gc.collect()
    assert ray.get(last) == 5 and ray.get(refs) == [None] * 5


def _in_a_cycle(cls):
    a = cls.remote()
    cycle = [a]
    cycle.append(cycle)
    return a


def test_who_waits_for_the_place_of_an_actor_in_a_cycle_collects_it(fresh):
    """A traceback refers to its frames, and they refer to the traceback: without a garbage
    collection an actor's handle in a frame would never be freed."""
    ray = fresh(num_cpus=1)

    @ray.remote(num_cpus=1)
    class Whole:
        def f(self):
            return 1

    @ray.remote(num_cpus=0)
    def leave_one_in_a_worker():
        gc.disable()  # the program disables automatic collections only
        return ray.get(_in_a_cycle(Whole).f.remote())

    def wait_all(ref):
        assert ray.wait([ref], timeout=60)[0] == [ref]
        return ray.get(ref)

    gc.disable()
    try:
        assert ray.get(_in_a_cycle(Whole).f.remote(), timeout=60) == 1
        assert ray.get(_in_a_cycle(Whole).f.remote(), timeout=60) == 1
        assert wait_all(_in_a_cycle(Whole).f.remote()) == 1
        gc.collect()
        assert ray.get(leave_one_in_a_worker.remote(), timeout=60) == 1
        assert ray.get(Whole.remote().f.remote(), timeout=60) == 1
    finally:
        gc.enable()


def test_kill(ray):
    c = Counter.remote()
    ray.get(c.inc.remote())
    ray.kill(c)
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(c.inc.remote())
    ray.kill(c)  # a second kill has no effect
    with pytest.raises(ValueError, match="kill: takes the handle of an actor, not <class 'int'>"):
        ray.kill(5)


def test_restart(ray):
    c = Counter.options(max_restarts=1).remote(5)
    assert ray.get(c.inc.remote()) == 6
    ray.kill(c, no_restart=False)
    # a new state: no call goes to the killed process
    assert ray.get(c.inc.options(max_task_retries=-1).remote()) == 6
    ray.kill(c, no_restart=False)
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(c.inc.remote())


def test_named_actors(ray):
    c = Counter.options(name="the counter").remote(1)
    assert ray.get_actor("the counter") == c
    with pytest.raises(ValueError, match="already taken"):
        Counter.options(name="the counter").remote()
    assert Counter.options(name="the counter", get_if_exists=True).remote() == c
    assert ray.get(ray.get_actor("the counter").inc.remote()) == 2
    ray.kill(c)
    with pytest.raises(ValueError, match="Failed to look up"):
        ray.get_actor("the counter")
    with pytest.raises(ValueError):
        ray.get_actor("")
    d = Counter.options(name="short").remote()
    del d
    gc.collect()
    with pytest.raises(ValueError):
        ray.get_actor("short")
    Counter.options(name="kept", lifetime="detached").remote(40)
    gc.collect()
    assert ray.get(ray.get_actor("kept").inc.remote()) == 41
    ray.kill(ray.get_actor("kept"))


def test_inheritance(ray):
    class Base:
        def __init__(self):
            self.x = 1

        def base(self):
            return self.x

    class Derived(Base):
        def __init__(self, y):
            super().__init__()
            self.y = y

        def both(self):
            return self.base() + self.y

    d = ray.remote(Derived).remote(5)
    assert ray.get(d.both.remote()) == 6 and ray.get(d.base.remote()) == 1
    with pytest.raises(TypeError, match="[Ii]nherit"):

        class Wrong(Counter):
            pass


def test_actor_ids_and_context(ray):
    @ray.remote
    class Me:
        def __init__(self):
            import skate

            self.made = skate.get_runtime_context().get_actor_id()

        def ids(self):
            import skate

            return (
                self.made,
                skate.get_runtime_context().get_actor_id(),
                skate.get_runtime_context().was_current_actor_reconstructed,
            )

    a = Me.remote()
    made, now, restarted = ray.get(a.ids.remote())
    assert made == now and len(now) == 32 and not restarted


def test_async_methods(ray):
    @ray.remote
    class Async:
        async def double(self, x):
            import asyncio

            await asyncio.sleep(0)
            return 2 * x

    assert ray.get(Async.remote().double.remote(4)) == 8


def wait_all_free(ray):
    """Waits until all resources are free again: actors and tasks of the test before may still be
    ending."""
    gc.collect()
    wait_until(
        lambda: (
            ray.wait([ray.put(0)])
            and ray.available_resources()["CPU"] == ray.cluster_resources()["CPU"]
        )
    )


class Opened:
    """Its constructor waits on the event loop on which its methods run, and leaves a task on it."""

    async def __init__(self, dies=None, wrong=False):
        await asyncio.sleep(0)
        if wrong:
            raise KeyError("no")
        if dies and not os.path.exists(dies):
            open(dies, "w").close()
            os._exit(3)
        self.loop, self.beats = asyncio.get_running_loop(), asyncio.Queue()
        self.task = self.loop.create_task(self.beat())
        self.opened = True

    async def beat(self):
        for i in range(3):
            await self.beats.put(i)

    async def beaten(self):
        return [await self.beats.get() for _ in range(3)], self.loop is asyncio.get_running_loop()

    def is_open(self):
        return self.opened


def test_async_constructor(ray, engine, tmp_path):
    A = ray.remote(Opened)
    a = A.remote()
    assert ray.get(a.is_open.remote()) is True  # a call waits until the constructor has ended
    if engine == "local":  # the inline engine runs one call at a time, and nothing between calls
        assert ray.get(a.beaten.remote()) == ([0, 1, 2], True)
        mark = str(tmp_path / "died")
        b = A.options(max_restarts=1, max_task_retries=1).remote(mark)
        assert ray.get(b.is_open.remote()) is True and os.path.exists(mark)
        with pytest.raises(skate.exceptions.ActorDiedError):
            ray.get(A.remote(str(tmp_path / "again")).is_open.remote())
    with pytest.raises(skate.exceptions.ActorDiedError, match="KeyError"):
        ray.get(A.remote(wrong=True).is_open.remote())


def test_resources_of_actors(ray):
    wait_all_free(ray)
    free = ray.available_resources()["CPU"]
    c = Counter.options(num_cpus=2).remote()
    ray.get(c.inc.remote())
    assert ray.available_resources()["CPU"] == free - 2
    ray.kill(c)
    wait_all_free(ray)
    c = Counter.options(num_cpus=100, max_restarts=-1).remote()
    for call in (c.inc.remote(), c.__ray_ready__.remote()):
        with pytest.raises(
            ray.exceptions.ActorUnschedulableError,
            match="Counter can never run here: .* 100 CPU, but this machine was given 4",
        ):
            ray.get(call)
    del c, call


def test_many_actors(ray):
    actors = [Counter.remote(i) for i in range(12)]
    assert ray.get([a.inc.remote() for a in actors]) == list(range(1, 13))


def test_actor_errors_of_arguments(ray):
    @ray.remote
    def boom():
        raise ValueError("the argument failed")

    c = Counter.remote()
    with pytest.raises(ValueError, match="the argument failed"):
        ray.get(c.inc.remote(boom.remote()))
    assert ray.get(c.inc.remote()) == 1


def test_methods_return_their_own_arguments(ray):
    @ray.remote
    class Echo:
        def same(self, x):
            return x

    e = Echo.remote()
    a = np.random.rand(300, 300)
    np.testing.assert_array_equal(ray.get(e.same.remote(a)), a)
    ref = ray.put("v")
    assert ray.get(ray.get(e.same.remote([ref]))[0]) == "v"


def test_actors_that_wait_cost_what_comes_after_them_nothing(ray, engine, gate):
    """Each later call once inspected each of them: 20,000 took 10 s."""
    if engine == "inline":
        pytest.skip("a task has run when remote() returns")

    @ray.remote
    def late(path):
        return open(path, "rb", 0).read(1)

    argument = late.remote(gate.path)
    begin = time.thread_time()
    actors = [Counter.remote(argument) for _ in range(20000)]
    calls = [a.get.remote() for a in actors]
    assert time.thread_time() - begin < 3
    for a in actors[1:]:
        ray.kill(a)
    gate.let_go()
    assert ray.get(calls[0]) == b"g"


def test_actors_that_want_a_worker_get_one_in_the_order_of_their_age(ray, engine, tmp_path):
    """The order does not depend on their resources, or on whose arguments were ready first."""
    if engine == "inline":
        pytest.skip("nothing waits in it")

    @ray.remote
    class Ages:
        def __init__(self, i, after):
            with open(tmp_path / "order", "a") as f:
                f.write(f"{i}\n")

    @ray.remote(num_cpus=0)
    def after(gate):
        return open(gate, "rb", 0).read(1)

    os.mkfifo(first := str(tmp_path / "first"))
    os.mkfifo(second := str(tmp_path / "second"))
    fds = [os.open(p, os.O_RDWR) for p in (first, second)]
    all_of_it = Ages.options(num_cpus=4).remote(-1, None)
    ray.get(all_of_it.__ray_ready__.remote())
    early, late = after.remote(first), after.remote(second)
    kept = [Ages.options(num_cpus=3 + i % 2).remote(i, late if i < 3 else early) for i in range(6)]
    os.write(fds[0], b"x")
    ray.wait([early])
    os.write(fds[1], b"x")
    ray.wait([late])
    del all_of_it
    for i in range(6):  # each one leaves room for one actor
        ray.get(kept[i].__ray_ready__.remote())
        ray.kill(kept[i])
    assert open(tmp_path / "order").read().split() == ["-1", *map(str, range(6))]
    for fd in fds:
        os.close(fd)
