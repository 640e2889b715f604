"""Parquet files: row groups of about 32 MiB."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

ROW_GROUP_BYTES = 32 << 20


class _Writer:
    def __init__(self, sink: Any, schema: Any, args: dict[str, Any]):
        import pyarrow.parquet as pq

        args = dict(args)
        self.row_group_size = args.pop("row_group_size", None)
        self.w = pq.ParquetWriter(sink, schema, **args)

    def write(self, table: Any) -> None:
        self.w.write_table(table, self.row_group_size)

    def close(self) -> None:
        self.w.close()


def run(params: dict[str, Any], batches: Iterator[Any], task: Any) -> Iterator[Any]:
    from skate.data.write import job

    yield from job.run(params, batches, task, "parquet", _Writer, ROW_GROUP_BYTES)
