"""read_mcap: messages of MCAP files (logs of robots: ROS 2 and others), read by the package mcap. A
unit is some files; the messages of a file are read in the order of their log times."""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, Unpack

from skate.data.checks import library
from skate.data.read.files import Fitting, file_source, named, read_sound, unreadable
from skate.data.read.files import run as run_files
from skate.data.read.options import FileOptions, takes_files
from skate.data.read.source import Source
from skate.data.values import row_dicts

if TYPE_CHECKING:
    from skate.data.typed import Paths

# limits of a batch; the one that is reached first ends the batch: messages may be small (positions)
# or images
ROWS, BYTES = 4096, 16 << 20


@takes_files(file_extensions=["mcap"])
def read_mcap(
    paths: Paths,
    *,
    topics: Collection[str] | None = None,
    time_range: Any = None,
    message_types: Collection[str] | None = None,
    include_metadata: bool = True,
    **options: Unpack[FileOptions],
) -> Source:
    """A Dataset of the messages in MCAP files. Needs the package mcap: ImportError without it.

    Columns: data (bytes; the value, if the message is encoded as JSON), topic, log_time,
    publish_time (nanoseconds), sequence; and of the channel and schema: channel_id,
    message_encoding, schema_name, schema_encoding, schema_data.

    Args:
        paths: A file, folder, glob pattern, or list of them; local, or a URI of a pyarrow file
            system.
        topics: Only messages of these topics; None: all.
        time_range: Only messages logged from a start (included) to an end (excluded): a tuple of
            nanoseconds, or an object with start_time and end_time; None: all.
        message_types: Only messages whose schema has one of these names, and messages without a
            schema, as in Ray; None: all.
        include_metadata: Whether to add the columns of channel and schema.
        options: See FileOptions.

    Raises:
        ImportError: The package mcap is not installed.
        FileNotFoundError: A path does not exist.
        ValueError: An option is out of its range.
    """
    library("mcap", "read_mcap")
    start, end = (
        (getattr(time_range, "start_time", None), getattr(time_range, "end_time", None))
        if time_range is not None
        else (None, None)
    )
    if isinstance(time_range, tuple) and len(time_range) == 2:
        start, end = time_range
    if time_range is not None and not (
        isinstance(start, int) and isinstance(end, int) and 0 <= start < end
    ):
        raise ValueError(
            f"read_mcap: time_range is (start, end) in nanoseconds with 0 <= start < end, not {time_range!r}"
        )
    params = {
        "topics": sorted(topics) if topics else None,
        "start": start,
        "end": end,
        "types": frozenset(message_types) if message_types else None,
        "metadata": include_metadata,
    }
    return file_source("ReadMCAP", "mcap", paths, params, options)


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    return run_files(params, task, "read_mcap", read_file)


def read_file(params: dict[str, Any], task: Any, path: str) -> Iterator[Any]:
    """Yields the batches of one file. A damaged file is an error; the messages before the damage
    are yielded first."""

    def bad(row: dict[str, Any], e: Exception) -> None:
        unreadable(
            params,
            task,
            named(e, "read_mcap", path),
            path,
            None,
            repr(row).encode("utf-8", "backslashreplace"),
        )

    fitting = Fitting(params, lambda some: row_dicts.from_rows(some, "read_mcap"), bad)
    rows: list[dict[str, Any]] = []
    held = 0
    for size, row in _messages(params, read_sound(params, task, "read_mcap", path), path):
        rows.append(row)
        held += size
        if len(rows) == ROWS or held >= BYTES:
            yield from fitting.batch(rows)
            rows, held = [], 0
    if rows:
        yield from fitting.batch(rows)


def _messages(
    params: dict[str, Any], data: bytes, path: str
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields (bytes of the data, row) for each message that the user selected."""
    make_reader = library("mcap.reader", "read_mcap", "mcap").make_reader
    try:
        for schema, channel, m in make_reader(io.BytesIO(data)).iter_messages(
            params["topics"], params["start"], params["end"]
        ):
            if params["types"] and schema and schema.name not in params["types"]:
                continue
            row = {"data": _decoded(channel, m.data), "topic": channel.topic}
            row |= {"log_time": m.log_time, "publish_time": m.publish_time, "sequence": m.sequence}
            if params["metadata"]:
                row |= {"channel_id": m.channel_id, "message_encoding": channel.message_encoding}
                row |= {
                    f"schema_{k}": getattr(schema, k) if schema else None
                    for k in ("name", "encoding", "data")
                }
            yield len(m.data), row
    except Exception as e:  # the package mcap raises any kind of error for damaged bytes
        raise ValueError(f"read_mcap {path}: {type(e).__name__}: {e}") from None


def _decoded(channel: Any, data: bytes) -> Any:
    if channel.message_encoding == "json":
        try:
            return json.loads(data)
        except ValueError:
            pass
    return data
