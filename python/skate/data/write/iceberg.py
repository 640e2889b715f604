"""IcebergDatasink: tasks write data files of an Iceberg table by the package pyiceberg, and the driver
commits them as one snapshot. A write that fails leaves the table unchanged."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterable
from typing import Any

from skate._deps import pa
from skate.data.checks import library
from skate.data.datasource.datasink import Datasink, TaskContext, WriteResult
from skate.data.read.formats.iceberg import load
from skate.data.values import marks
from skate.data.values import types as value_types
from skate.data.values.unify import columns_are, concat_as
from skate.data.write.mode import SaveMode


class IcebergDatasink(Datasink[bytes]):
    """The implementation of Dataset.write_iceberg(), which has the arguments. Needs the package
    pyiceberg: ImportError without it."""

    _whole_or_not = True

    def __init__(
        self,
        table_identifier: str,
        catalog_kwargs: dict[str, Any] | None = None,
        snapshot_properties: dict[str, str] | None = None,
        mode: SaveMode | str = SaveMode.APPEND,
        overwrite_filter: Any = None,
    ):
        if mode not in (SaveMode.APPEND, SaveMode.OVERWRITE):
            raise ValueError(f"write_iceberg: mode is 'append' or 'overwrite', not {mode!r}")
        if overwrite_filter is not None and mode != SaveMode.OVERWRITE:
            raise ValueError("write_iceberg: overwrite_filter is for mode='overwrite'")
        self.identifier, self.catalog = table_identifier, catalog_kwargs
        self.properties, self.mode = snapshot_properties or {}, SaveMode(mode)
        self.filter = overwrite_filter
        self.table = load("write_iceberg", table_identifier, catalog_kwargs)
        self.metadata, self.io = self.table.metadata, self.table.io
        self.uuid = uuid.uuid4()

    def __getstate__(self) -> dict[str, Any]:
        return {"metadata": self.metadata, "io": self.io, "uuid": self.uuid}

    def on_write_start(self, schema: Any = None) -> None:
        if schema is not None:
            self._fitted(schema, self.table.schema().as_arrow())

    def _fitted(self, schema: Any, wanted: Any) -> Any:
        """The schema of the rows in the types of the table; ValueError for a column that the table
        has not."""
        for name in schema.names:
            if name not in wanted.names:
                raise ValueError(
                    f"write_iceberg: the table has no column {name!r}; {columns_are(name, wanted.names)}"
                )
        return pa.schema([f for f in wanted if f.name in schema.names])

    def write(self, blocks: Iterable[Any], ctx: TaskContext) -> bytes:
        """Writes the files of one task; returns what the table is told of them, pickled."""
        arrow = library("pyiceberg.io.pyarrow", "write_iceberg", "pyiceberg")
        wanted = arrow.schema_to_pyarrow(self.metadata.schema(), include_field_ids=False)
        tables = []
        for block in blocks:
            if block.num_rows:
                plain = pa.schema(
                    [f.with_type(value_types.uncoded(f.type)) for f in marks.bare(block.schema)]
                )
                tables.append(concat_as(block, self._fitted(plain, wanted)))
        if not tables:
            return pickle.dumps([])
        # a retry of the task writes the same files again
        id = uuid.uuid5(self.uuid, str(ctx.task_idx))
        made = arrow._dataframe_to_data_files(
            self.metadata, pa.concat_tables(tables, promote_options="default"), self.io, id
        )
        return pickle.dumps(list(made))

    def on_write_complete(self, write_result: WriteResult[bytes]) -> None:
        files = [f for r in write_result.write_returns for f in pickle.loads(r)]
        with self.table.transaction() as t:
            if self.mode is SaveMode.OVERWRITE:
                every = library("pyiceberg.expressions", "write_iceberg", "pyiceberg").AlwaysTrue()
                t.delete(every if self.filter is None else self.filter, self.properties)
            with t.update_snapshot(self.properties).fast_append() as snapshot:
                for f in files:
                    snapshot.append_data_file(f)
