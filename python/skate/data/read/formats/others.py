"""Datasets of other libraries: torch, Hugging Face, Polars, DuckDB, Dask, Daft, Modin, Spark,
TensorFlow. Only these functions import the libraries, when they are called.

Data in the memory of this process becomes blocks without a copy if the library exports Arrow. An
iterable is read in one task, since no other task could begin in its middle.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from skate._deps import dask, datasets, torch
from skate.data.read.memory import from_arrow, from_pandas
from skate.data.read.source import Facts, InMemory, Source, min_units
from skate.data.values import row_dicts
from skate.serialize import cloudpickled

ROWS = 1024


def from_torch(dataset: Any, local_read: bool = False) -> Source | InMemory:
    """A Dataset of a torch Dataset, in a column "item". Several tasks read a map-style Dataset, one
    task reads an iterable one.

    Args:
        dataset: torch.utils.data.Dataset or IterableDataset; it is pickled and sent to the workers.
        local_read: Reads in this process now (for a dataset that only this process can read).

    Raises:
        ImportError: torch is not installed.
    """
    n = None
    # torch's IterableDataset has a __getitem__, which only raises an error
    if hasattr(dataset, "__getitem__") and not isinstance(
        dataset, torch.utils.data.IterableDataset
    ):
        n = len(dataset)
    if local_read:
        return InMemory(
            list(_rows(iter(dataset) if n is None else (dataset[i] for i in range(n)))), "FromTorch"
        )
    if n is None:
        units = [(struct.pack("<qq", 0, -1), -1, 1 << 20)]
    else:
        k = max(1, min(n, min_units()))
        units = [
            (
                struct.pack("<qq", i * n // k, (i + 1) * n // k),
                (i + 1) * n // k - i * n // k,
                1 << 20,
            )
            for i in range(k)
        ]
    params = {"format": "others", "fn": cloudpickled(dataset)}
    return Source("ReadTorch", params, units, {}, Facts(n))


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    dataset = pickle.loads(params["fn"])
    a, b = struct.unpack("<qq", task.unit)
    task.source = f"items {a}..{b - 1}" if b >= 0 else "the dataset"
    yield from _rows(iter(dataset) if b < 0 else (dataset[i] for i in range(a, b)))


def _rows(items: Iterator[Any]) -> Iterator[Any]:
    """Yields batches of items, in a column "item"; an item of several values (picture, label)
    becomes a list."""
    held: list[Mapping[str, Any]] = []
    for v in items:
        held.append({"item": v})
        if len(held) == ROWS:
            yield row_dicts.from_rows(held, "from_torch")
            held = []
    if held:
        yield row_dicts.from_rows(held, "from_torch")


def from_huggingface(
    dataset: Any,
    parallelism: int = -1,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
) -> Source | InMemory:
    """A Dataset of a Hugging Face datasets.Dataset (its Arrow table, with selected and shuffled
    rows) or of an IterableDataset (read in one task).

    A DatasetDict is an error (DeprecationWarning, as in Ray) that names its splits.

    Args:
        dataset: A datasets.Dataset or datasets.IterableDataset.
        parallelism: Ray's older name of override_num_blocks; -1: not given.
        concurrency: Has no effect.
        override_num_blocks: Number of blocks; None: it follows from the bytes.

    Raises:
        TypeError: dataset is neither.
    """
    if isinstance(dataset, datasets.Dataset):
        if override_num_blocks is None and parallelism > 0:
            override_num_blocks = parallelism
        table = dataset.with_format("arrow")[:]
        return from_arrow(table, override_num_blocks=override_num_blocks)
    if isinstance(dataset, datasets.IterableDataset):
        params = {"format": "huggingface", "fn": cloudpickled(dataset)}
        return Source("ReadHuggingFace", params, [(b"", -1, 1 << 20)], {}, Facts())
    if isinstance(dataset, (datasets.DatasetDict, datasets.IterableDatasetDict)):
        raise DeprecationWarning(  # the class that Ray raises here
            f"You provided a Hugging Face {type(dataset).__name__}, which is several splits: {', '.join(dataset)}. from_huggingface takes one: from_huggingface(d['{next(iter(dataset))}'])"
        )
    raise TypeError(
        f"from_huggingface: takes a datasets.Dataset or a datasets.IterableDataset, not {type(dataset)}"
    )


def from_polars(df: Any, *, override_num_blocks: int | None = None) -> Source | InMemory:
    """A Dataset of a Polars DataFrame or LazyFrame.

    Args:
        df: The DataFrame; a LazyFrame is collected.
        override_num_blocks: Number of blocks; None: it follows from the bytes.
    """
    return from_arrow(
        df.collect() if hasattr(df, "collect") else df, override_num_blocks=override_num_blocks
    )


def from_duckdb(relation: Any, *, override_num_blocks: int | None = None) -> Source | InMemory:
    """A Dataset of the rows of a DuckDB relation.

    Args:
        relation: The relation; its query runs now.
        override_num_blocks: Number of blocks; None: it follows from the bytes.
    """
    return from_arrow(relation.arrow(), override_num_blocks=override_num_blocks)


def from_dask(df: Any) -> Source | InMemory:
    """A Dataset of a Dask DataFrame, one block for each partition.

    Args:
        df: The DataFrame; it is computed now.
    """
    parts = dask.compute(*df.to_delayed())
    return from_pandas(list(parts))


def from_daft(df: Any) -> Source | InMemory:
    """A Dataset of a Daft DataFrame.

    Args:
        df: The DataFrame; it is collected now.
    """
    return from_arrow(df.to_arrow())


def from_modin(df: Any) -> Source | InMemory:
    """A Dataset of a Modin DataFrame.

    Args:
        df: The DataFrame.
    """
    return from_pandas(df._to_pandas())


def from_mars(df: Any) -> Source | InMemory:
    """A Dataset of a Mars DataFrame.

    Args:
        df: The DataFrame.
    """
    return from_pandas(df.to_pandas())


def from_spark(
    df: Any, *, parallelism: int | None = None, override_num_blocks: int | None = None
) -> Source | InMemory:
    """A Dataset of a Spark DataFrame, collected to this process.

    Args:
        df: The DataFrame.
        parallelism: Ray's older name of override_num_blocks; None: not given.
        override_num_blocks: Number of blocks; None: it follows from the bytes.
    """
    return from_arrow(df.toArrow(), override_num_blocks=override_num_blocks or parallelism)


def from_tf(dataset: Any) -> Source | InMemory:
    """A Dataset of a TensorFlow Dataset, in a column "item"; read in this process.

    Args:
        dataset: A tf.data.Dataset.
    """
    return InMemory(list(_rows(dataset.as_numpy_iterator())), "FromTF")
