"""Random compiled graphs (branches, fan-in, several on the same actors, values of 0 bytes to 64 MB,
errors, kills) compared with the same functions called directly: the results are equal, or report
the death of a killed actor; if the actor restarts, the results are equal all the same. No graph
hangs, and nothing is left."""

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
from skate import _skate, exceptions
from skate.dag import DAGContext, InputNode, MultiOutputNode

GRAPHS = rounds.rounds(20)
SIZES = [0, 1, 8, 100, 5000, 8191, 8193, 70_000, 300_000]
LARGE = [1 << 20, 5 << 20]
PATIENCE = 120.0


def step(k, *values):
    """The function of a node; raises an exception for some values."""
    first = values[0]
    if first.size and (int(first[0]) + k) % 11 == 0:
        raise ValueError(k, int(first[0]))
    out = first[: max(first.size - k % 3, 0)] if k % 5 else first.copy()
    add = (k + sum(int(v[-1]) + v.size for v in values[1:] if v.size)) % 256
    return out + np.uint8(add)


@skate.remote
class Actor:
    def run(self, k, *values):
        return step(k, *values)

    def pid(self):
        return os.getpid()


class Graph:
    """A random graph: nodes are (actor, k, arguments); an argument of -1 is the input."""

    def __init__(self, rng, actors):
        self.rng, self.nodes = rng, []
        for i in range(rng.randint(1, 8)):
            picked = [rng.randrange(-1, i) for _ in range(rng.choice([1, 1, 1, 2, 3]))]
            self.nodes.append((rng.choice(actors), rng.randrange(100), picked))
        used = {a for _, _, picked in self.nodes for a in picked}
        self.ends = [i for i in range(len(self.nodes)) if i not in used]
        with InputNode() as x:
            made = {-1: x}
            for i, (actor, k, picked) in enumerate(self.nodes):
                made[i] = actor.run.bind(k, *(made[a] for a in picked))
            root = MultiOutputNode([made[i] for i in self.ends])
        self.compiled = root.experimental_compile(
            _max_inflight_executions=rng.randint(1, 4),
            _overlap_gpu_communication=rng.random() < 0.3,
            _submit_timeout=PATIENCE,
        )
        self.under_way = []

    def expected(self, value):
        made = {-1: value}
        for i, (_, k, picked) in enumerate(self.nodes):
            failed = next((made[a] for a in picked if isinstance(made[a], Exception)), None)
            if failed is not None:
                made[i] = failed
                continue
            try:
                made[i] = step(k, *(made[a] for a in picked))
            except ValueError as e:
                made[i] = e
        return [made[i] for i in self.ends]

    def execute(self, large):
        size = self.rng.choice(SIZES)
        if self.rng.random() < 0.02:
            size = self.rng.choice(LARGE)
        if large:
            size = 64 << 20
        value = np.full(size, self.rng.randrange(256), np.uint8)
        if len(self.under_way) == self.compiled._max_inflight_executions:
            self.take()
        self.under_way.append((value, self.compiled.execute(value)))

    def take(self):
        value, refs = self.under_way.pop(self.rng.randrange(len(self.under_way)))
        for ref, want in zip(refs, self.expected(value), strict=True):
            try:
                got = skate.get(ref, timeout=PATIENCE)
            except ValueError as e:
                assert (
                    isinstance(want, ValueError)
                    and e.args == want.args
                    or repr(e.cause) == repr(want)
                )  # pyright: ignore[reportAttributeAccessIssue]
            else:
                assert not isinstance(want, Exception) and np.array_equal(got, want)


@rounds.campaign(300)
def test_random_graphs():
    rng = random.Random(rounds.seed())
    ctx = DAGContext.get_current()
    before, ctx.get_timeout = ctx.get_timeout, PATIENCE
    skate.shutdown()
    skate.init(
        num_cpus=8, object_store_memory=1 << 30, _system_config={"preload": "numpy,light_pytest"}
    )
    n_killed = n_died = 0
    try:
        steady = [Actor.options(max_restarts=-1, max_task_retries=-1).remote() for _ in range(2)]
        actors = [*steady, *(Actor.remote() for _ in range(2))]
        for i in range(0, GRAPHS, 2):
            graphs = [Graph(rng, rng.sample(actors, rng.randint(1, 4))) for _ in range(2)]
            victim = rng.choice(actors) if rng.random() < 0.04 else None
            killer = None
            if victim is not None:
                pid = skate.get(victim.pid.remote())
                killer = threading.Timer(rng.random() * 0.01, os.kill, (pid, signal.SIGKILL))
                killer.start()
            mortal = None if victim in steady else victim
            for _ in range(rng.randint(1, 6)):
                for g in graphs:
                    with died(mortal) as dead:
                        g.execute(rounds.FACTOR > 1 and rng.random() < 0.0005)
                    n_died += dead.is_set()
            for g in graphs:
                while g.under_way:
                    with died(mortal) as dead:
                        g.take()
                    n_died += dead.is_set()
                g.compiled.teardown()
            if killer is not None:
                killer.join()
                n_killed += 1
            if mortal is not None:
                actors[actors.index(mortal)] = Actor.remote()
        del graphs, g
        gc.collect()
        assert _skate.Graph.living() == 0
        print(f"{GRAPHS} graphs, {n_killed} actors killed, {n_died} times told of it")
    finally:
        ctx.get_timeout = before
        skate.shutdown()


@contextlib.contextmanager
def died(victim):
    """ActorDiedError is the expected result where an actor was killed."""
    told = threading.Event()
    try:
        yield told
    except exceptions.ActorDiedError:
        if victim is None:
            raise
        told.set()


if __name__ == "__main__":
    pytest.main([__file__, "-s"])
