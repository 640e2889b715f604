"""await, futures and generators can be awaited: no thread blocks for them, and a program that
awaits uses no CPU."""

import asyncio
import concurrent.futures
import copy
import os
import threading

import pytest
from waits import wait_at, wait_until


def test_many_awaits(ray):
    @ray.remote
    def f(x):
        if x == 7:
            raise KeyError("seven")
        return x

    async def main():
        before = threading.active_count()
        refs = [f.remote(i) for i in range(1000)]
        got = await asyncio.gather(*refs, return_exceptions=True)
        assert threading.active_count() == before
        assert await refs[3] == 3  # a second await of a ready reference
        return got

    got = asyncio.run(main())
    assert isinstance(got[7], KeyError)
    assert [x for x in got if not isinstance(x, KeyError)] == [i for i in range(1000) if i != 7]


def test_await_in_two_loops_and_threads(ray):
    @ray.remote
    def f(x):
        return x

    results = []

    def run(i):
        async def main():
            return await asyncio.gather(*[f.remote(i * 100 + k) for k in range(50)])

        results.append((i, asyncio.run(main())))

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert sorted(results) == [(i, [i * 100 + k for k in range(50)]) for i in range(4)]


def test_stop_iteration_is_awaited(ray):
    @ray.remote
    def f():
        raise StopIteration("x")

    async def main():
        await f.remote()

    with pytest.raises(RuntimeError, match="StopIteration"):
        asyncio.run(main())


def test_futures_share_one_thread(ray):
    @ray.remote
    def f(x):
        return x

    refs = [f.remote(i) for i in range(300)]
    futures = [r.future() for r in refs]
    assert sorted(x.result(60) for x in concurrent.futures.as_completed(futures, 60)) == list(
        range(300)
    )
    assert sum(t.name == "skate-futures" for t in threading.enumerate()) == 1


def test_as_future_belongs_to_the_loop(ray):
    @ray.remote
    def f():
        return 5

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        future = f.remote().as_future()
        assert future.get_loop() is loop and loop.run_until_complete(future) == 5
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def test_shutdown_ends_what_is_awaited(fresh, gate):
    ray = fresh()
    if fresh.engine == "inline":
        pytest.skip("tasks run in the caller: nothing is ever awaited")
    path = gate.path

    @ray.remote
    def f():
        wait_at(path)

    future = f.remote().future()
    ray.shutdown()
    with pytest.raises(ray.exceptions.RaySystemError):
        future.result(60)


def test_awaiting_lends_the_cpu(fresh):
    ray = fresh(num_cpus=1)

    @ray.remote
    def f(x):
        return x

    @ray.remote
    def g():
        yield from range(3)

    @ray.remote
    def awaits():
        async def main():
            first = await f.remote(1)
            other = f.remote(5).future()
            second = ray.get(f.remote(2))  # while another reference is awaited
            return first + second + await asyncio.wrap_future(other)

        return asyncio.run(main())

    @ray.remote
    def waits():
        gens = [g.options(num_returns="streaming").remote() for _ in range(2)]
        refs = [f.remote(i) for i in range(3)]
        ready, rest = ray.wait([*gens, *refs], num_returns=5)
        return len(ready), rest, [ray.get(x) for x in gens[0]], ray.get(gens[1].completed())

    @ray.remote(num_cpus=1)
    class A:
        async def awaits(self):
            return await f.remote(3)

    assert ray.get(awaits.remote(), timeout=60) == 8
    assert ray.get(waits.remote(), timeout=60) == (5, [], [0, 1, 2], None)
    assert ray.get(A.remote().awaits.remote(), timeout=60) == 3


def test_completed(ray):
    @ray.remote(max_retries=0)
    def g(n, bad):
        yield from range(n)
        if bad:
            raise ValueError("the end")

    gen = g.options(num_returns="streaming").remote(3, False)
    end = gen.completed()
    assert end is gen.completed() is gen._generator_ref
    assert ray.get(end) is None and not gen.is_finished() and gen.next_ready()
    assert [ray.get(x) for x in gen] == [0, 1, 2]
    assert gen.is_finished() and not gen.next_ready()

    gen = g.options(num_returns="streaming").remote(2, False)
    assert [ray.get(x) for x in gen] == [0, 1]
    assert ray.get(gen.completed()) is None  # the call is made after everything has ended

    for early in (True, False):
        gen = g.options(num_returns="streaming").remote(1, True)
        end = gen.completed() if early else None
        assert ray.get(next(gen)) == 0
        last = next(gen)
        for ref in (last, end or gen.completed()):
            with pytest.raises(ValueError, match="the end"):
                ray.get(ref)


def test_completed_of_one_that_is_dropped(ray, engine, gate):
    if engine == "inline":
        pytest.skip("it has ended when it is asked for")
    path = gate.path

    @ray.remote(num_returns="streaming")
    def g():
        yield 1
        wait_at(path)
        yield 2

    gen = g.remote()
    ray.get(next(gen))
    end = gen.completed()
    assert ray.wait([end], timeout=0) == ([], [end])
    del gen
    gate.let_go()
    assert ray.get(end, timeout=60) is None  # the task has run to its end


def test_a_dropped_generator_runs_to_its_end(fresh, tmp_path):
    ray = fresh()

    @ray.remote(num_returns="streaming", _generator_backpressure_num_objects=1)
    def g(name):
        yield from range(5)
        (tmp_path / name).touch()

    gen = g.remote("a")  # it waits, because its window is full
    assert ray.get(next(gen)) == 0
    del gen
    g.remote("b")  # a generator that is never read
    other = ray.remote(lambda: None)
    wait_until(
        lambda: (
            ray.get(other.remote()) is None
            and (tmp_path / "a").exists()
            and (tmp_path / "b").exists()
        )
    )


def test_waiting_for_an_item_takes_none(fresh, tmp_path):
    ray = fresh()
    if fresh.engine == "inline":
        pytest.skip("no windows")
    folder = str(tmp_path)

    @ray.remote(num_returns="streaming", _generator_backpressure_num_objects=2)
    def g():
        for i in range(6):
            open(f"{folder}/{i}", "w").close()
            yield i

    @ray.remote
    def made():
        return len(os.listdir(folder))

    gen = g.remote()
    assert ray.wait([gen])[0] == [gen]
    assert gen.peek(1) == 1 and gen.next_ready()
    # the generator continues until its window is full
    wait_until(lambda: ray.get(made.remote()) >= 2)
    assert [ray.get(made.remote()) for _ in range(20)] == [2] * 20
    assert ray.get(next(gen)) == 0
    wait_until(lambda: ray.get(made.remote()) >= 3)
    assert [ray.get(x) for x in gen] == [1, 2, 3, 4, 5]


def test_watcher(ray, engine):
    from skate import _skate

    w = _skate.Watcher()
    ref = ray.put(1)
    assert w.add(ref, "a") is True and w.take() == [] and w.wait(0) is False
    with pytest.raises(TypeError):
        w.add(1, "b")
    with pytest.raises(ValueError):
        w.add(_skate.ObjectRef(b"x" * 28), "c")

    @ray.remote
    def f():
        return 1

    refs = [f.remote() for _ in range(20)]
    left = {i for i, r in enumerate(refs) if not w.add(r, i)}
    while left:
        assert w.wait(60)
        for what, tag in w.take():
            assert what == refs[tag]
            left.remove(tag)
    assert _skate.get_each(refs) == [(True, 1)] * 20
    with pytest.raises(TypeError):
        _skate.get_each([1])


def test_groups_of_an_async_actor_have_loops_of_their_own(fresh, gate):
    ray = fresh()
    if fresh.engine == "inline":
        pytest.skip("runs one call at a time")
    path = gate.path

    @ray.remote(concurrency_groups={"io": 2, "cpu": 1})
    class A:
        def __init__(self):
            self.thread = threading.get_ident()

        @ray.method(concurrency_group="io")
        async def blocks(self):
            wait_at(path)
            return threading.get_ident()

        @ray.method(concurrency_group="cpu")
        async def where(self):
            return threading.get_ident(), id(asyncio.get_running_loop())

        def plain(self):
            return threading.get_ident() == self.thread

        @ray.method(concurrency_group="cpu")
        async def leave(self):
            ray.actor.exit_actor()

    a = A.remote()
    blocked = a.blocks.remote()
    first = ray.get(a.where.remote(), timeout=60)
    assert ray.get([a.where.remote(), a.plain.remote()], timeout=60) == [first, True]
    gate.let_go()
    assert ray.get(blocked, timeout=60) != first[0]
    with pytest.raises(ray.exceptions.ActorDiedError, match="exit_actor"):
        ray.get(a.leave.remote(), timeout=60)


def test_an_actor_ends_itself(fresh, tmp_path):
    ray = fresh()
    if fresh.engine == "inline":
        pytest.skip("its process would be this one")
    left = str(tmp_path / "left")
    after = str(tmp_path / "after")

    @ray.remote
    class InConstructor:
        def __init__(self):
            import atexit

            atexit.register(lambda: open(left, "w").close())
            ray.actor.exit_actor()
            open(after, "w").close()

        def m(self):
            return 1

    @ray.remote
    class Later:
        def __init__(self):
            import atexit

            atexit.register(lambda: open(left, "w").close())

        async def start(self):
            self.task = asyncio.create_task(self.leave())

        async def leave(self):  # runs after the call that started it has ended
            await asyncio.sleep(0)
            ray.actor.exit_actor()
            open(after, "w").close()

        async def m(self):
            await asyncio.Event().wait()

    for cls in (InConstructor, Later):
        a = cls.remote()
        begun = a.m.remote()
        if cls is Later:
            ray.get(a.start.remote(), timeout=60)
        for call in (begun, a.m.remote()):
            with pytest.raises(ray.exceptions.ActorDiedError, match="exit_actor"):
                ray.get(call, timeout=60)
        # the actor's process ends in order
        wait_until(lambda: ray.get(ray.remote(os.getpid).remote()) and os.path.exists(left))
        assert not os.path.exists(after)
        os.remove(left)
    with pytest.raises(TypeError):
        ray.actor.exit_actor()


def test_max_pending_calls_is_exact(ray, engine, gate):
    path = gate.path

    @ray.remote(max_pending_calls=3)
    class A:
        def slow(self):
            wait_at(path)

        def fast(self):
            return 1

    @ray.remote
    def from_a_worker(a):
        refs = [a.fast.remote() for _ in range(3)]
        try:
            a.fast.remote()
        except skate.exceptions.PendingCallsLimitExceeded:
            return refs
        return None

    import skate

    a = A.remote()
    refs = [a.slow.remote() for _ in range(3)]
    for _ in range(5):
        with pytest.raises(ray.exceptions.PendingCallsLimitExceeded, match="3 calls"):
            a.fast.remote()
    if engine != "inline":
        theirs = ray.get(from_a_worker.remote(a), timeout=60)  # each process has its own limit
        assert len(theirs) == 3
    gate.let_go(3)
    ray.get(refs, timeout=60)
    assert ray.get([a.fast.remote() for _ in range(3)], timeout=60) == [1, 1, 1]


def test_callers_do_not_wait_for_each_others_arguments(fresh, gate):
    ray = fresh(num_cpus=4)
    if fresh.engine == "inline":
        pytest.skip("runs one call at a time")
    path = gate.path

    @ray.remote
    class A:
        def __init__(self):
            self.seen = []

        def f(self, x):
            self.seen.append(x)
            return list(self.seen)

    @ray.remote
    def slow():
        wait_at(path)
        return "slow"

    @ray.remote
    def caller(a, x):
        return ray.get(a.f.remote(x))

    a = A.remote()
    mine = [a.f.remote(slow.remote()), a.f.remote("behind it")]  # in the order of the calls
    assert ray.get(caller.remote(a, "theirs"), timeout=60) == ["theirs"]
    gate.let_go()
    assert ray.get(mine, timeout=60)[1] == ["theirs", "slow", "behind it"]


def test_kill_before_there_is_a_process_costs_a_restart(fresh):
    ray = fresh(num_cpus=1)
    if fresh.engine == "inline":
        pytest.skip("no processes")

    @ray.remote(num_cpus=1, max_task_retries=-1)
    class A:
        def m(self):
            return 1

    first = A.remote()
    ray.get(first.m.remote(), timeout=60)
    second = A.options(max_restarts=1).remote()  # waits for a CPU
    ray.kill(second, no_restart=False)
    ray.kill(first)
    assert ray.get(second.m.remote(), timeout=60) == 1
    ray.kill(second, no_restart=False)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(second.m.remote(), timeout=60)


def test_what_a_dead_worker_put_stays(ray, engine):
    """The driver owns every object, so no owner dies but the driver: see
    docs/design/ownership.md."""
    if engine == "inline":
        pytest.skip("no processes")

    @ray.remote
    class A:
        def put(self, n):
            return [ray.put(b"x" * n)]

    a = A.remote()
    refs = [ray.get(a.put.remote(n), timeout=60)[0] for n in (10, 100_000)]
    ray.kill(a)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(a.put.remote(1), timeout=60)
    assert [len(ray.get(r, timeout=60)) for r in refs] == [10, 100_000]


def test_reference_counts(fresh):
    ray = fresh()
    from skate._private.worker import global_worker

    counts = global_worker.core_worker.get_all_reference_counts
    if fresh.engine == "inline":
        with pytest.raises(NotImplementedError):
            counts()
        return
    assert counts() == {}
    ref = ray.put(1)
    outer = ray.put([ref])
    assert counts()[ref.hex().encode()] == {
        "local": 1,
        "submitted": 1,
    } and global_worker.core_worker.object_exists(ref)
    assert counts()[outer.hex().encode()] == {"local": 1, "submitted": 0}
    again = copy.copy(ref)
    assert again == ref and counts()[ref.hex().encode()]["local"] == 2
    del outer, again
    assert counts() == {ref.hex().encode(): {"local": 1, "submitted": 0}}
    del ref
    assert counts() == {}
