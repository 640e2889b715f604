"""What Pyright and mypy say of tasks and actors. `# error` marks the lines that both have to refuse,
`# error: pyright` and `# error: mypy` those that one of them refuses, because the other cannot know;
every other line is right for both. tests/py/unit/test_typing.py compares; it sets the two switches
of docs/guides/typing.md. Never run."""

from collections.abc import AsyncIterator, Iterator
from typing import Any, assert_type

import skate
from skate import ObjectRef, ObjectRefGenerator
from skate.actor import ActorHandle


@skate.remote
def square(x: int) -> int:
    return x * x


@skate.remote
def add(a: int, b: float = 1.0, *, c: str = "") -> float:
    return a + b


@skate.remote
def count(n: int) -> Iterator[int]:
    yield from range(n)


@skate.remote
def untyped(x, y=None):
    return x


@skate.remote(num_cpus=0.5)
def with_options(x: int) -> str:
    return str(x)


@skate.remote(num_returns=2)
def both(x: int) -> tuple[int, int]:
    return x, x


assert_type(square.remote(1), ObjectRef[int])
assert_type(square.options(num_cpus=2).remote(1), ObjectRef[int])
assert_type(count.remote(3), ObjectRefGenerator[int])
assert_type(with_options.remote(1), ObjectRef[str])
square.remote("x")  # error
square.remote()  # error: mypy
square.remote(1, 2)  # error
square.remote(y=1)  # error
square.remote(x="1")  # error
square.options(num_cpus=2).remote("x")  # error
square.options(num_cpu=2)  # error
square.nope  # error
square.remote(1) + 1  # error
with_options.remote("x")  # error
count.remote("x")  # error
both.remote("x")  # error
a, b = both.remote(1)

# without annotations: any arguments that fit, and a reference to anything; never a generator
assert_type(untyped.remote(1, y=2), ObjectRef[Any])
for one in untyped.remote(1):  # error
    pass
untyped.remote()  # error: mypy
untyped.remote(1, 2, 3)  # error

# a reference stands for its value, by position and by keyword
assert_type(add.remote(square.remote(1), 2), ObjectRef[float])
assert_type(add.remote(1, square.remote(1)), ObjectRef[float])
assert_type(square.remote(x=square.remote(1)), ObjectRef[int])
add.remote(1, c=with_options.remote(1))
add.remote("x", c=with_options.remote(1))  # error
# plain values by keyword beside references by keyword: only the plugin knows
add.remote(a=1, c=with_options.remote(1))  # error: pyright
add.remote(a=1, c=square.remote(1))  # error

assert_type(skate.get(square.remote(1)), int)
assert_type(skate.get([add.remote(1), add.remote(2)]), list[float])


class Counter:
    """A class whose methods say @skate.method: both know them."""

    def __init__(self, start: int, name: str = ""):
        self.n = start

    @skate.method
    def add(self, n: int, *, by: float = 1.0) -> int:
        self.n += n
        return self.n

    @skate.method(concurrency_group="io")
    async def later(self, n: int) -> str:
        return str(self.add(n))

    @skate.method
    def values(self) -> Iterator[int]:
        yield self.n

    @skate.method
    async def stream(self) -> AsyncIterator[int]:
        yield self.n

    @skate.method(num_returns=2)
    def two(self, n: int) -> tuple[int, int]:
        return n, n

    @skate.method
    def no_annotations(self, x, y=None):
        return x

    def inside(self) -> str:
        assert_type(self.add(1), int)
        self.add("x")  # error
        return "x"


CounterActor = skate.remote(Counter)
c = CounterActor.remote(1, name="x")
assert_type(c.add.remote(1), ObjectRef[int])
assert_type(c.add.remote(square.remote(1)), ObjectRef[int])
assert_type(c.add.options(name="x").remote(1, by=2), ObjectRef[int])
assert_type(c.later.remote(1), ObjectRef[str])
assert_type(c.values.remote(), ObjectRefGenerator[int])
assert_type(c.stream.remote(), ObjectRefGenerator[int])
assert_type(c.no_annotations.remote(1), ObjectRef[Any])
x, y = c.two.remote(1)
c.nope.remote()  # error
c.add.remote("x")  # error
c.add.remote(1, 2)  # error
c.add.remote(1, bye=2)  # error
c.add.options(nam="x")  # error
c.two.remote("x")  # error
c.later.remote("x")  # error
CounterActor.remote("x")  # error
CounterActor.remote(1, nam="x")  # error
CounterActor.options(name="c").remote("x")  # error
CounterActor.remote(square.remote(1))
skate.kill(c)


def given(h: ActorHandle[Counter]) -> None:
    assert_type(h.add.remote(1), ObjectRef[int])
    h.nope.remote()  # error
    h.add.remote("x")  # error


given(c)


@skate.remote
class Plain:
    """A class as Ray's users write them: only mypy's plugin knows its methods. Pyright, told that
    handles are typed, asks for @skate.method; else it lets everything pass."""

    def __init__(self, n: int = 0):
        self.n = n

    def add(self, n: int) -> int:
        return n


p = Plain.remote(1)
p.nope.remote()  # error
p.add.remote("x")  # error
p.add.remote(1)  # error: pyright
assert_type(skate.get(p.add.remote(1)), int)  # error: pyright
Plain.remote("x")  # error
Plain.options(num_cpus=1).remote("x")  # error


@skate.remote(num_cpus=1)
class WithOptions:
    @skate.method
    def get(self) -> int:
        return 1


w = WithOptions.remote()
assert_type(w.get.remote(), ObjectRef[int])
w.get.remote(1)  # error
w.got.remote()  # error
assert_type(skate.get_actor("c"), Any)  # error: mypy
