"""Compiled graphs on the local engine: killed actors, owners that are actors themselves, memory
that must be freed, results that must stay. There are few rounds here, and more in a campaign
(SKATE_TEST_ROUNDS)."""

import gc
import os
import random
import signal

import numpy as np
import pytest
import rounds
import skate
from patience import eventually, stop
from skate import _skate, exceptions
from skate.dag import InputNode, MultiOutputNode

ROUNDS = rounds.rounds(3)


@skate.remote
class Actor:
    def __init__(self):
        self.kept = []

    def echo(self, x):
        return x

    def die_at(self, x):
        if x == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    def keep(self, x):
        self.kept.append(x)
        return len(self.kept)

    def sums(self):
        return [int(x.sum()) for x in self.kept]

    def pid(self, x=None):
        return os.getpid()

    def parent(self):
        return os.getppid()

    def ref_of(self, x):
        return [skate.put(x)]

    def value_of(self, refs):
        return skate.get(refs[0])


@skate.remote
class Owner:
    def __init__(self):
        self.actors = [Actor.remote() for _ in range(2)]
        with InputNode() as x:
            self.compiled = (
                self.actors[1].echo.bind(self.actors[0].echo.bind(x)).experimental_compile()
            )

    def call(self, x):
        return skate.get(self.compiled.execute(x))

    def promised(self, x):
        return [self.compiled.execute(x)]

    def handles(self):
        return self.actors

    def pid(self):
        return os.getpid()


@pytest.fixture
def ray():
    skate.shutdown()
    skate.init(
        num_cpus=4, object_store_memory=128 << 20, _system_config={"preload": "numpy,light_pytest"}
    )
    yield skate
    skate.shutdown()


def test_who_promised_a_result_dies(ray):
    owner = Owner.remote()
    a, b = ray.get(owner.handles.remote())
    assert ray.get(ray.get(owner.promised.remote(7))) == [7]
    big = ray.get(ray.get(owner.promised.remote(np.arange(1 << 18)))[0])
    pid = ray.get(a.pid.remote())
    stop(pid)
    try:
        (ref,) = ray.get(owner.promised.remote(8))
        later = b.echo.remote(ref)
        assert ray.wait([ref, later], timeout=0)[0] == []
        os.kill(ray.get(owner.pid.remote()), signal.SIGKILL)
        for r in (ref, later):
            with pytest.raises(exceptions.RayError, match="would have given this value died"):
                ray.get(r, timeout=20)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert int(big.sum()) == sum(range(1 << 18))


def chain(actors, method="echo", **kw):
    with InputNode() as x:
        node = x
        for a in actors:
            node = getattr(a, method).bind(node)
    return node.experimental_compile(**kw)


def test_a_killed_actor_is_named_and_the_others_live(ray):
    for _ in range(ROUNDS):
        actors = [Actor.remote() for _ in range(3)]
        pids = ray.get([a.pid.remote() for a in actors])
        compiled = chain(actors)
        victim = random.randrange(3)
        assert ray.get(compiled.execute(1)) == 1
        stop(pids[victim])  # an execution sent now is in progress when the actor dies
        ref = compiled.execute(2)
        os.kill(pids[victim], signal.SIGKILL)
        for ask in (lambda r=ref: ray.get(r), lambda c=compiled: ray.get(c.execute(3))):
            with pytest.raises(exceptions.ActorDiedError, match=r"(?s)class_name: Actor.*signal 9"):
                ask()
        others = [a for i, a in enumerate(actors) if i != victim]
        assert ray.get([a.echo.remote(5) for a in others]) == [5, 5]
        again = chain(others)
        assert ray.get(again.execute(6)) == 6
        compiled.teardown()
        again.teardown()
    assert _skate.Graph.living() == 0


def test_an_execution_after_a_kill_fails_however_long_the_process_lives(ray):
    actors = [Actor.remote() for _ in range(3)]
    with InputNode() as x:
        compiled = MultiOutputNode([a.echo.bind(x) for a in actors]).experimental_compile()
    assert ray.get(compiled.execute(1)) == [1, 1, 1]
    fork_server = ray.get(actors[0].parent.remote())
    stop(fork_server)  # the fork server kills processes, so the actor's process stays alive
    try:
        ray.kill(actors[0])
        refs = compiled.execute(2)  # as for a call of a dead actor, reading the reference raises
        for ref in refs:
            with pytest.raises(exceptions.ActorDiedError, match=r"killed by `ray.kill`"):
                ray.get(ref)
    finally:
        os.kill(fork_server, signal.SIGCONT)
    assert ray.get([a.echo.remote(3) for a in actors[1:]]) == [3, 3]
    compiled.teardown()
    eventually(lambda: _skate.Graph.living() == 0)


def test_it_dies_in_the_middle_of_a_method(ray):
    a, b = Actor.remote(), Actor.remote()
    compiled = chain([a, b], "die_at")
    refs = [compiled.execute(i) for i in range(3)]
    assert ray.get(refs[2]) == 2
    last = compiled.execute(3)
    with pytest.raises(exceptions.ActorDiedError):
        ray.get(last)
    assert ray.get(refs[:2]) == [0, 1]  # results that existed before stay
    later = compiled.execute(4)
    with pytest.raises(exceptions.ActorDiedError):
        ray.get(later)
    compiled.teardown()
    with pytest.raises(exceptions.RayChannelError):
        compiled.execute(1)
    assert ray.get(b.echo.remote(1)) == 1
    assert _skate.Graph.living() == 0


def test_an_actor_may_own_a_graph_and_its_death_ends_it(ray):
    owner = Owner.remote()
    for x in (1, "two", np.arange(1 << 17)):
        assert np.array_equal(ray.get(owner.call.remote(x)), x)
    assert _skate.Graph.living() == 1
    actors = ray.get(owner.handles.remote())
    os.kill(ray.get(owner.pid.remote()), signal.SIGKILL)
    eventually(lambda: _skate.Graph.living() == 0)
    assert ray.get([a.echo.remote(7) for a in actors]) == [7, 7]


def test_what_is_kept_stays_and_what_is_not_is_given_back(ray):
    a = Actor.remote()
    compiled = chain([a])
    arrays = [ray.get(compiled.execute(np.full(20_000, i))) for i in range(40)]
    compiled.teardown()
    del compiled
    other = chain([a])
    more = [ray.get(other.execute(np.full(20_000, -i))) for i in range(40)]
    assert [int(x[0]) for x in arrays] == list(range(40)) and all(
        (x == x[0]).all() for x in arrays + more
    )
    other.teardown()
    del other, arrays, more
    gc.collect()
    assert _skate.Graph.living() == 0


def test_an_actor_keeps_what_it_was_given(ray):
    a, b = Actor.remote(), Actor.remote()
    compiled = chain([a, b], "keep")
    for i in range(30):
        assert ray.get(compiled.execute(np.full(10_000, i))) == i + 1
    compiled.teardown()
    assert _skate.Graph.living() == 1  # the actor shows its messages
    other = chain([a])
    assert ray.get(other.execute(np.zeros(10_000))).sum() == 0
    other.teardown()
    assert ray.get(a.sums.remote()) == [i * 10_000 for i in range(30)]
    os.kill(ray.get(a.pid.remote()), signal.SIGKILL)
    eventually(lambda: _skate.Graph.living() == 0)


def test_references_inside_values(ray):
    a, b = Actor.remote(), Actor.remote()
    with InputNode() as x:
        compiled = b.value_of.bind(a.ref_of.bind(x)).experimental_compile()
    for i in range(6):
        assert ray.get(compiled.execute(i)) == i
    compiled.teardown()
    compiled = chain([a, b])
    for i in range(6):
        ref = ray.get(compiled.execute([ray.put(i)]))[0]
        gc.collect()
        assert ray.get(ref) == i
    compiled.teardown()


@pytest.mark.parametrize("value", [7, np.arange(100_000)], ids=["small", "large"])
def test_references_that_a_dead_actor_put_into_messages(ray, value):
    a = Actor.remote()
    with InputNode() as x:
        compiled = a.ref_of.bind(x).experimental_compile()
    unread, read = compiled.execute(value), ray.get(compiled.execute(value))
    os.kill(ray.get(a.pid.remote()), signal.SIGKILL)
    with pytest.raises(exceptions.ActorDiedError):
        ray.get(a.pid.remote())
    for message in (ray.get(unread), read):
        assert np.array_equal(ray.get(message[0]), value)
    compiled.teardown()


def test_compile_and_teardown_leave_nothing(ray):
    actors = [Actor.remote() for _ in range(2)]
    pids = ray.get([a.pid.remote() for a in actors])

    def rss():
        out = 0
        for p in [os.getpid(), *pids]:
            with open(f"/proc/{p}/statm") as f:
                out += int(f.read().split()[1]) * 4096
        return (
            out,
            sum(len(os.listdir(f"/proc/{p}/task")) for p in pids),
            len(os.listdir("/proc/self/fd")),
        )

    first = None
    for i in range(ROUNDS * 30):
        compiled = chain(actors)
        assert ray.get(compiled.execute(i)) == i
        compiled.teardown()
        if i == 20:
            first = rss()
    assert first is not None and _skate.Graph.living() == 0
    # The threads of loops end a little later than their seats become free, so they may still count
    # in the first measurement.
    eventually(lambda: rss()[1] <= first[1] and rss()[2] <= first[2])
    last = rss()
    assert last[0] - first[0] < (8 << 20) + ROUNDS * 2000


def test_the_engine_closes_under_a_graph(ray):
    a = Actor.remote()
    compiled = chain([a])
    array = ray.get(compiled.execute(np.arange(50_000)))
    ray.shutdown()
    assert array.sum() == np.arange(50_000).sum()
    with pytest.raises(exceptions.RayChannelError):
        compiled.execute(1)
    compiled.teardown()


def test_large_values_and_a_full_store(ray):
    a, b = Actor.remote(), Actor.remote()
    with InputNode() as x:
        compiled = MultiOutputNode(
            [b.echo.bind(a.echo.bind(x)), a.echo.bind(x)]
        ).experimental_compile()
    for n in (1, 1 << 20, 3, 16 << 20, 1 << 10, 24 << 20):
        one, two = ray.get(compiled.execute(np.full(n, 7, dtype=np.uint8)))
        assert len(one) == len(two) == n and one[-1] == two[0] == 7
        del one, two
    compiled.teardown()
