"""map_batches: applies a user function to batches. The function may change the number of rows and
reads whole batches, so the optimiser can assume nothing about it."""

from __future__ import annotations

import functools
import inspect
import time
import types
from collections.abc import Iterator, Mapping
from typing import Any

from skate import _skate
from skate._deps import pa
from skate.data.op import Batches, Operator, Params
from skate.data.values import batch, numpy_batch, rebatch
from skate.data.worker import coroutines, dead_letters, rows
from skate.data.worker import task as tasks
from skate.data.worker.batch_sizer import Sizer, no_memory


class MapBatches(Operator):
    on_error = True

    def whole_blocks(self, params: Params) -> bool:
        return params.get("batch_size") is None

    def frames(self, params: Params) -> bool:
        return params["batch_format"] == "pandas"

    def encoded(self, params: Params) -> bool:
        """The operator accepts dictionary-encoded strings: the function gets plain strings, and the
        columns that it returns unchanged stay encoded."""
        return params["batch_format"] in ("default", "numpy") and params["batch_size"] is None

    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        params["in_store"] = tasks.DataContext.get_current().arrays_in_store
        size, call = params["batch_size"], called
        if size == "auto":
            # kept for the later tasks of this process
            size = params.setdefault("sizer", Sizer())
            call = measured
        elif coroutines.wanted(params):
            return _side_by_side(params, rebatch.rebatch(batches, size), task)
        return _in_turn(params, rebatch.rebatch(batches, size), task, call)


def _in_turn(params: Params, batches: Batches, task: Any, call: Any) -> Batches:
    """Calls the function with one batch after the other."""
    row = 0
    for rb in batches:
        if rb.num_rows:
            task.at_hand(params, tasks.BATCH, row, rb)
            yield from _checked(params, task, row, rb, call(params, rb))
            row += rb.num_rows


def _side_by_side(params: Params, batches: Batches, task: Any) -> Batches:
    """Calls an async function with some batches at once; yields what it makes in the order of the
    batches."""
    # after the death of a process, the batch that is at fault has to be known
    limit = 1 if task.careful else params.get("max_concurrency") or coroutines.BATCHES
    window = coroutines.Window(limit)
    row = 0
    try:
        while True:
            while len(window.calls) < limit:
                rb = next(batches, None)
                if rb is None:
                    limit = 0
                elif rb.num_rows:
                    task.at_hand(params, tasks.BATCH, row, rb)
                    given = _given(params, rb)
                    window.start(functools.partial(_call, params, given), (row, rb, given))
                    window.turn()
                    row += rb.num_rows
            if not window.calls:
                return
            at, of, given = window.calls[0].about
            yield from _checked(params, task, at, of, _built(params, of, given, window.items()))
    finally:
        window.close()


def _checked(params: Params, task: Any, row: int, rb: Any, made: Batches) -> Batches:
    """Yields what the function makes of the batch rb, whose first row is number `row`. An exception
    of it gets a note with the place, or makes dead letters."""
    if not tasks.tolerates(params):
        try:
            yield from made
        except GeneratorExit:
            raise
        except BaseException as e:
            where = f"the batch of input rows {row}..{row + rb.num_rows - 1}"
            task.note(e, params, where, row, rb)
            raise
        return
    try:
        out: Any = list(made)
    except Exception as e:
        again = measured if params["batch_size"] == "auto" else called
        out = dead_letters.isolate(
            e,
            rb,
            row,
            lambda part: list(again(params, part)),
            functools.partial(task.bad_row, params),
        )
    yield from out


def measured(params: Params, rb: Any) -> Batches:
    """Calls the function with one batch, and measures it; with halves of the batch if memory does
    not suffice for it."""
    sizer: Sizer = params["sizer"]
    begin = time.perf_counter()
    try:
        out = list(called(params, rb))
    except Exception as e:
        if rb.num_rows < 2 or not no_memory(e):
            raise
        step = sizer.too_large(rb.num_rows)
    else:
        sizer.took(rb.num_rows, time.perf_counter() - begin, rb.nbytes)
        yield from out
        return
    for at in range(0, rb.num_rows, step):
        yield from measured(params, rb.slice(at, step))


def called(params: Params, rb: Any) -> Batches:
    """Calls the function with one batch; yields the batches that it makes."""
    given = _given(params, rb)
    return _built(params, rb, given, returned(params, given))


def _given(params: Params, rb: Any) -> Any:
    """The batch as the function gets it."""
    fmt = params["batch_format"]
    if fmt == "numpy" or fmt == "default":
        return numpy_batch.NumpyBatch(rb, not params["zero_copy_batch"])
    return batch.to_batch(rb, fmt)


def _built(params: Params, rb: Any, given: Any, outs: Iterator[Any]) -> Batches:
    """Makes record batches of what the function has returned for rb."""
    numpy = given if isinstance(given, numpy_batch.NumpyBatch) else None
    for out in outs:
        yield from batch.from_batch(out, params["label"], rb, numpy)


def _call(params: Params, given: Any) -> Any:
    before = (
        _skate.arrays_begin(params["in_store"], tasks.task.turn) if params.get("in_store") else None
    )
    try:
        return params["fn"](given, *params["fn_args"], **params["fn_kwargs"])
    finally:
        _skate.arrays_end(before)


def returned(params: Params, given: Any) -> Iterator[Any]:
    """Yields what the function returns for one batch: one result, or those of a generator."""
    out = _call(params, given)
    if type(out) is dict:  # the most frequent case comes first: the other tests are slower
        yield out
        return
    if inspect.isawaitable(out) or inspect.isasyncgen(out):
        out = rows.awaited(out)
    if isinstance(out, types.GeneratorType) or (
        not isinstance(out, (Mapping, pa.Table, pa.RecordBatch)) and hasattr(out, "__next__")
    ):
        yield from out
    else:
        yield out


operator = MapBatches()
