"""stratify: divides each group, which lies whole in one block, into a training part (its first
rows) and a test part (its last rows, the share `share` of them), and yields one part. params: keys,
share, test."""

from __future__ import annotations

from typing import Any

from skate._deps import np
from skate.data.by_key import user_aggregates
from skate.data.op import Batches, Columns, Operator, Params
from skate.data.values import selection


class Stratify(Operator):
    no_more = True

    def columns(self, params: Params) -> Columns:
        return Columns(needs=frozenset(params["keys"]))

    def schema(self, params: Params, given: Any) -> Any:
        return given

    def modules(self, params: Params) -> tuple[str, ...]:
        return ("skate.data.by_key.user_aggregates",)

    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        runs = user_aggregates.Runs(params["keys"], params["label"])
        for rb in batches:
            g = runs.groups(rb)
            # the row at which the test part of each group begins
            behind = g.first + g.sizes - np.floor(g.sizes * params["share"]).astype(np.int64)
            test = np.arange(rb.num_rows) >= behind[g.ids]
            yield selection.where(rb, test if params["test"] else ~test)


operator = Stratify()
