"""union: several inputs, one after another. No task: exec passes blocks on."""

from __future__ import annotations

from skate.data.op import Columns, Operator, Params


class Union(Operator):
    concatenates = predicates = True

    def columns(self, params: Params) -> Columns:
        return Columns()


operator = Union()
