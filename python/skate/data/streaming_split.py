"""streaming_split: n iterators over one execution, each for another consumer, in any process.

Three parts: a *feeder* thread of the driver runs the Dataset once an epoch and deals its blocks out; a small actor, the *desk* (run/desks.py), holds what was dealt and not yet taken (references,
at most `held` bytes a consumer); each *SplitIterator* asks the desk for its next block, one ahead. An epoch starts when all iterators have asked for it; which rows an iterator gets
is a function of the data alone. A consumer that stops taking stops the others once its share at the desk is full.

Who leaves: a consumer that closes its iteration, or begins the next epoch, gets nothing more of this one, and the others go on. One whose process ends in the middle of an epoch
breaks it: all others get an error that says so, at once, and the next epoch is for whoever asks then. The desk ends with its last iterator, the feeder with the desk.

equal=True: every block is cut into n ranges of as many rows (a remainder goes to the next one), so that all get the same number of rows and at most n-1 rows are left out.
equal=False: each block goes whole to the one with the fewest rows so far.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import skate
from skate import _lazy, _skate
from skate.data.iterator import DataIterator
from skate.data.read.source import InMemory
from skate.data.run import errors, feed, remote
from skate.data.run.blocks import fetch
from skate.data.run.desks import SplitDesk
from skate.data.run.engine import ensure_engine
from skate.data.run.errors import in_front
from skate.data.run.turns import held_bytes
from skate.data.values.unify import Widening


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

    def _runs(self, runs: list[int] | None) -> list[int]:
        return []

    def _record_batches(self, row: int = 0, live: list[Any] | None = None) -> Iterator[Any]:
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
    desk = skate.remote(num_cpus=0)(SplitDesk).remote(n, held_bytes(ds.context, n))
    if _skate.in_worker():
        remote.feed(ds, desk, n, equal)
    else:
        feed.start(ds, desk, n, equal)
    return [SplitIterator(desk, i, n, ds, None, ds.context) for i in range(n)]
