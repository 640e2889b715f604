"""The driver's part of Datasets in workers: a thread takes their plans from the service actor
(remote.py), runs the plans, and puts the blocks at the service actor."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import Any

import skate
from skate import _service_actors, _skate
from skate.data.run import execute, feed
from skate.data.run.remote import NAME, SPACE
from skate.data.run.request import RunResult
from skate.data.run.turns import sent


def serve() -> None:
    """Starts the thread that serves the service actor. The engine calls this when a worker has made
    the actor."""
    _service_actors.work(NAME, SPACE, _begin, "skate-data-serve")


def _begin(service: Any, job: Any) -> None:
    number, (ref,) = job
    threading.Thread(
        target=_job, args=(service, number, ref), name=f"skate-data-{number}", daemon=True
    ).start()


def _job(service: Any, number: int, ref: Any) -> None:
    try:
        outcome = _do(service, number, ref)
        skate.get(service.end.remote(number, [outcome]))
    except Exception:
        if skate.is_initialized():
            raise


def _do(service: Any, number: int, ref: Any) -> Any:
    told = [RunResult()]
    try:
        kind, *job = skate.get(ref)
        if kind == "feed":
            feed.start(*job)
            return skate.put((sent(None), RunResult()))
        request = job[0]._replace(back=told.append)
        with closing(execute.run(request)) as blocks:
            for b in blocks:
                if hasattr(b[0], "num_rows"):
                    b = (_skate.put_block(b[0]), *b[1:])
                if not skate.get(service.put.remote(number, b)):
                    break
        error = None
    except Exception as e:
        error = e
    return skate.put((sent(error), told[-1]))
