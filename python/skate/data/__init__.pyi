# The public names, each with where it is defined: for type checkers, and read by _lazy.Names. What
# has no `as` is not public. reads(...) and holds(...) make a public reader from the reader of a
# format.

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
from skate.data import llm as llm
from skate.data import preprocessor as preprocessor
from skate.data import preprocessors as preprocessors
from skate.data.aggregate import AggregateFn as AggregateFn
from skate.data.aggregate import AggregateFnV2 as AggregateFnV2
from skate.data.block import BlockAccessor as BlockAccessor
from skate.data.context import DataContext as DataContext
from skate.data.context import DatasetContext as DatasetContext
from skate.data.context import ExecutionOptions as ExecutionOptions
from skate.data.context import ExecutionResources as ExecutionResources
from skate.data.context import NodeIdStr as NodeIdStr
from skate.data.context import ShuffleStrategy as ShuffleStrategy
from skate.data.dataset import ActorPoolStrategy as ActorPoolStrategy
from skate.data.dataset import Dataset as Dataset
from skate.data.dataset import MaterializedDataset as MaterializedDataset
from skate.data.dataset import TaskPoolStrategy as TaskPoolStrategy
from skate.data.dataset import holds, reads
from skate.data.datasource import BlockBasedFileDatasink as BlockBasedFileDatasink
from skate.data.datasource import Datasink as Datasink
from skate.data.datasource import Datasource as Datasource
from skate.data.datasource import FileShuffleConfig as FileShuffleConfig
from skate.data.datasource import ReadTask as ReadTask
from skate.data.datasource import RowBasedFileDatasink as RowBasedFileDatasink
from skate.data.datatype import DataType as DataType
from skate.data.datatype import TypeCategory as TypeCategory
from skate.data.exchange_strategy import ExchangeStrategy as ExchangeStrategy
from skate.data.iterator import DataIterator as DataIterator
from skate.data.iterator import DatasetIterator as DatasetIterator
from skate.data.loader import DataLoader as DataLoader
from skate.data.preprocessor import Preprocessor as Preprocessor
from skate.data.random_config import RandomSeedConfig as RandomSeedConfig
from skate.data.read import memory
from skate.data.read.formats import (
    arrow,
    audio,
    avro,
    binary,
    csv,
    custom,
    delta,
    iceberg,
    images,
    json,
    lance,
    mcap,
    numpy,
    orc,
    others,
    parquet,
    records,
    sql,
    text,
    tfrecords,
    videos,
    webdataset,
)
from skate.data.read.formats import range as _range
from skate.data.schema import Schema as Schema
from skate.data.summary import DatasetSummary as DatasetSummary
from skate.data.trainers.ranks import attach as attach
from skate.data.trainers.ranks import serve_ranks as serve_ranks
from skate.data.write.mode import SaveMode as SaveMode

read_feather = reads(arrow.read_feather)
read_audio = reads(audio.read_audio)
read_avro = reads(avro.read_avro)
read_binary_files = reads(binary.read_binary_files)
read_csv = reads(csv.read_csv)
read_datasource = reads(custom.read_datasource)
read_delta = reads(delta.read_delta)
read_iceberg = reads(iceberg.read_iceberg)
read_images = reads(images.read_images)
read_json = reads(json.read_json)
read_lance = reads(lance.read_lance)
read_mcap = reads(mcap.read_mcap)
from_arrow = holds(memory.from_arrow)
from_arrow_refs = holds(memory.from_arrow_refs)
from_blocks = holds(memory.from_blocks)
from_items = holds(memory.from_items)
from_numpy = holds(memory.from_numpy)
from_numpy_refs = holds(memory.from_numpy_refs)
from_pandas = holds(memory.from_pandas)
from_pandas_refs = holds(memory.from_pandas_refs)
read_numpy = reads(numpy.read_numpy)
read_orc = reads(orc.read_orc)
from_daft = reads(others.from_daft)
from_dask = reads(others.from_dask)
from_duckdb = reads(others.from_duckdb)
from_huggingface = reads(others.from_huggingface)
from_mars = reads(others.from_mars)
from_modin = reads(others.from_modin)
from_polars = reads(others.from_polars)
from_spark = reads(others.from_spark)
from_tf = reads(others.from_tf)
from_torch = reads(others.from_torch)
read_parquet = reads(parquet.read_parquet, "parquet")
range = reads(_range.range)
range_tensor = reads(_range.range_tensor)
read_records = reads(records.read_records)
read_sql = reads(sql.read_sql)
read_text = reads(text.read_text)
read_tfrecords = reads(tfrecords.read_tfrecords)
read_videos = reads(videos.read_videos)
read_webdataset = reads(webdataset.read_webdataset)
