"""Writes into a user's Datasink: write() is called once for each task, and its pickled result goes
to the driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from skate._deps import pa, pc
from skate.data.datasource import datasink
from skate.data.values import selection, to_arrow
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

    ctx = datasink.TaskContext(task.seq, kwargs={datasink.WRITE_UUID_KWARG_NAME: params["uuid"]})
    out = params["fn"].write(tables(), ctx)
    for _ in batches:  # run the input to its end, even if the sink stopped reading
        pass
    yield pa.RecordBatch.from_arrays(
        [to_arrow.from_objects([cloudpickled((seen[0], seen[1], out, task.seq, ids))], None)],
        names=["written"],
    )


def _new_rows(rb: Any, column: str, done: Any) -> tuple[Any, Any]:
    """Returns (the rows whose ids are not in `done`, their ids)."""
    if column not in rb.schema.names:
        raise ValueError(
            f"CheckpointConfig: the id_column {column!r} is not among the columns that are written: {', '.join(rb.schema.names)}"
        )
    ids = rb.column(column)
    if pa.types.is_dictionary(ids.type):
        ids = selection.decoded(ids)
    if done is not None:
        new = pc.invert(pc.is_in(ids, value_set=done.cast(ids.type)))
        rb, ids = selection.where(rb, new), ids.filter(new)
    return rb, ids
