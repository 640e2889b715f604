"""Aggregates that users name and write: Count, Sum, ..., AggregateFn and AggregateFnV2, over all
rows (ds.aggregate) or by group (ds.groupby(...).aggregate).

Over all rows each task makes one state of its blocks (aggregate_block), the driver combines states
in the order of the data and finalizes: the same blocks give the
same result on every run. By group: in_kernel.py, and by_group.py where one is the user's. What is
missing, null and NaN, is skipped with ignore_nulls, else one makes the result null.
"""

from __future__ import annotations

import abc
import enum
import math
import pickle
import re
from collections.abc import Callable, Sequence
from typing import Any

from skate._deps import hashlib, pa, pc
from skate.data import combine, datatype
from skate.data.values import row_dicts
from skate.data.values.unify import check_names, columns_are


def _null(v: Any) -> bool:
    return v is None or isinstance(v, float) and math.isnan(v)


class AggregateFn:
    """An aggregate from four functions.

    Args:
        init: Gives the first state (called with None: there is no key).
        merge: Two states in one.
        name: Of the result.
        accumulate_row: (state, row as dict) to state; or
        accumulate_block: (state, pyarrow Table) to state. ValueError unless exactly one of the two
            is given.
        finalize: The result of the last state.

    Example:
        >>> import skate
        >>> from skate.data.aggregate import AggregateFn
        >>> skate.data.range(5).aggregate(
        ...     AggregateFn(
        ...         init=lambda k: 0,
        ...         accumulate_row=lambda a, r: a + r["id"],
        ...         merge=lambda a, b: a + b,
        ...         name="s",
        ...     )
        ... )
        {'s': 10}
    """

    def __init__(
        self,
        init: Callable[[Any], Any],
        merge: Callable[[Any, Any], Any],
        name: str,
        accumulate_row: Callable[[Any, dict[str, Any]], Any] | None = None,
        accumulate_block: Callable[[Any, Any], Any] | None = None,
        finalize: Callable[[Any], Any] | None = None,
    ):
        if (accumulate_row is None) == (accumulate_block is None):
            raise ValueError("AggregateFn: give accumulate_row or accumulate_block, not both")
        if not isinstance(name, str):
            raise TypeError("AggregateFn: name is text: the column of the result is called so")
        self.name, self.init, self.merge = name, init, merge
        self.accumulate_block = (
            accumulate_block if accumulate_block is not None else _ByRow(accumulate_row)
        )
        self.finalize = finalize if finalize is not None else _same

    def columns(self) -> set[str] | None:
        """The columns that it reads; None: it may read all."""
        return None


def check_column(a: AggregateFn) -> None:
    """ValueError for an aggregate of this module whose column is not given, or is no name."""
    if type(a).__module__ != __name__ or not isinstance(a, AggregateFnV2):
        return
    on = a.get_target_column()
    if not isinstance(on, str) and not (on is None and isinstance(a, Count)):
        raise ValueError(f"{type(a).__name__}: on={on!r}: give the name of a column")


def names_of(keys: Sequence[str], aggs: Sequence[AggregateFn]) -> list[str]:
    """What the results of aggregates are called: as they are; a name that was there before with _2,
    _3, ... (as in Ray). ValueError where one is that of a key, or is there twice still."""
    seen: dict[str, int] = {}
    out: list[str] = []
    for a in aggs:
        n = seen[a.name] = seen.get(a.name, 0) + 1
        out.append(a.name if n == 1 else f"{a.name}_{n}")
    check_names([*keys, *out], "aggregate")
    return out


def _same(v: Any) -> Any:
    return v


class _ByRow:
    def __init__(self, fn: Any):
        self.fn = fn

    def __call__(self, state: Any, table: Any) -> Any:
        for rb in table.to_batches():
            for row in row_dicts.to_rows(rb):
                state = self.fn(state, row)
        return state


class AggregateFnV2(AggregateFn, abc.ABC):
    """An aggregate as a class: define aggregate_block() and combine(), and finalize() where the
    state is not the result.

    Args:
        name: Of the result; ValueError for an empty one.
        zero_factory: Gives the state of no rows.
        on: The column, or None.
        ignore_nulls: Nulls are skipped; else one makes the result null.
    """

    def __init__(
        self, name: str, zero_factory: Callable[[], Any], *, on: str | None, ignore_nulls: bool
    ):
        if not name:
            raise ValueError(
                f"{type(self).__name__}: name={name!r}: text that is not empty; the column of the result is called so"
            )
        self.name, self._zero, self._target_col_name, self._ignore_nulls = (
            name,
            zero_factory,
            on,
            ignore_nulls,
        )
        m = re.match(r"^([^(]+)(?:\(.*\))?$", name)
        self._agg_name = m[1] if m else name

    def get_target_column(self) -> str | None:
        """The column."""
        return self._target_col_name

    def get_agg_name(self) -> str:
        """The name without its column."""
        return self._agg_name

    @abc.abstractmethod
    def aggregate_block(self, block: Any) -> Any:
        """The state of a pyarrow Table.

        Args:
            block: The pyarrow Table.
        """

    @abc.abstractmethod
    def combine(self, current_accumulator: Any, new: Any) -> Any:
        """Two states in one.

        Args:
            current_accumulator: The state so far.
            new: The state of the next block.
        """

    def finalize(self, accumulator: Any) -> Any:
        """The result of the last state.

        Args:
            accumulator: The last state.
        """
        return accumulator

    def columns(self) -> set[str] | None:
        return None if self._target_col_name is None else {self._target_col_name}

    def init(self, key: Any) -> Any:
        """The first state.

        Args:
            key: None: there are no groups.
        """
        return None if self._ignore_nulls else self._zero()

    def accumulate_block(self, state: Any, block: Any) -> Any:
        """The state with that of one more block.

        Args:
            state: The state so far.
            block: The pyarrow Table.
        """
        on = self._target_col_name
        if on is not None and on not in block.column_names:
            raise KeyError(
                f"{self.name}: there is no column {on!r}; {columns_are(on, block.column_names)}"
            )
        return self.merge(state, self.aggregate_block(block))

    def merge(self, a: Any, b: Any) -> Any:
        """Two states in one, with regard to nulls.

        Args:
            a: The state so far.
            b: The other state.
        """
        if _null(b):
            return a if self._ignore_nulls else b
        if _null(a):
            return b if self._ignore_nulls else a
        return self.combine(a, b)

    def _col(self, block: Any) -> Any:
        """The column, in one piece, without a coding."""
        c = block.column(self._target_col_name)
        c = c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c
        return combine.computable(c)

    def _values(self, block: Any) -> Any:
        """The column, with null for NaN."""
        return combine.present(self._col(block))


def _number_of(col: Any, ignore_nulls: bool) -> int:
    return len(col) - (col.null_count if ignore_nulls else 0)


class Count(AggregateFnV2):
    """Number of rows, or of the values of a column (without its nulls with ignore_nulls)."""

    def __init__(
        self, on: str | None = None, ignore_nulls: bool = False, alias_name: str | None = None
    ):
        super().__init__(
            alias_name or f"count({on or ''})", lambda: 0, on=on, ignore_nulls=ignore_nulls
        )

    def aggregate_block(self, block: Any) -> int:
        return (
            block.num_rows
            if self._target_col_name is None
            else _number_of(self._values(block), self._ignore_nulls)
        )

    def combine(self, current_accumulator: int, new: int) -> int:
        return current_accumulator + new


class AsList(AggregateFnV2):
    """All values, in order."""

    def __init__(self, on: str, alias_name: str | None = None, ignore_nulls: bool = False):
        super().__init__(alias_name or f"list({on or ''})", list, on=on, ignore_nulls=ignore_nulls)

    def aggregate_block(self, block: Any) -> list[Any]:
        return (
            self._values(block).drop_null() if self._ignore_nulls else self._col(block)
        ).to_pylist()

    def combine(self, current_accumulator: list[Any], new: list[Any]) -> list[Any]:
        return current_accumulator + new


class Sum(AggregateFnV2):
    """Sum; ints are exact."""

    def __init__(
        self, on: str | None = None, ignore_nulls: bool = True, alias_name: str | None = None
    ):
        super().__init__(alias_name or f"sum({on})", lambda: 0, on=on, ignore_nulls=ignore_nulls)

    def aggregate_block(self, block: Any) -> Any:
        return _sum(self._values(block), self._ignore_nulls)

    def combine(self, current_accumulator: Any, new: Any) -> Any:
        return current_accumulator + new


def _sum(col: Any, ignore_nulls: bool) -> Any:
    if col.null_count and not ignore_nulls or col.null_count == len(col):
        return None
    return combine._sum(col)


class _Extreme(AggregateFnV2):
    kind = "min"

    def __init__(
        self,
        on: str | None = None,
        ignore_nulls: bool = True,
        alias_name: str | None = None,
        zero_factory: Callable[[], Any] | None = None,
    ):
        zero = math.inf if self.kind == "min" else -math.inf
        super().__init__(
            alias_name or f"{self.kind}({on})",
            zero_factory or (lambda: zero),
            on=on,
            ignore_nulls=ignore_nulls,
        )

    def aggregate_block(self, block: Any) -> Any:
        col = self._values(block)
        if col.null_count and not self._ignore_nulls:
            return None
        return combine.ends(col)[self.kind]

    def combine(self, current_accumulator: Any, new: Any) -> Any:
        return (
            min(current_accumulator, new) if self.kind == "min" else max(current_accumulator, new)
        )


class Min(_Extreme):
    """Smallest value."""


class Max(_Extreme):
    """Largest value."""

    kind = "max"


class AbsMax(AggregateFnV2):
    """Largest value without its sign; ValueError without a column."""

    def __init__(
        self,
        on: str | None = None,
        ignore_nulls: bool = True,
        alias_name: str | None = None,
        zero_factory: Callable[[], Any] = lambda: 0,
    ):
        if not isinstance(on, str):
            raise ValueError(f"AbsMax: on={on!r}: the name of a column")
        super().__init__(
            alias_name or f"abs_max({on})", zero_factory, on=on, ignore_nulls=ignore_nulls
        )

    def aggregate_block(self, block: Any) -> Any:
        col = self._values(block)
        if col.null_count and not self._ignore_nulls:
            return None
        ends = combine.ends(col)
        return None if ends["max"] is None else max(abs(ends["max"]), abs(ends["min"]))

    def combine(self, current_accumulator: Any, new: Any) -> Any:
        return max(current_accumulator, new)


class Mean(AggregateFnV2):
    """Mean."""

    def __init__(
        self, on: str | None = None, ignore_nulls: bool = True, alias_name: str | None = None
    ):
        super().__init__(
            alias_name or f"mean({on})", lambda: [0, 0], on=on, ignore_nulls=ignore_nulls
        )

    def aggregate_block(self, block: Any) -> Any:
        col = self._values(block)
        total = _sum(col, self._ignore_nulls)
        return None if total is None else [total, _number_of(col, True)]

    def combine(self, current_accumulator: list[Any], new: list[Any]) -> list[Any]:
        return [current_accumulator[0] + new[0], current_accumulator[1] + new[1]]

    def finalize(self, accumulator: Any) -> Any:
        return (
            None
            if accumulator is None
            else accumulator[0] / accumulator[1]
            if accumulator[1]
            else math.nan
        )


class Std(AggregateFnV2):
    """Standard deviation, with n - ddof below the line; block by block by Chan's formula."""

    def __init__(
        self,
        on: str | None = None,
        ddof: int = 1,
        ignore_nulls: bool = True,
        alias_name: str | None = None,
    ):
        super().__init__(alias_name or f"std({on})", lambda: None, on=on, ignore_nulls=ignore_nulls)
        self._ddof = ddof

    def init(self, key: Any) -> Any:
        return []

    def merge(self, a: Any, b: Any) -> Any:
        if a == [] or b == []:
            return b if a == [] else a
        return super().merge(a, b)

    def aggregate_block(self, block: Any) -> Any:
        col = self._values(block)
        if len(col) == col.null_count:
            return [] if self._ignore_nulls or not len(col) else None
        if col.null_count and not self._ignore_nulls:
            return None
        x = col.drop_null().cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        mean = float(x.mean())
        return [float(((x - mean) ** 2).sum()), mean, len(x)]

    def combine(self, current_accumulator: Any, new: Any) -> Any:
        (s, m, n), (t, k, o) = current_accumulator, new
        d = k - m
        return [s + t + d * d * n * o / (n + o), m + d * o / (n + o), n + o]

    def finalize(self, accumulator: Any) -> Any:
        if not accumulator:
            return None
        s, _, n = accumulator
        return math.sqrt(s / (n - self._ddof)) if n > self._ddof else math.nan


class Quantile(AggregateFnV2):
    """The q-th quantile, exact, between neighbours linearly (rounded to 5 digits). All values go
    through the driver."""

    def __init__(
        self,
        on: str | None = None,
        q: float = 0.5,
        ignore_nulls: bool = True,
        alias_name: str | None = None,
    ):
        super().__init__(alias_name or f"quantile({on})", list, on=on, ignore_nulls=ignore_nulls)
        self._q = q

    def aggregate_block(self, block: Any) -> list[Any]:
        return self._values(block).to_pylist()

    def combine(self, current_accumulator: list[Any], new: list[Any]) -> list[Any]:
        return current_accumulator + new

    def finalize(self, accumulator: Any) -> Any:
        values = sorted(v for v in accumulator or () if not _null(v))
        if not values or not self._ignore_nulls and len(values) < len(accumulator):
            return None
        k = (len(values) - 1) * self._q
        low, high = math.floor(k), math.ceil(k)
        return (
            values[low]
            if low == high
            else round(values[low] * (high - k) + values[high] * (k - low), 5)
        )


def number_of(v: Any) -> int:
    """64 bits that follow from a value, in every process the same."""
    return int.from_bytes(
        hashlib.blake2b(repr(v).encode(), digest_size=8).digest(), "little", signed=True
    )


class Unique(AggregateFnV2):
    """The distinct values, in order of appearance.

    Args:
        encode_lists: True or "FLATTEN": the values inside of lists; "HASH": a number for each list.
    """

    class ListEncodingMode(enum.StrEnum):
        """What a list counts as."""

        FLATTEN = "FLATTEN"
        HASH = "HASH"

    def __init__(
        self,
        on: str | None = None,
        ignore_nulls: bool = False,
        alias_name: str | None = None,
        encode_lists: Any = None,
    ):
        super().__init__(alias_name or f"unique({on})", dict, on=on, ignore_nulls=ignore_nulls)
        mode = Unique.ListEncodingMode
        self._encode = (
            encode_lists
            if isinstance(encode_lists, mode)
            else mode.FLATTEN
            if encode_lists is True
            else None
        )

    def aggregate_block(self, block: Any) -> dict[Any, Any]:
        col = self._col(block)
        values = None
        if datatype.is_list(col.type) and self._encode is Unique.ListEncodingMode.FLATTEN:
            if self._ignore_nulls or not col.null_count:
                col = col.flatten()
            else:
                values = [v for x in col.to_pylist() for v in (x if x is not None else [None])]
        if values is None:
            values = combine.distinct(col)
        if self._encode is Unique.ListEncodingMode.HASH:
            values = [None if v is None else number_of(v) for v in values]
        values = [
            math.nan if _null(v) and v is not None else v
            for v in values
            if not (self._ignore_nulls and _null(v))
        ]
        return {combine.hashable(v): v for v in values}

    def combine(self, current_accumulator: dict[Any, Any], new: dict[Any, Any]) -> dict[Any, Any]:
        return {
            **current_accumulator,
            **{k: v for k, v in new.items() if k not in current_accumulator},
        }

    def finalize(self, accumulator: Any) -> Any:
        return list((accumulator or {}).values())


class CountDistinct(Unique):
    """Number of distinct values."""

    def __init__(self, on: str, ignore_nulls: bool = True, alias_name: str | None = None):
        super().__init__(on, ignore_nulls, alias_name or f"count_distinct({on})")

    def finalize(self, accumulator: Any) -> int:
        return len(accumulator or ())


class ValueCounter(AggregateFnV2):
    """{"values": distinct values, "counts": how often each}."""

    def __init__(self, on: str, alias_name: str | None = None):
        super().__init__(
            alias_name or f"value_counter({on})",
            lambda: {"values": [], "counts": []},
            on=on,
            ignore_nulls=True,
        )

    def aggregate_block(self, block: Any) -> dict[str, list[Any]]:
        counts = self._col(block).value_counts()
        return self.combine(
            {"values": [], "counts": []},
            {"values": counts.field(0).to_pylist(), "counts": counts.field(1).to_pylist()},
        )

    def combine(
        self, current_accumulator: dict[str, list[Any]], new: dict[str, list[Any]]
    ) -> dict[str, list[Any]]:
        both: dict[Any, list[Any]] = {}
        for part in (current_accumulator, new):
            for v, n in zip(part["values"], part["counts"], strict=True):
                # all NaN are one value, whatever their bits
                both.setdefault(combine.hashable(v), [v, 0])[1] += n
        return {"values": [v for v, _ in both.values()], "counts": [n for _, n in both.values()]}


class _Percentage(AggregateFnV2):
    def combine(self, current_accumulator: list[int], new: list[int]) -> list[int]:
        return [current_accumulator[0] + new[0], current_accumulator[1] + new[1]]

    def finalize(self, accumulator: Any) -> Any:
        return 100.0 * accumulator[0] / accumulator[1] if accumulator and accumulator[1] else None


class MissingValuePercentage(_Percentage):
    """How many of 100 values are null or NaN."""

    def __init__(self, on: str, alias_name: str | None = None):
        super().__init__(
            alias_name or f"missing_pct({on})", lambda: [0, 0], on=on, ignore_nulls=False
        )

    def aggregate_block(self, block: Any) -> list[int]:
        col = self._col(block)
        return [pc.sum(pc.is_null(col, nan_is_null=True)).as_py() or 0, len(col)]


class ZeroPercentage(_Percentage):
    """How many of 100 values are zero."""

    def __init__(self, on: str, ignore_nulls: bool = True, alias_name: str | None = None):
        super().__init__(
            alias_name or f"zero_pct({on})", lambda: [0, 0], on=on, ignore_nulls=ignore_nulls
        )

    def aggregate_block(self, block: Any) -> list[int]:
        col = self._values(block)
        return [
            pc.sum(
                pc.equal(col, pa.scalar(0).cast(col.type) if pa.types.is_boolean(col.type) else 0)
            ).as_py()
            or 0,
            _number_of(col, self._ignore_nulls),
        ]


class ApproximateQuantile(AggregateFnV2):
    """Quantiles of numbers from a sketch of bounded size (KLL): rank errors of about 1.7 /
    quantile_precision. It needs no package.

    Args:
        quantiles: Each from 0 to 1.
        quantile_precision: Values kept a level.
    """

    def __init__(
        self,
        on: str,
        quantiles: list[float],
        quantile_precision: int = 800,
        alias_name: str | None = None,
    ):
        super().__init__(alias_name or f"approx_quantile({on})", list, on=on, ignore_nulls=True)
        self._quantiles, self._k = list(quantiles), quantile_precision

    def aggregate_block(self, block: Any) -> Any:
        col = self._values(block).drop_null().cast(pa.float64(), safe=False)
        return self._compact([sorted(col.to_pylist())]) if len(col) else None

    def combine(
        self, current_accumulator: list[list[float]], new: list[list[float]]
    ) -> list[list[float]]:
        a, b = current_accumulator, new
        n = max(len(a), len(b))
        return self._compact(
            [sorted((a[i] if i < len(a) else []) + (b[i] if i < len(b) else [])) for i in range(n)]
        )

    def _compact(self, levels: list[list[float]]) -> list[list[float]]:
        """Every second value of a full level goes one up, where it counts twice."""
        i = 0
        while i < len(levels):
            if len(levels[i]) > 2 * self._k:
                keep = [levels[i].pop()] if len(levels[i]) % 2 else []
                up = levels[i][len(levels[i]) // 2 % 2 :: 2]
                levels[i] = keep
                if i + 1 == len(levels):
                    levels.append([])
                levels[i + 1] = sorted(levels[i + 1] + up)
            i += 1
        return levels

    def finalize(self, accumulator: Any) -> Any:
        if not accumulator:
            return None
        weighted = sorted((v, 1 << i) for i, level in enumerate(accumulator) for v in level)
        total = sum(w for _, w in weighted)
        out = []
        for q in self._quantiles:
            left = q * total
            for v, w in weighted:
                left -= w
                if (
                    left < 0
                    # the value above which the share 1 - q lies: of an even number the upper
                    # median, as the sketches in Ray say it
                ):
                    break
            out.append(v)
        return out


class ApproximateTopK(AggregateFnV2):
    """The k most frequent values with their counts, from at most 2**log_capacity counters a task
    (Misra and Gries); exact below that many distinct values."""

    def __init__(
        self,
        on: str,
        k: int,
        log_capacity: int = 15,
        alias_name: str | None = None,
        encode_lists: bool = False,
    ):
        super().__init__(alias_name or f"approx_topk({on})", dict, on=on, ignore_nulls=True)
        self.k, self._capacity, self._encode_lists = k, 1 << log_capacity, encode_lists

    def aggregate_block(self, block: Any) -> dict[bytes, int]:
        col = self._values(block)
        if self._encode_lists and datatype.is_list(col.type):
            col = col.flatten()
        counts: dict[bytes, int] = {}
        for v in col.drop_null().to_pylist():
            key = pickle.dumps(v)
            counts[key] = counts.get(key, 0) + 1
        return self._prune(counts)

    def combine(
        self, current_accumulator: dict[bytes, int], new: dict[bytes, int]
    ) -> dict[bytes, int]:
        both = dict(current_accumulator)
        for v, n in new.items():
            both[v] = both.get(v, 0) + n
        return self._prune(both)

    def _prune(self, counts: dict[bytes, int]) -> dict[bytes, int]:
        if len(counts) <= self._capacity:
            return counts
        cut = sorted(counts.values(), reverse=True)[self._capacity]
        return {v: n - cut for v, n in counts.items() if n > cut}

    def finalize(self, accumulator: Any) -> Any:
        top = sorted((accumulator or {}).items(), key=lambda e: -e[1])[: self.k]
        return [{self._target_col_name: pickle.loads(v), "count": n} for v, n in top]
