"""unpivot: turns columns into rows: each row becomes one row for each of these columns, with the
name of the column, its value, and the index columns of the original row."""

from __future__ import annotations

from typing import Any

from skate._deps import np, pa
from skate.data.op import ALL, Batches, Columns, Operator, Params
from skate.data.values import selection, unify
from skate.data.worker import rows


class Unpivot(Operator):
    by_row = predicates = True

    def columns(self, params: Params) -> Columns:
        if params["on"] is None:
            return ALL
        return Columns(
            needs=frozenset(params["on"]),
            makes=frozenset(params["names"]),
            keeps=frozenset(params["index"]),
        )

    def schema(self, params: Params, given: Any) -> Any:
        value = unify.unify(*_values(params, given))
        return pa.schema(
            [given.field(n) for n in params["index"]]
            + [pa.field(params["names"][0], pa.string()), *value]
        )

    def narrowed(self, params: Params, columns: set[str]) -> Params | None:
        if params["on"] is None:  # all columns but those of the index become rows
            return None
        few = [n for n in params["index"] if n in columns]
        return {**params, "index": few} if len(few) < len(params["index"]) else None

    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        index, names = params["index"], params["names"]
        for rb in batches:
            for n in [*index, *(params["on"] or ())]:
                if n not in rb.schema.names:
                    raise rows.missing(n, rb, params["label"])
            schemas, on = _values(params, rb.schema)
            value = unify.unify(schemas, on)
            columns = [
                pa.RecordBatch.from_arrays([rb.column(n)], schema=s) for n, s in zip(on, schemas)
            ]
            stacked = unify.merge([unify.cast_batch(c, value) for c in columns]).column(0)
            # `stacked` has the values column after column; the output has them row after row
            at = np.arange(len(stacked)).reshape(len(on), rb.num_rows).T.ravel()
            row, which = np.divmod(np.arange(len(stacked)), len(on))
            beside = selection.take(rb.select(index), row) if index else None
            yield pa.RecordBatch.from_arrays(
                [
                    *(beside.columns if beside is not None else ()),
                    pa.array(on).take(pa.array(which)),
                    selection.take_values(stacked, pa.array(at)),
                ],
                schema=pa.schema(
                    [rb.schema.field(n) for n in index]
                    + [pa.field(names[0], pa.string()), value.field(0)]
                ),
            )


def _values(params: Params, given: Any) -> tuple[list[Any], list[str]]:
    """Returns (for each column that becomes rows a schema with its type for the value column, the
    names of these columns)."""
    on = params["on"]
    if on is None:
        on = [n for n in given.names if n not in params["index"]]
    if not on:
        raise ValueError("unpivot: all columns are in index, so none is left for rows")
    return [pa.schema([given.field(n).with_name(params["names"][1])]) for n in on], on


operator = Unpivot()
