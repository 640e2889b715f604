"""read_binary_files: whole files as bytes."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

from skate.data.read.files import Gather, common, file_source, gathered, named, read_stream, unreadable


def read_binary_files(
    paths: Any,
    *,
    filesystem: Any = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    ray_remote_args: dict[str, Any] | None = None,
    arrow_open_stream_args: dict[str, Any] | None = None,
    partition_filter: Any = None,
    partitioning: Any = None,
    include_paths: bool = False,
    ignore_missing_paths: bool = False,
    shuffle: Any = None,
    file_extensions: list[str] | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    on_error: str | None = None,
) -> Any:
    """A Dataset with one row a file: column "bytes", and "path" if asked for. Folders are read recursively, in sorted order.

    Args:
        paths: A file, folder, glob pattern, or list of them; local or of a pyarrow file system.
        partitioning: Which folders name columns (skate.data.datasource.Partitioning); None: none.
        partition_filter: Which files are read (PathPartitionFilter).
        file_extensions: Only files with one of these endings.
        shuffle: "files" or a FileShuffleConfig: files in random order.
        include_paths: Adds the column "path".
        ignore_missing_paths: Paths that do not exist are left out instead of an error.
        arrow_open_stream_args: compression and the like of pyarrow's open_input_stream.
        override_num_blocks: Number of read tasks at most; concurrency: how many run at once.
        on_error: What becomes of what cannot be understood: "raise", "skip" or "quarantine" (see Dataset.errors()); None: as DataContext.on_error says.

    Example:
        >>> import skate
        >>> skate.data.read_binary_files(skate.data.__file__, include_paths=True).columns()
        ['bytes', 'path']
    """
    given = common(locals())
    return file_source("ReadBinary", "binary", paths, {}, schema=_schema, **given)


def _schema() -> Any:
    import pyarrow as pa

    return pa.schema([("bytes", pa.binary())])


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    import pyarrow as pa

    from skate.data.batch import from_objects

    g = Gather(["bytes", "path"], min(task.target, 4 << 20))

    def batch() -> Any:
        rb = pa.RecordBatch.from_arrays([from_objects(g.cols[0], pa.binary())], schema=_schema())
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
            raise ValueError(f"read_binary_files {path}: {len(data):,} bytes do not fit one value (2 GiB); read it in parts")
        if g.bytes and g.bytes + len(data) > task.target:
            yield batch()
        if g.add(data, path, size=len(data) + 16):
            yield batch()
    if g.cols[0]:
        yield batch()
