"""read_parquet: the driver reads the footers in threads, then workers read row groups.

A unit is a sequence of row groups of neighbouring files, up to the target bytes (uncompressed), so
many small files make few tasks and one large file makes many. With filter=, row groups that the
statistics exclude are never read. The parameters of units are only paths and numbers.
"""

from __future__ import annotations

import base64
import hashlib
import pickle
import re
import resource
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Unpack

from skate._deps import futures, load, np, pa, pads, pafs, pc, pq
from skate.data import expressions
from skate.data.arguments import others
from skate.data.checks import keywords, parameters
from skate.data.context import DataContext
from skate.data.expr import bounds, chance, evaluation
from skate.data.files.paths import is_folder
from skate.data.files.reading import Stamp, check_stamp, open_file, stamp
from skate.data.on_error import check_policy, is_fatal
from skate.data.read import parquet_bounds
from skate.data.read.files import (
    HIVE,
    listed,
    named,
    parser,
    reshuffled,
    said_column,
    tolerates,
    unreadable,
    with_columns,
)
from skate.data.read.options import FileOptions, takes_files
from skate.data.read.source import Facts, Source, asked_blocks, check_num_blocks, min_units
from skate.data.values import batch, encoded_text, marks, selection, tensor_types, to_arrow
from skate.data.values import types as value_types
from skate.data.values.unify import cast_batch, check_names, columns_are, unify
from skate.terminal import progress_line

if TYPE_CHECKING:
    from skate.data.read.options import OpenFileOptions
    from skate.data.typed import Paths


WORKERS_IMPORT = ("pyarrow.parquet",)  # the fork server imports it for all workers
BATCH_BYTES = 8 << 20  # target bytes of one batch from the decoder
UNIT_BYTES = 32 << 20
SMALL_BYTES = 256 << 10  # a file of at most this many bytes is read as a whole
EXTENSIONS = ["parquet", "pq", "parq"]
ROW_HASH = "row_hash"


@takes_files(rest="arrow_parquet_args", partitioning=HIVE, file_extensions=EXTENSIONS)
def read_parquet(
    paths: Paths,
    *,
    columns: list[str] | None = None,
    tensor_column_schema: dict[str, Any] | None = None,
    schema: Any = None,
    filter: Any = None,
    include_row_hash: bool = False,
    trust_pickled_columns: bool = False,
    **options: Unpack[OpenFileOptions],
) -> Source:
    """A Dataset of Parquet files. The schemas of all files are unified: a column that a file lacks
    is null there; TypeError if types cannot be unified.

    Args:
        paths: A file, folder, glob pattern, or list of them; local or of a pyarrow file system.
        columns: Only these columns are read; KeyError for a column that does not exist.
        tensor_column_schema: {column: (dtype, shape)}: columns of bytes that hold arrays.
        on_error: What to do with damaged files: "raise", "skip" or "quarantine" (see
            Dataset.errors()); None: the setting DataContext.on_error. The rows of a file before the
            damage are read.
        schema: The pyarrow schema that the rows are cast to.
        filter: A pyarrow.compute expression that selects rows; row groups without a match are
            skipped.
        include_row_hash: Adds the column "row_hash": a number of 64 bits (uint64) that follows from
            the file's path and the row's number in the file, and so identifies the row, whatever
            rows a filter leaves.
        trust_pickled_columns: True: Python objects that others have pickled into the files are
            unpickled, which runs whatever code the pickles name. False: the setting
            DataContext.trust_pickled_columns applies, whose default is not to unpickle them.
        arrow_parquet_args: batch_size (rows of one batch of the decoder), use_threads; TypeError
            for others.
        options: See FileOptions.

    Raises:
        FileNotFoundError: A path does not exist.
        KeyError: A column does not exist.
        TypeError: The types of the files cannot be unified, or a keyword is unknown.

    Example:
        >>> import skate, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> skate.data.range(3).write_parquet(folder)
        >>> skate.data.read_parquet(folder).count()
        3
    """
    batch_size, udf = _arguments(others(options, FileOptions))
    tolerant = (
        check_policy(options.get("on_error")) or DataContext.get_current().on_error
    ) != "raise"
    partitioning, include_paths = options.get("partitioning"), bool(options.get("include_paths"))
    parse = parser(partitioning)
    stamps: dict[str, Stamp] = {}
    listing, infos, damaged = _found(paths, options, filter, parse, tolerant, stamps)
    stored, cast = _stored(listing.paths, infos, None if schema is None else marks.bare(schema))
    full = _known(
        {"partitioning": partitioning},
        stored,
        parse(listing.paths[0]) if parse else {},
        include_paths,
        include_row_hash,
    )
    made = [n for n, asked in (("path", include_paths), (ROW_HASH, include_row_hash)) if asked]
    if made:
        check_names([*stored.names, *made], f"read_parquet, which adds {', '.join(made)}")
    _check_columns(columns, full, stored, listing.paths[0])
    params: dict[str, Any] = {
        "format": "parquet",
        "columns": list(columns) if columns is not None else None,
        "include_paths": include_paths,
        "row_hash": include_row_hash,
        "filter": filter,
        "pushed": None,
        "schema": stored if cast else None,
        "partitioning": partitioning,
        "typed": {f.name: f.type for f in stored if parse and f.name in parse(listing.paths[0])},
        "names": [n for n in full.names if n not in made],
        "stored": list(stored.names),
        "batch_size": batch_size,
        "tensors": tensor_column_schema,
        "by_settings": bool(tensor_column_schema or udf),  # these arguments make arrays
        "udf": udf,
        "stamps": stamps,
        "code": udf,
        "trust_pickled_columns": trust_pickled_columns,
        **({"fs": listing.fs} if listing.fs is not None else {}),
    }
    rows = (
        sum([n for _, groups in infos for _, n, _ in groups])
        if filter is None and udf is None and not tolerant
        else None
    )
    known = (
        (lambda: _given_out(full, columns, made))
        if udf is None and tensor_column_schema is None
        else None
    )
    units, each_run = _cut(listing, infos, damaged, asked_blocks(options), options.get("shuffle"))
    return Source(
        "ReadParquet", params, units, options, Facts(rows, known, listing.paths), each_run=each_run
    )


def _found(
    paths: Paths,
    options: FileOptions,
    test: Any,
    parse: Any,
    tolerant: bool,
    stamps: dict[str, Stamp],
) -> tuple[Any, list[Any], list[str]]:
    """Returns (the files that can be read, the schema and row groups of each, the damaged files),
    and fills `stamps`. Raises any error, unless damage is tolerated and at least one file is
    sound."""
    if options.get("file_extensions") is EXTENSIONS and not is_folder(
        paths, options.get("filesystem")
    ):
        options = {**options, "file_extensions": None}
    listing = listed(paths, options)
    infos = _footers(listing.fs, listing.paths, test, parse, stamps)
    wrong = [i for i in infos if isinstance(i, Exception)]
    if wrong and (not tolerant or len(wrong) == len(infos)):
        raise wrong[0] from None
    damaged = [p for p, i in zip(listing.paths, infos, strict=True) if isinstance(i, Exception)]
    good = [
        (p, n, i)
        for p, n, i in zip(listing.paths, listing.sizes, infos, strict=True)
        if not isinstance(i, Exception)
    ]
    listing.paths, listing.sizes = [p for p, _, _ in good], [n for _, n, _ in good]
    return listing, [i for _, _, i in good], damaged


def _stored(paths: list[str], infos: list[Any], given: Any) -> tuple[Any, bool]:
    """Returns (the schema of all files, or the one that the user gave; whether some files have
    another schema)."""
    schemas: list[Any] = []
    files: list[str] = []  # the first file of each schema
    for path, (s, _) in zip(paths, infos, strict=True):
        if s not in schemas:
            check_names(s.names, f"read_parquet {path}")
            schemas.append(s)
            files.append(path)
    return (given, True) if given is not None else (_unified(schemas, files), len(schemas) > 1)


def _check_columns(columns: list[str] | None, full: Any, stored: Any, path: str) -> None:
    if columns is None:
        return
    check_names(columns, "read_parquet, columns")
    missing = [c for c in columns if c not in full.names]
    if missing:
        raise KeyError(
            f"read_parquet: there is no column {missing[0]!r} in {path}; {columns_are(missing[0], stored.names)}"
        )


def _given_out(full: Any, columns: list[str] | None, made: list[str]) -> Any:
    """The schema of the output rows: the requested columns in their order, and those that the
    reader makes."""
    if columns is None:
        return full
    more = [c for c in made if c not in columns]
    return pa.schema([full.field(c) for c in [*columns, *more]])


def _cut(
    listing: Any, infos: list[Any], damaged: list[str], blocks: int | None, shuffle: Any
) -> tuple[list[Any], Any]:
    """Returns (the units, a function that makes the units anew for each run)."""
    each = dict(zip(listing.paths, infos, strict=True))
    units = _units(listing.paths, infos, blocks)
    # each damaged file is its own unit, whose task reports the error
    units += [(pickle.dumps([(p, [])]), 0, 1) for p in damaged]
    return units, reshuffled(
        listing, shuffle, lambda part: _units(part.paths, [each[p] for p in part.paths], blocks)
    )


def _arguments(given: dict[str, Any]) -> tuple[int | None, Any]:
    """Returns (batch_size, function over each block): arguments that are no parameters of
    read_parquet()."""
    given = dict(given)
    batch_size, udf = given.pop("batch_size", None), given.pop("_block_udf", None)
    given.pop("use_threads", None)  # has no effect: a task has one CPU
    arrow = given.pop("dataset_kwargs", None) or {}
    if "partitioning" in arrow:
        raise ValueError(
            "read_parquet: partitioning is an argument of its own: give it as such, not in dataset_kwargs"
        )
    if arrow:
        raise TypeError(
            f"read_parquet: dataset_kwargs {', '.join(map(repr, arrow))} are not supported"
        )
    if "filters" in given:
        raise TypeError("read_parquet: use filter= with a pyarrow.compute expression, not filters=")
    keywords("read_parquet", given, ("batch_size", "use_threads", *parameters(read_parquet)))
    if batch_size is not None and (not isinstance(batch_size, int) or batch_size < 1):
        raise ValueError(f"read_parquet: batch_size must be a positive int, not {batch_size!r}")
    return batch_size, udf


def _unified(schemas: list[Any], files: list[str]) -> Any:
    try:
        return unify([s.remove_metadata() for s in schemas], files)
    except TypeError as e:
        raise TypeError(f"read_parquet: {e}; schema= says what all of them are read as") from None


def _known(
    params: dict[str, Any], stored: Any, said: dict[str, Any], with_path: bool, with_hash: bool
) -> Any:
    """The columns of all rows: those of the files, those that the paths define, "path" and
    "row_hash"."""
    s = stored.remove_metadata()
    for k, v in said.items():
        if k not in s.names:
            s = s.append(pa.field(k, said_column(params, k, v, 0).type))
    if with_path and "path" not in s.names:
        s = s.append(pa.field("path", pa.string()))
    return s.append(pa.field(ROW_HASH, pa.uint64())) if with_hash else s


Groups = list[tuple[int, int, int]]  # (row group, rows, uncompressed bytes)


def _footers(
    fs: Any, paths: list[str], filter: Any, parse: Any, stamps: dict[str, Stamp]
) -> list[Any]:  # noqa: A002
    """(schema, row groups) of each file, or the error of a damaged one."""

    def one(path: str) -> Any:
        try:
            with open_file(fs, path) as f, pq.ParquetFile(f) as pf:
                md = pf.metadata
                seen = stamp(fs, f)
                groups = [
                    (i, md.row_group(i).num_rows, md.row_group(i).total_byte_size)
                    for i in range(md.num_row_groups)
                ]
                _register(md)
                schema = pf.schema_arrow
            if filter is not None:
                said = parse(path) if parse else {}
                frag = _part(
                    _fragment(fs, path, said),
                    filter,
                    _known(
                        {"partitioning": parse.scheme} if parse else {}, schema, said, False, False
                    ),
                )
                keep = {rg.id for rg in frag.row_groups} if frag is not None else set()
                groups = [g for g in groups if g[0] in keep]
            stamps[path] = seen
        except Exception as e:
            if is_fatal(e, reading=True):
                raise named(e, "read_parquet", path) from None
            return named(e, "read_parquet", path)
        return schema, groups

    if len(paths) == 1:
        return [one(paths[0])]
    return list(
        progress_line.counted(
            _each(one, paths, fs is None),
            "read_parquet, footers",
            len(paths),
            DataContext.get_current(),
        )
    )


LOOK = 32  # the number of files after which _each() checks whether reads had to wait for the disk


def _each(one: Any, paths: list[str], local: bool) -> Iterator[Any]:
    """Yields one(path) for each path. This thread reads files that are in the page cache: 32
    threads that contend for the GIL would take four times as long. If most reads have to wait (the
    kernel counts how often the thread slept), the rest are read in parallel."""
    done = 0
    while local and done < len(paths):
        slept = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
        for path in paths[done : done + LOOK]:
            yield one(path)
        done += LOOK
        local = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - slept < LOOK // 2
    if done < len(paths):
        with futures.ThreadPoolExecutor(min(32, len(paths) - done)) as pool:
            yield from pool.map(one, paths[done:])


def _register(footer: Any) -> None:
    """Registers skate's and Ray's extension types with Arrow if the file uses them; else reading
    the schema would give their storage types. (Loading them takes 9 ms, which other files save.)"""
    said = (footer.metadata or {}).get(b"ARROW:schema")
    schema = base64.b64decode(said) if said is not None else b""
    for name, module in ((b"ray.data.", tensor_types), (b"skate.python_object", value_types)):
        if name in schema:
            load(module)


def _fragment(fs: Any, path: str, said: dict[str, Any]) -> Any:
    where = None
    for k, v in said.items():
        e = pc.field(k).is_null() if v is None else pc.field(k) == v
        where = e if where is None else where & e
    return pads.ParquetFileFormat().make_fragment(
        path if fs is None else open_file(fs, path),
        filesystem=pafs.LocalFileSystem() if fs is None else None,
        partition_expression=where,
    )


def _part(fragment: Any, test: Any, schema: Any) -> Any:
    """A fragment with only those row groups that may have rows for which a pyarrow expression
    holds; None: there are none. Where Arrow's use of statistics may be wrong, only the path
    decides."""
    text = str(test)
    if _prunes_rightly(text, any(pa.types.is_floating(f.type) and f.name in text for f in schema)):
        try:
            return fragment.subset(test, schema=schema)
        # The column or type does not exist, or Arrow cannot compare the statistics (uint64 with
        # int64).
        except pa.ArrowException:
            schema.empty_table().filter(test)
            return fragment
    whole = pads.FileSystemDataset([fragment], schema, fragment.format)
    return next(iter(whole.get_fragments(filter=test)), None)


def _prunes_rightly(test: str, floats: bool) -> bool:
    """Whether Arrow excludes only row groups without matching rows, for an expression with this
    text.

    Arrow ignores that statistics leave NaN out, so a test of floats must be false for NaN if it is
    false for all numbers: comparisons other than !=, and, or. In a list, Arrow does not match 0.0
    with -0.0. Arrow is wrong for the literal NaN, and for null in a list; the text of a list of
    more than 20 values does not show all of them."""
    if re.search(r"\b(nan|null)\b|^ *\.\.\.$", test, re.MULTILINE):
        return False
    return not floats or (
        "!=" not in test and set(re.findall(r"(\w+)\(", test)) <= {"is_valid", "and", "or"}
    )


def _units(
    paths: list[str], infos: list[tuple[Any, Groups]], override: int | None
) -> list[tuple[bytes, int, int]]:
    total = sum([b for _, groups in infos for _, _, b in groups])
    k = check_num_blocks(override) if override is not None else min_units()
    limit = (
        max(1, -(-total // k)) if override is not None else min(UNIT_BYTES, max(1, -(-total // k)))
    )
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
    if not out:  # files without rows still define columns
        out = [([(paths[0], [])], 0, 0)]
    return [(pickle.dumps(files), rows, max(1, size)) for files, rows, size in out]


def encoded(params: dict[str, Any]) -> bool:
    """Whether a read with these parameters can yield dictionary-encoded strings."""
    whole = params["filter"] is None and params["pushed"] is None
    return whole and params["schema"] is None and params["udf"] is None and not params["tensors"]


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    wrong = (pa.ArrowException, OSError, ValueError, TypeError, KeyError)
    parse = parser(params["partitioning"])
    keep, empty, given = _Rows(params), None, False
    for path, groups in pickle.loads(task.unit):
        task.source, task.source_row = path, None
        said = parse(path) if parse else {}
        try:
            with _File(keep.params, task, path) as file:
                few = file.needed(groups)
                # If bad records are tolerated, row groups are read one by one, so that only a
                # damaged row group is lost
                for part in [[g] for g in few] if tolerates(params) and few else [few]:
                    try:
                        for rb in file.batches(part):
                            rb = keep.of(file.hashed(_finish(keep.params, rb, path, said)))
                            if keep.all or rb.num_rows:
                                given = True
                                yield from _handed_on(params, rb)
                            else:
                                empty = rb
                    except wrong as e:
                        if not tolerates(params):
                            raise
                        why = (
                            named(e, f"read_parquet, row group {part[0]} of", path)
                            if part
                            else named(e, "read_parquet", path)
                        )
                        unreadable(params, task, why, path, file.row)
        except wrong as e:
            unreadable(params, task, named(e, "read_parquet", path), path)
    if empty is not None and not given:  # an empty batch, which shows the columns
        yield from _handed_on(params, empty)


class _Rows:
    """Selects the rows of a batch that pass filter= (of pyarrow) and the tests that the optimiser
    pushed down. all: there are no tests; params: parameters of the read, including the columns that
    filter= needs."""

    def __init__(self, params: dict[str, Any]):
        self.test, self.pushed, self.columns = params["filter"], params["pushed"] or (), None
        self.params, self.all = params, self.test is None and not self.pushed
        if self.test is not None and params["columns"] is not None:
            text = str(self.test)
            more = [n for n in params["names"] if n in text and n not in params["columns"]]
            self.columns = [
                *params["columns"],
                *(["path"] if params["include_paths"] and "path" not in params["columns"] else []),
                *([ROW_HASH] if params["row_hash"] and ROW_HASH not in params["columns"] else []),
            ]
            self.params = {**params, "columns": [*params["columns"], *more]}

    def of(self, rb: Any) -> Any:
        """The batch without the rows that fail. If a test raises an error, all rows stay: the
        filter operator, from which the test comes, will process them and report the error."""
        for e in self.pushed:
            try:
                mask = evaluation.mask(e, rb)
            except Exception:
                continue
            rb = (
                selection.where(rb, mask)
                if isinstance(mask, pa.Array)
                else rb.slice(0, rb.num_rows if mask.as_py() else 0)
            )
        if self.test is None:
            return rb
        kept = pa.Table.from_batches([rb]).filter(self.test).combine_chunks()
        rb = next(iter(kept.to_batches()), rb.slice(0, 0))
        return (
            rb
            if self.columns is None
            else rb.select([c for c in self.columns if c in rb.schema.names])
        )


def _wanted(params: dict[str, Any], schema: Any) -> list[str] | None:
    """The columns to read from a file; None: all."""
    asked = params["columns"]
    return None if asked is None else [c for c in asked if c in schema.names]


class _File:
    """One file that is being read. row: the number in the file of the next row to yield; None with
    a filter, since row numbers are unknown then."""

    def __init__(self, params: dict[str, Any], task: Any, path: str):
        self.params, self.task, self.path = params, task, path
        self.row: int | None = None
        self.places: Any = np.arange(0)  # the numbers in the file of the rows to yield
        self.f = self._opened(params.get("fs"), path, params["stamps"])
        try:
            self.pf = pq.ParquetFile(self.f, memory_map=False)
        except BaseException:
            self.f.close()
            raise

    @staticmethod
    def _opened(fs: Any, path: str, stamps: dict[str, Stamp]) -> Any:
        """Opens the file. A small file is read into memory, because Arrow reads the columns of
        files in its own threads, and waiting for such a thread takes longer than the rest of the
        read."""
        f = open_file(fs, path)
        seen = stamp(fs, f)
        try:
            check_stamp(stamps, path, seen)
        except OSError:
            f.close()
            raise
        size = seen[0]
        if size > SMALL_BYTES:
            return f
        with f:
            return pa.BufferReader(f.read())

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *_: Any) -> None:
        self.pf.close()
        self.f.close()

    def needed(self, groups: list[int]) -> list[int]:
        """Those of the row groups that may have rows for which the pushed-down tests hold."""
        tests = self.params["pushed"]
        if not tests or not groups:
            return groups
        md, schema, given = self.pf.metadata, self.pf.schema_arrow, self.params["schema"]
        at = parquet_bounds.indices(md, {n for e in tests for n in expressions.columns_of(e) or ()})
        # statistics rely on the order of values, which a cast may change; a cast between integers
        # does not
        if given is not None:
            at = {
                n: i
                for n, i in at.items()
                if n in given.names and _same_order(schema.field(n).type, given.field(n).type)
            }

        def may(g: int) -> bool:
            known = bounds.Known(
                {n: parquet_bounds.bounds(md, g, i, schema.field(n).type) for n, i in at.items()}
            )
            return all(bounds.may_hold(e, known) for e in tests)

        return [g for g in groups if may(g)] if at else groups

    def batches(self, groups: list[int]) -> Iterator[Any]:
        """Yields the rows of these row groups."""
        params, task, pf = self.params, self.task, self.pf
        md = pf.metadata
        columns = _wanted(params, pf.schema_arrow)
        rows = sum(md.row_group(g).num_rows for g in groups)
        if params["row_hash"]:
            self.places = _places(md, groups)
        if not rows:
            schema = (
                pf.schema_arrow
                if columns is None
                else pa.schema([pf.schema_arrow.field(c) for c in columns])
            )
            yield to_arrow.from_table(schema.empty_table())[0]
            return
        encoded = []
        if params.get("encoded"):
            encoded = [
                n
                for n in encoded_text.columns(pf.schema_arrow, md, groups)
                if columns is None or n in columns
            ]
        if encoded:
            pf = pq.ParquetFile(self.f, metadata=md, memory_map=False, read_dictionary=encoded)
        size = _bytes_per_row(md, groups, columns)
        step = params["batch_size"] or max(
            1024, min(rows, int(min(BATCH_BYTES, task.target) / max(1.0, size)))
        )
        # with a filter or tests, the rows of a batch are not contiguous in the file
        whole = params["filter"] is None and not params["pushed"]
        self.row = sum(md.row_group(g).num_rows for g in range(groups[0])) if whole else None
        for rb in pf.iter_batches(step, row_groups=groups, columns=columns, use_threads=False):
            task.source_row = self.row
            self.row = None if self.row is None else self.row + rb.num_rows
            yield encoded_text.encode(rb, encoded) if encoded else rb

    def hashed(self, rb: Any) -> Any:
        """The batch with the hashes of its rows, if they are asked for."""
        if not self.params["row_hash"]:
            return rb
        here, self.places = self.places[: rb.num_rows], self.places[rb.num_rows :]
        seed = int.from_bytes(hashlib.blake2b(self.path.encode(), digest_size=8).digest(), "little")
        return rb.append_column(ROW_HASH, pa.array(chance.bits_at(seed, here)))


def _places(md: Any, groups: list[int]) -> Any:
    """The numbers in the file of the rows of these row groups."""
    first = np.cumsum([0, *(md.row_group(g).num_rows for g in range(md.num_row_groups))])
    return np.concatenate([np.arange(0), *(np.arange(first[g], first[g + 1]) for g in groups)])


def _same_order(a: Any, b: Any) -> bool:
    return bool(a.equals(b) or (pa.types.is_integer(a) and pa.types.is_integer(b)))


# The bytes of one value in Arrow; for text, the bytes of one offset.
_WIDTHS = {
    "BOOLEAN": 1 / 8,
    "INT32": 4,
    "FLOAT": 4,
    "INT64": 8,
    "DOUBLE": 8,
    "INT96": 8,
    "BYTE_ARRAY": 4,
}


def _bytes_per_row(md: Any, groups: list[int], columns: list[str] | None) -> float:
    """The approximate bytes of a row in memory. They may be fewer in the file, where repeated
    values are indices into a dictionary."""
    rows = size = 0
    for g in groups:
        rg = md.row_group(g)
        rows += rg.num_rows
        for i in range(rg.num_columns):
            c = rg.column(i)
            if columns is None or c.path_in_schema.split(".")[0] in columns:
                size += max(
                    c.total_uncompressed_size, c.num_values * _WIDTHS.get(c.physical_type, 0)
                )
    return size / max(1, rows)


def _finish(params: dict[str, Any], rb: Any, path: str, said: dict[str, Any]) -> Any:
    """The batch in the common schema, with the columns that its path defines, in the requested
    order."""
    if rb.schema.metadata:
        rb = rb.replace_schema_metadata(None)
    asked, schema = params["columns"], params["schema"]
    if schema is not None:
        want = [
            f
            for f in schema
            if (asked is None or f.name in asked)
            and (f.name not in said or f.name in rb.schema.names)
        ]
        rb = cast_batch(
            rb.select([f.name for f in want if f.name in rb.schema.names]), pa.schema(want)
        )
    rb = with_columns(
        params,
        rb,
        {k: v for k, v in said.items() if asked is None or k in asked},
        path if params["include_paths"] else None,
    )
    if schema is not None and (
        typed := [f for f in schema if f.name in said and f.name in rb.schema.names]
    ):
        for f in typed:
            rb = rb.set_column(rb.schema.get_field_index(f.name), f, rb.column(f.name).cast(f.type))
        first = [n for n in schema.names if n in rb.schema.names]
        rb = rb.select([*first, *(n for n in rb.schema.names if n not in first)])
    if asked is not None:
        order = [*asked, *(["path"] if params["include_paths"] and "path" not in asked else [])]
        rb = rb.select([c for c in order if c in rb.schema.names])
    for name, (dtype, shape) in (params["tensors"] or {}).items():
        rb = rb.set_column(
            rb.schema.get_field_index(name), name, _tensor(name, rb.column(name), shape, dtype)
        )
    return rb


def _handed_on(params: dict[str, Any], rb: Any) -> Iterator[Any]:
    """Yields the batch, or the result of the user's _block_udf for the batch."""
    if params["udf"] is None:
        yield rb
    else:
        yield from batch.from_batch(params["udf"](pa.Table.from_batches([rb])), "read_parquet")


def _tensor(name: str, col: Any, shape: Any, dtype: Any) -> Any:
    """Converts a column of bytes into arrays; ValueError if the bytes do not fill the arrays."""
    values = [
        None if v is None else np.frombuffer(v, dtype).reshape(shape) for v in col.to_pylist()
    ]
    return to_arrow.from_objects(values, None)
