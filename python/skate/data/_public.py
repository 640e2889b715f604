"""The public names of skate.data, in one place; the package takes each from here when it is asked
for. What a program does not name is not imported: the readers, and what one extends (Datasource,
AggregateFn), are a fifth of what skate.data is."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from skate.data import context  # noqa: F401
from skate.data.context import DataContext, ExecutionOptions, ExecutionResources, ShuffleStrategy  # noqa: F401
from skate.data.dataset import (  # noqa: F401
    ActorPoolStrategy,
    Dataset,
    MaterializedDataset,
    RandomSeedConfig,
    TaskPoolStrategy,
    holds,
    reads,
)
from skate.data.datatype import DataType, TypeCategory  # noqa: F401
from skate.data.exchange_strategy import ExchangeStrategy  # noqa: F401
from skate.data.iterator import DataIterator
from skate.data.schema import Schema  # noqa: F401
from skate.data.write.mode import SaveMode  # noqa: F401

DatasetContext, DatasetIterator = DataContext, DataIterator  # Ray's older names
NodeIdStr = str


if TYPE_CHECKING:
    from skate.data.aggregate import AggregateFn, AggregateFnV2  # noqa: F401
    from skate.data.block import BlockAccessor  # noqa: F401
    from skate.data.datasource import (  # noqa: F401
        BlockBasedFileDatasink,
        Datasink,
        Datasource,
        FileShuffleConfig,
        ReadTask,
        RowBasedFileDatasink,
    )
    from skate.data.loader import DataLoader  # noqa: F401
    from skate.data.preprocessor import Preprocessor  # noqa: F401
    from skate.data.ranks import attach, serve_ranks  # noqa: F401
    from skate.data.read import (
        arrow,
        audio,
        avro,
        binary,
        csv,
        custom,
        delta,
        images,
        json,
        lance,
        mcap,
        memory,
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
    from skate.data.read import range as _range
    from skate.data.summary import DatasetSummary  # noqa: F401

    read_feather = reads(arrow.read_feather)
    read_audio = reads(audio.read_audio)
    read_avro = reads(avro.read_avro)
    read_binary_files = reads(binary.read_binary_files)
    read_csv = reads(csv.read_csv)
    read_datasource = reads(custom.read_datasource)
    read_delta = reads(delta.read_delta)
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

else:
    # module below skate.data: the names that are taken from it. read_<name> is of read/<name>.py,
    # unless it is here
    _IN = {
        "aggregate": ("AggregateFn", "AggregateFnV2"),
        "block": ("BlockAccessor",),
        "datasource": (
            "BlockBasedFileDatasink",
            "Datasink",
            "Datasource",
            "FileShuffleConfig",
            "ReadTask",
            "RowBasedFileDatasink",
        ),
        "loader": ("DataLoader",),
        "preprocessor": ("Preprocessor",),
        "ranks": ("attach", "serve_ranks"),
        "summary": ("DatasetSummary",),
        "read.arrow": ("read_feather",),
        "read.binary": ("read_binary_files",),
        "read.custom": ("read_datasource",),
        "read.memory": (
            "from_arrow",
            "from_arrow_refs",
            "from_blocks",
            "from_items",
            "from_numpy",
            "from_numpy_refs",
            "from_pandas",
            "from_pandas_refs",
        ),
        "read.others": (
            "from_daft",
            "from_dask",
            "from_duckdb",
            "from_huggingface",
            "from_mars",
            "from_modin",
            "from_polars",
            "from_spark",
            "from_tf",
            "from_torch",
        ),
        "read.range": ("range", "range_tensor"),
    }
    _MODULE = {name: module for module, names in _IN.items() for name in names}

    def _module(name: str) -> str | None:
        return _MODULE.get(name) or (f"read.{name[5:]}" if name.startswith("read_") else None)

    def __getattr__(name: str) -> Any:
        module = _module(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"skate.data.{module}"), name)
        if module == "read.memory":
            value = holds(value)
        elif module.startswith("read."):
            value = reads(value, "parquet" if module == "read.parquet" else None)
        globals()[name] = value
        return value
