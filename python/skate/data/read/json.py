"""read_json: JSON files, one object a line (by pyarrow.json) or one array of objects a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from skate._deps import pa, pajson
from skate.data.checks import keywords, parameters
from skate.data.files.paths import is_folder
from skate.data.read import json_records
from skate.data.read.files import HIVE, bad_line, common, file_source, read_sound, unreadable
from skate.data.read.files import run as run_files
from skate.data.read.source import Source
from skate.data.values import row_dicts, to_arrow

if TYPE_CHECKING:
    from skate.data.datasource import Partitioning, PathPartitionFilter
    from skate.data.typed import FileSystem, OnError, Paths, Shuffle


WORKERS_IMPORT = ("pyarrow.json",)  # the fork server does it for all of them
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


def read_json(
    paths: Paths,
    *,
    lines: bool = False,
    filesystem: FileSystem | None = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    ray_remote_args: dict[str, Any] | None = None,
    arrow_open_stream_args: dict[str, Any] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = HIVE,
    include_paths: bool = False,
    ignore_missing_paths: bool = False,
    shuffle: Shuffle = None,
    file_extensions: list[str] | None = EXTENSIONS,  # noqa: B006
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    on_error: OnError = None,
    **arrow_json_args: Any,
) -> Source:
    """A Dataset of JSON files: lines of objects, or one array of objects in a file.

    Args:
        paths: A file, folder, glob pattern, or list of them; local, or a URI of a pyarrow file
            system.
        lines: Files hold one object a line, whatever they begin with (or, as their first line, one
            array a line: columns are then named 0, 1, ...).
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
        arrow_json_args: read_options, parse_options of pyarrow.json; TypeError for others. A column
            that explicit_schema of parse_options has as string may hold any kind of value: what is
            no string is its JSON text.

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
    given = common(locals())
    keywords(
        "read_json", arrow_json_args, ("read_options", "parse_options", *parameters(read_json))
    )
    if file_extensions is EXTENSIONS and not is_folder(paths, filesystem):
        given["file_extensions"] = None
    return file_source(
        "ReadJSON", "json", paths, {"args": arrow_json_args, "lines": lines}, **given
    )


def as_text(column: str) -> str:
    """What to do about a column that has other types in other files."""
    schema = f"pyarrow.schema([({column!r}, pyarrow.string())])"
    return f"say which type it is, for all files: read_json(..., parse_options=pyarrow.json.ParseOptions(explicit_schema={schema})) reads it as text"


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    return run_files(params, task, "read_json", read_file)


def read_file(params: dict[str, Any], task: Any, path: str) -> Iterator[Any]:
    """The batches of one file; none when it is empty."""
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
    # an object must lie in one block
    ro.block_size = max(ro.block_size or 0, min(len(data) + 1, 64 << 20))
    # Arrow's parser (26) crashes at a null that begins a block, and takes any other for a row of
    # nulls
    if head[:4] != b"null" and (len(data) < ro.block_size or data.find(b"\nnull") < 0):
        try:
            table = pajson.read_json(pa.BufferReader(data), read_options=ro, **args)
            table.validate(full=True)  # text is UTF-8
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
    """The rows of a file that is one array."""
    rows, damage = json_records.elements(data)
    if damage is not None:
        bad_line(params, task, "read_json", path, *damage)
    # Arrow's parser, which knows it, takes lines
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
