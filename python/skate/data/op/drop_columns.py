"""drop_columns: drops some columns and keeps the others."""

from __future__ import annotations

from typing import Any

from skate._deps import pa
from skate.data.op import Batches, Columns, Operator, Params
from skate.data.worker import rows


class DropColumns(Operator):
    one_to_one = by_row = predicates = True

    def sure(self, params: Params) -> bool:
        return True

    def columns(self, params: Params) -> Columns:
        return Columns(needs=frozenset(params["cols"]))  # needs them to report a missing column

    def schema(self, params: Params, given: Any) -> Any:
        drop = set(params["cols"])
        return pa.schema([f for f in given if f.name not in drop])

    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        drop = set(params["cols"])
        for rb in batches:
            for n in params["cols"]:
                if n not in rb.schema.names:
                    raise rows.missing(n, rb, params["label"])
            yield rb.select([n for n in rb.schema.names if n not in drop])


operator = DropColumns()
