"""A write from start to end: the target, staging, commit and clean-up. files.py has the part that
runs in tasks; the formats are in their own modules.

All files of a write have one schema (unify_file_schemas.py). Tasks write into a hidden staging
folder inside the target (stage.py), under names with the write's id and the task's number. When all
files are complete the driver renames them into the target. So a failed or killed job leaves the
target unchanged, a retried task overwrites its own files, and the same Dataset gives files with the
same bytes each time; only the ids in their names differ, and the names sort in the same order.
Files that other programs write into the folder in the meantime are not damaged: see stage.py. The
next write into the folder removes the staging folders of killed drivers. On remote file systems a
rename is a copy, so files are written in place there.
"""

from __future__ import annotations

import importlib
import os
import pickle
import signal
import threading
from typing import TYPE_CHECKING, Any

from skate._deps import pa, pafs
from skate.data.datasource import datasink
from skate.data.datasource.filename_provider import FilenameProvider
from skate.data.datasource.lance_datasink import LanceDatasink as LanceDatasink
from skate.data.files.local import local_path
from skate.data.files.paths import resolve
from skate.data.files.retry import retried
from skate.data.plan.node import Node
from skate.data.plan.resources import as_input, resources
from skate.data.run import execute
from skate.data.run.conflict import by_files
from skate.data.run.request import RunRequest
from skate.data.values import marks
from skate.data.write import resume, stage
from skate.data.write.delta import DeltaDatasink as DeltaDatasink
from skate.data.write.iceberg import IcebergDatasink as IcebergDatasink
from skate.data.write.mode import SaveMode, write_id
from skate.data.write.options import rows_of_files, save_mode
from skate.data.write.reports import Reports
from skate.data.write.rows import Rows
from skate.data.write.unify_file_schemas import level, wanted
from skate.serialize import cloudpickled

if TYPE_CHECKING:
    from skate.data.write.options import TaskOptions, WriteOptions


def write(
    request: RunRequest,
    fmt: str,
    path: Any,
    options: WriteOptions,
    args: dict[str, Any],
    args_fn: Any = None,
    partition_cols: Any = None,
) -> dict[str, Any] | None:
    """Runs the plan of a request into files of a format. Returns the write's entry in the
    statistics; None: nothing was written.

    Args:
        request: The plan and its settings.
        fmt: The format.
        path: The target.
        options: The options that all writers share.
        args: Arguments of the format.
        args_fn: A function that gives more arguments of the format.
        partition_cols: Columns by whose values the rows are put into folders.
    """
    if args_fn is not None:
        args = {**args, **args_fn()}
    known = request.facts.known_schema()
    _check(fmt, args, known)
    mode, (min_rows, max_rows) = save_mode(options), rows_of_files(options)
    names, resuming = options.get("filename_provider"), options.get("resume")
    if args.get("schema") is not None:
        args = {**args, "schema": marks.bare(args["schema"])}
    if partition_cols is not None:
        partition_cols = (
            [partition_cols] if isinstance(partition_cols, str) else list(partition_cols)
        )
        request.facts.check_columns(partition_cols, "write partition_cols")
        if args.get("schema") is not None:  # the user's schema of the files
            args = {**args, "schema": _schema_without(args["schema"], partition_cols)}
    flavor, args = _flavor(fmt, partition_cols, args)
    path, fs = os.fspath(path), options.get("filesystem")
    target: _Local | _Remote = (
        _Local(path) if fs is None and local_path(path) is not None else _Remote(path, fs)
    )
    params: dict[str, Any] = {
        "format": fmt,
        "folder": target.folder,
        "fs": target.fs,
        "prefix": f"{target.id}_",
        "max_rows": max_rows,
        "min_rows": min_rows,
        "partition_cols": partition_cols,
        "flavor": flavor,
        "args": args,
        "names": names,
        "uuid": target.id,
        "stream": dict(options.get("arrow_open_stream_args") or {}),
        "code": True,
    }
    if fmt == "parquet" and names is not None and mode is SaveMode.APPEND:
        _check_names(names, target.id)
    of_node = {**as_input(request.node), **of_tasks(options)}
    label = _label(fmt)
    config = getattr(request.context, "checkpoint_config", None)
    if resuming or config is not None:
        if min_rows:
            raise ValueError(
                "resume: min_rows_per_file is not possible in a write that can be resumed: a file has rows of one unit of the input only (else a unit that is "
                "done could not be left out), and it may have fewer; make the units larger (override_num_blocks of the reader)"
            )
        logs = resuming if isinstance(resuming, str) else getattr(config, "checkpoint_path", None)
        done = _resumable(
            request,
            target,
            mode,
            label,
            params,
            of_node,
            logs,
            config is not None and config.delete_checkpoint_on_success,
        )
        return _wrote(path, [(name, rows, size) for _, name, rows, size in done])
    files = _at_once(request, target, mode, label, params, of_node, known)
    return None if files is None else _wrote(path, files)


def plan_of(node: Node, method: str) -> Node:
    """The nodes that Dataset.write_<method>(path) adds behind a node, for explain(). ValueError if
    there is no such method, or it does not write files of a format."""
    fmt = "arrow" if method == "feather" else method
    if fmt not in _TITLES or method == "arrow":
        known = ", ".join(sorted("feather" if name == "arrow" else name for name in _TITLES))
        raise ValueError(f"explain: write={method!r}: there is a plan for writes of {known}")
    params = {"format": fmt, "partition_cols": None, "args": {}}
    return Node("write", _label(fmt), params, (node,), **{**as_input(node), **resources({})})


def _label(fmt: str) -> str:
    return f"Write{_TITLES[fmt]}"


def _flavor(
    fmt: str, partition_cols: Any, args: dict[str, Any]
) -> tuple[str | None, dict[str, Any]]:
    """Returns (how the folders of partitions are named: a flavor of files.partitions; the other
    arguments of the format)."""
    if fmt != "parquet" or "partitioning_flavor" not in args:
        return "hive", args
    args = dict(args)
    flavor = args.pop("partitioning_flavor")
    if not partition_cols:
        raise ValueError(
            "write: partitioning_flavor says how folders are named; give partition_cols, too, the columns they are made of"
        )
    if flavor not in ("hive", "filename", None):
        raise ValueError(
            f"partitioning_flavor must be 'hive', None (folders of values) or 'filename', not {flavor!r}"
        )
    return flavor, args


def _at_once(
    request: RunRequest,
    target: _Local | _Remote,
    how: SaveMode,
    label: str,
    params: dict[str, Any],
    options: dict[str, Any],
    known: Any,
) -> list[tuple[str, int, int]] | None:
    """Runs a write whose files appear together at its end. Returns (name, rows, bytes) of each
    file; None: mode "ignore" has found files."""
    old = target.begin(how)
    if old is None:
        return None
    if target.fs is not None and params["names"] is not None and how is not SaveMode.OVERWRITE:
        params.update(taken=frozenset(old), exclusive=True)
    reports: list[tuple[str, int, int]] = []
    with Orderly() as orderly:
        try:
            heard = Reports(known)
            rows = params["min_rows"] or 0
            node = Node("write", label, params, (request.node,), batch_rows=rows, **options)
            for rb in execute.batches(request.over(node)):
                reports += heard.files(rb)
            if wanted(params):
                with by_files(request.node):
                    reports = level(label, params, reports, heard.written)
            if not reports and (how is not SaveMode.APPEND or not old):
                reports += heard.without_rows(params)
            orderly.wait()
            committed = target.commit(stage.check_twice([r[0] for r in reports]), how)
        finally:
            orderly.wait()
            target.end()
    return reports if committed else None


def _check(fmt: str, args: dict[str, Any], schema: Any) -> None:
    """Raises an error for arguments, and for a known schema, that the format cannot take, before
    anything runs."""
    check = getattr(importlib.import_module(f"skate.data.write.{fmt}"), "check", None)
    if check is not None:
        check(args, schema)


class Orderly:
    """A context manager. In its block SIGTERM raises an exception, as Ctrl-C does, so that the
    program cleans up; then the program ends by SIGTERM. If the program has its own handler, that
    handler is called instead. On threads other than the main one it has no effect. After wait() a
    signal is held back until the end of the block."""

    def __init__(self) -> None:
        self.mine = self.came = self.waits = False

    def __enter__(self) -> Orderly:
        if (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        ):
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
    """The exception that SIGTERM raises."""


def _check_names(provider: Any, uuid: str) -> None:
    """ValueError if the user's provider gives names that its next write into the folder would use
    as well."""
    if type(provider).get_filename_for_block is FilenameProvider.get_filename_for_block:
        name = provider.get_filename_for_task(uuid, 0)
        if uuid not in name:
            raise ValueError(
                f"the name {name!r} that {type(provider).__name__} gave lacks the write_uuid {uuid!r}: the next write into this folder would give its files "
                "the same names. Let get_filename_for_task put the write_uuid that it is given into the name, or choose another mode"
            )


def _wrote(path: str, files: list[tuple[str, int, int]]) -> dict[str, Any]:
    """The entry of a write in the statistics of a run."""
    return {
        "path": path,
        "files": len(files),
        "rows": sum(r[1] for r in files),
        "bytes": sum(r[2] for r in files),
    }


def _resumable(
    request: RunRequest,
    target: _Local | _Remote,
    how: SaveMode,
    label: str,
    params: dict[str, Any],
    options: dict[str, Any],
    logs: str | None,
    forget: bool,
) -> list[Any]:
    """Runs a write that can be resumed: does the part that is missing. Returns the files of the
    whole job."""
    at = None
    if logs is not None:
        folder = os.path.abspath(local_path(logs) or logs)
        at = os.path.join(folder, f"{resume.digest(os.fsencode(target.path)).hex()}.log")
    if isinstance(target, _Local):
        job = resume.Job(request, target.path, how, params, at)
    elif at is None:
        raise ValueError(
            f"resume: {target.path} is not local, and the log of a job that can be resumed is a local file: say where, with resume='/a/local/folder' or "
            "CheckpointConfig(checkpoint_path=...)"
        )
    else:
        job = resume.RemoteJob(request, target, how, params, at)
    try:
        if job.open():
            if len(job.files) < job.units:
                job.write(request, label, params, options)
            if wanted(params):
                with by_files(request.node):
                    job.level(label, params)
            job.commit()
        files = [f for u in sorted(job.files) for f in job.files[u]]
        if job.log is None:  # mode "ignore" has found files
            return files
        job.tidy()
        if forget:
            job.forget()
        return files
    finally:
        job.close()


_TITLES = {  # how the formats are written in the labels of plans
    "arrow": "Feather",
    "csv": "CSV",
    "images": "Images",
    "json": "JSON",
    "numpy": "Numpy",
    "orc": "ORC",
    "parquet": "Parquet",
    "tfrecords": "TFRecords",
    "webdataset": "WebDataset",
}


class _Local:
    """A target that is a local folder."""

    fs = None

    def __init__(self, path: str):
        self.path = os.path.abspath(local_path(path) or path)
        self.id = write_id()
        self.stage = stage.Stage(self.path, self.id)
        self.folder = self.stage.path
        self.before: stage.Before = []

    def begin(self, how: SaveMode) -> list[str] | None:
        """Makes the folders. Returns the names that exist in the target; None: mode "ignore" has
        found files, so nothing is to be done."""
        old = stage.look(self.path, how)
        if old is None:
            return None
        self.stage.make()
        try:
            if how is SaveMode.OVERWRITE:
                with stage.alone(self.path):
                    self.before = stage.files(self.path)
        except BaseException:
            self.stage.end()
            raise
        return old

    def commit(self, names: list[str], how: SaveMode) -> bool:
        """Moves the files to their final paths. False: mode "ignore" has found files of another
        write."""
        moves = [(os.path.join(self.folder, n), n) for n in names]
        with stage.alone(self.path, how):
            if how is SaveMode.OVERWRITE:
                stage.overwrite(
                    self.path,
                    self.id,
                    self.folder,
                    self.before,
                    names,
                    lambda goes: stage.place(self.path, moves, goes),
                )
                stage.forget_job(self.path)
                return True
            if how is not SaveMode.APPEND and (others := stage.names(self.path)):
                if how is SaveMode.ERROR:
                    raise stage.meanwhile(self.path, others)
                return False
            stage.place(self.path, moves, lambda name: False)
        return True

    def end(self) -> None:
        self.stage.end()


class _Remote:
    """A target that is a folder of a pyarrow or fsspec file system; files are written in place."""

    def __init__(self, path: str, filesystem: Any):
        self.id = write_id()
        self.fs, self.path = resolve(path, filesystem)
        self.folder = self.path = self.path.rstrip("/")
        self.before: dict[str, tuple[int, int]] = {}

    def files(self) -> dict[str, tuple[int, int]]:
        """{name: (bytes, time of its last change)} of the files in the target."""
        selector = pafs.FileSelector(self.path, allow_not_found=True, recursive=True)
        info = retried(lambda: self.fs.get_file_info(selector), f"list {self.path}")
        found = {
            f.path[len(self.path) + 1 :]: (f.size or 0, f.mtime_ns or 0)
            for f in info
            if f.type == pafs.FileType.File
        }
        # Without the staging folders of writers for whom the target is a local folder.
        return {n: v for n, v in found.items() if not n.startswith(".skate-")}

    def begin(self, how: SaveMode) -> list[str] | None:
        """Makes the folder. Returns the names that exist in the target; None: mode "ignore" has
        found files, so nothing is to be done."""
        # Make the folder before listing it: listing fails if another write makes the folder at that
        # moment.
        retried(lambda: self.fs.create_dir(self.path, recursive=True), f"make {self.path}")
        self.before = self.files()
        if self.before and how is SaveMode.ERROR:
            raise ValueError(
                f"write: {self.path} has files already, and mode is 'error'; choose another folder, or mode 'append' or 'overwrite'"
            )
        if self.before and how is SaveMode.IGNORE:
            return None
        return list(self.before)

    def commit(self, names: list[str], how: SaveMode) -> bool:
        """Mode "error": checks again for files of other writes. Mode "overwrite": removes the files
        that existed before the write."""
        if how is SaveMode.ERROR and (
            others := sorted(n for n in self.files() if n not in names and self.id not in n)
        ):
            self.remove(names)
            raise stage.meanwhile(self.path, others)
        if how is SaveMode.OVERWRITE:
            self.clear(self.before, set(names))
        return True

    def clear(self, before: dict[str, tuple[int, int]], mine: set[str]) -> None:
        """Removes the files of `before` that have not changed since, except those in `mine`."""
        there = self.files()
        self.remove([n for n, v in before.items() if n not in mine and there.get(n) == v])

    def remove(self, names: list[str]) -> None:
        for n in names:
            retried(lambda n=n: self.fs.delete_file(f"{self.path}/{n}"), f"remove {n}")

    def end(self) -> None:
        pass


def _schema_without(schema: Any, names: list[str]) -> Any:
    return pa.schema([f for f in schema if f.name not in names], metadata=schema.metadata)


def of_tasks(given: TaskOptions) -> dict[str, Any]:
    """The options of the plan's node for the tasks of a write."""
    options = resources(given.get("ray_remote_args") or {})
    if given.get("concurrency") is not None:
        options["max_tasks"] = given.get("concurrency")
    return options


def write_sql(request: RunRequest, sql: str, connection_factory: Any, given: TaskOptions) -> None:
    """Runs the plan of a request and inserts its rows into a database."""
    params = {"format": "sql", "sql": sql, "connect": cloudpickled(connection_factory)}
    node = Node("write", "WriteSQL", params, (request.node,), **of_tasks(given))
    for _ in execute.batches(request.over(node)):
        pass


def write_sink(request: RunRequest, sink: Any, given: TaskOptions) -> None:
    """Runs the plan of a request and writes its rows into a Datasink."""
    options = of_tasks(given)
    params = {"format": "sink", "fn": sink, "uuid": os.urandom(8).hex()}
    results = []
    config = getattr(request.context, "checkpoint_config", None)
    rows = (
        Rows(config, sink)
        if config is not None and not getattr(sink, "_whole_or_not", False)
        else None
    )
    try:
        sink.on_write_start(request.facts.known_schema())
        if getattr(sink, "_skip_write", False):  # mode "ignore" has found files: no row is written
            rows = None
        if rows is not None:
            params.update(rows.begin(params["uuid"]))
        node = Node(
            "write",
            f"Write{sink.get_name()}",
            params,
            (request.node,),
            batch_rows=sink.min_rows_per_write or 0,
            **options,
        )
        for rb in execute.batches(request.over(node)):
            for r in map(pickle.loads, rb.column(0).to_pylist()):
                if rows is not None and r[0]:
                    rows.note(params["uuid"], r[3], r[4])
                results.append(r[:3])
    except Exception as e:
        sink.on_write_failed(e)
        raise
    sink.on_write_complete(
        datasink.WriteResult(
            sum(r[0] for r in results), sum(r[1] for r in results), [r[2] for r in results]
        )
    )
    if rows is not None:
        rows.end()
