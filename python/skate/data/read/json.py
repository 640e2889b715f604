"""read_json: JSON files, one object a line (by pyarrow.json) or one array of objects a file."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from typing import Any

from skate.data.read.files import compression, file_source, named, read_bytes, with_path


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
    ignore_missing_paths: bool = False,
    include_paths: bool = False,
    file_extensions: list[str] | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    **arrow_json_args: Any,
) -> Any:
    """A Dataset of JSON files: lines of objects, or one array of objects in a file.

    Args:
        arrow_json_args: read_options, parse_options of pyarrow.json.

    Example:
        >>> import skate, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "a.json")
        >>> _ = open(path, "w").write('{"a": 1}\\n{"a": 2}\\n')
        >>> skate.data.read_json(path).sum("a")
        3
    """
    for k in arrow_json_args:
        if k not in ("read_options", "parse_options"):
            raise TypeError(f"read_json: unexpected keyword argument {k!r}")
    return file_source(
        "ReadJSON",
        "json",
        paths,
        {"args": arrow_json_args, "include_paths": include_paths},
        filesystem=filesystem,
        file_extensions=file_extensions or ["json", "jsonl", "json.gz", "jsonl.gz", "json.zst", "jsonl.zst"]
        if _is_dir(paths)
        else file_extensions,
        ignore_missing_paths=ignore_missing_paths,
        override_num_blocks=override_num_blocks,
        parallelism=parallelism,
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        memory=memory,
        ray_remote_args=ray_remote_args,
        concurrency=concurrency,
    )


def _is_dir(paths: Any) -> bool:
    import os

    return isinstance(paths, (str, os.PathLike)) and os.path.isdir(paths)


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.json as pajson

    from skate.data.batch import _from_table, from_rows

    args = dict(params["args"])
    ro = args.pop("read_options", None) or pajson.ReadOptions()
    ro.use_threads = False
    for path in pickle.loads(task.unit):
        task.source = path
        try:
            data = read_bytes(params.get("fs"), path)
            kind = compression(path)
            if kind:
                data = pa.input_stream(pa.BufferReader(data), compression=kind).read()
            head = data[:64].lstrip()
            if not head:
                continue
            if head[:1] == b"[":
                rb = from_rows(json.loads(data), f"read_json {path}")
                rbs = [] if rb is None else [rb]
            else:
                ro.block_size = max(ro.block_size or 0, min(len(data) + 1, 64 << 20))  # an object must lie in one block
                rbs = _from_table(pajson.read_json(pa.BufferReader(data), read_options=ro, **args))
        except (pa.ArrowInvalid, OSError, ValueError) as e:
            raise named(e, "read_json", path) from None
        for rb in rbs:
            yield with_path(rb, path) if params["include_paths"] else rb
