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
from skate.data.worker import dead_letters, rows
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
        row = 0
        tolerant = tasks.tolerates(params)
        size, call = params["batch_size"], called
        if size == "auto":
            # kept for the later tasks of this process
            size = params.setdefault("sizer", Sizer())
            call = measured
        for rb in rebatch.rebatch(batches, size):
            n = rb.num_rows
            if n == 0:
                continue
            task.at_hand(params, tasks.BATCH, row, rb)
            if tolerant:
                try:
                    out: Any = list(call(params, rb))
                except Exception as e:
                    out = dead_letters.isolate(
                        e,
                        rb,
                        row,
                        lambda part: list(call(params, part)),
                        functools.partial(task.bad_row, params),
                    )
                yield from out
            else:
                try:
                    yield from call(params, rb)
                except GeneratorExit:
                    raise
                except BaseException as e:
                    task.note(e, params, f"the batch of input rows {row}..{row + n - 1}", row, rb)
                    raise
            row += n


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
    label, fmt = params["label"], params["batch_format"]
    numpy = fmt == "numpy" or fmt == "default"
    given = (
        numpy_batch.NumpyBatch(rb, not params["zero_copy_batch"])
        if numpy
        else batch.to_batch(rb, fmt)
    )
    for out in returned(params, given):
        yield from batch.from_batch(out, label, rb, given if numpy else None)


def returned(params: Params, given: Any) -> Iterator[Any]:
    """Yields what the function returns for one batch: one result, or those of a generator."""
    before = (
        _skate.arrays_begin(params["in_store"], tasks.task.turn) if params.get("in_store") else None
    )
    try:
        out = params["fn"](given, *params["fn_args"], **params["fn_kwargs"])
    finally:
        _skate.arrays_end(before)
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
