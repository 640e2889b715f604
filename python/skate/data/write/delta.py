"""DeltaDatasink: tasks write Parquet files into the folder of a Delta Lake table, and the package
deltalake commits them to its log as one version. A write that fails leaves the table unchanged."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

from skate._deps import pa, pafs, pq
from skate.data.checks import library
from skate.data.datasource.datasink import Datasink, TaskContext, WriteResult
from skate.data.files.paths import resolve
from skate.data.files.retry import RetriedOutput, retried
from skate.data.values import marks
from skate.data.values import types as value_types
from skate.data.values.unify import columns_are, concat_as, unify
from skate.data.write.files import NO_VALUE, by_values
from skate.data.write.mode import SaveMode


class Added(NamedTuple):
    """A file that a task has written: its path in the table, bytes, rows, and the values of the
    partition's columns as text."""

    path: str
    size: int
    rows: int
    values: dict[str, str | None]


class DeltaDatasink(Datasink[tuple[Any, list[Added]]]):
    """The implementation of Dataset.write_delta(), which has the arguments. Needs the package
    deltalake: ImportError without it."""

    _whole_or_not = True

    def __init__(
        self,
        path: str,
        mode: SaveMode | str = SaveMode.APPEND,
        partition_by: list[str] | None = None,
        storage_options: dict[str, str] | None = None,
    ):
        if mode not in tuple(SaveMode):
            raise ValueError(
                f"write_delta: mode is 'append', 'overwrite', 'error' or 'ignore', not {mode!r}"
            )
        self.mode, self.options = SaveMode(mode), storage_options
        self.fs, self.path = resolve(path)
        self.uri = self.path if self.fs is None else path
        self.by: list[str] = (
            [partition_by] if isinstance(partition_by, str) else list(partition_by or ())
        )
        self.table_schema: Any = None
        self.known: Any = None
        self.id = uuid.uuid4().hex
        self.exists = self._exists()

    def _exists(self) -> bool:
        delta = library("deltalake", "write_delta").DeltaTable
        if not delta.is_deltatable(self.uri, self.options):
            return False
        if self.mode is SaveMode.ERROR:
            raise FileExistsError(
                f"write_delta: there is a table at {self.uri}; use mode='append' or 'overwrite'"
            )
        table = delta(self.uri, storage_options=self.options)
        theirs = list(table.metadata().partition_columns)
        if self.by and self.by != theirs:
            raise ValueError(f"write_delta: the table is partitioned by {theirs}, not {self.by}")
        self.by = theirs
        if self.mode is SaveMode.APPEND:
            self.table_schema = pa.schema(table.schema().to_arrow())
        return True

    def on_write_start(self, schema: Any = None) -> None:
        self.known = schema
        if schema is not None:
            self._fitted(schema)

    def _fitted(self, schema: Any) -> Any:
        """The schema to write for rows of this schema: without encodings, in the types of a table
        that is appended to."""
        plain = pa.schema(
            [f.with_type(value_types.uncoded(f.type)) for f in marks.bare(schema.remove_metadata())]
        )
        table = self.table_schema
        for name in plain.names if table is not None else self.by:
            if name not in (plain if table is None else table).names:
                raise ValueError(
                    f"write_delta: there is no column {name!r}; {columns_are(name, (table or plain).names)}"
                )
        return plain if table is None else pa.schema([table.field(n) for n in plain.names])

    def write(self, blocks: Iterable[Any], ctx: TaskContext) -> tuple[Any, list[Added]]:
        """Writes the files of one task; returns their schema and what the log is told of them."""
        tables = [t for t in blocks if t.num_rows]
        if not tables:
            return None, []
        schema = self._fitted(unify([t.schema for t in tables]))
        table = pa.concat_tables([concat_as(t, schema) for t in tables])
        # a retry of the task writes the same files again
        name = f"part-{ctx.task_idx:05d}-{self.id}.parquet"
        return schema, [
            self._file(f"{folder}{name}", part, values)
            for folder, part, values in self._parts(table)
        ]

    def _parts(self, table: Any) -> Iterator[tuple[str, Any, dict[str, str | None]]]:
        """(folder, rows, values of the partition's columns) for each partition."""
        if not self.by:
            yield "", table, {}
            return
        for keys, rows in by_values(table, self.by):
            values = {n: None if v is None else _text(v) for n, v in keys.items()}
            folder = "".join(
                f"{quote(n)}={NO_VALUE if v is None else quote(v, safe='')}/"
                for n, v in values.items()
            )
            yield folder, rows, values

    def _file(self, name: str, table: Any, values: dict[str, str | None]) -> Added:
        at = f"{self.path.rstrip('/')}/{name}"
        fs = self.fs or pafs.LocalFileSystem()
        retried(lambda: fs.create_dir(os.path.dirname(at), recursive=True), f"make {at}")
        out = RetriedOutput(fs, at, {})
        try:
            pq.write_table(table, out)
        except BaseException:
            out.abort()
            raise
        out.close()
        size = retried(lambda: fs.get_file_info(at).size, f"look at {at}")
        return Added(name, size, table.num_rows, values)

    def on_write_complete(self, write_result: WriteResult[tuple[Any, list[Added]]]) -> None:
        schemas = [s for s, _ in write_result.write_returns if s is not None]
        schema = unify(schemas) if schemas else self.known and self._fitted(self.known)
        if schema is None or not schemas and self.exists and self.mode is SaveMode.APPEND:
            return  # no rows
        delta = library("deltalake", "write_delta")
        transaction = library("deltalake.transaction", "write_delta", "deltalake")
        now = int(time.time() * 1000)
        actions = [
            transaction.AddAction(
                f.path,
                f.size,
                f.values,
                now,
                True,
                json.dumps({"numRecords": f.rows}),
            )
            for _, files in write_result.write_returns
            for f in files
        ]
        if not self.exists:
            transaction.create_table_with_add_actions(
                self.uri,
                delta.Schema.from_arrow(schema),
                actions,
                "error",
                self.by,
                storage_options=self.options,
            )
            return
        table = delta.DeltaTable(self.uri, storage_options=self.options)
        table.create_write_transaction(
            actions, self.mode.value, delta.Schema.from_arrow(self.table_schema or schema), self.by
        )


def _text(v: Any) -> str:
    """A value of a partition as Delta's log has it."""
    return str(v).lower() if isinstance(v, bool) else str(v)
