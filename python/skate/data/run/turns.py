"""Helpers of the service actors that hold blocks (of streaming_split, and of Datasets in workers):
they wait for conditions, say how many bytes to hold, and send errors to other processes."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import skate
from skate._deps import asyncio


class Turns:
    """For async actors: waits until a condition holds, and watches processes for their end. Runs on
    one thread, so code between two awaits is atomic."""

    def __init__(self) -> None:
        self.cv = asyncio.Condition()
        self.fds: dict[Any, int] = {}
        self.tasks: set[Any] = set()

    async def until(self, true: Callable[[], Any], seconds: float | None = None) -> bool:
        """Waits for true() to hold. Returns whether it did within the time."""
        async with self.cv:
            try:
                await asyncio.wait_for(self.cv.wait_for(true), seconds)
            except TimeoutError:
                return False
            return True

    async def changed(self) -> None:
        """Wakes all coroutines that wait in until(), which check their conditions again."""
        async with self.cv:
            self.cv.notify_all()

    def watch(self, key: Any, pid: int, died: Callable[[], Any]) -> None:
        """Calls the coroutine function `died` once if process `pid` ends before unwatch(key)."""
        self.unwatch(key)
        loop = asyncio.get_running_loop()

        def ended() -> None:
            self.unwatch(key)
            t = loop.create_task(died())
            self.tasks.add(t)
            t.add_done_callback(self.tasks.discard)

        try:
            fd = self.fds[key] = os.pidfd_open(pid)
        except ProcessLookupError:
            ended()
            return
        loop.add_reader(fd, ended)

    def unwatch(self, key: Any) -> None:
        fd = self.fds.pop(key, None)
        if fd is not None:
            asyncio.get_running_loop().remove_reader(fd)
            os.close(fd)


def held_bytes(context: Any, consumers: int = 1) -> int:
    """The most bytes of blocks that a service actor holds for one consumer. All consumers together
    have an eighth of the memory that a run of this DataContext may use, and 64 MiB at most."""
    memory = min(
        skate.cluster_resources().get("object_store_memory", 0) or float("inf"),
        context.execution_options.resource_limits.object_store_memory,
    )
    return max(1, int(min(64 << 20, memory / (8 * consumers))))


def sent(error: BaseException | None) -> Any:
    """A reference to an error, or to a form of the error that can be pickled."""
    try:
        return skate.put(error)
    except Exception as e:
        return skate.put(
            RuntimeError(f"{type(error).__name__}: {error} (the error itself cannot be sent: {e})")
        )
