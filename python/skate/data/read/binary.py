"""read_binary_files: whole files as bytes."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

from skate.data.read.files import Gather, file_source, named, read_bytes


def read_binary_files(
    paths: Any,
    *,
    include_paths: bool = False,
    filesystem: Any = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    ray_remote_args: dict[str, Any] | None = None,
    ignore_missing_paths: bool = False,
    file_extensions: list[str] | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
) -> Any:
    """A Dataset with one row a file: column "bytes", and "path" if asked for. Folders are read recursively, in sorted order.

    Args:
        paths: A file, folder, glob pattern, or list of them; local or of a pyarrow file system.
        include_paths: Adds the column "path".
        file_extensions: Only files with one of these endings.

    Example:
        >>> import skate
        >>> skate.data.read_binary_files(skate.data.__file__, include_paths=True).columns()
        ['bytes', 'path']
    """
    return file_source(
        "ReadBinary",
        "binary",
        paths,
        {"include_paths": include_paths},
        filesystem=filesystem,
        file_extensions=file_extensions,
        ignore_missing_paths=ignore_missing_paths,
        override_num_blocks=override_num_blocks,
        parallelism=parallelism,
        schema=_schema_with_path if include_paths else _schema,
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        memory=memory,
        ray_remote_args=ray_remote_args,
        concurrency=concurrency,
    )


def _schema() -> Any:
    import pyarrow as pa

    return pa.schema([("bytes", pa.binary())])


def _schema_with_path() -> Any:
    import pyarrow as pa

    return pa.schema([("bytes", pa.binary()), ("path", pa.string())])


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    import pyarrow as pa

    from skate.data.batch import from_objects

    fs, with_path = params.get("fs"), params["include_paths"]
    schema = _schema_with_path() if with_path else _schema()
    g = Gather(schema.names, min(task.target, 4 << 20))

    def batch() -> Any:
        rb = pa.RecordBatch.from_arrays([from_objects(c, f.type) for c, f in zip(g.cols, schema, strict=True)], schema=schema)
        g.clear()
        return rb

    for path in pickle.loads(task.unit):
        task.source = path
        try:
            data = read_bytes(fs, path)
        except OSError as e:
            raise named(e, "read_binary_files", path) from None
        if len(data) >= 1 << 31:
            raise ValueError(f"read_binary_files {path}: {len(data):,} bytes do not fit one value (2 GiB); read it in parts")
        if g.bytes and g.bytes + len(data) > task.target:
            yield batch()
        if g.add(*((data, path) if with_path else (data,)), size=len(data) + 16):
            yield batch()
    if g.cols[0]:
        yield batch()
