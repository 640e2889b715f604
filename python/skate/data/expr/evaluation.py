"""Evaluates expressions over record batches with Arrow's kernels, and parses expressions from text.

evaluate(e, rb) returns an Arrow array, or a scalar if the value does not depend on the rows.
Integer arithmetic is checked (an overflow is an error); `/` of two integers truncates as in Arrow
(in text, `/` divides exactly); `//` and `%` work as in Python, also for negative numbers; an
operation on null gives null. Comparisons and is_in are those of values/comparison.py.

Text such as "x > 3 and name in ('a', 'b') or y is null" may have comparisons, and/or/not, + - * /
// % **, in, is null, a.b for fields, and functions of pyarrow.compute by name. In text, null counts
as false, also after "not in", as in SQL.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from skate._deps import asyncio, futures, np, pa, pc
from skate._deps import pa_types as _T
from skate.data.datatype import DataType, is_list
from skate.data.expr import chance, numbering
from skate.data.expressions import (
    SYMBOLS,
    AggregateExpr,
    AliasExpr,
    BinaryExpr,
    CaseExpr,
    ColumnExpr,
    ComputeFn,
    DownloadExpr,
    Expr,
    LiteralExpr,
    MonotonicallyIncreasingIdExpr,
    Operation,
    PyArrowComputeUDFExpr,
    RandomExpr,
    StarExpr,
    Then,
    UDFExpr,
    UnaryExpr,
    UUIDExpr,
    _compute,
)
from skate.data.files import paths, reading
from skate.data.values import batch, comparison, frames, selection, tensor_types, to_arrow
from skate.data.values.unify import columns_are, promoted


def column(e: Expr, rb: pa.RecordBatch) -> pa.Array:
    """The values of e, one for each row."""
    v = evaluate(e, rb)
    if isinstance(v, pa.Scalar):
        if _T.is_null(v.type):
            return pa.nulls(rb.num_rows)
        return to_arrow.from_objects([v.as_py()] * rb.num_rows, v.type)
    return v


class Column:
    """A function from a pyarrow Table to the Table with one column added or replaced.

    Args:
        name: Name of the column.
        expr: The expression that computes the column.
    """

    def __init__(self, name: str, expr: Expr):
        self.name, self.expr = name, expr
        self.__name__ = f"with_column({name})"

    def __call__(self, table: pa.Table) -> pa.Table:
        (rb,) = table.to_batches()
        made, i = column(self.expr, rb), table.schema.get_field_index(self.name)
        return (
            table.append_column(self.name, made) if i < 0 else table.set_column(i, self.name, made)
        )


def mask(e: Expr, rb: pa.RecordBatch) -> Any:
    """The value of e as a boolean array or scalar; TypeError if it is not boolean."""
    v = evaluate(e, rb)
    if not _T.is_boolean(v.type) and not _T.is_null(v.type):
        raise TypeError(f"a filter needs a true or false value per row, not {v.type}")
    return v


def evaluate(e: Expr, rb: pa.RecordBatch) -> Any:
    """The value of e: an Array, or a Scalar."""
    if isinstance(e, ColumnExpr):
        return _named(e._name, rb)
    if isinstance(e, LiteralExpr):
        return comparison.scalar(e.value)
    if isinstance(e, BinaryExpr):
        return _binary(e, rb)
    if isinstance(e, UnaryExpr):
        return _kernel(e.op)(evaluate(e.operand, rb))
    if isinstance(e, AliasExpr):
        return evaluate(e.expr, rb)
    if isinstance(e, UDFExpr):
        return _udf(e, rb)
    if isinstance(e, DownloadExpr):
        return _download(e, rb)
    if isinstance(e, CaseExpr):
        return _case(e, rb)
    if isinstance(e, MonotonicallyIncreasingIdExpr):
        return _ids(e, rb)
    if isinstance(e, RandomExpr):
        return to_arrow.array_from_numpy(chance.numbers(e.seed, *_places(e, rb)), None)
    if isinstance(e, UUIDExpr):
        return chance.uuids(e.seed, *_places(e, rb))
    if isinstance(e, AggregateExpr):
        raise TypeError(f"{e.name} is an aggregate: groupby(...).agg(...) computes it")
    if isinstance(e, StarExpr):
        raise TypeError(
            "star() stands for all columns, not for a value: with_columns() keeps them, and select_columns() takes their names"
        )
    raise TypeError(f"{type(e).__name__} is no expression")


def _binary(e: BinaryExpr, rb: pa.RecordBatch) -> Any:
    if e.op in (Operation.IN, Operation.NOT_IN):
        hit = _is_in(evaluate(e.left, rb), e.right, rb)
        return pc.invert(hit) if e.op is Operation.NOT_IN else hit
    op = COMPARISONS.get(e.op)
    if op is None:
        return (_OWN.get(e.op) or _kernel(e.op))(*_operands(e, rb))
    if isinstance(e.right, LiteralExpr):
        return comparison.with_value(op, evaluate(e.left, rb), e.right.value)
    if isinstance(e.left, LiteralExpr):
        return comparison.with_value(comparison.FLIPPED[op], evaluate(e.right, rb), e.left.value)
    a, b = evaluate(e.left, rb), evaluate(e.right, rb)
    if isinstance(b, pa.Scalar):
        return comparison.with_value(op, a, b)
    return (
        comparison.with_value(comparison.FLIPPED[op], b, a)
        if isinstance(a, pa.Scalar)
        else comparison.with_column(op, a, b)
    )


def _operands(e: BinaryExpr, rb: pa.RecordBatch) -> tuple[Any, Any]:
    """The two operands of an operation that is no comparison. A literal next to a uint64 column
    becomes uint64 if it fits, because Arrow would cast both to int64. Integers next to floats
    become the nearest floats."""
    a, b = evaluate(e.left, rb), evaluate(e.right, rb)
    if e.op in (Operation.AND, Operation.OR):
        return a, b
    if (
        _T.is_uint64(a.type)
        and isinstance(e.right, LiteralExpr)
        and _T.is_integer(b.type)
        and b.is_valid
        and b.as_py() >= 0
    ):
        b = b.cast(a.type)
    elif (
        _T.is_uint64(b.type)
        and isinstance(e.left, LiteralExpr)
        and _T.is_integer(a.type)
        and a.is_valid
        and a.as_py() >= 0
    ):
        a = a.cast(b.type)
    elif _T.is_floating(b.type) and _T.is_integer(a.type) and b.type.bit_width > 16:
        a = a.cast(b.type, safe=False)
    elif _T.is_floating(a.type) and _T.is_integer(b.type) and a.type.bit_width > 16:
        b = b.cast(a.type, safe=False)
    return a, b


def _named(name: str, rb: pa.RecordBatch) -> pa.Array:
    i = rb.schema.get_field_index(name)
    if i >= 0:
        return rb.column(i)
    head, dot, rest = name.partition(".")
    while dot:
        i = rb.schema.get_field_index(head)
        if i >= 0 and _T.is_struct(rb.column(i).type):
            v = rb.column(i)
            for field in rest.split("."):
                if not _T.is_struct(v.type) or v.type.get_field_index(field) < 0:
                    raise ValueError(f"there is no field {field!r} in {name!r} (type {v.type})")
                v = pc.struct_field(v, field)
            return v
        more, dot, rest = rest.partition(".")
        head = f"{head}.{more}"
    raise KeyError(f"there is no column {name!r}; {columns_are(name, rb.schema.names)}")


# ---- Evaluating operations.


def _texty(v: Any) -> bool:
    t = v.type.value_type if _T.is_dictionary(v.type) else v.type
    return _T.is_string(t) or _T.is_large_string(t) or _T.is_string_view(t)


def _plain_text(v: Any) -> Any:
    return v.cast(v.type.value_type) if _T.is_dictionary(v.type) else v


def _add(a: Any, b: Any) -> Any:
    if _texty(a) or _texty(b):
        if not (_texty(a) and _texty(b)):
            raise TypeError(f"cannot add {a.type} and {b.type}; cast one of them to text")
        a, b = _plain_text(a), _plain_text(b)
        if a.type != b.type:
            a, b = a.cast(pa.large_string()), b.cast(pa.large_string())
        return pc.binary_join_element_wise(a, b, pa.scalar("", a.type))
    return pc.add_checked(a, b)


def _floor_div(a: Any, b: Any) -> Any:
    if _T.is_integer(a.type) and _T.is_integer(b.type):
        q = pc.divide_checked(a, b)
        r = pc.subtract_checked(a, pc.multiply_checked(q, b))
        off = pc.and_(
            comparison.with_value("!=", r, 0),
            pc.not_equal(comparison.with_value("<", r, 0), comparison.with_value("<", b, 0)),
        )
        return pc.subtract_checked(q, pc.cast(off, q.type))
    return pc.floor(pc.divide(a, b))


def _modulo(a: Any, b: Any) -> Any:
    return pc.subtract_checked(a, pc.multiply_checked(_floor_div(a, b), b))


def _power(a: Any, b: Any) -> Any:
    if isinstance(b, pa.Scalar) and _T.is_integer(b.type) and b.is_valid and b.as_py() < 0:
        b = b.cast(pa.float64())  # 2 ** -1 is 0.5, as in Python
    return pc.power_checked(a, b)


def _fill_null(v: Any, value: Any) -> Any:
    v, value = _one_type("fill_null", [comparison.plain(v), value])
    return pc.coalesce(v, value)


def _one_type(what: str, values: list[Any]) -> list[Any]:
    """Arrays and scalars in one type. A single value takes the type of the columns if it fits."""
    types = {v.type for v in values if not isinstance(v, pa.Scalar) and not _T.is_null(v.type)}
    if len(types) == 1:
        (t,) = types
        values = [_fitted(v, t) if isinstance(v, pa.Scalar) else v for v in values]
    wanted = pa.null()
    for v in values:
        wanted = promoted(wanted, v.type)
        if wanted is None:
            break
    try:
        if wanted is None:
            raise pa.ArrowInvalid("no type holds the values of all exactly")
        # integers beyond 2^53 become the nearest floats
        return [
            v if v.type == wanted else v.cast(wanted, safe=not _T.is_floating(wanted))
            for v in values
        ]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
        said = " and ".join(sorted({str(v.type) for v in values if not _T.is_null(v.type)}))
        raise TypeError(f"{what}: the values are {said}: {e}; cast() them to one type") from None


def _fitted(v: pa.Scalar, t: pa.DataType) -> pa.Scalar:
    """The value in a type, if it can be one without loss: a number as a number, text as text."""
    if _sort(v.type) != _sort(t) and not _T.is_null(v.type):
        return v
    try:
        return v.cast(t, safe=True)
    except (pa.ArrowException, NotImplementedError):
        return v


def _sort(t: pa.DataType) -> str:
    if _T.is_integer(t) or _T.is_floating(t) or _T.is_decimal(t):
        return "number"
    if _T.is_string(t) or _T.is_large_string(t):
        return "text"
    return "truth" if _T.is_boolean(t) else "other"


def _case(e: CaseExpr, rb: pa.RecordBatch) -> Any:
    """The rows of the batch in parts, one for each value, which is computed for its part alone."""
    n = rb.num_rows
    open_rows, parts = np.ones(n, bool), []
    for condition, value in e.cases:
        hit = mask(condition, rb)
        hit = hit.as_py() or False if isinstance(hit, pa.Scalar) else _true(hit)
        parts.append((open_rows & hit, value))
        open_rows = open_rows & ~np.asarray(hit)
    parts.append((open_rows, e.default))
    values = _one_type("when", [_of_part(value, rb, rows) for rows, value in parts])
    columns = [
        pa.repeat(v, int(rows.sum())) if isinstance(v, pa.Scalar) else v
        for v, (rows, _) in zip(values, parts, strict=True)
    ]
    if len({c.type for c in columns}) > 1:  # nulls beside values
        t = next(c.type for c in columns if not _T.is_null(c.type))
        columns = [pa.nulls(len(c), t) if _T.is_null(c.type) else c for c in columns]
    at = np.empty(n, np.int64)
    at[np.concatenate([np.flatnonzero(rows) for rows, _ in parts])] = np.arange(n)
    whole = pa.concat_arrays(columns) if len(columns) > 1 else columns[0]
    return selection.take_values(whole, pa.array(at))


def _of_part(value: Expr, rb: pa.RecordBatch, rows: Any) -> Any:
    v = evaluate(value, rb if rows.all() else selection.where(rb, rows))
    return v if isinstance(v, pa.Scalar) else comparison.plain(v)


def _true(hit: pa.Array) -> Any:
    return np.asarray(pc.fill_null(hit.cast(pa.bool_()), False).to_numpy(zero_copy_only=False))


def listed(v: Any) -> list[Any]:
    """The values of the list after "in"."""
    if isinstance(v, (pa.ListScalar, pa.LargeListScalar, pa.FixedSizeListScalar)):
        v = v.values if v.is_valid else ()
    one = (
        isinstance(v, (str, bytes, dict))
        or not isinstance(v, Iterable)
        or getattr(v, "ndim", 1) == 0
    )
    return [v] if one else list(v)


def _is_in(a: Any, among: Expr, rb: pa.RecordBatch) -> Any:
    """Whether each value is in the list; the result is never null: null is in the list or it is
    not."""
    a = comparison.plain(a)
    if not isinstance(among, LiteralExpr):
        return pc.is_in(a, value_set=evaluate(among, rb).cast(a.type))
    sets = getattr(among, "sets", None)
    if sets is None:
        sets = among.sets = {}
    if a.type not in sets:
        sets[a.type] = comparison.value_set(listed(among.value), a.type)
    return pc.is_in(a, value_set=sets[a.type])


COMPARISONS = {
    op: SYMBOLS[op]
    for op in (Operation.GT, Operation.LT, Operation.GE, Operation.LE, Operation.EQ, Operation.NE)
}
_OWN: dict[Operation, Callable[[Any, Any], Any]] = {
    Operation.ADD: _add,
    Operation.MOD: _modulo,
    Operation.FLOORDIV: _floor_div,
    Operation.POW: _power,
}
_KERNELS = {  # by name, because the kernels are loaded only when an expression is evaluated
    Operation.ADD: "add_checked",
    Operation.SUB: "subtract_checked",
    Operation.MUL: "multiply_checked",
    Operation.DIV: "divide",
    Operation.POW: "power_checked",
    Operation.GT: "greater",
    Operation.LT: "less",
    Operation.GE: "greater_equal",
    Operation.LE: "less_equal",
    Operation.EQ: "equal",
    Operation.NE: "not_equal",
    Operation.AND: "and_kleene",
    Operation.OR: "or_kleene",
    Operation.NOT: "invert",
    Operation.IS_NULL: "is_null",
    Operation.IS_NOT_NULL: "is_valid",
}


def _kernel(op: Operation) -> Callable[..., Any]:
    return getattr(pc, _KERNELS[op])


# ---- Evaluating calls of named functions.


def call(name: str, v: Any, *args: Any, **kwargs: Any) -> Any:
    """Calls a function by name: one of this module (skate_...) or of pyarrow.compute. Its first
    argument is the column v."""
    if name in FUNCTIONS:
        return FUNCTIONS[name](v, *args, **kwargs)
    if _T.is_dictionary(v.type) and name != "cast":
        v = v.cast(v.type.value_type)
    return getattr(pc, name)(v, *args, **kwargs)


def _lists(v: pa.Array, what: str) -> pa.Array:
    """A list column of any layout, in the layout that has offsets."""
    t = v.type
    if _T.is_fixed_size_list(t) or _T.is_list_view(t) or _T.is_large_list_view(t):
        return (
            pa.array(v.to_pylist(), pa.list_(t.value_type))
            if v.null_count
            else v.cast(pa.list_(t.value_type))
        )
    if not (_T.is_list(t) or _T.is_large_list(t)):
        raise TypeError(f"{what} requires a list column, not {t}.")
    return v


def _relist(lengths: Any, values: pa.Array, null: pa.Array | None, large: bool) -> pa.Array:
    counts = np.asarray(pc.fill_null(lengths, 0).cast(pa.int64()))
    offsets = np.zeros(len(counts) + 1, np.int64 if large else np.int32)
    np.cumsum(counts, out=offsets[1:])
    cls = pa.LargeListArray if large else pa.ListArray
    return cls.from_arrays(pa.array(offsets), values, mask=null)


def _list_sort(v: pa.Array, order: str, null_placement: str) -> pa.Array:
    lists = _lists(v, "list.sort()")
    values = pc.list_flatten(lists)
    if len(values):
        # from pyarrow 25 on, null placement is an option of each sort key
        by_key = int(pa.__version__.split(".")[0]) >= 25
        keys = [("row", "ascending", "at_end"), ("value", order, null_placement)]
        at = pc.sort_indices(
            pa.RecordBatch.from_arrays(
                [pc.list_parent_indices(lists), values], names=["row", "value"]
            ),
            options=pc.SortOptions(keys)
            if by_key
            else pc.SortOptions([k[:2] for k in keys], null_placement=null_placement),
        )
        values = selection.take_values(values, at)
    out = _relist(
        pc.list_value_length(lists),
        values,
        lists.is_null() if lists.null_count else None,
        _T.is_large_list(lists.type),
    )
    return out if out.type.equals(v.type) else out.cast(v.type)


def _list_flatten(v: pa.Array) -> pa.Array:
    if not is_list(v.type) or not is_list(v.type.value_type):
        raise TypeError(
            f"list.flatten() takes away one level of lists of lists; the column is {v.type}"
        )
    lists = _lists(v, "list.flatten()")
    inner = _lists(pc.list_flatten(lists), "list.flatten()")
    lengths = np.bincount(
        np.asarray(pc.list_parent_indices(lists)),
        weights=np.asarray(pc.fill_null(pc.list_value_length(inner), 0)),
        minlength=len(lists),
    )
    null = lists.is_null() if lists.null_count else None
    return _relist(
        pa.array(lengths.astype(np.int64)),
        pc.list_flatten(inner),
        null,
        _T.is_large_list(lists.type),
    )


def _map_part(v: pa.Array, i: int) -> pa.Array:
    t = v.type
    if _T.is_null(t):
        return v.cast(pa.list_(pa.null()))
    if _T.is_map(t):
        flat = v.keys if i == 0 else v.items
    elif (
        (_T.is_list(t) or _T.is_large_list(t))
        and _T.is_struct(t.value_type)
        and t.value_type.num_fields >= 2
    ):
        flat = v.values.field(i)
    else:
        raise TypeError(
            f".map.{('keys', 'values')[i]}() needs a map, or a list of structs of two fields, not {t}"
        )
    # the offsets refer to the whole child array, also in a slice
    first, last = v.offsets[0].as_py(), v.offsets[-1].as_py()
    cls = pa.LargeListArray if _T.is_large_list(t) else pa.ListArray
    return cls.from_arrays(
        pc.subtract(v.offsets, v.offsets[0]),
        flat.slice(first, last - first),
        mask=v.is_null() if v.null_count else None,
    )


def _to_list(v: pa.Array) -> pa.Array:
    if tensor_types.is_fixed(v.type):
        v = v.storage
    if not is_list(v.type):
        raise pa.ArrowInvalid(
            f"to_list() can only be called on list-like columns; this one is {v.type}"
        )
    return _lists(v, "to_list()")


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "skate_list_sort": _list_sort,
    "skate_list_flatten": _list_flatten,
    "skate_map_part": _map_part,
    "skate_to_list": _to_list,
    "skate_fill_null": _fill_null,
}


# ---- Evaluating user functions, downloads and row numbers.


def _udf(e: UDFExpr, rb: pa.RecordBatch) -> Any:
    if isinstance(e.fn, ComputeFn):
        return call(e.fn.__name__, *[evaluate(a, rb) for a in e.args], *e.fn.args, **e.fn.kwargs)
    args = [_given(a, rb) for a in e.args]
    out = finished(e.fn(*args, **{k: _given(a, rb) for k, a in e.kwargs.items()}))
    name = getattr(e.fn, "__name__", type(e.fn).__name__)
    kind = type(out)
    if not isinstance(out, (pa.Array, pa.ChunkedArray)) and not (
        kind.__module__.split(".")[0] in ("numpy", "pandas") and hasattr(out, "__len__")
    ):
        raise TypeError(
            f"UDF '{name}' returned invalid type {kind.__name__}. Expected type (pandas.Series, numpy.ndarray, pyarrow.Array, pyarrow.ChunkedArray)"
        )
    out = (
        frames.from_series(out, None)
        if kind.__module__.startswith("pandas")
        else batch.as_column(out, name, None, None)
    )
    if len(out) != rb.num_rows:
        raise ValueError(
            f"UDF '{name}' returned {len(out)} values for {rb.num_rows} rows; return one value per row"
        )
    return out


def _given(e: Expr, rb: pa.RecordBatch) -> Any:
    if isinstance(e, LiteralExpr):
        return e.value
    v = evaluate(e, rb)
    return pa.chunked_array([v]) if isinstance(v, pa.Array) else v.as_py()


def finished(out: Any) -> Any:
    """The result of a function that may return a coroutine or an async generator (then its last
    value)."""
    if inspect.isasyncgen(out):
        return run_async(_last(out))
    return run_async(out) if inspect.isawaitable(out) else out


async def _last(agen: Any) -> Any:
    v = None
    async for v in agen:
        pass
    return v


_event_loop: Any = None


def event_loop() -> Any:
    """The one event loop of this process, which all calls share, so that objects of a user's class
    which refer to the loop stay valid."""
    global _event_loop
    if _event_loop is None:
        _event_loop = asyncio.new_event_loop()
    return _event_loop


def run_async(work: Any) -> Any:
    """Runs a coroutine to its end on the event loop of this process."""
    return event_loop().run_until_complete(work)


def _download(e: DownloadExpr, rb: pa.RecordBatch) -> pa.Array:
    if e.uri_column_name not in rb.schema.names:
        raise ValueError(
            f"download: there is no column {e.uri_column_name!r}; {columns_are(e.uri_column_name, rb.schema.names)}"
        )
    uris = rb.column(rb.schema.get_field_index(e.uri_column_name))
    if not _texty(uris) and not _T.is_null(uris.type):
        raise ValueError(f"download: column {e.uri_column_name!r} holds {uris.type}, not text")
    with futures.ThreadPoolExecutor(min(16, max(1, len(uris)))) as pool:
        return to_arrow.from_objects(
            list(pool.map(lambda u: _fetch(u, e.filesystem), uris.to_pylist())), pa.binary()
        )


def _fetch(uri: str | None, filesystem: Any) -> bytes | None:
    """The bytes of a file; None if the file cannot be read, as in Ray's download()."""
    if not uri:
        return None
    try:
        fs, path = paths.resolve(uri, filesystem)
        return bytes(reading.read_bytes(fs, path))
    except (OSError, ValueError, pa.ArrowException):
        return None


def _places(e: Any, rb: pa.RecordBatch) -> tuple[int, int]:
    return numbering.numbering.take(e._instance_id, rb.num_rows)


def _ids(e: MonotonicallyIncreasingIdExpr, rb: pa.RecordBatch) -> pa.Array:
    return to_arrow.array_from_numpy(np.arange(*_places(e, rb), dtype=np.int64), None)


# ---- Translating an expression to pyarrow.compute.


def to_pyarrow(e: Expr) -> pc.Expression:
    """The expression e as a pyarrow.compute.Expression; TypeError or ValueError if Arrow has no
    form for it."""
    if isinstance(e, ColumnExpr):
        return pc.field(e._name)
    if isinstance(e, LiteralExpr):
        return pc.scalar(comparison.scalar(e.value))
    if isinstance(e, AliasExpr):
        return to_pyarrow(e.expr)
    if isinstance(e, UnaryExpr):
        return _kernel(e.op)(to_pyarrow(e.operand))
    if isinstance(e, BinaryExpr) and e.op in (Operation.IN, Operation.NOT_IN):
        if not isinstance(e.right, LiteralExpr):
            raise ValueError(
                f"is_in, not_in: the values are a list, not a {type(e.right).__name__}, where a file system is to filter"
            )
        hit = pc.is_in(to_pyarrow(e.left), pa.array(listed(e.right.value)))
        return pc.invert(hit) if e.op is Operation.NOT_IN else hit
    if isinstance(e, BinaryExpr) and e.op in _KERNELS:
        return _kernel(e.op)(to_pyarrow(e.left), to_pyarrow(e.right))
    if isinstance(e, BinaryExpr):
        q = pc.floor(pc.divide(to_pyarrow(e.left), to_pyarrow(e.right)))
        return (
            q
            if e.op is Operation.FLOORDIV
            else pc.subtract(to_pyarrow(e.left), pc.multiply(q, to_pyarrow(e.right)))
        )
    if isinstance(e, PyArrowComputeUDFExpr) and e.fn.__name__ not in FUNCTIONS:
        return getattr(pc, e.fn.__name__)(
            *[to_pyarrow(a) for a in e.args], *e.fn.args, **e.fn.kwargs
        )
    what = {
        UDFExpr: "UDF",
        PyArrowComputeUDFExpr: "UDF",
        DownloadExpr: "Download",
        StarExpr: "Star",
        CaseExpr: "When",
        Then: "When",
        RandomExpr: "Random",
        UUIDExpr: "UUID",
        AggregateExpr: "Aggregate",
    }.get(type(e), "Monotonically Increasing ID")
    raise TypeError(f"{what}: pyarrow has no such expression")


# ---- Parsing expressions from text.


_COMPARE = {
    ast.Eq: Operation.EQ,
    ast.NotEq: Operation.NE,
    ast.Lt: Operation.LT,
    ast.LtE: Operation.LE,
    ast.Gt: Operation.GT,
    ast.GtE: Operation.GE,
}
_ARITH = {
    ast.Add: Operation.ADD,
    ast.Sub: Operation.SUB,
    ast.Mult: Operation.MUL,
    ast.Mod: Operation.MOD,
    ast.FloorDiv: Operation.FLOORDIV,
    ast.Pow: Operation.POW,
    ast.BitAnd: Operation.AND,
    ast.BitOr: Operation.OR,
}


def parse(text: str) -> Expr:
    """Parses the text of an expression (see the docstring of this module); ValueError with the
    position of the part that is not understood."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as e:
        raise ValueError(
            f'Invalid syntax in the expression: filter expression {text!r} is not understood at column {e.offset}; write for example "x > 3 and y is not null"'
        ) from None
    return _parse(tree, text)


def _bad(text: str, why: str) -> ValueError:
    return ValueError(
        f"filter expression {text!r}: {why}; comparisons, and/or/not, + - * / %, in (...), is null and pyarrow.compute functions are understood"
    )


def _parse(n: ast.AST, text: str) -> Expr:
    if isinstance(n, ast.Constant):
        return LiteralExpr(n.value)
    if isinstance(n, ast.Name):
        if n.id in ("null", "NULL"):
            return LiteralExpr(None)
        return LiteralExpr(n.id == "true") if n.id in ("true", "false") else ColumnExpr(n.id)
    if isinstance(n, ast.Attribute):
        inner = _parse(n.value, text)
        return (
            ColumnExpr(f"{inner._name}.{n.attr}")
            if isinstance(inner, ColumnExpr)
            else _compute(inner, "struct_field", None, n.attr)
        )
    if isinstance(n, ast.BoolOp):
        op = Operation.AND if isinstance(n.op, ast.And) else Operation.OR
        out = _parse(n.values[0], text)
        for v in n.values[1:]:
            out = BinaryExpr(op, out, _parse(v, text))
        return out
    if isinstance(n, ast.UnaryOp):
        if isinstance(n.op, ast.Not):
            return ~_parse(n.operand, text)
        if isinstance(n.op, ast.USub):
            return (
                LiteralExpr(-n.operand.value)
                if isinstance(n.operand, ast.Constant) and isinstance(n.operand.value, (int, float))
                else _parse(n.operand, text).negate()
            )
        raise _bad(text, f"{ast.unparse(n)!r} is not understood")
    if isinstance(n, ast.BinOp):
        return _parse_arithmetic(n, text)
    if isinstance(n, ast.Compare):
        out, left = None, n.left
        for op, right in zip(n.ops, n.comparators, strict=True):
            test = _parse_compare(op, left, right, text)
            out = test if out is None else BinaryExpr(Operation.AND, out, test)
            left = right
        assert out is not None
        return out
    if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and not n.keywords:
        return _parse_call(n.func.id, n, text)
    raise _bad(text, f"{ast.unparse(n)!r} is not understood")


def _parse_arithmetic(n: ast.BinOp, text: str) -> Expr:
    left, right = _parse(n.left, text), _parse(n.right, text)
    if isinstance(n.op, ast.Div):
        # integers beyond 2**53 become the nearest floats
        as_float = {"target_type": pa.float64(), "safe": False}
        return _compute(left, "cast", None, kwargs=as_float) / _compute(
            right, "cast", None, kwargs=as_float
        )
    if type(n.op) not in _ARITH:
        raise _bad(text, f"{ast.unparse(n)!r} is not understood")
    return BinaryExpr(_ARITH[type(n.op)], left, right)


def _parse_compare(op: ast.cmpop, left: ast.AST, right: ast.AST, text: str) -> Expr:
    a = _parse(left, text)
    if isinstance(op, (ast.Is, ast.IsNot)):
        if not (
            isinstance(right, ast.Constant)
            and right.value is None
            or isinstance(right, ast.Name)
            and right.id in ("null", "NULL")
        ):
            raise _bad(text, 'only "is null" and "is not null" follow a value')
        return a.is_null() if isinstance(op, ast.Is) else a.is_not_null()
    if isinstance(op, (ast.In, ast.NotIn)):
        values = _constants(right, text)
        return a.is_in(values) if isinstance(op, ast.In) else a.not_in(values) & a.is_not_null()
    return BinaryExpr(_COMPARE[type(op)], a, _parse(right, text))


def _constants(n: ast.AST, text: str) -> list[Any]:
    if isinstance(n, (ast.Tuple, ast.List, ast.Set)):
        try:
            values = [ast.literal_eval(e) for e in n.elts]
        except ValueError:
            values = [()]
        kinds = {
            float if isinstance(v, (int, float)) and not isinstance(v, bool) else type(v)
            for v in values
            if v is not None
        }
        if len(kinds) <= 1 and kinds <= {float, str, bytes, bool}:
            return values
    raise _bad(text, 'after "in" comes a list of constants of one type')


def _parse_call(name: str, n: ast.Call, text: str) -> Expr:
    if name in ("is_null", "is_valid", "is_not_null", "is_nan") and len(n.args) == 1:
        a = _parse(n.args[0], text)
        return (
            a.is_null()
            if name == "is_null"
            else BinaryExpr(Operation.NE, a, a)
            if name == "is_nan"
            else a.is_not_null()
        )
    if name == "is_in" and len(n.args) == 2:
        return _parse(n.args[0], text).is_in(_constants(n.args[1], text))
    if name not in pc.list_functions() or not n.args:
        raise _bad(text, f"{ast.unparse(n)!r} is not understood")
    # pyarrow takes the arguments after the first one (such as patterns) as plain Python values
    if all(isinstance(a, ast.Constant) for a in n.args[1:]):
        return _compute(_parse(n.args[0], text), name, None, *[a.value for a in n.args[1:]])  # type: ignore[attr-defined]
    return PyArrowComputeUDFExpr(
        ComputeFn(name, (), {}), [_parse(a, text) for a in n.args], {}, DataType(object)
    )
