"""What a user says of a write of files, whatever their format."""

from __future__ import annotations

from typing import Any, NamedTuple

from skate.data.write.mode import SaveMode


class WriteOptions(NamedTuple):
    """path: the folder. min_rows, max_rows: of a file. remote: resources of the write tasks. names: a FilenameProvider. stream: arguments of open_output_stream. resume: see resume.py; a
    text is the folder of the log."""

    path: Any
    mode: Any = SaveMode.APPEND
    filesystem: Any = None
    min_rows: int | None = None
    max_rows: int | None = None
    concurrency: int | None = None
    remote: dict[str, Any] | None = None
    partition_cols: list[str] | None = None
    names: Any = None
    stream: dict[str, Any] | None = None
    resume: bool | str = False

    def checked(self) -> WriteOptions:
        """The same with a SaveMode and a list of columns; ValueError for what is not possible."""
        for name, n in (("min_rows_per_file", self.min_rows), ("max_rows_per_file", self.max_rows)):
            if n is not None and n < 1:
                raise ValueError(f"{name} must be a positive integer, not {n!r}")
        if self.min_rows and self.max_rows and self.min_rows > self.max_rows:
            raise ValueError(f"min_rows_per_file ({self.min_rows}) cannot be greater than max_rows_per_file ({self.max_rows})")
        cols: Any = self.partition_cols
        if cols is not None:
            cols = [cols] if isinstance(cols, str) else list(cols)
        return self._replace(mode=SaveMode(str(getattr(self.mode, "value", self.mode)).lower()), partition_cols=cols)
