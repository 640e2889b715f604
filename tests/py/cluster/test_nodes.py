"""The engine `cluster` from Python: two nodes that are processes of this machine."""

import asyncio
import contextlib
import os
import sys
import threading

import numpy as np
import pytest
import skate
import skate.util.queue
import skate.util.scheduling_strategies
from engine.waits import wait_at, wait_until


@pytest.fixture(scope="module", autouse=True)
def nodes():
    skate.shutdown()
    skate.init(num_cpus=2, resources={"first": 10}, _system_config={"nodes": 2})
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

    def unpack(self):
        return skate.get(self.x[0])

    def inner(self):
        return [skate.put(1)]


@skate.remote
class Dies:
    def get(self):
        return 1

    def pid(self):
        return os.getpid()


# ---- references ----


def test_a_reference_is_an_argument_of_its_own():
    ref = skate.put(5)
    assert skate.get(same.remote(ref)) == 5
    assert skate.get(Keeper.remote(ref).get.remote()) == 5


@skate.remote
def get(box):
    return skate.get(box[0])


@skate.remote
class Counter:
    def __init__(self):
        self.n = 0

    def add(self, k=1):
        self.n += k
        return self.n

    def call(self, other, k):
        return skate.get(other.add.remote(k))


@pytest.fixture
def places():
    """Options that put a task, or an actor, on the first node and on the second."""
    busy = Counter.options(num_cpus=1, resources={"first": 1}).remote()
    skate.get(busy.add.remote())
    yield {"num_cpus": 0, "resources": {"first": 1}}, {"num_cpus": 1}
    skate.kill(busy)


def test_references_inside_arguments(places):
    for x in (5, b"x" * 20_000, np.arange(100_000)):
        ref = skate.put(x)
        for where in places:
            assert np.all(skate.get(get.options(**where).remote([ref])) == x)
            assert np.all(skate.get(get.options(**where).remote(skate.put([ref]))) == x)
        assert np.all(skate.get(Keeper.remote([ref]).unpack.remote()) == x)


def test_references_in_closures_and_globals(places):
    ref, counter = skate.put(5), Counter.remote()

    @skate.remote
    def f():
        return skate.get(ref) + skate.get(counter.add.remote())

    assert sorted(skate.get([f.options(**where).remote() for where in places])) == [6, 7]


def test_references_inside_results(places):
    @skate.remote
    def small():
        return [skate.put(7)]

    @skate.remote(num_returns=2)
    def large():
        return 1, [skate.put(np.arange(100_000)), b"x" * 100_000]

    here, there = places
    (ref,) = skate.get(small.options(**here).remote())
    assert skate.get(ref) == 7
    assert skate.get(get.options(**there).remote([ref])) == 7
    assert skate.get(same.options(**there).remote(ref)) == 7
    one, box = large.options(**here).remote()
    assert skate.get(one) == 1
    assert skate.get(get.options(**there).remote(box))[-1] == 99_999
    ref, data = skate.get(box)
    assert skate.get(ref)[-1] == 99_999
    assert len(data) == 100_000
    (ref,) = skate.get(Keeper.remote().inner.remote())
    assert skate.get(ref) == 1


def test_nested_tasks_return_references(places):
    @skate.remote
    def outer(x):
        mine, its = same.options(num_cpus=0), get.options(num_cpus=0)  # the node may be full
        return [mine.remote(x), its.remote([mine.remote(x)])]

    for where in places:
        refs = skate.get(outer.options(**where).remote(4))
        assert skate.get(refs) == [4, 4]
        assert skate.get([get.options(**w).remote([refs[0]]) for w in places]) == [4, 4]


def test_nested_tasks_go_to_a_node_that_has_what_they_need(places):
    @skate.remote(num_cpus=0, resources={"first": 2}, num_returns=2)
    def inner(x, box):
        return x[-1] + skate.get(box[0]), np.arange(len(x))

    @skate.remote
    def outer(n):
        box = [skate.put(1)]
        one, array = skate.get(inner.remote(np.arange(n), box))
        later = inner.options(runtime_env={"env_vars": {"A": "1"}}).remote(skate.put([5]), box)
        return one, array[-1], later[0]

    for where in places:
        one, last, later = skate.get(outer.options(**where).remote(100_000))
        assert (one, last) == (100_000, 99_999)
        assert skate.get(later) == 6

    @skate.remote(num_cpus=0, resources={"first": 1}, max_retries=0)
    def fails(x):
        raise ValueError(f"no {x}")

    @skate.remote
    def tries():
        return skate.get(fails.remote(3))

    for where in places:
        with pytest.raises(ValueError, match="no 3"):
            skate.get(tries.options(**where).remote())


def test_nested_tasks_go_to_another_node_while_theirs_is_busy(tmp_path):
    @skate.remote
    def inner(i, x):
        node = skate.get_runtime_context().get_node_id()
        (tmp_path / node).touch()
        wait_until(lambda: len(os.listdir(tmp_path)) == 2)  # it keeps its CPU
        return i + x[-1], node

    @skate.remote
    def outer():
        x = skate.put(np.zeros(100_000, "i8"))
        return skate.get([inner.remote(i, x) for i in range(20)])

    got = skate.get(outer.remote())
    assert [i for i, _ in got] == list(range(20))
    assert len({node for _, node in got}) == 2

    @skate.remote
    def stays():
        node = skate.get_runtime_context().get_node_id()
        here = skate.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)
        pinned = inner.options(scheduling_strategy=here)
        return {node} == {n for _, n in skate.get([pinned.remote(i, [0]) for i in range(20)])}

    assert skate.get(stays.remote())


def test_actors_of_tasks_go_to_a_node_that_has_what_they_need(places):
    far = Keeper.options(num_cpus=0, resources={"first": 2})

    @skate.remote
    def makes(**options):
        actor = far.options(**options).remote([skate.put(7)])
        return skate.get(actor.unpack.remote()), actor

    for where in places:
        value, actor = skate.get(makes.options(**where).remote())
        assert value == skate.get(actor.unpack.remote()) == 7
        value, again = skate.get(makes.options(**where).remote(name="far", get_if_exists=True))
        assert skate.get(skate.get_actor("far").unpack.remote()) == 7
        with pytest.raises(ValueError, match="far"):
            skate.get(makes.options(**where).remote(name="far"))
        skate.kill(again)
        wait_until(lambda: skate.util.list_named_actors() == [])
        del actor
        wait_until(lambda: skate.available_resources()["first"] == 9)  # `places` has one

    @skate.remote
    def cannot():
        return skate.get(far.options(resources={"first": 11}).remote().get.remote())

    for where in places:
        with pytest.raises(skate.exceptions.TaskUnschedulableError, match="Keeper .* 11 first"):
            skate.get(cannot.options(**where).remote())


def test_a_nested_task_elsewhere_is_cancelled_with_its_parent(places, tmp_path):
    os.mkfifo(path := str(tmp_path / "gate"))

    @skate.remote(num_cpus=0, resources={"first": 1})
    def waits():
        wait_at(path)

    @skate.remote
    def outer():
        return skate.get(waits.remote())

    with open(path, "r+b", 0) as fifo:
        ref = outer.options(**places[1]).remote()
        wait_until(lambda: skate.available_resources()["first"] == 8)  # `places` has one, too
        skate.cancel(ref, recursive=True)
        with pytest.raises(skate.exceptions.TaskCancelledError):
            skate.get(ref)
        wait_until(lambda: skate.available_resources()["first"] == 9)
        fifo.write(b"g")


def test_an_actor_of_the_driver_is_called_in_tasks(places):
    @skate.remote
    def count(counter, k):
        refs = [counter.add.remote(k) for _ in range(10)]
        return skate.get(refs)[-1], refs

    counter = Counter.remote()
    here, there = places
    last, refs = skate.get(count.options(**here).remote(counter, 1))
    assert last == 10
    assert skate.get(refs) == list(range(1, 11))
    assert skate.get(count.options(**there).remote(counter, 1))[0] == 20
    assert skate.get(counter.add.remote()) == 21


def test_handles_of_actors_travel(places):
    @skate.remote
    def make():
        return Counter.remote()

    here, there = places
    counter = skate.get(make.options(**here).remote())
    assert skate.get(counter.add.remote(5)) == 5
    assert skate.get(counter.add.remote(skate.put(5))) == 10
    other = Counter.remote()
    assert skate.get(other.call.remote(counter, 1)) == 11  # through an actor
    assert skate.get(counter.call.remote(other, 2)) == 2
    keeper = Keeper.options(**there).remote(counter)
    again = skate.get(keeper.get.remote())
    assert skate.get(again.add.remote()) == 12
    skate.kill(counter)
    with pytest.raises(skate.exceptions.RayActorError):
        skate.get(again.add.remote())


def test_a_queue_is_shared(places):
    queue = skate.util.queue.Queue(maxsize=3)

    @skate.remote
    def produce(queue, n):
        for i in range(n):
            queue.put(i)

    @skate.remote
    def consume(queue, n):
        return [queue.get() for _ in range(n)]

    here, there = places
    done = produce.options(**here).remote(queue, 20)
    assert skate.get(consume.options(**there).remote(queue, 20)) == list(range(20))
    skate.get(done)
    queue.put("x")
    assert queue.get() == "x"


def test_a_reference_that_nobody_counts_is_never_another_object():
    """One in an exception is not counted, so its object may be gone."""
    kept = [skate.put(i) for i in range(50)]

    @skate.remote
    def fails():
        raise ValueError([skate.put(-i) for i in range(50)])

    with pytest.raises(ValueError) as e:
        skate.get(fails.remote())
    for i, ref in enumerate(e.value.cause.args[0]):
        with contextlib.suppress(skate.exceptions.ObjectLostError):
            assert skate.get(ref) == -i
    assert skate.get(kept) == list(range(50))


# ---- options of actors ----


def test_calls_of_an_actor_run_at_once():
    @skate.remote(max_concurrency=3, concurrency_groups={"io": 2})
    class Meets:
        def __init__(self):
            self.all, self.io = threading.Barrier(3), threading.Barrier(2)

        def meet(self):
            return self.all.wait(30) >= 0

        @skate.method(concurrency_group="io")
        def meet_io(self):
            return self.io.wait(30) >= 0

    a = Meets.remote()
    assert skate.get([a.meet.remote() for _ in range(6)]) == [True] * 6
    assert skate.get([a.meet_io.remote() for _ in range(4)]) == [True] * 4


def test_async_actor():
    @skate.remote
    class Async:
        def __init__(self):
            self.event = asyncio.Event()

        async def wait(self):
            await self.event.wait()
            return "set"

        async def set(self):
            self.event.set()

    a = Async.remote()
    waits = [a.wait.remote() for _ in range(20)]
    skate.get(a.set.remote())
    assert skate.get(waits) == ["set"] * 20


def test_calls_are_retried_when_their_actor_starts_again(tmp_path):
    @skate.remote(max_restarts=1, max_task_retries=1)
    class Dies:
        def die_once(self, path):
            if not os.path.exists(path):
                open(path, "w").close()
                os.kill(os.getpid(), 9)
            return "lives"

    @skate.remote(max_restarts=1)
    class DiesForGood:
        def die(self):
            os.kill(os.getpid(), 9)

        def get(self):
            return 1

    assert skate.get(Dies.remote().die_once.remote(str(tmp_path / "died"))) == "lives"
    a = DiesForGood.remote()
    with pytest.raises(skate.exceptions.RayActorError):
        skate.get(a.die.remote())


def test_max_pending_calls():
    @skate.remote(max_pending_calls=2)
    class Slow:
        async def wait(self):
            await asyncio.Event().wait()

    a = Slow.remote()
    kept = [a.wait.remote() for _ in range(2)]
    with pytest.raises(skate.exceptions.PendingCallsLimitExceeded):
        a.wait.remote()
    for ref in kept:
        skate.cancel(ref)
        with pytest.raises((skate.exceptions.TaskCancelledError, skate.exceptions.RayTaskError)):
            skate.get(ref)


# ---- generators, and results that are awaited ----


def test_awaiting_results_does_not_hold_the_loop():
    @skate.remote
    class Gate:
        def __init__(self):
            self.event = asyncio.Event()

        async def wait(self):
            await self.event.wait()
            return "open"

        async def open(self):
            self.event.set()

    async def main():
        gate = Gate.remote()
        waits = [asyncio.ensure_future(awaited(gate.wait.remote())) for _ in range(3)]
        await asyncio.sleep(0)  # each has begun to wait
        await gate.open.remote()
        assert await asyncio.gather(*waits) == ["open"] * 3

        @skate.remote
        def upto(n):
            yield from range(n)

        return [await ref async for ref in upto.remote(3)]

    async def awaited(ref):
        return await ref

    assert asyncio.run(main()) == [0, 1, 2]


# ---- ids ----


def test_ids_are_the_same_in_a_task_and_outside(places):
    """Of tasks and actors, whoever submits or makes them, and wherever they run."""

    @skate.remote(num_cpus=0)
    def task():
        return skate.get_runtime_context().get_task_id()

    @skate.remote(num_cpus=0)
    class Actor:
        def ids(self):
            c = skate.get_runtime_context()
            return c.get_task_id(), c.get_actor_id()

        def me(self):
            return skate.get_runtime_context().current_actor

    far = {"resources": {"first": 1}}  # what the second node cannot run

    @skate.remote
    def inside(actor):
        own = skate.get_runtime_context().get_task_id()
        made = [Actor.remote(), Actor.options(**far).remote(), actor]
        out = []
        for ref in (task.remote(), task.options(**far).remote()):
            out.append((ref.task_id().hex(), skate.get(ref)))
        for a in made:
            ref = a.ids.remote()
            out.append(((ref.task_id().hex(), a._actor_id.hex()), skate.get(ref)))
        return own, out, made

    for where in places:
        actor = Actor.remote()
        ref = inside.options(**where).remote(actor)
        own, pairs, made = skate.get(ref)
        assert own == ref.task_id().hex()
        for outside, within in pairs:
            assert outside == within
        for a in [actor, *made]:
            ref = a.ids.remote()
            assert skate.get(ref) == (ref.task_id().hex(), a._actor_id.hex())
            itself = skate.get(a.me.remote())
            assert itself._actor_id == a._actor_id
            assert skate.get(itself.ids.remote())[1] == a._actor_id.hex()


@skate.remote(num_cpus=0)
class Yields:
    @skate.method(num_returns="streaming")
    def gen(self, n, size=0, fails=False):
        for i in range(n):
            yield np.full(size, i) if size else i
        if fails:
            raise ValueError("no more")


def test_generators_of_actors_that_live_elsewhere(places):
    @skate.remote
    def makes():
        return Yields.remote()

    @skate.remote
    def reads(actor, *args):
        return [int(np.max(skate.get(r))) for r in actor.gen.remote(*args)]

    @skate.remote
    def awaits(actor, n):
        async def all_of_it():
            return [await r async for r in actor.gen.remote(n)]

        return asyncio.run(all_of_it())

    @skate.remote
    def some(actor):
        refs = [r for r, _ in zip(actor.gen.remote(50, 20_000), range(3), strict=False)]
        return refs, skate.put(1)

    actors = [Yields.remote(), *skate.get([makes.options(**w).remote() for w in places])]
    for actor in actors:
        assert [skate.get(r) for r in actor.gen.remote(4)] == [0, 1, 2, 3]
        assert [int(skate.get(r)[-1]) for r in actor.gen.remote(3, 20_000)] == [0, 1, 2]
        failing = actor.gen.remote(1, 0, True)
        assert skate.get(next(failing)) == 0
        with pytest.raises(ValueError, match="no more"):
            skate.get(next(failing))
        for where in places:
            assert skate.get(reads.options(**where).remote(actor, 5)) == list(range(5))
            assert skate.get(reads.options(**where).remote(actor, 5, 20_000)) == list(range(5))
            with pytest.raises(ValueError, match="no more"):
                skate.get(reads.options(**where).remote(actor, 2, 0, True))
            assert skate.get(awaits.options(**where).remote(actor, 5)) == list(range(5))
            refs, _ = skate.get(some.options(**where).remote(actor))
            assert [int(skate.get(r)[0]) for r in refs] == [0, 1, 2]
            assert skate.get(same.options(**where).remote(refs[2]))[0] == 2


def test_a_generator_that_a_task_submits_for_another_node(places):
    @skate.remote(num_cpus=0, resources={"first": 1}, num_returns="streaming")
    def gen(n):
        for i in range(n):
            yield np.full(10_000, i)

    @skate.remote
    def reads(n):
        return [int(skate.get(r)[0]) for r in gen.remote(n)]

    for where in places:
        assert skate.get(reads.options(**where).remote(6)) == list(range(6))


def test_a_generator_elsewhere_waits_for_its_reader(places):
    @skate.remote(num_cpus=0)
    class Counts:
        def __init__(self):
            self.n = self.seen = 0

        def add(self, k):
            self.n += k
            self.seen = max(self.seen, self.n)

        def most(self):
            return self.seen

    @skate.remote(num_cpus=0)
    class Slow:
        @skate.method(num_returns="streaming", _generator_backpressure_num_objects=2)
        def gen(self, n, counts):
            for i in range(n):
                skate.get(counts.add.remote(1))
                yield i

    @skate.remote
    def reads(actor, counts):
        out = []
        for r in actor.gen.remote(20, counts):
            out.append(skate.get(r))
            skate.get(counts.add.remote(-1))
        return out

    actor = Slow.remote()
    for where in places:
        counts = Counts.remote()
        assert skate.get(reads.options(**where).remote(actor, counts)) == list(range(20))
        assert skate.get(counts.most.remote()) <= 5


def test_generators_of_tasks_and_actors():
    @skate.remote
    def upto(n, size=1):
        for i in range(n):
            yield bytes([i]) * size

    @skate.remote
    class Upto:
        def upto(self, n):
            yield from range(n)

        async def upto_async(self, n):
            for i in range(n):
                yield i

    for size in (1, 100_000):
        assert [skate.get(r) for r in upto.remote(5, size)] == [bytes([i]) * size for i in range(5)]
    a = Upto.remote()
    assert [skate.get(r) for r in a.upto.remote(4)] == [0, 1, 2, 3]
    assert [skate.get(r) for r in a.upto_async.remote(4)] == [0, 1, 2, 3]
    g = upto.remote(3)
    assert skate.get(g.completed()) is None
    assert len(list(g)) == 3
    first = next(upto.remote(1000, 10_000))  # the others are dropped with their generator
    assert skate.get(first) == bytes(10_000)


def test_a_generator_waits_for_its_reader(tmp_path):
    @skate.remote(num_returns="streaming", _generator_backpressure_num_objects=2)
    def upto(folder, n, after=None):
        for i in range(n):
            open(f"{folder}/{i}", "w").close()
            yield i

    @skate.remote
    def made(folder):
        return len(os.listdir(folder))

    g = upto.remote(str(tmp_path), 7)
    wait_until(lambda: skate.get(made.remote(str(tmp_path))) >= 2)
    assert [skate.get(made.remote(str(tmp_path))) for _ in range(20)] == [2] * 20
    assert skate.get(next(g)) == 0
    wait_until(lambda: skate.get(made.remote(str(tmp_path))) == 3)
    assert [skate.get(made.remote(str(tmp_path))) for _ in range(20)] == [3] * 20
    assert [skate.get(r) for r in g] == list(range(1, 7))
    other = tmp_path / "dropped"
    other.mkdir()
    g = upto.remote(str(other), 7)
    assert skate.get(next(g)) == 0
    del g  # the task runs to its end
    wait_until(lambda: len(os.listdir(other)) == 7)
    later = tmp_path / "later"
    later.mkdir()
    os.mkfifo(tmp_path / "gate")
    g = upto.remote(str(later), 7, skate.remote(wait_at).remote(str(tmp_path / "gate")))
    del g  # before the task can begin
    with open(tmp_path / "gate", "wb") as gate:
        gate.write(b"g")
    wait_until(lambda: len(os.listdir(later)) == 7)


def test_references_in_yields():
    @skate.remote
    def yields():
        yield 1
        yield [skate.put(2)]
        yield [skate.put(b"x" * 100_000)]

    first, second, third = yields.remote()
    assert skate.get(first) == 1
    assert skate.get(skate.get(second)[0]) == 2
    assert len(skate.get(skate.get(third)[0])) == 100_000


# ---- environments ----


def test_a_task_and_an_actor_have_environments():
    @skate.remote
    def env():
        return os.environ.get("MARK")

    @skate.remote
    class Env:
        def env(self):
            return os.environ.get("MARK")

    marked = {"env_vars": {"MARK": "here"}}
    refs = []
    for _ in range(8):
        refs += [env.remote(), env.options(runtime_env=marked).remote()]
    assert skate.get(refs) == [None, "here"] * 8
    assert skate.get(Env.options(runtime_env=marked).remote().env.remote()) == "here"


# ---- names of actors ----


def test_actors_have_names_in_the_driver():
    with pytest.raises(ValueError, match="Failed to look up actor"):
        skate.get_actor("keeper")
    a = Keeper.options(name="keeper").remote(1)
    assert skate.get(skate.get_actor("keeper").get.remote()) == 1
    assert skate.util.list_named_actors() == ["keeper"]
    same_one = Keeper.options(name="keeper", get_if_exists=True).remote(2)
    assert skate.get(same_one.get.remote()) == 1
    with pytest.raises(ValueError, match="keeper"):
        Keeper.options(name="keeper").remote()
    Keeper.options(name="keeper", namespace="other", lifetime="detached").remote(3)
    assert skate.get(skate.get_actor("keeper", namespace="other").get.remote()) == 3
    skate.kill(skate.get_actor("keeper", namespace="other"))
    with pytest.raises(ValueError):
        skate.get_actor("keeper", namespace="other")
    del a, same_one
    with pytest.raises(ValueError):
        skate.get_actor("keeper")


def test_actors_have_names_on_nodes():
    """The driver keeps all names: each node finds, lists and gives them."""
    here = Keeper.options(name="here").remote(1)

    @skate.remote
    def finds(name):
        return skate.get(skate.get_actor(name).get.remote())

    @skate.remote
    def lists():
        return skate.util.list_named_actors()

    @skate.remote
    class Gives:
        def give(self, name, x, **options):
            actor = Keeper.options(name=name, **options).remote(x)
            self.actors = [*getattr(self, "actors", []), actor]
            return skate.get(actor.get.remote())

    assert set(skate.get([finds.remote("here") for _ in range(20)])) == {1}
    with pytest.raises(ValueError, match="Failed to look up actor with name 'nobody'"):
        skate.get(finds.remote("nobody"))
    gives = Gives.remote()
    assert skate.get(gives.give.remote("there", 2)) == 2
    assert set(skate.get([finds.remote("there") for _ in range(20)])) == {2}
    assert skate.get(skate.get_actor("there").get.remote()) == 2
    assert (
        set(skate.get(lists.remote())) == {"here", "there"} == set(skate.util.list_named_actors())
    )
    with pytest.raises(ValueError, match="here"):
        skate.get(gives.give.remote("here", 3))
    assert skate.get(gives.give.remote("here", 3, get_if_exists=True)) == 1
    del here
    skate.kill(skate.get_actor("there"))
    skate.kill(gives)
    wait_until(lambda: skate.util.list_named_actors() == [])


def test_the_name_of_an_actor_that_died_is_free():
    """Nobody calls the actor any more, so no call says that it is dead."""
    a = Dies.options(name="gone").remote()
    assert skate.get(a.get.remote()) == 1
    os.kill(skate.get(a.pid.remote()), 9)
    wait_until(lambda: skate.util.list_named_actors() == [])
    b = Dies.options(name="gone").remote()
    assert skate.get(b.get.remote()) == 1
    with pytest.raises(skate.exceptions.ActorDiedError):
        skate.get(a.get.remote())


def test_an_actor_that_starts_again_keeps_its_name():
    a = Dies.options(name="again", max_restarts=1, max_task_retries=-1).remote()
    first = skate.get(a.pid.remote())
    os.kill(first, 9)
    assert skate.get(a.pid.remote()) != first
    assert skate.util.list_named_actors() == ["again"]


def test_an_actor_whose_handles_go_ends_in_order(tmp_path):
    note = tmp_path / "note"

    @skate.remote
    class Notes:
        def get(self):
            return 1

        def __ray_shutdown__(self):
            note.write_text("shut down")

    a = Notes.remote()
    assert skate.get(a.get.remote()) == 1
    del a
    wait_until(lambda: note.exists() and note.read_text() == "shut down")


def test_a_kill_before_there_is_a_process_costs_a_restart():
    kept = [Dies.options(num_cpus=1).remote() for _ in range(2)]
    assert skate.get([k.get.remote() for k in kept]) == [1, 1]
    waits = [Dies.options(num_cpus=1, max_restarts=n).remote() for n in (0, 1)]
    for a in waits:
        skate.kill(a, no_restart=False)
    with pytest.raises(skate.exceptions.ActorDiedError):
        skate.get(waits[0].get.remote())
    skate.kill(kept[0])
    assert skate.get(waits[1].get.remote()) == 1
    os.kill(skate.get(waits[1].pid.remote()), 9)
    with pytest.raises(skate.exceptions.ActorDiedError):
        skate.get(waits[1].get.remote())


# ---- what is free ----


def test_an_actor_takes_its_resources_until_it_is_dead():
    wait_until(lambda: skate.available_resources().get("CPU") == 2)
    a = Dies.options(num_cpus=1).remote()
    assert skate.get(a.get.remote()) == 1
    assert skate.available_resources()["CPU"] == 1
    os.kill(skate.get(a.pid.remote()), 9)
    wait_until(lambda: skate.available_resources()["CPU"] == 2)
    # the driver itself counts on that, too
    kept = [Dies.options(num_cpus=1).remote() for _ in range(2)]
    assert skate.get([k.get.remote() for k in kept]) == [1, 1]


# ---- prints ----


def test_prints_are_there_when_get_returns(capsys):
    @skate.remote
    def says(i):
        print("said", i)
        print("an error", i, file=sys.stderr)
        return i

    for i in range(20):
        assert skate.get(says.remote(i)) == i
        out, err = capsys.readouterr()
        assert out.endswith(f") said {i}\n") and err.endswith(f") an error {i}\n")


# ---- GPUs ----


def test_each_node_has_gpus_of_its_own():
    @skate.remote(num_gpus=1, num_cpus=0)
    class Sees:
        def sees(self):
            return os.environ["CUDA_VISIBLE_DEVICES"]

    skate.shutdown()
    skate.init(num_cpus=2, num_gpus=2, _system_config={"nodes": 2})
    actors = [Sees.remote() for _ in range(2)]
    assert sorted(skate.get([a.sees.remote() for a in actors])) == ["0", "1"]
    del actors
    skate.shutdown()
    skate.init(num_cpus=2, _system_config={"nodes": 2})
