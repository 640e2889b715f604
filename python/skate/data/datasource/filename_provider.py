"""FilenameProvider: names the files of a write."""

from __future__ import annotations

from typing import Any


class FilenameProvider:
    """Names files by the number of the task that writes them. A name must depend on the arguments
    alone, because a retried task must write the same file.

    Args:
        dataset_uuid: A text with which each name begins.
        file_format: The suffix of each name.
    """

    def __init__(self, dataset_uuid: str | None = None, file_format: str | None = None):
        self.dataset_uuid, self.file_format = dataset_uuid, file_format

    def get_filename_for_task(self, write_uuid: str, task_index: int) -> str:
        """The name of the file of a task.

        Args:
            write_uuid: A text that distinguishes this write from others.
            task_index: The number of the task.
        """
        head = f"{self.dataset_uuid}_" if self.dataset_uuid is not None else ""
        tail = f".{self.file_format}" if self.file_format is not None else ""
        return f"{head}{write_uuid}_{task_index:06}{tail}"

    def get_filename_for_block(
        self, block: Any, write_uuid: str, task_index: int, block_index: int
    ) -> str:
        """The name of the file of a block; a subclass may define it."""
        raise NotImplementedError

    def get_filename_for_row(
        self,
        row: dict[str, Any],
        write_uuid: str,
        task_index: int,
        block_index: int,
        row_index: int,
    ) -> str:
        """The name of the file of a row; a subclass may define it."""
        raise NotImplementedError


def row_filename(task_filename: str, block_index: int, row_index: int) -> str:
    """The name of a row's file, made from that of its task."""
    base, dot, ext = task_filename.partition(".")
    return f"{base}_{block_index:06}_{row_index:06}{dot}{ext}"
