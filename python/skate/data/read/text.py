"""read_text: lines of text files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from skate._deps import pa
from skate.data.read.files import bad_line, common, file_source, read_sound
from skate.data.read.files import run as run_files
from skate.data.read.source import Source
from skate.data.values import to_arrow

if TYPE_CHECKING:
    from skate.data.datasource import Partitioning, PathPartitionFilter
    from skate.data.typed import FileSystem, OnError, Paths, Shuffle


def read_text(
    paths: Paths,
    *,
    encoding: str = "utf-8",
    drop_empty_lines: bool = True,
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
    """A Dataset with one row a line, in a column "text".

    Args:
        paths: A file, folder, glob pattern, or list of them; local, or a URI of a pyarrow file
            system.
        encoding: Of the files; ValueError where bytes are not text in it.
        drop_empty_lines: Leaves out lines without a character.
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
        ignore_missing_paths: Paths that do not exist are left out instead of an error.
        shuffle: "files" or a FileShuffleConfig: files in random order.
        file_extensions: Only files with one of these endings.
        concurrency: Read tasks at once, at most; None: as many as fit.
        override_num_blocks: Number of read tasks, at most; None: it follows from the bytes of the
            input.
        on_error: What becomes of what cannot be understood: "raise", "skip" or "quarantine" (see
            Dataset.errors()); None: as DataContext.on_error says.

    Raises:
        FileNotFoundError: A path does not exist.
        ValueError: An option is out of its range.

    Example:
        >>> import skate
        >>> "DataContext" in skate.data.read_text(skate.data.context.__file__).take(1)[0]["text"]
        True
    """
    given = common(locals())
    return file_source(
        "ReadText",
        "text",
        paths,
        {"encoding": encoding, "drop_empty_lines": drop_empty_lines},
        schema=_schema,
        **given,
    )


def _schema() -> Any:
    return pa.schema([("text", pa.string())])


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    return run_files(params, task, "read_text", read_file)


def read_file(params: dict[str, Any], task: Any, path: str) -> Iterator[Any]:
    """The lines of one file."""
    schema = _schema()
    encoding = params["encoding"]
    data = read_sound(params, task, "read_text", path, lines="\n".encode(encoding) == b"\n")
    try:
        lines = data.decode(encoding).split("\n")
    except UnicodeDecodeError as e:
        # UTF-16 and its kind: no place behind the damage is known to begin a character
        if "\n".encode(encoding) != b"\n":
            raise ValueError(
                f"not {encoding} at byte {e.start}: {e.reason}; pass encoding=..."
            ) from None
        lines = _good_lines(params, task, path, data)
    if not lines[-1]:
        lines.pop()  # after the last line's end
    lines = [ln[:-1] if ln.endswith("\r") else ln for ln in lines]
    if params["drop_empty_lines"]:
        lines = [ln for ln in lines if ln]
    for at in range(0, max(1, len(lines)), 65536):
        yield pa.RecordBatch.from_arrays(
            [to_arrow.from_objects(lines[at : at + 65536], pa.string())], schema=schema
        )


def _good_lines(params: dict[str, Any], task: Any, path: str, data: bytes) -> list[str]:
    """The lines that are text; the others become dead letters."""
    encoding, out = params["encoding"], []
    for i, line in enumerate(data.split(b"\n")):
        try:
            out.append(line.decode(encoding))
        except UnicodeDecodeError as e:
            why = f"not {encoding} at byte {e.start}: {e.reason}; pass encoding=..."
            bad_line(params, task, "read_text", path, i + 1, why, line.rstrip(b"\r"))
    return out or [""]
