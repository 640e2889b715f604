"""A Datasink of the user: write() once a task; what it returns goes to the driver pickled."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from typing import Any

from skate import _lazy
from skate._deps import pa, pc
from skate.serialize import cloudpickled


def run(params: dict[str, Any], batches: Iterator[Any], task: Any) -> Iterator[Any]:
    seen, ids = [0, 0], []

    def tables() -> Iterator[Any]:
        for rb in batches:
            if "id_column" in params:
                rb, mine = _new_rows(rb, params["id_column"], params["done"])
                ids.append(mine)
            seen[0] += rb.num_rows
            seen[1] += task.nbytes(rb)
            yield pa.Table.from_batches([rb])

    ctx = _lazy.datasink.TaskContext(task.seq, kwargs={_lazy.datasink.WRITE_UUID_KWARG_NAME: params["uuid"]})
    out = params["fn"].write(tables(), ctx)
    for _ in batches:  # what it left unread is run all the same
        pass
    yield pa.RecordBatch.from_arrays(
        [_lazy.to_arrow.from_objects([cloudpickled((seen[0], seen[1], out, task.seq, ids))], None)], names=["written"]
    )


def _new_rows(rb: Any, column: str, done: Any) -> tuple[Any, Any]:
    """(rows whose ids are not among those done, their ids)"""
    if column not in rb.schema.names:
        raise ValueError(
            f"CheckpointConfig: the id_column {column!r} is not among the columns that are written: {', '.join(rb.schema.names)}"
        )
    ids = rb.column(column)
    if pa.types.is_dictionary(ids.type):
        ids = _lazy.selection.decoded(ids)
    if done is not None:
        new = pc.invert(pc.is_in(ids, value_set=done.cast(ids.type)))
        rb, ids = _lazy.selection.where(rb, new), ids.filter(new)
    return rb, ids


def write(ds: Any, sink: Any, concurrency: int | None, remote: dict[str, Any] | None) -> None:
    """Runs ds into a Datasink."""
    options = _lazy.resources.resources(remote or {})
    if concurrency is not None:
        options["max_tasks"] = concurrency
    params = {"format": "sink", "fn": sink, "uuid": os.urandom(8).hex()}
    results = []
    config = getattr(ds.context, "checkpoint_config", None)
    rows = _lazy.rows.Rows(config, sink) if config is not None and not getattr(sink, "_whole_or_not", False) else None
    try:
        sink.on_write_start(ds._facts.schema() if ds._facts.schema is not None else None)
        if getattr(sink, "_skip_write", False):  # mode "ignore": no row is written
            rows = None
        if rows is not None:
            params.update(rows.begin(params["uuid"]))
        node = _lazy.node.Node("write", f"Write{sink.get_name()}", params, (ds._node,), batch_rows=sink.min_rows_per_write or 0, **options)
        for rb in _lazy.execute.batches(ds, node):
            for r in map(pickle.loads, rb.column(0).to_pylist()):
                if rows is not None and r[0]:
                    rows.note(params["uuid"], r[3], r[4])
                results.append(r[:3])
    except Exception as e:
        sink.on_write_failed(e)
        raise
    sink.on_write_complete(_lazy.datasink.WriteResult(sum(r[0] for r in results), sum(r[1] for r in results), [r[2] for r in results]))
    if rows is not None:
        rows.end()
