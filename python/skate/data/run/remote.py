"""Datasets inside tasks and actors: a worker asks, the driver runs the plan, and the blocks come
back by reference.

A worker does not drive the engine. The first worker that runs a Dataset makes a small named actor,
the *desk* (service_actors.py). The engine tells the driver that there is a desk (conf.h: named),
and the driver starts a thread that waits there for jobs. A Dataset that runs in a worker sends its
plan to the desk and takes the blocks of the run from it, as the driver's own loop would; at most
held_bytes lie at the desk. While the worker waits, its CPU is lent to others, so the run needs no
resources of its own. The run is stopped if its consumer closes the iteration or the consumer's
process ends. Errors, stats and dead letters come back with the end. A program that runs no Dataset
in a worker has no desk and no such thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import skate
from skate import _job, _service_actors
from skate.data.plan.node import below
from skate.data.run.request import RunRequest
from skate.data.run.service_actors import RunDesk
from skate.data.run.turns import held_bytes

if TYPE_CHECKING:
    from skate.data.dataset import Dataset

NAME, SPACE = "data", _job.SERVED + "skate.data.run.serve"


def _begin(job: tuple[Any, ...], context: Any) -> tuple[Any, int]:
    desk = _service_actors.desk(RunDesk, NAME, SPACE)
    return desk, skate.get(desk.begin.remote([skate.put(job)], held_bytes(context), os.getpid()))


def run(request: RunRequest) -> Iterator[Any]:
    """execute.run() in a worker: has the driver run the request, and yields its blocks."""
    here = RunRequest(request.node, request.context, skip=request.skip)
    desk, number = _begin(("run", here), request.context)
    request.tell()
    for n in below(request.node):  # Each node counts this run, so that the next one draws anew.
        n.runs += n.each_run is not None
    at_end = False
    try:
        coming = desk.next.remote(number)
        block: Any
        while isinstance(block := skate.get(coming), tuple):
            coming = desk.next.remote(number)
            yield block
        at_end = True
        error, result = skate.get(block[0])
        request.tell(result.errors, result.stats)
        error = skate.get(error)
        if error is not None:
            raise error
    finally:
        if not at_end and skate.is_initialized():
            desk.leave.remote(number)


def feed(ds: Dataset, request: RunRequest, desk: Any, deal: Any) -> None:
    """In a worker: asks the driver to run the feeder of a streaming_split."""
    here, number = _begin(("feed", ds, request, desk, deal), request.context)
    error = skate.get(skate.get(skate.get(here.next.remote(number))[0])[0])
    if error is not None:
        raise error
