"""union: several inputs, one after another. It has no task: exec passes blocks on. params: schemas
(one for each input; None: only a run shows it), seen ({number of an input: schema of its first
rows}, which runs fill in: run/unions.py)."""

from __future__ import annotations

from skate.data.op import Columns, Operator, Params


class Union(Operator):
    concatenates = predicates = True

    def sure(self, params: Params) -> bool:
        return True

    def columns(self, params: Params) -> Columns:
        return Columns()


operator = Union()
