"""FileBasedDatasource: a source of files that users write by defining one method that reads an open
file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from skate._deps import pa
from skate.data import block
from skate.data.datasource.datasource import Datasource, ReadTask
from skate.data.random_config import FileShuffleConfig  # noqa: F401  it is public here
from skate.data.read.files import (
    FILE_SIZE_FETCH_PARALLELIZATION_THRESHOLD,  # noqa: F401  as in Ray
    keep_paths,
    list_files,
    named,
    parser,
    read_stream,
    reshuffled,
    with_columns,
)
from skate.data.values import batch


class FileBasedDatasource(Datasource):
    """A source of files: define _read_stream(f, path), which yields the blocks of one open file.

    Args:
        paths: Files or folders.
        filesystem, partition_filter, partitioning: As in read_csv.
        ignore_missing_paths, shuffle, include_paths, file_extensions: As in read_csv.
        open_stream_args: Arguments of pyarrow's open_input_stream, such as compression.
    """

    _FILE_EXTENSIONS: Any = None

    def __init__(
        self,
        paths: Any,
        *,
        filesystem: Any = None,
        schema: Any = None,
        open_stream_args: dict[str, Any] | None = None,
        meta_provider: Any = None,
        partition_filter: Any = None,
        partitioning: Any = None,
        ignore_missing_paths: bool = False,
        shuffle: Any = None,
        include_paths: bool = False,
        file_extensions: Any = None,
    ):
        self._listing = list_files(
            paths,
            filesystem=filesystem,
            extensions=file_extensions,
            ignore_missing=ignore_missing_paths,
        )
        if partition_filter is not None:
            keep_paths(self._listing, partition_filter)
        reshuffled(self._listing, shuffle, None)  # raises now if shuffle is invalid
        self._shuffle, self._schema, self._open_stream_args = (
            shuffle,
            schema,
            dict(open_stream_args or {}),
        )
        self._partitioning, self._include_paths = partitioning, include_paths
        self._executions = 0

    def _paths(self) -> list[str]:
        return list(self._listing.paths)

    def _file_sizes(self) -> list[int]:
        return list(self._listing.sizes)

    def estimate_inmemory_data_size(self) -> int | None:
        return sum(self._listing.sizes)

    def _read_stream(self, f: Any, path: str) -> Iterator[Any]:
        """Yields the blocks of one file.

        Args:
            f: An open pyarrow input stream, decompressed.
            path: Path of the file.
        """
        raise NotImplementedError(
            f"{type(self).__name__}: a FileBasedDatasource needs its own _read_stream()"
        )

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        listing = self._listing
        order = reshuffled(listing, self._shuffle, lambda part: part)
        if order is not None:
            listing = order(self._executions)["units"]
            self._executions += 1
        n = len(listing.paths)
        k = max(1, min(parallelism, n))
        out = []
        for i in range(k):
            a, b = i * n // k, (i + 1) * n // k
            meta = block.BlockMetadata(
                num_rows=None,
                size_bytes=sum(listing.sizes[a:b]),
                input_files=listing.paths[a:b],
                exec_stats=None,
            )
            out.append(
                ReadTask(
                    _ReadFiles(self, listing.paths[a:b]), meta, self._schema, per_task_row_limit
                )
            )
        return out


class _ReadFiles:
    """The function of a ReadTask that reads files."""

    def __init__(self, source: FileBasedDatasource, paths: list[str]):
        self.source, self.paths = source, paths

    def __call__(self) -> Iterator[Any]:
        s = self.source
        parse = parser(s._partitioning)
        for path in self.paths:
            try:
                data = read_stream({"fs": s._listing.fs, "stream": s._open_stream_args}, path)
            except OSError as e:
                raise named(e, s.get_name(), path) from None
            for made in s._read_stream(pa.BufferReader(data), path):
                for rb in batch.from_batch(made, s.get_name()):
                    yield pa.Table.from_batches(
                        [
                            with_columns(
                                {"partitioning": s._partitioning},
                                rb,
                                parse(path) if parse else {},
                                path if s._include_paths else None,
                            )
                        ]
                    )
