"""read_orc: ORC files, which pyarrow.orc reads stripe by stripe."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Unpack

from skate._deps import orc, pa
from skate.data.files.reading import open_file
from skate.data.read.files import HIVE, file_source, named, tolerates, unreadable
from skate.data.read.files import run as run_files
from skate.data.read.options import StreamOptions, takes_streams
from skate.data.read.source import Source
from skate.data.values import to_arrow

if TYPE_CHECKING:
    from skate.data.typed import Paths
WORKERS_IMPORT = ("pyarrow.orc",)  # the fork server imports it for all workers


@takes_streams(partitioning=HIVE)
def read_orc(
    paths: Paths,
    *,
    columns: list[str] | None = None,
    **options: Unpack[StreamOptions],
) -> Source:
    """A Dataset of ORC files.

    Args:
        paths: A file, folder, glob pattern, or list of them; local, or a URI of a pyarrow file
            system.
        columns: Only these columns are read.
        options: See StreamOptions.

    Raises:
        FileNotFoundError: A path does not exist.
        ValueError: An option is out of its range.

    Example:
        >>> import skate, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> skate.data.range(3).write_orc(folder)
        >>> skate.data.read_orc(folder).count()
        3
    """
    return file_source("ReadORC", "orc", paths, {"columns": columns}, options)


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    return run_files(params, task, "read_orc", read_file)


def read_file(params: dict[str, Any], task: Any, path: str) -> Iterator[Any]:
    """Yields the stripes of one file; if bad records are tolerated, only damaged stripes are left
    out."""
    with open_file(params.get("fs"), path) as f:
        r = orc.ORCFile(f)
        for i in range(r.nstripes):
            try:
                rb = r.read_stripe(i, columns=params["columns"])
            except (pa.ArrowException, OSError) as e:
                if not tolerates(params):
                    raise
                unreadable(params, task, named(e, f"read_orc, stripe {i} of", path), path)
                continue
            yield rb
        if not r.nstripes:
            yield from to_arrow.from_table(r.read(columns=params["columns"]))
