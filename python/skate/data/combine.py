"""Sum, min, mean and their like without an exchange: each task makes one small row of partial
states, the driver combines them in order.

Sums of ints are exact at any size (Python ints once 64 bits do not hold them). Floats are summed
block by block in input order, so the same blocks give the same bits on every run. A state travels
as pickled plain values, between own processes only. NaN is missing, as null is (Ray's rule).
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator
from typing import Any

from skate import _skate
from skate._deps import cloudpickle, pa, pa_kernels, pc
from skate.data.values import flat, from_arrow, to_arrow, unify
from skate.data.values import types as value_types
from skate.data.values.unify import columns_are


def partial(params: dict[str, Any], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In the worker: one row {"state": pickled list of states}, in the order of params["aggs"] =
    [(kind, column or None, ignore_nulls, ddof)]."""
    aggs: list[tuple[str, str | None, bool, int]] = params["aggs"]
    states: list[Any] = [None] * len(aggs)
    for rb in batches:
        for i, (kind, on, *_) in enumerate(aggs):
            if on is not None and on not in rb.schema.names:
                raise KeyError(
                    f"{params['label']}: there is no column {on!r}; {columns_are(on, rb.schema.names)}"
                )
            try:
                states[i] = merge(kind, states[i], _state(kind, rb, on))
            except (pa.ArrowNotImplementedError, pa.ArrowInvalid, TypeError) as e:
                raise TypeError(
                    f"{params['label']}: {kind} of column {on!r} of type {rb.schema.field(on).type if on else '?'} is not possible: {e}"
                ) from None
    yield pa.RecordBatch.from_arrays(
        [to_arrow.one_of_bytes(pickle.dumps(states, 5))], names=["state"]
    )


def _state(kind: str, rb: pa.RecordBatch, on: str | None) -> Any:
    if kind == "count":
        return rb.num_rows if on is None else rb.num_rows - present(rb.column(on)).null_count
    col: Any = rb.column(on) if kind == "unique" else present(rb.column(on))
    nulls = col.null_count
    n = len(col) - nulls
    if kind == "sum":
        return (nulls, _sum(col) if n else None)
    if kind == "unique":
        return {hashable(v): v for v in distinct(col)}
    if n == 0:
        return (nulls, None)
    if kind == "min" or kind == "max":
        return (nulls, ends(col)[kind])
    if pa.types.is_decimal(col.type):
        col = col.cast(pa.float64())
    if kind == "mean":
        return (nulls, (n, _sum(col)))
    # std: count, mean, sum of squared distances (Welford, Chan)
    x = _view(col.drop_null().cast(pa.float64(), safe=False))
    mean = float(x.mean())
    return (nulls, (n, mean, float(((x - mean) ** 2).sum())))


def present(col: Any) -> Any:
    """A column that can be computed with, with null for NaN: what is missing. Without
    pyarrow.compute, whose import takes 35 ms in each worker."""
    col = computable(col)
    if not pa.types.is_floating(col.type):
        return col
    if pa.types.is_float16(col.type):
        col = col.cast(pa.float32())
    nan = pa_kernels.call_function("is_nan", [col])
    return (
        pa_kernels.call_function("if_else", [nan, pa.scalar(None, col.type), col])
        if pa_kernels.call_function("any", [nan]).as_py()
        else col
    )


def computable(col: Any) -> Any:
    """A column in a type that Arrow's kernels compute with: without a coding, small decimals as
    larger ones."""
    t = value_types.uncoded(col.type)
    if pa.types.is_decimal(t) and t.bit_width < 128:
        t = pa.decimal128(t.precision, t.scale)
    return col if t.equals(col.type) else unify.cast(col, t, "")


def ends(col: Any) -> dict[str, Any]:
    """The least and the greatest value of a column, as "min" and "max"; None where it has none."""
    if not pa.types.is_duration(col.type):
        return pc.min_max(col).as_py()
    found = pc.min_max(col.cast(pa.int64()))
    return {k: found[k].cast(col.type).as_py() for k in ("min", "max")}


def distinct(col: Any) -> list[Any]:
    """The distinct values of a column as Python objects, in order of appearance; each value of one
    whose type Arrow does not compare, for a dict to tell apart."""
    if (
        isinstance(col.type, pa.BaseExtensionType)
        or pa.types.is_nested(col.type)
        and not pa.types.is_run_end_encoded(col.type)
    ):
        return list(from_arrow.to_objects("", col))
    if pa.types.is_interval(col.type):
        raise pa.ArrowNotImplementedError(
            "its values cannot be pickled, as states of aggregates are"
        )
    try:
        return pc.unique(computable(col)).to_pylist()
    except pa.ArrowNotImplementedError:
        return col.to_pylist()


def accumulated(f: Any, state: Any, table: Any) -> Any:
    """The state of an aggregate after more rows; TypeError where Arrow does not compute it of a
    column of its type."""
    try:
        return f.accumulate_block(state, table)
    except pa.ArrowNotImplementedError as e:
        on = f.get_target_column() if type(f).__module__ == "skate.data.aggregate" else None
        if on is None or on not in table.column_names:
            raise
        raise TypeError(
            f"{f.name}: not possible over column {on!r} of type {table.schema.field(on).type}: {e}"
        ) from None


def _view(col: Any) -> Any:
    return flat.plain_view(col)


def hashable(v: Any) -> Any:
    """A value as a key of a dict, in any process: all NaNs are one."""
    if isinstance(v, (list, tuple)):
        return tuple(hashable(x) for x in v)
    if type(v).__name__ == "ndarray":
        return (v.dtype.str, v.shape, v.tobytes())
    if isinstance(v, dict):
        return tuple((k, hashable(x)) for k, x in v.items())
    return (float, "NaN") if isinstance(v, float) and math.isnan(v) else v


def _sum(col: Any) -> Any:
    """The exact sum of ints, the float sum of floats, decimals as they are. Of an array or a
    chunked one."""
    t = col.type
    if t.id == pa.lib.Type_INT64 or t.id == pa.lib.Type_UINT64:
        if col.null_count:
            col = col.drop_null()
        total = 0
        for c in col.chunks if isinstance(col, pa.ChunkedArray) else (col,):
            high, low = _skate.sum_halves(_view(c))
            total += (high << 32) + low
        return total
    if pa.types.is_decimal(t):
        return pc.sum(col.cast(pa.decimal256(76, t.scale))).as_py()
    if pa.types.is_null(t):
        return None
    return pc.sum(col).as_py()


def merge(kind: str, a: Any, b: Any) -> Any:
    """Two states in one; a came first."""
    if a is None:
        return b
    if kind == "count":
        return a + b
    if kind == "unique":
        return {**a, **{k: v for k, v in b.items() if k not in a}}
    nulls, x, y = a[0] + b[0], a[1], b[1]
    if x is None or y is None:
        return (nulls, y if x is None else x)
    if kind == "sum":
        return (nulls, x + y)
    if kind == "min" or kind == "max":
        return (nulls, min(x, y) if kind == "min" else max(x, y))
    if kind == "mean":
        return (nulls, (x[0] + y[0], x[1] + y[1]))
    n = x[0] + y[0]
    d = y[1] - x[1]
    return (nulls, (n, x[1] + d * y[0] / n, x[2] + y[2] + d * d * x[0] * y[0] / n))


def final(agg: tuple[str, str | None, bool, int], state: Any) -> Any:
    """The value of a combined state; None where there is no row, or a null with
    ignore_nulls=False."""
    kind, _, ignore_nulls, ddof = agg
    if kind == "count":
        return state or 0
    if kind == "unique":
        return list((state or {}).values())
    if state is None or state[1] is None or (state[0] and not ignore_nulls):
        return None
    v = state[1]
    if kind == "mean":
        return v[1] / v[0]
    if kind == "std":
        return math.sqrt(v[2] / (v[0] - ddof)) if v[0] > ddof else math.nan
    return v


# ---- aggregates of users (aggregate.py)


def partial_fns(
    params: dict[str, Any], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """In the worker: one row {"state": pickled list of states}, in the order of params["fns"]; none
    for a task without rows."""
    fns = params["fns"]
    states = [f.init(None) for f in fns]
    rows = 0
    for rb in batches:
        if rb.num_rows:
            rows += rb.num_rows
            table = pa.Table.from_batches([rb])
            states = [accumulated(f, s, table) for f, s in zip(fns, states, strict=True)]
    data = [cloudpickle.dumps(states)] if rows else []
    yield pa.RecordBatch.from_arrays([to_arrow.from_objects(data, pa.binary())], names=["state"])
