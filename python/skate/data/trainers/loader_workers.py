"""The actors of a DataLoader over a torch Dataset, which make and collate batches. Tensors are
returned as arrays in the store, which the receiver maps copy-on-write."""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import skate
from skate import _skate
from skate._deps import np, torch, torch_data
from skate.data.run.engine import ensure_engine, preload
from skate.data.util.torch_utils import SMALL

END = "no more"


class Packed:
    """A tensor in the form in which it is sent to another process: its bytes as an array, which the
    receiver maps from the store without a copy."""

    __slots__ = ("bytes", "dtype", "shape", "grad")

    def __init__(self, t: Any):
        self.dtype, self.shape, self.grad = t.dtype, tuple(t.shape), t.requires_grad
        self.bytes = (
            t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
            if t.numel()
            else None
        )

    def tensor(self) -> Any:
        """The tensor, in writable memory."""
        if self.bytes is None:
            return torch.empty(self.shape, dtype=self.dtype)
        v = self.bytes
        if not v.flags.writeable:
            pages = _skate.own_pages(v) if v.nbytes >= SMALL else None
            v = v.copy() if pages is None else np.frombuffer(pages, np.uint8)
        t = torch.from_numpy(v).view(self.dtype).reshape(self.shape)
        return t.requires_grad_() if self.grad else t


def packed(v: Any, pack: bool) -> Any:
    """A batch in which all tensors are packed (pack) or unpacked; containers keep their types."""
    if pack and type(v) is torch.Tensor and v.layout == torch.strided and not v.is_quantized:
        return Packed(v)
    if isinstance(v, Packed):
        return v.tensor()
    if isinstance(v, tuple) and hasattr(v, "_fields"):
        return type(v)(*(packed(x, pack) for x in v))
    if type(v) in (list, tuple):
        return type(v)(packed(x, pack) for x in v)
    if isinstance(v, Mapping) and type(v).__module__ in ("builtins", "collections"):
        made = {k: packed(x, pack) for k, x in v.items()}
        kind: Any = type(v)
        if kind is dict:
            return made
        of_defaults = (v.default_factory,) if isinstance(v, defaultdict) else ()
        return kind(*of_defaults, made)
    return v


class Worker:
    """One of the actors: it has a copy of the dataset, and the random numbers that a worker of
    torch's DataLoader would have.

    Args:
        i, n: The number of this worker, and the number of workers.
        dataset, collate_fn, init: Arguments of the DataLoader; init is its worker_init_fn.
        batched: Whether batches are requested, and not single samples.
        drop_last: The argument of the DataLoader, for an iterable dataset.
    """

    def __init__(
        self,
        i: int,
        n: int,
        dataset: Any,
        collate_fn: Any,
        init: Any,
        batched: bool,
        drop_last: bool,
    ):
        torch.set_num_threads(1)
        self.i, self.n, self.dataset, self.collate_fn, self.init = i, n, dataset, collate_fn, init
        self.batched, self.drop_last = batched, drop_last
        self.iterable = isinstance(dataset, torch.utils.data.IterableDataset)
        self.rows: Any = None

    def begin(self, seed: int) -> int:
        """Begins an epoch with random numbers from this seed; returns the process's id."""
        seed += self.i
        random.seed(seed)
        torch.manual_seed(seed)
        np.random.seed(torch_data._utils.worker._generate_state(seed - self.i, self.i))
        torch_data._utils.worker._worker_info = torch_data._utils.worker.WorkerInfo(
            id=self.i, num_workers=self.n, seed=seed, dataset=self.dataset
        )
        if self.init is not None:
            self.init(self.i)
        self.rows = iter(self.dataset) if self.iterable else None
        return os.getpid()

    def fetch(self, index: Any) -> Any:
        """The batch with these indices (for an iterable dataset: with this number of samples),
        collated and packed; or END."""
        if self.iterable:
            samples = []
            for _ in range(index if self.batched else 1):
                try:
                    samples.append(next(self.rows))
                except StopIteration:
                    break
            if not samples or (self.batched and self.drop_last and len(samples) < index):
                return END
            data = samples if self.batched else samples[0]
        elif not self.batched:
            data = self.dataset[index]
        elif hasattr(self.dataset, "__getitems__"):
            data = self.dataset.__getitems__(index)
        else:
            data = [self.dataset[k] for k in index]
        return packed(self.collate_fn(data), True)


class Pool:
    """The workers of a DataLoader.

    Args:
        n, ahead: The number of workers, and the number of batches requested in advance from each.
        arguments: Arguments of Worker, from dataset on.
        timeout: The most seconds to wait for a batch; 0: no limit.
        in_order: Whether batches come in the order of their indices; False: each as soon as it is
            ready.
    """

    def __init__(
        self, n: int, ahead: int, arguments: tuple[Any, ...], timeout: float, in_order: bool
    ):
        self.n, self.ahead, self.timeout, self.in_order = n, ahead, timeout, in_order
        dataset, *more = arguments
        ensure_engine()
        if not _skate.in_worker():
            modules = {type(v).__module__ for v in arguments if v is not None} - {
                "builtins",
                "__main__",
            }
            preload({"torch", *modules})  # torch takes seconds to import
        self.dataset = skate.put(dataset)
        actor = skate.remote(num_cpus=0, max_restarts=0)(Worker)
        self.workers = [actor.remote(i, n, self.dataset, *more) for i in range(n)]

    def epoch(self, indices: Iterator[Any], seed: int) -> Iterator[Any]:
        """Yields the batches with these indices; worker k modulo n makes batch k. Workers that have
        reached their end are skipped."""
        pids = self._got([w.begin.remote(seed) for w in self.workers])
        alive = list(range(self.n))
        under_way: dict[Any, int] = {}  # {reference: its worker}, in the order of the indices
        turn, more = 0, True
        while True:
            while more and alive and len(under_way) < self.ahead * len(alive):
                index = next(indices, END)
                if index is END:
                    more = False
                    break
                i = alive[turn % len(alive)]
                turn = turn % len(alive) + 1
                under_way[self.workers[i].fetch.remote(index)] = i
            if not under_way:
                return
            ref = next(iter(under_way)) if self.in_order else self._ready(list(under_way))
            i = under_way.pop(ref)
            batch = self._got(ref, i, pids[i])
            if batch is END or isinstance(batch, str) and batch == END:
                if i in alive:
                    turn -= alive.index(i) < turn
                    alive.remove(i)
                continue
            yield packed(batch, False)

    def _ready(self, refs: list[Any]) -> Any:
        ready, _ = skate.wait(refs, num_returns=1, timeout=self.timeout or None)
        if not ready:
            raise self._late()
        return ready[0]

    def _late(self) -> RuntimeError:
        return RuntimeError(f"DataLoader timed out after {self.timeout} seconds")

    def _got(self, refs: Any, i: int = 0, pid: int = 0) -> Any:
        try:
            return skate.get(refs, timeout=self.timeout or None)
        except skate.exceptions.GetTimeoutError:
            raise self._late() from None
        except skate.exceptions.RayActorError as e:
            raise RuntimeError(f"DataLoader worker {i} (pid {pid}) exited unexpectedly: {e}") from e

    def close(self) -> None:
        """Ends the workers."""
        workers, self.workers = self.workers, []
        if skate.is_initialized():
            for w in workers:
                skate.kill(w)
