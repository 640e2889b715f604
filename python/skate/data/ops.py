"""What the operators do to rows, in the worker: one generator function an operator, of the name that the plan knows it by.

Each takes (params, batches): params is the operator's dict (see dataset.py), batches an iterator of pyarrow.RecordBatch (None for a source),
and yields RecordBatches, each as soon as it is there. Nothing here knows about tasks, blocks or memory; stage.py composes and cuts.
`task` says which piece of work runs, for sources, writers and for error notes. A user's exception leaves here as it is, with one note that
says operator, input and row.

Row functions (map, flat_map, filter) go through a batch in pieces whose size follows the bytes that come out, never the clock: what is cut where is
the same on every run.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import itertools
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from skate.data import batch as _b

Batches = Iterator[pa.RecordBatch]

PIECE_BYTES = 1 << 20  # what one piece of a row function should give
PIECE_MIN, PIECE_FIRST, PIECE_MAX = 8, 64, 16384


class Task:
    """The piece of work that this process is at."""

    seq: int | None = 0  # number of the task in its stage: the same on every run; None: started ahead of its turn
    unit: bytes = b""  # parameters of a source's unit
    source: str = ""  # what is being read, for error notes: a file and rows
    cap: int = -1  # a task may stop after so many output rows
    target: int = 16 << 20
    nbytes: Callable[[pa.RecordBatch], int] = staticmethod(lambda rb: rb.nbytes)


task = Task()


def note(e: BaseException, label: str, where: str) -> None:
    """Says once, at the innermost operator, where a user function failed."""
    if not getattr(e, "__skate_noted__", False):
        try:
            e.__skate_noted__ = True  # type: ignore[attr-defined]
        except AttributeError:
            pass
        e.add_note(
            f"in {label}: {where}" + (f" of {task.source}" if task.source else "") + (f" (task {task.seq})" if task.seq is not None else "")
        )


# ---- sources and sinks: the format's own file does it


def read(params: dict[str, Any], batches: None) -> Batches:
    yield from importlib.import_module("skate.data.read." + params["format"]).run(params, task)


def write(params: dict[str, Any], batches: Batches) -> Batches:
    yield from importlib.import_module("skate.data.write." + params["format"]).run(params, batches, task)


# ---- batches


def rebatch(batches: Batches, size: int | None) -> Batches:
    """Batches of exactly `size` rows over all borders (the last one has what is left); None: as they come."""
    if size is None:
        yield from batches
        return
    held: list[pa.RecordBatch] = []
    n = 0
    for rb in batches:
        at = 0
        rows = rb.num_rows
        while n + rows - at >= size:
            piece = rb.slice(at, size - n)
            at += size - n
            yield merge([*held, piece]) if held else piece
            held, n = [], 0
        if at < rows:
            held.append(rb.slice(at) if at else rb)
            n += rows - at
    if held:
        yield merge(held)


def merge(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch of all rows."""
    if len(batches) == 1:
        return batches[0]
    if any(not b.schema.equals(batches[0].schema) for b in batches):
        from skate.data.schema import cast_batch, unify

        schema = unify([b.schema for b in batches])
        batches = [cast_batch(b, schema) for b in batches]
    return pa.concat_batches(batches)


def map_batches(params: dict[str, Any], batches: Batches) -> Batches:
    fn, label, fmt = params["fn"], params["label"], params["batch_format"]
    args, kwargs = params["fn_args"], params["fn_kwargs"]
    writable = not params["zero_copy_batch"]
    numpy = fmt == "numpy" or fmt == "default"
    row = 0
    for rb in rebatch(batches, params["batch_size"]):
        n = rb.num_rows
        if n == 0:
            continue
        given = _b.NumpyBatch(rb, writable) if numpy else _b.to_batch(rb, fmt)
        try:
            out = fn(given, *args, **kwargs)
            if isinstance(out, types.GeneratorType) or (
                not isinstance(out, (Mapping, pa.Table, pa.RecordBatch)) and hasattr(out, "__next__")
            ):
                for o in out:
                    yield from _b.from_batch(o, label, rb, given if numpy else None)
            else:
                if inspect.isawaitable(out) or inspect.isasyncgen(out):
                    raise TypeError(f"{label}: async functions are not supported; use a plain function or a generator")
                yield from _b.from_batch(out, label, rb, given if numpy else None)
        except GeneratorExit:
            raise
        except BaseException as e:
            note(e, label, f"the batch of input rows {row}..{row + n - 1}")
            raise
        row += n


def pieces(batches: Batches, work: Callable[[pa.RecordBatch], pa.RecordBatch | None], whole: bool) -> Batches:
    """work() over row ranges of each batch, whose size follows the bytes that come out. whole: joins them again for an operator that wants blocks."""
    size = PIECE_FIRST
    for rb in batches:
        n, at = rb.num_rows, 0
        done: list[pa.RecordBatch] = []
        if n == 0:
            continue
        while at < n:
            k = min(size, n - at)
            out = work(rb if k == n else rb.slice(at, k))
            at += k
            if out is not None:
                per_row = max(1, task.nbytes(out)) / k
                size = int(max(PIECE_MIN, min(PIECE_MAX, 4 * size, PIECE_BYTES / per_row)))
                if whole:
                    done.append(out)
                else:
                    yield out
        if done:
            yield merge(done)


def _rows(
    params: dict[str, Any],
    batches: Batches,
    work: Callable[[list[dict[str, Any]], Iterator[dict[str, Any]], pa.RecordBatch], pa.RecordBatch | None],
) -> Batches:
    """Common part of the row operators: rows of a piece, and the row that failed in the note."""
    label = params["label"]
    base = [0]

    def piece(rb: pa.RecordBatch) -> pa.RecordBatch | None:
        rows = _b.to_rows(rb)
        it = iter(rows)
        try:
            return work(rows, it, rb)
        except BaseException as e:
            left = it.__length_hint__()
            note(
                e,
                label,
                f"input row {base[0] + len(rows) - left - 1}"
                if left or len(rows) == 1
                else f"input rows {base[0]}..{base[0] + len(rows) - 1}",
            )
            raise
        finally:
            base[0] += len(rows)

    yield from pieces(batches, piece, params.get("whole", False))


def _bound(params: dict[str, Any]) -> Callable[[dict[str, Any]], Any]:
    fn, args, kwargs = params["fn"], params["fn_args"], params["fn_kwargs"]
    return fn if not args and not kwargs else lambda r: fn(r, *args, **kwargs)


def map(params: dict[str, Any], batches: Batches) -> Batches:  # noqa: A001
    fn, label = _bound(params), params["label"]

    def work(rows: list[dict[str, Any]], it: Iterator[dict[str, Any]], rb: pa.RecordBatch) -> pa.RecordBatch | None:
        out = [fn(r) for r in it]
        _check_rows(out, label, "a dict (one row)")
        return _b.from_rows(out, label, rb)

    return _rows(params, batches, work)


def flat_map(params: dict[str, Any], batches: Batches) -> Batches:
    fn, label = _bound(params), params["label"]

    def work(rows: list[dict[str, Any]], it: Iterator[dict[str, Any]], rb: pa.RecordBatch) -> pa.RecordBatch | None:
        got = [fn(r) for r in it]
        if not set(builtins.map(type, got)) <= {list, tuple}:
            for i, g in enumerate(got):
                if g is None or isinstance(g, (Mapping, str, bytes)) or not isinstance(g, Iterable):
                    raise TypeError(f"{label} returned {_b._named(g)} for row {i} of its batch; return a list of dicts (rows)")
        out = list(itertools.chain.from_iterable(got))
        _check_rows(out, label, "a list of dicts (rows)")
        return _b.from_rows(out, label, rb)

    return _rows(params, batches, work)


def _check_rows(out: list[Any], label: str, want: str) -> None:
    kinds = set(builtins.map(type, out))
    if kinds != {dict}:
        for i, r in enumerate(out):
            if not isinstance(r, Mapping):
                raise TypeError(f"{label} returned {_b._named(r)} for row {i} of its batch; return {want}")


def filter(params: dict[str, Any], batches: Batches) -> Batches:  # noqa: A001
    if params.get("expr") is not None:
        label, test = params["label"], compile_expr(params["expr"])
        row = 0
        for rb in batches:
            try:
                mask = test(rb)
                out = rb.filter(mask) if isinstance(mask, pa.Array) else rb.slice(0, rb.num_rows if mask.as_py() else 0)
            except BaseException as e:
                note(e, label, f"input rows {row}..{row + rb.num_rows - 1}")
                raise
            row += rb.num_rows
            yield out
        return
    fn = _bound(params)

    def work(rows: list[dict[str, Any]], it: Iterator[dict[str, Any]], rb: pa.RecordBatch) -> pa.RecordBatch | None:
        keep = [True if fn(r) else False for r in it]
        return rb if all(keep) else rb.filter(_b.array_from_numpy(np.array(keep, bool), None))

    yield from _rows(params, batches, work)


# ---- columns


def _missing(name: str, rb: pa.RecordBatch, label: str) -> KeyError:
    return KeyError(f"{label}: there is no column {name!r}; columns are {', '.join(rb.schema.names)}")


def add_column(params: dict[str, Any], batches: Batches) -> Batches:
    fn, label, fmt, col = params["fn"], params["label"], params["batch_format"], params["col"]
    for rb in batches:
        if rb.num_rows == 0:
            continue
        given = _b.to_batch(rb, fmt)
        try:
            v = fn(given, *params["fn_args"], **params["fn_kwargs"])
            arr = (
                _b._from_series(v, None)
                if type(v).__module__.startswith("pandas") and hasattr(v, "dtype")
                else _b._column(v, col, None, None)
            )
            if len(arr) != rb.num_rows:
                raise ValueError(f"{label} returned {len(arr)} values for {rb.num_rows} rows; return one value per row")
        except BaseException as e:
            note(e, label, f"a batch of {rb.num_rows} rows")
            raise
        i = rb.schema.get_field_index(col)
        names, cols = list(rb.schema.names), list(rb.columns)
        if i >= 0:
            cols[i] = arr
        else:
            names.append(col)
            cols.append(arr)
        yield pa.RecordBatch.from_arrays(cols, names=names)


def select_columns(params: dict[str, Any], batches: Batches) -> Batches:
    names = params["cols"]
    for rb in batches:
        have = set(rb.schema.names)
        for n in names:
            if n not in have:
                raise _missing(n, rb, params["label"])
        yield rb.select(names)


def drop_columns(params: dict[str, Any], batches: Batches) -> Batches:
    drop = set(params["cols"])
    for rb in batches:
        for n in params["cols"]:
            if n not in rb.schema.names:
                raise _missing(n, rb, params["label"])
        yield rb.select([n for n in rb.schema.names if n not in drop])


def rename_columns(params: dict[str, Any], batches: Batches) -> Batches:
    names = params["names"]
    for rb in batches:
        old = rb.schema.names
        if isinstance(names, dict):
            for n in names:
                if n not in old:
                    raise _missing(n, rb, params["label"])
            new = [names.get(n, n) for n in old]
        else:
            if len(names) != len(old):
                raise ValueError(f"{params['label']}: {len(names)} names for {len(old)} columns ({', '.join(old)})")
            new = names
        yield rb.rename_columns(new)


def random_sample(params: dict[str, Any], batches: Batches) -> Batches:
    rng = np.random.Generator(np.random.Philox(key=[params["seed"] & 0xFFFFFFFFFFFFFFFF, task.seq]))  # a function of (seed, task, row)
    for rb in batches:
        yield rb.filter(_b.array_from_numpy(rng.random(rb.num_rows) < params["fraction"], None))


# ---- aggregates: one small row a task, combined by the driver (execute.combine)


def count(params: dict[str, Any], batches: Batches) -> Batches:
    n = 0
    for rb in batches:
        n += rb.num_rows
    yield pa.RecordBatch.from_arrays([_b.from_objects([n], None)], names=["count"])


def aggregate(params: dict[str, Any], batches: Batches) -> Batches:
    from skate.data.aggregate import partial

    yield from partial(params, batches)


# ---- filter expressions


def compile_expr(text: str) -> Callable[[pa.RecordBatch], Any]:
    """A test over a record batch from text such as "x > 3 and name in ('a', 'b') or y is null": comparisons, and/or/not, + - * / %, in, is null,
    and functions of pyarrow.compute by name. Null counts as "no", as in SQL."""
    global pc  # 80 ms at the first import: only who has an expression pays it
    import pyarrow.compute as pc

    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as e:
        raise ValueError(
            f'filter expression {text!r} is not understood at column {e.offset}; write for example "x > 3 and y is not null"'
        ) from None
    return _compile(tree, text)


_COMPARE = {ast.Eq: "equal", ast.NotEq: "not_equal", ast.Lt: "less", ast.LtE: "less_equal", ast.Gt: "greater", ast.GtE: "greater_equal"}
_ARITH = {ast.Add: "add_checked", ast.Sub: "subtract_checked", ast.Mult: "multiply_checked", ast.Pow: "power_checked"}


def _compile(n: ast.AST, text: str) -> Callable[[pa.RecordBatch], Any]:
    def bad(why: str) -> ValueError:
        return ValueError(
            f"filter expression {text!r}: {why}; comparisons, and/or/not, + - * / %, in (...), is null and pyarrow.compute functions are understood"
        )

    if isinstance(n, ast.Constant):
        value = pa.scalar(n.value)
        return lambda rb: value
    if isinstance(n, ast.Name):
        name = n.id
        if name in ("null", "NULL"):
            return lambda rb: pa.scalar(None)
        if name in ("true", "false"):
            flag = pa.scalar(name == "true")
            return lambda rb: flag

        def column(rb: pa.RecordBatch) -> Any:
            i = rb.schema.get_field_index(name)
            if i < 0:
                raise _missing(name, rb, f"filter {text!r}")
            return rb.column(i)

        return column
    if isinstance(n, ast.Attribute):  # a struct's field
        inner, field = _compile(n.value, text), n.attr
        return lambda rb: pc.struct_field(inner(rb), field)
    if isinstance(n, ast.BoolOp):
        parts = [_compile(v, text) for v in n.values]
        both = pc.and_kleene if isinstance(n.op, ast.And) else pc.or_kleene

        def boolean(rb: pa.RecordBatch) -> Any:
            v = parts[0](rb)
            for p in parts[1:]:
                v = both(v, p(rb))
            return v

        return boolean
    if isinstance(n, ast.UnaryOp):
        inner = _compile(n.operand, text)
        if isinstance(n.op, ast.Not):
            return lambda rb: pc.invert(inner(rb))
        if isinstance(n.op, ast.USub):
            if isinstance(n.operand, ast.Constant):
                minus = pa.scalar(-n.operand.value)
                return lambda rb: minus
            return lambda rb: pc.negate_checked(inner(rb))
        raise bad(f"{ast.unparse(n)!r} is not understood")
    if isinstance(n, ast.BinOp):
        left, right = _compile(n.left, text), _compile(n.right, text)
        if isinstance(n.op, ast.BitAnd):
            return lambda rb: pc.and_kleene(left(rb), right(rb))
        if isinstance(n.op, ast.BitOr):
            return lambda rb: pc.or_kleene(left(rb), right(rb))
        if isinstance(n.op, ast.Div):
            return lambda rb: pc.divide(pc.cast(left(rb), pa.float64()), pc.cast(right(rb), pa.float64()))
        if isinstance(n.op, ast.Mod):  # Python's sign: a - floor(a / b) * b
            return lambda rb: _modulo(left(rb), right(rb))
        if isinstance(n.op, ast.FloorDiv):
            return lambda rb: _floor_div(left(rb), right(rb))
        if type(n.op) in _ARITH:
            fn = getattr(pc, _ARITH[type(n.op)])
            return lambda rb: fn(left(rb), right(rb))
        raise bad(f"{ast.unparse(n)!r} is not understood")
    if isinstance(n, ast.Compare):
        tests, left = [], n.left
        for op, right in zip(n.ops, n.comparators, strict=True):
            tests.append(_compare(op, left, right, text, bad))
            left = right

        def compare(rb: pa.RecordBatch) -> Any:
            v = tests[0](rb)
            for t in tests[1:]:
                v = pc.and_kleene(v, t(rb))
            return v

        return compare
    if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in pc.list_functions() and not n.keywords:
        name = n.func.id
        args = [_compile(a, text) for a in n.args]
        fn = getattr(pc, name)
        consts = [a.value if isinstance(a, ast.Constant) else None for a in n.args]  # patterns and the like are plain values to pyarrow
        return lambda rb: fn(*[a(rb) if c is None else c for a, c in zip(args, consts, strict=True)])
    raise bad(f"{ast.unparse(n)!r} is not understood")


def _is_null(n: ast.AST) -> bool:
    return isinstance(n, ast.Constant) and n.value is None or isinstance(n, ast.Name) and n.id in ("null", "NULL")


def _compare(op: ast.cmpop, left: ast.AST, right: ast.AST, text: str, bad: Callable[[str], ValueError]) -> Callable[[pa.RecordBatch], Any]:
    a = _compile(left, text)
    if isinstance(op, (ast.Is, ast.IsNot)):
        if not _is_null(right):
            raise bad('only "is null" and "is not null" follow a value')
        return (lambda rb: pc.is_null(a(rb))) if isinstance(op, ast.Is) else (lambda rb: pc.is_valid(a(rb)))
    if isinstance(op, (ast.In, ast.NotIn)):
        if not isinstance(right, (ast.Tuple, ast.List, ast.Set)):
            raise bad('after "in" comes a list of constants')
        try:
            values = pa.array([ast.literal_eval(e) for e in right.elts])
        except (ValueError, pa.ArrowException):
            raise bad('after "in" comes a list of constants of one type') from None

        def isin(rb: pa.RecordBatch) -> Any:
            v = a(rb)
            hit = pc.is_in(v, value_set=values if values.type.equals(v.type) else values.cast(v.type, safe=True))
            hit = pc.if_else(pc.is_valid(v), hit, pa.scalar(None, pa.bool_()))
            return hit if isinstance(op, ast.In) else pc.invert(hit)

        return isin
    fn = getattr(pc, _COMPARE[type(op)])
    b = _compile(right, text)
    return lambda rb: fn(a(rb), b(rb))


def _floor_div(a: Any, b: Any) -> Any:
    if pa.types.is_integer(a.type) and pa.types.is_integer(b.type):
        q = pc.divide_checked(a, b)
        r = pc.subtract_checked(a, pc.multiply_checked(q, b))
        off = pc.and_(pc.not_equal(r, 0), pc.not_equal(pc.less(r, 0), pc.less(b, 0)))
        return pc.subtract_checked(q, pc.cast(off, q.type))
    return pc.floor(pc.divide(a, b))


def _modulo(a: Any, b: Any) -> Any:
    return pc.subtract_checked(a, pc.multiply_checked(_floor_div(a, b), b))
