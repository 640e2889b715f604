"""Listing files and making units of them, for every reader of files. No file is opened here.

Order is that of the sorted paths. Names that start with "." or "_" at the top of a folder are left out, as in Ray (their number is kept
for who wants to say so). Units are made by size, by a rule that reads only sizes, so that a run is the same each time.
"""

from __future__ import annotations

import os
import pickle
from typing import Any

UNIT_BYTES = 8 << 20
UNIT_FILES = 16


def min_units() -> int:
    """Fewer units than this would leave cores idle behind a small source. A number of the machine, not of the engine's settings: layouts stay."""
    return 2 * (os.cpu_count() or 1)


class Listing:
    """paths and sizes (bytes), sorted per given path; n_hidden: names that were left out; fs: a pyarrow file system, None for local files."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.sizes: list[int] = []
        self.n_hidden = 0
        self.fs: Any = None


def list_files(paths: Any, *, filesystem: Any = None, extensions: Any = None, ignore_missing: bool = False) -> Listing:
    """The files under paths (a path or list of paths; folders recursively)."""
    out = Listing()
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    if not given:
        raise ValueError("no paths given; name at least one file or folder")
    exts = None
    if extensions is not None:
        exts = tuple("." + e.lstrip(".").lower() for e in ([extensions] if isinstance(extensions, str) else extensions))
    for p in given:
        p = os.fspath(p)
        if isinstance(p, bytes):
            p = os.fsdecode(p)
        if filesystem is not None or "://" in p:
            _list_remote(out, p, filesystem, exts, ignore_missing)
        else:
            _list_local(out, p, exts, ignore_missing)
    if not out.paths and not (ignore_missing and not given):
        hidden = f" ({out.n_hidden} that start with '.' or '_' are left out)" if out.n_hidden else ""
        kind = f" with {' or '.join(exts)}" if exts else ""
        raise FileNotFoundError(2, f"no files{kind}{hidden}", ", ".join(map(str, given[:3])))
    return out


def _list_local(out: Listing, p: str, exts: tuple[str, ...] | None, ignore_missing: bool) -> None:
    p = os.path.expanduser(p.removeprefix("file://").removeprefix("local://"))
    if any(c in p for c in "*?[") and not os.path.exists(p):
        import glob

        found = sorted(glob.glob(p, recursive=True))
        if not found and not ignore_missing:
            raise FileNotFoundError(2, "no file matches", p)
        for f in found:
            _list_local(out, f, exts, ignore_missing)
        return
    if os.path.isdir(p):
        files: list[tuple[str, int]] = []
        stack = [p]
        while stack:
            d = stack.pop()
            with os.scandir(d) as it:
                for e in it:
                    if d is p and e.name.startswith((".", "_")):
                        out.n_hidden += 1
                    elif e.is_dir():
                        if not e.name.startswith(".skate-"):  # a write that has not ended
                            stack.append(e.path)
                    elif exts is None or e.name.lower().endswith(exts):
                        files.append((e.path, _size(e)))
        files.sort()
        out.paths += [f for f, _ in files]
        out.sizes += [n for _, n in files]
    elif os.path.exists(p):
        out.paths.append(p)
        out.sizes.append(os.path.getsize(p))
    elif not ignore_missing:
        raise FileNotFoundError(2, "no such file or folder", p)


def _size(e: os.DirEntry[str]) -> int:
    try:
        return e.stat().st_size
    except OSError:
        return 0  # a broken link: the reader names it


def _list_remote(out: Listing, p: str, filesystem: Any, exts: tuple[str, ...] | None, ignore_missing: bool) -> None:
    from pyarrow import fs as pafs

    if filesystem is None:
        filesystem, p = pafs.FileSystem.from_uri(p)
    elif not isinstance(filesystem, pafs.FileSystem):
        filesystem = pafs.PyFileSystem(pafs.FSSpecHandler(filesystem))
    if "://" in p:
        p = p.split("://", 1)[1]
    if out.fs is not None and not out.fs.equals(filesystem):
        raise ValueError("paths of different file systems in one read; read them apart and union them")
    out.fs = filesystem
    info = filesystem.get_file_info(p)
    if info.type == pafs.FileType.NotFound:
        if not ignore_missing:
            raise FileNotFoundError(2, "no such file or folder", p)
    elif info.type == pafs.FileType.Directory:
        base = info.path.rstrip("/") + "/"
        for f in sorted(filesystem.get_file_info(pafs.FileSelector(p, recursive=True)), key=lambda f: f.path):
            if f.type != pafs.FileType.File:
                continue
            if f.path.removeprefix(base).startswith((".", "_")):
                out.n_hidden += 1
            elif exts is None or f.path.lower().endswith(exts):
                out.paths.append(f.path)
                out.sizes.append(f.size or 0)
    else:
        out.paths.append(info.path)
        out.sizes.append(info.size or 0)


def units_of_files(listing: Listing, override_num_blocks: int | None = None, unit_bytes: int = UNIT_BYTES) -> list[tuple[bytes, int, int]]:
    """Units of neighbouring files: at most unit_bytes or UNIT_FILES files together (a larger file alone), or as many units as asked for."""
    n = len(listing.paths)
    groups: list[list[int]] = []
    if override_num_blocks is not None:
        k = min(n, check_num_blocks(override_num_blocks))
        groups = [list(range(i * n // k, (i + 1) * n // k)) for i in range(k)]
    else:
        unit_bytes = min(unit_bytes, -(-sum(listing.sizes) // min_units()))
        unit_files = min(UNIT_FILES, -(-n // min_units()))
        held = 0
        for i, size in enumerate(listing.sizes):
            if not groups or (held + size > unit_bytes and held) or len(groups[-1]) >= unit_files:
                groups.append([])
                held = 0
            groups[-1].append(i)
            held += size
    return [(pickle.dumps([listing.paths[i] for i in g]), -1, max(1, sum(listing.sizes[i] for i in g))) for g in groups]


def check_num_blocks(n: Any) -> int:
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise ValueError(f"override_num_blocks must be a positive int, not {n!r}")
    return n


def open_file(fs: Any, path: str) -> Any:
    """A seekable binary file object."""
    if fs is None:
        return open(path, "rb")
    return fs.open_input_file(path)


def read_bytes(fs: Any, path: str) -> bytes:
    if fs is None:
        with open(path, "rb") as f:
            return f.read()
    with fs.open_input_file(path) as f:
        return f.read()


def named(e: Exception, doing: str, path: str) -> Exception:
    """The same kind of error, saying which file."""
    if isinstance(e, OSError) and e.errno:
        return type(e)(e.errno, f"{doing}: {e.strerror}", path)
    try:
        return type(e)(f"{doing} {path}: {e}")
    except TypeError:
        return OSError(f"{doing} {path}: {type(e).__name__}: {e}")


def file_source(
    label: str,
    fmt: str,
    paths: Any,
    params: dict[str, Any],
    *,
    filesystem: Any = None,
    file_extensions: Any = None,
    ignore_missing_paths: bool = False,
    override_num_blocks: int | None = None,
    parallelism: int = -1,
    schema: Any = None,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    ray_remote_args: dict[str, Any] | None = None,
    concurrency: int | None = None,
) -> Any:
    """A Dataset that reads whole files, several in a unit."""
    from skate.data.execute import Facts, ReadOptions, source

    listing = list_files(paths, filesystem=filesystem, extensions=file_extensions, ignore_missing=ignore_missing_paths)
    if override_num_blocks is None and parallelism > 0:
        override_num_blocks = parallelism
    units = units_of_files(listing, override_num_blocks)
    params = {"format": fmt, **params}
    if listing.fs is not None:
        params["fs"] = listing.fs
    return source(
        label, params, units, ReadOptions(concurrency, num_cpus, num_gpus, memory, ray_remote_args), Facts(None, schema, listing.paths)
    )


class Gather:
    """Collects values column by column and says when there is enough for a batch."""

    def __init__(self, names: list[str], limit: int):
        self.names, self.limit = names, limit
        self.clear()

    def clear(self) -> None:
        self.cols: list[list[Any]] = [[] for _ in self.names]
        self.bytes = 0

    def add(self, *values: Any, size: int) -> bool:
        for c, v in zip(self.cols, values, strict=True):
            c.append(v)
        self.bytes += size
        return self.bytes >= self.limit


def compression(path: str) -> str | None:
    """Of a file with this name; None: plain."""
    for end, name in ((".gz", "gzip"), (".bz2", "bz2"), (".zst", "zstd"), (".lz4", "lz4")):
        if path.endswith(end):
            return name
    return None


def with_path(rb: Any, path: str) -> Any:
    """rb with one more column "path"."""
    import pyarrow as pa

    from skate.data.batch import from_objects

    return rb.append_column("path", from_objects([path] * rb.num_rows, pa.string()))  # pa.array() of a list would import pandas
