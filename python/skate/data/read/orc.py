"""read_orc: ORC files by pyarrow.orc, stripe by stripe."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from skate._deps import orc, pa
from skate.data.files.reading import open_file
from skate.data.read.files import HIVE, common, file_source, named, tolerates, unreadable
from skate.data.read.files import run as run_files
from skate.data.read.source import Source
from skate.data.values import to_arrow

if TYPE_CHECKING:
    from skate.data.datasource import Partitioning, PathPartitionFilter
    from skate.data.typed import FileSystem, OnError, Paths, Shuffle
WORKERS_IMPORT = ("pyarrow.orc",)  # the fork server does it for all of them


def read_orc(
    paths: Paths,
    *,
    columns: list[str] | None = None,
    filesystem: FileSystem | None = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    ray_remote_args: dict[str, Any] | None = None,
    arrow_open_stream_args: dict[str, Any] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = HIVE,
    include_paths: bool = False,
    ignore_missing_paths: bool = False,
    shuffle: Shuffle = None,
    file_extensions: list[str] | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    on_error: OnError = None,
) -> Source:
    """A Dataset of ORC files.

    Args:
        paths: A file, folder, glob pattern, or list of them; local, or a URI of a pyarrow file
            system.
        columns: Only these columns are read.
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
    """The stripes of one file; where bad records are tolerated, a damaged one costs itself."""
    with open_file(params.get("fs"), path) as f:
        r = orc.ORCFile(f)
        for i in range(r.nstripes):
            try:
                rb = r.read_stripe(i, columns=params["columns"])
            except (pa.ArrowException, OSError) as e:
                if not tolerates(params):
                    raise
                unreadable(params, task, named(e, f"read_orc, stripe {i} of", path), path)
                continue
            yield rb
        if not r.nstripes:
            yield from to_arrow.from_table(r.read(columns=params["columns"]))
