"""CSV files with a header line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from skate._deps import pa, pacsv
from skate.data.checks import columns, keywords
from skate.data.values.unify import concat_as
from skate.data.write import files

REMEDY = "turn it into text or numbers (lists and structs for example with json.dumps, bytes with base64)"
WORKERS_IMPORT = ("pyarrow.csv",)  # the fork server imports these for all workers


def check(args: dict[str, Any], schema: Any) -> Any:
    """TypeError or ValueError for unknown or wrong arguments. With a schema: the schema that the
    files get, or TypeError for a column that CSV cannot represent."""
    known = [n for n in dir(pacsv.WriteOptions) if not n.startswith("_") and n != "validate"]
    keywords("write_csv", args, ("write_options", *known))
    options = _options(args)
    if schema is not None:
        return columns(
            "write_csv",
            "CSV",
            schema,
            lambda s: pacsv.CSVWriter(pa.BufferOutputStream(), s, write_options=options).close(),
            REMEDY,
        )
    return None


def _options(args: dict[str, Any]) -> Any:
    return args.get("write_options") or pacsv.WriteOptions(**args)


class _Writer:
    def __init__(self, sink: Any, schema: Any, args: dict[str, Any]):
        schema = self.schema = check(args, schema)
        options = _options(args)
        self.w = pacsv.CSVWriter(
            sink if not hasattr(sink, "fileno") else pa.PythonFile(sink, "w"),
            schema,
            write_options=options,
        )

    def write(self, table: Any) -> None:
        table = concat_as(table, self.schema)
        try:
            self.w.write_table(table)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            self._name(table)
            raise

    def _name(self, table: Any) -> None:
        """Raises a TypeError that names the first column that CSV cannot represent; returns if it
        can represent each column by itself."""
        for f in table.schema:
            try:
                pacsv.write_csv(table.select([f.name]), pa.BufferOutputStream())
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as of_one:
                raise TypeError(
                    f"write_csv: column {f.name!r} of type {f.type}: {of_one}; {REMEDY}, or drop it"
                ) from None

    def close(self) -> None:
        self.w.close()


def run(params: dict[str, Any], batches: Iterator[Any], task: Any) -> Iterator[Any]:
    yield from files.run(params, batches, task, "csv", _Writer, 8 << 20)
