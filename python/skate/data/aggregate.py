"""Aggregates that users call by name or write themselves: Count, Sum, ..., AggregateFn and
AggregateFnV2, over all rows (ds.aggregate) or by group (ds.groupby(...).aggregate).

The built-in aggregates are rows of a table in the kernel (src/kernel/aggregates.h), which computes
them (kernel_aggregates.py); the classes here have their parameters. Aggregates that a user writes,
also subclasses of built-in ones that override methods, run in Python: user_aggregates.py calls
them. With ignore_nulls, missing values (null and NaN) are skipped; without it, a missing value
makes the result null.
"""

from __future__ import annotations

import abc
import enum
import functools
import math
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from skate._deps import pa
from skate.data.by_key import kernel_aggregates
from skate.data.values import from_arrow, row_dicts
from skate.data.values.unify import check_names, columns_are

__all__ = [
    "AbsMax",
    "AggregateFn",
    "AggregateFnV2",
    "ApproximateQuantile",
    "ApproximateTopK",
    "AsList",
    "Count",
    "CountDistinct",
    "First",
    "Max",
    "Mean",
    "Min",
    "MissingValuePercentage",
    "Quantile",
    "Std",
    "Sum",
    "Unique",
    "ValueCounter",
    "Variance",
    "ZeroPercentage",
]


def _null(v: Any) -> bool:
    return v is None or isinstance(v, float) and math.isnan(v)


class AggregateFn:
    """An aggregate from four functions.

    Args:
        init: Returns the first state; it is called with None if there is no key.
        merge: Merges two states into one.
        name: Name of the result.
        accumulate_row: A function (state, row as dict) -> state; or
        accumulate_block: a function (state, pyarrow Table) -> state. ValueError unless exactly one
            of the two is given.
        finalize: Computes the result from the last state.

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
        """The columns that the aggregate reads; None: it may read all."""
        return None


def check_column(a: AggregateFn) -> None:
    """Raises ValueError for a built-in aggregate whose column is not given, or is no name."""
    if not isinstance(a, Builtin) or not a.in_kernel():
        return
    on = a.get_target_column()
    if not isinstance(on, str) and not (on is None and isinstance(a, Count)):
        raise ValueError(f"{type(a).__name__}: on={on!r}: give the name of a column")


def names_of(keys: Sequence[str], aggs: Sequence[AggregateFn]) -> list[str]:
    """The names of the results: the aggregates' own names; a repeated name gets the suffix _2, _3,
    ... (as in Ray). ValueError if a name is the name of a key, or is still repeated."""
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
    """An aggregate as a class: define aggregate_block() and combine(), and finalize() if the state
    is not the result.

    Args:
        name: Name of the result; ValueError for an empty one.
        zero_factory: Returns the state of no rows.
        on: Name of the column, or None.
        ignore_nulls: True: nulls are skipped; False: a null makes the result null.
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
        """The name of the column that is aggregated."""
        return self._target_col_name

    def get_agg_name(self) -> str:
        """The name of the result without the column."""
        return self._agg_name

    @abc.abstractmethod
    def aggregate_block(self, block: Any) -> Any:
        """Computes the state of the rows of a block.

        Args:
            block: The pyarrow Table.
        """

    @abc.abstractmethod
    def combine(self, current_accumulator: Any, new: Any) -> Any:
        """Merges two states into one.

        Args:
            current_accumulator: The state so far.
            new: The state of the next block.
        """

    def finalize(self, accumulator: Any) -> Any:
        """Computes the result from the last state.

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
        """Merges the state of one more block into a state.

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
        """Merges two states into one, and handles nulls.

        Args:
            a: The state so far.
            b: The other state.
        """
        if _null(b):
            return a if self._ignore_nulls else b
        if _null(a):
            return b if self._ignore_nulls else a
        return self.combine(a, b)


class State:
    """The state of a built-in aggregate as its methods take and return it: rows in the kernel's
    form of states.

    Args:
        batches: Batches of these rows; empty for the state of no rows.
    """

    def __init__(self, batches: Sequence[Any] = ()):
        self.batches = list(batches)


class Builtin(AggregateFnV2):
    """An aggregate that the kernel computes.

    A subclass may override methods and call the originals, whose states are State objects. If its
    aggregate_block() returns results of blocks instead of states, these results are combined by the
    rule of this aggregate if it has one (Count, Sum, Min, Max, AbsMax, AsList); else combine() and
    finalize() must be overridden, too.

    Args:
        on: Name of the column.
        ignore_nulls: Whether nulls are skipped.
        name: Name of the result; None: made of the kind and the column.
        zero_factory: Returns the state of no rows; None: the kernel's state.
    """

    kind: ClassVar[str]  # name in the kernel's table
    together: ClassVar[Callable[[Any, Any], Any] | None] = None  # combines two results into one

    def __init__(
        self,
        on: str | None,
        ignore_nulls: bool,
        name: str | None = None,
        zero_factory: Callable[[], Any] | None = None,
    ):
        super().__init__(
            name or f"{self.kind}({on})",
            zero_factory or State,
            on=on,
            ignore_nulls=ignore_nulls,
        )

    def options(self) -> dict[str, Any]:
        """Parameters for the kernel: ddof, q, k, quantiles, lists ("FLATTEN", "HASH")."""
        return {}

    def value(self, column: Any) -> Any:
        """The result as a Python value.

        Args:
            column: The Arrow column of the result, with one row.
        """
        return column[0].as_py()

    def in_kernel(self) -> bool:
        """Whether the kernel computes this aggregate: the user has overridden none of its methods."""
        return self._zero is State and _built_in(type(self))

    def init(self, key: Any) -> Any:
        return State() if self._zero is State or self._ignore_nulls else self._zero()

    def aggregate_block(self, block: Any) -> Any:
        states = self._states()
        states.add_rows(block.to_batches())
        return State() if states.states is None else State([states.batch()])

    def combine(self, current_accumulator: Any, new: Any) -> Any:
        both = (current_accumulator, new)
        if all(isinstance(s, State) for s in both):
            return State(self._merged([*current_accumulator.batches, *new.batches]))
        a, b = (Builtin.finalize(self, s) for s in both)
        together = type(self).together
        if together is None:
            raise TypeError(
                f"{self.name}: states of {type(self).__name__} are not those of {self.kind}: override combine() and finalize(), too"
            )
        return a if b is None else b if a is None else together(a, b)

    def finalize(self, accumulator: Any) -> Any:
        if not isinstance(accumulator, State):
            return accumulator
        states = self._states()
        for batch in accumulator.batches:
            states.add(batch)
        values = states.values()
        return None if values is None else values[0]

    def _states(self) -> kernel_aggregates.States:
        return kernel_aggregates.States(
            kernel_aggregates.Kernel([], [self], [self.name], self.name, wide=True)
        )

    def _merged(self, batches: list[Any]) -> list[Any]:
        if len(batches) < 2:
            return batches
        states = self._states()
        for batch in batches:
            states.add(batch)
        return [states.batch()]


_METHODS = ("init", "accumulate_block", "aggregate_block", "combine", "merge", "finalize")


@functools.cache
def _built_in(kind: type) -> bool:
    """Whether a subclass of Builtin overrides none of the methods that compute its values."""
    return all(getattr(kind, m) is getattr(Builtin, m) for m in _METHODS)


def takes(fns: Sequence[Any], names: Sequence[str]) -> bool:
    """Whether the kernel computes all of these aggregates."""
    return all(isinstance(f, Builtin) and f.in_kernel() for f in fns) and all(
        "\0" not in n and len(n.encode()) <= kernel_aggregates.LONGEST
        for n in [*names, *(f.get_target_column() or "" for f in fns)]
    )


class Count(Builtin):
    """Number of rows, or of the values of a column (with ignore_nulls, without its nulls)."""

    kind, together = "count", operator.add

    def __init__(
        self, on: str | None = None, ignore_nulls: bool = False, alias_name: str | None = None
    ):
        super().__init__(on, ignore_nulls, alias_name or f"count({on or ''})")


class AsList(Builtin):
    """All values, as a list in their order."""

    kind, together = "list", operator.add

    def __init__(self, on: str, alias_name: str | None = None, ignore_nulls: bool = False):
        super().__init__(on, ignore_nulls, alias_name or f"list({on or ''})")


class _Numeric(Builtin):
    def __init__(
        self, on: str | None = None, ignore_nulls: bool = True, alias_name: str | None = None
    ):
        super().__init__(on, ignore_nulls, alias_name)


class First(_Numeric):
    """The first value, of any type; without ignore_nulls the result may be null or NaN."""

    kind = "first"


class Sum(_Numeric):
    """Sum; the sum of ints is exact."""

    kind, together = "sum", operator.add


class Mean(_Numeric):
    """Mean."""

    kind = "mean"


class _Extreme(Builtin):
    def __init__(
        self,
        on: str | None = None,
        ignore_nulls: bool = True,
        alias_name: str | None = None,
        zero_factory: Callable[[], Any] | None = None,
    ):
        super().__init__(on, ignore_nulls, alias_name, zero_factory)


class Min(_Extreme):
    """Smallest value."""

    kind, together = "min", min


class Max(_Extreme):
    """Largest value."""

    kind, together = "max", max


class AbsMax(_Extreme):
    """Largest absolute value; ValueError without a column."""

    kind, together = "abs_max", max

    def __init__(
        self,
        on: str | None = None,
        ignore_nulls: bool = True,
        alias_name: str | None = None,
        zero_factory: Callable[[], Any] | None = None,
    ):
        if not isinstance(on, str):
            raise ValueError(f"AbsMax: on={on!r}: the name of a column")
        super().__init__(on, ignore_nulls, alias_name, zero_factory)


class Std(Builtin):
    """Standard deviation, with n - ddof as the divisor."""

    kind = "std"

    def __init__(
        self,
        on: str | None = None,
        ddof: int = 1,
        ignore_nulls: bool = True,
        alias_name: str | None = None,
    ):
        super().__init__(on, ignore_nulls, alias_name)
        self._ddof = ddof

    def options(self) -> dict[str, Any]:
        return {"ddof": self._ddof}


class Variance(Std):
    """Variance, with n - ddof as the divisor: the square of Std."""

    kind = "var"


class Quantile(Builtin):
    """The exact q-th quantile, interpolated linearly between neighbours."""

    kind = "quantile"

    def __init__(
        self,
        on: str | None = None,
        q: float = 0.5,
        ignore_nulls: bool = True,
        alias_name: str | None = None,
    ):
        super().__init__(on, ignore_nulls, alias_name)
        self._q = q

    def options(self) -> dict[str, Any]:
        return {"q": self._q}


class Unique(Builtin):
    """The distinct values, in order of appearance.

    Args:
        encode_lists: True or "FLATTEN": the distinct elements of the lists; "HASH": a hash number
            for each list.
    """

    kind = "unique"

    class ListEncodingMode(enum.StrEnum):
        """How Unique treats a list: as its elements, or as one value (a hash)."""

        FLATTEN = "FLATTEN"
        HASH = "HASH"

    def __init__(
        self,
        on: str | None = None,
        ignore_nulls: bool = False,
        alias_name: str | None = None,
        encode_lists: Any = None,
    ):
        super().__init__(on, ignore_nulls, alias_name)
        mode = Unique.ListEncodingMode
        self._encode = (
            encode_lists
            if isinstance(encode_lists, mode)
            else mode.FLATTEN
            if encode_lists is True
            else None
        )

    def options(self) -> dict[str, Any]:
        return {"lists": self._encode}

    def value(self, column: Any) -> Any:
        values = column.flatten()
        nested = isinstance(values.type, pa.BaseExtensionType) or pa.types.is_nested(values.type)
        return list(from_arrow.to_objects("", values)) if nested else values.to_pylist()


class CountDistinct(Builtin):
    """Number of distinct values."""

    kind = "count_distinct"

    def __init__(self, on: str, ignore_nulls: bool = True, alias_name: str | None = None):
        super().__init__(on, ignore_nulls, alias_name)


class ValueCounter(Builtin):
    """A dict {"values": distinct values, "counts": the count of each}."""

    kind = "value_counter"

    def __init__(self, on: str, alias_name: str | None = None):
        super().__init__(on, False, alias_name)


class MissingValuePercentage(Builtin):
    """Percentage of values that are null or NaN."""

    kind = "missing_pct"

    def __init__(self, on: str, alias_name: str | None = None):
        super().__init__(on, False, alias_name)


class ZeroPercentage(Builtin):
    """Percentage of values that are zero."""

    kind = "zero_pct"

    def __init__(self, on: str, ignore_nulls: bool = True, alias_name: str | None = None):
        super().__init__(on, ignore_nulls, alias_name)


class ApproximateQuantile(Builtin):
    """Quantiles of numbers from a sketch of bounded size, each with a relative error of at most
    2^-13. Over all rows they are exact if there are at most 8,192 distinct values. The result
    depends only on the values. No package is needed.

    Args:
        quantiles: Each from 0 to 1.
        quantile_precision: A parameter of Ray's sketch; it has no effect here.
    """

    kind = "approx_quantile"

    def __init__(
        self,
        on: str,
        quantiles: list[float],
        quantile_precision: int = 800,
        alias_name: str | None = None,
    ):
        super().__init__(on, True, alias_name)
        self._quantiles = list(quantiles)

    def options(self) -> dict[str, Any]:
        return {"quantiles": self._quantiles}


class ApproximateTopK(Builtin):
    """The k most frequent values with their counts. The result is exact in skate; of equally
    frequent values, those that came first are chosen.

    Args:
        k: Number of values.
        log_capacity: A parameter of Ray's sketch; it has no effect here.
        encode_lists: Whether the elements of lists are counted, not the lists.
    """

    kind = "approx_topk"

    def __init__(
        self,
        on: str,
        k: int,
        log_capacity: int = 15,
        alias_name: str | None = None,
        encode_lists: bool = False,
    ):
        super().__init__(on, True, alias_name)
        self.k, self._encode_lists = k, encode_lists

    def options(self) -> dict[str, Any]:
        return {"k": self.k, "lists": "FLATTEN" if self._encode_lists else None}
