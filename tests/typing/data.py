"""What a type checker, and so an editor, knows of Datasets. Checked by ./dev lint; never run."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from typing import Any, assert_type

import numpy as np
import pandas as pd
import skate.data
from skate.data import (
    ActorPoolStrategy,
    DataContext,
    DataIterator,
    Dataset,
    DataType,
    MaterializedDataset,
    Schema,
)
from skate.data.datasource import Partitioning
from skate.data.expressions import col


def numbers(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"x": batch["id"] * 2}


class Model:
    def __init__(self, k: int):
        self.k = k

    def __call__(self, batch: pd.DataFrame) -> pd.DataFrame:
        return batch * self.k


ds = skate.data.range(10)
assert_type(ds, Dataset)
assert_type(skate.data.read_parquet("p", columns=["a"], partitioning=Partitioning("hive")), Dataset)
assert_type(skate.data.read_csv(["a", "b"], on_error="skip", shuffle="files"), Dataset)
assert_type(skate.data.from_items([1, 2]), MaterializedDataset)
assert_type(ds.map(lambda row: {"x": row["id"] + 1}).filter(expr="x > 3").limit(5), Dataset)
ds.map(lambda row: {"x": assert_type(row, dict[str, Any])["id"]})  # not Unknown
ds.map_batches(lambda batch, k: batch, fn_args=(2,))
ds.map_batches(lambda: 1)  # type: ignore
assert_type(ds.map_batches(numbers, batch_size=64, batch_format="numpy", num_cpus=0.5), Dataset)
assert_type(
    ds.map_batches(
        Model, fn_constructor_args=(2,), compute=ActorPoolStrategy(size=2), batch_format="pandas"
    ),
    Dataset,
)
assert_type(ds.with_column("y", col("id") * 2).select_columns("y").union(ds).zip(ds), Dataset)
assert_type(ds.take(3), list[dict[str, Any]])
assert_type(ds.count(), int)
assert_type(ds.schema(), Schema | None)
assert_type(ds.columns(), list[str] | None)
assert_type(ds.materialize(), MaterializedDataset)
assert_type(ds.split(2), list[MaterializedDataset])
assert_type(ds.streaming_split(2), list[DataIterator])
assert_type([len(it) for it in ds.streaming_split(2, batch_size=3)], list[int])
assert_type(ds.to_pandas(limit=10), pd.DataFrame)
assert_type(ds.take_batch(5, batch_format="pandas"), pd.DataFrame)
assert_type(DataType.int64(), DataType)
for row in ds.iter_rows():
    assert_type(row, dict[str, Any])
for batch in ds.iter_batches(batch_size=2):
    assert_type(batch, dict[str, np.ndarray[Any, Any]])
for frame in ds.iterator().iter_batches(batch_format="pandas", drop_last=True):
    assert_type(frame, pd.DataFrame)
assert_type(ds.write_parquet("p", mode="overwrite", compression="zstd"), None)
context = DataContext.get_current()
assert_type(context.target_max_block_size, int | None)

# what is wrong is told
ds.map(1)  # pyright: ignore[reportArgumentType]
ds.map_batches(numbers, batch_format="panda")  # pyright: ignore[reportArgumentType]
skate.data.read_parqet("p")  # pyright: ignore[reportAttributeAccessIssue]
context.on_error = 3  # pyright: ignore[reportAttributeAccessIssue]
skate.data.read_text("p", on_eror="skip")  # pyright: ignore[reportCallIssue]
skate.data.read_csv("p", memory="1 GB")  # pyright: ignore[reportArgumentType]
