"""Writes into a Datasink that can be resumed (CheckpointConfig): the driver records the ids of the
rows of each task that has ended, and a later run leaves these rows out.

    <checkpoint_path>/rows-<digest of the sink's path>/<write_uuid>.run              a run has begun
    <checkpoint_path>/rows-<digest of the sink's path>/<write_uuid>_<task>.parquet   a task of it
    has ended: the ids of its rows

The files of a file sink have write_uuid and task in their names, so files of tasks without a record
are found, and removed when the next run begins. For other sinks only the rows are known: rows of a
task that wrote them, but was not recorded, are written twice, as in Ray. A record is on disk before
the next report is read; the sink's own files are as durable as the sink makes them.
"""

from __future__ import annotations

import os
import re
from typing import Any

from skate._deps import hashlib, pa, pafs, pq
from skate.data.checkpoint.interfaces import CheckpointConfig, InvalidCheckpointingConfig
from skate.data.datasource.file_datasink import _FileDatasink
from skate.data.datasource.filename_provider import FilenameProvider
from skate.data.values import marks
from skate.data.write.mode import SaveMode

_NOTE = re.compile(r"(.+)_(\d+)\.parquet")


class Rows:
    """The records about the rows of one sink.

    Args:
        config: Has the column of the ids and the folder.
        sink: The Datasink that gets the rows.

    Raises:
        InvalidCheckpointingConfig: id_column or checkpoint_path is missing.
        ValueError: The names of the sink's files do not say which run and which task has written
            them.
    """

    def __init__(self, config: CheckpointConfig, sink: Any):
        if config.id_column is None or config.checkpoint_path is None:
            raise InvalidCheckpointingConfig(
                "A write into a Datasink is resumed by the ids of its rows, which are noted in a folder: give CheckpointConfig both id_column and checkpoint_path"
            )
        self.column, self.forgets, self.sink = (
            config.id_column,
            config.delete_checkpoint_on_success,
            sink,
        )
        self.files = isinstance(sink, _FileDatasink)
        key = hashlib.blake2b(
            os.fsencode(str(sink.path) if self.files else ""), digest_size=16
        ).hexdigest()
        self.folder = os.path.join(config.checkpoint_path, f"rows-{key}")
        if self.files:
            self._check_names()

    def _check_names(self) -> None:
        p, plain = self.sink.filename_provider, FilenameProvider
        own = (
            type(p).get_filename_for_block is not plain.get_filename_for_block
            or type(p).get_filename_for_row is not plain.get_filename_for_row
        )
        if own or "0f5a" not in p.get_filename_for_task("0f5a", 0):
            raise ValueError(
                f"write: with a CheckpointConfig the files' names must say which run and which task has written them, and those of {type(p).__name__} do not: "
                "let it define get_filename_for_task alone, and put the write_uuid into the name"
            )

    def begin(self, uuid: str) -> dict[str, Any]:
        """Begins a run: removes what unfinished tasks of earlier runs have left. Returns parameters
        for the tasks: the column of ids, and the ids of rows that are done (or None)."""
        os.makedirs(self.folder, exist_ok=True)
        # mode "overwrite" removes the recorded rows, too
        if self.files and _mode(self.sink) is SaveMode.OVERWRITE:
            self.forget()
            os.makedirs(self.folder)
        tasks: dict[str, list[int]] = {}
        ids = []
        for name in sorted(os.listdir(self.folder)):
            if name.endswith(".run"):
                tasks.setdefault(name.removesuffix(".run"), [])
            elif m := _NOTE.fullmatch(name):
                tasks.setdefault(m[1], []).append(int(m[2]))
                ids.append(
                    pq.read_table(os.path.join(self.folder, name)).column(0).combine_chunks()
                )
        if self.files and tasks:
            self._sweep(tasks)
        with open(os.path.join(self.folder, f"{uuid}.run"), "wb"):
            pass
        return {"id_column": self.column, "done": pa.concat_arrays(ids) if ids else None}

    def _sweep(self, tasks: dict[str, list[int]]) -> None:
        fs, path = self.sink.filesystem, self.sink.path.rstrip("/")
        name = self.sink.filename_provider.get_filename_for_task
        whole = {_stem(name(uuid, task)) for uuid, done in tasks.items() for task in done}
        for f in fs.get_file_info(pafs.FileSelector(path, recursive=True, allow_not_found=True)):
            inside = f.path[len(path) + 1 :]
            if f.type != pafs.FileType.File or not any(uuid in inside for uuid in tasks):
                continue
            # the file of a row has two numbers behind the number of the task
            stem = _stem(inside)
            if stem not in whole and re.sub(r"_\d{6,}_\d{6,}$", "", stem) not in whole:
                fs.delete_file(f.path)

    def note(self, uuid: str, task: int, ids: list[Any]) -> None:
        """Records that a task of this run has ended: its rows are not written again."""
        to = os.path.join(self.folder, f"{uuid}_{task}.parquet")
        with open(to + ".part", "wb") as f:
            pq.write_table(marks.bare(pa.table({self.column: pa.chunked_array(ids)})), f)
            f.flush()
            os.fsync(f.fileno())
        os.replace(to + ".part", to)

    def end(self) -> None:
        """Ends the run: all rows are written."""
        if self.forgets:
            self.forget()

    def forget(self) -> None:
        """Removes the records."""
        for name in os.listdir(self.folder):
            os.unlink(os.path.join(self.folder, name))
        os.rmdir(self.folder)


def _mode(sink: Any) -> SaveMode:
    return SaveMode(str(getattr(sink.mode, "value", sink.mode)).lower())


def _stem(name: str) -> str:
    folder, slash, last = name.rpartition("/")
    return folder + slash + last.partition(".")[0]
