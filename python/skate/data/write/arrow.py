"""Arrow IPC files (Feather version 2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from skate._deps import pa
from skate.data.checks import keywords
from skate.data.write import files


def check(args: dict[str, Any], schema: Any) -> None:
    """TypeError or ValueError for unknown or wrong arguments."""
    keywords("write_feather", args, ("compression",))
    pa.ipc.IpcWriteOptions(**args)


class _Writer:
    def __init__(self, sink: Any, schema: Any, args: dict[str, Any]):
        self.w = pa.ipc.new_file(
            sink, schema, options=pa.ipc.IpcWriteOptions(compression=args.get("compression", "lz4"))
        )

    def write(self, table: Any) -> None:
        self.w.write_table(table)

    def close(self) -> None:
        self.w.close()


def schema(file: Any) -> Any:
    """The schema of a file."""
    return pa.ipc.open_file(file).schema


def parts(file: Any) -> Iterator[Any]:
    """The Tables that a file was written from."""
    with pa.ipc.open_file(file) as r:
        for i in range(r.num_record_batches):
            yield pa.Table.from_batches([r.get_batch(i)])


def run(params: dict[str, Any], batches: Iterator[Any], task: Any) -> Iterator[Any]:
    yield from files.run(params, batches, task, "arrow", _Writer, 32 << 20)
