"""read_avro: Avro files, read by the package fastavro."""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Unpack

from skate._deps import fastavro
from skate.data.read.files import (
    Fitting,
    file_source,
    named,
    read_sound,
    tolerates,
    unreadable,
)
from skate.data.read.files import run as run_files
from skate.data.read.options import StreamOptions, takes_streams
from skate.data.read.source import Source
from skate.data.values import row_dicts

if TYPE_CHECKING:
    from skate.data.typed import Paths


@takes_streams()
def read_avro(paths: Paths, **options: Unpack[StreamOptions]) -> Source:
    """A Dataset of Avro files.

    Args:
        paths: A file, folder, glob pattern, or list of them; local, or a URI of a pyarrow file
            system.
        options: See StreamOptions.

    Raises:
        ImportError: The package fastavro is not installed.
        FileNotFoundError: A path does not exist.
        ValueError: An option is out of its range.
    """
    _fastavro()
    return file_source("ReadAvro", "avro", paths, {}, options)


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
    """Yields the batches of one file. A marker separates the blocks of an Avro file, so if one
    block is damaged, the others are still read."""
    fastavro = _fastavro()
    data = read_sound(params, task, "read_avro", path)
    f = io.BytesIO(data)
    reader = fastavro.reader(f)
    head = data[: f.tell()]
    mark = head[-16:]  # the marker that follows each block

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
            except Exception as e:  # fastavro raises any kind of error for damaged bytes
                why = ValueError(f"read_avro {path}: block {i} is damaged: {type(e).__name__}: {e}")
                unreadable(params, task, why, path, None, block)

    fitting = Fitting(params, lambda some: row_dicts.from_rows(some, "read_avro"), bad)
    records = by_block() if tolerates(params) else iter(reader)
    while rows := list(islice(records, 4096)):
        yield from fitting.batch(rows)
