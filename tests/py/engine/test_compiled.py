"""Compiled graphs (skate.dag, experimental_compile), over every engine: values, errors, several
graphs on one actor, the errors for invalid graphs, and random graphs compared with plain calls. For
shared memory and deaths see tests/py/fault/test_graph_deaths.py."""

import asyncio
import os
import random
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import skate
import skate.experimental.collective as collective
from patience import eventually
from skate import _skate, exceptions
from skate.dag import DAGContext, InputNode, MultiOutputNode
from skate.util.state import list_actors


@skate.remote
class Actor:
    def __init__(self, first=0):
        self.i = first

    def echo(self, x):
        return x

    def inc(self, x):
        self.i += x
        return self.i

    def add(self, *values, by=0):
        return sum(values) + by

    @skate.method(num_returns=2)
    def two(self, x):
        return x, -x

    @skate.method(num_returns=2)
    def three(self, x):
        return x, x, x

    def fail(self, x):
        if x % 2:
            raise KeyError(x)
        return x

    def wait_for(self, path):
        while not os.path.exists(path):
            time.sleep(0.001)
        return True

    def about(self):
        return skate.get_runtime_context().get_actor_id()

    def about_in(self, x):
        return self.about()


@pytest.fixture
def compile_(ray):
    made = []

    def make(node, **kw):
        made.append(node.experimental_compile(**kw))
        return made[-1]

    yield make
    for c in made:
        c.teardown()


def test_values(ray, compile_):
    a, b = Actor.remote(), Actor.remote(10)
    with InputNode() as x:
        compiled = compile_(b.echo.bind(a.echo.bind(x)))
    for v in [
        0,
        None,
        "text",
        b"bytes",
        [1, {"k": (2, 3)}],
        np.arange(5),
        np.arange(1 << 18),
        {"a": np.ones((3, 70000)), "b": 2},
    ]:
        got = ray.get(compiled.execute(v))
        assert type(got) is type(v) and str(got) == str(v)
    big = ray.get(compiled.execute(np.arange(1 << 18)))
    assert not big.flags.writeable and (big == np.arange(1 << 18)).all()


def test_parts_of_the_input_several_outputs_and_constants(ray, compile_):
    a, b = Actor.remote(), Actor.remote()
    with InputNode() as x:
        p, q = a.two.bind(x[0])
        compiled = compile_(
            MultiOutputNode([b.add.bind(p, x.k, 100, by=1), q, q, a.add.bind(q, q)])
        )
    assert ray.get(compiled.execute(3, k=4)) == [108, -3, -3, -6]
    one, _, three, _ = compiled.execute(5, k=0)
    assert ray.get(three) == -5 and ray.get(one) == 106
    with pytest.raises(ValueError, match="once"):
        ray.get(one)
    for args, kw in [((), {"k": 1}), ((1, 2), {"k": 1}), ((1,), {})]:
        with pytest.raises(ValueError, match="must be called with"):
            compiled.execute(*args, **kw)


def test_errors_reach_what_depends_on_them_and_the_graph_lives(ray, compile_):
    a, b = Actor.remote(), Actor.remote()
    with InputNode() as x:
        compiled = compile_(MultiOutputNode([b.add.bind(a.fail.bind(x), 1), b.inc.bind(x)]))
    for i in range(6):
        bad, good = compiled.execute(i)
        if i % 2:
            with pytest.raises(KeyError) as e:
                ray.get(bad)
            assert "raise KeyError(x)" in str(e.value)
        else:
            assert ray.get(bad) == i + 1
        assert ray.get(good) == i * (i + 1) // 2
    with InputNode() as x:
        p, q = a.three.bind(x)
        compiled = compile_(MultiOutputNode([p, q]))
    for ref in compiled.execute(1):
        with pytest.raises(ValueError, match="3"):
            ray.get(ref)


def test_several_graphs_and_calls_take_turns(ray, compile_):
    a = Actor.remote()
    graphs = []
    for _ in range(3):
        with InputNode() as x:
            graphs.append(compile_(a.inc.bind(a.echo.bind(x))))
    refs = [g.execute(1) for g in graphs for _ in range(3)]
    calls = [a.inc.remote(1) for _ in range(5)]
    values = ray.get(calls) + [ray.get(r) for r in refs]
    assert len(set(values)) == len(values) and max(values) == ray.get(a.inc.remote(0)) == 5 + 3 * 3
    with InputNode() as x:
        compiled = compile_(a.about_in.bind(x))
    assert ray.get(compiled.execute(0)) == ray.get(a.about.remote())


def test_results_wait_to_be_taken(ray, compile_):
    a = Actor.remote()
    with InputNode() as x:
        compiled = compile_(a.echo.bind(x), _max_inflight_executions=4)
    refs = [compiled.execute(i) for i in range(4)]
    with pytest.raises(exceptions.RayCgraphCapacityExceeded, match="in-flight"):
        compiled.execute(4)
    assert [ray.get(refs[i]) for i in (2, 0, 3, 1)] == [2, 0, 3, 1]
    del refs
    ref = compiled.execute(5)
    del ref
    assert [ray.get(compiled.execute(i)) for i in range(20)] == list(range(20))
    with InputNode() as x:
        compiled = compile_(a.echo.bind(x), _max_buffered_results=1)
    refs = [compiled.execute(i) for i in range(2)]
    with pytest.raises(exceptions.RayCgraphCapacityExceeded, match="buffered"):
        ray.get(refs[1])
    assert ray.get(refs[0]) == 0 and ray.get(refs[1]) == 1


def test_an_error_is_heard_while_other_outputs_are_under_way(ray, compile_, tmp_path):
    slow, fails = Actor.remote(), Actor.remote()
    with InputNode() as x:
        compiled = compile_(
            MultiOutputNode([slow.wait_for.bind(x[0]), fails.fail.bind(x[1])]),
            _max_inflight_executions=2,
        )
    go = tmp_path / "go"
    # the inline engine runs a call in the caller, one call after another
    if _skate.engine() != "inline":
        refs = compiled.execute(str(go), 1)
        with pytest.raises(KeyError):
            ray.get(refs)
        with pytest.raises(KeyError):
            ray.get(refs[1])
        refs[1:] = compiled.execute(str(go), 2)
        with pytest.raises(exceptions.RayChannelTimeoutError):
            # results arrive in order, and the first output of the execution before is in progress
            ray.get(refs[2], timeout=0)
        go.touch()
        assert ray.get(refs) == [True, True, 2]
    go.touch()
    assert ray.get(compiled.execute(str(go), 4)) == [True, 4]
    kept = compiled.execute(str(go), 4)
    later = [compiled.execute(str(go), 4) for _ in range(1)]
    del later  # a result of an execution that was not read yet
    assert ray.get(kept) == [True, 4]
    assert (
        not compiled._result_buffer
        and not compiled._destructed_ref_idxs
        and not compiled._got_ref_idxs
    )


def test_threads_wait_for_one_graph(ray, compile_):
    a, b = Actor.remote(), Actor.remote()
    with InputNode() as x:
        compiled = compile_(
            MultiOutputNode([a.echo.bind(x), b.fail.bind(x)]), _max_inflight_executions=40
        )
    refs = [compiled.execute(i) for i in range(40)]
    with ThreadPoolExecutor(8) as pool:
        good = [pool.submit(ray.get, r[0]) for r in reversed(refs)]
        bad = [pool.submit(outcome, ray, r[1]) for r in refs]
    assert [f.result() for f in good] == list(reversed(range(40)))
    assert [f.result() for f in bad] == [
        ("failed", repr(KeyError(i))) if i % 2 else i for i in range(40)
    ]


def test_results_are_passed_on(ray, compile_, tmp_path, monkeypatch):
    a, b = Actor.remote(), Actor.remote()

    @ray.remote
    def add(x, others=()):
        return x + sum(ray.get(list(others)))

    with InputNode() as x:
        compiled = compile_(MultiOutputNode([a.echo.bind(x), b.fail.bind(x)]))
    for _ in range(3):
        one, two = compiled.execute(2)
        (three, four), (_, bad) = compiled.execute(4), compiled.execute(5)
        # a reference as an argument, and one inside an argument
        total = add.remote(one, [two, four])
        chained = b.inc.remote(three)
        assert ray.get(total) == 8
        # unlike a result, an object can be read several times
        assert ray.get([total, one, three]) == [8, 2, 4] == ray.get([total, one, three])
        ready, rest = ray.wait([chained, three, bad], num_returns=3, timeout=20)
        assert ready == [chained, three, bad] and not rest
        for what in (
            lambda bad=bad: bad,
            lambda bad=bad: add.remote(bad),
            lambda bad=bad: add.remote(1, [bad]),
        ):
            with pytest.raises(KeyError):
                ray.get(what())
    (big,) = compiled.execute(np.arange(1 << 18))[:1]
    assert ray.get(add.remote(big)).sum() == sum(range(1 << 18))
    taken = compiled.execute(2)[0]
    ray.get(taken)
    with pytest.raises(ValueError, match="taken already"):
        add.remote(taken)
    with InputNode() as x:
        compiled = compile_(a.wait_for.bind(x))
    if _skate.engine() == "local":  # submitted before its argument exists
        ref = compiled.execute(str(tmp_path / "go"))
        later = add.remote(ref)
        assert ray.wait([later, ref], timeout=0) == ([], [later, ref])
        (tmp_path / "go").touch()
        assert ray.get(later) == 1
        ref = compiled.execute(str(tmp_path / "never"))
        object_ = ray.put([ref])
        # its method, once begun, runs for ever
        monkeypatch.setattr(DAGContext.get_current(), "teardown_timeout", 0.2)
        compiled.teardown(kill_actors=True)
        with pytest.raises(exceptions.RayError):
            ray.get(ray.get(object_)[0], timeout=20)


def test_in_an_event_loop(ray, compile_):
    a, b = Actor.remote(), Actor.remote()
    with InputNode() as x:
        compiled = compile_(MultiOutputNode([a.echo.bind(x), b.fail.bind(x)]), enable_asyncio=True)

    async def one(i):
        good, bad = await compiled.execute_async(i)
        if i % 2:
            with pytest.raises(KeyError):
                await bad
        else:
            assert await bad == i
        return await good

    async def all():
        return await asyncio.gather(*[one(i) for i in range(8)])

    assert asyncio.run(all()) == list(range(8))

    async def passed_on():
        good, _ = await compiled.execute_async(2)
        return await a.inc.remote(good), await good

    assert asyncio.run(passed_on()) == (2, 2)
    with pytest.raises(ValueError, match="execute_async"):
        compiled.execute(1)


def test_the_end(ray):
    a = Actor.remote()
    with InputNode() as x:
        node = a.echo.bind(x)
    compiled = node.experimental_compile()
    ref = compiled.execute(1)
    compiled.teardown()
    compiled.teardown()
    with pytest.raises(exceptions.RayChannelError, match="Channel closed"):
        ray.get(ref)
    with pytest.raises(exceptions.RayChannelError, match="Channel closed"):
        compiled.execute(1)
    with pytest.raises(ValueError, match="multiple times"):
        node.experimental_compile()
    assert ray.get(a.echo.remote(3)) == 3


def test_what_cannot_be_compiled(ray):
    a = Actor.remote()

    @ray.remote
    def task(x):
        return x

    def refuses(what, match, kind: type[Exception] = ValueError):
        with InputNode() as x:
            node = what(x)
        with pytest.raises(kind, match=match):
            node.experimental_compile()

    refuses(lambda x: a.echo.bind([x]), "container")
    refuses(lambda x: a.add.bind(1, by=x), "as kwargs")
    refuses(lambda x: task.options(num_returns=2).bind(x), "several values", NotImplementedError)
    refuses(
        lambda x: task.options(retry_exceptions=True).bind(x),
        "retry_exceptions",
        NotImplementedError,
    )
    refuses(lambda x: task.bind([x]), "container")
    refuses(lambda x: task.bind(1), "No InputNode")
    refuses(lambda x: (task.bind(x), a.echo.bind(x))[1], "leaf nodes.*'task'")
    refuses(lambda x: task.bind(x, x), "signature", TypeError)
    refuses(lambda x: a.echo.bind(1), "No InputNode")
    refuses(
        lambda x: MultiOutputNode([a.echo.bind(x), a.echo.bind(1)]), "at least one other DAGNode"
    )
    refuses(lambda x: a.add.bind(x, x[0]), "All tasks must either")
    refuses(lambda x: (a.echo.bind(x[1]), a.echo.bind(x[0]))[1], "1 is unused")
    refuses(lambda x: (a.inc.bind(x), a.echo.bind(x))[1], "leaf nodes")
    refuses(lambda x: Actor.bind().echo.bind(x), "already created")


def test_context():
    assert DAGContext.get_current() is DAGContext.get_current()
    with pytest.raises(ValueError, match="must be less"):
        DAGContext(read_iteration_timeout=2, get_timeout=1)


def test_random_graphs_beside_plain_calls(ray, compile_):
    rng = random.Random(7)
    for _ in range(6):
        actors = [Actor.remote() for _ in range(rng.randint(1, 3))]
        with InputNode() as x:
            nodes = [rng.choice(actors).echo.bind(x)]
            for _ in range(rng.randint(0, 6)):
                a = rng.choice(actors)
                picked = [rng.choice(nodes) for _ in range(rng.randint(1, 3))]
                nodes.append(
                    rng.choice(
                        [
                            lambda a=a, p=picked: a.add.bind(*p, 1),
                            lambda a=a, p=picked: a.fail.bind(p[0]),
                        ]
                    )()
                )
            used = {id(u) for n in nodes for u in n._upstream}
            root = MultiOutputNode([n for n in nodes if id(n) not in used])
        compiled = compile_(root, _overlap_gpu_communication=rng.random() < 0.5)
        for i in range(4):
            refs, plain = compiled.execute(i), root.execute(i)
            for r, p in zip(refs, plain, strict=True):
                assert outcome(ray, r) == outcome(ray, p)
        compiled.teardown()


def outcome(ray, ref):
    try:
        return ray.get(ref)
    except KeyError as e:
        return "failed", repr(e.cause)  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_collective_operations(ray, compile_, kind):
    like = pytest.importorskip("torch").tensor if kind == "torch" else np.array
    workers = [Actor.remote() for _ in range(3)]
    ones = [np.arange(6.0) + i for i in range(3)]
    for op, want in [
        (lambda n: collective.allreduce.bind(n), [sum(ones)] * 3),
        (lambda n: collective.allreduce.bind(n, op=collective.ReduceOp.MAX), [ones[2]] * 3),
        (lambda n: collective.allgather.bind(n), [np.concatenate(ones)] * 3),
        (
            lambda n: collective.reducescatter.bind(n, op=collective.ReduceOp.SUM),
            np.split(sum(ones), 3),
        ),
    ]:
        with InputNode() as x:
            root = MultiOutputNode(op([w.echo.bind(x[i]) for i, w in enumerate(workers)]))
        compiled = compile_(root)
        for got in (
            ray.get(compiled.execute(*map(like, ones))),
            ray.get(root.execute(*map(like, ones))),
        ):
            assert all(
                type(g) is type(like([1.0])) and np.array_equal(np.asarray(g), w)
                for g, w in zip(got, want, strict=True)
            )
        with pytest.raises(ValueError, match="one shape"):
            ray.get(compiled.execute(like([1.0]), *map(like, ones[1:])))
        compiled.teardown()
    with InputNode() as x, pytest.raises(ValueError, match="unique actor"):
        collective.allreduce.bind([workers[0].echo.bind(x), workers[0].echo.bind(x)])


def test_tasks(ray, compile_):
    far = 5

    @ray.remote
    def scale(x, *, by=1):
        return x * by + far

    @ray.remote(num_cpus=0)
    def add(a, b):
        if a == b:
            raise KeyError(a)
        return a + b, os.getpid()

    a = Actor.remote()
    with InputNode() as x:
        mixed = add.bind(a.echo.bind(scale.bind(x[0], by=2)), scale.bind(x[1]))
        root = MultiOutputNode([mixed, a.echo.bind(mixed)])
    compiled = compile_(root)
    pids = set()
    for i in range(5):
        (total, pid), same = ray.get(compiled.execute(i, 3))
        assert total == 2 * i + 3 + 2 * far and same == (total, pid)
        assert ray.get(root.execute(i, 3))[0][0] == total
        pids.add(pid)
    assert len(pids) == 1  # the graph holds the worker
    with pytest.raises(KeyError) as e:
        ray.get(compiled.execute(2, 4))
    assert "raise KeyError(a)" in str(e.value) and "add" in str(e.value)
    assert ray.get(compiled.execute(0, 1))[0][0] == 1 + 2 * far
    if _skate.engine() == "local":
        os.kill(pids.pop(), 9)  # the next process of the worker continues
        assert ray.get(compiled.execute(2, 1))[0][0] == 5 + 2 * far
        with InputNode() as x:
            once = compile_(add.options(max_retries=0).bind(x[0], x[1]))
        os.kill(ray.get(once.execute(1, 2))[1], 9)
        with pytest.raises(exceptions.WorkerCrashedError, match="tasks died"):
            ray.get(once.execute(1, 2))
    compiled.teardown()
    with InputNode() as x:
        many = [scale.bind(x) for _ in range(40)]
        compiled = compile_(MultiOutputNode(many))
    assert (
        ray.get(compiled.execute(1)) == [1 + far] * 40
        and len(compiled._workers) <= ray.cluster_resources()["CPU"]
    )
    compiled.teardown()
    if _skate.engine() == "local":
        eventually(
            lambda: (
                not any(
                    row.class_name == "Worker"
                    for row in list_actors(filters=[("state", "=", "ALIVE")])
                )
            )
        )


def test_transports(ray, compile_):
    a = Actor.remote()
    with InputNode() as x:
        compiled = compile_(a.echo.bind(x.with_tensor_transport("shm")).with_tensor_transport())
    assert ray.get(compiled.execute(1)) == 1
    for given in ({"transport": "nccl"}, {"device": "cuda"}):
        with InputNode() as x:
            node = a.echo.bind(x).with_tensor_transport(**given)
        with pytest.raises(NotImplementedError, match="shared memory"):
            node.experimental_compile()
    with pytest.raises(ValueError, match="Invalid transport"):
        node.with_tensor_transport("mpi")


def test_drawn_as_text(ray, compile_, capsys):
    a = Actor.remote()
    with InputNode() as x:
        p, q = a.two.bind(x)
        compiled = compile_(MultiOutputNode([p, q]))
    text = compiled.visualize(format="ascii")
    assert (
        '2 [label="Task 2  ClassMethodOutputNode[0]"]' in text
        and "1 ---> 3" in text
        and text in capsys.readouterr().out
    )


@skate.remote
class Caller:
    def __init__(self, compiled):
        self.compiled = compiled

    def many(self, name, n):
        refs = [self.compiled.execute((name, i)) for i in range(n)]
        return skate.get(refs)

    def bad(self):
        with pytest.raises(KeyError):
            skate.get(self.compiled.execute(None))
        with pytest.raises(ValueError, match="must be called with"):
            skate.get(self.compiled.execute(1, 2))
        with pytest.raises(ValueError, match="teardown"):
            self.compiled.teardown()
        return skate.get(Actor.remote().echo.remote(self.compiled.execute((1, 2))))


@skate.remote
class AsyncCaller:
    async def awaited(self, compiled, name):
        return await compiled.execute(name)


@skate.remote
class Numbered:
    def __init__(self):
        self.n = 0

    def next(self, x):
        if x is None:
            raise KeyError(x)
        self.n += 1
        return (*x, self.n)


@skate.remote
class Owner:
    def __init__(self):
        with InputNode() as x:
            self.compiled = Numbered.remote().next.bind(x).experimental_compile()

    def graph(self):
        return self.compiled

    def own(self):
        return skate.get(self.compiled.execute(("own", 0)))


@pytest.mark.parametrize("owned_by", ["driver", "actor"])
def test_executed_from_several_processes(ray, compile_, owned_by):
    if _skate.engine() == "inline":
        pytest.skip("all is one process")
    numbered = Numbered.remote()
    if owned_by == "driver":
        with InputNode() as x:
            compiled = compile_(numbered.next.bind(x), _max_inflight_executions=3)
    else:
        owner = Owner.remote()
        compiled = ray.get(owner.graph.remote())
    callers = [Caller.remote(compiled) for _ in range(2)]
    asked = [c.many.remote(k, 8) for k, c in enumerate(callers)]
    mine = [ray.get(compiled.execute(("driver", i))) for i in range(8)]
    results = [*ray.get(asked), mine]
    for name, got in zip((0, 1, "driver"), results, strict=True):
        # each caller gets its own results
        assert [r[:2] for r in got] == [(name, i) for i in range(8)]
        assert [r[2] for r in got] == sorted(r[2] for r in got)  # in the order of its calls
    assert sorted(r[2] for got in results for r in got) == list(range(1, 25))
    assert ray.get(callers[0].bad.remote()) == (1, 2, 25)
    assert ray.get(AsyncCaller.remote().awaited.remote(compiled, ("a",))) == ("a", 26)
    if owned_by == "actor":
        assert ray.get(owner.own.remote()) == ("own", 0, 27)
    else:
        compiled.teardown()
        with pytest.raises(exceptions.RayChannelError):
            ray.get(callers[1].many.remote(0, 1))
