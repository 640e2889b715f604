"""limit: the first n rows. It has no task: exec counts the rows of finished blocks, and limits the
rows that tasks of the stage before make (src/plan/rule_limit.c)."""

from __future__ import annotations

from typing import Any

from skate.data.op import Columns, Operator, Params


class Limit(Operator):
    first_rows = no_more = True

    def sure(self, params: Params) -> bool:
        return True

    def columns(self, params: Params) -> Columns:
        return Columns()

    def schema(self, params: Params, given: Any) -> Any:
        return given


operator = Limit()
