"""streaming_split: n iterators over one execution, each for another consumer, in any process.

Three parts: the driver's *feeder* thread runs the Dataset once an epoch and deals its blocks out; a small actor, the *desk*, holds what was dealt and not yet taken (references,
at most HELD_BYTES a consumer); each *SplitIterator* asks the desk for its next block. An epoch starts when all iterators have asked for it; which rows an iterator gets is a
function of the data alone. A consumer that stops taking stops the others once its share at the desk is full.

equal=True: every block is cut into n ranges of as many rows (a remainder goes to the next one), so that all get the same number of rows and at most n-1 rows are left out.
equal=False: each block goes whole to the one with the fewest rows so far.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

from skate.data.iterator import DataIterator

HELD_BYTES = 64 << 20


class _Desk:
    """The actor. Every method may block until its turn comes, or the end."""

    def __init__(self, n: int):
        self.n, self.epoch = n, -1
        self.cv = threading.Condition()
        self.asked = [-1] * n  # the newest epoch that each iterator wants
        self.queues: list[deque[Any]] = [deque() for _ in range(n)]
        self.bytes = [0] * n
        self.ended = True
        self.error: BaseException | None = None
        self.left = False

    def wait_epoch(self, after: int) -> int:
        """For the feeder: the number of the next epoch, once all want it; -1: nobody is left."""
        with self.cv:
            self.cv.wait_for(lambda: self.left or min(self.asked) > after)
            if self.left:
                return -1
            self.epoch, self.ended, self.error = min(self.asked), False, None
            self.queues = [deque() for _ in range(self.n)]
            self.bytes = [0] * self.n
            self.cv.notify_all()
            return self.epoch

    def put(self, dealt: list[tuple[int, Any]]) -> None:
        """For the feeder: blocks by consumer."""
        with self.cv:
            for i, block in dealt:
                self.cv.wait_for(lambda i=i: self.left or self.bytes[i] < HELD_BYTES)  # type: ignore[misc]
                self.queues[i].append(block)
                self.bytes[i] += block[3]
                self.cv.notify_all()

    def end(self, error: BaseException | None) -> None:
        """For the feeder: the epoch is over."""
        with self.cv:
            self.ended, self.error = True, error
            self.cv.notify_all()

    def begin(self, i: int, epoch: int) -> int:
        """For an iterator: waits until an epoch that it has not seen begins; its number. ValueError when the iterator is used twice at once."""
        with self.cv:
            want = self.asked[i] + 1 if epoch < 0 else epoch
            self.asked[i] = max(self.asked[i], want)
            self.cv.notify_all()
            self.cv.wait_for(lambda: self.left or self.epoch >= want)
            self._check(i, want)
            return want

    def next(self, i: int, epoch: int) -> Any:
        """For an iterator: its next block; None at the end of the epoch."""
        with self.cv:
            self.cv.wait_for(lambda: self.queues[i] or self.ended or self.left or self.epoch != epoch)
            self._check(i, epoch)
            if self.queues[i]:
                block = self.queues[i].popleft()
                self.bytes[i] -= block[3]
                self.cv.notify_all()
                return block
            if self.error is not None:
                raise self.error
            return None

    def _check(self, i: int, epoch: int) -> None:
        if self.left:
            raise RuntimeError("streaming_split: the process that made the iterators has ended")
        if self.epoch != epoch or self.asked[i] != epoch:
            raise ValueError(
                f"streaming_split: iterator {i} is at epoch {self.asked[i]}, this use of it began epoch {epoch}; use each iterator once at a time"
            )


class SplitIterator(DataIterator):
    """One of the iterators; it can be pickled to the process that uses it."""

    def __init__(self, desk: Any, i: int, n: int, names: Any, context: Any):
        self._desk, self._i, self._n, self._names, self._context = desk, i, n, names, context
        self._ds = self  # what DataIterator asks of a Dataset: stats() and schema()

    def __repr__(self) -> str:
        return f"StreamSplitDataIterator({self._i} of {self._n})"

    @property
    def context(self) -> Any:
        return self._context

    def schema(self) -> Any:
        """Names and types of the columns."""
        return self._names

    def stats(self) -> str:
        """Nothing: the execution is another process's."""
        return ""

    def materialize(self) -> Any:
        """What it gives, as a Dataset."""
        from skate.data.execute import local_source

        return local_source([rb for rb in self._record_batches() if rb.num_rows], "Split")

    def world_size(self) -> int:
        """How many iterators there are."""
        return self._n

    def _record_batches(self) -> Iterator[Any]:
        import skate
        from skate.data.execute import fetch

        epoch = skate.get(self._desk.begin.remote(self._i, -1))
        while (block := skate.get(self._desk.next.remote(self._i, epoch))) is not None:
            yield fetch(tuple(block))

    def __reduce__(self) -> Any:
        return SplitIterator, (self._desk, self._i, self._n, self._names, self._context)


def streaming_split(ds: Any, n: int, equal: bool) -> list[SplitIterator]:
    """The iterators; see the head of the file."""
    import skate
    from skate.data import execute

    execute.ensure_engine(ds._node)
    desk = skate.remote(num_cpus=0, max_concurrency=2 * n + 4)(_Desk).remote(n)
    threading.Thread(target=_feed, args=(ds, desk, n, equal), name="skate-split", daemon=True).start()
    return [SplitIterator(desk, i, n, _Lazy(ds), ds.context) for i in range(n)]


class _Lazy:
    """The schema, found when it is asked for (in the driver) or when it is pickled."""

    def __init__(self, ds: Any):
        self.ds = ds

    def __reduce__(self) -> Any:
        return _known, (self.ds.schema(fetch_if_missing=False),)


def _known(schema: Any) -> Any:
    return schema


def _feed(ds: Any, desk: Any, n: int, equal: bool) -> None:
    """Runs ds once an epoch and deals its blocks out, until the engine ends."""
    import skate
    from skate.data import execute

    epoch = -1
    try:
        while (epoch := skate.get(desk.wait_epoch.remote(epoch))) >= 0:
            error: BaseException | None = None
            try:
                for dealt in _deal(execute.run(ds), n, equal):
                    skate.get(desk.put.remote(dealt))
            except Exception as e:
                error = e
            skate.get(desk.end.remote(error))
    except Exception:  # the engine, or the desk with its last iterator, is gone: nobody waits for this thread
        return


def _deal(blocks: Iterator[Any], n: int, equal: bool) -> Iterator[list[tuple[int, Any]]]:
    rows = [0] * n
    held: list[Any] = []
    for b in blocks:
        ref = b[0]
        if not b[2]:
            continue
        if hasattr(ref, "num_rows"):
            from skate import _skate

            b = (_skate.put_block(ref), *b[1:])
        if not equal:
            i = rows.index(min(rows))
            rows[i] += b[2]
            yield [(i, b)]
            continue
        held.append(b)
        total = sum(h[2] for h in held)
        if total < n:
            continue
        from skate.data.late import cut

        each = total // n
        parts = cut(held, [each * (i + 1) for i in range(n)])
        held = parts.pop()
        yield [(i, piece) for i, part in enumerate(parts) for piece in part]
