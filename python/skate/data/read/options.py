"""Arguments that readers share."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from skate.data.arguments import TypedDict, takes

if TYPE_CHECKING:
    from skate.data.datasource import Partitioning, PathPartitionFilter
    from skate.data.typed import FileSystem, OnError, Shuffle


class BlockOptions(TypedDict, total=False):
    """Of everything that makes blocks.

    Args:
        parallelism: Ray's older name of override_num_blocks; -1: not given.
        concurrency: Read tasks at once, at most; None: as many as fit.
        override_num_blocks: Number of read tasks, at most; None: it follows from the bytes of the
            input.
    """

    parallelism: int
    concurrency: int | None
    override_num_blocks: int | None


class ReadOptions(BlockOptions, total=False):
    """Of all readers.

    Args:
        num_cpus: CPUs that each read task takes; None: 1.
        num_gpus: GPUs that each read task takes; None: none.
        memory: Bytes of memory that each read task reserves; None: none.
        ray_remote_args: Other options of the read tasks, as of skate.remote: resources,
            runtime_env, scheduling_strategy, max_retries, ...
    """

    num_cpus: float | None
    num_gpus: float | None
    memory: float | None
    ray_remote_args: dict[str, Any] | None


class FileOptions(ReadOptions, total=False):
    """Of all readers of files.

    Args:
        filesystem: The pyarrow (or fsspec) file system of the paths; None: it follows from the
            paths.
        partition_filter: Which files are read (a PathPartitionFilter); None: all.
        partitioning: Which folders name columns (skate.data.datasource.Partitioning); None: none.
        include_paths: Adds the column "path".
        ignore_missing_paths: Paths that do not exist are left out; else they are a
            FileNotFoundError.
        shuffle: "files" or a FileShuffleConfig: files in random order; None: in sorted order.
        file_extensions: Only files with one of these endings; None: all files.
        on_error: What becomes of what cannot be understood: "raise", "skip" or "quarantine" (see
            Dataset.errors()); None: as DataContext.on_error says.
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
    """Of readers that read a file from its beginning to its end.

    Args:
        arrow_open_stream_args: compression and the like of pyarrow's open_input_stream.
    """

    arrow_open_stream_args: dict[str, Any] | None


if TYPE_CHECKING:  # the same, of readers that hand other keywords to a library

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
