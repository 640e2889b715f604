"""Actors that run calls concurrently (threads, an event loop), names, orderly ends, interrupts: the
C core through Template, without options."""

import asyncio
import os
import signal
import threading
import time

import pytest
import skate
from skate import _skate, ids
from skate.actor import ActorHandle, Meta, _methods
from waits import wait_until


@pytest.fixture
def ray():
    skate.shutdown()
    skate.init(
        num_cpus=4, object_store_memory=128 << 20, _system_config={"preload": "light_pytest"}
    )
    yield skate
    skate.shutdown()


def make(cls, *args, **options):
    t = _skate.Template("actor", cls, cls.__name__, num_cpus=0, **options)
    return ActorHandle(
        t.submit(*args), Meta(cls.__name__, _methods(cls), {"_default": 0}, 0, False, 0, 0)
    )


class Held:
    """Counts its living instances."""

    n = 0

    def __init__(self):
        self.data = bytes(1000)
        Held.n += 1

    def __del__(self):
        Held.n -= 1


class Loop:
    def __init__(self):
        self.event = asyncio.Event()
        self.waiting = 0
        self.loop = asyncio.get_running_loop()
        self.ended = None

    async def wait(self):
        self.waiting += 1
        await self.event.wait()
        await asyncio.sleep(0)
        return _skate.current_task()[0]

    async def send(self):
        self.event.set()

    def n(self):
        return (
            self.waiting,
            asyncio.get_running_loop() is self.loop,
            threading.current_thread() is threading.main_thread(),
        )

    async def fails(self):
        await asyncio.sleep(0)
        raise ValueError("no luck")

    async def sleep(self):
        self.waiting += 1
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            self.ended = "cancelled"
            raise

    async def fails_with(self, size):
        held = Held()
        await asyncio.sleep(0)
        raise ValueError(len(held.data[:size]))

    async def held(self):
        return Held.n

    async def goes_on(self):
        self.waiting += 1
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return "went on"

    async def how(self):
        return self.ended

    async def gen(self, n, fail=False):
        for i in range(n):
            await asyncio.sleep(0)
            yield i
        if fail:
            raise ValueError("after all")

    async def leave(self):
        raise SystemExit(3)


def test_async_calls(ray):
    a = make(Loop, groups=[1000], is_async=True)
    refs = [a.wait.remote() for _ in range(300)]
    wait_until(lambda: ray.get(a.n.remote())[0] >= 300)
    assert ray.get(a.n.remote()) == (300, True, True)
    ray.get(a.send.remote())
    # each coroutine can find its own task
    assert [ids.TaskID._of(n) for n in ray.get(refs)] == [r.task_id() for r in refs]
    with pytest.raises(ValueError, match="no luck"):
        ray.get(a.fails.remote())
    with pytest.raises(ray.exceptions.RayTaskError):  # the exception ends the call, not the loop
        ray.get(a.leave.remote())
    assert ray.get(a.n.remote())[0] == 300


# the exception and the frame that caught it referred to each other
def test_what_a_failed_async_call_held_is_let_go_at_once(ray):
    a = ray.remote(Loop).remote()
    for _ in range(3):
        with pytest.raises(ValueError, match="7"):
            ray.get(a.fails_with.remote(7))
    assert ray.get(a.held.remote()) == 0


def test_async_cancel(ray):
    a = make(Loop, groups=[1000], is_async=True)
    ref = a.sleep.remote()
    wait_until(lambda: ray.get(a.n.remote())[0] >= 1)
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref)
    assert ray.get(a.how.remote()) == "cancelled"
    ref = a.goes_on.remote()
    wait_until(lambda: ray.get(a.n.remote())[0] >= 2)
    ray.cancel(ref)
    # a coroutine that catches CancelledError continues, as everywhere in asyncio
    assert ray.get(ref) == "went on"


@pytest.mark.parametrize("window", [0, 1, 3])
def test_async_generator(ray, window):
    a = make(Loop, groups=[1000], is_async=True)
    o = {"num_returns": "streaming"} | (
        {"_generator_backpressure_num_objects": window} if window else {}
    )
    one, two = a.gen.options(**o).remote(50), a.gen.options(**o).remote(50)
    assert [(ray.get(x), ray.get(y)) for x, y in zip(one, two)] == [(i, i) for i in range(50)]
    bad = a.gen.options(**o).remote(2, True)
    assert [ray.get(next(bad)), ray.get(next(bad))] == [0, 1]
    with pytest.raises(ValueError, match="after all"):
        ray.get(next(bad))


class Threads:
    def __init__(self):
        self.event = threading.Event()
        self.local = threading.local()

    def mark(self):
        self.local.seen = True

    def wait(self):
        self.event.wait()
        return threading.get_ident()

    def send(self):
        self.event.set()

    def seen(self):
        return getattr(self.local, "seen", False)

    def nested(self, refs):
        return skate.get(refs[0])

    def pid(self):
        return os.getpid()

    def leave(self):
        _skate.actor_exit()
        raise SystemExit


def test_threads(ray):
    a = make(Threads, groups=[4])
    refs = [a.wait.remote() for _ in range(3)]
    ray.get(a.send.remote())
    assert len(set(ray.get(refs))) == 3
    one = make(Threads, groups=[1, 1])  # the first group has one thread
    ray.get(one.mark.remote())
    assert ray.get(one.seen.remote())  # a thread keeps its locals between calls

    @ray.remote
    def f(x):
        return x

    assert ray.get([a.nested.remote([f.remote(i)]) for i in range(100)]) == list(range(100))


def test_names(ray):
    a = make(Threads, actor_name="bob", space="s", meta=b"abc")
    assert _skate.actor_find("bob", None) is None
    token, meta = _skate.actor_find("bob", "s")
    assert meta == b"abc" and token.id == a._token.id
    assert _skate.actor_names() == [("s", "bob")]
    with pytest.raises(ray.exceptions.ActorAlreadyExistsError):
        make(Threads, actor_name="bob", space="s", meta=b"")

    @ray.remote
    def find():
        t, m = _skate.actor_find("bob", "s")
        try:
            make(Threads, actor_name="bob", space="s", meta=b"")
        except ValueError:
            m += b"!"
        return m, ray.get(
            ActorHandle(
                t, Meta("Threads", _methods(Threads), {"_default": 0}, 0, False, 0, 0)
            ).pid.remote()
        )

    assert ray.get(find.remote()) == (b"abc!", ray.get(a.pid.remote()))
    ray.kill(a)
    assert _skate.actor_find("bob", "s") is None


def test_exit_and_max_calls(ray):
    a = make(Threads, max_restarts=-1)
    for ref in (a.leave.remote(), a.pid.remote()):
        with pytest.raises(ray.exceptions.ActorDiedError, match="exit_actor"):
            ray.get(ref)
    with pytest.raises(TypeError):
        _skate.actor_exit()
    t = _skate.Template("task", os.getpid, "getpid", max_calls=2)
    assert len({ray.get(t.submit()) for _ in range(10)}) == 5


def test_cancel_interrupts(ray):
    running = ray.remote(lambda: None)  # starts a worker
    ray.get(running.remote())

    @ray.remote
    def sleeps(path):
        open(path, "w").close()
        time.sleep(1000)

    @ray.remote
    def spins(path):
        open(path, "w").close()
        while True:
            pass

    @ray.remote
    def waits(path):
        return ray.get(sleeps.remote(path))

    @ray.remote
    def survives(path):
        try:
            open(path, "w").close()
            time.sleep(1000)
        except KeyboardInterrupt:
            return _skate.task_cancelled()

    @ray.remote
    def misses(path):  # the first signal has no effect, as if it arrived just before a sleep begins
        before = signal.signal(signal.SIGINT, lambda *_: signal.signal(signal.SIGINT, before))
        open(path, "w").close()
        time.sleep(1000)

    import tempfile

    with tempfile.TemporaryDirectory() as d:
        for f in (sleeps, spins, waits, misses, survives):
            path = os.path.join(d, f.__name__)
            ref = f.remote(path)
            wait_until(lambda: os.path.exists(path))  # noqa: B023  (called now)
            ray.cancel(ref)
            if f is survives:
                assert ray.get(ref) is True
                continue
            with pytest.raises(ray.exceptions.TaskCancelledError):
                ray.get(ref)
    # the child task of `waits` was cancelled with it
    wait_until(lambda: ray.available_resources()["CPU"] >= 4)
