"""ORC files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

WORKERS_IMPORT = ("pyarrow.orc",)  # the fork server does it for all of them


class _Writer:
    def __init__(self, sink: Any, schema: Any, args: dict[str, Any]):
        import pyarrow.orc as orc

        self.w = orc.ORCWriter(sink, **args)

    def write(self, table: Any) -> None:
        self.w.write(table)

    def close(self) -> None:
        self.w.close()


def run(params: dict[str, Any], batches: Iterator[Any], task: Any) -> Iterator[Any]:
    from skate.data.write import job

    yield from job.run(params, batches, task, "orc", _Writer, 32 << 20)
