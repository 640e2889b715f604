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
from skate._deps import pa
from skate.data.expr import evaluation
from skate.data.on_error import is_fatal
from skate.data.op import Batches
from skate.data.values import batch, row_dicts, selection
from skate.data.values.unify import columns_are, merge, misfits
from skate.data.worker import coroutines
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
    begin: Callable[[pa.RecordBatch], None] | None = None,
) -> Batches:
    """Applies work() to ranges of rows of each batch, whose sizes follow the bytes of the output.
    whole: joins the results of a batch again, for an operator that needs whole batches. keeps: the
    output has the columns of the input, so a batch without rows is passed on unchanged. begin: gets
    each batch before its first range."""
    size = PIECE_FIRST
    for rb in batches:
        n, at = rb.num_rows, 0
        done: list[pa.RecordBatch] = []
        if n == 0:
            if keeps:
                yield rb
            continue
        if begin is not None:
            begin(rb)
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
    pieces(). The calls of an async function run side by side, also those of rows behind the piece
    that is made."""
    fn = _bound(params)
    base = [0]
    n_items = [PIECE_MIN]
    limit = params.get("max_concurrency") or coroutines.ROWS
    if task.careful:
        fn = _row_by_row(fn, params, task, again := [""])
    ahead = _Ahead(fn, limit) if coroutines.wanted(params) else None

    def begin(rb: pa.RecordBatch) -> None:
        said = task.at_hand(params, ROWS, base[0], rb if ahead is None else ahead.in_reach(rb))
        if task.careful:
            again[0] = said

    def strict(rb: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        begin(rb)
        n = rb.num_rows
        some: Any = row_dicts.to_rows(rb) if ahead is None else ahead.take(n, strict=True)
        it, got = iter(some), None
        try:
            if ahead is not None:
                got = [call.result() for call in it]
            else:
                got = [fn(r) for r in it]
                if lists and set(map(type, got)) == {types.GeneratorType}:
                    return _streamed(got, rb, params, task, base[0], n_items, build)
                if inspect.isawaitable(got[0]) or inspect.isasyncgen(got[0]):
                    some = coroutines.finished(got, limit)
                    it, got = iter(some), None
                    got = [call.result() for call in it]
            check(got)
            return build(got, rb)
        except BaseException as e:
            one = base[0] + len(some) - it.__length_hint__() - 1
            if got is None or n == 1:
                task.note(e, params, f"input row {one}", one, rb.slice(one - base[0], 1))
            else:
                task.note(e, params, f"input rows {base[0]}..{base[0] + n - 1}", base[0], rb)
            raise
        finally:
            base[0] += n

    def tolerant(rb: pa.RecordBatch) -> list[pa.RecordBatch]:
        begin(rb)
        at, n = base[0], rb.num_rows
        base[0] += n
        failed: dict[int, BaseException] = {}
        if ahead is not None:
            got = _settled(ahead.take(n), failed)
        else:
            got = _tried(fn, row_dicts.to_rows(rb), failed)
            if any(inspect.isawaitable(g) or inspect.isasyncgen(g) for g in got[:FIRST_FEW]):
                got = _settled(coroutines.finished(got, limit), failed)
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

    try:
        yield from pieces(
            batches,
            task,
            tolerant if tolerates(params) else strict,
            params.get("whole", False),
            keeps,
            None if ahead is None else ahead.begin,
        )
    finally:
        if ahead is not None:
            ahead.window.close()


class _Ahead:
    """The calls of an async row function for one batch after the other. fn: the function."""

    def __init__(self, fn: Callable[[Any], Any], limit: int):
        self.fn, self.window = fn, coroutines.Window(limit)
        self.rb: Any = None
        self.at = 0  # the number of rows of rb whose calls have been taken

    def begin(self, rb: pa.RecordBatch) -> None:
        self.rb, self.at = rb, 0
        parts = (rb.slice(at, PIECE_FIRST) for at in range(0, rb.num_rows, PIECE_FIRST))
        self.window.feed(self.fn, itertools.chain.from_iterable(map(row_dicts.to_rows, parts)))

    def in_reach(self, part: pa.RecordBatch) -> pa.RecordBatch:
        """The rows for which the function may run while the calls for `part`, the next rows, are
        taken."""
        return self.rb.slice(self.at, part.num_rows + 2 * self.window.limit)

    def take(self, n: int, strict: bool = False) -> list[coroutines.Call]:
        self.at += n
        return self.window.take(n, strict)


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


def _tried(fn: Callable[[Any], Any], rows: Any, failed: dict[int, BaseException]) -> list[Any]:
    """The results of fn for each row; exceptions, by row, are moved to `failed`."""
    got: list[Any] = []
    it = map(fn, rows)
    while len(got) < len(rows):
        try:
            # results before an exception stay; a loop in place of extend() takes 15 ns more for
            # each row
            got.extend(it)
            if len(got) < len(rows):  # the function raised StopIteration, which has ended extend()
                raise RuntimeError("the function raised StopIteration")
        except Exception as e:
            if is_fatal(e):
                raise
            failed[len(got)] = e
            got.append(None)
    return got


# the number of first results that are searched for coroutines: an early row may have failed, so one
# is not enough
FIRST_FEW = 64


def _settled(calls: list[coroutines.Call], failed: dict[int, BaseException]) -> list[Any]:
    """The results of async calls that have ended; exceptions, by row, are moved to `failed`."""
    for i, call in enumerate(calls):
        if call.error is not None:
            if is_fatal(call.error):
                raise call.error
            failed[i] = call.error
    return [None if call.error is not None else call.items[0] for call in calls]


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
    return coroutines.steps(out) if inspect.isasyncgen(out) else evaluation.run_async(out)


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
