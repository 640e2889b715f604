"""Compiled graphs whose actors may restart: killed actors continue, the executions in progress are
replayed, and all results equal those of an undisturbed run. There are few rounds here, and more in
a campaign (SKATE_TEST_ROUNDS)."""

import contextlib
import gc
import os
import random
import signal
import threading

import numpy as np
import pytest
import rounds
import skate
from patience import eventually
from skate import _skate, exceptions
from skate.dag import InputNode, MultiOutputNode

ROUNDS = rounds.rounds(3)


class Plain:
    def echo(self, x):
        return x

    def twice(self, x):
        if x is None:
            raise ValueError("nothing to double")
        return x * 2

    def die_of(self, x, worst):
        if x == worst:
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    def die_once(self, x, path):
        with contextlib.suppress(FileExistsError):
            os.close(os.open(f"{path}/{x}", os.O_CREAT | os.O_EXCL))
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    def leave(self):
        skate.actor.exit_actor()

    def pid(self):
        return os.getpid()


class Sum(Plain):
    def __init__(self):
        self.sum = 0

    def add(self, x):
        self.sum += int(np.sum(x))
        return self.sum

    def value(self):
        return self.sum

    def __skate_checkpoint__(self):
        return self.sum

    def __skate_restore__(self, state):
        self.sum = state


class Picky(Sum):
    def __skate_checkpoint__(self):
        if self.sum == 3:
            raise RuntimeError("this state cannot be kept")
        return self.sum


Retried = skate.remote(max_restarts=-1, max_task_retries=-1)(Plain)
Counter = skate.remote(max_restarts=-1)(Sum)


@pytest.fixture(scope="module")
def ray():
    skate.shutdown()
    skate.init(
        num_cpus=4, object_store_memory=128 << 20, _system_config={"preload": "numpy,light_pytest"}
    )
    yield skate
    skate.shutdown()


def chain(calls, **kw):
    with InputNode() as x:
        node = x
        for method, *more in calls:
            node = method.bind(node, *more)
    return node.experimental_compile(**kw)


def kill(actor):
    os.kill(skate.get(actor.pid.options(max_task_retries=-1).remote()), signal.SIGKILL)


def dies(compiled, value, match="signal 9"):
    """Waits until the graph fails, since a killed actor may finish an execution before the graph
    notices the death."""
    with pytest.raises(exceptions.ActorDiedError, match=match):
        eventually(lambda: skate.get(compiled.execute(value), timeout=60) is None)


def test_whoever_is_killed_results_are_the_same(ray):
    a, b, c = Retried.remote(), Counter.remote(), Retried.remote()
    with InputNode() as x:
        y = a.twice.bind(x)
        compiled = MultiOutputNode(
            [y, b.add.bind(c.echo.bind(y)), b.add.bind(x)]
        ).experimental_compile(_max_inflight_executions=5)
    total, under_way, n_killed = 0, [], 0
    for i in range(ROUNDS * 40):
        value = np.full(random.choice([1, 3000]), i % 100)
        under_way.append(
            (
                2 * value,
                total + 2 * int(value.sum()),
                total + 3 * int(value.sum()),
                compiled.execute(value),
            )
        )
        total += 3 * int(value.sum())
        if random.random() < 0.1:
            kill(random.choice([a, b, c]))
            n_killed += 1
        while len(under_way) == 5 or (under_way and i == ROUNDS * 40 - 1):
            *want, refs = under_way.pop(0)
            got = ray.get(refs, timeout=60)
            assert np.array_equal(got[0], want[0]) and got[1:] == want[1:]
    kill(b)
    assert ray.get(compiled.execute(np.ones(1, int)), timeout=60)[2] == total + 3
    compiled.teardown()
    del compiled, refs, got
    gc.collect()
    assert _skate.Graph.living() == 0
    assert ray.get([a.echo.remote(1), c.echo.remote(2)]) == [1, 2]
    print(n_killed, "killed")


def test_errors_go_on_as_errors(ray):
    a, b = Retried.remote(), Retried.remote()
    compiled = chain([(a.twice,), (b.echo,)])
    for _ in range(ROUNDS):
        kill(random.choice([a, b]))
        with pytest.raises(ValueError, match="nothing to double"):
            ray.get(compiled.execute(None), timeout=60)
        assert ray.get(compiled.execute(4), timeout=60) == 8
    compiled.teardown()


def test_it_dies_again_while_it_replays(ray, tmp_path):
    a, b = Retried.remote(), Counter.remote()
    compiled = chain([(a.die_once, str(tmp_path)), (b.add,)], _max_inflight_executions=4)
    refs = [compiled.execute(i) for i in range(4)]  # each execution kills the actor once
    assert ray.get(refs, timeout=60) == [0, 1, 3, 6]
    compiled.teardown()


def test_an_execution_that_always_kills_comes_to_an_end(ray):
    a = Retried.options(max_task_retries=2).remote()
    compiled = chain([(a.die_of, 1)], _max_inflight_executions=3)
    refs = [compiled.execute(i) for i in range(3)]
    assert ray.get(refs[0], timeout=60) == 0
    with pytest.raises(
        exceptions.ActorDiedError,
        match=r"(?s)signal 9.*max_task_retries is 2, and 3 of its processes have died in execution 1",
    ):
        ray.get(refs[1], timeout=60)
    later = compiled.execute(3)
    with pytest.raises(exceptions.ActorDiedError):
        ray.get(later)
    compiled.teardown()
    assert ray.get(a.echo.remote(5)) == 5  # the actor has restarts left
    again = chain([(a.echo,)])
    assert ray.get(again.execute(6)) == 6
    again.teardown()
    assert _skate.Graph.living() == 0


def test_the_last_restart(ray):
    a = Retried.options(max_restarts=1).remote()
    compiled = chain([(a.twice,)])
    kill(a)
    assert ray.get(compiled.execute(3), timeout=60) == 6
    kill(a)
    dies(compiled, 3)
    compiled.teardown()
    assert _skate.Graph.living() == 0


@pytest.mark.parametrize(
    "given",
    [{"max_restarts": -1, "max_task_retries": 0}, {"max_restarts": 0, "max_task_retries": -1}],
)
def test_who_did_not_ask_for_it_is_not_replayed(ray, given):
    a = Retried.options(**given).remote()
    compiled = chain([(a.twice,)])
    assert ray.get(compiled.execute(3)) == 6
    kill(a)
    dies(compiled, 3)
    compiled.teardown()


def test_killed_by_name(ray):
    a, b = Retried.remote(), Counter.remote()
    compiled = chain([(a.echo,), (b.add,)])
    for i in range(4):
        assert ray.get(compiled.execute(1), timeout=60) == i + 1
        ray.kill(b, no_restart=False)
    ray.kill(a)
    dies(compiled, 1, r"ray\.kill")
    compiled.teardown()
    assert _skate.Graph.living() == 0


def test_an_actor_that_leaves_ends_the_graph(ray):
    a = Retried.remote()
    compiled = chain([(a.echo,)])
    a.leave.remote()
    dies(compiled, 1, "exit_actor|exited")
    compiled.teardown()
    assert _skate.Graph.living() == 0


def test_torn_down_before_its_next_process_is_there(ray):
    a = Retried.remote()
    for i in range(ROUNDS):
        compiled = chain([(a.echo,)])
        array = ray.get(compiled.execute(np.arange(5000)))
        kill(a)
        if i % 2:
            compiled.teardown()
        del compiled
        gc.collect()
        eventually(lambda: _skate.Graph.living() == 1)  # the array
        assert array.sum() == np.arange(5000).sum()
        del array
        # waits until the restarted actor is seen; its own begin() follows that of the dead process
        other = chain([(a.echo,)])
        assert ray.get(other.execute(i), timeout=60) == i
        other.teardown()
        del other
        gc.collect()
        eventually(lambda: _skate.Graph.living() == 0)
    eventually(lambda: not [t for t in threading.enumerate() if t.name == "skate-graph-crew"])


def test_two_graphs_of_one_actor(ray):
    a, b = Retried.remote(), Counter.remote()
    one, two = chain([(a.twice,)]), chain([(a.echo,), (a.twice,)])
    for i in range(ROUNDS):
        kill(a)
        assert ray.get([one.execute(i), two.execute(i)], timeout=60) == [2 * i, 2 * i]
    first = chain([(b.add,)])
    with pytest.raises(ValueError, match="one compiled graph at a time"):
        chain([(b.echo,)])
    assert ray.get(first.execute(2)) == 2
    first.teardown()
    second = chain([(b.add,)])  # continues from the state in which the first graph left the actor
    kill(b)
    assert ray.get(second.execute(3), timeout=60) == 5
    kill(b)
    assert ray.get(second.execute(3), timeout=60) == 8
    for g in (one, two, second):
        g.teardown()


def test_a_state_that_cannot_be_kept(ray):
    a = skate.remote(max_restarts=-1)(Picky).remote()
    compiled = chain([(a.add,)])
    assert ray.get(compiled.execute(1)) == 1
    ref = compiled.execute(2)
    # the value exists before the state is read
    with contextlib.suppress(exceptions.RayChannelError):
        assert ray.get(ref) == 3
    with pytest.raises(exceptions.RayChannelError, match="this state cannot be kept"):
        ray.get(compiled.execute(3), timeout=60)
    compiled.teardown()
    assert ray.get(a.value.remote()) == 3


def test_references_in_flight_are_the_owners(ray):
    a = Retried.remote()
    compiled = chain([(a.echo,)])
    for i in range(ROUNDS):
        kill(a)
        assert ray.get(ray.get(compiled.execute([ray.put(i)]), timeout=60)[0]) == i
    compiled.teardown()
