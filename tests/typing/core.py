"""What a type checker, and so an editor, knows of tasks, actors and objects. Checked by ./dev lint;
never run."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from collections.abc import Generator, Iterator
from typing import Any, assert_type

import skate
from skate import ActorHandle, ObjectRef, ObjectRefGenerator
from skate.util.multiprocessing import Pool


@skate.remote
def double(x: int, by: float = 2.0) -> int:
    return int(x * by)


@skate.remote(num_cpus=0.5, max_retries=0)
def name(x: int) -> str:
    return str(x)


@skate.remote
def count(n: int) -> Iterator[int]:
    yield from range(n)


@skate.remote
def inferred(n: int):
    yield n


@skate.remote(num_returns=2)
def both(n: int) -> tuple[int, str]:
    return n, str(n)


@skate.remote
class Counter:
    def __init__(self, start: int = 0):
        self.n = start

    @skate.method(num_returns=1)
    def add(self, n: int) -> int:
        self.n += n
        return self.n


assert_type(double.remote(1), ObjectRef[int])
assert_type(skate.get(double.remote(1)), int)
# a reference stands for its value
assert_type(skate.get(double.remote(double.remote(1), by=3)), int)
assert_type(skate.get([double.remote(1), double.remote(2)]), list[int])
assert_type(skate.get([name.remote(i) for i in range(3)], timeout=1.5), list[str])
assert_type(double.options(num_cpus=2, name="d").remote(1), ObjectRef[int])
assert_type(count.remote(3), ObjectRefGenerator[int])
assert_type([skate.get(ref) for ref in count.remote(3)], list[int])
assert_type(inferred.remote(3), ObjectRefGenerator[int])
assert_type(skate.get(skate.put("x")), str)
a, b = both.remote(1)
c, d = double.options(num_returns=2).remote(1)
ready, others = skate.wait([double.remote(1)], num_returns=1, timeout=0.1)
assert_type(ready, list[ObjectRef[int]])
assert_type(double.remote(1).future().result(), int)

counter = Counter.remote(1)
assert_type(skate.get_actor("c"), ActorHandle[Any])
skate.get(counter.add.remote(1))
skate.get(Counter.options(name="c", max_restarts=-1).remote().add.options(num_returns=1).remote(2))
skate.kill(counter, no_restart=False)


async def waits() -> None:
    assert_type(await double.remote(1), int)
    async for ref in count.remote(2):
        assert_type(await ref, int)


def generator() -> Generator[str, None, None]:
    yield "x"


assert_type(skate.remote(generator).remote(), ObjectRefGenerator[str])
with skate.init(num_cpus=2, object_store_memory=1 << 30) as context:
    assert_type(context["address"], Any)
with Pool(2) as pool:
    assert_type(pool.map(str, [1, 2]), list[str])
    assert_type(pool.starmap(generator, [(), ()]), list[Generator[str, None, None]])
    assert_type([name for name in pool.imap_unordered(str, [1, 2])], list[str])
    assert_type(pool.map_async(str, [1]).get(timeout=1), list[str])
    assert_type(pool.apply(int, ("1",)), int)
    pool.map(ord, [1])  # pyright: ignore[reportArgumentType]
assert_type(skate.cluster_resources(), dict[str, float])
assert_type(skate.empty((2, 3)).sum(), Any)

# what is wrong is told
skate.remote(num_cpu=2)  # pyright: ignore[reportCallIssue]
double.options(nmu_cpus=1)  # pyright: ignore[reportCallIssue]
skate.int(1)  # pyright: ignore[reportAttributeAccessIssue]
skate.as_ray()
_ = skate.no_such_name  # pyright: ignore[reportAttributeAccessIssue]
skate.util.ActorPool([])
