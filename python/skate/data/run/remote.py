"""Datasets inside tasks and actors: a worker asks, the driver runs, the blocks come back by reference.

A worker does not drive the engine. The first one that runs a Dataset makes a small named actor, the *desk*; the engine tells the driver of it (conf.h: named), which starts a thread
that waits there for jobs. A Dataset that runs in a worker sends its plan to the desk, and takes the blocks of the run from it as the driver's own loop would: at most held_bytes lie
at the desk. While it waits its CPU is lent to others, so the run needs no resources of its own. A consumer that closes the iteration, or whose process ends, stops the run. Errors, stats
and dead letters come back with the end. A program that runs no Dataset in a worker has no desk and no thread.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from typing import Any

import skate
from skate import _job
from skate.data.plan.node import below
from skate.data.run.turns import Turns, held_bytes

ANSWER_S = 60.0
NAME, SPACE = "data", _job.SERVED + "skate.data.run.serve"


class _Desk:
    """The actor: jobs for the driver, and of each what it has made and nobody has taken."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.jobs: deque[Any] = deque()
        self.runs: dict[int, _Run] = {}
        self.last = 0
        self.served = False  # the driver knows of it

    # ---- for the driver

    async def work(self) -> list[Any]:
        """Jobs, (number, [reference]), when there are some."""
        if not self.served:
            self.served = True
            await self.turns.changed()
        await self.turns.until(lambda: self.jobs)
        out = list(self.jobs)
        self.jobs.clear()
        return out

    async def put(self, number: int, block: Any) -> bool:
        """A block of a run, when there is room; False: nobody wants more."""
        await self.turns.until(lambda: number not in self.runs or self.runs[number].bytes < self.runs[number].held)
        run = self.runs.get(number)
        if run is None:
            return False
        run.blocks.append(block)
        run.bytes += block[3]
        await self.turns.changed()
        return True

    async def end(self, number: int, outcome: list[Any]) -> None:
        if number in self.runs:
            self.runs[number].end = outcome
            await self.turns.changed()

    async def idle(self) -> None:
        """Waits until there is no run."""
        await self.turns.until(lambda: not self.runs)

    # ---- for the workers

    async def begin(self, job: list[Any], held: int, pid: int) -> int:
        """A job for the driver, whose blocks wait here up to held bytes; its number. RuntimeError: nobody works for this desk."""
        if not await self.turns.until(lambda: self.served, ANSWER_S):
            raise RuntimeError(
                f"the driver, which runs the Datasets of tasks and actors, has not answered for {ANSWER_S:.0f} s; see what it does: skate stack"
            )
        self.last = number = self.last + 1
        self.runs[number] = _Run(held)
        self.turns.watch(number, pid, lambda: self.leave(number))
        self.jobs.append((number, job))
        await self.turns.changed()
        return number

    async def next(self, number: int) -> Any:
        """The next block of the run, a tuple; at the end a list of one reference."""
        run = self.runs[number]
        await self.turns.until(lambda: run.blocks or run.end is not None)
        if not run.blocks:
            await self.leave(number)
            return run.end
        block = run.blocks.popleft()
        run.bytes -= block[3]
        await self.turns.changed()
        return block

    async def leave(self, number: int) -> None:
        """Nobody takes more of it."""
        run = self.runs.pop(number, None)
        self.turns.unwatch(number)
        if run is not None:
            run.blocks.clear()
            run.end = run.end or []
            await self.turns.changed()


class _Run:
    def __init__(self, held: int) -> None:
        self.held = held
        self.blocks: deque[Any] = deque()
        self.bytes = 0
        self.end: Any = None


# ---- the worker's side


def _begin(job: tuple[Any, ...], context: Any) -> tuple[Any, int]:
    desk = (
        skate.remote(num_cpus=0)(_Desk)
        .options(name=NAME, namespace=SPACE, lifetime="detached", get_if_exists=True, scheduling_strategy="DEFAULT")
        .remote()
    )
    return desk, skate.get(desk.begin.remote([skate.put(job)], held_bytes(context), os.getpid()))


def run(ds: Any, node: Any, skip: bytes | None) -> Iterator[Any]:
    """execute.run() in a worker."""
    desk, number = _begin(("run", node, ds.context, skip), ds.context)
    for n in below(node):  # what is drawn anew in each run is drawn from here on
        n.runs += n.each_run is not None
    at_end = False
    try:
        coming = desk.next.remote(number)
        block: Any
        while isinstance(block := skate.get(coming), tuple):
            coming = desk.next.remote(number)
            yield block
        at_end = True
        error, ds._stats, ds._errors = skate.get(block[0])
        error = skate.get(error)
        if error is not None:
            raise error
    finally:
        if not at_end and skate.is_initialized():
            desk.leave.remote(number)


def feed(ds: Any, desk: Any, n: int, equal: bool) -> None:
    """In a worker: has the driver feed the desk of a streaming_split."""
    here, number = _begin(("feed", ds, desk, n, equal), ds.context)
    error = skate.get(skate.get(skate.get(here.next.remote(number))[0])[0])
    if error is not None:
        raise error
