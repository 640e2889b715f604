"""select_columns: yields the named columns, in the order of the names."""

from __future__ import annotations

from typing import Any

from skate._deps import pa
from skate.data.op import Batches, Columns, Operator, Params
from skate.data.worker import rows


class SelectColumns(Operator):
    one_to_one = by_row = predicates = True

    def sure(self, params: Params) -> bool:
        return True

    def columns(self, params: Params) -> Columns:
        return Columns(keeps=frozenset(params["cols"]))

    def schema(self, params: Params, given: Any) -> Any:
        return pa.schema([given.field(name) for name in params["cols"]])

    def narrowed(self, params: Params, columns: set[str]) -> Params | None:
        # one column stays at least, because the number of rows must be known
        few = [c for c in params["cols"] if c in columns] or params["cols"][:1]
        return {**params, "cols": few} if len(few) < len(params["cols"]) else None

    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        names = params["cols"]
        for rb in batches:
            have = set(rb.schema.names)
            for n in names:
                if n not in have:
                    raise rows.missing(n, rb, params["label"])
            yield rb.select(names)


operator = SelectColumns()
