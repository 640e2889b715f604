"""The feeder of a streaming_split: a thread of the driver that runs the Dataset once an epoch and deals its blocks out to the desk."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import skate
from skate import _skate
from skate.actor import ActorHandle
from skate.data.run import execute
from skate.data.run.turns import sent
from skate.data.values.ranges import cut
from skate.exceptions import RayActorError


def start(ds: Any, desk: Any, n: int, equal: bool) -> None:
    """In the driver. It does not keep the desk."""
    weak = ActorHandle(_skate.weak_token(desk._token.id), desk._meta)
    threading.Thread(target=_feed, args=(ds, weak, n, equal), name="skate-split", daemon=True).start()


def _feed(ds: Any, desk: Any, n: int, equal: bool) -> None:
    """Runs ds once an epoch and deals its blocks out, until the desk ends."""
    try:
        while True:
            work = skate.get(desk.work.remote())
            if work == "schema":
                skate.get(desk.told.remote([skate.put(ds.schema())]))
            elif work is not None:
                error = _epoch(ds, desk, n, equal, work)
                skate.get(desk.end.remote(work, [sent(error)], ds.stats()))
    except RayActorError:  # the desk is gone with its last iterator
        return
    except Exception:
        if skate.is_initialized():
            raise


def _epoch(ds: Any, desk: Any, n: int, equal: bool, epoch: int) -> BaseException | None:
    wanted = None
    try:
        with closing(execute.run(ds)) as blocks:
            for dealt in _deal(blocks, n, equal):
                while (wanted := skate.get(desk.put.remote(epoch, dealt))) is None:
                    pass
                if not wanted:
                    break
    except RayActorError:
        raise
    except Exception as e:
        return e
    return None


def _deal(blocks: Iterator[Any], n: int, equal: bool) -> Iterator[list[tuple[int, Any]]]:
    rows = [0] * n
    held: list[Any] = []
    for b in blocks:
        ref, size = b[0], b[2]
        if not size:
            continue
        if hasattr(ref, "num_rows"):
            b = (_skate.put_block(ref), *b[1:])
        if not equal:
            i = rows.index(min(rows))
            rows[i] += size
            yield [(i, b)]
            continue
        held.append(b)
        total = sum(h[2] for h in held)
        if total < n:
            continue
        each = total // n
        parts = cut(held, [each * (i + 1) for i in range(n)])
        held = parts.pop()
        yield [(i, piece) for i, part in enumerate(parts) for piece in part]
