"""Makes batches of exact sizes from a stream of blocks: rows, NumPy/pandas/pyarrow batches, torch
tensors.

Every batch but the last has exactly batch_size rows; a batch may have rows of several blocks. Cost:
each block is converted once, and most batches are views of it. Only a batch with rows of several
blocks, or with shuffled rows, is copied, once. docs/design/ingest.md says which object owns the
memory.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import skate
from skate import _skate
from skate.compat import absent
from skate.data import collate_fn as _collate_fn
from skate.data.methods.batches import Batches, BatchOptions
from skate.data.run import ahead as _ahead
from skate.data.run import errors, execute, position
from skate.data.util import torch_utils
from skate.data.values import batch, gathered, numpy_batch, rebatch, row_dicts, unify

if TYPE_CHECKING:
    from typing import Unpack

    from skate.data.context import DataContext
    from skate.data.dataset import Dataset, MaterializedDataset
    from skate.data.run.request import RunRequest
    from skate.data.schema import Schema
    from skate.data.typed import Row


@errors.methods
class DataIterator(Batches):
    """Iterates over a Dataset any number of times; each iteration runs the Dataset again unless it
    is materialized.

    Args:
        ds: The Dataset.
        request: A function that returns the RunRequest of the Dataset.

    Example:
        >>> import skate
        >>> it = skate.data.range(3).iterator()
        >>> sum(row["id"] for row in it.iter_rows()), sum(row["id"] for row in it.iter_rows())
        (3, 3)
    """

    _at: Position | None = None  # the position of the latest iteration
    _from: dict[str, Any] | None = None  # the state at which the next iteration begins
    _epoch = 0

    def __init__(self, ds: Dataset, request: Callable[[], RunRequest]):
        self._ds, self._request = ds, request

    if not TYPE_CHECKING:  # a type checker would take this method to mean that every name exists

        def __getattr__(self, name: str) -> Any:
            raise absent.attribute(self, "data.DataIterator", name)

    def __repr__(self) -> str:
        return f"DataIterator({self._ds!r})"

    def __reduce__(self) -> Any:
        return type(self), (self._ds, self._request)

    def set_epoch(self, epoch: int) -> None:
        """Sets the number of the epoch that the next iteration runs.

        With a local_shuffle_seed each epoch has its own order, which is the same in each run.

        Args:
            epoch: From 0; ValueError for less. A number other than that of a loaded state makes the
                next iteration begin at the first row.

        Example:
            >>> import skate
            >>> it = skate.data.range(100).iterator()
            >>> for epoch in range(2):
            ...     it.set_epoch(epoch)
            ...     n = sum(
            ...         len(b["id"])
            ...         for b in it.iter_batches(
            ...             local_shuffle_buffer_size=100, local_shuffle_seed=1
            ...         )
            ...     )
        """
        if not isinstance(epoch, int) or epoch < 0:
            raise ValueError(
                f"set_epoch: the number of an epoch is an int from 0 on, not {epoch!r}"
            )
        if epoch != self._epoch:
            self._from = None
        self._epoch = epoch

    def state_dict(self) -> dict[str, Any]:
        """The position of the latest iteration, after the batch that it yielded last.

        The state is a few numbers and costs nothing to make; load_state_dict() continues there.

        Raises:
            ValueError: A random operation of the Dataset has no seed, so no other run can yield the
                same rows.

        Example:
            >>> import skate
            >>> it = skate.data.range(10).iterator()
            >>> for batch in it.iter_batches(batch_size=4):
            ...     state = it.state_dict()
            ...     break
            >>> again = skate.data.range(10).iterator()
            >>> again.load_state_dict(state)
            >>> next(iter(again.iter_batches(batch_size=4)))["id"].tolist()
            [4, 5, 6, 7]
        """
        if self._at is None:
            return (
                dict(self._from)
                if self._from is not None
                else {"version": 1, "epoch": self._epoch, "rows": 0}
            )
        return self._at.state()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Makes the next iteration begin where state_dict() was called. From there it yields the
        same batches, in any process, over a Dataset with the same rows.

        Earlier rows are not read if the place of each row is known (a materialized Dataset; sources
        that know their row counts, with operators that return one row for each row). Else they are
        read and skipped.

        Args:
            state: A state that state_dict() returned; ValueError for others.
        """
        if (
            not isinstance(state, dict)
            or state.get("version") != 1
            or not isinstance(state.get("rows"), int)
        ):
            raise ValueError(f"load_state_dict: this is no state of an iterator: {state!r:.200}")
        self._from, self._at, self._epoch = dict(state), None, int(state.get("epoch", 0))

    def _begin(self, window: int, seed: int | None) -> Position:
        """The position at which the iteration that begins now starts."""
        state, self._from = self._from or {}, None
        if seed is None:
            seed = (
                int(state.get("seed") or int.from_bytes(os.urandom(7), "little")) if window else 0
            )
        elif state.get("seed") not in (None, seed):
            raise ValueError(
                f"local_shuffle_seed={seed}, but the state that was loaded is of {state['seed']}"
            )
        if state.get("window", window) != window:
            raise ValueError(
                f"local_shuffle_buffer_size={window}, but the state that was loaded is of {state['window']}"
            )
        self._at = Position(
            self,
            self._epoch,
            window,
            seed,
            0 if state.get("done") else int(state.get("rows", 0)),
            state.get("runs"),
        )
        return self._at

    def _iterator(self) -> DataIterator:
        return self

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.iter_rows()

    def _record_batches(self, row: int = 0, live: list[Any] | None = None) -> Iterator[Any]:
        """Yields the batches of rows from row number `row` on. live: receives a function that ends
        the run from another thread."""
        request = self._request()
        return execute.in_one_schema(request, blocks=position.blocks_from(request, row, live))

    def _runs(self, runs: list[int] | None) -> list[int]:
        """The numbers of runs from which the Dataset's random operations make their choices in the
        next run. runs: sets these numbers."""
        node = self._request().node
        if runs is not None:
            position.set_runs(node, runs)
        return position.runs_of(node)

    def _seeded(self) -> bool:
        """Whether the Dataset's random operations make the same choices in each process."""
        return position.seeded(self._request().node)

    def _frames(self) -> bool:
        """Whether batch_format=None yields DataFrames."""
        return self._request().frames()

    def iter_rows(self) -> Iterator[Row]:
        """Rows as dicts of Python values.

        Example:
            >>> import skate
            >>> [row["id"] for row in skate.data.range(3).iter_rows()]
            [0, 1, 2]
        """
        for rb in self._record_batches():
            for at in range(0, rb.num_rows, 4096):
                yield from row_dicts.to_rows(rb.slice(at, 4096))

    def _batches(
        self,
        batch_format: str | None,
        then: Callable[[Any], Any] | None,
        taken: Callable[[Any], Any] | None = None,
        *,
        prefetch_batches: int = 1,
        batch_size: int | None,
        drop_last: bool,
        local_shuffle_buffer_size: int | None,
        local_shuffle_seed: int | None,
    ) -> Iterator[Any]:
        """Yields batches in this format. then: converts a batch into what is yielded. taken: see
        arrived of _iterate()."""
        _check_options(batch_size, drop_last, local_shuffle_buffer_size, local_shuffle_seed)
        if batch_format is not None and batch_format not in batch.FORMATS:
            raise ValueError(
                f"batch_format must be one of {', '.join(map(repr, batch.FORMATS))} or None, not {batch_format!r}"
            )
        if batch_format is None and self._frames():
            batch_format = "pandas"
        window, ahead = _window(local_shuffle_buffer_size, batch_size), prefetch_batches

        def made(at: Position, live: list[Any]) -> Iterator[tuple[int, Any]]:
            it = self._record_batches(at.begin(), live)
            try:
                if window:
                    arrays = batch_format in ("default", "numpy")
                    for planned in gathered.Gather(at.rows()).plans(
                        _warned(it, window), batch_size or 0, drop_last
                    ):
                        yield (
                            planned.num_rows,
                            planned.numpy()
                            if arrays
                            else batch.to_batch(planned.batch(), batch_format),
                        )
                else:
                    yield from cut_batches(it, batch_size, batch_format, drop_last)
            finally:
                it.close()  # type: ignore[attr-defined]

        def run() -> Iterator[Any]:
            return self._iterate(
                made,
                window,
                local_shuffle_seed,
                then,
                ahead if then is not None or (window and ahead > 1) else 0,
                taken,
            )

        return Again(run)

    def _iterate(
        self,
        made: Callable[[Position, list[Any]], Iterator[tuple[int, Any]]],
        window: int,
        seed: int | None,
        then: Callable[[Any], Any] | None,
        ahead: int,
        arrived: Callable[[Any], Any] | None = None,
        at_once: int = 1,
    ) -> Iterator[Any]:
        """Yields the batches of made(), converted by then(), and records the position after each
        batch.

        Args:
            made: A function from a position and a list to (rows, batch) pairs. It appends to the
                list a function that ends its run.
            window, seed: Size (rows) and seed of the local shuffle.
            then: Converts a batch into what is yielded.
            ahead: The number of batches that a thread prepares in advance; 0: no thread.
            arrived: Called with each item by the consumer that takes it.
            at_once: Number of threads that run then().
        """
        at = self._begin(window, seed)
        live: list[Any] = []

        def work(item: tuple[int, Any]) -> tuple[int, Any]:
            return item[0], item[1] if then is None else then(item[1])

        def items() -> Iterator[tuple[int, Any]]:
            it = made(at, live)
            try:
                for item in it:
                    yield item if at_once > 1 and ahead > 0 else work(item)
            finally:
                it.close()  # type: ignore[attr-defined]

        def interrupt() -> None:
            for stop in live:
                stop()

        source: Any = (
            _ahead.Ahead(items, ahead, interrupt, work if at_once > 1 else None, at_once)
            if ahead > 0
            else items()
        )
        try:
            for rows, batch in source:
                at.given += rows
                yield batch if arrived is None else arrived(batch)
            at.done = True
        finally:
            source.close()

    def _tensors(
        self,
        tensors: Any,
        send: Callable[[Any], Any] | None = None,
        arrived: Callable[[Any], Any] | None = None,
        *,
        prefetch_batches: int = 1,
        batch_size: int | None,
        drop_last: bool,
        local_shuffle_buffer_size: int | None,
        local_shuffle_seed: int | None,
    ) -> Iterator[Any]:
        """Yields the batches of a torch_utils.Tensors. send: converts a batch, behind them. arrived:
        see _iterate()."""
        _check_options(batch_size, drop_last, local_shuffle_buffer_size, local_shuffle_seed)
        window, ahead = _window(local_shuffle_buffer_size, batch_size), prefetch_batches
        gathers = window or (tensors.pin and batch_size is not None)
        at_once = torch_utils.at_once() if tensors.pin else 1
        threads = ahead > 1 or (ahead == 1 and tensors.works)

        def made(at: Position, live: list[Any]) -> Iterator[tuple[int, Any]]:
            it = self._record_batches(at.begin(), live)
            try:
                blocks = _warned(it, window)
                yield from (
                    tensors.jobs(blocks, batch_size, drop_last, at.rows())
                    if gathers
                    else tensors.batches(blocks, batch_size, drop_last)
                )
            finally:
                it.close()  # type: ignore[attr-defined]

        def gather(job: Any) -> Any:
            return job() if send is None else send(job())

        def run() -> Iterator[Any]:
            if gathers:
                return self._iterate(
                    made,
                    window,
                    local_shuffle_seed,
                    gather,
                    ahead + at_once - 1 if threads else 0,
                    arrived,
                    at_once,
                )
            return self._iterate(
                made, window, local_shuffle_seed, send, ahead if send is not None else 0, arrived
            )

        return Again(run)

    def _collated(
        self,
        collate_fn: Any,
        device: Any,
        send: Any,
        arrived: Any,
        **options: Unpack[BatchOptions],
    ) -> Iterator[Any]:
        """iter_torch_batches() with a function of the user as collate_fn."""
        takes_format = isinstance(collate_fn, _collate_fn.CollateFn)
        is_batch = _collate_fn.is_tensor_batch_type

        def then(batch: Any) -> Any:
            out = collate_fn(batch)
            if send is not None and is_batch(out):
                return True, send(out)
            return False, torch_utils.move_tensors_to_device(out, device) if str(
                device
            ) != "cpu" and is_batch(out) else out

        def taken(item: tuple[bool, Any]) -> Any:
            return arrived(item[1]) if item[0] else item[1]

        return self._batches(
            collate_fn.batch_format if takes_format else "numpy", then, taken, **options
        )

    def get_context(self) -> DataContext:
        """The settings of the Dataset."""
        return self._ds.context

    def materialize(self) -> MaterializedDataset:
        """Runs everything and keeps the blocks: see Dataset.materialize."""
        return self._ds.materialize()

    def schema(self) -> Schema | None:
        """Column names and types: see Dataset.schema."""
        return self._ds.schema()

    def stats(self) -> str:
        """A text about the last execution: see Dataset.stats."""
        return self._ds.stats()


@errors.methods
class Again:
    """The return value of iter_batches(): each iter() runs the Dataset again; next() continues a
    run that belongs to this object."""

    def __init__(self, run: Callable[[], Iterator[Any]]):
        self._run = run
        self._own: Any = None

    def __iter__(self) -> Iterator[Any]:
        return self._run()

    def __next__(self) -> Any:
        if self._own is None:
            self._own = self._run()
        return next(self._own)

    def close(self) -> None:
        """Stops the run that next() uses."""
        if self._own is not None:
            self._own.close()


class Position:
    """The position of an iteration.

    Args:
        of: The iterator.
        epoch, window, seed: Of the local shuffle; window: its size in rows, 0 for no shuffle.
        rows: The number of rows that were yielded before this iteration began.
        runs: The run numbers of the Dataset's random operations; None: the next ones.
    """

    # for a part of a split: the row number at which the iteration of the whole split began
    first = 0

    def __init__(
        self,
        of: DataIterator,
        epoch: int,
        window: int,
        seed: int,
        rows: int,
        runs: list[int] | None,
    ):
        self.epoch, self.window, self.seed, self.given, self.done = epoch, window, seed, rows, False
        self.of, self.runs = of, of._runs(runs)

    def begin(self) -> int:
        """The first row of the Dataset that is needed."""
        return _skate.rows_begin(self.window, self.seed, self.epoch, self.given)

    def rows(self) -> Any:
        """The object that orders the rows and yields them."""
        return _skate.Rows(self.window, self.seed, self.epoch, self.given)

    def state(self) -> dict[str, Any]:
        """The dict that state_dict() returns."""
        if self.runs and not self.of._seeded():
            raise ValueError(
                "state_dict: a random operation of this Dataset has no seed, so no other run has the same rows; give it one (random_shuffle(seed=...))"
            )
        out: dict[str, Any] = {
            "version": 1,
            "epoch": self.epoch,
            "rows": self.given,
            "runs": self.runs,
        }
        if self.window:
            out |= {"window": self.window, "seed": self.seed}
        return out | {"done": True} if self.done else out


def _window(buffer: int | None, batch_size: int | None) -> int:
    """The number of rows that are shuffled together; 0: no shuffle."""
    return 0 if buffer is None else max(int(buffer), batch_size or 1)


def _check_options(
    batch_size: Any, drop_last: Any, local_shuffle_buffer_size: Any, local_shuffle_seed: Any
) -> None:
    if batch_size is not None and (not isinstance(batch_size, int) or batch_size < 1):
        raise ValueError(f"batch_size must be a positive int or None, not {batch_size!r}")
    if local_shuffle_buffer_size is not None and batch_size is None:
        raise ValueError("local_shuffle_buffer_size needs a batch_size")


def cut_batches(
    blocks: Iterator[Any], size: int | None, fmt: str | None, drop_last: bool
) -> Iterator[tuple[int, Any]]:
    """Yields (number of rows, batch in the format) with `size` rows each."""
    if size is None:
        for rb in blocks:
            if rb.num_rows:
                yield rb.num_rows, batch.to_batch(rb, fmt)
        return
    if fmt not in ("default", "numpy"):
        for rb in rebatch.rebatch(blocks, size):
            if rb.num_rows == size or (rb.num_rows and not drop_last):
                yield rb.num_rows, batch.to_batch(rb, fmt)
        return
    held: list[Any] = []
    n = 0
    for rb in blocks:
        rows = rb.num_rows
        at = 0
        if n:
            at = min(size - n, rows)
            if at:
                held.append(rb.slice(0, at))
                n += at
            if n < size:
                continue
            yield size, numpy_batch.to_numpy(unify.merge(held))
            held, n = [], 0
        full = (rows - at) // size
        if full:
            cols, varied = numpy_batch.to_cut(rb)
            if varied:
                for i in range(at, at + full * size, size):
                    yield (
                        size,
                        {
                            k: varied[k](i, size) if v is None else v[i : i + size]
                            for k, v in cols.items()
                        },
                    )
            elif len(cols) == 1:
                ((k, v),) = cols.items()
                for i in range(at, at + full * size, size):
                    yield size, {k: v[i : i + size]}
            else:
                items = list(cols.items())
                for i in range(at, at + full * size, size):
                    yield size, {k: v[i : i + size] for k, v in items}
            at += full * size
        if at < rows:
            held, n = [rb.slice(at)], rows - at
    if n and not drop_last:
        yield n, numpy_batch.to_numpy(unify.merge(held))


def _warned(blocks: Iterator[Any], window: int) -> Iterator[Any]:
    """Yields the blocks. Before the first one, warns if a shuffle buffer of `window` rows as large
    as this block's would not fit into the object store."""
    for rb in blocks:
        if window and rb.num_rows:
            room = (
                int(skate.cluster_resources().get("object_store_memory", 0))
                if skate.is_initialized()
                else 0
            )
            need, rows, window = window * rb.nbytes // rb.num_rows, window, 0
            if need > room > 0:
                warnings.warn(
                    f"local_shuffle_buffer_size: the shuffle buffer of {rows:,} rows takes about {need >> 20:,} MiB, the object store has {room >> 20:,} MiB; use fewer rows",
                    UserWarning,
                    stacklevel=2,
                )
        yield rb


DatasetIterator = DataIterator  # Ray's older name
