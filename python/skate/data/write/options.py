"""Arguments that writers share."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from skate.data.arguments import TypedDict, takes
from skate.data.write.mode import SaveMode

if TYPE_CHECKING:
    from skate.data.datasource import FilenameProvider
    from skate.data.typed import FileSystem, Mode


class TaskOptions(TypedDict, total=False):
    """Options of all writers.

    Args:
        ray_remote_args: Other options of the write tasks, as of skate.remote: num_cpus, memory
            (bytes), resources, runtime_env, ...
        concurrency: The most write tasks that run at once; None: as many as fit.
    """

    ray_remote_args: dict[str, Any] | None
    concurrency: int | None


class WriteOptions(TaskOptions, total=False):
    """Options of all writers of files.

    Args:
        filesystem: The pyarrow (or fsspec) file system of the path; None: it follows from the path.
        try_create_dir: Has no effect: missing folders are always made.
        arrow_open_stream_args: Arguments of pyarrow's open_output_stream: compression,
            buffer_size, metadata.
        filename_provider: Names the files (skate.data.datasource.FilenameProvider).
        mode: "append", "overwrite", "error" (ValueError if files exist) or "ignore" (nothing is
            written if files exist).
        resume: True: if the program is killed and run again, it does only what is missing, and
            nothing if all files are there (see the docstring of skate.data.write). A text: the
            local folder for the log.
    """

    filesystem: FileSystem | None
    try_create_dir: bool
    arrow_open_stream_args: dict[str, Any] | None
    filename_provider: FilenameProvider | None
    mode: Mode
    resume: bool | str


class RowOptions(WriteOptions, total=False):
    """Options of writers whose files hold several rows.

    Args:
        min_rows_per_file: The least number of rows of a file; None: any number.
        max_rows_per_file: The largest number of rows of a file; None: any number.
        num_rows_per_file: Ray's older name of min_rows_per_file.
    """

    min_rows_per_file: int | None
    max_rows_per_file: int | None
    num_rows_per_file: int | None


if TYPE_CHECKING:  # the same arguments, for writers that pass further keywords to a library

    class OpenRowOptions(RowOptions, total=False, extra_items=Any): ...


takes_tasks = functools.partial(takes, TaskOptions)
_FILES: dict[str, Any] = {"try_create_dir": True, "mode": SaveMode.APPEND, "resume": False}
takes_files = functools.partial(takes, WriteOptions, **_FILES)
takes_rows = functools.partial(takes, RowOptions, **_FILES)


def save_mode(options: WriteOptions) -> SaveMode:
    """The SaveMode with the name in the options. ValueError for an unknown name."""
    mode = options.get("mode")
    return SaveMode(str(getattr(mode, "value", mode)).lower())


def rows_of_files(options: WriteOptions) -> tuple[int | None, int | None]:
    """The least and the largest number of rows of a file; ValueError for impossible values."""
    least = options.get("min_rows_per_file") or options.get("num_rows_per_file")
    most = options.get("max_rows_per_file")
    for name, n in (("min_rows_per_file", least), ("max_rows_per_file", most)):
        if n is not None and n < 1:
            raise ValueError(f"{name} must be a positive integer, not {n!r}")
    if least and most and least > most:
        raise ValueError(
            f"min_rows_per_file ({least}) cannot be greater than max_rows_per_file ({most})"
        )
    return least, most
