"""Datasets inside tasks and actors: a worker asks, the driver runs, the blocks come back by reference.

A worker does not drive the engine. The first one that runs a Dataset makes a small named actor, the *desk*; the engine tells the driver of it (engine.h: named), which starts a thread
that waits there for jobs. A Dataset that runs in a worker sends its plan to the desk, and takes the blocks of the run from it as the driver's own loop would: at most HELD_BYTES lie at
the desk. While it waits its CPU is lent to others, so the run needs no resources of its own. A consumer that closes the iteration, or whose process ends, stops the run. Errors, stats
and dead letters come back with the end. A program that runs no Dataset in a worker has no desk and no thread.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from skate.data.streaming_split import Turns, sent

HELD_BYTES = 64 << 20
ANSWER_S = 60.0
NAME, SPACE = "data", "_skate_data"


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
            await self.turns.stir()
        await self.turns.until(lambda: self.jobs)
        out = list(self.jobs)
        self.jobs.clear()
        return out

    async def put(self, number: int, block: Any) -> bool:
        """A block of a run, when there is room; False: nobody wants more."""
        await self.turns.until(lambda: number not in self.runs or self.runs[number].bytes < HELD_BYTES)
        run = self.runs.get(number)
        if run is None:
            return False
        run.blocks.append(block)
        run.bytes += block[3]
        await self.turns.stir()
        return True

    async def end(self, number: int, outcome: list[Any]) -> None:
        if number in self.runs:
            self.runs[number].end = outcome
            await self.turns.stir()

    async def idle(self) -> None:
        """Waits until there is no run."""
        await self.turns.until(lambda: not self.runs)

    # ---- for the workers

    async def begin(self, job: list[Any], pid: int) -> int:
        """A job for the driver; its number. RuntimeError: nobody works for this desk."""
        if not await self.turns.until(lambda: self.served, ANSWER_S):
            raise RuntimeError(
                f"the driver, which runs the Datasets of tasks and actors, has not answered for {ANSWER_S:.0f} s; see what it does: skate stack"
            )
        self.last = number = self.last + 1
        self.runs[number] = _Run()
        self.turns.watch(number, pid, lambda: self.leave(number))
        self.jobs.append((number, job))
        await self.turns.stir()
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
        await self.turns.stir()
        return block

    async def leave(self, number: int) -> None:
        """Nobody takes more of it."""
        run = self.runs.pop(number, None)
        self.turns.unwatch(number)
        if run is not None:
            run.blocks.clear()
            run.end = run.end or []
            await self.turns.stir()


class _Run:
    def __init__(self) -> None:
        self.blocks: deque[Any] = deque()
        self.bytes = 0
        self.end: Any = None


# ---- the driver's side


def serve() -> None:
    """There is a desk: works for it from now on. Called by the engine's thread."""
    import skate

    try:
        desk = skate.get_actor(NAME, namespace=SPACE)
    except ValueError:
        return  # it has ended already
    threading.Thread(target=_serve, args=(desk,), name="skate-data-home", daemon=True).start()


def _serve(desk: Any) -> None:
    import skate

    try:
        while True:
            for number, (ref,) in skate.get(desk.work.remote()):
                threading.Thread(target=_job, args=(desk, number, ref), name=f"skate-data-{number}", daemon=True).start()
    except Exception:
        if skate.is_initialized():
            raise


def _job(desk: Any, number: int, ref: Any) -> None:
    import skate

    try:
        outcome = _do(desk, number, ref)
        skate.get(desk.end.remote(number, [outcome]))
    except Exception:
        if skate.is_initialized():
            raise


def _do(desk: Any, number: int, ref: Any) -> Any:
    import skate
    from skate import _skate
    from skate.data import execute
    from skate.data.late import _Ds

    ds = None
    try:
        kind, *job = skate.get(ref)
        if kind == "feed":
            from skate.data.streaming_split import start_feeder

            start_feeder(*job)
            return skate.put((sent(None), None, None))
        node, context, skip = job
        ds = _Ds(node, context)
        with closing(execute.run(ds, node, skip)) as blocks:
            for b in blocks:
                if hasattr(b[0], "num_rows"):
                    b = (_skate.put_block(b[0]), *b[1:])
                if not skate.get(desk.put.remote(number, b)):
                    break
        error = None
    except Exception as e:
        error = e
    stats, errors = (ds._stats, ds._errors) if ds is not None else (None, None)
    return skate.put((sent(error), stats, errors))


# ---- the worker's side


def _begin(job: tuple[Any, ...]) -> tuple[Any, int]:
    import skate

    desk = (
        skate.remote(num_cpus=0)(_Desk)
        .options(name=NAME, namespace=SPACE, lifetime="detached", get_if_exists=True, scheduling_strategy="DEFAULT")
        .remote()
    )
    return desk, skate.get(desk.begin.remote([skate.put(job)], os.getpid()))


def run(ds: Any, node: Any, skip: bytes | None) -> Iterator[Any]:
    """execute.run() in a worker."""
    import skate

    desk, number = _begin(("run", node, ds.context, skip))
    for n in _nodes(node):  # what is drawn anew in each run is drawn from here on
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
    import skate

    here, number = _begin(("feed", ds, desk, n, equal))
    error = skate.get(skate.get(skate.get(here.next.remote(number))[0])[0])
    if error is not None:
        raise error


def _nodes(node: Any) -> list[Any]:
    todo, seen = [node], {}
    while todo:
        n = todo.pop()
        if id(n) not in seen:
            seen[id(n)] = n
            todo += n.inputs
    return list(seen.values())
