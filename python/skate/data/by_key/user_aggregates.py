"""Groups of rows with equal keys, in the worker, and aggregates that Python calls compute, once for
each group.

If one aggregate of an operator is the user's own, this module computes all aggregates of the
operator (else the kernel does: kernel_aggregates.py). Rows become states, states of several tasks
are merged, and states become results; each is a batch with one row for each group. A batch of
states has the key's columns as k0, k1, ... and the pickled states of the i-th aggregate as s{i}.
These are plain columns, which an exchange sorts, cuts and spills like any rows.

The rows of one group have equal keys; null is one key and NaN another, -0.0 equals 0.0
(docs/design/kernels.md).
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

from skate import _skate
from skate._deps import cloudpickle, np, pa
from skate.data import aggregate as ag
from skate.data.by_key.group_keys import key_columns
from skate.data.values import from_arrow, selection, to_arrow
from skate.data.values.unify import MissingColumn, columns_are, merge

Columns = list[Any]  # a list of pyarrow.Array
ROWS = 1 << 16  # the least rows that are grouped at once; smaller batches are joined first


# ---- Groups of rows.


class Groups:
    """The groups of some rows, numbered in order of appearance.

    Args:
        cols: The key's columns, each with `rows` rows; empty: all rows are one group.
        rows: Number of rows.
        in_order: Whether the rows are in the order of the key, so that rows of a group are
            adjacent.
    """

    def __init__(self, cols: Columns, rows: int, in_order: bool = False):
        self.rows, self._ids = rows, None
        self.first = np.zeros(min(rows, 1), np.int64)  # the first row of each group
        if cols:
            key = pa.RecordBatch.from_arrays(cols, names=[f"{i}" for i in range(len(cols))])
            first, self._ids = _skate.groups(key, in_order)
            self.first = np.frombuffer(first, np.uint32).astype(np.int64)
        self.n = len(self.first)

    @cached_property
    def ids(self) -> np.ndarray:
        """The group number of each row."""
        if self._ids is None:
            return np.repeat(np.arange(self.n), self.sizes)
        return np.frombuffer(self._ids, np.uint32).astype(np.int64)

    @cached_property
    def sizes(self) -> np.ndarray:
        """The number of rows of each group."""
        if self._ids is None:
            return np.diff(self.first, append=self.rows)
        return np.bincount(self.ids, minlength=self.n)

    @cached_property
    def order(self) -> np.ndarray | None:
        """The row numbers group by group, in their order within each group; None: the rows are
        already in this order."""
        if self._ids is None or (np.diff(self.ids) >= 0).all():
            return None
        return np.argsort(self.ids, kind="stable")

    def arranged(self, col: Any) -> Any:
        """A column's values, group by group."""
        return col if self.order is None else selection.take_values(col, pa.array(self.order))

    def slices(self, rb: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yields the rows of each group."""
        rb = rb if self.order is None else selection.take(rb, self.order)
        ends = np.cumsum(self.sizes).tolist()
        for a, b in zip([0, *ends], ends, strict=False):
            yield rb.slice(a, b - a)


class Runs:
    """Finds where groups begin, in batches whose rows are in the order of a key.

    Args:
        keys: The key's columns.
        label: Label of the operator, for errors.
    """

    def __init__(self, keys: Sequence[str], label: str):
        self.keys, self.label = keys, label

    def groups(self, rb: pa.RecordBatch) -> Groups:
        """The groups of a batch."""
        return Groups(key_columns(rb, self.keys, self.label), rb.num_rows, in_order=True)

    def goes_on(self, before: list[pa.RecordBatch], rb: pa.RecordBatch) -> bool:
        """Whether the first rows of rb belong to the last group of the batches before it."""
        if not before:
            return False
        last = before[-1]
        two = [last.slice(last.num_rows - 1).select(self.keys), rb.slice(0, 1).select(self.keys)]
        return not self.keys or self.groups(merge(two)).n == 1


# ---- Aggregates that are computed by Python calls.


def _called(f: Any, key: Any, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except BaseException as e:
        e.add_note(f"in the aggregate {f.name!r}, of the group {key!r}")
        raise


def _pickled(states: list[Any]) -> Any:
    return to_arrow.from_objects([cloudpickle.dumps(s) for s in states], pa.binary())


class Aggregates:
    """Computes aggregates by a key.

    Args:
        keys: The key's columns; empty: all rows are one group.
        aggs: The aggregates.
        names: Names of the results, one for each aggregate.
        one_key: Whether init() gets a single key as it is, and not as a tuple.
        label: Label of the operator, for errors.
    """

    def __init__(
        self,
        keys: Sequence[str],
        aggs: Sequence[Any],
        names: Sequence[str],
        one_key: bool,
        label: str,
    ):
        self.keys, self.aggs, self.names, self.one_key, self.label = (
            list(keys),
            list(aggs),
            list(names),
            one_key,
            label,
        )
        self.state_names = [
            *(f"k{i}" for i in range(len(keys))),
            *(f"s{i}" for i in range(len(aggs))),
        ]

    def made(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the states of the rows of a task, as one batch; nothing if there are no
        batches."""
        held: list[Any] = []
        states: list[Any] = []
        n, empty = 0, None
        for rb in batches:
            empty = rb
            if rb.num_rows:
                held.append(rb)
                n += rb.num_rows
                if n >= ROWS:
                    states.append(self.partial(merge(held)))
                    held, n = [], 0
        if held:
            states.append(self.partial(merge(held)))
        if states:
            yield self.combined(states)
        elif empty is not None:
            # a batch without rows may lack a column
            with contextlib.suppress(MissingColumn):
                yield self.partial(empty)  # an empty batch, which shows the columns

    def partial(self, rb: pa.RecordBatch) -> pa.RecordBatch:
        """Makes states of rows. MissingColumn and ValueError name the aggregate and the column."""
        key = key_columns(rb, self.keys, self.label)
        for f in self.aggs:
            on = f.get_target_column() if isinstance(f, ag.AggregateFnV2) else None
            if on is not None and on not in rb.schema.names:
                raise MissingColumn(
                    f"{self.label}: {f.name}: there is no column {on!r}; {columns_are(on, rb.schema.names)}"
                )
        g = Groups(key, rb.num_rows)
        cols = [selection.take_values(c, pa.array(g.first)) for c in key]
        tables = [pa.Table.from_batches([rows]) for rows in g.slices(rb)]
        keys = self._plain_keys(cols, g.n)
        states = [
            [
                _called(f, k, lambda f=f, k=k, t=t: f.accumulate_block(f.init(k), t))
                for k, t in zip(keys, tables, strict=True)
            ]
            for f in self.aggs
        ]
        return self._batch(cols, states)

    def _plain_keys(self, cols: Columns, n: int) -> list[Any]:
        if not cols:
            return [None] * n
        values = [from_arrow.to_objects(k, c) for k, c in zip(self.keys, cols, strict=True)]
        return list(values[0]) if self.one_key else list(zip(*values, strict=True))

    def _batch(self, cols: Columns, states: list[list[Any]]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([*cols, *map(_pickled, states)], names=self.state_names)

    def combined(self, batches: list[pa.RecordBatch], in_order: bool = False) -> pa.RecordBatch:
        """Merges batches of states into one batch with one row for each group, in the order in
        which groups appear. in_order: the batches are in the order of the key."""
        rb = merge(batches)
        key = rb.columns[: len(self.keys)]
        g = Groups(key, rb.num_rows, in_order)
        if g.n == rb.num_rows:
            return rb
        states = [
            _merged(f, g, s) for f, s in zip(self.aggs, rb.columns[len(self.keys) :], strict=True)
        ]
        return self._batch([selection.take_values(c, pa.array(g.first)) for c in key], states)

    def results(self, rb: pa.RecordBatch) -> pa.RecordBatch:
        """Makes results of states: the key's columns, then one column for each aggregate."""
        n = len(self.keys)
        made = [
            to_arrow.from_objects(self._finished(f, states), None)
            for f, states in zip(self.aggs, rb.columns[n:], strict=True)
        ]
        return pa.RecordBatch.from_arrays([*rb.columns[:n], *made], names=[*self.keys, *self.names])

    def values(self, rb: pa.RecordBatch) -> list[Any] | None:
        """Makes results, as Python values, of the states of aggregates over all rows; None if there
        was no row."""
        if not rb.num_rows:
            return None
        return [self._finished(f, s)[0] for f, s in zip(self.aggs, rb.columns, strict=True)]

    def _finished(self, f: Any, states: Any) -> list[Any]:
        try:
            return [f.finalize(pickle.loads(d)) for d in states.to_pylist()]
        except BaseException as e:
            e.add_note(f"in {self.label}: the aggregate {f.name!r}")
            raise


def _merged(f: Any, g: Groups, states: Any) -> list[Any]:
    """Merges the states of each group."""
    out, data, at = [], g.arranged(states).to_pylist(), 0
    for n in g.sizes.tolist():
        one, *more = [pickle.loads(d) for d in data[at : at + n]]
        for other in more:
            one = f.merge(one, other)
        out.append(one)
        at += n
    return out
