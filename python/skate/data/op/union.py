"""union: several inputs, one after another. No task: exec passes blocks on. params: schemas (one an
input; None: only a run shows it), seen ({number of an input: what its first rows showed}, filled by
runs: run/unions.py)."""

from __future__ import annotations

from skate.data.op import Columns, Operator, Params


class Union(Operator):
    concatenates = predicates = True

    def sure(self, params: Params) -> bool:
        return True

    def columns(self, params: Params) -> Columns:
        return Columns()


operator = Union()
