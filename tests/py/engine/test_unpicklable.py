"""The error for a value that cannot be sent has three lines: the path to the part at fault, what
the part is, and what to do."""

import collections
import concurrent.futures
import ctypes
import dataclasses
import functools
import logging
import mmap
import multiprocessing
import os
import queue
import re
import socket
import sqlite3
import sys
import tempfile
import threading
import weakref

import numpy as np
import pytest
import skate

LOCK = threading.Lock()


# as in a script: pickled by value, while functions of modules are pickled by name
NAMESPACE = {"__name__": "__main__"}
exec(
    compile(
        "import threading\nLOCK = threading.Lock()\ndef uses_global():\n    return LOCK\n",
        __file__,
        "exec",
    ),
    NAMESPACE,
)


def closure():
    lock = threading.Lock()

    def f():
        return lock

    return f


def rlock_in_a_list():
    things = [1, threading.RLock()]

    def f():
        return things

    return f


def deep_in_an_object():
    class Config:
        pass

    c = Config()
    c.db = {"conn": sqlite3.connect(":memory:")}

    def f():
        return c

    return f


def default_argument():
    def f(x, sock=socket.socket()):  # noqa: B008
        return sock

    return f


def keyword_default():
    def f(*, gen=(i for i in range(3))):
        return gen

    return f


def helper_in_closure():
    lock = threading.Lock()

    def helper():
        return lock

    def f():
        return helper()

    return f


def open_file():
    h = open(os.devnull, "wb")

    def f():
        return h.write(b"")

    return f


def thread_local():
    tl = threading.local()

    def f():
        return tl

    return f


def attribute():
    def f():
        return 1

    f.cache = threading.Lock()
    return f


def comprehension():
    def f():
        return [LOCK for _ in range(3)]

    return f


FUNCTIONS = [
    (
        lambda: NAMESPACE["uses_global"],
        r"uses_global -> global variable LOCK: threading.Lock cannot be sent .*; create it inside uses_global",
    ),
    (
        closure,
        r"f -> closure variable lock: threading.Lock cannot be sent to another process; create it inside f",
    ),
    (rlock_in_a_list, r"f -> closure variable things -> item 1: threading.RLock"),
    (
        deep_in_an_object,
        r"f -> closure variable c -> attribute db -> value of 'conn': sqlite3.Connection",
    ),
    (default_argument, r"f -> default of argument sock: a socket"),
    (keyword_default, r"f -> default of argument gen: a generator"),
    (helper_in_closure, r"f -> closure variable helper -> closure variable lock: threading.Lock"),
    (open_file, r"f -> closure variable h: an open file"),
    (thread_local, r"f -> closure variable tl: threading.local"),
    (attribute, r"f -> attribute cache: threading.Lock"),
    (comprehension, r"f -> global variable LOCK: threading.Lock"),
]


@pytest.mark.parametrize("make,text", FUNCTIONS, ids=[m.__name__ for m, _ in FUNCTIONS])
def test_functions(ray, make, text):
    with pytest.raises(TypeError) as info:
        ray.remote(make()).remote()
    lines = str(info.value).splitlines()
    assert re.match(text, lines[0]), lines
    assert len(lines) == 3 and "reason:" in lines[1] and "test_unpicklable.py:" in lines[2]


def in_slots():
    class S:
        __slots__ = ("a", "b")

    s = S()
    s.a, s.b = 1, threading.Lock()
    return s


def object_array():
    a = np.empty(2, object)
    a[0], a[1] = 1, threading.Lock()
    return a


def in_its_class():
    lock = threading.Lock()

    class WithProperty:
        @property
        def p(self):
            return lock

    return WithProperty()


def in_a_base_class():
    base = type("Base", (), {"lock": threading.Lock()})
    return type("Derived", (base,), {})()


def in_its_state():
    class Stateful:
        def __getstate__(self):
            return {"x": threading.Lock()}

    return Stateful()


def in_an_exception():
    e = ValueError("text")
    e.lock = threading.Lock()
    return e


def in_a_frame():
    pd = pytest.importorskip("pandas")
    return pd.DataFrame({"a": [1, threading.Lock()]})


async def nothing():
    pass


def a_coroutine():
    c = nothing()
    c.close()
    return c


def in_a_cycle():
    a = [1]
    a += [a, threading.Lock()]
    return a


def a_bound_method():
    class Model:
        def predict(self):
            return self.session

    m = Model()
    m.session = socket.socket()
    return m.predict


@dataclasses.dataclass
class Config:
    lock: object


VALUES = [
    (object_array, r"a value of type numpy.ndarray -> item 1: threading.Lock"),
    (
        in_its_class,
        r"a value of type .*WithProperty -> class WithProperty -> property p -> closure variable lock: threading.Lock",
    ),
    (
        in_a_base_class,
        r"a value of type .*Derived -> class Derived -> base class Base -> class attribute lock: threading.Lock",
    ),
    (in_its_state, r"a value of type .*Stateful -> state -> value of 'x': threading.Lock"),
    (in_an_exception, r"a value of type ValueError -> attribute lock: threading.Lock"),
    (in_a_frame, r"a value of type pandas.*DataFrame -> column 'a' -> item 1: threading.Lock"),
    (a_coroutine, r"a value of type coroutine: a coroutine cannot be sent"),
    (in_a_cycle, r"a value of type list -> item 2: threading.Lock"),
    (a_bound_method, r"predict -> bound object -> attribute session: a socket cannot be sent .*"),
    (
        lambda: Config(threading.Lock()),
        r"a value of type .*Config -> attribute lock: threading.Lock",
    ),
    (
        lambda: collections.deque([1, threading.Lock()]),
        r"a value of type collections.deque -> item 1: threading.Lock",
    ),
    (queue.Queue, r"a value of type queue.Queue -> attribute mutex: threading.Lock"),
    (
        threading.Event,
        r"a value of type threading.Event -> attribute _cond -> attribute _lock: threading.Lock",
    ),
    (
        lambda: concurrent.futures.ThreadPoolExecutor(1),
        r"a value of type .*ThreadPoolExecutor -> attribute ",
    ),
    (
        lambda: weakref.ref(Config),
        r"a value of type weakref.ReferenceType: a weak reference cannot be sent",
    ),
    (tempfile.TemporaryFile, r"a value of type .*: an open file cannot be sent"),
    (lambda: mmap.mmap(-1, 4096), r"a value of type mmap.mmap: mmap.mmap cannot be sent"),
    (
        lambda: ctypes.pointer(ctypes.c_int(1)),
        r"a value of type .*LP_c_int: .*LP_c_int cannot be sent",
    ),
    (lambda: multiprocessing.Lock(), r"a value of type .*Lock -> attribute _semlock: "),
    (
        lambda: logging.StreamHandler(),
        r"a value of type logging.StreamHandler -> attribute lock: threading.RLock",
    ),
    (lambda: sys._getframe(), r"a value of type frame: a frame cannot be sent"),
    (threading.Lock, r"a value of type _thread.lock: threading.Lock cannot be sent"),
    (
        lambda: {"k": [1, open(os.devnull, "w")]},
        r"a value of type dict -> value of 'k' -> item 1: an open file",
    ),
    (in_slots, r"a value of type .*S -> attribute b: threading.Lock"),
    (
        lambda: (i for i in "ab"),
        r"a value of type generator: a generator|.*: a generator cannot be sent",
    ),
    (
        lambda: functools.partial(max, threading.Lock()),
        r".*argument 0 of the partial: threading.Lock",
    ),
    (lambda: {threading.Lock(): 1}, r".*key .*: threading.Lock"),
]


@pytest.mark.parametrize("make,text", VALUES, ids=range(len(VALUES)))
def test_values(ray, make, text):
    @ray.remote
    def take(x):
        return 1

    for send in (ray.put, take.remote, lambda v: take.remote(x=[v])):
        with pytest.raises(TypeError, match="cannot be sent to another process"):
            send(make())
    with pytest.raises(TypeError) as info:
        ray.put(make())
    lines = str(info.value).splitlines()
    assert re.match(text, lines[0]), lines
    assert len(lines) == 3


def test_nested_too_deeply(ray):
    with pytest.raises(TypeError, match="^a list is nested too deeply"):
        ray.put(functools.reduce(lambda inner, _: [inner], range(100_000), 1))


def test_the_reason_of_the_class_itself(ray):
    class Refuses:
        def __reduce__(self):
            raise RuntimeError("my own reason")

    with pytest.raises(
        TypeError,
        match="item 0: .*Refuses cannot be sent.*\n  reason: RuntimeError: my own reason\n",
    ):
        ray.put([Refuses()])


def test_results(ray):
    @ray.remote
    def f():
        import threading

        return {"lock": threading.Lock()}

    with pytest.raises(TypeError, match="value of 'lock': threading.Lock"):
        ray.get(f.remote())

    @ray.remote
    def g():
        import threading

        yield 1
        yield threading.Lock()

    it = g.remote()
    assert ray.get(next(it)) == 1
    with pytest.raises(TypeError, match="threading.Lock"):
        ray.get(next(it))


def test_classes(ray):
    lock = threading.Lock()

    class A:
        shared = threading.Lock()

    class B:
        def m(self):
            return lock

    with pytest.raises(TypeError, match=r"A -> class attribute shared: threading.Lock.*__init__"):
        ray.remote(A).remote()
    with pytest.raises(TypeError, match=r"B -> method m -> closure variable lock: threading.Lock"):
        ray.remote(B).remote()


def test_a_generator_of_refs_cannot_be_sent(ray):
    @ray.remote
    def g():
        yield 1

    with pytest.raises(TypeError, match="ObjectRefGenerator"):
        ray.put([g.remote()])


def test_a_module_that_workers_cannot_load_is_told(ray):
    class Unloadable:
        def __reduce__(self):
            return _fails, ()

    @ray.remote
    def f():
        return Unloadable()

    with pytest.raises(Exception, match="never loads"):
        ray.get(f.remote())

    @skate.remote
    def take(x):
        return 1

    with pytest.raises(Exception, match="never loads"):
        ray.get(take.remote(Unloadable()))


def _fails():
    raise RuntimeError("never loads")
