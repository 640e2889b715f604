"""distinct_rows: yields the first row of each key within a task. If all rows of a key are in one
task, this is the first row of the key in the Dataset."""

from __future__ import annotations

from typing import Any

from skate.data.by_key import user_aggregates
from skate.data.op import Batches, Operator, Params
from skate.data.values import selection, unify


class DistinctRows(Operator):
    no_more = True

    def modules(self, params: Params) -> tuple[str, ...]:
        return ("pyarrow.compute", "skate.data.by_key.user_aggregates")

    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        runs = user_aggregates.Runs(params["keys"], params["label"])
        last: list[Any] = []  # the last row that was yielded
        held: list[Any] = []
        n, empty = 0, None

        def first_rows() -> Any:
            rb = unify.merge(held)
            at = runs.groups(rb).first
            return selection.take(rb, at[1:] if runs.goes_on(last, rb) else at)

        for rb in batches:
            empty = rb
            if rb.num_rows:
                held.append(rb)
                n += rb.num_rows
                if n >= user_aggregates.ROWS:
                    out = first_rows()
                    held, n, last = [], 0, [out.slice(out.num_rows - 1)] if out.num_rows else last
                    yield out
        if held:
            yield first_rows()
        elif (
            not last and empty is not None and all(k in empty.schema.names for k in params["keys"])
        ):
            yield empty  # an empty batch, which shows the columns


operator = DistinctRows()
