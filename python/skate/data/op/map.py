"""map: a user's function from a row to a row."""

from __future__ import annotations

from typing import Any

from skate import _lazy
from skate.data.op import Batches, Operator, Params

row_dicts = _lazy.module("skate.data.values.row_dicts")
rows = _lazy.module("skate.data.worker.rows")


class Map(Operator):
    one_to_one = by_row = on_error = True

    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        label = params["label"]
        return rows.by_row(
            params,
            batches,
            task,
            lambda got: rows.check(got, label, "a dict (one row)"),
            lambda got, rb: row_dicts.rows_to_batches(got, label, rb),
        )


operator = Map()
