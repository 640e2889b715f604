"""ORC files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from skate._deps import orc, pa
from skate.data.checks import columns, keywords, parameters
from skate.data.values.unify import concat_as
from skate.data.write import files

WORKERS_IMPORT = ("pyarrow.orc",)  # the fork server imports these for all workers


def check(args: dict[str, Any], schema: Any) -> Any:
    """TypeError or ValueError for unknown or wrong arguments. With a schema: the schema that the
    files get, or TypeError for a column that ORC cannot represent."""

    def write(s: Any) -> None:
        with orc.ORCWriter(pa.BufferOutputStream(), **args) as w:
            w.write(s.empty_table())

    keywords("write_orc", args, parameters(orc.ORCWriter.__init__, ("self", "where")))
    if schema is not None:
        return columns(
            "write_orc", "ORC", schema, write, "turn it into another type (tensors into lists)"
        )
    return None


class _Writer:
    def __init__(self, sink: Any, schema: Any, args: dict[str, Any]):
        self.schema = check(args, schema)
        self.w = orc.ORCWriter(sink, **args)

    def write(self, table: Any) -> None:
        self.w.write(concat_as(table, self.schema))

    def close(self) -> None:
        self.w.close()


def schema(file: Any) -> Any:
    """The schema of a file."""
    return orc.ORCFile(file).schema


def parts(file: Any) -> Iterator[Any]:
    """The Tables that a file was written from."""
    f = orc.ORCFile(file)
    for i in range(f.nstripes):
        yield pa.Table.from_batches([f.read_stripe(i)])


def run(params: dict[str, Any], batches: Iterator[Any], task: Any) -> Iterator[Any]:
    yield from files.run(params, batches, task, "orc", _Writer, 32 << 20)
