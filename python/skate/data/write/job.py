"""A write from start to end: where files go, staging, commit, clean-up. The formats are in their own files.

All files of a write have one schema (level.py). Tasks write into a hidden folder inside the target (.skate-<pid>-<random>), under names that depend on the task's number alone; when all is written the
driver renames the files into place. So a failed or killed job leaves the target as it was, a retried task overwrites its own files, and the
same Dataset gives the same files each time. Leftovers of killed drivers are removed by the next write into the folder. On remote file
systems a rename is a copy, so there the files are written in place.
"""

from __future__ import annotations

import enum
import importlib
import os
import re
import shutil
import signal
import threading
from collections.abc import Iterator
from typing import Any

from skate.data.files.paths import local_path, resolve
from skate.data.files.retry import SteadyOutput, steady
from skate.data.plan.node import Node
from skate.data.plan.resources import as_input, resources
from skate.data.run import execute
from skate.data.schema import columns_are
from skate.data.write.level import TYPED, level, wanted
from skate.data.write.level import heard as level_heard
from skate.data.write.level import said as level_said


class SaveMode(enum.StrEnum):
    """What a write does when the target has files."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    IGNORE = "ignore"
    ERROR = "error"


_STAGE = re.compile(r"^\.skate-(\d+)-[0-9a-f]+x?$")


def write(
    ds: Any,
    fmt: str,
    path: Any,
    *,
    mode: Any,
    filesystem: Any,
    min_rows: int | None,
    max_rows: int | None,
    concurrency: int | None,
    remote: dict[str, Any] | None,
    partition_cols: list[str] | None = None,
    filename_provider: Any = None,
    try_create_dir: bool = True,
    args: dict[str, Any],
    args_fn: Any = None,
    open_stream_args: dict[str, Any] | None = None,
    resume: bool | str = False,
) -> None:
    """Runs ds into files of a format under path. resume: see resume.py; a text is the folder of the log."""
    if args_fn is not None:
        args = {**args, **args_fn()}
    known = ds._facts.schema() if ds._facts.schema is not None else None
    _check(fmt, args, known)
    how = SaveMode(str(getattr(mode, "value", mode)).lower())
    for name, n in (("min_rows_per_file", min_rows), ("max_rows_per_file", max_rows)):
        if n is not None and n < 1:
            raise ValueError(f"{name} must be a positive integer, not {n!r}")
    if min_rows and max_rows and min_rows > max_rows:
        raise ValueError(f"min_rows_per_file ({min_rows}) cannot be greater than max_rows_per_file ({max_rows})")
    if partition_cols is not None:
        partition_cols = [partition_cols] if isinstance(partition_cols, str) else list(partition_cols)
        ds._check_columns(partition_cols, "write partition_cols")
        if args.get("schema") is not None:  # what the files hold
            args = {**args, "schema": _schema_without(args["schema"], partition_cols)}
    flavor: str | None = "hive"
    if fmt == "parquet" and "partitioning_flavor" in args:
        args = dict(args)
        flavor = args.pop("partitioning_flavor")
        if not partition_cols:
            raise ValueError(
                "write: partitioning_flavor says how folders are named; give partition_cols, too, the columns they are made of"
            )
        if flavor not in ("hive", "filename", None):
            raise ValueError(f"partitioning_flavor must be 'hive', None (folders of values) or 'filename', not {flavor!r}")
    path = os.fspath(path)
    target: _Local | _Remote = _Local(path) if filesystem is None and local_path(path) is not None else _Remote(path, filesystem)
    params: dict[str, Any] = {
        "format": fmt,
        "folder": target.stage,
        "fs": target.fs,
        "prefix": "",
        "max_rows": max_rows,
        "min_rows": min_rows,
        "partition_cols": partition_cols,
        "flavor": flavor,
        "args": args,
        "names": filename_provider,
        "uuid": target.uuid,
        "stream": dict(open_stream_args or {}),
        "code": True,
    }
    if fmt == "parquet" and filename_provider is not None and how is SaveMode.APPEND:
        _check_names(filename_provider, target.uuid)
    options = {**as_input(ds._node), **resources(remote or {})}
    if concurrency is not None:
        options["max_tasks"] = concurrency
    label = f"Write{_TITLES.get(fmt, fmt.title())}"
    reports: list[tuple[str, int, int]] = []
    config = getattr(ds.context, "checkpoint_config", None)
    if resume or config is not None:
        if min_rows:
            raise ValueError(
                "resume: min_rows_per_file is not possible in a write that can be resumed: a file has rows of one unit of the input only (else a unit that is "
                "done could not be left out), and it may have fewer; make the units larger (override_num_blocks of the reader)"
            )
        logs = resume if isinstance(resume, str) else getattr(config, "checkpoint_path", None)
        done = _resumable(ds, target, how, label, params, options, logs, config is not None and config.delete_checkpoint_on_success)
        _wrote(ds, path, [(name, rows, size) for _, name, rows, size in done])
        return
    old = target.begin(how)
    if old is None:
        return
    if how is SaveMode.APPEND:
        params["prefix"] = target.prefix(old)
    with Orderly() as orderly:
        try:
            heard = Reports(known)
            for rb in execute.batches(ds, Node("write", label, params, (ds._node,), batch_rows=min_rows or 0, **options)):
                reports += heard.files(rb)
            if wanted(params):
                reports = level(label, params, reports, heard.written)
            if not reports and (how is not SaveMode.APPEND or not old):
                reports += heard.without_rows(params)
            orderly.wait()
            if how is SaveMode.OVERWRITE:
                target.remove(old)
            target.commit([r[0] for r in reports])
        finally:
            orderly.wait()
            target.end()
    _wrote(ds, path, reports)


def _check(fmt: str, args: dict[str, Any], schema: Any) -> None:
    """What is wrong before anything runs."""
    check = getattr(importlib.import_module(f"skate.data.write.{fmt}"), "check", None)
    if check is not None:
        check(args, schema)


class Orderly:
    """While it is entered SIGTERM unwinds the program, as Ctrl-C does, and then ends it as it would have. Where the program has a handler of its own that one is called; on other
    threads than the main one there is nothing to be done. After wait() a signal is kept until the end."""

    def __init__(self) -> None:
        self.mine = self.came = self.waits = False

    def __enter__(self) -> Orderly:
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._on_signal)
            self.mine = True
        return self

    def _on_signal(self, number: int, frame: Any) -> None:
        self.came = True
        if not self.waits:
            self.waits = True
            raise _Terminated

    def wait(self) -> None:
        self.waits = True

    def __exit__(self, *_: Any) -> None:
        if self.mine:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            if self.came:
                os.kill(os.getpid(), signal.SIGTERM)


class _Terminated(BaseException):
    """SIGTERM came."""


class Reports:
    """What the tasks of a write say: files, or, where one had no rows, its columns. known: the schema, where it is known before a run."""

    def __init__(self, known: Any):
        self.known = known
        self.schemas: list[Any] = []
        self.written: list[bytes] = []  # the schema of each file, of formats that have types

    def files(self, rb: Any) -> list[tuple[str, int, int]]:
        """(name, rows, bytes) of the files of a report."""
        import pyarrow as pa

        from skate.data import tensor_types  # noqa: F401  types of ours in the schema

        if rb.schema.names == ["no_rows"]:
            self.schemas += [pa.ipc.read_schema(pa.py_buffer(v)) for v in rb.column(0).to_pylist()]
            return []
        self.written += level_heard(rb)
        return list(zip(*(c.to_pylist() for c in rb.columns), strict=True))

    def without_rows(self, params: dict[str, Any]) -> list[tuple[str, int, int]]:
        """Writes the one file of a write that had no rows, so that its columns can be read back; none where they are not known."""
        from types import SimpleNamespace

        from skate.data.batch import from_table
        from skate.data.schema import unify

        schema = self.known
        if self.schemas:
            try:
                schema = unify(self.schemas)
            except TypeError:  # of which there may be many, without rows
                schema = self.schemas[0]
        schema = params["args"].get("schema", schema)
        if schema is None or not len(schema) or params["format"] == "images":
            return []
        task = SimpleNamespace(seq=0, unit=b"", nbytes=lambda rb: 0, target=1 << 20, sides=[], source="")
        run = importlib.import_module(f"skate.data.write.{params['format']}").run
        (rb,) = run({**params, "partition_cols": None, "no_rows": True}, iter(from_table(schema.empty_table())), task)
        return self.files(rb)


def _check_names(provider: Any, uuid: str) -> None:
    """ValueError for names that the next write into the folder would use, too."""
    from skate.data.datasource.filename_provider import FilenameProvider

    if type(provider).get_filename_for_block is FilenameProvider.get_filename_for_block:
        name = provider.get_filename_for_task(uuid, 0)
        if uuid not in name:
            raise ValueError(
                f"the name {name!r} that {type(provider).__name__} gave lacks the write_uuid {uuid!r}: the next write into this folder would give its files "
                "the same names. Let get_filename_for_task put the write_uuid that it is given into the name, or choose another mode"
            )


def _wrote(ds: Any, path: str, files: list[tuple[str, int, int]]) -> None:
    """Says in the statistics what was written."""
    if ds._stats is not None:
        ds._stats.extra["write"] = {"path": path, "files": len(files), "rows": sum(r[1] for r in files), "bytes": sum(r[2] for r in files)}


def _resumable(
    ds: Any,
    target: _Local | _Remote,
    how: SaveMode,
    label: str,
    params: dict[str, Any],
    options: dict[str, Any],
    logs: str | None,
    forget: bool,
) -> list[Any]:
    """A write that can be resumed: does what is missing of it. The files of the whole job."""
    from skate.data.write.resume import Job, RemoteJob, digest

    at = None
    if logs is not None:
        folder = os.path.abspath(local_path(logs) or logs)
        at = os.path.join(folder, f"{digest(os.fsencode(target.path)).hex()}.log")
    if isinstance(target, _Local):
        job = Job(ds, target.path, how, params, at)
    elif at is None:
        raise ValueError(
            f"resume: {target.path} is not local, and the log of a job that can be resumed is a local file: say where, with resume='/a/local/folder' or "
            "CheckpointConfig(checkpoint_path=...)"
        )
    else:
        job = RemoteJob(ds, target, how, params, at)
    try:
        if job.open():
            if len(job.files) < job.units:
                job.write(ds, label, params, options)
            if wanted(params):
                job.level(label, params)
            job.commit()
        files = [f for u in sorted(job.files) for f in job.files[u]]
        if job.log is None:  # mode "ignore", and there are files
            return files
        job.tidy()
        if forget:
            job.forget()
        return files
    finally:
        job.close()


_TITLES = {"csv": "CSV", "json": "JSON", "tfrecords": "TFRecords", "webdataset": "WebDataset", "arrow": "Feather", "orc": "ORC"}


def prefix(path: str, old: list[str]) -> str:
    """Files that are appended to those with the names `old` get a number of their write, so that no name is used twice."""
    names = list(old)
    for n in old:
        for _, _, files in os.walk(os.path.join(path, n)):
            names += files
    return next_prefix(names)


_NUMBERED = re.compile(r"(?:^|_)(?:(\d{4})-)?\d{6}_\d{6}")  # behind a value, where values are in front of names


def next_prefix(names: list[str]) -> str:
    taken = [int(m[1]) if m[1] else 0 for m in map(_NUMBERED.search, names) if m]
    return f"{max(taken) + 1:04d}-" if taken else ""


class _Local:
    """A local folder."""

    fs = None

    def __init__(self, path: str):
        self.path = os.path.abspath(local_path(path) or path)
        self.uuid = os.urandom(16).hex()
        self.stage = os.path.join(self.path, f".skate-{os.getpid()}-{self.uuid[:8]}")

    def begin(self, how: SaveMode) -> list[str] | None:
        """Makes the folders; names that are in the target now, or None when there is nothing to do."""
        if os.path.exists(self.path) and not os.path.isdir(self.path):
            raise NotADirectoryError(20, "write: the target is a file, not a folder", self.path)
        old = sorted(os.listdir(self.path)) if os.path.isdir(self.path) else []
        for name in old:
            m = _STAGE.match(name)
            if m and not os.path.exists(f"/proc/{m[1]}"):
                shutil.rmtree(os.path.join(self.path, name), ignore_errors=True)  # of a driver that is gone
        old = [n for n in old if not _STAGE.match(n) and n != ".skate-job"]
        there = os.path.isdir(self.path)
        if there and how is SaveMode.ERROR:
            raise ValueError(
                f"write: {self.path} exists already, and mode is 'error'; choose another folder, or mode 'append' or 'overwrite'"
            )
        if there and how is SaveMode.IGNORE:
            return None
        os.makedirs(self.stage)
        return old

    def prefix(self, old: list[str]) -> str:
        return prefix(self.path, old)

    def remove(self, old: list[str]) -> None:
        for n in [*old, ".skate-job"]:  # a log of files that are not here any more
            full = os.path.join(self.path, n)
            if not os.path.lexists(full):
                continue
            if os.path.isdir(full) and not os.path.islink(full):
                shutil.rmtree(full)
            else:
                os.unlink(full)

    def commit(self, names: list[str]) -> None:
        for n in names:
            to = os.path.join(self.path, n)
            if "/" in n:
                os.makedirs(os.path.dirname(to), exist_ok=True)
            os.replace(os.path.join(self.stage, n), to)

    def end(self) -> None:
        """Removes the stage. A task of a failed run may still be at it: under another name it cannot add to what is being removed."""
        gone = self.stage + "x"
        try:
            os.rename(self.stage, gone)
        except FileNotFoundError:  # somebody removed the target meanwhile
            return
        shutil.rmtree(gone)


class _Remote:
    """A folder of a pyarrow or fsspec file system; files are written in place."""

    def __init__(self, path: str, filesystem: Any):
        self.uuid = os.urandom(16).hex()
        self.fs, self.path = resolve(path, filesystem)
        self.stage = self.path = self.path.rstrip("/")

    def begin(self, how: SaveMode) -> list[str] | None:
        from pyarrow import fs as pafs

        info = steady(
            lambda: self.fs.get_file_info(pafs.FileSelector(self.path, allow_not_found=True, recursive=True)), f"list {self.path}"
        )
        old = [f.path[len(self.path) + 1 :] for f in info if f.type == pafs.FileType.File]
        if old and how is SaveMode.ERROR:
            raise ValueError(
                f"write: {self.path} has files already, and mode is 'error'; choose another folder, or mode 'append' or 'overwrite'"
            )
        if old and how is SaveMode.IGNORE:
            return None
        if old and how is SaveMode.OVERWRITE:
            steady(lambda: self.fs.delete_dir_contents(self.path), f"clear {self.path}")
        steady(lambda: self.fs.create_dir(self.path, recursive=True), f"make {self.path}")
        return old

    def prefix(self, old: list[str]) -> str:
        return next_prefix([n.rsplit("/", 1)[-1] for n in old])

    def remove(self, old: list[str]) -> None:
        pass

    def commit(self, names: list[str]) -> None:
        pass

    def end(self) -> None:
        pass


# ---- in the worker


class Files:
    """Writes batches of one task into files of a format. make(sink, schema, args) opens a writer with write(table) and close()."""

    def __init__(self, params: dict[str, Any], task: Any, extension: str, make: Any):
        self.p, self.seq, self.ext, self.make = params, task.seq, extension, make
        self.base = f"{params['prefix']}{self.seq:06d}"
        if params.get("by_unit") and not task.unit:  # exec.h, keep_units: unit * 2^20 + place, where another task has read the unit
            self.base = f"{params['prefix']}{self.seq >> 20:06d}_{self.seq & 0xFFFFF:06d}"
        self.index = 0
        self.reports: list[tuple[str, int, int]] = []
        self.schemas: list[Any] = []  # of the files in reports, where rows were written
        self.schema: Any = None
        self.made: set[str] = set()  # remote folders

    def write(self, tables: Iterator[Any], folder: str = "") -> None:
        """One file (or several of max_rows) with all tables; a new one where the schema changes."""
        writer: Any = None
        name = full = ""
        rows = 0
        limit = self.p["max_rows"]
        above = False  # an error is of what makes the rows
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
        """One file of a Table without rows."""
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
        """Of the next file of this task."""
        p = self.p.get("names")
        if p is None:
            return f"{self.base}_{self.index:06d}.{self.ext}"
        from skate.data.datasource.filename_provider import FilenameProvider

        if type(p).get_filename_for_block is not FilenameProvider.get_filename_for_block:
            return p.get_filename_for_block(None, self.p["uuid"], self.seq, self.index)
        name = p.get_filename_for_task(self.p["uuid"], self.seq)
        if self.ext == "parquet":  # as Ray has it: a template, and an ending
            name = name if "." in name else f"{name}.parquet"
            if "{i}" in name:
                return name.replace("{i}", str(self.index))
        base, dot, end = name.partition(".")
        return name if self.index == 0 else f"{base}_{self.index:06d}{dot}{end}"

    def row_name(self, row: dict[str, Any], i: int) -> str:
        """Of the file of the i-th row of this task."""
        p = self.p.get("names")
        if p is None:
            return f"{self.base}_{i:06d}.{self.ext}"
        from skate.data.datasource.filename_provider import FilenameProvider, row_filename

        if type(p).get_filename_for_row is not FilenameProvider.get_filename_for_row:
            return p.get_filename_for_row(row, self.p["uuid"], self.seq, 0, i)
        return row_filename(p.get_filename_for_task(self.p["uuid"], self.seq), 0, i)

    def whole(self, name: str, data: bytes, rows: int) -> None:
        """One file of bytes."""
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
                steady(lambda: self.p["fs"].create_dir(folder, recursive=True), f"make {folder}")
                self.made.add(folder)
            return SteadyOutput(self.p["fs"], full, self.p.get("stream", {}))
        at = self.p["folder"]
        for part in full[len(at) + 1 :].split("/")[:-1]:  # not makedirs: it would make the stage itself again when the job is over
            at = f"{at}/{part}"
            try:
                os.mkdir(at)
            except FileExistsError:
                pass
        if self.p.get("stream", {}).get("compression"):
            import pyarrow as pa

            return pa.output_stream(full, **self.p.get("stream", {}))
        return open(full, "wb")

    def _close(self, writer: Any, name: str, full: str, rows: int) -> None:
        writer[0].close()
        size = writer[1].tell() if not writer[1].closed else 0
        writer[1].close()
        if not size:
            size = (
                os.path.getsize(full)
                if self.p["fs"] is None
                else steady(lambda: self.p["fs"].get_file_info(full), f"look at {full}").size or 0
            )
        self._sync(full)
        self.reports.append((name, rows, size))
        self.schemas.append(self.schema)

    def _sync(self, full: str) -> None:
        """The file outlives a crash of the machine, where the job says so."""
        if self.p.get("sync"):
            fd = os.open(full, os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def _abort(self, writer: Any, full: str, error: BaseException) -> None:
        """Takes back what was begun. `error` is the one to report: what fails here is noted with it."""
        for w in writer:
            try:
                w.abort() if isinstance(w, SteadyOutput) else w.close()
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
        import errno

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
            return type(e)(e.errno, f"write: {e.strerror}", full) if e.errno else OSError(f"write {full}: {e}")
        except TypeError:  # a class of others with arguments of its own
            e.add_note(f"write {full}")
            return e

    def report(self) -> Any:
        """What a write gives: a row for each file."""
        rb = report(self.reports)
        if self.p["format"] not in TYPED or not self.reports or None in self.schemas:
            return rb
        return rb.replace_schema_metadata(level_said(self.schemas))


def _schema_without(schema: Any, names: list[str]) -> Any:
    import pyarrow as pa

    return pa.schema([f for f in schema if f.name not in names], metadata=schema.metadata)


def report(files: list[tuple[str, int, int]]) -> Any:
    """(name, rows, bytes) of files as a batch."""
    import pyarrow as pa

    from skate.data.batch import from_objects

    schema = pa.schema([("path", pa.string()), ("rows", pa.int64()), ("bytes", pa.int64())])
    cols = list(zip(*files, strict=True)) if files else [(), (), ()]
    return pa.RecordBatch.from_arrays([from_objects(list(c), f.type) for c, f in zip(cols, schema, strict=True)], schema=schema)


def tables(batches: Iterator[Any], nbytes: Any, limit: int) -> Iterator[Any]:
    """Batches gathered into Tables of about `limit` bytes, in the schema of all so far: it changes where one comes that it does not hold (arrays of another shape, floats after ints).
    TypeError when there is none for both."""
    import pyarrow as pa

    from skate.data.schema import ADVICE, cast_batch, unify

    held: list[Any] = []
    size, schema, given = 0, None, False
    for rb in batches:
        if not rb.num_rows:
            continue
        schema = schema if schema is not None else rb.schema
        try:
            both = unify([schema, rb.schema], ["what is written first", "what comes then"])
        except TypeError as e:
            raise TypeError(f"write: {e}: {ADVICE}") from None
        if not both.equals(schema):
            if given:  # a file has begun
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


def partitions(table: Any, cols: list[str], flavor: str | None) -> Iterator[tuple[str, Any]]:
    """(what a name begins with, rows without these columns) for each combination of values, in order of appearance: "a=1/b=x/" (flavor "hive"), "1/x/" (None) or "1_x_"
    ("filename"). ValueError for a null, which only "hive" has a name for."""
    from urllib.parse import quote

    import pyarrow as pa

    rest = [n for n in table.column_names if n not in cols]
    if not rest:
        raise ValueError("write: partition_cols name all columns; at least one has to stay in the files")
    for c in cols:
        if c not in table.column_names:
            raise KeyError(f"write: there is no column {c!r} to partition by; {columns_are(c, table.column_names)}")
    at = table.select(cols).append_column("__row", pa.array(range(table.num_rows), pa.int64()))
    groups = at.group_by(cols, use_threads=False).aggregate([("__row", "list")])
    for i in range(groups.num_rows):
        folder = ""
        for c in cols:
            v = groups[c][i].as_py()
            if flavor != "hive" and (v is None or v == ""):
                raise ValueError(
                    f"write: column {c!r} has {v!r}, which partitioning_flavor={flavor!r} has no name for; use 'hive', or fill it"
                )
            text = "__HIVE_DEFAULT_PARTITION__" if v is None else quote(str(v), safe=" ")
            folder += f"{c}={text}/" if flavor == "hive" else f"{text}/" if flavor is None else f"{text}_"
        yield folder, table.select(rest).take(groups["__row_list"][i].values)


def run(params: dict[str, Any], batches: Iterator[Any], task: Any, extension: str, make: Any, limit: int) -> Iterator[Any]:
    """Body of a format's run(). What it gives is a report of the files, or, where no row came, the schema."""
    files = Files(params, task, extension, make)
    if params.get("no_rows"):
        import pyarrow as pa

        files.without_rows(pa.Table.from_batches([next(batches)]))
        yield files.report()
        return
    seen: list[Any] = []
    batches = _watched(batches, seen)
    parts = params["partition_cols"]
    if parts:
        import pyarrow as pa

        all_of = list(tables(batches, task.nbytes, limit))
        if all_of:
            for folder, t in partitions(pa.concat_tables(all_of), parts, params["flavor"]):
                files.index = 0
                files.write(iter([t]), folder)
    else:
        files.write(tables(batches, task.nbytes, limit))
    yield files.report() if files.reports or not seen else _no_rows_of(seen[0])


def _watched(batches: Iterator[Any], seen: list[Any]) -> Iterator[Any]:
    """The batches; `seen` gets the schema of the first."""
    for rb in batches:
        if not seen:
            seen.append(rb.schema)
        yield rb


def _no_rows_of(schema: Any) -> Any:
    """The report of a task that had no rows."""
    import pyarrow as pa

    from skate.data.batch import from_objects

    text = schema.remove_metadata().serialize().to_pybytes()
    return pa.RecordBatch.from_arrays([from_objects([text], pa.binary())], names=["no_rows"])
