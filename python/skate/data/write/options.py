"""What a user says of a write of files, whatever their format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from skate.data.write.mode import SaveMode

if TYPE_CHECKING:
    from skate.data.datasource import FilenameProvider
    from skate.data.typed import FileSystem, Path


class WriteOptions(NamedTuple):
    """The first fields stand in the order in which every write_... method gives them.

    path: the folder. remote: resources of the write tasks. concurrency: of them at once, at most.
    names: how files are named. resume: see resume.py; a text is the folder of the log.
    stream: arguments of open_output_stream. min_rows, max_rows: of a file. partition_cols: columns
    that become folders.
    """

    path: Path
    mode: Any  # as Mode in typed.py; a SaveMode once it is checked
    filesystem: FileSystem | None
    remote: dict[str, Any] | None
    concurrency: int | None
    names: FilenameProvider | None
    resume: bool | str
    stream: dict[str, Any] | None = None
    min_rows: int | None = None
    max_rows: int | None = None
    partition_cols: list[str] | None = None

    def of_files(
        self,
        min_rows: int | None,
        max_rows: int | None = None,
        partition_cols: list[str] | None = None,
    ) -> WriteOptions:
        """The same with what a file holds."""
        return self._replace(min_rows=min_rows, max_rows=max_rows, partition_cols=partition_cols)

    def checked(self) -> WriteOptions:
        """The same with a SaveMode and a list of columns; ValueError for what is not possible."""
        for name, n in (("min_rows_per_file", self.min_rows), ("max_rows_per_file", self.max_rows)):
            if n is not None and n < 1:
                raise ValueError(f"{name} must be a positive integer, not {n!r}")
        if self.min_rows and self.max_rows and self.min_rows > self.max_rows:
            raise ValueError(
                f"min_rows_per_file ({self.min_rows}) cannot be greater than max_rows_per_file ({self.max_rows})"
            )
        cols: Any = self.partition_cols
        if cols is not None:
            cols = [cols] if isinstance(cols, str) else list(cols)
        return self._replace(
            mode=SaveMode(str(getattr(self.mode, "value", self.mode)).lower()), partition_cols=cols
        )
