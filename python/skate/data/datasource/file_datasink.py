"""RowBasedFileDatasink and BlockBasedFileDatasink: targets of files that users write by defining
one method that fills an open file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from skate._deps import pafs
from skate.data import block, context
from skate.data.datasource.datasink import WRITE_UUID_KWARG_NAME, Datasink, TaskContext, WriteResult
from skate.data.datasource.filename_provider import FilenameProvider, row_filename
from skate.data.files import paths
from skate.data.files.retry import retried
from skate.data.values import unify
from skate.data.write import mode as _mode


class _FileDatasink(Datasink):
    """Writes files into a folder, under names that depend on the task. The arguments are those of
    write_csv; mode: a SaveMode."""

    def __init__(
        self,
        path: str,
        *,
        filesystem: Any = None,
        try_create_dir: bool = True,
        open_stream_args: dict[str, Any] | None = None,
        filename_provider: FilenameProvider | None = None,
        dataset_uuid: str | None = None,
        file_format: str | None = None,
        mode: Any = "append",
    ):
        self.unresolved_path = path
        self.filesystem, self.path = paths.resolve(str(path), filesystem)
        if self.filesystem is None:
            self.filesystem = pafs.LocalFileSystem()
        self.try_create_dir, self.open_stream_args = try_create_dir, dict(open_stream_args or {})
        self.filename_provider = filename_provider or FilenameProvider(
            dataset_uuid=dataset_uuid, file_format=file_format
        )
        self.dataset_uuid, self.file_format, self.mode = dataset_uuid, file_format, mode
        self.has_created_dir = self._skip_write = False

    def open_output_stream(self, path: str) -> Any:
        """Opens a file for writing.

        Args:
            path: Its path, on the file system of the sink.
        """
        return self.filesystem.open_output_stream(path, **self.open_stream_args)

    def on_write_start(self, schema: Any = None) -> None:
        mode = _mode.SaveMode(str(getattr(self.mode, "value", self.mode)).lower())
        if self.filesystem.get_file_info(self.path).type != pafs.FileType.NotFound:
            if mode is _mode.SaveMode.ERROR:
                raise ValueError(
                    f"write {self.path}: it exists and mode is 'error'; 'append', 'overwrite' and 'ignore' (write nothing) are the other modes"
                )
            if mode is _mode.SaveMode.IGNORE:
                self._skip_write = True
                return
            if mode is _mode.SaveMode.OVERWRITE:
                for f in self.filesystem.get_file_info(pafs.FileSelector(self.path)):
                    if f.base_name.startswith(".skate-"):  # staging files of other writes
                        continue
                    if f.type == pafs.FileType.Directory:
                        self.filesystem.delete_dir(f.path)
                    else:
                        self.filesystem.delete_file(f.path)
        elif self.try_create_dir:
            self.filesystem.create_dir(self.path, recursive=True)
            self.has_created_dir = True

    def write(self, blocks: Iterable[Any], ctx: TaskContext) -> None:
        if self._skip_write:
            return
        batches = [rb for t in blocks for rb in t.to_batches() if rb.num_rows]
        if batches:
            self.write_block(block.BlockAccessor.for_block(unify.concat(batches)), 0, ctx)

    def write_block(self, block: Any, block_index: int, ctx: TaskContext) -> None:
        """Writes all rows of a task."""
        raise NotImplementedError

    def on_write_complete(self, write_result: WriteResult) -> None:
        if self.has_created_dir and write_result.num_rows == 0:
            self.filesystem.delete_dir(self.path)

    def _name(self, block: Any, block_index: int, ctx: TaskContext) -> str:
        uuid = ctx.kwargs[WRITE_UUID_KWARG_NAME]
        p = self.filename_provider
        if type(p).get_filename_for_block is not FilenameProvider.get_filename_for_block:
            return p.get_filename_for_block(block, uuid, ctx.task_idx, block_index)
        return p.get_filename_for_task(uuid, ctx.task_idx)


class RowBasedFileDatasink(_FileDatasink):
    """Writes one file per row: define write_row_to_file(row, file).

    Args:
        path: The folder; local, or a URI of a pyarrow file system.
        filesystem: The pyarrow (or fsspec) file system of the path; None: inferred from the path.
        try_create_dir: Whether to make the folder if it is missing.
        open_stream_args: Arguments of pyarrow's open_output_stream: compression, buffer_size,
            metadata.
        filename_provider: Names the files; None: names from task and row.
        dataset_uuid: A text that is a part of the names of files.
        file_format: The suffix of the names, without the dot.
        mode: "append", "overwrite", "error" (ValueError if there are files) or "ignore" (nothing is
            written if there are files).
    """

    def write_row_to_file(self, row: dict[str, Any], file: Any) -> None:
        """Writes one row (a dict) to an open file.

        Args:
            row: The row.
            file: The open file.
        """
        raise NotImplementedError

    def write_block(self, block: Any, block_index: int, ctx: TaskContext) -> None:
        """Writes all rows of a task, one file for each row.

        Args:
            block: The rows, as one block.
            block_index: Number of the block in the task.
            ctx: The number of the task, and the id of the write.
        """
        uuid, p = ctx.kwargs[WRITE_UUID_KWARG_NAME], self.filename_provider
        own = type(p).get_filename_for_row is not FilenameProvider.get_filename_for_row
        for i, row in enumerate(block.iter_rows(False)):
            if own:
                name = p.get_filename_for_row(row, uuid, ctx.task_idx, block_index, i)
            else:
                name = row_filename(p.get_filename_for_task(uuid, ctx.task_idx), block_index, i)
            retried(
                lambda row=row, name=name: self._write(row, name),
                f"write {self.path}/{name}",
                context.DataContext.get_current().retried_io_errors,
            )

    def _write(self, row: dict[str, Any], name: str) -> None:
        with self.open_output_stream(f"{self.path}/{name}") as f:
            self.write_row_to_file(row, f)


class BlockBasedFileDatasink(_FileDatasink):
    """Writes one file for each task: define write_block_to_file(block, file); block is a
    BlockAccessor.

    Args:
        path: The folder; local, or a URI of a pyarrow file system.
        min_rows_per_file: Minimum number of rows that a file should have.
        file_datasink_kwargs: The other arguments of RowBasedFileDatasink: filesystem,
            filename_provider, mode, ...
    """

    def __init__(
        self, path: str, *, min_rows_per_file: int | None = None, **file_datasink_kwargs: Any
    ):
        super().__init__(path, **file_datasink_kwargs)
        self._min_rows_per_file = min_rows_per_file

    def write_block_to_file(self, block: Any, file: Any) -> None:
        """Writes all rows of a task to an open file.

        Args:
            block: A BlockAccessor of the rows.
            file: The open file.
        """
        raise NotImplementedError

    def write_block(self, block: Any, block_index: int, ctx: TaskContext) -> None:
        """Writes all rows of a task.

        Args:
            block: The rows, as one block.
            block_index: Number of the block in the task.
            ctx: The number of the task, and the id of the write.
        """
        name = self._name(block, block_index, ctx)

        def write() -> None:
            with self.open_output_stream(f"{self.path}/{name}") as f:
                self.write_block_to_file(block, f)

        retried(
            write, f"write {self.path}/{name}", context.DataContext.get_current().retried_io_errors
        )

    @property
    def min_rows_per_write(self) -> int | None:
        return self._min_rows_per_file
