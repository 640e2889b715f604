"""Calls of users' async functions in a task: some of them run side by side on the one event loop of
the process, and their results come in the order of the calls.

The loop runs only while a result is awaited, in the thread of the task, so a consumer that is slow
holds the calls back. Two numbers are bounded: the calls that run, and the results that are finished
and wait for the result of an earlier call. Cost: about 10 us a call.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from skate._deps import asyncio
from skate.data.expr.evaluation import event_loop

# How many calls of an async function one task runs at once, by what a call gets; those of Ray.
ROWS, BATCHES = 16, 4


def is_async(fn: Any) -> bool:
    """Whether calls of fn return coroutines or async generators, as far as can be seen without a
    call."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    if not inspect.isroutine(fn):
        fn = type(fn).__call__
    return inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn)


def wanted(params: dict[str, Any]) -> bool:
    """Whether the function of an operator, params["fn"], is async. It is looked at once a process."""
    known: bool | None = params.get("is_async")
    if known is None:
        known = params["is_async"] = is_async(params["fn"])
    return known


class Call:
    """A call that has begun: its items that nobody has taken, its exception, and whether it has
    ended. `about` is the caller's."""

    __slots__ = ("about", "changed", "error", "items", "over", "room", "task")

    def __init__(self, about: Any = None):
        self.about = about
        self.items: collections.deque[Any] = collections.deque()
        self.error: BaseException | None = None
        self.over = False
        self.task: Any = None
        self.changed: Any = None  # a future, while somebody waits for an item or the end
        self.room: Any = None  # a future, while an async generator waits until its item is taken

    def tell(self) -> None:
        if self.changed is not None and not self.changed.done():
            self.changed.set_result(None)

    def result(self) -> Any:
        """The result of a call that has ended; raises its exception."""
        if self.error is not None:
            raise self.error
        return self.items[0]


class Window:
    """The calls of one operator in one task, the oldest first. Whoever makes a Window has to
    close() it, which ends the calls that are left.

    Args:
        limit: How many calls run at once.
    """

    def __init__(self, limit: int):
        self.limit = limit
        self.calls: collections.deque[Call] = collections.deque()
        self._loop = event_loop()
        self._running = 0
        self._fn: Any = None
        self._more: Iterator[Any] = iter(())

    def start(self, fn: Callable[[], Any], about: Any = None) -> Call:
        """Begins a call: fn() is called when the loop runs. What an async generator makes waits, one
        item at a time, until items() gives it away."""
        return self._start(self._each(call := Call(about), fn), call)

    def turn(self) -> None:
        """Runs what can run now, so that what a new call waits for begins."""
        self._loop.run_until_complete(asyncio.sleep(0))

    def items(self) -> Iterator[Any]:
        """Yields the items of the oldest call, and removes it; raises its exception."""
        call = self.calls[0]
        try:
            while True:
                if not call.items and not call.over:
                    if call.room is not None:
                        call.room.set_result(None)
                        call.room = None
                    call.changed = self._loop.create_future()
                    self._loop.run_until_complete(call.changed)
                while call.items:
                    yield call.items.popleft()
                if call.over:
                    if call.error is not None:
                        raise call.error
                    return
        finally:
            self.calls.popleft()
            self._cancel([call])

    def feed(self, fn: Callable[[Any], Any], given: Iterator[Any]) -> None:
        """Has take() call fn for each of `given`. What an async generator makes is one result, a
        list."""
        self._fn, self._more = fn, given

    def take(self, n: int, strict: bool = False) -> list[Call]:
        """The next n calls, which have ended; fewer where `given` has ended. strict: the first call
        with an exception is the last one."""
        got: list[Call] = self._loop.run_until_complete(self._take(n, strict))
        return got

    def close(self) -> None:
        """Cancels the calls that are left, and waits until they have ended."""
        self._more = iter(())
        self._cancel(self.calls)
        self.calls.clear()

    def _cancel(self, calls: Any) -> None:
        left = [c.task for c in calls if not c.over]
        for task in left:
            task.cancel()
        if left:
            self._loop.run_until_complete(asyncio.wait(left))

    def _start(self, work: Any, call: Call) -> Call:
        self._running += 1
        self.calls.append(call)
        call.task = self._loop.create_task(work)
        return call

    def _ended(self, call: Call) -> None:
        call.over = True
        self._running -= 1
        call.tell()
        self._fill()

    def _fill(self) -> None:
        """Begins calls of feed() while both bounds allow it."""
        while self._running < self.limit and len(self.calls) < 2 * self.limit:
            try:
                given = next(self._more)
            except StopIteration:
                return
            call = Call()
            self._start(self._whole(call, given), call)

    async def _take(self, n: int, strict: bool) -> list[Call]:
        got: list[Call] = []
        while len(got) < n:
            self._fill()
            if not self.calls:
                break
            call = self.calls[0]
            if not call.over:
                call.changed = self._loop.create_future()
                await call.changed
            got.append(self.calls.popleft())
            if strict and call.error is not None:
                break
        return got

    async def _whole(self, call: Call, given: Any) -> None:
        try:
            work = self._fn(given)
            if inspect.isasyncgen(work):
                work = [v async for v in work]
            call.items.append(await work if inspect.isawaitable(work) else work)
        except BaseException as e:
            call.error = e
        self._ended(call)

    async def _each(self, call: Call, fn: Callable[[], Any]) -> None:
        try:
            work = fn()
            if inspect.isasyncgen(work):
                async with contextlib.aclosing(work):
                    async for v in work:
                        call.items.append(v)
                        call.room = room = self._loop.create_future()
                        call.tell()
                        await room
            else:
                call.items.append(await work if inspect.isawaitable(work) else work)
        except BaseException as e:
            call.error = e
        self._ended(call)


def steps(agen: Any) -> Iterator[Any]:
    """The items of one async generator, which goes on when the next item is asked for."""
    window = Window(1)
    try:
        window.start(lambda: agen)
        yield from window.items()
    finally:
        window.close()


def finished(work: list[Any], limit: int) -> list[Call]:
    """Runs coroutines and async generators, `limit` at once; returns the calls, which have ended, in
    this order."""
    window = Window(limit)
    try:
        window.feed(lambda w: w, iter(work))
        return window.take(len(work))
    finally:
        window.close()
