"""The public names of skate.data, in one place; the package takes them from here when the first one is asked for."""

from __future__ import annotations

from skate.data import context  # noqa: F401
from skate.data.aggregate import AggregateFn, AggregateFnV2  # noqa: F401
from skate.data.block import BlockAccessor  # noqa: F401
from skate.data.context import DataContext, ExecutionOptions, ExecutionResources, ShuffleStrategy  # noqa: F401
from skate.data.dataset import (  # noqa: F401
    ActorPoolStrategy,
    Dataset,
    MaterializedDataset,
    RandomSeedConfig,
    TaskPoolStrategy,
)
from skate.data.datasource import (  # noqa: F401
    BlockBasedFileDatasink,
    Datasink,
    Datasource,
    FileShuffleConfig,
    ReadTask,
    RowBasedFileDatasink,
)
from skate.data.iterator import DataIterator  # noqa: F401
from skate.data.read.arrow import read_feather  # noqa: F401
from skate.data.read.audio import read_audio  # noqa: F401
from skate.data.read.avro import read_avro  # noqa: F401
from skate.data.read.binary import read_binary_files  # noqa: F401
from skate.data.read.csv import read_csv  # noqa: F401
from skate.data.read.custom import read_datasource  # noqa: F401
from skate.data.read.delta import read_delta  # noqa: F401
from skate.data.read.images import read_images  # noqa: F401
from skate.data.read.json import read_json  # noqa: F401
from skate.data.read.lance import read_lance  # noqa: F401
from skate.data.read.memory import (  # noqa: F401
    from_arrow,
    from_arrow_refs,
    from_blocks,
    from_items,
    from_numpy,
    from_numpy_refs,
    from_pandas,
    from_pandas_refs,
)
from skate.data.read.numpy import read_numpy  # noqa: F401
from skate.data.read.orc import read_orc  # noqa: F401
from skate.data.read.others import (  # noqa: F401
    from_daft,
    from_dask,
    from_duckdb,
    from_huggingface,
    from_mars,
    from_modin,
    from_polars,
    from_spark,
    from_tf,
    from_torch,
)
from skate.data.read.parquet import read_parquet  # noqa: F401
from skate.data.read.range import range, range_tensor  # noqa: F401
from skate.data.read.sql import read_sql  # noqa: F401
from skate.data.read.text import read_text  # noqa: F401
from skate.data.read.tfrecords import read_tfrecords  # noqa: F401
from skate.data.read.videos import read_videos  # noqa: F401
from skate.data.read.webdataset import read_webdataset  # noqa: F401
from skate.data.schema import Schema  # noqa: F401
from skate.data.summary import DatasetSummary  # noqa: F401
from skate.data.write.job import SaveMode  # noqa: F401

DatasetContext, DatasetIterator = DataContext, DataIterator  # Ray's older names
NodeIdStr = str
