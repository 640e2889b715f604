"""CSV files with a header line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

WORKERS_IMPORT = ("pyarrow.csv",)  # the fork server does it for all of them


class _Writer:
    def __init__(self, sink: Any, schema: Any, args: dict[str, Any]):
        import pyarrow as pa
        import pyarrow.csv as pacsv

        options = args.get("write_options") or pacsv.WriteOptions(**args)
        self.w = pacsv.CSVWriter(sink if not hasattr(sink, "fileno") else pa.PythonFile(sink, "w"), schema, write_options=options)

    def write(self, table: Any) -> None:
        self.w.write_table(table)

    def close(self) -> None:
        self.w.close()


def run(params: dict[str, Any], batches: Iterator[Any], task: Any) -> Iterator[Any]:
    from skate.data.write import job

    yield from job.run(params, batches, task, "csv", _Writer, 8 << 20)
