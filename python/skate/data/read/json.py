"""read_json: JSON files, one object a line (by pyarrow.json) or one array of objects a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from skate.data.read.files import HIVE, common, file_source, named, read_stream, tolerates, unreadable
from skate.data.read.files import run as run_files

EXTENSIONS = ["json", "jsonl", "json.gz", "jsonl.gz", "json.br", "jsonl.br", "json.zst", "jsonl.zst", "json.lz4", "jsonl.lz4"]


def read_json(
    paths: Any,
    *,
    lines: bool = False,
    filesystem: Any = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    ray_remote_args: dict[str, Any] | None = None,
    arrow_open_stream_args: dict[str, Any] | None = None,
    partition_filter: Any = None,
    partitioning: Any = HIVE,
    include_paths: bool = False,
    ignore_missing_paths: bool = False,
    shuffle: Any = None,
    file_extensions: list[str] | None = EXTENSIONS,  # noqa: B006
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    on_error: str | None = None,
    **arrow_json_args: Any,
) -> Any:
    """A Dataset of JSON files: lines of objects, or one array of objects in a file.

    Args:
        lines: Files hold one object a line, whatever they begin with.
        partitioning: Which folders name columns (skate.data.datasource.Partitioning); None: none.
        partition_filter: Which files are read (PathPartitionFilter).
        file_extensions: Only files with one of these endings.
        shuffle: "files" or a FileShuffleConfig: files in random order.
        include_paths: Adds the column "path".
        ignore_missing_paths: Paths that do not exist are left out instead of an error.
        arrow_open_stream_args: compression and the like of pyarrow's open_input_stream.
        override_num_blocks: Number of read tasks at most; concurrency: how many run at once.
        on_error: What becomes of what cannot be understood: "raise", "skip" or "quarantine" (see Dataset.errors()); None: as DataContext.on_error says.
        arrow_json_args: read_options, parse_options of pyarrow.json; TypeError for others.

    Example:
        >>> import skate, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "a.json")
        >>> _ = open(path, "w").write('{"a": 1}\\n{"a": 2}\\n')
        >>> skate.data.read_json(path).sum("a")
        3
    """
    given = common(locals())
    for k in arrow_json_args:
        if k not in ("read_options", "parse_options"):
            raise TypeError(f"read_json: unexpected keyword argument {k!r}")
    if file_extensions is EXTENSIONS and not _is_dir(paths):
        given["file_extensions"] = None
    return file_source("ReadJSON", "json", paths, {"args": arrow_json_args, "lines": lines}, **given)


def _is_dir(paths: Any) -> bool:
    import os

    return isinstance(paths, (str, os.PathLike)) and os.path.isdir(paths)


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    return run_files(params, task, "read_json", read_file)


def read_file(params: dict[str, Any], task: Any, path: str) -> Iterator[Any]:
    """The batches of one file; none when it is empty. What Arrow's parser refuses (a column of several types) Python's parser gets."""
    import pyarrow as pa
    import pyarrow.json as pajson

    from skate.data.batch import from_rows, from_table

    args = dict(params["args"])
    ro = args.pop("read_options", None) or pajson.ReadOptions()
    ro.use_threads = False
    data = read_stream(params, path)
    head = data[:64].lstrip()
    if not head:
        return
    if head[:1] == b"[" and not params["lines"]:
        rb = from_rows(json.loads(data), f"read_json {path}")
        yield from [] if rb is None else [rb]
        return
    ro.block_size = max(ro.block_size or 0, min(len(data) + 1, 64 << 20))  # an object must lie in one block
    try:
        table = pajson.read_json(pa.BufferReader(data), read_options=ro, **args)
    except pa.ArrowInvalid as e:
        try:
            rows = _objects(data) if not args else None
        except ValueError:
            rows = None
        if rows is not None:
            rb = from_rows(rows, f"read_json {path}")
            yield from [] if rb is None else [rb]
            return
        if not tolerates(params):
            raise e from None
        good = _good_lines(params, task, path, data)
        if not good:
            return
        table = pajson.read_json(pa.BufferReader(good), read_options=ro, **args)
    yield from from_table(table)


def _objects(data: bytes) -> list[Any]:
    """Objects one after another, on lines or not."""
    text = data.decode()
    decode = json.JSONDecoder().raw_decode
    out, at, end = [], 0, len(text)
    while True:
        while at < end and text[at] in " \t\r\n":
            at += 1
        if at == end:
            return out
        v, at = decode(text, at)
        if not isinstance(v, dict):
            raise ValueError(f"an object is needed at character {at}, not {type(v).__name__}")
        out.append(v)


def _good_lines(params: dict[str, Any], task: Any, path: str, data: bytes) -> bytes:
    """The lines that hold an object each; the others become dead letters."""
    good = []
    for i, line in enumerate(data.split(b"\n")):
        if not line.strip():
            continue
        try:
            if not isinstance(json.loads(line), dict):
                raise ValueError("the line holds no object")
        except ValueError as e:
            unreadable(params, task, named(e, "read_json", f"{path} line {i + 1}"), path, i, line)
        else:
            good.append(line)
    return b"\n".join(good)
