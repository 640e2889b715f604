"""Calls users' functions on the rows or batches of a task, checks their results, and turns failing
rows into dead letters.

Row functions (map, flat_map, filter) go through a batch in pieces. The size of a piece follows the
bytes of the output, never the clock, so the pieces are the same in each run.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from skate import _skate
from skate._deps import asyncio, pa
from skate.data.expr import evaluation
from skate.data.on_error import is_fatal
from skate.data.op import Batches
from skate.data.values import batch, row_dicts, selection
from skate.data.values.unify import columns_are, merge, misfits
from skate.data.worker.dead_letters import isolate
from skate.data.worker.task import ROWS, Task, tolerates

PIECE_BYTES = 1 << 20  # the bytes of output that a row function should make of one piece
PIECE_MIN, PIECE_FIRST, PIECE_MAX = 8, 64, 16384


def by_batch(
    params: dict[str, Any],
    batches: Batches,
    task: Task,
    work: Callable[[pa.RecordBatch], list[pa.RecordBatch]],
) -> Batches:
    """Applies work() to batches. If work() fails, halves of a batch are tried, since rows do not
    depend on each other."""
    row = 0
    tolerant = tolerates(params)
    for rb in batches:
        if "fn" in params and rb.num_rows:
            task.at_hand(params, ROWS, row, rb)
        try:
            out: Any = work(rb)
        except BaseException as e:
            if tolerant and rb.num_rows:
                out = isolate(e, rb, row, work, functools.partial(task.bad_row, params))
            else:
                task.note(e, params, f"input rows {row}..{row + rb.num_rows - 1}", row, rb)
                raise
        yield from out
        row += rb.num_rows


def pieces(
    batches: Batches,
    task: Task,
    work: Callable[[pa.RecordBatch], Iterable[pa.RecordBatch]],
    whole: bool,
    keeps: bool,
) -> Batches:
    """Applies work() to ranges of rows of each batch, whose sizes follow the bytes of the output.
    whole: joins the results of a batch again, for an operator that needs whole batches. keeps: the
    output has the columns of the input, so a batch without rows is passed on unchanged."""
    size = PIECE_FIRST
    for rb in batches:
        n, at = rb.num_rows, 0
        done: list[pa.RecordBatch] = []
        if n == 0:
            if keeps:
                yield rb
            continue
        while at < n:
            k = min(size, n - at)
            made = []
            for out in work(rb if k == n else rb.slice(at, k)):
                made.append(task.nbytes(out))
                if whole:
                    done.append(out)
                else:
                    yield out
            at += k
            if made:
                size = max(PIECE_MIN, _next_size(size, k, sum(made)))
        if done:
            yield merge(done)


def _next_size(size: int, n: int, nbytes: int) -> int:
    """How many rows or items are next, after `size` of them before, of which n made nbytes."""
    return int(max(1, min(PIECE_MAX, 4 * size, PIECE_BYTES / (max(1, nbytes) / n))))


def by_row(
    params: dict[str, Any],
    batches: Batches,
    task: Task,
    check: Callable[[list[Any]], None],
    build: Callable[[list[Any], pa.RecordBatch], list[pa.RecordBatch]],
    lists: bool = False,
    keeps: bool = False,
) -> Batches:
    """The common part of the row operators: calls the function for each row. check() raises for an
    invalid result; build() makes batches of the results for a batch of rows. lists: results may be
    generators; their items are built as they come, unless bad rows are left out. keeps: see
    pieces()."""
    fn = _bound(params)
    base = [0]
    n_items = [PIECE_MIN]
    if task.careful:
        fn = _row_by_row(fn, params, task, again := [""])

    def begin(rb: pa.RecordBatch) -> None:
        said = task.at_hand(params, ROWS, base[0], rb)
        if task.careful:
            again[0] = said

    def strict(rb: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        begin(rb)
        rows = row_dicts.to_rows(rb)
        it: Any = iter(rows)
        got = None
        try:
            got = [fn(r) for r in it]
            if lists and set(map(type, got)) == {types.GeneratorType}:
                return _streamed(got, rb, params, task, base[0], n_items, build)
            got = _finished(got)
            check(got)
            return build(got, rb)
        except BaseException as e:
            left = it.__length_hint__()
            n = len(rows)
            one = base[0] + n - left - 1
            if got is None or n == 1:
                task.note(e, params, f"input row {one}", one, rb.slice(one - base[0], 1))
            else:
                task.note(e, params, f"input rows {base[0]}..{base[0] + n - 1}", base[0], rb)
            raise
        finally:
            base[0] += len(rows)

    def tolerant(rb: pa.RecordBatch) -> list[pa.RecordBatch]:
        begin(rb)
        at, n = base[0], rb.num_rows
        base[0] += n
        got: list[Any] = []
        it = map(fn, row_dicts.to_rows(rb))
        failed: dict[int, BaseException] = {}
        while len(got) < n:
            try:
                # results before an exception stay; a loop in place of extend() takes 15 ns more for
                # each row
                got.extend(it)
                if len(got) < n:  # the function raised StopIteration, which has ended extend()
                    raise RuntimeError("the function raised StopIteration")
            except Exception as e:
                if is_fatal(e):
                    raise
                failed[len(got)] = e
                got.append(None)
        if any(inspect.isawaitable(g) or inspect.isasyncgen(g) for g in got[:FIRST_FEW]):
            got = _tolerant_finished(got, failed)
        # Generators are read to their end here, because one that fails half-way cannot be read
        # again.
        if lists and not set(map(type, got)) <= {list, tuple}:
            for i, v in enumerate(got):
                if i not in failed:
                    try:
                        got[i] = _listed(v)
                    except Exception as e:
                        if is_fatal(e):
                            raise
                        failed[i], got[i] = e, None
        if not failed:  # in most calls no row has failed
            try:
                check(got)
                return build(got, rb)
            except Exception as e:
                if is_fatal(e):
                    raise
        out = _settle(got, failed, rb, check, build)
        for i in sorted(failed):
            task.bad_row(params, failed[i], rb.slice(i, 1), at + i)
        return out

    yield from pieces(
        batches, task, tolerant if tolerates(params) else strict, params.get("whole", False), keeps
    )


def _streamed(
    got: list[Any],
    rb: pa.RecordBatch,
    params: dict[str, Any],
    task: Task,
    first: int,
    size: list[int],
    build: Callable[[list[Any], pa.RecordBatch], list[pa.RecordBatch]],
) -> Iterator[pa.RecordBatch]:
    """Reads generators, one for each row of rb, one after the other, and builds every size[0]
    items, so that no more wait. first: the number of the first row; size: follows the bytes."""
    at = 0  # the row whose generator is read

    def blame(e: BaseException, since: int) -> None:
        where = f"row {first + at}" if since == at else f"rows {first + since}..{first + at}"
        task.note(e, params, f"input {where}", first + since, rb.slice(since, at - since + 1))

    def each() -> Iterator[Any]:
        nonlocal at
        for at, items in enumerate(got):
            try:
                yield from items
            except GeneratorExit:
                raise
            except BaseException as e:
                blame(e, at)
                raise

    items, since = each(), 0
    while some := list(itertools.islice(items, size[0])):
        try:
            made = build([some], rb)
        except BaseException as e:
            blame(e, since)
            raise
        yield from made
        since = at
        size[0] = _next_size(size[0], len(some), sum(map(task.nbytes, made)))


def _row_by_row(
    fn: Callable[[Any], Any], params: dict[str, Any], task: Task, again: list[str]
) -> Callable[[Any], Any]:
    """Wraps fn: before each call it records the row that fn is called for."""
    rows = itertools.count()

    def called(row: Any) -> Any:
        k = next(rows)
        _skate.doing(
            params["label"], f"input row {k}{task.origin(params, k)}{task.number()}{again[0]}"
        )
        return fn(row)

    return called


# the number of first results that are searched for coroutines: an early row may have failed, so one
# is not enough
FIRST_FEW = 64


def _tolerant_finished(got: list[Any], failed: dict[int, BaseException]) -> list[Any]:
    """Returns the results of async calls in which exceptions, by row, are moved to `failed`."""

    async def settled() -> list[Any]:
        async def plain(v: Any) -> Any:
            return v

        work = [
            _collected(g) if inspect.isasyncgen(g) else g if inspect.isawaitable(g) else plain(g)
            for g in got
        ]
        return list(await asyncio.gather(*work, return_exceptions=True))

    out = evaluation.run_async(settled())
    for i, v in enumerate(out):
        if isinstance(v, BaseException):
            if is_fatal(v):
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
    """Builds batches of the good results. Each result is checked by itself, and whether its types
    fit those of the others (dominant_type.py). The rows with bad results are added to `failed`."""
    good: list[tuple[list[int], list[pa.RecordBatch]]] = []
    todo = [[i for i in range(len(got)) if i not in failed]]
    while todo:
        some = todo.pop()
        if not some:
            continue
        values = [got[i] for i in some]
        try:
            check(values)
            part = build(values, rb if len(some) == rb.num_rows else selection.take(rb, some))
        except Exception as e:
            if is_fatal(e):
                raise
            if len(some) == 1:
                failed[some[0]] = e
            else:
                todo += [some[len(some) // 2 :], some[: len(some) // 2]]
            continue
        good.append((some, part))
    out: list[pa.RecordBatch] = []
    for (some, part), why in zip(
        good,
        misfits([(len(some), part[0].schema if part else None) for some, part in good]),
        strict=True,
    ):
        if why is None:
            out += part
        else:
            failed.update(dict.fromkeys(some, why))
    return [merge(out)] if out else []


def _bound(params: dict[str, Any]) -> Callable[[dict[str, Any]], Any]:
    fn, args, kwargs = params["fn"], params["fn_args"], params["fn_kwargs"]
    return fn if not args and not kwargs else lambda r: fn(r, *args, **kwargs)


def awaited(out: Any) -> Any:
    """Runs a coroutine and returns its result; for an async generator, returns an iterator over its
    items. The generator goes on when the next item is asked for, so no more than one waits, however
    many it makes."""
    if inspect.isasyncgen(out):
        return _steps(out)
    return evaluation.run_async(out)


def _steps(agen: Any) -> Iterator[Any]:
    end = object()
    try:
        while (v := evaluation.run_async(anext(agen, end))) is not end:
            yield v
    finally:
        evaluation.run_async(agen.aclose())


async def _collected(agen: Any) -> list[Any]:
    return [v async for v in agen]


async def _all(work: list[Any]) -> list[Any]:
    """Runs coroutines and async generators concurrently; returns their results (for a generator the
    list of its items)."""
    return list(
        await asyncio.gather(*[_collected(w) if inspect.isasyncgen(w) else w for w in work])
    )


def _finished(got: list[Any]) -> list[Any]:
    """The results of a row function, one for each row. The calls of an async function run
    concurrently; all of them end before this returns."""
    if got and (inspect.isawaitable(got[0]) or inspect.isasyncgen(got[0])):
        return evaluation.run_async(_all(got))
    return got


def _listed(v: Any) -> Any:
    return (
        list(v)
        if isinstance(v, types.GeneratorType)
        or (hasattr(v, "__next__") and not inspect.isawaitable(v))
        else v
    )


def check(out: list[Any], label: str, want: str) -> None:
    """Raises ValueError for results that are not rows."""
    kinds = set(map(type, out))
    if kinds != {dict}:
        for i, r in enumerate(out):
            if not isinstance(r, Mapping):
                raise ValueError(
                    f"{label} returned {batch.named(r)} for row {i} of its batch; return {want}"
                )


def missing(name: str, rb: pa.RecordBatch, label: str) -> KeyError:
    """The KeyError of an operator whose input lacks a column."""
    return KeyError(f"{label}: there is no column {name!r}; {columns_are(name, rb.schema.names)}")
