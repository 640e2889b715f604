"""streaming_split: n iterators over one execution, each for another consumer, in any process.

Three parts: a *feeder* thread of the driver runs the Dataset once an epoch and deals its blocks out; a small actor, the *desk*, holds what was dealt and not yet taken (references,
at most `held` bytes a consumer); each *SplitIterator* asks the desk for its next block, one ahead. An epoch starts when all iterators have asked for it; which rows an iterator gets
is a function of the data alone. A consumer that stops taking stops the others once its share at the desk is full.

Who leaves: a consumer that closes its iteration, or begins the next epoch, gets nothing more of this one, and the others go on. One whose process ends in the middle of an epoch
breaks it: all others get an error that says so, at once, and the next epoch is for whoever asks then. The desk ends with its last iterator, the feeder with the desk.

equal=True: every block is cut into n ranges of as many rows (a remainder goes to the next one), so that all get the same number of rows and at most n-1 rows are left out.
equal=False: each block goes whole to the one with the fewest rows so far.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Iterator
from typing import Any

import skate
from skate import _lazy, _skate
from skate.data.iterator import DataIterator
from skate.data.read.source import InMemory
from skate.data.run import errors, feed, remote
from skate.data.run.blocks import fetch
from skate.data.run.engine import ensure_engine
from skate.data.run.errors import in_front
from skate.data.run.turns import Turns, held_bytes
from skate.data.values.unify import Widening

LOOK_S = 5.0  # the feeder's calls end after so long, that the desk may end between two of them
WARN_S = 30.0


class _Desk:
    """The actor."""

    def __init__(self, n: int, held: int):
        self.n, self.held, self.turns = n, held, Turns()
        self.epoch = -1  # the one that is dealt, or was last
        self.asked = [-1] * n  # the newest epoch that each iterator has asked for
        self.out = [True] * n  # takes no more of it
        self.queues: list[deque[Any]] = [deque() for _ in range(n)]
        self.bytes = [0] * n
        self.end_of: Any = None  # [reference to (error, stats)] when the epoch is over
        self.broken, self.breaks, self.why = -1, 0, ""  # epochs up to this one are broken
        self.stats: str = ""
        self.schema_wanted, self.schema_ref = False, None

    # ---- for the feeder

    async def work(self) -> Any:
        """What to do next: the number of an epoch, "schema"; None: nothing within LOOK_S."""
        if not await self.turns.until(lambda: self.schema_wanted or min(self.asked) > self.epoch, LOOK_S):
            return None
        if self.schema_wanted:
            self.schema_wanted = False
            return "schema"
        self.epoch, self.end_of, self.out = min(self.asked), None, [False] * self.n
        await self.turns.changed()
        return self.epoch

    def _over(self, epoch: int) -> bool:
        """Nobody takes more of it."""
        return epoch <= self.broken or all(self.out)

    async def put(self, epoch: int, dealt: list[tuple[int, Any]]) -> bool | None:
        """Blocks by consumer, all of them or none. False: nobody wants more; None: there was no room within LOOK_S."""
        to = {i for i, _ in dealt}
        if not await self.turns.until(lambda: self._over(epoch) or all(self.out[i] or self.bytes[i] < self.held for i in to), LOOK_S):
            return None
        if self._over(epoch):
            return False
        for i, block in dealt:
            if not self.out[i]:
                self.queues[i].append(block)
                self.bytes[i] += block[3]
        await self.turns.changed()
        return True

    async def end(self, epoch: int, outcome: list[Any], stats: str) -> None:
        """The epoch is over; outcome: [reference to an exception, or None]."""
        self.end_of, self.stats = outcome, stats
        await self.turns.changed()

    async def told(self, ref: list[Any]) -> None:
        self.schema_ref = ref
        await self.turns.changed()

    # ---- for the iterators

    async def begin(self, i: int, pid: int) -> int:
        """Waits until all have asked for their next epoch; its number."""
        want, breaks = self.asked[i] + 1, self.breaks
        self._leave(i)
        self.asked[i] = want
        self.turns.watch(i, pid, lambda: self._died(i, pid))
        await self.turns.changed()
        while not await self.turns.until(lambda: self.epoch >= want or self.breaks != breaks, WARN_S):
            late = [k for k, a in enumerate(self.asked) if a < want]
            logging.getLogger("ray.data").warning(
                "streaming_split: iterator %d has waited %.0f s for epoch %d, which begins when iterators %s ask for it, too",
                i,
                WARN_S,
                want,
                late,
            )
        if self.breaks != breaks:
            raise RuntimeError(self.why)
        return want

    async def next(self, i: int, epoch: int) -> Any:
        """Its next block; at the end [reference to an exception, or None]."""
        await self.turns.until(
            lambda: self.queues[i] or self.end_of is not None or epoch <= self.broken or self.asked[i] != epoch or self.out[i]
        )
        if epoch <= self.broken:
            raise RuntimeError(self.why)
        if self.asked[i] != epoch or (self.out[i] and self.end_of is None):
            raise ValueError(
                f"streaming_split: iterator {i} is at epoch {self.asked[i]}, this use of it began epoch {epoch}; use each iterator once at a time"
            )
        if self.queues[i]:
            block = self.queues[i].popleft()
            self.bytes[i] -= block[3]
            await self.turns.changed()
            return block
        self._leave(i)
        return self.end_of

    async def leave(self, i: int, epoch: int) -> None:
        """It wants no more of this epoch."""
        if self.asked[i] == epoch == self.epoch:
            self._leave(i)
            await self.turns.changed()

    async def waiting(self, n: int) -> None:
        """Waits until n iterators wait for an epoch to begin."""
        await self.turns.until(lambda: sum(a > self.epoch for a in self.asked) == n)

    async def stats_text(self) -> str:
        return self.stats

    async def schema(self) -> list[Any]:
        if self.schema_ref is None:
            self.schema_wanted = True
            await self.turns.changed()
            await self.turns.until(lambda: self.schema_ref is not None)
        return self.schema_ref  # type: ignore[return-value]

    def _leave(self, i: int) -> None:
        self.turns.unwatch(i)
        self.out[i], self.bytes[i] = True, 0
        self.queues[i].clear()

    async def _died(self, i: int, pid: int) -> None:
        at = self.asked[i]
        self.why = (
            f"streaming_split: the process of iterator {i} (pid {pid}) ended in the middle of epoch {at}, so the rows that it had left are lost; "
            f"all {self.n} iterators can begin another epoch together"
        )
        self.broken = max(self.asked)
        self.asked = [self.broken] * self.n
        self.epoch, self.breaks = self.broken, self.breaks + 1
        for k in range(self.n):
            self._leave(k)
        await self.turns.changed()


@errors.methods
class SplitIterator(DataIterator):
    """One of the iterators; it can be pickled to the process that uses it."""

    def __init__(self, desk: Any, i: int, n: int, ds: Any, schema: Any, context: Any):
        self._desk, self._i, self._n, self._base, self._schema, self._context = desk, i, n, ds, schema, context

    @property
    def _ds(self) -> Any:
        """What DataIterator asks of a Dataset: stats() and schema(). No attribute: a cycle would keep the desk until a collection."""
        return self

    def __repr__(self) -> str:
        return f"StreamSplitDataIterator({self._i} of {self._n})"

    @property
    def context(self) -> Any:
        return self._context

    def schema(self) -> Any:
        """Names and types of the columns; where they are not known, the driver runs a row."""
        if self._schema is None:
            self._schema = self._base.schema() if self._base is not None else skate.get(skate.get(self._desk.schema.remote())[0])
        return self._schema

    def stats(self) -> str:
        """Of the last epoch that has ended."""
        return skate.get(self._desk.stats_text.remote())

    def materialize(self) -> Any:
        """What it gives, as a Dataset."""
        return _lazy.dataset.of_source(InMemory([rb for rb in self._record_batches() if rb.num_rows], "Split"))

    def world_size(self) -> int:
        """How many iterators there are."""
        return self._n

    def _record_batches(self) -> Iterator[Any]:
        fit = Widening("streaming_split", self._schema.arrow if self._schema is not None else None, sure=False)
        epoch = skate.get(self._desk.begin.remote(self._i, os.getpid()))
        at_end = False
        try:
            coming = self._desk.next.remote(self._i, epoch)
            block: Any
            while isinstance(block := skate.get(coming), tuple):
                coming = self._desk.next.remote(self._i, epoch)
                yield fit(fetch(block))
            at_end = True
            error = skate.get(block[0])
            if error is not None:
                raise in_front(error, self._context)
        finally:
            if not at_end and skate.is_initialized():
                self._desk.leave.remote(self._i, epoch)

    def __reduce__(self) -> Any:
        schema = self._schema
        if schema is None and self._base is not None:
            schema = self._base.schema(fetch_if_missing=False)
        return SplitIterator, (self._desk, self._i, self._n, None, schema, self._context)


def streaming_split(ds: Any, n: int, equal: bool) -> list[SplitIterator]:
    """The iterators; see the head of the file."""
    ensure_engine(ds._node)
    if _skate.engine() == "inline":
        raise NotImplementedError(
            "streaming_split: its iterators are used at the same time, and SKATE_ENGINE=inline runs one task at a time; use Dataset.split() there"
        )
    desk = skate.remote(num_cpus=0)(_Desk).remote(n, held_bytes(ds.context, n))
    if _skate.in_worker():
        remote.feed(ds, desk, n, equal)
    else:
        feed.start(ds, desk, n, equal)
    return [SplitIterator(desk, i, n, ds, None, ds.context) for i in range(n)]
