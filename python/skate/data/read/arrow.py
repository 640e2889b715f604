"""read_feather: Arrow IPC files (Feather version 2) and streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from skate.data.read.files import HIVE, common, file_source, read_bytes
from skate.data.read.files import run as run_files


def read_feather(
    paths: Any,
    *,
    columns: list[str] | None = None,
    filesystem: Any = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    ray_remote_args: dict[str, Any] | None = None,
    arrow_open_stream_args: dict[str, Any] | None = None,
    partition_filter: Any = None,
    partitioning: Any = HIVE,
    include_paths: bool = False,
    ignore_missing_paths: bool = False,
    shuffle: Any = None,
    file_extensions: list[str] | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    on_error: str | None = None,
) -> Any:
    """A Dataset of Arrow IPC files or streams (.arrow, .feather version 2, .arrows).

    Args:
        columns: Only these columns; KeyError for one that a file lacks.
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
        >>> import skate, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> skate.data.range(3).write_feather(folder)
        >>> skate.data.read_feather(folder).count()
        3
    """
    return file_source("ReadFeather", "arrow", paths, {"columns": columns}, **common(locals()))


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    return run_files(params, task, "read_feather", read_file)


def read_file(params: dict[str, Any], task: Any, path: str) -> Iterator[Any]:
    """The batches of one file."""
    import pyarrow as pa

    buf = pa.memory_map(path).read_buffer() if params.get("fs") is None else pa.py_buffer(read_bytes(params["fs"], path))
    with pa.ipc.open_file(buf) if buf.slice(0, 6).to_pybytes() == b"ARROW1" else pa.ipc.open_stream(buf) as r:
        n = getattr(r, "num_record_batches", None)
        batches = (r.get_batch(i) for i in range(n)) if n is not None else iter(r)
        none = True
        for rb in batches:
            none = False
            yield _cut(rb, params["columns"])
        if none:
            yield _cut(pa.RecordBatch.from_pylist([], r.schema), params["columns"])


def _cut(rb: Any, columns: list[str] | None) -> Any:
    rb = rb.replace_schema_metadata(None) if rb.schema.metadata else rb
    if columns is None:
        return rb
    for c in columns:
        if c not in rb.schema.names:
            raise KeyError(f"there is no column {c!r}; columns are {', '.join(rb.schema.names)}")
    return rb.select(columns)
