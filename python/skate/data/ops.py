"""What the operators do to rows, in the worker: one generator function an operator, of the name that the plan knows it by.

Each takes (params, batches): params is the operator's dict (see dataset.py), batches an iterator of pyarrow.RecordBatch (None for a source),
and yields RecordBatches, each as soon as it is there. Nothing here knows about tasks, blocks or memory; stage.py composes and cuts.
`task` says which piece of work runs, for sources, writers and for error notes. A user's exception leaves here as it is, with one note that
says operator, input and row.

Row functions (map, flat_map, filter) go through a batch in pieces whose size follows the bytes that come out, never the clock: what is cut where is
the same on every run.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import inspect
import itertools
import types
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from skate import _skate
from skate.data import bad
from skate.data import batch as _b
from skate.data.context import DataContext
from skate.data.values.frames import from_series
from skate.data.values.unify import columns_are, few, merge, misfits
from skate.data.worker import replay

Batches = Iterator[pa.RecordBatch]

PIECE_BYTES = 1 << 20  # what one piece of a row function should give
PIECE_MIN, PIECE_FIRST, PIECE_MAX = 8, 64, 16384


class Task:
    """The piece of work that this process is at."""

    seq: Any = 0  # number of the task in its stage: the same on every run; None: started ahead of its turn
    unit: bytes = b""  # parameters of a source's unit
    reader: str = ""  # label of the operator that reads
    careful: bool = False  # it was begun before, and the process died: what functions get is kept beforehand
    kept: str | None = None  # such a file
    source_row: int | None = None  # row in it at which the batch that the reader gives begins
    rows_of: list[str] | None = None  # instead: the file of each row of that batch
    letters: bad.Letters  # bad records of this task
    trail: bad.Trail
    cap: int = -1  # a task may stop after so many output rows
    target: int = 16 << 20
    nbytes: Callable[[pa.RecordBatch], int] = staticmethod(lambda rb: rb.nbytes)
    sides: list[int]  # of each input block: the number of the stage's input that it is of
    counters: dict[str, int]  # rows numbered so far, by expression
    _source: str = ""

    @property
    def source(self) -> str:
        """What is being read, for error notes: a file."""
        return self._source

    @source.setter
    def source(self, path: str) -> None:
        self._source = path
        self.reads()

    def reads(self) -> None:
        """It reads from now on: said where the message about this process's death finds it."""
        if self._source:
            _skate.doing(self.reader, "reading " + self._source)


task = Task()
task.counters = {}
task.letters, task.trail = bad.Letters(0), bad.Trail(())


def note(e: BaseException, params: dict[str, Any], where: str, row: int | None = None, rb: pa.RecordBatch | None = None) -> None:
    """Says once, at the innermost operator, where a user function failed. row: the first input row in question; rb: what the function had, to be kept for
    `skate replay`."""
    if not getattr(e, "__skate_noted__", False):
        try:
            e.__skate_noted__ = True  # type: ignore[attr-defined]
        except AttributeError:
            pass
        origin = _origin(params, row)
        e.add_note(f"in {params['label']}: {where}{origin}{_of_task()}" + _kept(e, params, rb, where + origin))


def _origin(params: dict[str, Any], row: int | None) -> str:
    source, at = task.trail.origin(params.get("at", 0), row)
    return f", row {at} of {source}" if at is not None else f" of {source or task.source}" if source or task.source else ""


def _of_task() -> str:
    return f" (task {task.seq})" if task.seq is not None else ""


ROWS = "input rows"
BATCH = "the batch of input rows"


def at_hand(params: dict[str, Any], what: str, row: int, rb: pa.RecordBatch) -> str:
    """A function is about to be called with rb, whose first row is `row`: said where the message about this process's death finds it. After such a death rb is kept for `skate
    replay` first. What is said behind the place."""
    last = row + rb.num_rows - 1
    if task.careful:
        return _at_hand_again(params, f"{what} {row}..{last}{_origin(params, row)}", rb)
    source, at = task.trail.origin(params.get("at", 0), row)
    _skate.doing(params["label"], what, row, last, source or task.source, at, task.seq)
    return ""


def _at_hand_again(params: dict[str, Any], where: str, rb: pa.RecordBatch) -> str:
    again = ""
    if not params.get("large"):
        most = DataContext.get_current().replay_bytes
        try:
            kept = replay.keep(params, rb, where, most) if most > 0 else None
        except Exception:  # a function that cannot be pickled again, a full disk: there is no such file, then
            kept = None
        let_go()
        task.kept = kept
        again = f"; `skate replay {kept}` runs it again" if kept else ""
    _skate.doing(params["label"], where + _of_task() + again)
    return again


def let_go() -> None:
    """What was kept beforehand has not ended the process."""
    if task.kept is not None:
        replay.drop(task.kept)
        task.kept = None


def _kept(e: BaseException, params: dict[str, Any], rb: pa.RecordBatch | None, where: str) -> str:
    most = DataContext.get_current().replay_bytes
    if rb is None or most <= 0 or bad.is_fatal(e) or not _skate.in_worker():
        return ""
    if params.get("large"):
        return "; not kept for `skate replay`: what the function takes along is large"
    try:
        name = replay.keep(params, rb, where, most)
    except Exception as why:  # a function that cannot be pickled again, a full disk: the user's error is what matters
        return f"; not kept for `skate replay`: {str(why).splitlines()[0] if str(why) else type(why).__name__}"
    return f"; `skate replay {name}` runs it again under pdb" if name else ""


def bad_row(params: dict[str, Any], e: BaseException, rb: pa.RecordBatch | None, row: int) -> None:
    """The input row `row` of an operator has failed: it goes to the dead letters, and out of the output."""
    at = params.get("at", 0)
    source, source_row = task.trail.origin(at, row)
    task.letters.add(params, e, rb, row, source, source_row)
    if at < len(task.trail.dropped):
        task.trail.dropped[at].append(row)


def tolerates(params: dict[str, Any]) -> bool:
    """Bad records are not the end of it."""
    return (params.get("on_error") or "raise") != "raise"


# ---- sources and sinks: the format's own file does it


@functools.cache
def _run_of(module: str) -> Callable[..., Batches]:
    return importlib.import_module(module).run


def read(params: dict[str, Any], batches: None) -> Batches:
    known: Any = params.get("read_before")  # by an earlier task of this stage
    for rb in _run_of("skate.data.read." + params["format"])(params, task):
        if known is None or not rb.schema.equals(known):
            from skate.data.values.unify import check_names

            params["read_before"] = known = rb.schema
            check_names(known.names, f"{params['label']}, {task.source or 'its input'}")
        yield rb


def write(params: dict[str, Any], batches: Batches) -> Batches:
    yield from _run_of("skate.data.write." + params["format"])(params, batches, task)


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


def zip_rows(params: dict[str, Any], batches: Batches) -> Batches:
    """The same rows of several inputs side by side; a name that is taken gets _1, _2, ..."""
    from skate.data.values.unify import free_name

    sides: dict[int, list[pa.RecordBatch]] = {}
    for side, rb in zip(task.sides, batches, strict=True):
        sides.setdefault(side, []).append(rb)
    cols: dict[str, Any] = {}
    for side in sorted(sides, key=params["order"].__getitem__):
        rb = merge(sides[side])
        for name, col in zip(rb.schema.names, rb.columns, strict=True):
            cols[free_name(cols, name)] = col
    yield pa.RecordBatch.from_arrays(list(cols.values()), names=list(cols))


def map_batches(params: dict[str, Any], batches: Batches) -> Batches:
    row = 0
    tolerant = tolerates(params)
    for rb in rebatch(batches, params["batch_size"]):
        n = rb.num_rows
        if n == 0:
            continue
        if tolerant:
            at_hand(params, BATCH, row, rb)
            try:
                out: Any = list(_called(params, rb))
            except Exception as e:
                out = bad.isolate(e, rb, row, lambda part: list(_called(params, part)), functools.partial(bad_row, params))
            yield from out
        else:
            at_hand(params, BATCH, row, rb)
            try:
                yield from _called(params, rb)
            except GeneratorExit:
                raise
            except BaseException as e:
                note(e, params, f"the batch of input rows {row}..{row + n - 1}", row, rb)
                raise
        row += n


def _called(params: dict[str, Any], rb: pa.RecordBatch) -> Batches:
    """What the function of map_batches makes of one batch."""
    fn, label, fmt = params["fn"], params["label"], params["batch_format"]
    numpy = fmt == "numpy" or fmt == "default"
    given = _b.NumpyBatch(rb, not params["zero_copy_batch"]) if numpy else _b.to_batch(rb, fmt)
    out = fn(given, *params["fn_args"], **params["fn_kwargs"])
    if type(out) is dict:  # the usual case, before what asks for more
        yield from _b.from_batch(out, label, rb, given if numpy else None)
        return
    if inspect.isawaitable(out) or inspect.isasyncgen(out):
        out = _awaited(out)
    if isinstance(out, types.GeneratorType) or (not isinstance(out, (Mapping, pa.Table, pa.RecordBatch)) and hasattr(out, "__next__")):
        for o in out:
            yield from _b.from_batch(o, label, rb, given if numpy else None)
    else:
        yield from _b.from_batch(out, label, rb, given if numpy else None)


def _awaited(out: Any) -> Any:
    """What a coroutine returns; a list of what an async generator yields, as an iterator."""
    from skate.data.expr_eval import run_async

    if inspect.isasyncgen(out):
        return iter(run_async(_collected(out)))
    return run_async(out)


async def _collected(agen: Any) -> list[Any]:
    return [v async for v in agen]


async def _all(work: list[Any]) -> list[Any]:
    """Results of coroutines and async generators (lists of what they yield), all of them running at once."""
    import asyncio

    return list(await asyncio.gather(*[_collected(w) if inspect.isasyncgen(w) else w for w in work]))


def _finished(got: list[Any]) -> list[Any]:
    """Results of a row function, row by row: those of an async one once all rows of the piece are done, side by side."""
    if got and (inspect.isawaitable(got[0]) or inspect.isasyncgen(got[0])):
        from skate.data.expr_eval import run_async

        return run_async(_all(got))
    return got


def pieces(batches: Batches, work: Callable[[pa.RecordBatch], list[pa.RecordBatch]], whole: bool) -> Batches:
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
            if out:
                per_row = max(1, sum(builtins.map(task.nbytes, out))) / k
                size = int(max(PIECE_MIN, min(PIECE_MAX, 4 * size, PIECE_BYTES / per_row)))
                if whole:
                    done += out
                else:
                    yield from out
        if done:
            yield merge(done)


def _rows(
    params: dict[str, Any],
    batches: Batches,
    check: Callable[[list[Any]], None],
    build: Callable[[list[Any], pa.RecordBatch], list[pa.RecordBatch]],
    lists: bool = False,
) -> Batches:
    """Common part of the row operators. check raises for a result that is none; build makes batches of the results for a batch of rows. lists: generators are results,
    too."""
    fn = _bound(params)
    base = [0]
    if task.careful:
        fn = _row_by_row(fn, params, again := [""])

    def begin(rb: pa.RecordBatch) -> None:
        said = at_hand(params, ROWS, base[0], rb)
        if task.careful:
            again[0] = said

    def strict(rb: pa.RecordBatch) -> list[pa.RecordBatch]:
        begin(rb)
        rows = _b.to_rows(rb)
        it: Any = iter(rows)
        got = None
        try:
            got = [fn(r) for r in it]
            got = _finished(got)
            check(got)
            return build(got, rb)
        except BaseException as e:
            left = it.__length_hint__()
            n = len(rows)
            one = base[0] + n - left - 1
            if got is None or n == 1:
                note(e, params, f"input row {one}", one, rb.slice(one - base[0], 1))
            else:
                note(e, params, f"input rows {base[0]}..{base[0] + n - 1}", base[0], rb)
            raise
        finally:
            base[0] += len(rows)

    def tolerant(rb: pa.RecordBatch) -> list[pa.RecordBatch]:
        begin(rb)
        at, n = base[0], rb.num_rows
        base[0] += n
        got: list[Any] = []
        it = builtins.map(fn, _b.to_rows(rb))
        failed: dict[int, BaseException] = {}
        while len(got) < n:
            try:
                got.extend(it)  # what came before an exception stays; a loop costs 15 ns a row more
                if len(got) < n:  # the function raised StopIteration, which ends the loop inside
                    raise RuntimeError("the function raised StopIteration")
            except Exception as e:
                if bad.is_fatal(e):
                    raise
                failed[len(got)] = e
                got.append(None)
        if any(inspect.isawaitable(g) or inspect.isasyncgen(g) for g in got[:FIRST_FEW]):
            got = _tolerant_finished(got, failed)
        if lists and not set(builtins.map(type, got)) <= {list, tuple}:  # a generator that fails half-way cannot be asked again
            for i, v in enumerate(got):
                if i not in failed:
                    try:
                        got[i] = _listed(v)
                    except Exception as e:
                        if bad.is_fatal(e):
                            raise
                        failed[i], got[i] = e, None
        if not failed:  # the usual case
            try:
                check(got)
                return build(got, rb)
            except Exception as e:
                if bad.is_fatal(e):
                    raise
        out = _settle(got, failed, rb, check, build)
        for i in sorted(failed):
            bad_row(params, failed[i], rb.slice(i, 1), at + i)
        return out

    yield from pieces(batches, tolerant if tolerates(params) else strict, params.get("whole", False))


def _row_by_row(fn: Callable[[Any], Any], params: dict[str, Any], again: list[str]) -> Callable[[Any], Any]:
    """fn that says before each call which row it is at."""
    rows = itertools.count()

    def called(row: Any) -> Any:
        k = next(rows)
        _skate.doing(params["label"], f"input row {k}{_origin(params, k)}{_of_task()}{again[0]}")
        return fn(row)

    return called


FIRST_FEW = 64  # results that are looked at: rows before them may have failed


def _tolerant_finished(got: list[Any], failed: dict[int, BaseException]) -> list[Any]:
    """Results of async calls; the exceptions go to `failed`."""
    from skate.data.expr_eval import run_async

    async def settled() -> list[Any]:
        import asyncio

        async def plain(v: Any) -> Any:
            return v

        work = [_collected(g) if inspect.isasyncgen(g) else g if inspect.isawaitable(g) else plain(g) for g in got]
        return list(await asyncio.gather(*work, return_exceptions=True))

    out = run_async(settled())
    for i, v in enumerate(out):
        if isinstance(v, BaseException):
            if bad.is_fatal(v):
                raise v
            failed[i] = v
            out[i] = None
    return out


def _settle(
    got: list[Any],
    failed: dict[int, BaseException],
    rb: pa.RecordBatch,
    check: Callable[[list[Any]], None],
    build: Callable[[list[Any], pa.RecordBatch], list[pa.RecordBatch]],
) -> list[pa.RecordBatch]:
    """A batch of the results that are good, alone and beside the others: where they are of types that do not go together, see majority.py. The rest goes to `failed`."""
    good: list[tuple[list[int], list[pa.RecordBatch]]] = []
    todo = [[i for i in range(len(got)) if i not in failed]]
    while todo:
        some = todo.pop()
        if not some:
            continue
        values = [got[i] for i in some]
        try:
            check(values)
            part = build(values, rb if len(some) == rb.num_rows else rb.take(_b.from_objects(some, pa.int64())))
        except Exception as e:
            if bad.is_fatal(e):
                raise
            if len(some) == 1:
                failed[some[0]] = e
            else:
                todo += [some[len(some) // 2 :], some[: len(some) // 2]]
            continue
        good.append((some, part))
    out: list[pa.RecordBatch] = []
    for (some, part), why in zip(good, misfits([(len(some), part[0].schema if part else None) for some, part in good]), strict=True):
        if why is None:
            out += part
        else:
            failed.update(dict.fromkeys(some, why))
    return [merge(out)] if out else []


def _bound(params: dict[str, Any]) -> Callable[[dict[str, Any]], Any]:
    fn, args, kwargs = params["fn"], params["fn_args"], params["fn_kwargs"]
    return fn if not args and not kwargs else lambda r: fn(r, *args, **kwargs)


def map(params: dict[str, Any], batches: Batches) -> Batches:  # noqa: A001
    label = params["label"]
    return _rows(
        params, batches, lambda got: _check_rows(got, label, "a dict (one row)"), lambda got, rb: _b.rows_to_batches(got, label, rb)
    )


def flat_map(params: dict[str, Any], batches: Batches) -> Batches:
    label = params["label"]

    def check(got: list[Any]) -> None:
        if not set(builtins.map(type, got)) <= {list, tuple}:
            for i, g in enumerate(got):
                if g is None or isinstance(g, (Mapping, str, bytes)) or not isinstance(g, Iterable):
                    raise ValueError(f"{label} returned {_b._named(g)} for row {i} of its batch; return a list of dicts (rows)")
                if not isinstance(g, (list, tuple)):
                    got[i] = list(g)

    def build(got: list[Any], rb: pa.RecordBatch) -> list[pa.RecordBatch]:
        out = list(itertools.chain.from_iterable(got))
        _check_rows(out, label, "a list of dicts (rows)")
        return _b.rows_to_batches(out, label, rb)

    return _rows(params, batches, check, build, lists=True)


def _listed(v: Any) -> Any:
    return list(v) if isinstance(v, types.GeneratorType) or (hasattr(v, "__next__") and not inspect.isawaitable(v)) else v


def _check_rows(out: list[Any], label: str, want: str) -> None:
    kinds = set(builtins.map(type, out))
    if kinds != {dict}:
        for i, r in enumerate(out):
            if not isinstance(r, Mapping):
                raise ValueError(f"{label} returned {_b._named(r)} for row {i} of its batch; return {want}")


def filter(params: dict[str, Any], batches: Batches) -> Batches:  # noqa: A001
    if params.get("expr") is not None:
        from skate.data.coded import plain_columns
        from skate.data.expr_eval import mask as test  # 80 ms at the first import: only who has an expression pays it
        from skate.data.expressions import columns_of

        used = columns_of(params["expr"])

        def kept(rb: pa.RecordBatch) -> list[pa.RecordBatch]:
            mask = test(params["expr"], plain_columns(rb, used))
            return [rb.filter(mask) if isinstance(mask, pa.Array) else rb.slice(0, rb.num_rows if mask.as_py() else 0)]

        yield from _by_batch(params, batches, kept)
        return

    def build(got: list[Any], rb: pa.RecordBatch) -> list[pa.RecordBatch]:
        keep = [True if v else False for v in got]
        return [rb if all(keep) else rb.filter(_b.array_from_numpy(np.array(keep, bool), None))]

    yield from _rows(params, batches, lambda got: None, build)


def _by_batch(params: dict[str, Any], batches: Batches, work: Callable[[pa.RecordBatch], list[pa.RecordBatch]]) -> Batches:
    """work() over batches whose rows do not know of each other."""
    row = 0
    tolerant = tolerates(params)
    for rb in batches:
        if "fn" in params and rb.num_rows:
            at_hand(params, ROWS, row, rb)
        try:
            out: Any = work(rb)
        except BaseException as e:
            if tolerant and rb.num_rows:
                out = bad.isolate(e, rb, row, work, functools.partial(bad_row, params))
            else:
                note(e, params, f"input rows {row}..{row + rb.num_rows - 1}", row, rb)
                raise
        yield from out
        row += rb.num_rows


# ---- columns


def _missing(name: str, rb: pa.RecordBatch, label: str) -> KeyError:
    return KeyError(f"{label}: there is no column {name!r}; {columns_are(name, rb.schema.names)}")


def add_column(params: dict[str, Any], batches: Batches) -> Batches:
    fn, label, fmt, col = params["fn"], params["label"], params["batch_format"], params["col"]

    def work(rb: pa.RecordBatch) -> list[pa.RecordBatch]:
        arr = _new_column(fn(_b.to_batch(rb, fmt), *params["fn_args"], **params["fn_kwargs"]), col, fmt, rb.num_rows)
        if len(arr) != rb.num_rows:
            raise ValueError(f"{label} returned {len(arr)} values for {rb.num_rows} rows; return one value per row")
        i = rb.schema.get_field_index(col)
        names, cols = list(rb.schema.names), list(rb.columns)
        if i >= 0:
            cols[i] = arr
        else:
            names.append(col)
            cols.append(arr)
        return _b.record_batches(names, cols)

    yield from _by_batch(params, (rb for rb in batches if rb.num_rows), work)


_RETURNS = {"pyarrow": ((pa.Array, pa.ChunkedArray), "pyarrow Array"), "numpy": (np.ndarray, "numpy.ndarray")}


def _new_column(v: Any, name: str, fmt: str, rows: int) -> Any:
    """What the function of add_column returned for a batch, as a column; TypeError when it is not what its format asks for."""
    if fmt in _RETURNS:
        kind, said = _RETURNS[fmt]
        if not isinstance(v, kind):
            raise TypeError(f"For {fmt} batch format, a function returns a {said}, not {type(v)}")
    elif type(v).__module__.startswith("pandas"):
        if hasattr(v, "columns"):
            if len(v.columns) != 1:
                raise ValueError(f"a DataFrame with {len(v.columns)} columns was returned for the one new column")
            v = v.iloc[:, 0]
        if hasattr(v, "dtype"):
            return from_series(v if hasattr(v, "iloc") else v.to_series(), None)
    elif isinstance(v, (str, bytes)) or not hasattr(v, "__len__"):  # pandas gives every row the one value
        return _b.from_objects([v] * rows, None)
    elif not hasattr(v, "dtype"):
        v = list(v)
    return _b._column(v, name, None, None)


def conform(params: dict[str, Any], batches: Batches) -> Batches:
    """In a schema that holds the input's: see Dataset.union. Columns that nobody asked the input for stay away."""
    from skate.data.values.unify import cast_batch

    whole, lacks = params["schema"], set(params["lacks"])
    for rb in batches:
        have = lacks.union(rb.schema.names)
        to = whole if have.issuperset(whole.names) else pa.schema([f for f in whole if f.name in have])
        try:
            out = cast_batch(rb, to)
        except TypeError as e:
            raise TypeError(f"union: {e}") from None
        yield out


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
    from skate.data.values.unify import check_names

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
                raise ValueError(f"{params['label']}: {len(names)} names for {len(old)} columns ({few(old)})")
            new = names
        check_names(new, params["label"])
        yield rb.rename_columns(new)


def project(params: dict[str, Any], batches: Batches) -> Batches:
    """New columns from expressions (all from the old ones), after or instead of the old ones; in the place of one that has their name."""
    from skate.data.expr_eval import column

    exprs, keep = params["exprs"], params["keep"]

    def work(rb: pa.RecordBatch) -> list[pa.RecordBatch]:
        numbered = dict(task.counters)
        try:
            made = {name: column(e, rb) for name, e in exprs}
        except BaseException:
            task.counters.clear()
            task.counters.update(numbered)  # its rows are tried again, or not at all
            raise
        cols = {**(dict(zip(rb.schema.names, rb.columns, strict=True)) if keep else {}), **made}
        return _b.record_batches(list(cols), list(cols.values()))

    yield from _by_batch(params, batches, work)


project_numbered = project


def random_sample(params: dict[str, Any], batches: Batches) -> Batches:
    rng = np.random.default_rng([task.seq, params["seed"] & 0xFFFFFFFFFFFFFFFF])  # a function of (task, seed, row), Ray's own
    for rb in batches:
        yield rb.filter(_b.array_from_numpy(rng.random(rb.num_rows) < params["fraction"], None))


def split_rows(params: dict[str, Any], batches: Batches) -> Batches:
    """One side of streaming_train_test_split: a row's side follows from (seed, task, row), or from the value of a column."""
    rng = np.random.Generator(np.random.Philox(key=[params["seed"] & 0xFFFFFFFFFFFFFFFF, task.seq]))
    for rb in batches:
        if params["column"] is None:
            test = rng.random(rb.num_rows) < params["share"]
        else:
            i = rb.schema.get_field_index(params["column"])
            if i < 0:
                raise _missing(params["column"], rb, params["label"])
            test = np.array([zlib.crc32(repr(v).encode()) for v in rb.column(i).to_pylist()], np.uint32) < params["share"] * 2**32
        yield rb.filter(_b.array_from_numpy(test if params["test"] else ~test, None))


def repartition(params: dict[str, Any], batches: Batches) -> Batches:
    """Blocks of so many rows; stage.py leaves them as they are."""
    return rebatch(batches, params["rows"])


# ---- aggregates: one small row a task, combined by the driver (execute.combine)


def count(params: dict[str, Any], batches: Batches) -> Batches:
    n = 0
    for rb in batches:
        n += rb.num_rows
    yield pa.RecordBatch.from_arrays([_b.from_objects([n], None)], names=["count"])


def aggregate(params: dict[str, Any], batches: Batches) -> Batches:
    from skate.data.combine import partial, partial_fns

    yield from (partial_fns if "fns" in params else partial)(params, batches)
