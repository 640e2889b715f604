"""Parallel iterators: sequences whose shards are produced by actors, and what is gathered from them
here.

`from_items`, `from_range`, `from_iterators` and `from_actors` make a ParallelIterator. What is
added to one (`for_each`, `filter`, ...) runs in the actors, lazily; `gather_sync` and
`gather_async` give a LocalIterator, whose further steps run in the process that iterates. Each pass
over a ParallelIterator starts from the beginning and has its own state in the actors. Ray calls
this interface deprecated; new programs are better off with `skate.data`.

A step is a function from an iterator to an iterator. Where several iterators are read at once
(`union`), one that has nothing yet yields a `_NotReady` instead of an item, with the references
that it waits for; steps hand it on.
"""

from __future__ import annotations

import collections
import itertools
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import skate

Step = Callable[[Iterator[Any]], Iterator[Any]]


class _NotReady:
    """In place of an item: there is none yet. refs: one of them has to be ready before there can be
    one."""

    __slots__ = ("refs",)

    def __init__(self, refs: list = []):  # noqa: B006 (never written)
        self.refs = refs


# ---- steps: what for_each, filter, ... do, in an actor or here


def _each(fn: Callable[[Any], Iterable[Any]]) -> Step:
    """Zero or more items for each."""

    def step(it):
        for item in it:
            if isinstance(item, _NotReady):
                yield item
            else:
                yield from fn(item)

    return step


def _map(fn: Callable[[Any], Any]) -> Step:
    return _each(lambda item: (fn(item),))


def _map_by_tasks(fn: Callable[[Any], Any], n_tasks: int, options: dict) -> Step:
    """fn in tasks of their own, n_tasks at a time at most; results as they come to be."""

    def step(it):
        task = skate.remote(fn).options(**options) if options else skate.remote(fn)
        running, more = [], True
        while running or more:
            while more and len(running) < n_tasks:
                item = next(it, step)
                if item is step:
                    more = False
                elif isinstance(item, _NotReady):
                    if not running:
                        yield item
                    break
                else:
                    running.append(task.remote(item))
            if running:
                ready, running = skate.wait(running, num_returns=1)
                yield skate.get(ready[0])

    return step


def _batches(n: int) -> Step:
    if n < 1:
        raise ValueError(f"batch: a batch has one item or more, not {n}")

    def step(it):
        batch = []
        for item in it:
            if isinstance(item, _NotReady):
                yield item
                continue
            batch.append(item)
            if len(batch) == n:
                yield batch
                batch = []
        if batch:
            yield batch

    return step


def _shuffle(n: int, seed: int | None) -> Step:
    if n < 1:
        raise ValueError(f"shuffle_buffer_size: one item or more is wanted, not {n}")

    def step(it):
        chance, buffer = random.Random(seed), []
        for item in it:
            if isinstance(item, _NotReady):
                yield item
                continue
            buffer.append(item)
            if len(buffer) >= n:
                yield buffer.pop(chance.randrange(len(buffer)))
        chance.shuffle(buffer)
        yield from buffer

    return step


def _combined(fn: Callable[[Any], Any]) -> Step:
    def items(item):
        out = fn(item)
        if not isinstance(out, list):
            raise TypeError(
                f"combine: the function has to give a list of items, not {type(out).__name__}"
            )
        return out

    return _each(items)


class _Steps:
    """The operations that a ParallelIterator and a LocalIterator share. `_with(step, name)` gives
    the iterator with one step more."""

    def _with(self, step: Step, name: str):
        raise NotImplementedError

    def transform(self, fn: Step):
        """fn from the iterator of all items (of a shard) to another one. In a LocalIterator that is
        read by `union` it may meet items that mean "not yet"; `for_each` is the better choice
        there.

        Args:
            fn: A function of an iterator that gives an iterator, such as a generator function.
        """
        return self._with(fn, ".transform()")

    def for_each(
        self, fn: Callable[[Any], Any], max_concurrency: int = 1, resources: dict | None = None
    ):
        """fn of each item.

        Args:
            fn: A function of an item.
            max_concurrency: With more than 1, fn runs in tasks, so many at a time (a shard), and
                results come as they come to be.
            resources: Options of these tasks, such as {"num_cpus": 0.5}.

        Raises:
            ValueError: max_concurrency is less than 1.
        """
        if max_concurrency < 1:
            raise ValueError(f"max_concurrency: 1 or more is wanted, not {max_concurrency}")
        return self._with(
            _map(fn)
            if max_concurrency == 1
            else _map_by_tasks(fn, max_concurrency, resources or {}),
            ".for_each()",
        )

    def filter(self, fn: Callable[[Any], bool]):
        """The items for which fn is true."""
        return self._with(_each(lambda item: (item,) if fn(item) else ()), ".filter()")

    def batch(self, n: int):
        """Lists of n items; the last one (of a shard) may be shorter. ValueError: n is less than
        1."""
        return self._with(_batches(n), f".batch({n})")

    def flatten(self):
        """The items of the items, which are iterables."""
        return self._with(_each(lambda item: item), ".flatten()")

    def combine(self, fn: Callable[[Any], list]):
        """The items of the lists that fn gives of each item. TypeError: fn gave something else than
        a list."""
        return self._with(_combined(fn), ".combine()")

    def take(self, n: int) -> list:
        """The first n items, or fewer where there are no more."""
        return list(itertools.islice(iter(self), n))  # type: ignore[call-overload]

    def show(self, n: int = 20) -> None:
        """Prints the first n items."""
        for item in self.take(n):
            print(item)


# ---- in the actors


class ParallelIteratorWorker:
    """The base class of actors that hold a shard.

    Args:
        item_generator: An iterable, or a function without arguments that gives an iterator;
            iterated anew for each pass.
        repeat: Whether it starts again at its end, for ever.
    """

    def __init__(self, item_generator: Any, repeat: bool):
        self._source, self._repeat = item_generator, repeat
        self._passes: dict[str, _Pass] = {}

    def _items(self) -> Iterator[Any]:
        while True:
            some = False
            items: Any = self._source() if callable(self._source) else self._source
            for item in items:
                some = True
                yield item
            if not (self._repeat and some):
                return

    def par_iter_next(
        self, key: str, steps: list[Step], batch_ms: float, n_slices: int, i_slice: int
    ) -> list:
        """The next items of slice i_slice of n_slices of the pass `key`: one, or with batch_ms
        those that come within so many milliseconds; [] at the end. Slice i has the items i, i +
        n_slices, ... of what the steps give."""
        p = self._passes.get(key)
        if p is None:
            it = self._items()
            for step in steps:
                it = iter(step(it))
            p = self._passes[key] = _Pass(it, n_slices)
        end = time.perf_counter() + batch_ms / 1000
        out: list = []
        while (not out or time.perf_counter() < end) and p.fill(i_slice):
            out.append(p.ahead[i_slice].popleft())
        if not out:
            p.end_slice(i_slice)
        return out


class _Pass:
    """One pass over a shard, and what was read ahead of it for slices that have not asked yet."""

    def __init__(self, it: Iterator[Any], n_slices: int):
        self.ahead: list[collections.deque] = [collections.deque() for _ in range(n_slices)]
        self._it, self._n, self._ended = it, 0, set()

    def fill(self, i: int) -> bool:
        """Whether slice i has an item."""
        for item in () if self.ahead[i] else self._it:
            at, self._n = self._n % len(self.ahead), self._n + 1
            self.ahead[at].append(item)
            if at == i:
                break
        return bool(self.ahead[i])

    def end_slice(self, i: int) -> None:
        """Slice i has come to its end. When all have, the iterator goes; the pass stays, since
        calls for it may be on their way."""
        self._ended.add(i)
        if len(self._ended) == len(self.ahead):
            self._it = iter(())


_Worker = skate.remote(ParallelIteratorWorker)


# ---- made of several actors


def from_items(items: list, num_shards: int = 2, repeat: bool = False) -> ParallelIterator:
    """A ParallelIterator over a list: item i is in shard i % num_shards.

    Args:
        items: The items.
        num_shards: The number of actors.
        repeat: Whether the list starts again at its end, for ever.
    """
    shards = [items[i::num_shards] for i in range(num_shards)]
    kind = type(items[0]).__name__ if items else "None"
    return from_iterators(
        shards,
        repeat,
        f"from_items[{kind}, {len(items)}, shards={num_shards}{', repeat=True' * repeat}]",
    )


def from_range(n: int, num_shards: int = 2, repeat: bool = False) -> ParallelIterator:
    """A ParallelIterator over 0 .. n - 1: each shard has a piece of n // num_shards numbers, the
    last one the rest, too.

    Args:
        n: The number of numbers.
        num_shards: The number of actors.
        repeat: Whether they start again at the end, for ever.
    """
    size = n // num_shards
    shards = [
        range(i * size, n if i == num_shards - 1 else (i + 1) * size) for i in range(num_shards)
    ]
    return from_iterators(
        shards, repeat, f"from_range[{n}, shards={num_shards}{', repeat=True' * repeat}]"
    )


def from_iterators(
    generators: list, repeat: bool = False, name: str | None = None
) -> ParallelIterator:
    """A ParallelIterator of one shard for each of the generators.

    Args:
        generators: Iterables, or functions without arguments that give iterators; each is sent to
            an actor of its own.
        repeat: Whether each starts again at its end, for ever.
        name: What repr shows.
    """
    actors = [_Worker.remote(g, repeat) for g in generators]
    return from_actors(
        actors, name or f"from_iterators[shards={len(generators)}{', repeat=True' * repeat}]"
    )


def from_actors(actors: list, name: str | None = None) -> ParallelIterator:
    """A ParallelIterator of one shard for each of the actors.

    Args:
        actors: Actors whose class is made of ParallelIteratorWorker.
        name: What repr shows.
    """
    return ParallelIterator([(a, ()) for a in actors], name or f"from_actors[shards={len(actors)}]")


class _Reader:
    """A pass over one shard from here."""

    def __init__(
        self,
        shard: tuple,
        key: str | None = None,
        batch_ms: float = 0,
        n_slices: int = 1,
        i_slice: int = 0,
    ):
        self.actor, self._steps = shard
        self._how = (key or uuid.uuid4().hex, list(self._steps), batch_ms, n_slices, i_slice)

    def ask(self) -> Any:
        """A reference to the next items; [] at the end."""
        return self.actor.par_iter_next.remote(*self._how)


def _as_they_come(readers: list[_Reader], num_async: int, timeout: float | None) -> Iterator[Any]:
    """The items of all readers as they come to be, with num_async calls under way for each."""
    asked = {}  # ref -> reader
    for r in readers:
        for _ in range(num_async):
            asked[r.ask()] = r
    while asked:
        ready, _ = skate.wait(list(asked), num_returns=1, timeout=timeout)
        if not ready:
            yield _NotReady(list(asked))
            continue
        r = asked.pop(ready[0])
        items = skate.get(ready[0])
        if items:
            asked[r.ask()] = r
        for item in items:
            _came_from(r.actor)
            yield item


def _in_step(readers: list[_Reader]) -> Iterator[list]:
    """Lists of one item of each reader, in order; shorter ones when some have ended."""
    asked = [(r, r.ask()) for r in readers]
    while asked:
        items = skate.get([ref for _, ref in asked])
        batch = [(r, i[0]) for (r, _), i in zip(asked, items) if i]
        asked = [(r, r.ask()) for r, _ in batch]
        if batch:
            yield batch


class ParallelIterator(_Steps):
    """Items in shards, each produced by an actor. Made by from_items, from_range, from_iterators or
    from_actors."""

    def __init__(self, shards: list[tuple], name: str):
        self._shards, self._name = shards, name  # (actor, steps) each

    def __repr__(self) -> str:
        return f"ParallelIterator[{self._name}]"

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(
            "a ParallelIterator has no order of its own; iterate over it.gather_sync() or it.gather_async()"
        )

    def _with(self, step: Step, name: str) -> ParallelIterator:
        return ParallelIterator(
            [(a, (*steps, step)) for a, steps in self._shards], self._name + name
        )

    def local_shuffle(self, shuffle_buffer_size: int, seed: int | None = None) -> ParallelIterator:
        """The items of each shard, each time one by chance of a buffer of shuffle_buffer_size
        items.

        Args:
            shuffle_buffer_size: The size of the buffer in items; 1 leaves the order as it is.
            seed: Of the order; None: another one each time.
        """
        return self._with(
            _shuffle(shuffle_buffer_size, seed),
            f".local_shuffle(shuffle_buffer_size={shuffle_buffer_size}, seed={seed})",
        )

    def repartition(self, num_partitions: int, batch_ms: float = 0) -> ParallelIterator:
        """As num_partitions shards: the items of each shard are dealt out among new actors in turn.
        No item is sent through this process.

        Args:
            num_partitions: The number of new shards.
            batch_ms: Items that come within so many milliseconds travel together.
        """
        shards, key = self._shards, uuid.uuid4().hex

        def part(i):
            return lambda: _as_they_come(
                [_Reader(s, key, batch_ms, num_partitions, i) for s in shards], 1, None
            )

        return from_iterators(
            [part(i) for i in range(num_partitions)],
            name=f"{self._name}.repartition[num_partitions={num_partitions}]",
        )

    def _local(self, base: Callable[[float | None], Iterator[Any]], name: str) -> LocalIterator:
        return LocalIterator(base, f"{self!r}{name}")

    def gather_sync(self) -> LocalIterator:
        """One item of each shard in turn; the order is the same on every run."""
        shards = self._shards

        def base(timeout):
            for batch in _in_step([_Reader(s) for s in shards]):
                for r, item in batch:
                    _came_from(r.actor)
                    yield item

        return self._local(base, ".gather_sync()")

    def batch_across_shards(self) -> LocalIterator:
        """Lists of one item of each shard; shorter ones when some have ended."""
        shards = self._shards
        return self._local(
            lambda timeout: (
                [item for _, item in b] for b in _in_step([_Reader(s) for s in shards])
            ),
            ".batch_across_shards()",
        )

    def gather_async(self, batch_ms: float = 0, num_async: int = 1) -> LocalIterator:
        """The items of all shards as they come to be.

        Args:
            batch_ms: Items that come within so many milliseconds travel together.
            num_async: How many calls are under way for each shard: how far it may run ahead.

        Raises:
            ValueError: num_async is less than 1, or batch_ms less than 0.
        """
        shards = self._shards
        _check_async(batch_ms, num_async)
        return self._local(
            lambda timeout: _as_they_come(
                [_Reader(s, batch_ms=batch_ms) for s in shards], num_async, timeout
            ),
            ".gather_async()",
        )

    def take(self, n: int) -> list:
        """The first n items of gather_sync()."""
        return self.gather_sync().take(n)

    def union(self, other: ParallelIterator) -> ParallelIterator:
        """The shards of both.

        Args:
            other: Another ParallelIterator.

        Raises:
            TypeError: other is something else.
        """
        if not isinstance(other, ParallelIterator):
            raise TypeError(f"union: a ParallelIterator is wanted, not {type(other).__name__}")
        return ParallelIterator(self._shards + other._shards, f"ParallelUnion[{self!r}, {other!r}]")

    def select_shards(self, shards_to_keep: list[int]) -> ParallelIterator:
        """The shards of these indices only."""
        return ParallelIterator(
            [self._shards[i] for i in shards_to_keep],
            f"{self._name}.select_shards({len(shards_to_keep)} total)",
        )

    def num_shards(self) -> int:
        """The number of shards."""
        return len(self._shards)

    def shards(self) -> list[LocalIterator]:
        """A LocalIterator for each shard."""
        return [self.get_shard(i) for i in range(len(self._shards))]

    def get_shard(self, shard_index: int, batch_ms: float = 0, num_async: int = 1) -> LocalIterator:
        """A LocalIterator over one shard, in its order.

        Args:
            shard_index: Which one, from 0 on.
            batch_ms: Items that come within so many milliseconds travel together.
            num_async: How many calls are under way: how far the shard may run ahead.

        Raises:
            ValueError: num_async is less than 1, or batch_ms less than 0.
            IndexError: There is no such shard.
        """
        shard = self._shards[shard_index]
        _check_async(batch_ms, num_async)

        def base(timeout):
            r = _Reader(shard, batch_ms=batch_ms)
            asked = collections.deque(r.ask() for _ in range(num_async))
            while asked:
                if timeout is not None and not skate.wait([asked[0]], timeout=timeout)[0]:
                    yield _NotReady([asked[0]])
                    continue
                items = skate.get(asked.popleft())
                if items:
                    asked.append(r.ask())
                yield from items

        return self._local(base, f".shard[{shard_index}]")


def _check_async(batch_ms: float, num_async: int) -> None:
    if num_async < 1:
        raise ValueError(f"num_async: 1 or more is wanted, not {num_async}")
    if batch_ms < 0:
        raise ValueError(f"batch_ms: milliseconds from 0 on are wanted, not {batch_ms}")


# ---- here


class MetricsContext:
    """Numbers that the steps of a LocalIterator share.

    Attributes:
        counters: Numbers by name, 0 at first.
        info: Anything by name.
        current_actor: The actor that the item at hand came from.
    """

    def __init__(self):
        self.counters: dict[str, int] = collections.defaultdict(int)
        self.info: dict[str, Any] = {}
        self.current_actor: Any = None


class _Metrics:
    """Where the MetricsContext of an iterator is found: in its own place, or, once it is part of a
    union, in that of the union."""

    def __init__(self):
        self._own, self._above = MetricsContext(), None

    def join(self, above: _Metrics) -> None:
        if self._above is not None:
            self._above.join(above)
        elif self is not above:
            self._above = above

    def get(self) -> MetricsContext:
        return self._above.get() if self._above else self._own


# .metrics: the _Metrics of the LocalIterator that this thread advances
_running = threading.local()


def _came_from(actor: Any) -> None:
    metrics = getattr(_running, "metrics", None)
    if metrics is not None:  # none: an actor reads, for repartition
        metrics.get().current_actor = actor


class LocalIterator(_Steps):
    """An iterator in this process over items that actors produce. It can be sent to a task before
    its first item was taken."""

    def __init__(
        self,
        base: Callable[[float | None], Iterator[Any]],
        name: str,
        steps: tuple = (),
        metrics: _Metrics | None = None,
    ):
        self._base, self._name, self._steps = base, name, steps
        self._metrics = metrics or _Metrics()
        self._it: Iterator[Any] | None = None

    @staticmethod
    def get_metrics() -> MetricsContext:
        """The MetricsContext of the LocalIterator whose step calls this.

        Raises:
            ValueError: It is called from elsewhere.
        """
        metrics = getattr(_running, "metrics", None)
        if metrics is None:
            raise ValueError(
                "get_metrics: no step of a LocalIterator runs in this thread; call it inside the function of for_each(), filter(), ..."
            )
        return metrics.get()

    def __repr__(self) -> str:
        return f"LocalIterator[{self._name}]"

    def _with(self, step: Step, name: str) -> LocalIterator:
        return LocalIterator(self._base, self._name + name, (*self._steps, step), self._metrics)

    def _build(self, timeout: float | None) -> Iterator[Any]:
        """The iterator with all steps. timeout in seconds: after so long without an item it yields
        a _NotReady; None: it waits."""
        it = self._base(timeout)
        for step in self._steps:
            it = iter(step(it))
        return _Within(self._metrics, it)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._it is None:
            self._it = self._build(None)
        for item in self._it:
            if not isinstance(item, _NotReady):
                return item
        raise StopIteration

    def shuffle(self, shuffle_buffer_size: int, seed: int | None = None) -> LocalIterator:
        """Each time one item by chance of a buffer of shuffle_buffer_size items. Arguments: as of
        ParallelIterator.local_shuffle."""
        return self._with(
            _shuffle(shuffle_buffer_size, seed),
            f".shuffle(shuffle_buffer_size={shuffle_buffer_size}, seed={seed})",
        )

    def zip_with_source_actor(self) -> LocalIterator:
        """Pairs of the actor that an item came from and the item."""
        return self._with(
            _map(lambda item: (LocalIterator.get_metrics().current_actor, item)),
            ".zip_with_source_actor()",
        )

    def duplicate(self, n: int) -> list[LocalIterator]:
        """n iterators over the same items, to be read in this process; what one has read and others
        have not is kept.

        Args:
            n: How many, 2 or more.

        Raises:
            ValueError: n is less than 2.
        """
        if n < 2:
            raise ValueError(f"duplicate: 2 or more are wanted, not {n}")
        queues: list[collections.deque] = [collections.deque() for _ in range(n)]
        source: list[Iterator[Any]] = []

        def base(i):
            def items(timeout):
                if not source:
                    source.append(self._build(timeout))
                while True:
                    if not queues[i] and timeout is not None and any(queues):
                        # the others first, so that little is kept; once, since perhaps nobody reads
                        # them
                        yield _NotReady()
                    if not queues[i]:
                        item = next(source[0], queues)
                        if item is queues:
                            return
                        if isinstance(item, _NotReady):
                            yield item
                            continue
                        for q in queues:
                            q.append(item)
                    yield queues[i].popleft()

            return items

        return [
            LocalIterator(base(i), f"{self._name}.duplicate[{i}]", (), self._metrics)
            for i in range(n)
        ]

    def union(
        self,
        *others: LocalIterator,
        deterministic: bool = False,
        round_robin_weights: list | None = None,
    ) -> LocalIterator:
        """The items of this iterator and of others.

        Args:
            others: Other LocalIterators.
            deterministic: Whether they are read in turn, waiting for each; else whichever has an
                item is read.
            round_robin_weights: How many items are read of each in its turn; "*": as many as it has
                at the moment.

        Raises:
            TypeError: One of the others is no LocalIterator.
            ValueError: There are not as many weights as iterators.
        """
        for other in others:
            if not isinstance(other, LocalIterator):
                raise TypeError(f"union: LocalIterators are wanted, not {type(other).__name__}")
        parts = [self, *others]
        weights = round_robin_weights or [1] * len(parts)
        if len(weights) != len(parts):
            raise ValueError(
                f"round_robin_weights: {len(parts)} are wanted, one for each iterator, not {len(weights)}"
            )
        metrics = _Metrics()
        for p in parts:
            p._metrics.join(metrics)

        def base(timeout):
            active = [
                (p._build(None if deterministic and w != "*" else 0), w)
                for p, w in zip(parts, weights)
            ]
            while active:
                waits, some = [], False
                for part in list(active):
                    it, weight = part
                    for _ in itertools.count() if weight == "*" else range(weight):
                        item = next(it, active)
                        if item is active:
                            active.remove(part)
                            break
                        if isinstance(item, _NotReady):
                            waits += item.refs
                            break
                        some = True
                        yield item
                if active and not some and waits:
                    if not skate.wait(waits, num_returns=1, timeout=timeout)[0]:
                        yield _NotReady(waits)

        return LocalIterator(base, f"LocalUnion[{', '.join(map(repr, parts))}]", (), metrics)


class _Within:
    """Advances an iterator with its metrics as those of this thread."""

    def __init__(self, metrics: _Metrics, it: Iterator[Any]):
        self._metrics, self._it = metrics, it

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        before = getattr(_running, "metrics", None)
        _running.metrics = self._metrics
        try:
            return next(self._it)
        finally:
            _running.metrics = before
