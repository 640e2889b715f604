"""Datasets inside tasks and actors: a worker asks, the driver runs the plan, and the worker gets
references to the blocks.

A worker does not drive the engine. The first worker that runs a Dataset makes a small named actor,
the *service actor* (service_actors.py). The engine tells the driver that this actor exists (conf.h:
named), and the driver starts a thread that waits for jobs at the actor. A Dataset that runs in a
worker sends its plan to the service actor and takes the blocks of the run from it; at most
held_bytes() of blocks wait at the actor. While the worker waits, its CPU is lent to other tasks, so
the run needs no resources of its own. The run is stopped if its consumer closes the iteration or
the consumer's process ends. The end of the run carries its error and its dead letters. A program
that runs no Dataset in a worker has no service actor and no such thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import skate
from skate import _job, _service_actors
from skate.data.plan.node import below
from skate.data.run.request import RunRequest
from skate.data.run.service_actors import RunService
from skate.data.run.turns import held_bytes

if TYPE_CHECKING:
    from skate.data.dataset import Dataset

NAME, SPACE = "data", _job.SERVED + "skate.data.run.serve"


def _begin(job: tuple[Any, ...], context: Any) -> tuple[Any, int]:
    service = _service_actors.get_or_create(RunService, NAME, SPACE)
    return service, skate.get(
        service.begin.remote([skate.put(job)], held_bytes(context), os.getpid())
    )


def run(request: RunRequest) -> Iterator[Any]:
    """execute.run() in a worker: has the driver run the request, and yields its blocks."""
    here = RunRequest(request.node, request.context, skip=request.skip)
    service, number = _begin(("run", here), request.context)
    request.tell()
    # Each node counts this run, so that the next run makes new random choices.
    for n in below(request.node):
        n.runs += n.each_run is not None
    at_end = False
    try:
        coming = service.next.remote(number)
        block: Any
        while isinstance(block := skate.get(coming), tuple):
            coming = service.next.remote(number)
            yield block
        at_end = True
        error, result = skate.get(block[0])
        request.tell(result.errors, result.stats)
        error = skate.get(error)
        if error is not None:
            raise error
    finally:
        if not at_end and skate.is_initialized():
            service.leave.remote(number)


def feed(ds: Dataset, request: RunRequest, service: Any, deal: Any) -> None:
    """In a worker: asks the driver to run the feeder of a streaming_split."""
    here, number = _begin(("feed", ds, request, service, deal), request.context)
    error = skate.get(skate.get(skate.get(here.next.remote(number))[0])[0])
    if error is not None:
        raise error
