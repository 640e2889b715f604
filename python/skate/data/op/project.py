"""project: computes columns from expressions over the old columns, and appends them, replaces
columns of the same name, or drops the old ones."""

from __future__ import annotations

from typing import Any

from skate.data import expressions
from skate.data.expr import evaluation as evaluation
from skate.data.expr import numbering
from skate.data.op import ALL, ITS_OWN, Batches, Columns, Operator, Params
from skate.data.values import to_arrow
from skate.data.worker import rows


class Project(Operator):
    one_to_one = on_error = predicates = True

    def columns(self, params: Params) -> Columns:
        used: list[Any] = [expressions.columns_of(e) for _, e in params["exprs"]]
        if None in used:
            return ALL
        return Columns(
            needs=frozenset[str]().union(*used),
            makes=frozenset(name for name, _ in params["exprs"]),
            keeps=None if params["keep"] else ITS_OWN,
        )

    def modules(self, params: Params) -> tuple[str, ...]:
        return ("pyarrow.compute",)

    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        exprs, keep = params["exprs"], params["keep"]

        def work(rb: Any) -> list[Any]:
            with numbering.numbering.kept_on_error():
                made = {name: evaluation.column(e, rb) for name, e in exprs}
            cols = {**(dict(zip(rb.schema.names, rb.columns, strict=True)) if keep else {}), **made}
            out: list[Any] = to_arrow.record_batches(list(cols), list(cols.values()))
            return out

        return rows.by_batch(params, batches, task, work)


operator = Project()
