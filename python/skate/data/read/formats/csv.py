"""read_csv: CSV files, which pyarrow.csv reads block by block."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Unpack

from skate._deps import pa, pacsv
from skate.data.files.reading import open_file
from skate.data.on_error import is_io
from skate.data.read import csv_records
from skate.data.read.files import HIVE, compression, file_source, tolerates
from skate.data.read.files import run as run_files
from skate.data.read.options import StreamOptions, takes_streams
from skate.data.read.source import Source
from skate.data.values import to_arrow
from skate.data.values.unify import unique

if TYPE_CHECKING:
    from skate.data.typed import Paths
# the largest file, in bytes, that is read again as a whole to find the line of an error
LOOK_BYTES = 1 << 30
WORKERS_IMPORT = ("pyarrow.csv",)  # the fork server imports it for all workers


@takes_streams(partitioning=HIVE)
def read_csv(
    paths: Paths,
    *,
    read_options: Any = None,
    parse_options: Any = None,
    convert_options: Any = None,
    invalid_row_handler: Any = None,
    **options: Unpack[StreamOptions],
) -> Source:
    """A Dataset of CSV files.

    If a name occurs twice in the header, the second column gets a number, as in pandas: a, a.1.
    Types are inferred from the first 4 MiB of a file, where one value that is no number makes the
    column text; column_types of convert_options sets them. If a later block needs a wider type
    (values after nulls only, doubles after ints), the column gets the wider type.

    Args:
        paths: A file, folder, glob pattern, or list of them; local or of a pyarrow file system.
        read_options: A pyarrow.csv.ReadOptions.
        parse_options: A pyarrow.csv.ParseOptions.
        convert_options: A pyarrow.csv.ConvertOptions.
        invalid_row_handler: As in pyarrow.csv.ParseOptions.
        options: See StreamOptions.

    Raises:
        FileNotFoundError: A path does not exist.
        TypeError: A keyword is unknown.

    Example:
        >>> import skate, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "a.csv")
        >>> _ = open(path, "w").write("a,b\\n1,x\\n")
        >>> skate.data.read_csv(path).take_all()
        [{'a': 1, 'b': 'x'}]
    """
    args = {
        "read_options": read_options,
        "parse_options": parse_options,
        "convert_options": convert_options,
        "invalid_row_handler": invalid_row_handler,
    }
    args = {k: v for k, v in args.items() if v is not None}
    return file_source("ReadCSV", "csv", paths, {"args": args, "code": args or None}, options)


def as_text(column: str) -> str:
    """Advice for errors about a column whose type differs between files."""
    return f"say which type it is, for all files: read_csv(..., convert_options=pyarrow.csv.ConvertOptions(column_types={{{column!r}: pyarrow.string()}})) reads it as text"


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    return run_files(params, task, "read_csv", read_file)


def read_file(params: dict[str, Any], task: Any, path: str) -> Iterator[Any]:
    """Yields the batches of one file; none if the file is empty."""
    args = dict(params["args"])
    handler = args.pop("invalid_row_handler", None)
    if handler is not None:
        po = args.get("parse_options") or pacsv.ParseOptions()
        po.invalid_row_handler = handler
        args["parse_options"] = po
    ro = args.pop("read_options", None) or pacsv.ReadOptions()
    ro.use_threads = False
    # types are inferred from the first block, and a larger block gives better guesses
    ro.block_size = max(ro.block_size or 0, 4 << 20)
    kind = params["stream"].get("compression", "detect")
    rows = 0
    try:
        with (
            open_file(params.get("fs"), path) as raw,
            pa.input_stream(raw, compression=compression(path) if kind == "detect" else kind) as f,
        ):
            try:
                reader = pacsv.open_csv(f, read_options=ro, **args)
            except pa.ArrowInvalid as e:
                if "Empty CSV file" in str(e):
                    return
                raise
            names = unique(reader.schema.names)
            if tolerates(params) and any(pa.types.is_binary(t) for t in reader.schema.types):
                raise pa.ArrowInvalid("there is text that is not UTF-8")
            for rb in reader:
                rows += rb.num_rows
                yield rb if names is None else rb.rename_columns(names)
            if not rows:
                table = reader.schema.empty_table()
                yield from to_arrow.from_table(
                    table if names is None else table.rename_columns(names)
                )
    except (pa.ArrowInvalid, OSError) as e:  # OSError: compressed data is damaged
        if (
            is_io(e)
            or not tolerates(params)
            and params.get("fs") is None
            and os.path.getsize(path) > LOOK_BYTES
        ):
            raise
        yield from csv_records.batches(params, task, path, rows, ro, args, e)
