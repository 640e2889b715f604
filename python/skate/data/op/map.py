"""map: applies a user function that makes one row of one row."""

from __future__ import annotations

from typing import Any

from skate.data.op import Batches, Operator, Params
from skate.data.values import row_dicts
from skate.data.worker import rows


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
