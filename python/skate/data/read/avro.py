"""read_avro: Avro files, by the package fastavro."""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import islice
from typing import Any

from skate.data.read.files import common, file_source, read_stream
from skate.data.read.files import run as run_files


def read_avro(
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
    """A Dataset of Avro files. Needs the package fastavro: ImportError without it. Arguments as of read_csv."""
    _fastavro()
    return file_source("ReadAvro", "avro", paths, {}, **common(locals()))


def _fastavro() -> Any:
    try:
        import fastavro
    except ImportError:
        raise ImportError("read_avro needs the package fastavro; install it with `pip install fastavro`") from None
    return fastavro


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    return run_files(params, task, "read_avro", read_file)


def read_file(params: dict[str, Any], task: Any, path: str) -> Iterator[Any]:
    """The batches of one file."""
    from skate.data.batch import from_rows

    records = iter(_fastavro().reader(io.BytesIO(read_stream(params, path))))
    while rows := list(islice(records, 4096)):
        rb = from_rows(rows, "read_avro")
        if rb is not None:
            yield rb
