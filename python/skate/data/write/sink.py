"""A Datasink of the user: write() once a task; what it returns goes to the driver pickled."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

from skate import _lazy


def run(params: dict[str, Any], batches: Iterator[Any], task: Any) -> Iterator[Any]:
    import cloudpickle
    import pyarrow as pa

    seen = [0, 0]

    def tables() -> Iterator[Any]:
        for rb in batches:
            seen[0] += rb.num_rows
            seen[1] += task.nbytes(rb)
            yield pa.Table.from_batches([rb])

    ctx = _lazy.datasink.TaskContext(task.seq, kwargs={_lazy.datasink.WRITE_UUID_KWARG_NAME: params["uuid"]})
    out = params["fn"].write(tables(), ctx)
    for _ in batches:  # what it left unread is run all the same
        pass
    yield pa.RecordBatch.from_arrays([_lazy.to_arrow.from_objects([cloudpickle.dumps((seen[0], seen[1], out))], None)], names=["written"])


def write(ds: Any, sink: Any, concurrency: int | None, remote: dict[str, Any] | None) -> None:
    """Runs ds into a Datasink."""
    import os

    options = _lazy.resources.resources(remote or {})
    if concurrency is not None:
        options["max_tasks"] = concurrency
    params = {"format": "sink", "fn": sink, "uuid": os.urandom(8).hex()}
    results = []
    try:
        sink.on_write_start(ds._facts.schema() if ds._facts.schema is not None else None)
        node = _lazy.node.Node("write", f"Write{sink.get_name()}", params, (ds._node,), batch_rows=sink.min_rows_per_write or 0, **options)
        for rb in _lazy.execute.batches(ds, node):
            results += [pickle.loads(v) for v in rb.column(0).to_pylist()]
    except Exception as e:
        sink.on_write_failed(e)
        raise
    sink.on_write_complete(_lazy.datasink.WriteResult(sum(r[0] for r in results), sum(r[1] for r in results), [r[2] for r in results]))
