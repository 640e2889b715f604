"""Exact batches out of a stream of blocks: rows, numpy/pandas/pyarrow batches, torch tensors.

batch_size means batch_size: every batch has it but the last, over all borders of blocks. Cost: one conversion a block, then views of it; only a
batch that lies over a border is copied.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, overload

import skate
from skate import _lazy
from skate.data.checks import library
from skate.data.context import DEFAULT_BATCH_SIZE
from skate.data.run import errors

if TYPE_CHECKING:
    from typing import Unpack

    import pandas as pd
    import pyarrow as pa

    from skate.data.collate_fn import CollateFn
    from skate.data.context import DataContext
    from skate.data.dataset import MaterializedDataset
    from skate.data.schema import Schema
    from skate.data.typed import BatchOptions, NumpyBatch, Row


@errors.methods
class DataIterator:
    """Iterates over a Dataset, any number of times; each time runs it again unless it is materialized.

    Args:
        ds: The Dataset.

    Example:
        >>> import skate
        >>> it = skate.data.range(3).iterator()
        >>> sum(row["id"] for row in it.iter_rows()), sum(row["id"] for row in it.iter_rows())
        (3, 3)
    """

    def __init__(self, ds: Any):
        self._ds = ds

    def __repr__(self) -> str:
        return f"DataIterator({self._ds!r})"

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.iter_rows()

    def _record_batches(self) -> Iterator[Any]:
        return _lazy.execute.in_one_schema(self._ds)

    def iter_rows(self) -> Iterator[Row]:
        """Rows as dicts of Python values.

        Example:
            >>> import skate
            >>> [row["id"] for row in skate.data.range(3).iter_rows()]
            [0, 1, 2]
        """
        for rb in self._record_batches():
            for at in range(0, rb.num_rows, 4096):
                yield from _lazy.row_dicts.to_rows(rb.slice(at, 4096))

    @overload
    def iter_batches(
        self, *, batch_format: Literal["default", "numpy"] = "default", **more: Unpack[BatchOptions]
    ) -> Iterator[NumpyBatch]: ...
    @overload
    def iter_batches(self, *, batch_format: Literal["pandas"], **more: Unpack[BatchOptions]) -> Iterator[pd.DataFrame]: ...
    @overload
    def iter_batches(self, *, batch_format: Literal["pyarrow"], **more: Unpack[BatchOptions]) -> Iterator[pa.Table]: ...
    @overload
    def iter_batches(self, *, batch_format: str | None = ..., **more: Unpack[BatchOptions]) -> Iterator[Any]: ...

    def iter_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int | None = DEFAULT_BATCH_SIZE,
        batch_format: str | None = "default",
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        _collate_fn: Callable[[Any], Any] | None = None,
    ) -> Iterator[Any]:
        """Batches of exactly batch_size rows (the last one may have fewer), while the Dataset runs. The run stops when the iterator is
        closed or dropped.

        Args:
            prefetch_batches: Without effect: blocks are made ahead as far as the memory for them goes.
            batch_size: Rows of a batch; the last one may have fewer. None: whole blocks.
            batch_format: "default" or "numpy" (a dict of arrays), "pandas" or "pyarrow"; None: "pandas" where the blocks came as
                DataFrames, else "pyarrow".
            drop_last: Leaves out a last batch that is not full.
            local_shuffle_buffer_size: Rows that are shuffled together, at least, before batches are cut; None: the order stays. Needs a
                batch_size.
            local_shuffle_seed: An int, so that this order is the same each time; None: another one each time.

        Raises:
            ValueError: batch_size is no positive int, the format is unknown, or a shuffle has no batch_size.

        Example:
            >>> import skate
            >>> [len(b["id"]) for b in skate.data.range(5).iter_batches(batch_size=2)]
            [2, 2, 1]
        """
        if batch_size is not None and (not isinstance(batch_size, int) or batch_size < 1):
            raise ValueError(f"batch_size must be a positive int or None, not {batch_size!r}")
        if batch_format is not None and batch_format not in _lazy.batch.FORMATS:
            raise ValueError(f"batch_format must be one of {', '.join(map(repr, _lazy.batch.FORMATS))} or None, not {batch_format!r}")
        if local_shuffle_buffer_size is not None and batch_size is None:
            raise ValueError("local_shuffle_buffer_size needs a batch_size")

        if batch_format is None and getattr(self._ds, "_frames", bool)():
            batch_format = "pandas"

        def run() -> Iterator[Any]:
            it = self._record_batches()
            source = it
            if local_shuffle_buffer_size is not None:
                source = shuffled(it, max(int(local_shuffle_buffer_size), batch_size or 1), local_shuffle_seed)
            out = cut_batches(source, batch_size, batch_format, drop_last)
            return _closing(out if _collate_fn is None else (_collate_fn(b) for b in out), it)

        return Again(run)

    def iter_torch_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int | None = DEFAULT_BATCH_SIZE,
        dtypes: Any = None,
        device: Any = "auto",
        collate_fn: Callable[..., Any] | CollateFn | None = None,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        pin_memory: bool = False,
    ) -> Iterator[Any]:
        """Batches of torch tensors, a dict of them by column (or what collate_fn makes of the dict of arrays).

        Args:
            prefetch_batches: Without effect: blocks are made ahead as far as the memory for them goes.
            batch_size: Rows of a batch; the last one may have fewer. None: whole blocks.
            dtypes: A torch dtype for all columns, or a dict of them by column; None: as NumPy has them.
            device: Where the tensors go; "auto" is the CPU, or the GPU that this process was given.
            collate_fn: A function from the dict of arrays of a batch to what is wanted (then without dtypes, device and pin_memory: it
                makes the tensors), or a CollateFn, which says which batch format it takes.
            drop_last: Leaves out a last batch that is not full.
            local_shuffle_buffer_size: Rows that are shuffled together, at least, before batches are cut; None: the order stays. Needs a
                batch_size.
            local_shuffle_seed: An int, so that this order is the same each time; None: another one each time.
            pin_memory: Tensors come in page-locked memory, from which copies to a GPU are faster.

        Raises:
            ValueError: A function as collate_fn comes with dtypes, device or pin_memory.
            TypeError: A column has no tensor: it has nulls, texts or arrays of several shapes.
            ImportError: There is no torch.
        """
        import torch

        if (
            collate_fn is not None
            and not isinstance(collate_fn, _lazy.collate_fn.CollateFn)
            and (dtypes is not None or pin_memory or device != "auto")
        ):
            raise ValueError("a collate_fn that is a function cannot be used with dtypes, device or pin_memory; let collate_fn do it")
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() and _gpus() else "cpu"

        def to_torch(b: Any) -> Any:
            if collate_fn is not None:
                out = collate_fn(b)
                if device != "cpu" and _lazy.collate_fn.is_tensor_batch_type(out):
                    return _lazy.torch_utils.move_tensors_to_device(out, device)
                return out
            return {
                k: _lazy.collate_fn.tensor(torch, k, v, dtypes.get(k) if isinstance(dtypes, dict) else dtypes, device, pin_memory)
                for k, v in b.items()
            }

        return self.iter_batches(
            prefetch_batches=prefetch_batches,
            batch_size=batch_size,
            batch_format=collate_fn.batch_format if isinstance(collate_fn, _lazy.collate_fn.CollateFn) else "numpy",
            drop_last=drop_last,
            local_shuffle_buffer_size=local_shuffle_buffer_size,
            local_shuffle_seed=local_shuffle_seed,
            _collate_fn=to_torch,
        )

    def to_torch(
        self,
        *,
        label_column: str | None = None,
        feature_columns: Any = None,
        label_column_dtype: Any = None,
        feature_column_dtypes: Any = None,
        batch_size: int = 1,
        prefetch_batches: int = 1,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        unsqueeze_label_tensor: bool = True,
        unsqueeze_feature_tensors: bool = True,
    ) -> Any:
        """A torch IterableDataset of (features, label) batches.

        Args:
            label_column: The label; None: the label of a batch is None.
            feature_columns: Names (one tensor), lists of names (a list of tensors) or a dict of lists (a dict of tensors); None: all but the label.
            label_column_dtype, feature_column_dtypes: torch dtypes, in the form of feature_columns.
            batch_size: Rows of a batch.
            prefetch_batches: Without effect: blocks are made ahead as far as the memory for them goes.
            drop_last: Leaves out a last batch that is not full.
            local_shuffle_buffer_size: Rows that are shuffled together, at least, before batches are cut; None: the order stays. Needs a
                batch_size.
            local_shuffle_seed: An int, so that this order is the same each time; None: another one each time.
            unsqueeze_label_tensor, unsqueeze_feature_tensors: Values become rows of one.

        Raises:
            TypeError: The dtypes do not have the form of feature_columns.
            ImportError: There is no torch.
        """
        import torch

        if (
            isinstance(feature_columns, dict)
            and feature_column_dtypes is not None
            and not isinstance(feature_column_dtypes, dict | torch.dtype)
        ):
            raise TypeError("feature_column_dtypes must be a dict too, or one dtype, when feature_columns is a dict")

        def batches() -> Iterator[Any]:
            for df in self.iter_batches(
                batch_size=batch_size,
                batch_format="pandas",
                drop_last=drop_last,
                local_shuffle_buffer_size=local_shuffle_buffer_size,
                local_shuffle_seed=local_shuffle_seed,
            ):
                label = None
                if label_column is not None:
                    label = _lazy.torch_utils.convert_pandas_to_torch_tensor(df, [label_column], label_column_dtype, unsqueeze_label_tensor)
                    df = df.drop(columns=[label_column])
                if isinstance(feature_columns, dict):
                    d = feature_column_dtypes
                    yield (
                        {
                            k: _lazy.torch_utils.convert_pandas_to_torch_tensor(
                                df, c, d.get(k) if isinstance(d, dict) else d, unsqueeze_feature_tensors
                            )
                            for k, c in feature_columns.items()
                        },
                        label,
                    )
                else:
                    yield (
                        _lazy.torch_utils.convert_pandas_to_torch_tensor(
                            df, feature_columns, feature_column_dtypes, unsqueeze_feature_tensors
                        ),
                        label,
                    )

        class Batches(torch.utils.data.IterableDataset):
            def __iter__(self) -> Iterator[Any]:
                return batches()

        return Batches()

    def iter_tf_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int | None = DEFAULT_BATCH_SIZE,
        dtypes: Any = None,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
    ) -> Iterator[Any]:
        """Batches of TensorFlow tensors, a dict of them by column, while the Dataset runs.

        Args:
            prefetch_batches: Without effect: blocks are made ahead as far as the memory for them goes.
            batch_size: Rows of a batch; the last one may have fewer. None: whole blocks.
            dtypes: A TensorFlow dtype for all columns, or a dict of them by column; None: as NumPy has them.
            drop_last: Leaves out a last batch that is not full.
            local_shuffle_buffer_size: Rows that are shuffled together, at least, before batches are cut; None: the order stays. Needs a
                batch_size.
            local_shuffle_seed: An int, so that this order is the same each time; None: another one each time.

        Raises:
            ImportError: There is no TensorFlow.
        """
        tf = _tensorflow("iter_tf_batches")

        def convert(b: dict[str, Any]) -> dict[str, Any]:
            return {k: tf.convert_to_tensor(v, dtype=dtypes.get(k) if isinstance(dtypes, dict) else dtypes) for k, v in b.items()}

        return self.iter_batches(
            batch_size=batch_size,
            drop_last=drop_last,
            local_shuffle_buffer_size=local_shuffle_buffer_size,
            local_shuffle_seed=local_shuffle_seed,
            _collate_fn=convert,
        )

    def to_tf(
        self,
        feature_columns: Any,
        label_columns: Any,
        *,
        additional_columns: Any = None,
        prefetch_batches: int = 1,
        batch_size: int = 1,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        feature_type_spec: Any = None,
        label_type_spec: Any = None,
        additional_type_spec: Any = None,
    ) -> Any:
        """A TensorFlow Dataset of (features, labels[, additional]) batches.

        Args:
            feature_columns, label_columns, additional_columns: A name (one tensor) or a list of names (a dict of tensors).
            prefetch_batches: Without effect: blocks are made ahead as far as the memory for them goes.
            batch_size: Rows of a batch.
            drop_last: Leaves out a last batch that is not full.
            local_shuffle_buffer_size: Rows that are shuffled together, at least, before batches are cut; None: the order stays. Needs a
                batch_size.
            local_shuffle_seed: An int, so that this order is the same each time; None: another one each time.
            feature_type_spec, label_type_spec, additional_type_spec: TypeSpecs; by default they follow from the first batch.

        Raises:
            ImportError: There is no TensorFlow.
        """
        tf = _tensorflow("to_tf")
        wanted = [c for c in (feature_columns, label_columns, additional_columns) if c is not None]

        def batches() -> Iterator[Any]:
            for b in self.iter_tf_batches(
                batch_size=batch_size,
                drop_last=drop_last,
                local_shuffle_buffer_size=local_shuffle_buffer_size,
                local_shuffle_seed=local_shuffle_seed,
            ):
                yield tuple(b[c] if isinstance(c, str) else {k: b[k] for k in c} for c in wanted)

        first = next(iter(batches()))
        given = [
            s
            for c, s in zip(
                (feature_columns, label_columns, additional_columns),
                (feature_type_spec, label_type_spec, additional_type_spec),
                strict=True,
            )
            if c is not None
        ]

        def spec(t: Any) -> Any:
            return {k: spec(v) for k, v in t.items()} if isinstance(t, dict) else tf.TensorSpec((None, *t.shape[1:]), t.dtype)

        specs = tuple(s if s is not None else spec(t) for s, t in zip(given, first, strict=True))
        return tf.data.Dataset.from_generator(batches, output_signature=specs)

    def get_context(self) -> DataContext:
        """The settings of the Dataset."""
        return self._ds.context

    def materialize(self) -> MaterializedDataset:
        """Runs everything and keeps the blocks: see Dataset.materialize."""
        return self._ds.materialize()

    def schema(self) -> Schema | None:
        """Column names and types: see Dataset.schema."""
        return self._ds.schema()

    def stats(self) -> str:
        """What the last execution did, as text: see Dataset.stats."""
        return self._ds.stats()


def _tensorflow(method: str) -> Any:
    return library("tensorflow", method)


def _gpus() -> bool:
    try:
        return bool(skate.get_gpu_ids())
    except Exception:
        return False


@errors.methods
class Again:
    """What iter_batches() gives: each iteration of it runs the Dataset again; next() goes on with one of its own."""

    def __init__(self, run: Callable[[], Iterator[Any]]):
        self._run = run
        self._own: Any = None

    def __iter__(self) -> Iterator[Any]:
        return self._run()

    def __next__(self) -> Any:
        if self._own is None:
            self._own = self._run()
        return next(self._own)

    def close(self) -> None:
        """Stops the run of next()."""
        if self._own is not None:
            self._own.close()


def _closing(out: Iterator[Any], it: Any) -> Iterator[Any]:
    try:
        yield from out
    finally:
        it.close()


def cut_batches(blocks: Iterator[Any], size: int | None, fmt: str | None, drop_last: bool) -> Iterator[Any]:
    """Batches of `size` rows in a format."""
    if size is None:
        for rb in blocks:
            if rb.num_rows:
                yield _lazy.batch.to_batch(rb, fmt)
        return
    if fmt not in ("default", "numpy"):
        for rb in _lazy.rebatch.rebatch(blocks, size):
            if rb.num_rows == size or (rb.num_rows and not drop_last):
                yield _lazy.batch.to_batch(rb, fmt)
        return
    held: list[Any] = []
    n = 0
    for rb in blocks:
        rows = rb.num_rows
        at = 0
        if n:
            at = min(size - n, rows)
            if at:
                held.append(rb.slice(0, at))
                n += at
            if n < size:
                continue
            yield _lazy.numpy_batch.to_numpy(_lazy.unify.merge(held))
            held, n = [], 0
        full = (rows - at) // size
        if full:
            cols = _lazy.numpy_batch.to_numpy(rb)
            if len(cols) == 1:
                ((k, v),) = cols.items()
                for i in range(at, at + full * size, size):
                    yield {k: v[i : i + size]}
            else:
                items = list(cols.items())
                for i in range(at, at + full * size, size):
                    yield {k: v[i : i + size] for k, v in items}
            at += full * size
        if at < rows:
            held, n = [rb.slice(at)], rows - at
    if n and not drop_last:
        yield _lazy.numpy_batch.to_numpy(_lazy.unify.merge(held))


def _warn_large(rows: int, rb: Any) -> int:
    """Bytes of the store, after a warning when a shuffle buffer of `rows` rows like those of rb is larger."""
    room = int(skate.cluster_resources().get("object_store_memory", 0)) if skate.is_initialized() else 0
    need = rows * rb.nbytes // rb.num_rows
    if need > room > 0:
        warnings.warn(
            f"local_shuffle_buffer_size: the shuffle buffer of {rows:,} rows takes about {need >> 20:,} MiB, the object store has {room >> 20:,} MiB; use fewer rows",
            UserWarning,
            stacklevel=2,
        )
    return room


def shuffled(blocks: Iterator[Any], rows: int, seed: int | None) -> Iterator[Any]:
    """Blocks whose rows are permuted within a buffer of `rows` rows: a function of (seed, position) alone when a seed is given."""
    import numpy as np
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    held: list[Any] = []
    n = 0
    room = None
    for rb in blocks:
        if not rb.num_rows:
            continue
        held.append(rb)
        n += rb.num_rows
        if room is None:
            room = _warn_large(rows, rb)
        while n >= 2 * rows:  # gives out half of what is held: a row can move by about a buffer
            all_rows = _lazy.unify.merge(held)
            all_rows = all_rows.take(pa.array(rng.permutation(n)))
            out = n - rows
            yield all_rows.slice(0, out)
            held, n = [all_rows.slice(out)], rows
    if held:
        yield _lazy.unify.merge(held).take(pa.array(rng.permutation(n)))
