"""The feeder of a streaming_split: a thread of the driver that runs the Dataset once per epoch and
deals its blocks to the iterators through a SplitService."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

import skate
from skate import _skate
from skate.actor import ActorHandle
from skate.data.run import position
from skate.data.run.request import RunRequest
from skate.data.run.turns import sent
from skate.data.values.ranges import cut
from skate.exceptions import RayActorError

if TYPE_CHECKING:
    from skate.data.dataset import Dataset


class Deal(NamedTuple):
    """The way in which rows are dealt out to n consumers.

    Args:
        batch: The rows that a consumer gets at a time; None: whole blocks or, with `equal`, each
            block cut into n ranges.
        equal: "drop" or "pad": all consumers get equally many rows, for which up to n - 1 rows are
            left out or given twice; "": the numbers of rows may differ.
    """

    n: int
    equal: str
    batch: int | None


def start(ds: Dataset, request: RunRequest, service: Any, deal: Deal) -> None:
    """Starts the feeder in the driver. The feeder's thread holds no reference that keeps the
    service actor alive. ds: the Dataset of the request, which is asked for its schema and
    statistics."""
    weak = ActorHandle(_skate.weak_token(service._token.id), service._meta)
    threading.Thread(
        target=_feed, args=(ds, request, weak, deal), name="skate-split", daemon=True
    ).start()


def _feed(ds: Dataset, request: RunRequest, service: Any, deal: Deal) -> None:
    """Runs the request once per epoch and deals its blocks out, until the service actor ends."""
    try:
        while True:
            work = skate.get(service.work.remote())
            if work == "schema":
                skate.get(service.told.remote([skate.put(ds.schema())]))
            elif work is not None:
                error = _epoch(request, service, deal, *work)
                skate.get(service.end.remote(work[0], [sent(error)], ds.stats()))
    except RayActorError:  # the service actor ends with its last iterator
        return
    except Exception:
        if skate.is_initialized():
            raise


def _epoch(
    request: RunRequest, service: Any, deal: Deal, epoch: int, number: int, row: int
) -> BaseException | None:
    wanted = None
    try:
        # The random order of an epoch follows from the epoch's number, so it is the same if another
        # process resumes the epoch.
        if deal.batch is not None:
            position.set_runs(request.node, [number] * len(position.runs_of(request.node)))
        with closing(position.blocks_from(request, row)) as blocks:
            for dealt in (
                _by_batch(blocks, deal)
                if deal.batch is not None
                else _deal(blocks, deal.n, bool(deal.equal))
            ):
                while (wanted := skate.get(service.put.remote(epoch, dealt))) is None:
                    pass
                if not wanted:
                    break
    except RayActorError:
        raise
    except Exception as e:
        return e
    return None


def _stored(b: Any) -> Any:
    return (_skate.put_block(b[0]), *b[1:]) if hasattr(b[0], "num_rows") else b


def _deal(blocks: Iterator[Any], n: int, equal: bool) -> Iterator[list[tuple[int, Any]]]:
    rows = [0] * n
    held: list[Any] = []
    for b in blocks:
        size = b[2]
        if not size:
            continue
        b = _stored(b)
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


def _by_batch(blocks: Iterator[Any], deal: Deal) -> Iterator[list[tuple[int, Any]]]:
    """Deals rows in steps. In each step every consumer in turn gets the next `batch` rows, so after
    each step all consumers have equally many rows."""
    n, batch = deal.n, deal.batch or 1
    held: list[Any] = []
    first: list[Any] = []  # the first rows, enough to fill up the last step for "pad"
    total = kept = 0
    for b in blocks:
        if not b[2]:
            continue
        b = _stored(b)
        if deal.equal == "pad" and kept < n:
            first.append(b)
            kept += b[2]
        held.append(b)
        total += b[2]
        steps = total // (n * batch)
        if steps:
            parts = cut(held, [batch * (k + 1) for k in range(steps * n)])
            held = parts.pop()
            total -= steps * n * batch
            yield [(k % n, piece) for k, part in enumerate(parts) for piece in part]
    if not total:
        return
    each = {"drop": total // n, "pad": -(-total // n)}.get(deal.equal, batch)
    while deal.equal == "pad" and sum(h[2] for h in held) < n * each:
        held += first
    parts = cut(held, [each * (k + 1) for k in range(n)])[:n]
    yield [(k, piece) for k, part in enumerate(parts) for piece in part]


def batches_of(rows: int, deal: Deal, i: int) -> int:
    """The number of batches that consumer i gets in an epoch of `rows` rows."""
    n, batch = deal.n, deal.batch or 1
    steps, left = divmod(rows, n * batch)
    return steps + {"drop": left >= n, "pad": left > 0}.get(deal.equal, left > i * batch)
