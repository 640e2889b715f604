"""read_avro: Avro files, by the package fastavro."""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from skate._deps import fastavro
from skate.data.read.files import (
    Fitting,
    common,
    file_source,
    named,
    read_sound,
    tolerates,
    unreadable,
)
from skate.data.read.files import run as run_files
from skate.data.read.source import Source
from skate.data.values import row_dicts

if TYPE_CHECKING:
    from skate.data.datasource import Partitioning, PathPartitionFilter
    from skate.data.typed import FileSystem, OnError, Paths, Shuffle


def read_avro(
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
    """A Dataset of Avro files.

    Args:
        paths: A file, folder, glob pattern, or list of them; local, or a URI of a pyarrow file
            system.
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
        ignore_missing_paths: Paths that do not exist are left out; else they are a
            FileNotFoundError.
        shuffle: "files" or a FileShuffleConfig: files in random order; None: in sorted order.
        file_extensions: Only files with one of these endings; None: all files.
        concurrency: Read tasks at once, at most; None: as many as fit.
        override_num_blocks: Number of read tasks, at most; None: it follows from the bytes of the
            input.
        on_error: What becomes of what cannot be understood: "raise", "skip" or "quarantine" (see
            Dataset.errors()); None: as DataContext.on_error says.

    Raises:
        ImportError: The package fastavro is not there.
        FileNotFoundError: A path does not exist.
        ValueError: An option is out of its range.
    """
    _fastavro()
    return file_source("ReadAvro", "avro", paths, {}, **common(locals()))


def _fastavro() -> Any:
    try:
        fastavro.reader  # noqa: B018  is it installed?
    except ImportError:
        raise ImportError(
            "read_avro needs the package fastavro; install it with `pip install fastavro`"
        ) from None
    return fastavro


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    return run_files(params, task, "read_avro", read_file)


def read_file(params: dict[str, Any], task: Any, path: str) -> Iterator[Any]:
    """The batches of one file. Its blocks can be told apart: where one is damaged, the others still
    come."""
    fastavro = _fastavro()
    data = read_sound(params, task, "read_avro", path)
    f = io.BytesIO(data)
    reader = fastavro.reader(f)
    head = data[: f.tell()]
    mark = head[-16:]  # ends each block

    def bad(row: dict[str, Any], e: Exception) -> None:
        unreadable(
            params,
            task,
            named(e, "read_avro", path),
            path,
            None,
            repr(row).encode("utf-8", "backslashreplace"),
        )

    def by_block() -> Iterator[dict[str, Any]]:
        blocks = data[len(head) :].split(mark)
        for i, block in enumerate(blocks):
            if i == len(blocks) - 1 and not block:
                return
            try:
                yield from list(fastavro.reader(io.BytesIO(head + block + mark)))
            except Exception as e:  # whatever the package makes of wrong bytes
                why = ValueError(f"read_avro {path}: block {i} is damaged: {type(e).__name__}: {e}")
                unreadable(params, task, why, path, None, block)

    fitting = Fitting(params, lambda some: row_dicts.from_rows(some, "read_avro"), bad)
    records = by_block() if tolerates(params) else iter(reader)
    while rows := list(islice(records, 4096)):
        yield from fitting.batch(rows)
