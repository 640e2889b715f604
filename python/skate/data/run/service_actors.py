"""The actors that hold blocks of a run for their consumers, as references. Their processes import
this module, so it imports nothing that runs a plan."""

from __future__ import annotations

import logging
from collections import deque
from typing import Any

from skate.data.run.turns import Turns

ANSWER_S = 60.0  # seconds within which the driver has to start serving a service actor
# seconds after which a call of the feeder returns, so that the service actor can end between two
# calls
LOOK_S = 5.0
WARN_S = 30.0
AT_ONCE = 64  # the most blocks that an iterator gets from one call


class RunService:
    """The service actor of Datasets inside workers (remote.py): holds the jobs for the driver and,
    for each job, the blocks that were made and not yet taken."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.jobs: deque[Any] = deque()
        self.runs: dict[int, _Run] = {}
        self.last = 0
        self.served = False  # whether the driver serves this actor

    # ---- Calls by the driver.

    async def work(self) -> list[Any]:
        """Waits for jobs, and returns them as (number, [reference])."""
        if not self.served:
            self.served = True
            await self.turns.changed()
        await self.turns.until(lambda: self.jobs)
        out = list(self.jobs)
        self.jobs.clear()
        return out

    async def put(self, number: int, block: Any) -> bool:
        """Adds a block of a run when the run has room for it. False: the consumer takes no more
        blocks."""
        await self.turns.until(
            lambda: number not in self.runs or self.runs[number].bytes < self.runs[number].held
        )
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
        """Waits until no run is left."""
        await self.turns.until(lambda: not self.runs)

    # ---- Calls by workers.

    async def begin(self, job: list[Any], held: int, pid: int) -> int:
        """Adds a job for the driver and returns its number. Up to `held` bytes of the job's blocks
        wait in this actor. RuntimeError if the driver does not serve this actor."""
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
        """The next block of the run, a tuple; at the end of the run a list with one reference."""
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
        """Drops a run whose consumer takes no more blocks."""
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


class SplitService:
    """The service actor of a streaming_split: holds the blocks that were dealt to each iterator.

    Args:
        n: The number of iterators.
        held: The most bytes of blocks that wait here for one iterator.
    """

    def __init__(self, n: int, held: int):
        self.n, self.held, self.turns = n, held, Turns()
        # the current or last epoch, as the number of epochs that began before it
        self.epoch = -1
        self.asked = [-1] * n  # the newest epoch that each iterator has asked for
        self.named: list[Any] = [
            None
            # for each iterator: (number, first row) of the epoch that it wants next; None: the
            # epoch after the current one, from its first row
        ] * n
        # the number that consumers give the current epoch, and the first row of that epoch
        self.number, self.row = -1, 0
        self.out = [True] * n  # whether the iterator takes no more blocks of `epoch`
        self.queues: list[deque[Any]] = [deque() for _ in range(n)]
        self.bytes = [0] * n
        # the outcome that end() was called with; None while the epoch runs
        self.end_of: Any = None
        self.broken, self.breaks, self.why = -1, 0, ""  # epochs up to this one are broken
        self.stats: str = ""
        self.schema_wanted, self.schema_ref = False, None

    # ---- Calls by the feeder.

    async def work(self) -> Any:
        """Returns the feeder's next work: (epoch, its number, its first row), or "schema". None:
        there is no work within LOOK_S."""
        if not await self.turns.until(
            lambda: self.schema_wanted or min(self.asked) > self.epoch, LOOK_S
        ):
            return None
        if self.schema_wanted:
            self.schema_wanted = False
            return "schema"
        said = {x for x in self.named if x is not None}
        if len(said) > 1:
            each = ", ".join(
                f"{i}: {'the next one' if x is None else f'epoch {x[0]} from row {x[1]:,}'}"
                for i, x in enumerate(self.named)
            )
            await self._break(
                f"streaming_split: its iterators are to begin different epochs ({each}); tell all the same by set_epoch() and load_state_dict()"
            )
            return None
        self.number, self.row = said.pop() if said else (self.number + 1, 0)
        self.epoch, self.end_of, self.out = min(self.asked), None, [False] * self.n
        await self.turns.changed()
        return self.epoch, self.number, self.row

    def _over(self, epoch: int) -> bool:
        """Whether no iterator takes more blocks of the epoch."""
        return epoch <= self.broken or all(self.out)

    async def put(self, epoch: int, dealt: list[tuple[int, Any]]) -> bool | None:
        """Adds (iterator, block) pairs, all of them or none. False: no iterator takes more blocks;
        None: there was no room within LOOK_S."""
        to = {i for i, _ in dealt}
        if not await self.turns.until(
            lambda: self._over(epoch) or all(self.out[i] or self.bytes[i] < self.held for i in to),
            LOOK_S,
        ):
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
        """Ends the epoch. outcome: [a reference to an exception, or None]; stats: the statistics as
        text."""
        self.end_of, self.stats = outcome, stats
        await self.turns.changed()

    async def told(self, ref: list[Any]) -> None:
        self.schema_ref = ref
        await self.turns.changed()

    # ---- Calls by the iterators.

    async def begin(self, i: int, pid: int, named: Any = None) -> tuple[int, int]:
        """Waits until all iterators have asked for their next epoch. Returns (the service actor's
        own count of epochs, the number that consumers give the epoch). named: (number, first row)
        of the epoch, if this iterator was told which epoch comes next."""
        want, breaks = self.asked[i] + 1, self.breaks
        self._leave(i)
        self.asked[i], self.named[i] = want, named
        self.turns.watch(i, pid, lambda: self._died(i, pid))
        await self.turns.changed()
        while not await self.turns.until(
            lambda: self.epoch >= want or self.breaks != breaks, WARN_S
        ):
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
        return want, self.number

    async def next(self, i: int, epoch: int) -> Any:
        """The next blocks for an iterator, as a tuple; at the end of the epoch the outcome that
        end() was called with."""
        await self.turns.until(
            lambda: (
                self.queues[i]
                or self.end_of is not None
                or epoch <= self.broken
                or self.asked[i] != epoch
                or self.out[i]
            )
        )
        if epoch <= self.broken:
            raise RuntimeError(self.why)
        if self.asked[i] != epoch or (self.out[i] and self.end_of is None):
            raise ValueError(
                f"streaming_split: iterator {i} is at epoch {self.asked[i]}, this use of it began epoch {epoch}; use each iterator once at a time"
            )
        if self.queues[i]:
            out, size, few = [], 0, max(1, self.held // 4)
            while self.queues[i] and (not out or len(out) < AT_ONCE and size < few):
                out.append(self.queues[i].popleft())
                size += out[-1][3]
            self.bytes[i] -= size
            await self.turns.changed()
            return tuple(out)
        self._leave(i)
        return self.end_of

    async def leave(self, i: int, epoch: int) -> None:
        """Records that iterator i takes no more blocks of this epoch."""
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
        await self._break(
            f"streaming_split: the process of iterator {i} (pid {pid}) ended in the middle of epoch {at}, so the rows that it had left are lost; "
            f"all {self.n} iterators can begin another epoch together"
        )

    async def _break(self, why: str) -> None:
        """Breaks the current epochs: all iterators get an error with this text."""
        self.why = why
        self.broken = max(self.asked)
        self.asked = [self.broken] * self.n
        self.epoch, self.breaks = self.broken, self.breaks + 1
        for k in range(self.n):
            self._leave(k)
        await self.turns.changed()
