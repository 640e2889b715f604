"""Tasks: arguments, returns, generators, errors, retries, waiting, cancelling."""

import os
import resource
import time

import numpy as np
import pytest
import skate
from waits import wait_at


@skate.remote
def add(a, b=10, *, c=100):
    return a + b + c


@skate.remote
def everything(*args, **kwargs):
    return args, kwargs


@skate.remote
def boom(text="boom"):
    raise ValueError(text)


def test_arguments_and_defaults(ray):
    assert ray.get(add.remote(1)) == 111
    assert ray.get(add.remote(1, 2)) == 103
    assert ray.get(add.remote(1, 2, c=3)) == 6
    assert ray.get(add.remote(b=2, a=1)) == 103
    assert ray.get(add.remote(1, c=ray.put(5), b=ray.put(6))) == 12
    assert ray.get(everything.remote(1, 2, x=3, y=[4])) == ((1, 2), {"x": 3, "y": [4]})
    kw = {f"k{i}": i for i in range(50)}
    assert ray.get(everything.remote(*range(30), **kw)) == (tuple(range(30)), kw)
    assert ray.get(everything.remote(**{"ключ": 1})) == ((), {"ключ": 1})


def test_a_large_argument_is_put_once_and_released(ray):
    big = np.arange(200_000)
    assert ray.get(everything.remote(big, k=big))[1]["k"].sum() == big.sum()


def test_wrong_arguments_raise_at_the_call(ray):
    for call in (
        lambda: add.remote(),
        lambda: add.remote(1, 2, 3),
        lambda: add.remote(1, d=2),
        lambda: add.remote(1, a=2),
        lambda: add.remote(b=1),
    ):
        with pytest.raises(TypeError):
            call()

    @ray.remote
    def posonly(a, /, b):
        return a, b

    assert ray.get(posonly.remote(1, b=2)) == (1, 2)
    with pytest.raises(TypeError):
        posonly.remote(a=1, b=2)

    @ray.remote
    def kwonly(*, a, b=1):
        return a, b

    assert ray.get(kwonly.remote(a=3)) == (3, 1)
    with pytest.raises(TypeError, match="a"):
        kwonly.remote()
    with pytest.raises(TypeError):
        kwonly.remote(1)


def test_num_returns(ray):
    @ray.remote(num_returns=3)
    def three(n):
        return list(range(n))

    refs = three.remote(3)
    assert isinstance(refs, list) and ray.get(refs) == [0, 1, 2]
    with pytest.raises(ValueError, match="returned 2 objects, but num_returns=3"):
        ray.get(three.remote(2)[0])
    with pytest.raises(ValueError, match="returned 4 objects"):
        ray.get(three.remote(4)[2])

    @ray.remote(num_returns=0)
    def nothing():
        return 5

    assert nothing.remote() is None

    @ray.remote(num_returns=2)
    def not_many():
        return 5

    with pytest.raises(TypeError, match="num_returns=2"):
        ray.get(not_many.remote()[0])
    a, b = add.options(num_returns=1).remote(1), everything.options(num_returns=2).remote(1, x=2)
    assert ray.get(a) == 111 and ray.get(b) == [(1,), {"x": 2}]

    @ray.remote(num_returns=2)
    def by_yield():
        yield "a"
        yield np.zeros(10_000)

    x, y = ray.get(by_yield.remote())
    assert x == "a" and y.shape == (10_000,)


def test_what_a_generator_gave_before_it_raised_stays(ray):
    @ray.remote
    def two_then_error():
        yield 0
        yield 1
        raise ValueError("the third")

    *values, third, fourth = two_then_error.options(num_returns=4).remote()
    assert ray.get(values) == [0, 1]
    for ref in (third, fourth):
        with pytest.raises(ValueError, match="the third"):
            ray.get(ref)
    # no object is left that could hold the error, so it is printed
    assert ray.get(two_then_error.options(num_returns=2).remote()) == [0, 1]
    assert ray.get(two_then_error.options(num_returns=1).remote()) == 0


def test_many_returns(ray):
    @ray.remote(num_returns=500)
    def many():
        return range(500)

    refs = many.remote()
    assert ray.get(refs[::-1]) == list(range(499, -1, -1))


def test_generators(ray):
    @ray.remote
    def squares(n):
        for i in range(n):
            yield i * i

    g = squares.remote(5)
    assert isinstance(g, ray.ObjectRefGenerator)
    assert [ray.get(r) for r in g] == [0, 1, 4, 9, 16]
    assert list(g) == []
    assert list(squares.remote(0)) == []
    big = squares.options(num_returns="streaming").remote(3000)
    assert [ray.get(r) for r in big][-1] == 2999**2

    @ray.remote(num_returns="streaming")
    def from_a_list():
        return ["a", np.zeros(5000), None]

    assert [type(ray.get(r)).__name__ for r in from_a_list.remote()] == [
        "str",
        "ndarray",
        "NoneType",
    ]

    @ray.remote(num_returns="streaming")
    def no_iterable():
        return 5

    with pytest.raises(TypeError, match="generator or return an iterable"):
        [ray.get(r) for r in no_iterable.remote()]


def test_an_error_in_a_generator_comes_after_its_values(ray):
    @ray.remote
    def g():
        yield 1
        yield 2
        raise KeyError("third")

    got, it = [], g.remote()
    with pytest.raises(KeyError, match="third"):
        for r in it:
            got.append(ray.get(r))
    assert got == [1, 2]
    with pytest.raises(StopIteration):
        next(it)


def test_dropping_a_generator_stops_it(ray, tmp_path):
    path = str(tmp_path / "closed")

    @ray.remote(_generator_backpressure_num_objects=2)
    def endless(n):
        try:
            yield from range(n)
        finally:
            open(path, "w").close()

    g = endless.remote(1000)
    assert ray.get(next(g)) == 0
    g.close()
    assert list(g) == []
    deadline = time.monotonic() + 60
    while not os.path.exists(path) and time.monotonic() < deadline:
        ray.wait([add.remote(1)])
    assert os.path.exists(path)


def test_generator_next_within(ray):
    @ray.remote
    def slow():
        yield 1

    g = slow.remote()
    assert ray.get(g.next_within(60)) == 1
    with pytest.raises(StopIteration):
        g.next_within(60)


def test_the_text_of_an_error(ray):
    with pytest.raises(ValueError) as info:
        ray.get(boom.remote("exactly this"))
    e = info.value
    assert isinstance(e, ray.exceptions.RayTaskError)
    text = str(e)
    assert text.startswith("ray::boom() (pid=") and text.endswith("\nValueError: exactly this")
    assert "in boom" in text and "raise ValueError(text)" in text
    assert "/python/skate/" not in text
    assert isinstance(e.cause, ValueError) and e.cause.args == ("exactly this",)


class Custom(Exception):
    def __init__(self, code, *, detail):
        super().__init__(f"{code}: {detail}")
        self.code = code


class Holder(Exception):
    def __init__(self, lock):
        self.lock = lock


def test_errors_that_are_hard_to_send(ray):
    @ray.remote
    def odd_init():
        raise Custom(5, detail="x")

    with pytest.raises(ray.exceptions.RayTaskError) as info:
        ray.get(odd_init.remote())
    assert f"{Custom.__module__}.Custom: 5: x" in str(info.value)

    @ray.remote
    def with_lock():
        import threading

        raise Holder(threading.Lock())

    with pytest.raises(ray.exceptions.RayTaskError, match="Holder"):
        ray.get(with_lock.remote())

    @ray.remote
    def local_class():
        class Inner(Exception):
            pass

        raise Inner("from inside")

    with pytest.raises(ray.exceptions.RayTaskError, match="from inside"):
        ray.get(local_class.remote())


@pytest.mark.parametrize("n", [8_000, 100_000, 400_000])
def test_a_long_error_arrives_whole(ray, n):
    @ray.remote
    def fails():
        raise ValueError("x" * n + "end")

    @ray.remote
    def waits(refs):
        try:
            ray.get(refs[0])
        except ValueError as e:
            return e.cause.args[0]

    ref = fails.remote()
    with pytest.raises(ValueError) as e:
        ray.get(ref)
    assert e.value.cause.args == ("x" * n + "end",)
    # above that size the text of the error is shortened, but the exception itself is not
    if n <= 100_000:
        assert "x" * n + "end" in str(e.value)
    assert ray.get(waits.remote([ref])) == "x" * n + "end"  # through another worker


def test_errors_keep_their_attributes_and_causes(ray):
    @ray.remote
    def no_file():
        open("/does/not/exist")

    with pytest.raises(FileNotFoundError) as info:
        ray.get(no_file.remote())
    assert info.value.cause.errno == 2

    @ray.remote
    def chained():
        try:
            {}["k"]
        except KeyError as e:
            raise RuntimeError("outer") from e

    with pytest.raises(RuntimeError) as info:
        ray.get(chained.remote())
    assert "KeyError: 'k'" in str(info.value) and "direct cause" in str(info.value)


def test_an_error_passes_through_tasks_that_depend_on_it(ray):
    with pytest.raises(ValueError, match="upstream"):
        ray.get(add.remote(boom.remote("upstream")))
    with pytest.raises(ValueError, match="upstream"):
        ray.get(add.remote(1, add.remote(2, boom.remote("upstream"))))
    with pytest.raises(ValueError, match="large") as info:
        ray.get(add.remote(boom.remote("large" + "x" * 20_000)))
    assert "large" + "x" * 20_000 in str(info.value) and "ray::boom()" in str(info.value)


def test_an_error_of_a_nested_get(ray):
    @ray.remote
    def outer():
        import skate

        return skate.get(boom.remote("deep"))

    with pytest.raises(ValueError) as info:
        ray.get(outer.remote())
    text = str(info.value)
    assert (
        text.startswith("ray::outer() (pid=")
        and "RayTaskError(ValueError): ray::boom() (pid=" in text
        and text.endswith("ValueError: deep")
    )


def test_get_of_several_raises_the_first_error(ray):
    with pytest.raises(ValueError, match="one"):
        ray.get([add.remote(1), boom.remote("one"), boom.remote("two")])


def test_a_task_asks_for_many_values_together():
    """A get of many values in a task once asked for each by itself as soon as it took longer than
    100 ms."""

    @skate.remote
    def slow(seconds):
        time.sleep(seconds)

    @skate.remote
    def get_all():
        refs = [add.remote(i) for i in range(5000)]
        skate.wait(refs, num_returns=len(refs))
        refs.append(slow.remote(0.5))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
        values = skate.get(refs)
        return len(values), resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - before

    @skate.remote
    def get_one_that_failed():
        refs = [add.remote(i) for i in range(200)]
        skate.get([*refs[:150], boom.remote("at once"), *refs[150:], slow.remote(100)])

    skate.shutdown()
    with skate.init(num_cpus=2):
        n, sleeps = skate.get(get_all.remote())
        assert n == 5001 and sleeps < 400
        begin = time.monotonic()
        with pytest.raises(ValueError, match="at once"):
            skate.get(get_one_that_failed.remote())
        assert time.monotonic() - begin < 50


def test_errors_of_every_builtin_class(ray):
    @ray.remote
    def fail(cls):
        raise (
            cls("x")
            if cls is not UnicodeDecodeError
            else UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad")
        )

    for cls in (
        KeyError,
        OSError,
        StopIteration,
        RecursionError,
        UnicodeDecodeError,
        SyntaxError,
        AssertionError,
        MemoryError,
        ImportError,
        TypeError,
    ):
        with pytest.raises(cls) as info:
            ray.get(fail.remote(cls))
        assert isinstance(info.value, ray.exceptions.RayTaskError)


def test_errors_that_are_no_exceptions(ray):
    @ray.remote
    def leave(cls):
        raise cls("bye")

    from skate import api

    if api._context["engine"] == "inline":
        with pytest.raises(ray.exceptions.RayTaskError, match="SystemExit"):
            ray.get(leave.remote(SystemExit))
    else:  # the process ends, as the code requests
        with pytest.raises(ray.exceptions.WorkerCrashedError, match="1"):
            ray.get(leave.options(max_retries=0).remote(SystemExit))
    assert ray.get(add.remote(1)) == 111


def test_retry_exceptions(ray, tmp_path):
    count = str(tmp_path / "count")

    @ray.remote(max_retries=3)
    def flaky(path, good_at):
        with open(path, "a") as f:
            f.write("x")
        n = os.path.getsize(path)
        if n < good_at:
            raise ValueError(f"attempt {n}")
        return n

    assert ray.get(flaky.options(retry_exceptions=True).remote(count, 3)) == 3
    os.remove(count)
    with pytest.raises(ValueError, match="attempt 1"):
        ray.get(flaky.remote(count, 3))
    os.remove(count)
    with pytest.raises(ValueError, match="attempt 4"):
        ray.get(flaky.options(retry_exceptions=True).remote(count, 9))
    assert os.path.getsize(count) == 4
    os.remove(count)
    assert ray.get(flaky.options(retry_exceptions=[ValueError]).remote(count, 4)) == 4
    os.remove(count)
    with pytest.raises(ValueError, match="attempt 1"):
        ray.get(flaky.options(retry_exceptions=[KeyError]).remote(count, 4))


def test_a_generator_that_is_retried_continues(ray, tmp_path):
    count = str(tmp_path / "count")

    @ray.remote(retry_exceptions=True, max_retries=5)
    def g():
        with open(count, "a") as f:
            f.write("x")
        for i in range(5):
            if i == os.path.getsize(count) * 2:
                raise ValueError("again")
            yield i

    assert [ray.get(r) for r in g.remote()] == [0, 1, 2, 3, 4]
    assert os.path.getsize(count) == 3


def test_nested_tasks(ray):
    @ray.remote
    def fib(n):
        import skate

        return n if n < 2 else sum(skate.get([fib.remote(n - 1), fib.remote(n - 2)]))

    assert ray.get(fib.remote(7)) == 13


def test_nested_put_and_generator(ray):
    @ray.remote
    def gen(n):
        yield from range(n)

    @ray.remote
    def total(n):
        import skate

        return (
            sum(skate.get(r) for r in gen.remote(n)) + skate.get(skate.put(np.arange(10_000))).size
        )

    assert ray.get(total.remote(10)) == 10_045


def test_dependencies_in_any_order(ray):
    refs = [add.remote(0, 0, c=0)]
    for _ in range(200):
        refs.append(add.remote(refs[-1], 1, c=0))
    assert ray.get(refs[-1]) == 200
    assert ray.get(refs) == list(range(201))


def test_wait(ray):
    refs = [add.remote(i) for i in range(10)]
    ready, rest = ray.wait(refs, num_returns=3)
    assert len(ready) == 3 and len(rest) == 7 and set(ready) | set(rest) == set(refs)
    assert [r for r in refs if r in set(rest)] == rest
    ready, rest = ray.wait(refs, num_returns=10)
    assert ready == refs and rest == []
    assert ray.wait([]) == ([], [])
    failed = boom.remote()
    assert ray.wait([failed]) == ([failed], [])
    ready, _ = ray.wait([ray.put(1)], timeout=0)
    assert len(ready) == 1


def test_wrong_waits(ray):
    r = ray.put(1)
    with pytest.raises(ValueError, match="more than once"):
        ray.wait([r, r])
    with pytest.raises(ValueError, match="more than once"):
        ray.wait([r, ray.put(2), ray.get(ray.put([r]))[0]], num_returns=2)
    for kw in ({"num_returns": 0}, {"num_returns": 2}, {"num_returns": -1}, {"timeout": -1}):
        with pytest.raises(ValueError):
            ray.wait([r], **kw)
    for bad in (r, (r,), [1], ["x"], None):
        with pytest.raises(TypeError):
            ray.wait(bad)


def test_wrong_gets(ray):
    with pytest.raises(ValueError, match="takes an ObjectRef or a list"):
        ray.get(5)
    with pytest.raises(TypeError, match="get: 5 is no ObjectRef"):
        ray.get([ray.put(1), 5])
    with pytest.raises(TypeError):
        ray.get()
    with pytest.raises(TypeError):
        ray.get(ray.put(1), tiemout=1)
    with pytest.raises(TypeError):
        ray.put(ray.put(1))
    assert ray.get([]) == [] and ray.get(()) == []
    assert ray.get((ray.put(1), ray.put(2))) == [1, 2]
    assert (
        ray.get(ray.put(3), timeout=0) == 3
        and ray.get(ray.put(3), timeout=None) == 3
        and ray.get(ray.put(3), timeout=-1) == 3
    )


def test_cancel_before_it_runs(ray, gate):
    path = gate.path

    @ray.remote
    def never(x):
        return x

    @ray.remote
    def held():
        wait_at(path)

    blocker = held.remote()
    ref = never.remote(blocker)
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref)
    gate.let_go()
    ray.get(blocker)
    done = add.remote(1)
    ray.get(done)
    ray.cancel(done)  # the task has ended: cancel() has no effect
    assert ray.get(done) == 111
    ray.cancel(ray.put(1))  # no task makes this object: cancel() has no effect
    with pytest.raises(TypeError):
        ray.cancel(5)


def test_resources_that_can_never_be_had(ray):
    """As in Ray the call returns a reference, and get() raises the error."""
    for options, match in (
        (
            {"num_cpus": 1000},
            "add can never run here: a task or actor asks for 1000 CPU, but this machine was given 4",
        ),
        (
            {"resources": {"gadget": 1}},
            "asks for resource 'gadget', which this machine was not given",
        ),
        ({"resources": {"widget": 3}}, "asks for 3 widget, but this machine was given 2"),
    ):
        f = add.options(num_returns=2, **options)
        for ref in (*f.remote(ray.put(1)), add.remote(f.remote(1)[0])):
            assert ray.wait([ref], timeout=60)[0]
            with pytest.raises(ray.exceptions.TaskUnschedulableError, match=match):
                ray.get(ref)

    @ray.remote
    def inside():
        ref = add.options(num_gpus=9).remote(1)
        with pytest.raises(ray.exceptions.TaskUnschedulableError, match="9 GPU"):
            ray.get(ref)
        return [ref]

    with pytest.raises(ray.exceptions.TaskUnschedulableError, match="9 GPU"):
        ray.get(ray.get(inside.remote())[0])

    @ray.remote(num_cpus=1000)
    def stream():
        yield 1

    g = stream.remote()
    with pytest.raises(ray.exceptions.TaskUnschedulableError, match="1000 CPU"):
        ray.get(next(g))
    assert (
        ray.get(add.options(num_cpus=0, resources={"widget": 1.5}, memory=1 << 20).remote(1)) == 111
    )
    assert ray.cluster_resources()["widget"] == 2 and ray.cluster_resources()["CPU"] == 4


def test_names(ray):
    @ray.remote
    def who():
        import skate

        return skate.get_runtime_context().get_task_name()

    assert ray.get(who.remote()) == "who"
    assert ray.get(who.options(name="other").remote()) == "other"
    assert ray.get(who.remote()) == "who"


def test_runtime_context(ray):
    @ray.remote
    def ids():
        import skate

        c = skate.get_runtime_context()
        return c.get_task_id(), c.get_actor_id(), c.get_job_id(), c.get_node_id(), c.get_worker_id()

    task, actor, job, node, worker = ray.get(ids.remote())
    assert len(task) == 48 and actor is None and job and node and worker
    assert ray.get_runtime_context().get_task_id() is None


def test_builtin_and_partial_functions(ray):
    assert ray.get(ray.remote(len).remote([1, 2])) == 2
    import functools

    with pytest.raises(TypeError, match="function or a class"):
        ray.remote(functools.partial(max, 1))
    for wrong in (lambda: ray.remote(3), lambda: ray.remote(), lambda: ray.remote(len, num_cpus=1)):
        with pytest.raises(AssertionError, match="without parentheses"):
            wrong()


def test_async_function(ray):
    async def f(x):
        return x + 1

    with pytest.raises(ValueError, match="async def"):
        ray.remote(f)


def test_await_and_future(ray):
    import asyncio

    async def main():
        refs = [add.remote(i) for i in range(50)]
        return await refs[0], await asyncio.gather(*refs)

    first, rest = asyncio.run(main())
    assert first == 110 and rest == [110 + i for i in range(50)]
    assert add.remote(5).future().result(timeout=60) == 115
    with pytest.raises(ValueError, match="boom"):
        boom.remote().future().result(timeout=60)

    async def fails():
        await boom.remote("awaited")

    with pytest.raises(ValueError, match="awaited"):
        asyncio.run(fails())


def test_threads_of_the_driver(ray):
    import threading

    out, errors = [], []

    def work(k):
        try:
            for i in range(100):
                out.append(ray.get(add.remote(i, k, c=0)) == i + k)
        except Exception as e:
            errors.append(e)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not errors and all(out) and len(out) == 400


def test_many_small_tasks(ray):
    refs = [add.remote(i, 0, c=0) for i in range(5000)]
    assert sum(ray.get(refs)) == sum(range(5000))


@pytest.mark.parametrize(
    "kind",
    [{"num_gpus": 1}, {"runtime_env": {"env_vars": {"SKATE_TEST_KIND": "1"}}}],
    ids=["gpu", "environment"],
)
def test_younger_tasks_do_not_keep_one_of_another_kind_waiting(kind):
    """The task needs its own worker process, and younger tasks never leave the only CPU free in the
    meantime."""
    skate.shutdown()
    with skate.init(num_cpus=1, num_gpus=1):
        add.remote(0)
        other = add.options(**kind).remote(1)
        queue = [add.remote(i) for i in range(200)]
        until = time.monotonic() + 60
        while not skate.wait([other], timeout=0)[0]:
            assert time.monotonic() < until, "younger tasks went first for a minute"
            skate.get(queue[:100])
            queue = queue[100:] + [add.remote(i) for i in range(100)]
        assert skate.get(other) == 111
