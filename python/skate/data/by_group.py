"""Aggregates by group, in the worker: rows become states, states of several tasks one state, and states results; each is a batch with a row a group.

A batch of states has the key's columns as k0, k1, ... and what the i-th aggregate keeps as s{i}.0, s{i}.1, ...: plain columns, which an exchange sorts, cuts and spills as it does any rows.
How an aggregate of skate.data.aggregate is worked out over whole columns is said by its `Way`; one of the user's own has `_ByCalls`, which calls its functions once a group and keeps
pickled states. No loop here is over rows.

Which rows are a group: keys are equal; null is one key and NaN another, -0.0 is 0.0 (docs/design/kernels.md). What is missing, for ignore_nulls: null and NaN.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skate.data import aggregate as ag
from skate.data.combine import present
from skate.data.datatype import is_list
from skate.data.values.from_arrow import to_objects
from skate.data.values.to_arrow import from_objects, one_array
from skate.data.values.unify import MissingColumn, columns_are, merge

_T = pa.types
Columns = list[Any]  # of pyarrow.Array


# ---- which rows are a group


def orderable(t: pa.DataType) -> bool:
    """Whether a column of this type may be a key (src/kernel/key.c)."""
    if _T.is_dictionary(t):
        return orderable(t.value_type)
    return (
        not _T.is_nested(t)
        and not isinstance(t, pa.BaseExtensionType)
        and not _T.is_run_end_encoded(t)
        and t.id != pa.lib.Type_INTERVAL_MONTH_DAY_NANO
    )


def key_columns(rb: pa.RecordBatch, keys: Sequence[str], what: str) -> Columns:
    """The columns of a key, without dictionaries and views; MissingColumn, and ValueError for a type that has no order."""
    out = []
    for k in keys:
        i = rb.schema.get_field_index(k)
        if i < 0:
            raise MissingColumn(f"{what}: there is no column {k!r}; {columns_are(k, rb.schema.names)}")
        c = rb.column(i)
        if not orderable(c.type):
            raise ValueError(f"{what}: column {k!r} of type {c.type} cannot be a key: its values have no order")
        out.append(_plain(c))
    return out


def _plus_zero(col: Any) -> Any:
    """Floats with 0.0 for -0.0."""
    if _T.is_float16(col.type):
        col = col.cast(pa.float32())
    return pc.add(col, pa.scalar(0.0, col.type)) if _T.is_floating(col.type) else col


def _codes(col: Any) -> tuple[np.ndarray, int]:
    """(the number of each row's value among the distinct ones, in order of appearance; how many there are)."""
    coded: Any = pc.dictionary_encode(_plus_zero(_plain(col)), null_encoding="encode")
    return coded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(coded.dictionary)


def _differs(col: Any) -> np.ndarray:
    """Which rows but the first differ from the one before."""
    t = col.type
    if col.null_count or not (_T.is_integer(t) or _T.is_floating(t)):
        v = _codes(col)[0]
        return v[1:] != v[:-1]
    v = col.to_numpy()
    other = v[1:] != v[:-1]
    return other & ~(np.isnan(v[1:]) & np.isnan(v[:-1])) if _T.is_floating(t) else other


class Groups:
    """The groups of some rows, numbered in order of appearance.

    Args:
        cols: The key's columns, each of `rows` rows; none: all rows are one group.
        rows: How many rows.
        in_order: They come in the order of the key, so those of a group are neighbours.
    """

    def __init__(self, cols: Columns, rows: int, in_order: bool = False):
        ids, n = np.zeros(rows, np.int64), min(rows, 1)
        if in_order and rows and cols:
            begins = np.zeros(rows, bool)
            for c in cols:
                begins[1:] |= _differs(c)
            begins[0] = True
            self.starts = np.flatnonzero(begins)
            self.first, self.n = self.starts, len(self.starts)
            self.sizes = np.diff(self.starts, append=rows)
            return
        for c in cols:
            more, m = _codes(c)
            ids, n = (more, m) if n <= 1 else _codes(pa.array(ids * m + more))
        self.ids, self.n = ids, n

    @classmethod
    def of_ids(cls, ids: np.ndarray, n: int) -> Groups:
        """Of rows whose groups are known. ids: of shape (rows,), int64, each below n."""
        self = cls([], 0)
        self.ids, self.n = ids, n
        return self

    @cached_property
    def ids(self) -> np.ndarray:
        """The number of each row's group."""
        return np.repeat(np.arange(self.n), self.sizes)

    @cached_property
    def starts(self) -> np.ndarray | None:
        """The row at which each group begins, where each has rows that are neighbours, in the order of the groups; else None."""
        step = np.diff(self.ids)
        if not len(self.ids) or self.ids[0] != 0 or self.ids[-1] != self.n - 1 or not ((step == 0) | (step == 1)).all():
            return None
        return np.concatenate([[0], np.flatnonzero(step) + 1])

    @cached_property
    def first(self) -> np.ndarray:
        """The first row of each group."""
        at = np.zeros(self.n, np.int64)
        at[self.ids[::-1]] = np.arange(len(self.ids) - 1, -1, -1)
        return at

    @cached_property
    def sizes(self) -> np.ndarray:
        """How many rows each group has."""
        return np.bincount(self.ids, minlength=self.n)

    @cached_property
    def order(self) -> np.ndarray | None:
        """The rows, group by group, as they come within each; None: they come so."""
        if self.starts is not None or not len(self.ids) or (np.diff(self.ids) >= 0).all():
            return None
        return np.argsort(self.ids, kind="stable")

    def arranged(self, col: Any) -> Any:
        """A column's values, group by group."""
        return col if self.order is None else col.take(pa.array(self.order))

    def slices(self, rb: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows of each group."""
        rb = rb if self.order is None else rb.take(pa.array(self.order))
        ends = np.cumsum(self.sizes).tolist()
        for a, b in zip([0, *ends], ends, strict=False):
            yield rb.slice(a, b - a)

    def where(self, keep: np.ndarray) -> Groups:
        """The same groups of the rows that are kept."""
        return Groups.of_ids(self.ids[keep], self.n)

    def repeated(self, times: np.ndarray) -> Groups:
        """The same groups of rows of which each is there so many times."""
        return Groups.of_ids(np.repeat(self.ids, times), self.n)

    def sums(self, values: np.ndarray) -> np.ndarray:
        """The sum of small integers or booleans, of each group."""
        return np.bincount(self.ids, weights=values, minlength=self.n).astype(np.int64)

    def fold(self, col: Any, how: str) -> Any:
        """The "sum", "min" or "max" of the values that are there: null for a group without."""
        if _T.is_null(col.type):
            return pa.nulls(self.n)
        if how in _FOLDS and not col.null_count and (_T.is_integer(col.type) or _T.is_float64(col.type)) and self.starts is not None:
            t = np.float64 if _T.is_floating(col.type) else np.int64 if how == "sum" and _T.is_signed_integer(col.type) else None
            return pa.array(_FOLDS[how].reduceat(col.to_numpy(), self.starts, dtype=t))
        t = pa.table({"g": self.ids, "x": col}).group_by("g", use_threads=False).aggregate([("x", how)])
        found: Any = one_array(t.column(f"x_{how}"))
        of = t.column("g").to_numpy()
        if len(of) == self.n and (of == np.arange(self.n)).all():
            return found
        at = np.full(self.n, -1, np.int64)  # they come in another order, or some group has no row here
        at[of] = np.arange(len(of))
        return found.take(pa.array(at, mask=at < 0))

    def lists(self, col: Any) -> Any:
        """The values of each group as a list. They are this group's rows."""
        ends = np.concatenate([[0], np.cumsum(self.sizes)])
        large = ends[-1] > (1 << 31) - 2
        return (pa.LargeListArray if large else pa.ListArray).from_arrays(
            pa.array(ends, pa.int64() if large else pa.int32()), self.arranged(col)
        )


class Runs:
    """Batches whose rows come in the order of a key, with regard to where groups begin.

    Args:
        keys: The key's columns.
        label: Of the operator, for errors.
    """

    def __init__(self, keys: Sequence[str], label: str):
        self.keys, self.label = keys, label

    def groups(self, rb: pa.RecordBatch) -> Groups:
        """The groups of a batch."""
        return Groups(key_columns(rb, self.keys, self.label), rb.num_rows)

    def goes_on(self, before: list[pa.RecordBatch], rb: pa.RecordBatch) -> bool:
        """Whether rb begins with rows of the group that the batches before it end with."""
        if not before:
            return False
        last = before[-1]
        two = [last.slice(last.num_rows - 1).select(self.keys), rb.slice(0, 1).select(self.keys)]
        return not self.keys or self.groups(merge(two)).n == 1


# ---- how an aggregate is worked out


def _plain(col: Any) -> Any:
    """A column as Arrow's hash aggregates take it: no dictionary, no views."""
    t = col.type
    if _T.is_dictionary(t):
        return col.cast(t.value_type)
    return col.cast(pa.string()) if _T.is_string_view(t) else col.cast(pa.binary()) if _T.is_binary_view(t) else col


def _bits(col: Any) -> np.ndarray:
    """Which rows are there."""
    return np.asarray(pc.is_valid(col).to_numpy(zero_copy_only=False))


class Way:
    """How an aggregate is worked out. `first` gives its states from a column (None: it has none), `again` from states, `last` the results. What `first` and `again` give has a row a group."""

    def __init__(self, a: Any):
        self.agg = a
        self.strict = not a._ignore_nulls  # one missing value makes the result null

    def first(self, col: Any, g: Groups) -> Columns:
        col = present(_plain(col))
        missing = [pa.array(g.sums(~_bits(col)) > 0)] if self.strict else []
        return [*self.of(col, g), *missing]

    def again(self, states: Columns, g: Groups) -> Columns:
        missing = [g.fold(states[-1], "max")] if self.strict else []
        return [*self.more(states[: len(states) - len(missing)], g), *missing]

    def last(self, states: Columns) -> Any:
        if not self.strict:
            return self.result(states)
        made = self.result(states[:-1])
        return pc.if_else(states[-1], pa.scalar(None, made.type), made)

    def of(self, col: Any, g: Groups) -> Columns:
        """The states of the values of a column that are not missing."""
        raise NotImplementedError

    def more(self, states: Columns, g: Groups) -> Columns:
        """The states of several, each for itself: sums, unless it is said otherwise."""
        return [g.fold(s, "sum") for s in states]

    def result(self, states: Columns) -> Any:
        """The results."""
        return states[0]


class _Count(Way):
    def first(self, col: Any, g: Groups) -> Columns:
        if col is None or self.strict:
            return [pa.array(g.sizes)]
        return [pa.array(g.sums(_bits(present(_plain(col)))))]

    def again(self, states: Columns, g: Groups) -> Columns:
        return self.more(states, g)

    def last(self, states: Columns) -> Any:
        return states[0]


_FOLDS = {"sum": np.add, "min": np.minimum, "max": np.maximum}
LOW = (1 << 32) - 1


def _whole_sums(col: Any, g: Groups) -> Columns:
    """Of integers, exact: what their upper halves come to (in units of 2**32), and their lower ones; null for a group without values."""
    most = 1 << col.type.bit_width
    if most * len(col) >= 1 << 63:
        ends = pc.min_max(col).as_py()
        most = max(abs(ends["min"] or 0), abs(ends["max"] or 0))
    if most * len(col) < 1 << 63:
        whole = g.fold(col, "sum").cast(pa.int64())
        return [pc.shift_right(whole, pa.scalar(32, pa.int64())), pc.bit_wise_and(whole, pa.scalar(LOW, pa.int64()))]
    if _T.is_unsigned_integer(col.type):
        high, low = pc.shift_right(col, pa.scalar(32, col.type)), pc.bit_wise_and(col, pa.scalar(LOW, col.type))
    else:
        high, low = pc.shift_right(col, pa.scalar(32, pa.int64())), pc.bit_wise_and(col, pa.scalar(LOW, pa.int64()))
    return [g.fold(high.cast(pa.int64()), "sum"), g.fold(low.cast(pa.int64()), "sum")]


def _sums(col: Any, g: Groups) -> Any:
    """Exact for decimals, double for floats."""
    t = col.type
    if _T.is_null(t):
        return pa.nulls(g.n)
    if _T.is_decimal(t) and t.bit_width < 128:
        col = col.cast(pa.decimal128(38, t.scale))
    if _T.is_decimal(t) or _T.is_floating(t):
        return g.fold(col, "sum")
    raise TypeError(f"its values, of type {t}, cannot be added")


def _parts(col: Any, g: Groups) -> Columns:
    """A sum as three states, of which those hold nulls of no type that this column has nothing for: two halves of integers, and a sum of floats or decimals."""
    t = col.type
    if not (_T.is_boolean(t) or _T.is_integer(t) or _T.is_duration(t)):
        return [pa.nulls(g.n), pa.nulls(g.n), _sums(col, g)]
    whole = col.cast(pa.uint8()) if _T.is_boolean(t) else col.cast(pa.int64()) if _T.is_duration(t) else col
    return [*_whole_sums(whole, g), pa.nulls(g.n)]


def _total(parts: Columns, to: pa.DataType) -> Any:
    """The sum of _parts(): of type `to` where all were integers (OverflowError), else as floats or decimals are."""
    high, low, other = parts
    if _T.is_null(high.type):
        return other
    if not _T.is_null(other.type):  # integers in some blocks, floats or decimals in others
        wide = pa.decimal256(70, other.type.scale) if _T.is_decimal(other.type) else pa.float64()
        whole = (
            pc.add(pc.multiply(high.cast(pa.float64()), float(1 << 32)), low.cast(pa.float64()))
            if wide == pa.float64()
            else _total([high, low, pa.nulls(0)], pa.int64())
        )
        some, other = whole.cast(wide), other.cast(wide)
        both = pc.add(pc.fill_null(some, pa.scalar(0).cast(wide)), pc.fill_null(other, pa.scalar(0).cast(wide)))
        both = both.cast(parts[2].type) if wide != pa.float64() else both
        return pc.if_else(pc.or_(pc.is_valid(some), pc.is_valid(other)), both, pa.scalar(None, both.type))
    high = pc.add(high, pc.shift_right(low, pa.scalar(32, pa.int64())))
    low = pc.bit_wise_and(low, pa.scalar(LOW, pa.int64()))
    ends = pc.min_max(high).as_py()
    least, most = (0, LOW) if to == pa.uint64() else (-(1 << 31), (1 << 31) - 1)
    if ends["min"] is not None and (ends["min"] < least or ends["max"] > most):
        raise OverflowError(f"a group's sum is more than {to} holds; cast the column to float64 or to a decimal before")
    return pc.bit_wise_or(pc.shift_left(high.cast(to, safe=False), pa.scalar(32, to)), low.cast(to))


class _Sum(Way):
    """The parts of a sum, and nulls of the type of the result, where it is neither int64 nor that of a part."""

    def of(self, col: Any, g: Groups) -> Columns:
        t = col.type
        return [*_parts(col, g), pa.nulls(g.n, t if t == pa.uint64() or _T.is_duration(t) else pa.null())]

    def more(self, states: Columns, g: Groups) -> Columns:
        return [g.fold(s, "sum") for s in states[:3]] + [pa.nulls(g.n, states[3].type)]

    def result(self, states: Columns) -> Any:
        t = states[3].type
        made = _total(states[:3], pa.uint64() if t == pa.uint64() else pa.int64())
        return made.cast(t) if _T.is_duration(t) else made


class _Extreme(Way):
    how = "min"

    def of(self, col: Any, g: Groups) -> Columns:
        if _T.is_nested(col.type) or isinstance(col.type, pa.BaseExtensionType):
            raise TypeError(f"its values, of type {col.type}, have no order")
        return self.more([_plus_zero(col)], g)

    def more(self, states: Columns, g: Groups) -> Columns:
        return [g.fold(states[0], self.how).cast(states[0].type)]


class _Max(_Extreme):
    how = "max"


class _AbsMax(_Max):
    def of(self, col: Any, g: Groups) -> Columns:
        return super().of(pc.abs_checked(col), g)


def _doubles(col: Any) -> Any:
    t = col.type
    if not (_T.is_integer(t) or _T.is_floating(t) or _T.is_decimal(t) or _T.is_boolean(t) or _T.is_null(t)):
        raise TypeError(f"its values, of type {t}, are no numbers")
    return col.cast(pa.uint8()).cast(pa.float64()) if _T.is_boolean(t) else col.cast(pa.float64(), safe=False)


class _Mean(Way):
    """A number of values, and the parts of their sum."""

    def of(self, col: Any, g: Groups) -> Columns:
        whole = _T.is_integer(col.type) or _T.is_boolean(col.type)
        return [pa.array(g.sums(_bits(col))), *_parts(col if whole else _doubles(col), g)]

    def result(self, states: Columns) -> Any:
        n, high, low, other = (s.cast(pa.float64()) for s in states)
        whole = pc.add(pc.multiply(high, float(1 << 32)), low)
        return pc.divide(
            pc.add(pc.fill_null(whole, 0.0), pc.fill_null(other, 0.0)), pc.if_else(pc.equal(n, 0.0), pa.scalar(None, pa.float64()), n)
        )


class _Std(Way):
    """Number, mean and sum of squared distances to it; of several by Chan's formula, all at once."""

    def of(self, col: Any, g: Groups) -> Columns:
        x = _doubles(col)
        keep = _bits(x)
        v, h = x.drop_null().to_numpy(zero_copy_only=False), g.where(keep)
        n = h.sizes
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.bincount(h.ids, v, g.n) / n
            return [pa.array(n), pa.array(mean), pa.array(np.bincount(h.ids, (v - mean[h.ids]) ** 2, g.n))]

    def more(self, states: Columns, g: Groups) -> Columns:
        n, mean, squares = (s.to_numpy(zero_copy_only=False) for s in states)
        mean = np.where(n > 0, mean, 0.0)
        total = g.sums(n)
        with np.errstate(invalid="ignore", divide="ignore"):
            whole = np.bincount(g.ids, n * mean, g.n) / total
            apart = np.bincount(g.ids, squares + n * (mean - np.where(total > 0, whole, 0.0)[g.ids]) ** 2, g.n)
        return [pa.array(total), pa.array(whole), pa.array(apart)]

    def result(self, states: Columns) -> Any:
        n, _, squares = (s.to_numpy(zero_copy_only=False) for s in states)
        less = n - self.agg._ddof
        with np.errstate(invalid="ignore", divide="ignore"):
            return pa.array(np.where(less > 0, np.sqrt(squares / less), math.nan), mask=n == 0)


class _Share(Way):
    """How many, of how many."""

    def first(self, col: Any, g: Groups) -> Columns:
        return [pa.array(s) for s in self.counted(_plain(col), g)]

    def again(self, states: Columns, g: Groups) -> Columns:
        return self.more(states, g)

    def last(self, states: Columns) -> Any:
        some, of = (s.to_numpy(zero_copy_only=False) for s in states)
        with np.errstate(invalid="ignore", divide="ignore"):
            return pa.array(100.0 * some / of, mask=of == 0)

    def counted(self, col: Any, g: Groups) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError


class _Missing(_Share):
    def counted(self, col: Any, g: Groups) -> tuple[np.ndarray, np.ndarray]:
        return g.sums(~_bits(present(col))), g.sizes


class _Zeros(_Share):
    def counted(self, col: Any, g: Groups) -> tuple[np.ndarray, np.ndarray]:
        if _T.is_null(col.type):
            zero = np.zeros(len(col), bool)
        else:
            zero = pc.fill_null(pc.equal(_doubles(col), 0.0), False).to_numpy(zero_copy_only=False)
        return g.sums(zero), g.sizes if self.strict else g.sums(_bits(present(col)))


class _List(Way):
    """Values, all or those that are not missing."""

    def first(self, col: Any, g: Groups) -> Columns:
        col = _plain(col)
        if not self.strict:
            keep = _bits(present(col))
            col, g = (col, g) if keep.all() else (col.filter(pa.array(keep)), g.where(keep))
        return [g.lists(col)]

    def again(self, states: Columns, g: Groups) -> Columns:
        col, g = _unfolded(states[0], g)
        return [g.lists(col)]

    def last(self, states: Columns) -> Any:
        return states[0]


def _unfolded(lists: Any, g: Groups) -> tuple[Any, Groups]:
    """The values in lists, and their groups."""
    return lists.flatten(), g.repeated(pc.list_value_length(lists).to_numpy(zero_copy_only=False))


def _distinct(col: Any, g: Groups, times: np.ndarray | None = None) -> tuple[Any, Groups, Any]:
    """(the distinct values of each group as rows, in order of appearance; their groups; how often each was there, or the sum of its `times`)."""
    col = _plus_zero(col)
    codes, n = _codes(col)
    pairs = Groups([pa.array(g.ids * max(n, 1) + codes)], len(col))
    how_often = pairs.sizes if times is None else pairs.sums(times)
    return col.take(pa.array(pairs.first)), Groups.of_ids(g.ids[pairs.first], g.n), pa.array(how_often)


class _Unique(Way):
    """Distinct values; lists count by what is in them, or as numbers, where that was asked for."""

    def first(self, col: Any, g: Groups) -> Columns:
        modes = ag.Unique.ListEncodingMode
        col, mode = _plain(col), getattr(self.agg, "_encode", None)
        if is_list(col.type) and mode is modes.FLATTEN:
            length = pc.list_value_length(col).to_numpy(zero_copy_only=False)
            if col.null_count and self.strict:  # a list that is null counts as a null
                parts = pc.if_else(pc.is_valid(col), col, pa.scalar([None], col.type))
                col, g = parts.flatten(), g.repeated(pc.list_value_length(parts).to_numpy(zero_copy_only=False))
            else:
                col, g = col.flatten(), g.repeated(np.nan_to_num(length).astype(np.int64))
        elif mode is modes.HASH:
            col = pa.array([None if v is None else ag.number_of(v) for v in col.to_pylist()], pa.int64())
        if not self.strict:
            keep = _bits(present(col))
            col, g = col.filter(pa.array(keep)), g.where(keep)
        values, h, _ = _distinct(col, g)
        return [h.lists(values)]

    def again(self, states: Columns, g: Groups) -> Columns:
        values, h, _ = _distinct(*_unfolded(states[0], g))
        return [h.lists(values)]

    def last(self, states: Columns) -> Any:
        return states[0]


class _CountDistinct(_Unique):
    def last(self, states: Columns) -> Any:
        return pc.list_value_length(states[0]).cast(pa.int64())


class _Counter(Way):
    def first(self, col: Any, g: Groups) -> Columns:
        values, h, n = _distinct(_plain(col), g)
        return [h.lists(values), h.lists(n)]

    def again(self, states: Columns, g: Groups) -> Columns:
        values, h = _unfolded(states[0], g)
        values, h, n = _distinct(values, h, states[1].flatten().to_numpy())
        return [h.lists(values), h.lists(n)]

    def last(self, states: Columns) -> Any:
        return pa.StructArray.from_arrays(states, names=["values", "counts"])


class _Quantile(Way):
    def of(self, col: Any, g: Groups) -> Columns:
        x = _doubles(col)
        return [g.where(_bits(x)).lists(x.drop_null())]

    def more(self, states: Columns, g: Groups) -> Columns:
        col, h = _unfolded(states[0], g)
        return [h.lists(col)]

    def result(self, states: Columns) -> Any:
        n = pc.list_value_length(states[0]).to_numpy(zero_copy_only=False)
        ids = np.repeat(np.arange(len(n)), n)
        v = states[0].flatten().to_numpy(zero_copy_only=False)
        v = v[np.lexsort((v, ids))]
        at = np.concatenate([[0], np.cumsum(n)[:-1]]).astype(np.int64)
        k = np.maximum(n - 1, 0) * self.agg._q
        low, high = np.floor(k), np.ceil(k)
        v = np.append(v, 0.0)  # what groups without values look at
        a, b = v[at + low.astype(np.int64)], v[np.minimum(at + high.astype(np.int64), len(v) - 1)]
        between = [round(x, 5) for x in (a * (high - k) + b * (k - low)).tolist()]
        return pa.array(np.where(low == high, a, between), mask=n == 0)


class _ByCalls(Way):
    """The functions of an aggregate, once a group; its states are pickled."""

    def __init__(self, a: Any):
        self.agg, self.label = a, a.name

    def of_rows(self, rb: pa.RecordBatch, g: Groups, keys: list[Any]) -> Columns:
        """From the rows themselves. keys: of each group, as its init() gets it."""
        f, out = self.agg, []
        for key, rows in zip(keys, g.slices(rb), strict=True):
            out.append(_called(f, key, lambda k=key, t=pa.Table.from_batches([rows]): f.accumulate_block(f.init(k), t)))
        return [_pickled(out)]

    def again(self, states: Columns, g: Groups) -> Columns:
        f, out, data = self.agg, [], g.arranged(states[0]).to_pylist()
        at = 0
        for n in g.sizes.tolist():
            one, *more = [pickle.loads(d) for d in data[at : at + n]]
            for other in more:
                one = f.merge(one, other)
            out.append(one)
            at += n
        return [_pickled(out)]

    def last(self, states: Columns) -> Any:
        return from_objects([self.agg.finalize(pickle.loads(d)) for d in states[0].to_pylist()], None)


def _called(f: Any, key: Any, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except BaseException as e:
        e.add_note(f"in the aggregate {f.name!r}, of the group {key!r}")
        raise


def _pickled(states: list[Any]) -> Any:
    import cloudpickle

    return from_objects([cloudpickle.dumps(s) for s in states], pa.binary())


_WAYS: dict[type, type[Way]] = {
    ag.Count: _Count,
    ag.Sum: _Sum,
    ag.Min: _Extreme,
    ag.Max: _Max,
    ag.AbsMax: _AbsMax,
    ag.Mean: _Mean,
    ag.Std: _Std,
    ag.MissingValuePercentage: _Missing,
    ag.ZeroPercentage: _Zeros,
    ag.AsList: _List,
    ag.Unique: _Unique,
    ag.CountDistinct: _CountDistinct,
    ag.ValueCounter: _Counter,
    ag.Quantile: _Quantile,
}


# ---- batches of states


class Aggregates:
    """Aggregates by a key.

    Args:
        keys: The key's columns; none: all rows are one group.
        aggs: The aggregates.
        names: Of the results, one each.
        one_key: init() of an aggregate of the user's gets the key itself, not a tuple.
        label: Of the operator, for errors.
    """

    def __init__(self, keys: Sequence[str], aggs: Sequence[Any], names: Sequence[str], one_key: bool, label: str):
        self.keys, self.names, self.one_key, self.label = list(keys), list(names), one_key, label
        self.ways = [_WAYS.get(type(a), _ByCalls)(a) for a in aggs]
        self.key_names = [f"k{i}" for i in range(len(keys))]

    def partial(self, rb: pa.RecordBatch) -> pa.RecordBatch:
        """The states of rows. MissingColumn, TypeError and ValueError name aggregate and column."""
        key = key_columns(rb, self.keys, self.label)
        g = Groups(key, rb.num_rows)
        cols = [c.take(pa.array(g.first)) for c in key]
        states = []
        for w in self.ways:
            on = w.agg.get_target_column() if isinstance(w.agg, ag.AggregateFnV2) else None
            if on is not None and on not in rb.schema.names:
                raise MissingColumn(f"{self.label}: {w.agg.name}: there is no column {on!r}; {columns_are(on, rb.schema.names)}")
            if isinstance(w, _ByCalls):
                states.append(w.of_rows(rb, g, self._plain_keys(cols, g.n)))
            else:
                states.append(self._tried(w, on, rb, lambda w=w, on=on: w.first(None if on is None else rb.column(on), g)))
        return self._batch(cols, states)

    def _plain_keys(self, cols: Columns, n: int) -> list[Any]:
        if not cols:
            return [None] * n
        values = [to_objects(k, c) for k, c in zip(self.keys, cols, strict=True)]
        return list(values[0]) if self.one_key else list(zip(*values, strict=True))

    def _tried(self, w: Way, on: str | None, rb: pa.RecordBatch, call: Callable[[], Columns]) -> Columns:
        try:
            return call()
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as e:
            t = rb.schema.field(on).type if on is not None else None
            raise TypeError(f"{self.label}: {w.agg.name} over column {on!r} of type {t} is not possible: {e}") from None

    def _batch(self, cols: Columns, states: list[Columns]) -> pa.RecordBatch:
        names = self.key_names + [f"s{i}.{j}" for i, s in enumerate(states) for j in range(len(s))]
        return pa.RecordBatch.from_arrays([*cols, *(c for s in states for c in s)], names=names)

    def _states(self, rb: pa.RecordBatch) -> list[Columns]:
        out: list[Columns] = [[] for _ in self.ways]
        for name, c in zip(rb.schema.names[len(self.keys) :], rb.columns[len(self.keys) :], strict=True):
            out[int(name[1:].partition(".")[0])].append(c)
        return out

    def combined(self, batches: list[pa.RecordBatch], in_order: bool = False) -> pa.RecordBatch:
        """Batches of states as one: a row a group, in the order in which groups come. in_order: they come in the order of the key."""
        rb = merge(batches)
        key = [rb.column(i) for i in range(len(self.keys))]
        g = Groups(key, rb.num_rows, in_order)
        if g.n == rb.num_rows:
            return rb
        return self._batch(
            [c.take(pa.array(g.first)) for c in key], [w.again(s, g) for w, s in zip(self.ways, self._states(rb), strict=True)]
        )

    def results(self, rb: pa.RecordBatch) -> pa.RecordBatch:
        """The results of states: the key's columns, then one an aggregate."""
        made = []
        for w, s in zip(self.ways, self._states(rb), strict=True):
            try:
                made.append(w.last(s))
            except BaseException as e:
                if isinstance(e, OverflowError) and not isinstance(w, _ByCalls):
                    raise OverflowError(f"{self.label}: {w.agg.name}: {e}") from None
                e.add_note(f"in {self.label}: the aggregate {w.agg.name!r}")
                raise
        return pa.RecordBatch.from_arrays([*rb.columns[: len(self.keys)], *made], names=[*self.keys, *self.names])
