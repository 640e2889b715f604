"""Small behaviours of Ray that Ray's own tests check, and that a program may depend on."""

import os
import signal

import pytest
from waits import wait_until

# ---- cancel


def test_cancel_from_who_was_given_the_ref(fresh, tmp_path):
    ray = fresh(num_cpus=2)
    if fresh.engine == "inline":
        pytest.skip("nothing runs meanwhile")
    fifo = str(tmp_path / "begun")
    os.mkfifo(fifo)

    @ray.remote(num_returns=2, max_retries=0)
    def stuck():
        with open(fifo, "w") as f:
            f.write("x")
        signal.pause()

    @ray.remote
    class Canceller:
        def __init__(self, refs):
            (self.ref,) = refs

        def cancel(self):
            ray.cancel(self.ref)

    for i in range(2):
        refs = stuck.remote()
        with open(fifo) as f:
            f.read(1)
        c = Canceller.remote([refs[i]])
        ray.get(c.cancel.remote())
        with pytest.raises(ray.exceptions.TaskCancelledError):
            ray.get(refs[0], timeout=30)
        ray.get(c.cancel.remote())  # the task has ended: cancel() has no effect
    done = ray.put(1)
    ray.cancel(done)
    assert ray.get(done) == 1


def test_a_cancelled_parent_hears_that_first(fresh):
    ray = fresh(num_cpus=2)
    if fresh.engine == "inline":
        pytest.skip("nothing runs meanwhile")

    @ray.remote
    class Gate:
        def __init__(self):
            self.n = 0

        async def wait(self):
            import asyncio

            self.n += 1
            await asyncio.Event().wait()

        async def waiting(self):
            return self.n

    @ray.remote
    def parent(gate):
        try:
            ray.get(gate.wait.remote())
        except KeyboardInterrupt:
            return "interrupted", ray.get_runtime_context().is_canceled()

    gate = Gate.remote()
    for i in range(1, 6):
        ref = parent.remote(gate)
        wait_until(lambda i=i: ray.get(gate.waiting.remote()) >= i)
        ray.cancel(ref)
        assert ray.get(ref, timeout=30) == ("interrupted", True)


def test_a_process_whose_import_was_broken_off_runs_nothing_more(fresh, tmp_path, monkeypatch):
    """Modules would be partly loaded, and extension modules cannot be imported twice."""
    pid, never = str(tmp_path / "pid"), str(tmp_path / "never")
    os.mkfifo(pid)
    os.mkfifo(never)
    text = f"import os\nwith open({pid!r}, 'w') as f: f.write(str(os.getpid()))\nopen({never!r}).read()\n"
    (tmp_path / "slow_import.py").write_text(text)
    (tmp_path / "slow_run.py").write_text(
        "def run():\n" + "".join(f"    {line}\n" for line in text.splitlines())
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    ray = fresh(num_cpus=1)
    if fresh.engine == "inline":
        pytest.skip("runs tasks in the caller")

    @ray.remote
    def imports():
        import slow_import  # noqa: F401

    @ray.remote
    def runs():
        import slow_run

        slow_run.run()

    @ray.remote
    def where():
        return os.getpid()

    def cancelled(task):
        ref = task.remote()
        with open(pid) as f:
            there = int(f.read())
        ray.cancel(ref)
        with pytest.raises(ray.exceptions.TaskCancelledError):
            ray.get(ref, timeout=60)
        return there

    there = cancelled(runs)
    assert ray.get(where.remote(), timeout=60) == there
    there = cancelled(imports)
    assert ray.get(where.remote(), timeout=60) != there


def test_an_interrupted_task_does_not_interrupt_the_program(fresh):
    ray = fresh(num_cpus=1)

    @ray.remote(max_retries=0)
    def f():
        raise KeyboardInterrupt("abc")

    # the inline engine runs the task in the program, which gets the signal as well
    if fresh.engine == "inline":
        # a background job of a shell ignores SIGINT
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                ray.get(f.remote())
                for _ in range(100):
                    pass
        finally:
            signal.signal(signal.SIGINT, before)
        return
    with pytest.raises(ray.exceptions.TaskCancelledError) as e:
        ray.get(f.remote())
    assert isinstance(e.value.cause, KeyboardInterrupt) and "abc" in str(e.value)


def test_who_killed_an_actor_in_the_words_of_ray(fresh, gate):
    ray = fresh(num_cpus=1)
    if fresh.engine == "inline":
        pytest.skip("nothing runs meanwhile")

    @ray.remote
    class A:
        def wait(self, path):
            open(path, "rb", 0).read(1)

    a = A.remote()
    ray.get(a.__ray_ready__.remote())
    ref = a.wait.remote(gate.path)
    ray.kill(a)
    for r in (ref, a.wait.remote(gate.path)):
        with pytest.raises(ray.exceptions.RayActorError, match="it was killed by `ray.kill`"):
            ray.get(r)


# ---- generators


def test_a_generator_that_yields_too_many(ray, capfd):
    closed = []

    @ray.remote(num_returns=2)
    def f():
        try:
            yield from range(5)
        finally:
            closed.append(1)

    assert ray.get(f.remote()) == [0, 1]
    assert ray.get(f.options(num_returns=1).remote()) == 0

    @ray.remote(num_returns=2)
    def g():
        try:
            yield from range(5)
        finally:
            raise RuntimeError("while it is closed")

    with pytest.raises(RuntimeError, match="while it is closed"):
        ray.get(g.remote())


def test_dynamic_generator_runs_again(ray, tmp_path):
    path = str(tmp_path / "ran")

    @ray.remote(num_returns="dynamic", max_retries=2)
    def f(fail):
        with open(path, "a") as out:
            out.write("x")
        for i in range(3):
            yield i
            with open(path) as x:
                if len(x.read()) <= fail:
                    raise KeyError("not yet")

    refs = list(ray.get(f.remote(1)))
    assert ray.get(refs[0]) == 0 and len(refs) == 2
    with pytest.raises(KeyError):
        ray.get(refs[1])
    for retry in (True, [KeyError], [LookupError, OSError]):
        os.remove(path)
        assert ray.get(list(ray.get(f.options(retry_exceptions=retry).remote(2)))) == [0, 1, 2]
    os.remove(path)
    refs = list(ray.get(f.options(retry_exceptions=[OSError]).remote(1)))
    with pytest.raises(KeyError):
        ray.get(refs[1])
    os.remove(path)
    # no retries are left, so the values yielded so far stay
    refs = list(ray.get(f.options(retry_exceptions=True).remote(9)))
    with pytest.raises(KeyError):
        ray.get(refs[1])
    with open(path) as x:
        assert x.read() == "xxx"


# ---- ActorPool


def test_actor_pool_several_returns(ray):
    from skate.util import ActorPool

    @ray.remote
    class A:
        @ray.method(num_returns=2)
        def two(self, x):
            return x, x + 1

    pool = ActorPool([A.remote() for _ in range(2)])
    for i in range(4):
        pool.submit(lambda a, v: a.two.remote(v), i)
    assert [pool.get_next() for _ in range(2)] == [[0, 1], [1, 2]]
    assert sorted(pool.get_next_unordered() for _ in range(2)) == [[2, 3], [3, 4]]
    assert list(pool.map_unordered(lambda a, v: a.two.remote(v), [7])) == [[7, 8]]


def test_actor_pool_map_gives_up_what_was_submitted_before(fresh, gate):
    ray = fresh(num_cpus=2)
    if fresh.engine == "inline":
        pytest.skip("nothing runs meanwhile")
    from skate.util import ActorPool

    @ray.remote
    class A:
        async def f(self, x, path=None):
            if path:
                import asyncio

                await asyncio.get_running_loop().run_in_executor(
                    None, lambda: open(path, "rb", 0).read(1)
                )
            if x < 0:
                raise ValueError("nobody takes it")
            return x

    for name in ("map", "map_unordered"):
        pool = ActorPool([A.remote() for _ in range(2)])
        pool.submit(lambda a, v: a.f.remote(v, gate.path), 6)
        pool.submit(lambda a, v: a.f.remote(v), -1)
        assert sorted(getattr(pool, name)(lambda a, v: a.f.remote(v), range(5))) == [0, 1, 2, 3, 4]
    gate.let_go(2)


# ---- options


def test_label_selectors(ray):
    good = [
        {"ray.io/market-type": "spot", "a": "H100"},
        {"a": "!spot"},
        {"a": "in(H100, B200)"},
        {"a": "!in(H100,B200)"},
        {"a": ""},
    ]
    for s in good:
        ray.remote(label_selector=s)(lambda: 1)
    bad = [
        {"r!a!y.io/x": "spot"},
        {"??==ags!": "true"},
        {"a": "??==ags!"},
        {"a": "matches(TPU)"},
        {"a": "in(H100,, B200)"},
        {"a": "in(TPU, B"},
    ]
    for s in bad:
        with pytest.raises(ValueError, match="label_selector"):
            ray.remote(label_selector=s)(lambda: 1)
    with pytest.raises(TypeError):
        ray.remote(label_selector="")(lambda: 1)


def test_memory_is_whole_bytes(fresh):
    ray = fresh(_memory=2)

    @ray.remote
    def f():
        return 1

    assert (
        ray.get(f.options(memory=2.9).remote()) == 1
        and ray.get(f.options(memory=0.5).remote()) == 1
    )
    with pytest.raises(ray.exceptions.TaskUnschedulableError):
        ray.get(f.options(memory=3.1).remote())


def test_names_to_complete(ray):
    @ray.remote
    class A:
        def one(self):
            pass

    assert {"one", "remote", "options"} <= set(dir(A)) and "one" in dir(A.remote())
    assert A.remote()._actor_id.job_id.hex() == ray.get_runtime_context().get_job_id()


# ---- code in values


class Ends:
    """Shuts skate down while it is pickled (as another thread might, at the program's end), and
    starts skate again if asked to."""

    def __init__(self, n, again):
        self.n, self.again = n, again

    def __reduce__(self):
        import skate

        skate.shutdown()
        if self.again:
            skate.init(num_cpus=1, _system_config={"engine": self.again})
        return bytes, (b"x" * self.n,)


class EndsWhenLoaded:
    def __reduce__(self):
        return _end, ()


def _end():
    import skate

    skate.shutdown()


@pytest.mark.parametrize("again", [False, True])
def test_shutdown_while_something_is_pickled(fresh, again):
    """Each call meets a small and a large thing: one of them with `again`, the other without."""
    import numpy as np

    ray = fresh(num_cpus=1)

    @ray.remote
    def f(*args, **kwargs):
        return len(args)

    calls = [
        lambda ends: ray.put(ends),
        lambda ends: f.remote(ends),
        lambda ends: f.remote(np.zeros(100_000), ends, 5),
        lambda ends: f.remote(1, b=ends),
        lambda ends: ray.remote(lambda: ends.n).remote(),  # in the definition of a function
        lambda ends: f.options(name=str(ends.n)).remote([ends]),
    ]
    for i, call in enumerate(calls):
        if not ray.is_initialized():
            fresh(num_cpus=1)
        assert ray.get(f.remote(1)) == 1
        large = i % 2 == again
        try:
            call(Ends(100_000 if large else 10, again and fresh.engine))
        except ray.exceptions.RaySystemError as e:
            assert "shut down" in str(e)
        else:  # in a definition: functions that are sent later go to the new engine
            assert again and call is calls[4]
    fresh(num_cpus=1)
    assert ray.get(f.remote(1, 2)) == 2


def test_shutdown_while_something_is_loaded(fresh):
    ray = fresh(num_cpus=1)
    refs = [ray.put(b"x" * 20_000), ray.put([EndsWhenLoaded()]), ray.put(b"y" * 20_000), ray.put(5)]
    with pytest.raises(ray.exceptions.RaySystemError, match="shut down"):
        ray.get(refs)
    ray = fresh(num_cpus=1)
    assert ray.get(ray.put([EndsWhenLoaded()])) == [None]  # its own value exists already
    ray = fresh(num_cpus=1)
    assert ray.get(ray.put(1)) == 1


class Calls:
    """Calls a function from another place while it is pickled."""

    def __init__(self, f):
        self.f = f

    def __reduce__(self):
        for i in range(10):
            self.f.remote(**{name * 20: i for name in "abcdefgh"})
        return int, (7,)


def test_a_call_from_inside_of_a_call(fresh):
    ray = fresh(num_cpus=1)

    @ray.remote
    def f(first=None, second=None, **others):
        return first, second, len(others)

    for _ in range(10):
        assert ray.get(f.remote(first=Calls(f), second=2)) == (7, 2, 0)
