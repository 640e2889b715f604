"""What cannot be sent is named: the path to it, what it is, what to do. Three lines."""

import functools
import os
import re
import socket
import sqlite3
import threading

import pytest
import skate

LOCK = threading.Lock()


NAMESPACE = {"__name__": "__main__"}  # as in a script: goes by value, while functions of modules go by name
exec(compile("import threading\nLOCK = threading.Lock()\ndef uses_global():\n    return LOCK\n", __file__, "exec"), NAMESPACE)


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
    (closure, r"f -> closure variable lock: threading.Lock cannot be sent to another process; create it inside f"),
    (rlock_in_a_list, r"f -> closure variable things -> item 1: threading.RLock"),
    (deep_in_an_object, r"f -> closure variable c -> attribute db -> value of 'conn': sqlite3.Connection"),
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


VALUES = [
    (threading.Lock, r"a value of type _thread.lock: threading.Lock cannot be sent"),
    (lambda: {"k": [1, open(os.devnull, "w")]}, r"a value of type dict -> value of 'k' -> item 1: an open file"),
    (in_slots, r"a value of type .*S -> attribute b: threading.Lock"),
    (lambda: (i for i in "ab"), r"a value of type generator: a generator|.*: a generator cannot be sent"),
    (lambda: functools.partial(max, threading.Lock()), r".*argument 0 of the partial: threading.Lock"),
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
