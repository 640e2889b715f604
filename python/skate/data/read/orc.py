"""read_orc: ORC files by pyarrow.orc, stripe by stripe."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from skate.data.read.files import HIVE, common, file_source, open_file
from skate.data.read.files import run as run_files


def read_orc(
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
    """A Dataset of ORC files.

    Args:
        columns: Only these columns are read.
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
        >>> skate.data.range(3).write_orc(folder)
        >>> skate.data.read_orc(folder).count()
        3
    """
    return file_source("ReadORC", "orc", paths, {"columns": columns}, **common(locals()))


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    return run_files(params, task, "read_orc", read_file)


def read_file(params: dict[str, Any], task: Any, path: str) -> Iterator[Any]:
    """The stripes of one file."""
    import pyarrow.orc as orc

    from skate.data.batch import from_table

    with open_file(params.get("fs"), path) as f:
        r = orc.ORCFile(f)
        for i in range(r.nstripes):
            yield r.read_stripe(i, columns=params["columns"])
        if not r.nstripes:
            yield from from_table(r.read(columns=params["columns"]))
