"""CSV files with a header line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from skate.data.checks import columns, keywords
from skate.data.write import files

WORKERS_IMPORT = ("pyarrow.csv",)  # the fork server does it for all of them


def check(args: dict[str, Any], schema: Any) -> None:
    """TypeError or ValueError for arguments that are none; with a schema, TypeError for a column that CSV has no form for."""
    import pyarrow as pa
    import pyarrow.csv as pacsv

    known = [n for n in dir(pacsv.WriteOptions) if not n.startswith("_") and n != "validate"]
    keywords("write_csv", args, ("write_options", *known))
    options = _options(args)
    if schema is not None:
        remedy = "turn it into text or numbers (lists and structs for example with json.dumps)"
        columns("write_csv", "CSV", schema, lambda s: pacsv.CSVWriter(pa.BufferOutputStream(), s, write_options=options).close(), remedy)


def _options(args: dict[str, Any]) -> Any:
    import pyarrow.csv as pacsv

    return args.get("write_options") or pacsv.WriteOptions(**args)


class _Writer:
    def __init__(self, sink: Any, schema: Any, args: dict[str, Any]):
        import pyarrow as pa
        import pyarrow.csv as pacsv

        check(args, schema)
        options = _options(args)
        self.w = pacsv.CSVWriter(sink if not hasattr(sink, "fileno") else pa.PythonFile(sink, "w"), schema, write_options=options)

    def write(self, table: Any) -> None:
        self.w.write_table(table)

    def close(self) -> None:
        self.w.close()


def run(params: dict[str, Any], batches: Iterator[Any], task: Any) -> Iterator[Any]:
    yield from files.run(params, batches, task, "csv", _Writer, 8 << 20)
