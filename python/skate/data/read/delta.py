"""read_delta: the Parquet files of a version of a Delta Lake table, as its log (read by the package
deltalake) names them, in the table's schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate._deps import pa
from skate.data.checks import library
from skate.data.files.local import local_path
from skate.data.read import memory as _memory
from skate.data.read.files import HIVE
from skate.data.read.parquet import read_parquet
from skate.data.read.source import InMemory, Source

if TYPE_CHECKING:
    from skate.data.datasource import Partitioning, PathPartitionFilter
    from skate.data.typed import FileSystem, Shuffle


def read_delta(
    path: str,
    version: int | None = None,
    *,
    filesystem: FileSystem | None = None,
    columns: list[str] | None = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    ray_remote_args: dict[str, Any] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = HIVE,
    shuffle: Shuffle = None,
    include_paths: bool = False,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    storage_options: dict[str, str] | None = None,
    trust_pickled_columns: bool = False,
    **arrow_parquet_args: Any,
) -> Source | InMemory:
    """A Dataset of a Delta Lake table. Needs the package deltalake: ImportError without it. Other
    arguments as of read_parquet.

    Args:
        path: The table's folder; one table.
        version: Of the table; None: the newest.
        filesystem: The pyarrow (or fsspec) file system of the paths; None: it follows from the
            paths.
        columns: Only these columns are read, in this order; None: all.
        parallelism: Ray's older name of override_num_blocks; -1: not given.
        num_cpus: CPUs that each read task takes; None: 1.
        num_gpus: GPUs that each read task takes; None: none.
        memory: Bytes of memory that each read task reserves; None: none.
        ray_remote_args: Other options of the read tasks, as of skate.remote: resources,
            runtime_env, scheduling_strategy, max_retries, ...
        partition_filter: Which files are read (a PathPartitionFilter); None: all.
        partitioning: Which folders name columns (skate.data.datasource.Partitioning); None: none.
        shuffle: "files" or a FileShuffleConfig: files in random order; None: in sorted order.
        include_paths: Adds the column "path".
        concurrency: Read tasks at once, at most; None: as many as fit.
        override_num_blocks: Number of read tasks, at most; None: it follows from the bytes of the
            input.
        storage_options: As deltalake takes them, to read the log.
        trust_pickled_columns: True: Python objects that others have pickled into the files are
            unpickled, which runs whatever code they name. False: as
            DataContext.trust_pickled_columns says, which is not to.
        arrow_parquet_args: As of read_parquet: batch_size, use_threads.

    Raises:
        NotImplementedError: Rows of the table are deleted in its log only (deletion vectors), or
            its columns have other names in the files: reading the files would be wrong.
    """
    if not isinstance(path, str):
        raise ValueError(f"read_delta takes the path of one table, not {path!r}")
    table = library("deltalake", "read_delta").DeltaTable(
        local_path(path) or path, version=version, storage_options=storage_options
    )
    needs = {"deletionVectors", "columnMapping"} & set(table.protocol().reader_features or ())
    if needs:
        raise NotImplementedError(
            f"read_delta {path}: the table uses {', '.join(sorted(needs))}, so its files alone do not say its rows; rewrite it without (REORG TABLE ... APPLY (PURGE)), or hand over "
            "from_arrow(DeltaTable(path).to_pyarrow_table())"
        )
    files = table.file_uris()
    schema = pa.schema(table.schema().to_arrow())
    if not files:
        return _memory.from_arrow(
            (
                schema if columns is None else pa.schema([schema.field(c) for c in columns])
            ).empty_table()
        )
    return read_parquet(
        files,
        filesystem=filesystem,
        columns=columns,
        parallelism=parallelism,
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        memory=memory,
        ray_remote_args=ray_remote_args,
        partition_filter=partition_filter,
        partitioning=partitioning,
        shuffle=shuffle,
        include_paths=include_paths,
        concurrency=concurrency,
        override_num_blocks=override_num_blocks,
        schema=schema,
        trust_pickled_columns=trust_pickled_columns,
        **arrow_parquet_args,
    )
