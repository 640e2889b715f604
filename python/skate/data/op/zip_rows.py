"""zip_rows: puts the rows of several inputs side by side; a column whose name is taken gets the
suffix _1, _2, ... params: order (the order of the sides), equal (whether all sides are known to
have the same number of rows)."""

from __future__ import annotations

from typing import Any

from skate._deps import pa
from skate.data.op import Batches, Operator, Params
from skate.data.values import unify


class ZipRows(Operator):
    by_row = joins = True

    def sure(self, params: Params) -> bool:
        return bool(params["equal"])

    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        sides: dict[int, list[Any]] = {}
        for side, rb in zip(task.sides, batches, strict=True):
            sides.setdefault(side, []).append(rb)
        cols: dict[str, Any] = {}
        for side in sorted(sides, key=params["order"].__getitem__):
            rb = unify.merge(sides[side])
            for name, col in zip(rb.schema.names, rb.columns, strict=True):
                cols[unify.free_name(cols, name)] = col
        yield pa.RecordBatch.from_arrays(list(cols.values()), names=list(cols))


operator = ZipRows()
