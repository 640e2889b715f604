"""Arguments that readers share; the descriptions are inserted into the docstrings of readers."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from skate.data.arguments import TypedDict, takes

if TYPE_CHECKING:
    from skate.data.datasource import Partitioning, PathPartitionFilter
    from skate.data.typed import FileSystem, OnError, Shuffle


class BlockOptions(TypedDict, total=False):
    """Arguments of all functions that make blocks.

    Args:
        parallelism: Ray's older name of override_num_blocks; -1: not given.
        concurrency: The most read tasks that run at once; None: as many as fit.
        override_num_blocks: The most read tasks; None: chosen from the bytes of the input.
    """

    parallelism: int
    concurrency: int | None
    override_num_blocks: int | None


class ReadOptions(BlockOptions, total=False):
    """Arguments of all readers.

    Args:
        num_cpus: CPUs that each read task reserves; None: 1.
        num_gpus: GPUs that each read task reserves; None: none.
        memory: Bytes of memory that each read task reserves; None: none.
        ray_remote_args: Other options of the read tasks, as in skate.remote: resources,
            runtime_env, scheduling_strategy, max_retries, ...
    """

    num_cpus: float | None
    num_gpus: float | None
    memory: float | None
    ray_remote_args: dict[str, Any] | None


class FileOptions(ReadOptions, total=False):
    """Arguments of all readers of files.

    Args:
        filesystem: The pyarrow (or fsspec) file system of the paths; None: inferred from the
            paths.
        partition_filter: A PathPartitionFilter that selects the files to read; None: all files.
        partitioning: A skate.data.datasource.Partitioning, by which folder names become columns;
            None: no such columns.
        include_paths: Whether to add the column "path".
        ignore_missing_paths: True: missing paths are left out; False: a missing path is a
            FileNotFoundError.
        shuffle: "files" or a FileShuffleConfig: the files are in random order; None: in sorted
            order.
        file_extensions: Only files with one of these endings are read; None: all files.
        on_error: What to do with data that cannot be parsed: "raise", "skip" or "quarantine" (see
            Dataset.errors()); None: the setting DataContext.on_error.
    """

    filesystem: FileSystem | None
    partition_filter: PathPartitionFilter | None
    partitioning: Partitioning | None
    include_paths: bool
    ignore_missing_paths: bool
    shuffle: Shuffle
    file_extensions: list[str] | None
    on_error: OnError


class StreamOptions(FileOptions, total=False):
    """Arguments of readers that read a file from its beginning to its end.

    Args:
        arrow_open_stream_args: Arguments of pyarrow's open_input_stream, such as compression.
    """

    arrow_open_stream_args: dict[str, Any] | None


if TYPE_CHECKING:  # the same arguments, for readers that pass further keywords to a library

    class OpenReadOptions(ReadOptions, total=False, extra_items=Any): ...

    class OpenFileOptions(FileOptions, total=False, extra_items=Any): ...

    class OpenStreamOptions(StreamOptions, total=False, extra_items=Any): ...


takes_blocks = functools.partial(takes, BlockOptions, parallelism=-1)
takes_read = functools.partial(takes, ReadOptions, parallelism=-1)
takes_files = functools.partial(
    takes, FileOptions, parallelism=-1, include_paths=False, ignore_missing_paths=False
)
takes_streams = functools.partial(
    takes, StreamOptions, parallelism=-1, include_paths=False, ignore_missing_paths=False
)
