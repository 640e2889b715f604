"""union: the rows of several inputs, one input after another. It has no task: exec passes the
blocks on. params: schemas (one for each input; None: known only after a run), seen ({number of an
input: the schema of its first rows}; run/unions.py fills it in)."""

from __future__ import annotations

from skate.data.op import Columns, Operator, Params


class Union(Operator):
    concatenates = predicates = True

    def sure(self, params: Params) -> bool:
        return True

    def columns(self, params: Params) -> Columns:
        return Columns()


operator = Union()
