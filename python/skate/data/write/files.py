"""The part of a write that runs in its tasks: writes batches into files of a format, one file after
another, and reports the files. The formats are in their own modules.

An incomplete local file has a name that no reader uses: the driver (job.py) gives files their final
names when all are complete. A remote file exists only after it is closed. Names begin with the id
of the write, so no other write has them. Names from a user's filename_provider may already belong
to another write, which is an error.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import Any

from skate import _skate
from skate._deps import pa, urllib_parse
from skate.data.datasource.filename_provider import FilenameProvider, row_filename
from skate.data.files.retry import RetriedOutput, retried, taken
from skate.data.values import marks, selection, to_arrow
from skate.data.values.unify import ADVICE, cast_batch, columns_are, retold, unify
from skate.data.write.reports import TYPED, report, said


class Files:
    """Writes the batches of one task into files of a format. make(sink, schema, args) opens a
    writer with write(table) and close()."""

    def __init__(self, params: dict[str, Any], task: Any, extension: str, make: Any):
        self.p, self.seq, self.ext, self.make = params, task.seq, extension, make
        self.base = f"{params['prefix']}{self.seq:06d}"
        # if another task has read the unit, seq is unit * 2^20 + the task's place in the unit
        # (exec.h: keep_units)
        if params.get("by_unit") and not task.unit:
            self.base = f"{params['prefix']}{self.seq >> 20:06d}_{self.seq & 0xFFFFF:06d}"
        self.index = 0
        self.reports: list[tuple[str, int, int]] = []
        self.schemas: list[Any] = []  # the schema of each reported file that has rows
        self.schema: Any = None
        self.made: set[str] = set()  # remote folders that this task knows to exist

    def write(self, tables: Iterator[Any], folder: str = "") -> None:
        """Writes all tables into one file, or with max_rows into several; each change of the schema
        begins a new file."""
        writer: Any = None
        name = full = ""
        rows = 0
        limit = self.p["max_rows"]
        # whether an error comes from the operators that make the rows, not from this write
        above = False
        try:
            schema = None
            it = iter(tables)
            while True:
                above = True
                t = next(it, None)
                above = False
                if t is None:
                    break
                at = 0
                if writer is not None and not t.schema.equals(schema):
                    self._close(writer, name, full, rows)
                    writer = None
                schema = t.schema
                while at < t.num_rows:
                    if writer is None:
                        name = folder + self.file_name()
                        full = f"{self.p['folder']}/{name}"
                        self.index += 1
                        sink = self._open(full)
                        self.schema = t.schema
                        writer, rows = (self.make(sink, t.schema, self.p["args"]), sink), 0
                    n = t.num_rows - at if limit is None else min(limit - rows, t.num_rows - at)
                    writer[0].write(t.slice(at, n) if at or n < t.num_rows else t)
                    at += n
                    rows += n
                    if rows == limit:
                        self._close(writer, name, full, rows)
                        writer = None
            if writer is not None:
                self._close(writer, name, full, rows)
                writer = None
        except BaseException as e:
            error = self._explain(e, full) if isinstance(e, OSError) and not above else e
            if writer is not None:
                self._abort(writer, full, error)
            if error is e:
                raise
            raise error from None

    def without_rows(self, t: Any) -> None:
        """Writes a file that has the columns of t and no rows."""
        name = self.file_name()
        full = f"{self.p['folder']}/{name}"
        writer: Any = None
        try:
            sink = self._open(full)
            writer = (self.make(sink, t.schema, self.p["args"]), sink)
            writer[0].write(t)
            self._close(writer, name, full, 0)
        except BaseException as e:
            if writer is not None:
                self._abort(writer, full, e)
            raise

    def file_name(self) -> str:
        """The name of the next file of this task."""
        p = self.p.get("names")
        if p is None:
            return f"{self.base}_{self.index:06d}.{self.ext}"
        if type(p).get_filename_for_block is not FilenameProvider.get_filename_for_block:
            return p.get_filename_for_block(None, self.p["uuid"], self.seq, self.index)
        name = p.get_filename_for_task(self.p["uuid"], self.seq)
        if self.ext == "parquet":  # Ray's providers give a template and an ending for Parquet
            name = name if "." in name else f"{name}.parquet"
            if "{i}" in name:
                return name.replace("{i}", str(self.index))
        base, dot, end = name.partition(".")
        return name if self.index == 0 else f"{base}_{self.index:06d}{dot}{end}"

    def row_name(self, row: dict[str, Any], i: int) -> str:
        """The name of the file of row i of this task."""
        p = self.p.get("names")
        if p is None:
            return f"{self.base}_{i:06d}.{self.ext}"
        if type(p).get_filename_for_row is not FilenameProvider.get_filename_for_row:
            return p.get_filename_for_row(row, self.p["uuid"], self.seq, 0, i)
        return row_filename(p.get_filename_for_task(self.p["uuid"], self.seq), 0, i)

    def whole(self, name: str, data: bytes, rows: int) -> None:
        """Writes one file that consists of these bytes."""
        full = f"{self.p['folder']}/{name}"
        try:
            with self._open(full) as f:
                f.write(data)
        except OSError as e:
            raise self._explain(e, full) from None
        self._sync(full)
        self.reports.append((name, rows, len(data)))

    def _open(self, full: str) -> Any:
        if self.p["fs"] is not None:
            folder = full.rsplit("/", 1)[0]
            if folder not in self.made:
                retried(lambda: self.p["fs"].create_dir(folder, recursive=True), f"make {folder}")
                self.made.add(folder)
            return RetriedOutput(
                self.p["fs"], full, self.p.get("stream", {}), self._may_replace(full)
            )
        at = self.p["folder"]
        # No makedirs here: it could make the staging folder again after the job has ended.
        for part in full[len(at) + 1 :].split("/")[:-1]:
            at = f"{at}/{part}"
            try:
                os.mkdir(at)
            except FileExistsError:
                pass
        if self.p.get("stream", {}).get("compression"):
            return pa.output_stream(full, **self.p.get("stream", {}))
        return open(full, "wb")

    def _may_replace(self, full: str) -> bool:
        """Whether this write may replace the remote file of that name. With names given by the
        user, a file may belong to another write: if it existed when the write began, or if it
        exists when a task runs for the first time (a retried task finds its own files)."""
        name = full[len(self.p["folder"]) + 1 :]
        if name in self.p.get("taken", ()):
            raise taken(full)
        return not self.p.get("exclusive") or (_skate.current_task() or (0, 0, "", 0))[3] > 0

    def _close(self, writer: Any, name: str, full: str, rows: int) -> None:
        writer[0].close()
        size = writer[1].tell() if not writer[1].closed else 0
        writer[1].close()
        if not size:
            size = (
                os.path.getsize(full)
                if self.p["fs"] is None
                else retried(lambda: self.p["fs"].get_file_info(full), f"look at {full}").size or 0
            )
        self._sync(full)
        self.reports.append((name, rows, size))
        self.schemas.append(self.schema)

    def _sync(self, full: str) -> None:
        """Syncs a file to disk if the job asks for it, so that the file survives a crash of the
        machine."""
        if self.p.get("sync"):
            fd = os.open(full, os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def _abort(self, writer: Any, full: str, error: BaseException) -> None:
        """Removes an incomplete file after `error`. If that fails, `error` gets a note about it."""
        for w in writer:
            try:
                w.abort() if isinstance(w, RetriedOutput) else w.close()
            except Exception as e:
                error.add_note(f"closing {full} after that failed as well: {type(e).__name__}: {e}")
        if self.p["fs"] is None:
            try:
                os.unlink(full)
            except FileNotFoundError:
                pass
            except OSError as e:
                error.add_note(f"{full} could not be removed after that: {e}")

    def _explain(self, e: OSError, full: str) -> OSError:
        if isinstance(e, FileExistsError):  # the text of a FileExistsError says enough
            return e
        if e.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) or "No space left" in str(e):
            free = "?"
            try:
                st = os.statvfs(os.path.dirname(full))
                free = f"{st.f_bavail * st.f_frsize >> 20} MiB"
            except OSError:
                pass
            return OSError(
                e.errno or errno.ENOSPC,
                f"write: disk full or file size limit reached ({free} free); nothing was added to the target, free some space and run again",
                full,
            )
        try:
            return (
                type(e)(e.errno, f"write: {e.strerror}", full)
                if e.errno
                else OSError(f"write {full}: {e}")
            )
        except TypeError:  # a class of a library whose constructor takes other arguments
            e.add_note(f"write {full}")
            return e

    def report(self) -> Any:
        """The report of a write: a row for each file."""
        rb = report(self.reports)
        if self.p["format"] not in TYPED or not self.reports or None in self.schemas:
            return rb
        return rb.replace_schema_metadata(said(self.schemas))


def tables(batches: Iterator[Any], nbytes: Any, limit: int) -> Iterator[Any]:
    """Gathers batches into Tables of about `limit` bytes. A Table has the schema that can hold all
    batches so far; the schema changes at a batch that does not fit into it (arrays of another
    shape, floats after ints). TypeError if two batches have no common schema."""
    held: list[Any] = []
    size, schema, given = 0, None, False
    for rb in batches:
        if not rb.num_rows:
            continue
        schema = schema if schema is not None else rb.schema
        try:
            both = unify([schema, rb.schema], ["what is written first", "what comes then"])
        except TypeError as e:
            raise retold(e, "write: ", f": {ADVICE}") from None
        if not both.equals(schema):
            if given:  # some Tables have been yielded
                if held:
                    yield pa.Table.from_batches(held, schema)
                held, size = [], 0
            else:
                held = [cast_batch(h, both) for h in held]
            schema = both
        rb = cast_batch(rb, schema)
        held.append(rb)
        size += nbytes(rb)
        if size >= limit:
            yield pa.Table.from_batches(held, schema)
            held, size, given = [], 0, True
    if held:
        yield pa.Table.from_batches(held, schema)


NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # the folder of rows without a value, in Hive's layout


def partitions(table: Any, cols: list[str], flavor: str | None) -> Iterator[tuple[str, Any]]:
    """Splits a table by the values of the columns `cols`. Yields (the beginning of the file's name,
    the rows without these columns) for each combination of values, in order of appearance:
    "a=1/b=x/" (flavor "hive"), "1/x/" (None) or "1_x_" ("filename"). ValueError for a null, for
    which only "hive" has a name."""
    for values, rows in by_values(table, cols):
        folder = ""
        for c, v in values.items():
            if flavor != "hive" and (v is None or v == ""):
                raise ValueError(
                    f"write: column {c!r} has {v!r}, which partitioning_flavor={flavor!r} has no name for; use 'hive', or fill it"
                )
            text = NO_VALUE if v is None else urllib_parse.quote(str(v), safe=" ")
            folder += (
                f"{c}={text}/" if flavor == "hive" else f"{text}/" if flavor is None else f"{text}_"
            )
        yield folder, rows


def by_values(table: Any, cols: list[str]) -> Iterator[tuple[dict[str, Any], Any]]:
    """Splits a table by the values of the columns `cols`. Yields (the values by column, the rows
    without these columns) for each combination, in order of appearance."""
    rest = [n for n in table.column_names if n not in cols]
    if not rest:
        raise ValueError(
            "write: partition_cols name all columns; at least one has to stay in the files"
        )
    for c in cols:
        if c not in table.column_names:
            raise KeyError(
                f"write: there is no column {c!r} to partition by; {columns_are(c, table.column_names)}"
            )
    at = table.select(cols).append_column("__row", pa.array(range(table.num_rows), pa.int64()))
    groups = at.group_by(cols, use_threads=False).aggregate([("__row", "list")])
    for i in range(groups.num_rows):
        rows = selection.take(table.select(rest), groups["__row_list"][i].values)
        yield {c: groups[c][i].as_py() for c in cols}, rows


def run(
    params: dict[str, Any], batches: Iterator[Any], task: Any, extension: str, make: Any, limit: int
) -> Iterator[Any]:
    """The common body of the formats' run(). Yields a report of the files or, if there were no
    rows, a report of their schema."""
    files = Files(params, task, extension, make)
    if params["format"] in TYPED:
        batches = map(marks.bare, batches)
    if params.get("no_rows"):
        files.without_rows(pa.Table.from_batches([next(batches)]))
        yield files.report()
        return
    seen: list[Any] = []
    batches = _watched(batches, seen)
    parts = params["partition_cols"]
    if parts:
        all_of = list(tables(batches, task.nbytes, limit))
        if all_of:
            for folder, t in partitions(pa.concat_tables(all_of), parts, params["flavor"]):
                files.index = 0
                files.write(iter([t]), folder)
    else:
        files.write(tables(batches, task.nbytes, limit))
    yield files.report() if files.reports or not seen else _no_rows_of(seen[0])


def _watched(batches: Iterator[Any], seen: list[Any]) -> Iterator[Any]:
    """Passes batches on, and appends the schema of the first one to `seen`."""
    for rb in batches:
        if not seen:
            seen.append(rb.schema)
        yield rb


def _no_rows_of(schema: Any) -> Any:
    """The report of a task that had no rows."""
    text = schema.remove_metadata().serialize().to_pybytes()
    return pa.RecordBatch.from_arrays(
        [to_arrow.from_objects([text], pa.binary())], names=["no_rows"]
    )
