"""read_binary_files: whole files as bytes."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from skate._deps import np, pa
from skate.data.read.files import (
    Gather,
    common,
    file_source,
    gathered,
    named,
    read_stream,
    unreadable,
)
from skate.data.read.source import Source
from skate.data.values import to_arrow

if TYPE_CHECKING:
    from skate.data.datasource import Partitioning, PathPartitionFilter
    from skate.data.typed import FileSystem, OnError, Paths, Shuffle


def read_binary_files(
    paths: Paths,
    *,
    filesystem: FileSystem | None = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    ray_remote_args: dict[str, Any] | None = None,
    arrow_open_stream_args: dict[str, Any] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = None,
    include_paths: bool = False,
    ignore_missing_paths: bool = False,
    shuffle: Shuffle = None,
    file_extensions: list[str] | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    on_error: OnError = None,
) -> Source:
    """A Dataset with one row a file: column "bytes", and "path" if asked for. Folders are read
    recursively, in sorted order.

    Args:
        paths: A file, folder, glob pattern, or list of them; local or of a pyarrow file system.
        filesystem: The pyarrow (or fsspec) file system of the paths; None: it follows from the
            paths.
        parallelism: Ray's older name of override_num_blocks; -1: not given.
        num_cpus: CPUs that each read task takes; None: 1.
        num_gpus: GPUs that each read task takes; None: none.
        memory: Bytes of memory that each read task reserves; None: none.
        ray_remote_args: Other options of the read tasks, as of skate.remote: resources,
            runtime_env, scheduling_strategy, max_retries, ...
        arrow_open_stream_args: compression and the like of pyarrow's open_input_stream.
        partition_filter: Which files are read (a PathPartitionFilter); None: all.
        partitioning: Which folders name columns (skate.data.datasource.Partitioning); None: none.
        include_paths: Adds the column "path".
        ignore_missing_paths: Paths that do not exist are left out instead of an error.
        shuffle: "files" or a FileShuffleConfig: files in random order.
        file_extensions: Only files with one of these endings.
        concurrency: Read tasks at once, at most; None: as many as fit.
        override_num_blocks: Number of read tasks, at most; None: it follows from the bytes of the
            input.
        on_error: What becomes of what cannot be understood: "raise", "skip" or "quarantine" (see
            Dataset.errors()); None: as DataContext.on_error says.

    Raises:
        FileNotFoundError: A path does not exist.
        ValueError: An option is out of its range.

    Example:
        >>> import skate
        >>> skate.data.read_binary_files(skate.data.__file__, include_paths=True).columns()
        ['bytes', 'path']
    """
    given = common(locals())
    return file_source("ReadBinary", "binary", paths, {}, schema=_schema, **given)


def _schema() -> Any:
    return pa.schema([("bytes", pa.binary())])


def _column(values: list[bytes]) -> Any:
    """One value, as a large file is, stays where it was read to."""
    if len(values) > 1:
        return to_arrow.from_objects(values, pa.binary())
    offsets = np.array([0, len(values[0])], np.int32)
    return pa.Array.from_buffers(
        pa.binary(), 1, [None, pa.py_buffer(offsets), pa.py_buffer(values[0])]
    )


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    g = Gather(["bytes", "path"], min(task.target, 4 << 20))

    def batch() -> Any:
        rb = pa.RecordBatch.from_arrays([_column(g.cols[0])], schema=_schema())
        out = gathered(params, rb, g.cols[1])
        task.rows_of = g.cols[1]
        g.clear()
        return out

    for path in pickle.loads(task.unit):
        task.source, task.source_row = path, None
        try:
            data = read_stream(params, path)
        except (OSError, ValueError, EOFError) as e:  # damaged compressed data
            unreadable(params, task, named(e, "read_binary_files", path), path)
            continue
        if len(data) >= 1 << 31:
            raise ValueError(
                f"read_binary_files {path}: {len(data):,} bytes do not fit one value (2 GiB); read it in parts"
            )
        if g.bytes and g.bytes + len(data) > task.target:
            yield batch()
        if g.add(data, path, size=len(data) + 16):
            yield batch()
    if g.cols[0]:
        yield batch()
