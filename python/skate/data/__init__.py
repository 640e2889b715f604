"""skate.data: lazy tables, read, mapped and written by a streaming engine in C. Names and defaults
are Ray Data's.

Example:
    >>> import skate
    >>> skate.data.range(1000).map_batches(lambda b: {"x": b["id"] ** 2}).filter(
    ...     expr="x % 2 == 0"
    ... ).count()
    500
"""

# ruff: noqa: F405
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate import _lazy

if TYPE_CHECKING:
    from skate.data import aggregate as aggregate
    from skate.data import block as block
    from skate.data import checkpoint as checkpoint
    from skate.data import collate_fn as collate_fn
    from skate.data import context as context
    from skate.data import dataset as dataset
    from skate.data import datasource as datasource
    from skate.data import datatype as datatype
    from skate.data import exceptions as exceptions
    from skate.data import expressions as expressions
    from skate.data import extensions as extensions
    from skate.data import iterator as iterator
    from skate.data import preprocessor as preprocessor
    from skate.data import preprocessors as preprocessors
    from skate.data._public import *  # noqa: F403
    from skate.data.datatype import DataType, TypeCategory

__all__ = [
    "ActorPoolStrategy",
    "AggregateFn",
    "AggregateFnV2",
    "BlockAccessor",
    "BlockBasedFileDatasink",
    "DataContext",
    "DataIterator",
    "DataLoader",
    "DataType",
    "Dataset",
    "DatasetContext",
    "DatasetIterator",
    "DatasetSummary",
    "Datasink",
    "Datasource",
    "ExchangeStrategy",
    "ExecutionOptions",
    "ExecutionResources",
    "FileShuffleConfig",
    "MaterializedDataset",
    "NodeIdStr",
    "Preprocessor",
    "RandomSeedConfig",
    "ReadTask",
    "RowBasedFileDatasink",
    "SaveMode",
    "Schema",
    "ShuffleStrategy",
    "TaskPoolStrategy",
    "TypeCategory",
    "attach",
    "context",
    "from_arrow",
    "from_arrow_refs",
    "from_blocks",
    "from_daft",
    "from_dask",
    "from_duckdb",
    "from_huggingface",
    "from_items",
    "from_mars",
    "from_modin",
    "from_numpy",
    "from_numpy_refs",
    "from_pandas",
    "from_pandas_refs",
    "from_polars",
    "from_spark",
    "from_tf",
    "from_torch",
    "range",
    "range_tensor",
    "read_audio",
    "read_avro",
    "read_binary_files",
    "read_csv",
    "read_datasource",
    "read_delta",
    "read_feather",
    "read_images",
    "read_json",
    "read_lance",
    "read_mcap",
    "read_numpy",
    "read_orc",
    "read_parquet",
    "read_records",
    "read_sql",
    "read_text",
    "read_tfrecords",
    "read_videos",
    "read_webdataset",
    "serve_ranks",
]


__path__.append(f"{_lazy.OF_RAY}/data")
_FROM = dict.fromkeys(__all__, "_public")
del _FROM["context"]

if not TYPE_CHECKING:  # for a type checker a name is there or it is not

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module 'skate.data' has no attribute {name!r}")
        return _lazy.attribute("skate.data", name, _FROM)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
