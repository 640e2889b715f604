"""Queue: a first-in, first-out queue of values between processes; an async actor holds the
items."""

import asyncio
import queue
from collections.abc import Iterable
from typing import Any

from skate import api

__all__ = [
    "Empty",
    "Full",
    "Queue",
]


class Empty(queue.Empty):
    """The queue has no item (within the given time)."""


class Full(queue.Full):
    """The queue has no room (within the given time)."""


def _check_timeout(timeout):
    if timeout is not None and timeout < 0:
        raise ValueError(
            f"timeout={timeout}: seconds from 0 on, or None to wait for as long as it takes"
        )


class Queue:
    """Queue(maxsize=0, actor_options=None): maxsize 0 means no limit; actor_options: the options of
    the actor that holds the items. A Queue may be passed to tasks."""

    def __init__(self, maxsize=0, actor_options=None):
        self.maxsize = maxsize
        options: dict = {"num_cpus": 0, **(actor_options or {})}
        self.actor: Any = api.remote(**options)(_QueueActor).remote(maxsize)

    def __len__(self):
        return self.size()

    def size(self):
        """Number of items."""
        return api.get(self.actor.qsize.remote())

    qsize = size

    def empty(self):
        return api.get(self.actor.empty.remote())

    def full(self):
        return api.get(self.actor.full.remote())

    def put(self, item, block=True, timeout=None):
        """Adds an item; waits at most `timeout` seconds for room. Raises Full, and ValueError for a
        negative timeout."""
        if not block:
            return self.put_nowait(item)
        _check_timeout(timeout)
        if not api.get(self.actor.put.remote(item, timeout)):
            raise Full

    async def put_async(self, item, block=True, timeout=None):
        """put() for coroutines."""
        if block:
            _check_timeout(timeout)
            done = await self.actor.put.remote(item, timeout)
        else:
            done = await self.actor.put_now.remote([item])
        if not done:
            raise Full

    def get(self, block=True, timeout=None):
        """Takes the oldest item; waits at most `timeout` seconds for an item. Raises Empty, and
        ValueError for a negative timeout."""
        if not block:
            return self.get_nowait()
        _check_timeout(timeout)
        return self._one(api.get(self.actor.get.remote(timeout)))

    async def get_async(self, block=True, timeout=None):
        """get() for coroutines."""
        if block:
            _check_timeout(timeout)
            return self._one(await self.actor.get.remote(timeout))
        return self._one(await self.actor.get_now.remote(1))

    @staticmethod
    def _one(items):
        if not items:
            raise Empty
        return items[0]

    def put_nowait(self, item):
        """Adds an item, or raises Full."""
        if not api.get(self.actor.put_now.remote([item])):
            raise Full

    def put_nowait_batch(self, items):
        """Adds all items, or adds none and raises Full."""
        if not isinstance(items, Iterable):
            raise TypeError(
                f"put_nowait_batch: items are what one can iterate over, not {type(items)}"
            )
        items = list(items)
        if not api.get(self.actor.put_now.remote(items)):
            raise Full(
                f"no room for {len(items)} items: {self.qsize()} are in the queue, which takes {self.maxsize}"
            )

    def get_nowait(self):
        """The oldest item, or raises Empty."""
        return self._one(api.get(self.actor.get_now.remote(1)))

    def get_nowait_batch(self, num_items):
        """The num_items oldest items; takes none and raises Empty if there are fewer."""
        if not isinstance(num_items, int):
            raise TypeError(f"get_nowait_batch: num_items is an int, not {type(num_items)}")
        if num_items < 0:
            raise ValueError(f"get_nowait_batch: num_items={num_items}: 0 or more")
        items = api.get(self.actor.get_now.remote(num_items))
        if items is None:
            raise Empty(f"{num_items} items were asked for, {self.qsize()} are in the queue")
        return items

    def shutdown(self, force=False, grace_period_s=5):
        """Ends the actor: at once with force; else after the calls made before, but at most after
        grace_period_s seconds."""
        actor, self.actor = self.actor, None
        if actor is None:
            return
        if not force:
            api.wait([actor.__ray_terminate__.remote()], num_returns=1, timeout=grace_period_s)
        api.kill(actor, no_restart=True)


class _QueueActor:
    """The actor of a Queue. It returns False or None instead of raising Full and Empty, because an
    exception would be pickled with its traceback each time."""

    def __init__(self, maxsize):
        self.queue = asyncio.Queue(maxsize)

    async def qsize(self):
        return self.queue.qsize()

    async def empty(self):
        return self.queue.empty()

    async def full(self):
        return self.queue.full()

    async def put(self, item, timeout):
        try:
            await asyncio.wait_for(self.queue.put(item), timeout)
        except TimeoutError:
            return False
        return True

    async def get(self, timeout):
        try:
            return [await asyncio.wait_for(self.queue.get(), timeout)]
        except TimeoutError:
            return None

    async def put_now(self, items):
        q = self.queue
        if q.maxsize > 0 and q.qsize() + len(items) > q.maxsize:
            return False
        for item in items:
            q.put_nowait(item)
        return True

    async def get_now(self, n):
        if self.queue.qsize() < n:
            return None
        return [self.queue.get_nowait() for _ in range(n)]
