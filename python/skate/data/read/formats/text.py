"""read_text: lines of text files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Unpack

from skate._deps import pa
from skate.data.read.files import bad_line, file_source, read_sound
from skate.data.read.files import run as run_files
from skate.data.read.options import StreamOptions, takes_streams
from skate.data.read.source import Source
from skate.data.values import to_arrow

if TYPE_CHECKING:
    from skate.data.typed import Paths


@takes_streams()
def read_text(
    paths: Paths,
    *,
    encoding: str = "utf-8",
    drop_empty_lines: bool = True,
    **options: Unpack[StreamOptions],
) -> Source:
    """A Dataset with one row per line, in a column "text".

    Args:
        paths: A file, folder, glob pattern, or list of them; local, or a URI of a pyarrow file
            system.
        encoding: Encoding of the files; ValueError for bytes that are no text in it.
        drop_empty_lines: Whether to leave out empty lines.
        options: See StreamOptions.

    Raises:
        FileNotFoundError: A path does not exist.
        ValueError: An option is out of its range.

    Example:
        >>> import skate
        >>> "DataContext" in skate.data.read_text(skate.data.context.__file__).take(1)[0]["text"]
        True
    """
    return file_source(
        "ReadText",
        "text",
        paths,
        {"encoding": encoding, "drop_empty_lines": drop_empty_lines},
        options,
        schema=_schema,
    )


def _schema() -> Any:
    return pa.schema([("text", pa.string())])


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    return run_files(params, task, "read_text", read_file)


def read_file(params: dict[str, Any], task: Any, path: str) -> Iterator[Any]:
    """Yields the lines of one file."""
    schema = _schema()
    encoding = params["encoding"]
    data = read_sound(params, task, "read_text", path, lines="\n".encode(encoding) == b"\n")
    try:
        lines = data.decode(encoding).split("\n")
    except UnicodeDecodeError as e:
        # UTF-16 and similar encodings: after damage, the start of the next character cannot be
        # found
        if "\n".encode(encoding) != b"\n":
            raise ValueError(
                f"not {encoding} at byte {e.start}: {e.reason}; pass encoding=..."
            ) from None
        lines = _good_lines(params, task, path, data)
    if not lines[-1]:
        lines.pop()  # the empty text after the end of the last line
    lines = [ln[:-1] if ln.endswith("\r") else ln for ln in lines]
    if params["drop_empty_lines"]:
        lines = [ln for ln in lines if ln]
    for at in range(0, max(1, len(lines)), 65536):
        yield pa.RecordBatch.from_arrays(
            [to_arrow.from_objects(lines[at : at + 65536], pa.string())], schema=schema
        )


def _good_lines(params: dict[str, Any], task: Any, path: str, data: bytes) -> list[str]:
    """Returns the lines that are valid text; the others become dead letters."""
    encoding, out = params["encoding"], []
    for i, line in enumerate(data.split(b"\n")):
        try:
            out.append(line.decode(encoding))
        except UnicodeDecodeError as e:
            why = f"not {encoding} at byte {e.start}: {e.reason}; pass encoding=..."
            bad_line(params, task, "read_text", path, i + 1, why, line.rstrip(b"\r"))
    return out or [""]
