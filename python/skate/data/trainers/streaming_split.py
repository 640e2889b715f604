"""streaming_split: n iterators over one execution, each for one consumer, in any process.

Three parts: a *feeder* thread of the driver runs the Dataset once per epoch and deals its blocks to
the iterators; a *service actor* (run/service_actors.py) holds the blocks that were dealt and not
yet taken (as references, at most `held` bytes per consumer); each *SplitIterator* requests its next
blocks from the service actor, one call ahead. An epoch starts when all iterators have asked for it.
Which rows an iterator gets is a function of the data alone. If a consumer stops taking blocks, the
others stop, too, once its share at the service actor is full.

Leaving: a consumer that closes its iteration, or begins the next epoch, gets no more rows of this
epoch, and the others continue. If the process of a consumer ends in the middle of an epoch, the
epoch is broken: all other consumers get an error at once, and the next epoch is for the consumers
that ask for it. The service actor ends with its last iterator, and the feeder ends with the service
actor.

With equal and without batch_size, each block is cut into n ranges of equal row counts (a remainder
is added to the next block), so that all iterators get the same number of rows, and at most n - 1
rows are left out. Without equal, each block goes whole to the iterator with the fewest rows so far.

With batch_size=B, rows are dealt in steps: iterator 0 gets the first B rows, iterator 1 the next B,
and so on. After each step, the rows that all iterators have received are the first rows of the
Dataset. So one number is the position of all of them: the state_dict() of any iterator, from which
another number of iterators can continue.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import skate
from skate import _skate
from skate.data import dataset
from skate.data.iterator import DataIterator, Position
from skate.data.read.source import InMemory
from skate.data.run import conflict, errors, feed, position, remote
from skate.data.run.blocks import fetch
from skate.data.run.engine import ensure_engine
from skate.data.run.errors import in_front
from skate.data.run.service_actors import SplitService
from skate.data.run.turns import held_bytes
from skate.data.values.unify import Widening

if TYPE_CHECKING:
    from skate.data.dataset import Dataset
    from skate.data.plan.node import Node
    from skate.data.run.request import RunRequest


@errors.methods
class SplitIterator(DataIterator):
    """One of the iterators; it can be pickled and sent to the process that uses it."""

    def __init__(
        self,
        service: Any,
        i: int,
        deal: feed.Deal,
        base: tuple[Dataset, Node] | None,
        schema: Any,
        context: Any,
        rows: int | None,
        seeded: bool,
    ):
        self._service, self._i, self._deal, self._base, self._schema, self._context = (
            service,
            i,
            deal,
            base,
            schema,
            context,
        )
        self._total, self._sure = rows, seeded
        self._named: tuple[int, int] | None = None  # (number, first row) of the next epoch

    def __repr__(self) -> str:
        return f"StreamSplitDataIterator({self._i} of {self._deal.n})"

    @property
    def context(self) -> Any:
        return self._context

    def get_context(self) -> Any:
        """The settings of the Dataset."""
        return self._context

    def schema(self) -> Any:
        """Column names and types; if they are not known, the driver runs the Dataset for one
        row."""
        if self._schema is None:
            self._schema = (
                self._base[0].schema()
                if self._base is not None
                else skate.get(skate.get(self._service.schema.remote())[0])
            )
        return self._schema

    def stats(self) -> str:
        """Statistics of the last epoch that has ended, as text."""
        return skate.get(self._service.stats_text.remote())

    def materialize(self) -> Any:
        """The rows of this iterator, as a Dataset."""
        return dataset.of_source(
            InMemory([rb for rb in self._record_batches() if rb.num_rows], "Split")
        )

    def world_size(self) -> int:
        """The number of iterators."""
        return self._deal.n

    def __len__(self) -> int:
        """The number of batches of this iterator in an epoch, by the batch_size of
        streaming_split().

        Raises:
            TypeError: streaming_split() got no batch_size, or the number of rows is not known
                before a run.
        """
        if self._deal.batch is None:
            raise TypeError("len() of a split counts batches: give streaming_split a batch_size")
        if self._total is None:
            raise TypeError(
                "len(): how many rows this Dataset has is known only when it has run; materialize() it before streaming_split()"
            )
        return feed.batches_of(self._total, self._deal, self._i)

    def __bool__(self) -> bool:
        return True

    def set_epoch(self, epoch: int) -> None:
        """Sets the number of the epoch that the next iteration runs. It must be called with the
        same number on all iterators. Without it, each epoch has the number after that of the last
        one.

        Args:
            epoch: From 0 (ValueError). With a batch_size, the random operations of epoch `epoch`
                make the same choices as run `epoch` of the Dataset, in any process.
        """
        if not isinstance(epoch, int) or epoch < 0:
            raise ValueError(
                f"set_epoch: the number of an epoch is an int from 0 on, not {epoch!r}"
            )
        if self._named is None or self._named[0] != epoch:
            self._named = (epoch, 0)

    def state_dict(self) -> dict[str, Any]:
        """The position of all iterators, after the batch that this one yielded last. Any number of
        iterators over the same rows can continue there, after load_state_dict() of each.

        Raises:
            ValueError: streaming_split() got no batch_size; this iterator shuffles; or a random
                operation of the Dataset has no seed.
        """
        at = self._at
        if self._deal.batch is None:
            raise ValueError(
                "state_dict: give streaming_split a batch_size, then rows are dealt so that one number says where all iterators are"
            )
        if not self._sure:
            raise ValueError(
                "state_dict: a random operation of this Dataset has no seed, so no other run has the same rows; give it one (random_shuffle(seed=...))"
            )
        if at is None:
            epoch, row = self._named or (0, 0)
            return {"version": 1, "epoch": epoch, "rows": row}
        if at.window:
            raise ValueError(
                "state_dict: an iterator of a split that shuffles its own rows has no state; shuffle the Dataset before streaming_split()"
            )
        if at.done:
            return {"version": 1, "epoch": at.epoch + 1, "rows": 0}
        return {"version": 1, "epoch": at.epoch, "rows": at.first + self._deal.n * at.given}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Makes the next iteration begin where state_dict() was called. It must be called with the
        same state on all iterators.

        Args:
            state: The state of any iterator of a split of the same rows; ValueError for others.
        """
        if (
            not isinstance(state, dict)
            or state.get("version") != 1
            or not isinstance(state.get("rows"), int)
            or "window" in state
        ):
            raise ValueError(
                f"load_state_dict: this is no state of a streaming_split: {state!r:.200}"
            )
        if self._deal.batch is None:
            raise ValueError("load_state_dict: give streaming_split a batch_size")
        self._named, self._at = (int(state["epoch"]), state["rows"]), None

    def _begin(self, window: int, seed: int | None) -> Position:
        named = self._named or (0, 0)
        if seed is None:
            seed = int.from_bytes(os.urandom(7), "little")
        self._at = at = Position(self, named[0], window, seed, 0, None)
        at.first = named[1]
        return at

    def _batches(self, *args: Any, **more: Any) -> Iterator[Any]:
        self._check_size(more["batch_size"])
        return super()._batches(*args, **more)

    def _tensors(self, *args: Any, **more: Any) -> Iterator[Any]:
        self._check_size(more["batch_size"])
        return super()._tensors(*args, **more)

    def _check_size(self, size: Any) -> None:
        if self._deal.batch not in (None, size):
            raise ValueError(
                f"batch_size={size}, but streaming_split deals batches of {self._deal.batch} rows: ask for as many"
            )

    def _runs(self, runs: list[int] | None) -> list[int]:
        return []

    def _frames(self) -> bool:
        return False

    def _record_batches(self, row: int = 0, live: list[Any] | None = None) -> Iterator[Any]:
        fit = Widening(
            "streaming_split", self._schema.arrow if self._schema is not None else None, sure=False
        )
        at, named, self._named = self._at, self._named, None
        epoch, number = skate.get(self._service.begin.remote(self._i, os.getpid(), named))
        if at is not None:
            at.epoch = number
        at_end = False
        try:
            coming = self._service.next.remote(self._i, epoch)
            block: Any
            while isinstance(block := skate.get(coming), tuple):
                coming = self._service.next.remote(self._i, epoch)
                for b in block:
                    try:
                        rb = fit(fetch(b))
                    except TypeError as e:
                        raise (
                            e if self._base is None else conflict.of_files(e, self._base[1])
                        ) from None
                    yield rb
            at_end = True
            error = skate.get(block[0])
            if error is not None:
                raise in_front(error, self._context)
        finally:
            if not at_end and skate.is_initialized():
                self._service.leave.remote(self._i, epoch)

    def __reduce__(self) -> Any:
        schema = self._schema
        if schema is None and self._base is not None:
            schema = self._base[0].schema(fetch_if_missing=False)
        return SplitIterator, (
            self._service,
            self._i,
            self._deal,
            None,
            schema,
            self._context,
            self._total,
            self._sure,
        )


def streaming_split(
    ds: Dataset, request: RunRequest, n: int, equal: bool | str, batch_size: int | None = None
) -> list[SplitIterator]:
    """Makes the iterators; see the docstring of this module."""
    node, context = request.node, request.context
    ensure_engine(node)
    if _skate.engine() == "inline":
        raise NotImplementedError(
            "streaming_split: its iterators are used at the same time, and SKATE_ENGINE=inline runs one task at a time; use Dataset.split() there"
        )
    deal = feed.Deal(n, equal if isinstance(equal, str) else "drop" if equal else "", batch_size)
    service = skate.remote(num_cpus=0)(SplitService).remote(n, held_bytes(context, n))
    if _skate.in_worker():
        remote.feed(ds, request, service, deal)
    else:
        feed.start(ds, request, service, deal)
    rows = sum(b[2] for b in node.blocks) if node.blocks is not None else request.facts.rows
    return [
        SplitIterator(service, i, deal, (ds, node), None, context, rows, position.seeded(node))
        for i in range(n)
    ]
