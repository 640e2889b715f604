"""Lists files and makes units of them, for all readers of files. No file is opened here.

Files are listed in the order of their sorted paths. Names at the top of a folder that start with
"." or "_" are left out, as in Ray (they are counted, so that an error can mention them). Units are
made from file sizes alone, so each run has the same units.
"""

from __future__ import annotations

import os
import pickle
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from skate._deps import futures, glob, np, pa, pafs, pc
from skate.data import expressions, on_error
from skate.data.datasource.partitioning import Partitioning, PathPartitionParser
from skate.data.expr import bounds
from skate.data.files import crc32c
from skate.data.files.http import not_found
from skate.data.files.local import local_path
from skate.data.files.paths import resolve
from skate.data.files.reading import check_regular, not_regular, read_bytes
from skate.data.files.retry import begin, retried
from skate.data.random_config import FileShuffleConfig
from skate.data.read.source import Facts, Source, asked_blocks, check_num_blocks, min_units
from skate.data.values import to_arrow, unify

if TYPE_CHECKING:
    from skate.data.read.options import FileOptions

UNIT_BYTES = 8 << 20
UNIT_FILES = 16
# the least number of remote paths that are looked up in parallel; fewer are looked up one by one
FILE_SIZE_FETCH_PARALLELIZATION_THRESHOLD = 16
HIVE = Partitioning("hive")


class Listing:
    """Files that were found: paths and sizes (bytes), sorted within each given path; n_hidden: the
    number of names that were left out; fs: a pyarrow file system, None for local files."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.sizes: list[int] = []
        self.n_hidden = 0
        self.fs: Any = None


def list_files(
    paths: Any, *, filesystem: Any = None, extensions: Any = None, ignore_missing: bool = False
) -> Listing:
    """The files under paths (a path or list of paths; folders recursively)."""
    out = Listing()
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    if not given:
        raise ValueError("no paths given; name at least one file or folder")
    exts = None
    if extensions is not None:
        exts = tuple(
            "." + e.lstrip(".").lower()
            for e in ([extensions] if isinstance(extensions, str) else extensions)
        )
    places = [
        (p, None if filesystem is not None else local_path(p))
        for p in (os.fsdecode(os.fspath(p)) for p in given)
    ]
    looks = _looks([p for p, at in places if at is None], filesystem)
    for _, at in places:
        if at is None:
            _list_remote(out, *next(looks), exts, ignore_missing)
        else:
            _list_local(out, at, exts, ignore_missing)
    if not out.paths and not (ignore_missing and not given):
        hidden = (
            f" ({out.n_hidden} that start with '.' or '_' are left out)" if out.n_hidden else ""
        )
        kind = f" with {' or '.join(exts)}" if exts else ""
        raise FileNotFoundError(2, f"no files{kind}{hidden}", ", ".join(map(str, given[:3])))
    return out


def _list_local(out: Listing, p: str, exts: tuple[str, ...] | None, ignore_missing: bool) -> None:
    if any(c in p for c in "*?[") and not os.path.exists(p):
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
                        if not e.name.startswith(".skate-"):  # files of an unfinished write
                            stack.append(e.path)
                    elif exts is None or e.name.lower().endswith(exts):
                        try:
                            s = e.stat()
                        except OSError:  # a broken link: the reader raises an error that names it
                            files.append((e.path, 0))
                            continue
                        if not stat.S_ISREG(s.st_mode):
                            raise not_regular(e.path, s.st_mode)
                        files.append((e.path, s.st_size))
        files.sort()
        out.paths += [f for f, _ in files]
        out.sizes += [n for _, n in files]
    elif os.path.exists(p):
        check_regular(p)
        out.paths.append(p)
        out.sizes.append(os.path.getsize(p))
    elif not ignore_missing:
        raise FileNotFoundError(2, "no such file or folder", p)


def _looks(paths: list[str], filesystem: Any) -> Iterator[tuple[Any, str, Any]]:
    """Yields (file system, path in it, FileInfo) of remote paths, in their order. Many paths are
    looked up in parallel: one answer takes 10 to 100 ms."""
    begin()

    def look(p: str) -> tuple[Any, str, Any]:
        fs, at = resolve(p, filesystem)
        return fs, at, retried(lambda: fs.get_file_info(at), f"look at {at}")

    if len(paths) < FILE_SIZE_FETCH_PARALLELIZATION_THRESHOLD:
        yield from map(look, paths)
        return
    with futures.ThreadPoolExecutor(FILE_SIZE_FETCH_PARALLELIZATION_THRESHOLD) as pool:
        yield from pool.map(look, paths)


def _list_remote(
    out: Listing,
    filesystem: Any,
    p: str,
    info: Any,
    exts: tuple[str, ...] | None,
    ignore_missing: bool,
) -> None:
    if out.fs is not None and not out.fs.equals(filesystem):
        raise ValueError(
            "paths of different file systems in one read; read them apart and union them"
        )
    out.fs = filesystem
    if info.type == pafs.FileType.NotFound:
        e = not_found(filesystem, p)
        if not ignore_missing or not isinstance(e, FileNotFoundError):
            raise e
    elif info.type == pafs.FileType.Directory:
        base = info.path.rstrip("/") + "/"
        for f in sorted(
            retried(
                lambda: filesystem.get_file_info(pafs.FileSelector(p, recursive=True)), f"list {p}"
            ),
            key=lambda f: f.path,
        ):
            # ".skate-" marks files of an unfinished write
            if f.type == pafs.FileType.Directory or "/.skate-" in f.path.removeprefix(base):
                continue
            if f.path.removeprefix(base).startswith((".", "_")):
                out.n_hidden += 1
            elif exts is None or f.path.lower().endswith(exts):
                if f.type != pafs.FileType.File:
                    raise not_regular(f.path, None)
                out.paths.append(f.path)
                out.sizes.append(f.size or 0)
    elif info.type == pafs.FileType.Unknown:
        raise not_regular(info.path, None)
    else:
        out.paths.append(info.path)
        out.sizes.append(info.size or 0)


def units_of_files(
    listing: Listing, override_num_blocks: int | None = None, unit_bytes: int = UNIT_BYTES
) -> list[tuple[bytes, int, int]]:
    """Makes units of neighbouring files: a unit has at most unit_bytes, and at most UNIT_FILES
    files (a larger file is a unit of its own); or makes as many units as the user asked for."""
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
    return [
        (pickle.dumps([listing.paths[i] for i in g]), -1, max(1, sum(listing.sizes[i] for i in g)))
        for g in groups
    ]


def named(e: Exception, doing: str, path: str) -> Exception:
    """An error of the same class that names the file; e itself if it names the file already."""
    if str(e).startswith(f"{doing} {path}"):
        return e
    try:
        if isinstance(e, OSError) and e.errno:
            return type(e)(e.errno, f"{doing}: {e.strerror}", path)
        return type(e)(f"{doing} {path}: {e}")
    except TypeError:  # an error class of a library whose constructor takes other arguments
        e.add_note(f"{doing} {path}")
        return e


def listed(paths: Any, options: FileOptions) -> Listing:
    """The files that a reader with these options reads."""
    listing = list_files(
        paths,
        filesystem=options.get("filesystem"),
        extensions=options.get("file_extensions"),
        ignore_missing=bool(options.get("ignore_missing_paths")),
    )
    if options.get("partition_filter") is not None:
        keep_paths(listing, options.get("partition_filter"))
    return listing


def file_source(
    label: str,
    fmt: str,
    paths: Any,
    params: dict[str, Any],
    options: FileOptions,
    *,
    schema: Any = None,
) -> Any:
    """A Source that reads whole files, several in a unit. The format's read_file(params, task,
    path) yields the batches of one file (see `run`).

    schema: a function that returns the known columns without those of partitions and path.
    """
    listing = listed(paths, options)
    blocks = asked_blocks(options)
    partitioning, include_paths = options.get("partitioning"), bool(options.get("include_paths"))
    params = {
        "format": fmt,
        **params,
        "include_paths": include_paths,
        "partitioning": partitioning,
        "stream": dict(options.get("arrow_open_stream_args") or {}),
    }
    if listing.fs is not None:
        params["fs"] = listing.fs
    parse = parser(partitioning)
    named_by_path = {k: v for p in listing.paths[:1] for k, v in parse(p).items()} if parse else {}

    def known() -> Any:
        s = schema()
        for k, v in named_by_path.items():
            s = s.append(pa.field(k, said_column(params, k, v, 0).type)) if k not in s.names else s
        return (
            s.append(pa.field("path", pa.string()))
            if include_paths and "path" not in s.names
            else s
        )

    return Source(
        label,
        params,
        units_of_files(listing, blocks),
        options,
        Facts(None, known if schema is not None else None, listing.paths),
        each_run=reshuffled(
            listing, options.get("shuffle"), lambda part: units_of_files(part, blocks)
        ),
    )


def gathered(params: dict[str, Any], rb: Any, paths: list[str]) -> Any:
    """rb with the columns that the paths of its rows define. paths: one for each row."""
    parse = parser(params["partitioning"])
    if parse:
        said = [parse(p) for p in paths]
        for k in dict.fromkeys(k for d in said for k in d):
            rb = rb.append_column(k, to_arrow.from_objects([d.get(k) for d in said], None))
    return (
        rb.append_column("path", to_arrow.from_objects(paths, pa.string()))
        if params["include_paths"]
        else rb
    )


def keep_paths(listing: Listing, partition_filter: Any) -> None:
    """Removes the files that a PathPartitionFilter does not select; ValueError if no file is
    left."""
    kept = set(partition_filter(listing.paths))
    both = [(p, n) for p, n in zip(listing.paths, listing.sizes, strict=True) if p in kept]
    if not both:
        raise ValueError(
            "No input files found to read: partition_filter leaves none of those that were found"
        )
    listing.paths, listing.sizes = [p for p, _ in both], [n for _, n in both]


def reshuffled(listing: Listing, shuffle: Any, units: Any) -> Any:
    """For shuffle="files" or a FileShuffleConfig: returns a function from the number of a run to
    the options of that run (units over shuffled files); else returns None."""
    if shuffle is None:
        return None
    if shuffle != "files" and not isinstance(shuffle, FileShuffleConfig):
        raise ValueError(
            f"Invalid value for 'shuffle': {shuffle!r}: None, 'files' or a FileShuffleConfig"
        )

    def each_run(k: int) -> dict[str, Any]:
        seed = None if shuffle == "files" else shuffle.get_seed(k)
        part = Listing()
        part.fs = listing.fs
        order = np.random.default_rng(seed).permutation(len(listing.paths)).tolist()
        part.paths, part.sizes = (
            [listing.paths[i] for i in order],
            [listing.sizes[i] for i in order],
        )
        return {"units": units(part)}

    return each_run


def units_with(
    params: dict[str, Any], units: list[Any], tests: list[tuple[Any, set[str]]]
) -> tuple[list[Any], str] | None:
    """The units without the files whose paths show that one of the tests does not hold, and a text
    about the files left out; None if no file is left out.

    Args:
        params: Parameters of the reader.
        units: Each a list of paths, or of tuples that begin with a path.
        tests: Pairs of an expression over columns of the rows and the columns that it reads.
    """
    parse = parser(params["partitioning"])
    needed: dict[str, bool] = {}  # folder -> whether its files are needed
    about: dict[int, Any] = {}  # the tests by which files were left out
    lists = [pickle.loads(u) for u, _, _ in units]
    for entry in (e for entries in lists for e in entries):
        folder = os.path.dirname(_path_of(entry))
        if folder in needed:
            continue
        said = parse(_path_of(entry))
        mine = [(e, used) for e, used in tests if used & said.keys()]
        row = _row_of(params, said) if mine else None
        known = bounds.Known({}, row)
        failed = (
            None
            if row is None
            else next((e for e, _ in mine if not bounds.may_hold(e, known)), None)
        )
        needed[folder] = failed is None
        if failed is not None:
            about[id(failed)] = failed
    kept = [[e for e in entries if needed[os.path.dirname(_path_of(e))]] for entries in lists]
    n, of = (len({_path_of(e) for entries in some for e in entries}) for some in (kept, lists))
    if n == of:
        return None
    out = []
    for (unit, rows, size), entries, all_ in zip(units, kept, lists, strict=True):
        if len(entries) == len(all_):
            out.append((unit, rows, size))
        elif entries:
            out.append(
                (
                    pickle.dumps(entries),
                    -1,
                    max(1, size * len(entries) // len(all_)) if size > 0 else size,
                )
            )
    if not out:  # one file stays, because it shows the columns
        first = next(e for entries in lists for e in entries)
        out = [(pickle.dumps([first if isinstance(first, str) else (first[0], [])]), -1, 1)]
    what = " and ".join(expressions.inline(e) for e in list(about.values())[:4])
    return out, f"reads {n:,} of {of:,} files, by what the folders say: {what}"


def _path_of(entry: Any) -> str:
    return entry if isinstance(entry, str) else entry[0]


def _row_of(params: dict[str, Any], said: dict[str, Any]) -> Any:
    """A batch of one row with the columns that a path defines, as with_columns() makes them;
    "typed" of params: the types of those columns that the files have, too. None if a value does not
    fit its type."""
    typed = params.get("typed") or {}
    columns = [said_column(params, k, v, 1) for k, v in said.items()]
    try:
        columns = [
            c.cast(typed[k]) if k in typed else c for k, c in zip(said, columns, strict=True)
        ]
    except pa.ArrowException:
        return None
    return pa.RecordBatch.from_arrays(columns, names=list(said))


def parser(partitioning: Any) -> Any:
    """The PathPartitionParser of a Partitioning; None if there is no Partitioning."""
    if partitioning is None:
        return None
    return PathPartitionParser(partitioning)


# ---- Reading files in the worker.


def run(params: dict[str, Any], task: Any, doing: str, read_file: Any) -> Iterator[Any]:
    """The body of a format's run(): yields the batches of each file of the unit, with the columns
    that the file's path defines."""
    parse = parser(params["partitioning"])
    for path in pickle.loads(task.unit):
        task.source, task.source_row = path, 0
        extra = parse(path) if parse else {}
        try:
            for rb in read_file(params, task, path):
                yield with_columns(params, rb, extra, path if params["include_paths"] else None)
                if task.source_row is not None:
                    task.source_row += rb.num_rows
        except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, EOFError) as e:
            # a TypeError may be raised by a user's decoder
            if isinstance(e, TypeError) and not tolerates(params):
                raise
            unreadable(params, task, named(e, doing, path), path)


def unreadable(
    params: dict[str, Any],
    task: Any,
    e: Exception,
    path: str,
    row: int | None = None,
    raw: bytes | None = None,
    line: int | None = None,
) -> None:
    """Handles a file, or a part of it, that cannot be parsed: makes a dead letter if on_error
    allows it, else raises e. I/O errors are always raised. row: the number of its row in the file,
    from 0; raw: its bytes; line: the number of its first line, from 1."""
    if (params.get("on_error") or "raise") == "raise" or on_error.is_fatal(e, reading=True):
        raise e from None
    task.letters.add(params, e, None, None, path, row, raw, line)
    # which rows of the file the following batches have is not known: one of them is missing
    task.source_row = None


def bad_line(
    params: dict[str, Any], task: Any, doing: str, path: str, line: int, why: str, raw: bytes
) -> None:
    """Handles a line that cannot be parsed (see unreadable()): the error is an ArrowInvalid (a
    ValueError) with the file, the line number (from 1) and the start of the line."""
    start = raw[:LINE_BYTES].partition(b"\n")[0]
    said = start.decode("utf-8", "backslashreplace") + ("..." if len(start) < len(raw) else "")
    unreadable(
        params,
        task,
        pa.ArrowInvalid(f"{doing} {path} line {line}: {why}: {said}"),
        path,
        line - 1,
        raw,
        line,
    )


LINE_BYTES = 200  # bytes of a bad line that its message shows


def tolerates(params: dict[str, Any]) -> bool:
    """Whether on_error tolerates bad records, so that searching for single bad lines is useful."""
    return (params.get("on_error") or "raise") != "raise"


def said_column(params: dict[str, Any], name: str, v: Any, n: int) -> Any:
    """A column that repeats n times the value that a path defines."""
    if v is None:
        kinds = {int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
        return pa.nulls(
            n, kinds.get((params["partitioning"].field_types or {}).get(name, str), pa.string())
        )
    return to_arrow.from_objects([v] * n, None) if n else to_arrow.from_objects([v], None).slice(1)


def with_columns(params: dict[str, Any], rb: Any, extra: dict[str, Any], path: str | None) -> Any:
    """rb with columns for the values that its path defines. If the file has a column with the same
    name, it must have the same value or none (null, NaN); else ValueError names the column."""
    for k, v in extra.items():
        col = said_column(params, k, v, rb.num_rows)
        i = rb.schema.get_field_index(k)
        if i < 0:
            rb = rb.append_column(k, col)
            continue
        old = rb.column(i)
        want = col.cast(old.type)
        if old.equals(want):
            continue
        if pc.if_else(pc.is_null(old, nan_is_null=True), want, old).equals(want):
            rb = rb.set_column(i, rb.schema.field(i), want)
        else:
            raise ValueError(
                f"partition column {k}: the path says {v!r}, the file's own column of that name holds {old.unique().to_pylist()[:5]}; read with partitioning=None, or drop one"
            )
    if path is not None and "path" in rb.schema.names:
        raise ValueError(
            'include_paths: the file has a column "path" of its own; read it without include_paths, or rename the column'
        )
    return (
        rb
        if path is None
        else rb.append_column("path", to_arrow.from_objects([path] * rb.num_rows, pa.string()))
    )


def read_stream(params: dict[str, Any], path: str) -> bytes:
    """The whole content of a file, decompressed according to its name or arrow_open_stream_args."""
    data = read_bytes(params.get("fs"), path)
    kind = params.get("stream", {}).get("compression", "detect")
    kind = compression(path) if kind == "detect" else kind
    return data if kind is None else decompress(data, kind)


def read_sound(
    params: dict[str, Any], task: Any, doing: str, path: str, lines: bool = False
) -> bytes:
    """Like read_stream(), for compressed data that may be damaged: if on_error allows it, returns
    the data before the damage (in files of lines: whole lines), and the rest becomes a dead
    letter."""
    if not tolerates(params):
        return read_stream(params, path)
    try:
        return read_stream(params, path)
    except (pa.ArrowException, OSError, ValueError) as e:
        if on_error.is_io(e):
            raise
        why = e
    kind = params.get("stream", {}).get("compression", "detect")
    kind = compression(path) if kind == "detect" else kind
    out: list[bytes] = []
    if kind is not None and kind != "snappy":
        try:
            f = pa.CompressedInputStream(pa.BufferReader(read_bytes(params.get("fs"), path)), kind)
            while piece := f.read(SOUND_BYTES):
                out.append(piece)
        except (pa.ArrowException, OSError):
            pass
    data = b"".join(out)
    data = data[: data.rfind(b"\n") + 1] if lines else data
    at = data.count(b"\n") + 1 if lines else None
    unreadable(params, task, named(why, doing, path), path, None, None, at)
    return data


SOUND_BYTES = 4096  # bytes per step when damaged data is decompressed


class Fitting:
    """Makes batches of a file's rows that all have one schema.

    A row fits if a batch can be built of it alone, and its types can be unified with those of most
    rows in its batch (dominant_type.py); if bad records are tolerated, also with the types of
    earlier batches.

    Args:
        params: Parameters of the reader.
        build: A function that makes a batch of a list of rows.
        bad: A function that is called with a row that does not fit and the error; it records the
            row, or raises.
    """

    def __init__(self, params: dict[str, Any], build: Any, bad: Any):
        self.build, self.bad, self.tolerant = build, bad, tolerates(params)
        self.schema: Any = None  # the schema of the batches so far

    def batch(self, rows: list[Any]) -> Iterator[Any]:
        """Yields the batch of the rows that fit, or nothing if no row fits."""
        try:
            rb = self.build(rows)
            self._join(rb)
        except (TypeError, ValueError, pa.ArrowException):
            rows = self._sound(rows)
            rb = self.build(rows) if rows else None
            self._join(rb)
        if rb is not None:
            yield rb

    def _join(self, rb: Any) -> None:
        if rb is not None and self.tolerant:
            self.schema = (
                rb.schema if self.schema is None else unify.unify([self.schema, rb.schema])
            )

    def _sound(self, rows: list[Any]) -> list[Any]:
        parts: list[tuple[list[Any], Any, Any]] = []  # (rows, schema, error)
        todo = [rows]
        while todo:
            some = todo.pop()
            try:
                rb = self.build(some)
                parts.append((some, None if rb is None else rb.schema, None))
            except (TypeError, ValueError, pa.ArrowException) as e:
                if len(some) > 1:
                    todo += [some[len(some) // 2 :], some[: len(some) // 2]]
                else:
                    parts.append((some, None, e))
        out: list[Any] = []
        for (some, _, alone), beside in zip(
            parts, unify.misfits([(len(p[0]), p[1]) for p in parts], self.schema), strict=True
        ):
            why = alone or beside
            if why is None:
                out += some
            for row in some if why else ():
                self.bad(row, why)
        return out


def decompress(data: bytes, kind: str) -> bytes:
    """Decompresses a gzip, bz2, zstd, lz4, brotli or snappy (framed) stream."""
    if kind == "snappy":
        return _snappy(data)
    return pa.CompressedInputStream(pa.BufferReader(data), kind).read()


def _snappy(data: bytes) -> bytes:
    """Decompresses the snappy framing format: chunks of type (1 byte), length (3 bytes), CRC-32C (4
    bytes), data. The checksums are verified."""
    if data[:10] != b"\xff\x06\x00\x00sNaPpY":
        raise ValueError("not a snappy stream: it does not start with the stream identifier")
    out, at = [], 10
    codec = pa.Codec("snappy")
    while at < len(data):
        kind, size = data[at], int.from_bytes(data[at + 1 : at + 4], "little")
        body = data[at + 4 : at + 4 + size]
        at += 4 + size
        if len(body) != size:
            raise ValueError(f"snappy stream ends within a chunk at byte {at - size}")
        if kind in (0, 1):
            packed = body[4:]
            plain = packed if kind == 1 else codec.decompress(packed, _varint(packed), asbytes=True)
            if crc32c.masked(plain) != int.from_bytes(body[:4], "little"):
                raise ValueError(
                    f"snappy stream: checksum of the chunk that ends at byte {at} is wrong"
                )
            out.append(plain)
        elif 2 <= kind < 128:
            raise ValueError(f"snappy stream has a chunk of the unknown type {kind}")
    return b"".join(out)


def _varint(data: bytes) -> int:
    n = shift = 0
    for b in data[:5]:
        n |= (b & 127) << shift
        if b < 128:
            break
        shift += 7
    return n


class Gather:
    """Collects values by column, and says when there are enough for a batch."""

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
    """The compression of a file with this name; None: not compressed."""
    for end, name in (
        (".gz", "gzip"),
        (".bz2", "bz2"),
        (".zst", "zstd"),
        (".lz4", "lz4"),
        (".br", "brotli"),
        (".snappy", "snappy"),
    ):
        if path.endswith(end):
            return name
    return None
