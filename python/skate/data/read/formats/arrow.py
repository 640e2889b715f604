"""read_feather: Arrow IPC files (Feather version 2) and streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Unpack

from skate._deps import pa
from skate.data.files.reading import check_regular, read_bytes
from skate.data.read.files import HIVE, file_source, named, tolerates, unreadable
from skate.data.read.files import run as run_files
from skate.data.read.options import StreamOptions, takes_streams
from skate.data.read.source import Source
from skate.data.values.unify import columns_are

if TYPE_CHECKING:
    from skate.data.typed import Paths


@takes_streams(partitioning=HIVE)
def read_feather(
    paths: Paths,
    *,
    columns: list[str] | None = None,
    trust_pickled_columns: bool = False,
    **options: Unpack[StreamOptions],
) -> Source:
    """A Dataset of Arrow IPC files or streams (.arrow, .feather version 2, .arrows).

    Args:
        paths: A file, folder, glob pattern, or list of them; local, or a URI of a pyarrow file
            system.
        columns: Only these columns are read; KeyError for a column that a file lacks. None: all.
        trust_pickled_columns: True: Python objects that others have pickled into the files are
            unpickled, which runs whatever code the pickles name. False: the setting
            DataContext.trust_pickled_columns applies, whose default is not to unpickle them.
        options: See StreamOptions.

    Raises:
        FileNotFoundError: A path does not exist.
        ValueError: An option is out of its range.

    Example:
        >>> import skate, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> skate.data.range(3).write_feather(folder)
        >>> skate.data.read_feather(folder).count()
        3
    """
    return file_source(
        "ReadFeather",
        "arrow",
        paths,
        {"columns": columns, "trust_pickled_columns": trust_pickled_columns},
        options,
    )


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    return run_files(params, task, "read_feather", read_file)


def read_file(params: dict[str, Any], task: Any, path: str) -> Iterator[Any]:
    """Yields the batches of one file."""
    if params.get("fs") is None:
        check_regular(path)  # mapping a FIFO would wait for its writer
    buf = (
        pa.memory_map(path).read_buffer()
        if params.get("fs") is None
        else pa.py_buffer(read_bytes(params["fs"], path))
    )
    with (
        pa.ipc.open_file(buf)
        if buf.slice(0, 6).to_pybytes() == b"ARROW1"
        else pa.ipc.open_stream(buf) as r
    ):
        n = getattr(r, "num_record_batches", None)
        none = True
        at = 0
        while n is None or at < n:
            try:
                rb = r.read_next_batch() if n is None else r.get_batch(at)
                rb.validate()
            except StopIteration:
                break
            except (pa.ArrowException, OSError) as e:
                # in a stream, the start of the next batch cannot be found after the damage
                if n is None or not tolerates(params):
                    raise
                unreadable(
                    params, task, named(e, f"read_feather, record batch {at} of", path), path
                )
                none = False
            else:
                none = False
                yield _cut(rb, params["columns"])
            at += 1
        if none:
            yield _cut(pa.RecordBatch.from_pylist([], r.schema), params["columns"])


def _cut(rb: Any, columns: list[str] | None) -> Any:
    rb = rb.replace_schema_metadata(None) if rb.schema.metadata else rb
    if columns is None:
        return rb
    for c in columns:
        if c not in rb.schema.names:
            raise KeyError(f"there is no column {c!r}; {columns_are(c, rb.schema.names)}")
    return rb.select(columns)
