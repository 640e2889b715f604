"""skate.data: lazy tables, read, mapped and written by a streaming engine in C. Names and defaults are Ray Data's.

Example:
    >>> import skate
    >>> skate.data.range(1000).map_batches(lambda b: {"x": b["id"] ** 2}).filter(expr="x % 2 == 0").count()
    500
"""

from __future__ import annotations

from skate.data import context
from skate.data.context import DataContext, ExecutionOptions, ExecutionResources
from skate.data.dataset import ActorPoolStrategy, Dataset, MaterializedDataset, TaskPoolStrategy
from skate.data.iterator import DataIterator
from skate.data.read.binary import read_binary_files
from skate.data.read.csv import read_csv
from skate.data.read.images import read_images
from skate.data.read.json import read_json
from skate.data.read.memory import from_arrow, from_blocks, from_items, from_numpy, from_pandas
from skate.data.read.parquet import read_parquet
from skate.data.read.range import range, range_tensor
from skate.data.read.text import read_text
from skate.data.schema import Schema
from skate.data.write.job import SaveMode

__all__ = [
    "ActorPoolStrategy",
    "DataContext",
    "DataIterator",
    "Dataset",
    "ExecutionOptions",
    "ExecutionResources",
    "MaterializedDataset",
    "SaveMode",
    "Schema",
    "TaskPoolStrategy",
    "context",
    "from_arrow",
    "from_blocks",
    "from_items",
    "from_numpy",
    "from_pandas",
    "range",
    "range_tensor",
    "read_binary_files",
    "read_csv",
    "read_images",
    "read_json",
    "read_parquet",
    "read_text",
]
