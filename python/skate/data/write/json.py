"""JSON files, one object a line. Values JSON has no form for (dates, decimals) are written as text; bytes are an error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


class _Writer:
    def __init__(self, sink: Any, schema: Any, args: dict[str, Any]):
        self.sink = sink
        args = {k: v for k, v in args.items() if k not in ("orient", "lines")}
        self.dumps = json.JSONEncoder(**{"default": _default, "ensure_ascii": False, **args}).encode

    def write(self, table: Any) -> None:
        from skate.data.batch import to_rows

        for rb in table.to_batches():
            self.sink.write("".join([self.dumps(r) + "\n" for r in to_rows(rb)]).encode())

    def close(self) -> None:
        pass


def _default(v: Any) -> Any:
    if hasattr(v, "tolist"):
        return v.tolist()
    if isinstance(v, bytes):
        raise TypeError("bytes have no JSON form; decode or drop the column first")
    return v.isoformat() if hasattr(v, "isoformat") else str(v)


def run(params: dict[str, Any], batches: Iterator[Any], task: Any) -> Iterator[Any]:
    from skate.data.write import job

    yield from job.run(params, batches, task, "json", _Writer, 4 << 20)
