"""read_binary_files: whole files as bytes."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Unpack

from skate._deps import np, pa
from skate.data.read.files import (
    Gather,
    file_source,
    gathered,
    named,
    read_stream,
    unreadable,
)
from skate.data.read.options import StreamOptions, takes_streams
from skate.data.read.source import Source
from skate.data.values import to_arrow

if TYPE_CHECKING:
    from skate.data.typed import Paths


@takes_streams()
def read_binary_files(paths: Paths, **options: Unpack[StreamOptions]) -> Source:
    """A Dataset with one row for each file: column "bytes", and "path" if include_paths is set.
    Folders are read recursively, in sorted order.

    Args:
        paths: A file, folder, glob pattern, or list of them; local or of a pyarrow file system.
        options: See StreamOptions.

    Raises:
        FileNotFoundError: A path does not exist.
        ValueError: An option is out of its range.

    Example:
        >>> import skate
        >>> skate.data.read_binary_files(skate.data.__file__, include_paths=True).columns()
        ['bytes', 'path']
    """
    return file_source("ReadBinary", "binary", paths, {}, options, schema=_schema)


def _schema() -> Any:
    return pa.schema([("bytes", pa.binary())])


def _column(values: list[bytes]) -> Any:
    """Makes a column of the values; a single value (a large file) is not copied."""
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
