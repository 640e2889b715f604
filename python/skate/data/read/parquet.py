"""read_parquet: footers at plan time in threads, then row groups in workers.

A unit is a run of row groups of neighbouring files up to the target bytes (uncompressed), so many small files make few tasks and one large file
many. With filter=, row groups that the statistics rule out are never read. Unit parameters are paths and numbers only.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from skate.data.read.files import check_num_blocks, list_files, min_units, named, open_file, with_path

BATCH_BYTES = 8 << 20  # what one step of the decoder should give
UNIT_BYTES = 32 << 20


def read_parquet(
    paths: Any,
    *,
    filesystem: Any = None,
    columns: list[str] | None = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    ray_remote_args: dict[str, Any] | None = None,
    schema: Any = None,
    filter: Any = None,
    include_paths: bool = False,
    file_extensions: list[str] | None = None,
    concurrency: int | None = None,  # noqa: A002
    override_num_blocks: int | None = None,
    **arrow_parquet_args: Any,
) -> Any:
    """A Dataset of Parquet files.

    Args:
        columns: Only these columns are read.
        filter: A pyarrow.compute expression; row groups without a match are skipped.
        include_paths: Adds the column "path".

    Example:
        >>> import skate, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> skate.data.range(3).write_parquet(folder)
        >>> skate.data.read_parquet(folder).count()
        3
    """
    if "dataset_kwargs" in arrow_parquet_args or "tensor_column_schema" in arrow_parquet_args:
        raise TypeError("read_parquet: dataset_kwargs and tensor_column_schema are not supported; use filter=, or map_batches")
    if filter is None and "filters" in arrow_parquet_args:
        raise TypeError("read_parquet: use filter= with a pyarrow.compute expression, not filters=")
    from skate.data.execute import Facts, ReadOptions, source

    exts = file_extensions
    if exts is None and isinstance(paths, (str, os.PathLike)) and os.path.isdir(os.path.expanduser(paths)):
        exts = ["parquet", "pq", "parq"]
    listing = list_files(paths, filesystem=filesystem, extensions=exts)
    infos = _footers(listing.fs, listing.paths, filter)
    rows = sum(n for _, groups in infos for _, n, _ in groups)
    if override_num_blocks is None and parallelism > 0:
        override_num_blocks = parallelism
    units = _units(listing.paths, infos, override_num_blocks)
    params: dict[str, Any] = {
        "format": "parquet",
        "columns": list(columns) if columns is not None else None,
        "include_paths": include_paths,
        "filter": filter,
        "schema": schema,
    }
    if listing.fs is not None:
        params["fs"] = listing.fs
    first = infos[0][0]
    hive = hive_values(listing.paths[0])
    params["hive"] = bool(hive)

    def known() -> Any:
        import pyarrow as pa

        s = schema if schema is not None else first
        if columns is not None:
            missing = [c for c in columns if c not in s.names and c not in hive]
            if missing:
                raise KeyError(f"read_parquet: there is no column {missing[0]!r} in {listing.paths[0]}; columns are {', '.join(s.names)}")
            s = pa.schema([s.field(c) for c in columns if c in s.names])
        s = s.remove_metadata()
        for k in hive:
            if k not in s.names and (columns is None or k in columns):
                s = s.append(pa.field(k, pa.string()))
        return s.append(pa.field("path", pa.string())) if include_paths else s

    if columns is not None:
        known()  # a missing column is an error now
    return source(
        "ReadParquet",
        params,
        units,
        ReadOptions(concurrency, num_cpus, num_gpus, memory, ray_remote_args),
        Facts(rows if filter is None else None, known, listing.paths),
    )


def hive_values(path: str) -> dict[str, str | None]:
    """Values that folders of the path name: .../year=2024/x.parquet -> {"year": "2024"}."""
    from urllib.parse import unquote

    out: dict[str, str | None] = {}
    for part in path.split("/")[:-1]:
        k, eq, v = part.partition("=")
        if eq and k:
            out[unquote(k)] = None if v == "__HIVE_DEFAULT_PARTITION__" else unquote(v)
    return out


Groups = list[tuple[int, int, int]]  # (row group, rows, uncompressed bytes)


def _footers(fs: Any, paths: list[str], filter: Any) -> list[tuple[Any, Groups]]:  # noqa: A002
    """(schema, row groups) of each file."""
    import pyarrow.parquet as pq

    def one(path: str) -> tuple[Any, Groups]:
        try:
            with open_file(fs, path) as f, pq.ParquetFile(f) as pf:
                md = pf.metadata
                groups = [(i, md.row_group(i).num_rows, md.row_group(i).total_byte_size) for i in range(md.num_row_groups)]
                schema = pf.schema_arrow
        except Exception as e:
            raise named(e, "read_parquet", path) from None
        if filter is not None:
            keep = {g for frag in [_fragment(fs, path, None).subset(filter, schema=schema)] for g in (rg.id for rg in frag.row_groups)}
            groups = [g for g in groups if g[0] in keep]
        return schema, groups

    if len(paths) == 1:
        return [one(paths[0])]
    with ThreadPoolExecutor(min(32, len(paths))) as pool:
        return list(pool.map(one, paths))


def _fragment(fs: Any, path: str, groups: list[int] | None) -> Any:
    import pyarrow.dataset as pads
    from pyarrow import fs as pafs

    return pads.ParquetFileFormat().make_fragment(path, filesystem=fs or pafs.LocalFileSystem(), row_groups=groups)


def _units(paths: list[str], infos: list[tuple[Any, Groups]], override: int | None) -> list[tuple[bytes, int, int]]:
    total = sum(b for _, groups in infos for _, _, b in groups)
    count = sum(len(groups) for _, groups in infos)
    k = check_num_blocks(override) if override is not None else min_units()
    limit = max(1, -(-total // k)) if override is not None else min(UNIT_BYTES, max(1, -(-total // k)))
    out: list[tuple[list[tuple[str, list[int]]], int, int]] = []
    for path, (_, groups) in zip(paths, infos, strict=True):
        for g, rows, size in groups:
            if not out or out[-1][2] + size > limit:
                out.append(([], 0, 0))
            files, n, b = out[-1]
            if not files or files[-1][0] != path:
                files.append((path, []))
            files[-1][1].append(g)
            out[-1] = (files, n + rows, b + size)
    if not count:  # files without rows still have columns
        out = [([(paths[0], [])], 0, 0)]
    return [(pickle.dumps(files), rows, max(1, size)) for files, rows, size in out]


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    fs, asked, include_paths, flt = params.get("fs"), params["columns"], params["include_paths"], params["filter"]
    for path, groups in pickle.loads(task.unit):
        hive = {k: v for k, v in hive_values(path).items() if asked is None or k in asked} if params["hive"] else {}
        columns = asked if asked is None else [c for c in asked if c not in hive]
        task.source = path
        at = 0
        try:
            if flt is not None:
                frag = _fragment(fs, path, groups)
                it = frag.to_batches(schema=frag.physical_schema, columns=columns, filter=flt, use_threads=False, batch_size=131072)
                for rb in it:
                    task.source = path
                    yield _finish(rb, path, include_paths, params["schema"], hive)
                continue
            with open_file(fs, path) as f, pq.ParquetFile(f, memory_map=False) as pf:
                md = pf.metadata
                rows = sum(md.row_group(g).num_rows for g in groups)
                if not rows:
                    schema = pf.schema_arrow if columns is None else pa.schema([pf.schema_arrow.field(c) for c in columns])
                    from skate.data.batch import _from_table

                    yield _finish(_from_table(schema.empty_table())[0], path, include_paths, params["schema"], hive)
                    continue
                size = _bytes_per_row(md, groups, columns)
                step = max(1024, min(rows, int(min(BATCH_BYTES, task.target) / max(1.0, size))))
                first = sum(md.row_group(g).num_rows for g in range(groups[0]))
                for rb in pf.iter_batches(step, row_groups=groups, columns=columns, use_threads=False):
                    task.source = f"{path} rows {first + at}..{first + at + rb.num_rows - 1}"
                    at += rb.num_rows
                    yield _finish(rb, path, include_paths, params["schema"], hive)
        except (pa.ArrowException, OSError, ValueError, KeyError) as e:
            raise named(e, "read_parquet", path) from None


def _bytes_per_row(md: Any, groups: list[int], columns: list[str] | None) -> float:
    rows = size = 0
    for g in groups:
        rg = md.row_group(g)
        rows += rg.num_rows
        if columns is None:
            size += rg.total_byte_size
        else:
            for i in range(rg.num_columns):
                c = rg.column(i)
                if c.path_in_schema.split(".")[0] in columns:
                    size += c.total_uncompressed_size
    return size / max(1, rows)


def _finish(rb: Any, path: str, include_paths: bool, schema: Any, hive: dict[str, str | None]) -> Any:
    import pyarrow as pa

    from skate.data.batch import from_objects

    if rb.schema.metadata:
        rb = rb.replace_schema_metadata(None)
    if schema is not None:
        from skate.data.schema import cast_batch

        rb = cast_batch(
            rb.select([n for n in schema.names if n in rb.schema.names]), pa.schema([f for f in schema if f.name in rb.schema.names])
        )
    for k, v in hive.items():
        if k not in rb.schema.names:
            rb = rb.append_column(k, from_objects([v] * rb.num_rows, pa.string()))
    return with_path(rb, path) if include_paths else rb
