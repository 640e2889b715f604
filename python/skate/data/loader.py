"""skate.data.DataLoader: it has the arguments of torch.utils.data.DataLoader, and reads a skate
Dataset, or a torch Dataset whose samples are made in skate's workers (loader_workers.py)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import skate
from skate import _skate
from skate._deps import np, pa, torch, torch_data
from skate.data.dataset import Dataset, MaterializedDataset
from skate.data.run import blocks, errors
from skate.data.trainers import loader_workers
from skate.data.util import torch_utils
from skate.data.values import row_dicts, to_arrow, unify


@errors.methods
class DataLoader:
    """Batches for training, with the arguments and the results of torch.utils.data.DataLoader.

    Over a skate Dataset, a sample is a row as a dict, and a batch is the result of torch's
    default_collate for the rows: a dict of tensors; texts stay lists. Batches are made from
    columns, never from rows, unless there is a collate_fn. The Dataset's functions run in skate's
    workers, so num_workers has no effect. shuffle=True, sampler and batch_sampler materialize the
    Dataset once, and shuffle references to its rows.

    Over a map-style or iterable Dataset of torch, num_workers actors (0: this process) make the
    samples and call collate_fn. get_worker_info(), seeds and the assignment of batches to workers
    are as in torch.

    Args:
        dataset: The Dataset.
        batch_size: Samples of a batch; None: samples are yielded one by one, unbatched.
        shuffle: Whether each epoch has a new random order; all orders are equally likely.
        sampler, batch_sampler: An iterable of indices of samples; an iterable of lists of indices.
        num_workers: Number of actors that make samples.
        collate_fn: Makes a batch of a list of samples.
        pin_memory: Whether batches are in page-locked memory.
        drop_last: Leaves out the last batch if it is not full.
        timeout: The most seconds to wait for a batch of an actor, then RuntimeError; 0: no limit.
        worker_init_fn: A function that each actor calls with its own number when an epoch begins.
        multiprocessing_context: Has no effect: skate makes the actors.
        generator: A torch.Generator for shuffle and for the seeds of actors.
        prefetch_factor: The number of batches that are requested in advance from each actor; 2 by
            default. Over a skate Dataset: the number of batches that are made in advance.
        persistent_workers: Whether actors live on between epochs.
        pin_memory_device: Has no effect, as in current torch.
        in_order: Whether batches come in the order of their indices; False: each as soon as it is
            ready.

    Raises:
        ValueError: Arguments exclude each other, as in torch.
        ImportError: torch is not installed.

    Example:
        >>> import skate
        >>> loader = skate.data.DataLoader(skate.data.range(10), batch_size=4)  # doctest: +SKIP
        >>> [batch["id"].tolist() for batch in loader]  # doctest: +SKIP
        [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ):
        ours = isinstance(dataset, Dataset)
        iterable = isinstance(dataset, torch_data.IterableDataset)
        _check(num_workers, timeout, prefetch_factor, persistent_workers, ours)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if iterable and (shuffle or sampler is not None or batch_sampler is not None):
            raise ValueError(
                "DataLoader with an IterableDataset: its order is its own, so shuffle, sampler and batch_sampler are not for it"
            )
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError(
                "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
            )
        self.dataset, self.batch_size, self.drop_last, self.num_workers = (
            dataset,
            batch_size,
            drop_last,
            num_workers,
        )
        self.timeout, self.worker_init_fn, self.generator, self.in_order = (
            timeout,
            worker_init_fn,
            generator,
            in_order,
        )
        self.multiprocessing_context, self.pin_memory_device = (
            multiprocessing_context,
            pin_memory_device,
        )
        self.prefetch_factor, self.persistent_workers = prefetch_factor, persistent_workers
        self.shuffle = bool(shuffle)
        self.pin_memory = bool(pin_memory) and _can_pin()
        self._own_collate = collate_fn
        self._batched = batch_size is not None or batch_sampler is not None
        self.collate_fn: Callable[[Any], Any] = collate_fn or (
            torch_data.default_collate if self._batched else torch_data.default_convert
        )
        # the seed of this shuffle is a part of the state
        self._drawn = not ours and not iterable and self.shuffle and sampler is None
        if not ours and not iterable and sampler is None and batch_sampler is None:
            sampler = (
                torch_data.RandomSampler(dataset, generator=generator)
                if shuffle
                else torch_data.SequentialSampler(dataset)
            )
        self.sampler = sampler
        if batch_sampler is None and sampler is not None and batch_size is not None:
            batch_sampler = torch_data.BatchSampler(sampler, batch_size, drop_last)
        self.batch_sampler = batch_sampler
        self._kind: Any = _Rows(self) if ours else _Samples(self, iterable)

    def __iter__(self) -> Iterator[Any]:
        """Yields the batches of an epoch."""
        return self._kind.epoch()

    def __len__(self) -> int:
        """The number of batches of an epoch; TypeError if it is not known."""
        if self.batch_sampler is not None:
            return len(self.batch_sampler)
        n = len(self.sampler) if self.sampler is not None else self._kind.rows()
        if self.batch_size is None:
            return n
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    def set_epoch(self, epoch: int) -> None:
        """Sets the number of the next epoch, for samplers that use the number, and for the order of
        a Dataset.

        Args:
            epoch: From 0.
        """
        for s in (self.sampler, self.batch_sampler, self.dataset):
            if s is not None and hasattr(s, "set_epoch"):
                s.set_epoch(epoch)
        self._kind.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """The position of the latest epoch, after the batch that it yielded last: a few numbers."""
        return self._kind.state()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Makes the next epoch begin at a state; from there it yields the same batches. Earlier
        samples are not made, except by an iterable dataset.

        Args:
            state: A state that state_dict() of a DataLoader with the same arguments returned;
                ValueError for others.
        """
        if (
            not isinstance(state, dict)
            or state.get("version") != 1
            or state.get("of") != self._kind.name
        ):
            raise ValueError(
                f"load_state_dict: this is no state of a DataLoader over {self._kind.name}: {state!r:.200}"
            )
        self._kind.load(state)


def _check(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent: bool, ours: bool
) -> None:
    if num_workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing."
        )
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None and not ours:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing: let num_workers > 0 to enable it"
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent and num_workers == 0 and not ours:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _can_pin() -> bool:
    if not torch.cuda.is_available():
        warnings.warn(
            "pin_memory is set, but torch finds no GPU: memory is not page-locked",
            UserWarning,
            stacklevel=4,
        )
    return torch.cuda.is_available()


def _seed(generator: Any) -> int:
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())


class _Rows:
    """The DataLoader over a skate Dataset."""

    name = "a Dataset"

    def __init__(self, of: DataLoader):
        self.of, self.ds = of, of.dataset
        self.blocks: Any = None
        self.at: Any = None  # (iterator, seed, epoch); with a sampler: [batches yielded, epoch]
        self.from_state: dict[str, Any] | None = None
        self.number = 0
        # the seed of the shuffle for all epochs; the number of an epoch selects its order
        self.seed: int | None = None

    def rows(self) -> int:
        n = self.ds._facts.rows
        if n is None and self.ds._node.blocks is not None:
            n = sum(b[2] for b in self.ds._node.blocks)
        if n is None:
            raise TypeError(
                "len(): how many rows this Dataset has is known only when it has run; materialize() it first"
            )
        return n

    def set_epoch(self, epoch: int) -> None:
        if epoch != self.number:
            self.from_state = None
        self.number = epoch

    def state(self) -> dict[str, Any]:
        if self.at is None and self.from_state is not None:
            return dict(self.from_state)
        at = {"epoch": self.number} if self.at is None else self.at()
        return {
            "version": 1,
            "of": self.name,
            **({} if self.seed is None else {"seed": self.seed}),
            **at,
        }

    def load(self, state: dict[str, Any]) -> None:
        self.from_state, self.at = dict(state), None
        self.number = int(state.get("epoch", 0))
        self.seed = int(state["seed"]) if "seed" in state else None

    def epoch(self) -> Iterator[Any]:
        of = self.of
        state, self.from_state = self.from_state or {}, None
        if of.shuffle or of.sampler is not None or of.batch_sampler is not None:
            self.ds = self.ds.materialize()
        if of.sampler is not None or of.batch_sampler is not None:
            return self._sampled(state)
        return self._streamed(state)

    def _streamed(self, state: dict[str, Any]) -> Iterator[Any]:
        of = self.of
        it = self.ds.iterator()
        if of.shuffle and self.seed is None:
            self.seed = _seed(of.generator)
        if "it" in state:
            it.load_state_dict(state["it"])
        else:
            it.set_epoch(self.number)
        window = max(1, self.rows()) if of.shuffle else None
        number = self.number
        self.number += 1
        done = [False]
        self.at = lambda: (
            {"epoch": number + 1} if done[0] else {"epoch": number, "it": it.state_dict()}
        )
        more: dict[str, Any] = {
            "local_shuffle_buffer_size": window,
            "local_shuffle_seed": self.seed if of.shuffle else None,
        }
        more |= {
            "prefetch_batches": 2 if of.prefetch_factor is None else of.prefetch_factor,
            "batch_size": of.batch_size or 1,
            "drop_last": of.drop_last,
        }

        def batches() -> Iterator[Any]:
            if of._own_collate is None and of._batched:
                yield from it._tensors(
                    torch_utils.Tensors(None, None, of.pin_memory, _collated), **more
                )
            else:
                yield from it._batches("pyarrow", self._made, self._taken, **more)
            done[0] = True

        return batches()

    def _sampled(self, state: dict[str, Any]) -> Iterator[Any]:
        of = self.of
        given, number = int(state.get("batches", 0)), self.number
        self.number += 1
        source: Any = of.batch_sampler if of.batch_sampler is not None else of.sampler
        index = iter(source)
        place = _Places(self.ds)
        done = [False]
        self.at = lambda: {"epoch": number + 1} if done[0] else {"epoch": number, "batches": given}

        def batches() -> Iterator[Any]:
            nonlocal given
            for k, want in enumerate(index):
                if k >= given:
                    batch = self._taken(
                        self._made(place.take(want if isinstance(want, (list, tuple)) else [want]))
                    )
                    given += 1
                    yield batch
            done[0] = True

        return batches()

    def _made(self, table: Any) -> Any:
        """A batch from a table, by the rules of torch's default_collate, or by collate_fn."""
        of = self.of
        rb = unify.merge(to_arrow.from_table(table)) if type(table).__name__ == "Table" else table
        if of._own_collate is not None or not of._batched:
            rows: list[Any] = list(row_dicts.to_rows(rb))
            return of.collate_fn(rows if of._batched else rows[0])
        tensors = torch_utils.Tensors(None, None, False, _collated)
        return tensors.finish(tensors.of_block(rb), rb.schema)

    def _taken(self, batch: Any) -> Any:
        return _pinned(batch) if self.of.pin_memory else batch


def _collated(name: str, values: Any, of: Any) -> Any:
    """The result of default_collate for a column's values; arrays of list columns become lists."""
    rows = list(values)
    if pa.types.is_list(of) or pa.types.is_large_list(of) or pa.types.is_fixed_size_list(of):
        rows = [v.tolist() if hasattr(v, "tolist") else v for v in rows]
    try:
        return torch_data.default_collate(rows)
    except (TypeError, RuntimeError) as e:
        raise type(e)(f"column {name!r}: {e}; pass collate_fn, or fill or drop it") from None


def _pinned(batch: Any) -> Any:
    return torch_data._utils.pin_memory.pin_memory(batch)


class _Places:
    """The rows of a materialized Dataset by row number."""

    def __init__(self, ds: MaterializedDataset):
        found = [b for b in ds._node.options["blocks"] if b[2]]
        self.batches = [blocks.fetch(b) for b in found]
        if self.batches:
            whole = unify.unify([b.schema for b in self.batches])
            self.batches = [unify.cast_batch(b, whole) for b in self.batches]
        self.ends = np.cumsum([b[2] for b in found], dtype=np.int64)

    def take(self, numbers: Any) -> Any:
        """A batch of the rows with these numbers, in this order."""
        n = np.asarray(numbers, np.int64)
        total = int(self.ends[-1]) if len(self.ends) else 0
        if len(n) and (n.min() < -total or n.max() >= total):
            raise IndexError(
                f"the sampler asks for row {int(n[(n < -total) | (n >= total)][0])} of a Dataset of {total:,}"
            )
        n = np.where(n < 0, n + total, n)
        block = np.searchsorted(self.ends, n, side="right")
        first = np.concatenate([[0], self.ends])[block]
        return _skate.gather(self.batches, np.stack([block, n - first], 1).astype(np.uint32))


class _Samples:
    """The DataLoader over a torch Dataset."""

    def __init__(self, of: DataLoader, iterable: bool):
        self.of, self.iterable = of, iterable
        self.name = "an iterable dataset" if iterable else "a map-style dataset"
        self.pool: Any = None
        self.given = self.number = 0
        self.seeds: dict[str, Any] = {}
        self.from_state: dict[str, Any] | None = None
        self.done = True

    def rows(self) -> int:
        return len(self.of.dataset)

    def set_epoch(self, epoch: int) -> None:
        self.number = epoch

    def state(self) -> dict[str, Any]:
        if self.from_state is not None:
            return dict(self.from_state)
        if self.done:
            return {"version": 1, "of": self.name, "batches": 0}
        return {"version": 1, "of": self.name, "batches": self.given, **self.seeds}

    def load(self, state: dict[str, Any]) -> None:
        self.from_state = dict(state)

    def _indices(self, state: dict[str, Any]) -> Iterator[Any]:
        of = self.of
        if self.iterable:
            while True:
                yield of.batch_size or 1
        source: Any = of.batch_sampler if of.batch_sampler is not None else of.sampler
        if not of._drawn:
            yield from source
            return
        g = torch.Generator()
        if of.generator is None:
            # the same random number as in torch's RandomSampler
            self.seeds["seed"] = seed = int(state["seed"]) if "seed" in state else _seed(None)
            g.manual_seed(seed)
        elif "generator" in state:
            g.set_state(
                torch.frombuffer(bytearray.fromhex(state["generator"]), dtype=torch.uint8).clone()
            )
            self.seeds["generator"] = state["generator"]
        else:
            g = of.generator
            self.seeds["generator"] = bytes(g.get_state().numpy()).hex()
        sampler = torch_data.RandomSampler(of.dataset, generator=g)
        yield from (
            torch_data.BatchSampler(sampler, of.batch_size, of.drop_last)
            if of.batch_size is not None
            else sampler
        )

    def epoch(self) -> Iterator[Any]:
        of = self.of
        state, self.from_state = self.from_state or {}, None
        self.seeds = {"base": int(state["base"]) if "base" in state else _seed(of.generator)}
        self.given, self.done = 0, False
        skip = int(state.get("batches", 0))
        indices = self._indices(state)
        if of.num_workers == 0 or self.iterable:
            made = self._here(indices) if of.num_workers == 0 else self._there(indices, 0)
            return self._counted(made, skip, skip)
        return self._counted(self._there(indices, skip), 0, skip)

    def _counted(self, made: Iterator[Any], leave_out: int, given: int) -> Iterator[Any]:
        self.given = given
        try:
            for k, batch in enumerate(made):
                if k < leave_out:
                    continue
                self.given += 1
                yield _pinned(batch) if self.of.pin_memory else batch
            self.done = True
        finally:
            made.close()  # type: ignore[attr-defined]

    def _here(self, indices: Iterator[Any]) -> Iterator[Any]:
        of = self.of
        fetch = (
            torch_data._utils.fetch._IterableDatasetFetcher
            if self.iterable
            else torch_data._utils.fetch._MapDatasetFetcher
        )(of.dataset, of._batched, of.collate_fn, of.drop_last)
        for index in indices:
            try:
                batch = fetch.fetch([0] * index if self.iterable and of._batched else index)
            except StopIteration:
                return
            yield batch

    def _there(self, indices: Iterator[Any], skip: int) -> Iterator[Any]:
        of = self.of
        for _ in range(skip):
            if next(indices, None) is None:
                break
        if self.pool is None:
            ahead = 2 if of.prefetch_factor is None else max(1, of.prefetch_factor)
            arguments = (of.dataset, of.collate_fn, of.worker_init_fn, of._batched, of.drop_last)
            self.pool = loader_workers.Pool(
                of.num_workers, ahead, arguments, of.timeout, of.in_order
            )
        try:
            yield from self.pool.epoch(indices, self.seeds["base"])
        except BaseException:
            self._close()
            raise
        finally:
            if not of.persistent_workers:
                self._close()

    def _close(self) -> None:
        pool, self.pool = self.pool, None
        if pool is not None:
            pool.close()

    def __del__(self) -> None:
        if getattr(self, "pool", None) is not None and skate.is_initialized():
            self._close()
