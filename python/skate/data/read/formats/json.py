"""read_json: JSON files, with one object on each line (read by pyarrow.json) or one array of
objects in each file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Unpack

from skate._deps import pa, pajson
from skate.data.files.paths import is_folder
from skate.data.read import json_records
from skate.data.read.files import HIVE, bad_line, file_source, read_sound, unreadable
from skate.data.read.files import run as run_files
from skate.data.read.options import StreamOptions, takes_streams
from skate.data.read.source import Source
from skate.data.values import row_dicts, to_arrow

if TYPE_CHECKING:
    from skate.data.typed import Paths


WORKERS_IMPORT = ("pyarrow.json",)  # the fork server imports it for all workers
EXTENSIONS = [
    "json",
    "jsonl",
    "json.gz",
    "jsonl.gz",
    "json.br",
    "jsonl.br",
    "json.zst",
    "jsonl.zst",
    "json.lz4",
    "jsonl.lz4",
]


@takes_streams(partitioning=HIVE, file_extensions=EXTENSIONS)
def read_json(
    paths: Paths,
    *,
    lines: bool = False,
    read_options: Any = None,
    parse_options: Any = None,
    **options: Unpack[StreamOptions],
) -> Source:
    """A Dataset of JSON files: lines of objects, or one array of objects in a file.

    Args:
        paths: A file, folder, glob pattern, or list of them; local, or a URI of a pyarrow file
            system.
        lines: True: each line of a file is an object, whatever the file begins with (or, if the
            first line is an array, each line is an array, and columns are named 0, 1, ...).
        read_options: A pyarrow.json.ReadOptions.
        parse_options: A pyarrow.json.ParseOptions. A column that its explicit_schema declares as
            string may hold any kind of value; a value that is no string becomes its JSON text.
        options: See StreamOptions.

    Raises:
        FileNotFoundError: A path does not exist.
        TypeError: A keyword is unknown.

    Example:
        >>> import skate, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "a.json")
        >>> _ = open(path, "w").write('{"a": 1}\\n{"a": 2}\\n')
        >>> skate.data.read_json(path).sum("a")
        3
    """
    if options.get("file_extensions") is EXTENSIONS and not is_folder(
        paths, options.get("filesystem")
    ):
        options["file_extensions"] = None
    args = {"read_options": read_options, "parse_options": parse_options}
    args = {k: v for k, v in args.items() if v is not None}
    return file_source("ReadJSON", "json", paths, {"args": args, "lines": lines}, options)


def as_text(column: str) -> str:
    """Advice for errors about a column whose type differs between files."""
    schema = f"pyarrow.schema([({column!r}, pyarrow.string())])"
    return f"say which type it is, for all files: read_json(..., parse_options=pyarrow.json.ParseOptions(explicit_schema={schema})) reads it as text"


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    return run_files(params, task, "read_json", read_file)


def read_file(params: dict[str, Any], task: Any, path: str) -> Iterator[Any]:
    """Yields the batches of one file; none if the file is empty."""
    args = dict(params["args"])
    ro = args.pop("read_options", None) or pajson.ReadOptions()
    ro.use_threads = False
    data = read_sound(params, task, "read_json", path, lines=True)
    head = data[:64].removeprefix(b"\xef\xbb\xbf").lstrip()
    if not head:
        return
    if head[:1] == b"[" and not params["lines"]:
        yield from _array(params, task, path, data, args)
        return
    # an object must lie within one block
    ro.block_size = max(ro.block_size or 0, min(len(data) + 1, 64 << 20))
    # Arrow's parser (26) crashes if a block begins with null, and reads any other null line as a
    # row of nulls
    if head[:4] != b"null" and (len(data) < ro.block_size or data.find(b"\nnull") < 0):
        try:
            table = pajson.read_json(pa.BufferReader(data), read_options=ro, **args)
            table.validate(full=True)  # checks that text is UTF-8
            whole = not all(c.null_count for c in table.columns) or data.find(b"\nnull") < 0
        except pa.ArrowInvalid:
            whole = False
        if whole:
            yield from to_arrow.from_table(table)
            return

    def bad(line: int, why: str, raw: bytes) -> None:
        bad_line(params, task, "read_json", path, line, why, raw)

    for table in json_records.tables(data, params["lines"], args, bad):
        yield from to_arrow.from_table(table)


def _array(
    params: dict[str, Any], task: Any, path: str, data: bytes, args: dict[str, Any]
) -> Iterator[Any]:
    """Yields the rows of a file that is one array."""
    rows, damage = json_records.elements(data)
    if damage is not None:
        bad_line(params, task, "read_json", path, *damage)
    # explicit_schema is applied by Arrow's parser, which reads lines
    if getattr(args.get("parse_options"), "explicit_schema", None) is not None:

        def bad(line: int, why: str, raw: bytes) -> None:
            unreadable(
                params,
                task,
                ValueError(f"read_json {path}, element {line - 1} of the array: {why}"),
                path,
                line - 1,
                raw,
            )

        lines = b"\n".join(
            json.dumps(r, ensure_ascii=False).encode("utf-8", "surrogatepass") for r in rows
        )
        for table in json_records.tables(lines, True, args, bad):
            yield from to_arrow.from_table(table)
        return
    try:
        rb = row_dicts.from_rows(rows, f"read_json {path}")
    except (TypeError, ValueError, AttributeError):
        odd = dict(json_records.majority(rows))
        for i, why in odd.items():
            e = ValueError(f"read_json {path}, element {i} of the array: {why}")
            unreadable(
                params,
                task,
                e,
                path,
                i,
                json.dumps(rows[i], ensure_ascii=False).encode("utf-8", "backslashreplace"),
            )
        rb = row_dicts.from_rows(
            [r for i, r in enumerate(rows) if i not in odd], f"read_json {path}"
        )
    yield from [] if rb is None else [rb]
