"""filter: keeps the rows for which a user's function or an expression is true (null counts as
false)."""

from __future__ import annotations

from typing import Any

from skate._deps import np, pa
from skate.data import expressions
from skate.data.expr import evaluation as evaluation
from skate.data.expr import numbering
from skate.data.op import ALL, Batches, Columns, Operator, Params
from skate.data.values import encoded_text, selection
from skate.data.worker import rows


class Filter(Operator):
    no_more = by_row = on_error = predicates = True

    def columns(self, params: Params) -> Columns:
        used = None if params.get("expr") is None else expressions.columns_of(params["expr"])
        return ALL if used is None else Columns(needs=frozenset(used))

    def schema(self, params: Params, given: Any) -> Any:
        return given

    def predicate(self, params: Params) -> Any:
        return params.get("expr")

    def modules(self, params: Params) -> tuple[str, ...]:
        return ("skate.data.expr.evaluation",) if params.get("expr") is not None else ()

    def encoded(self, params: Params) -> bool:
        return params.get("expr") is not None

    def narrowed(self, params: Params, columns: set[str]) -> Params | None:
        """Drops columns from the output that only the test needs: the test reads them, but they are
        not filtered."""
        return None if params.get("expr") is None else {**params, "keep": columns}

    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        if params.get("expr") is not None:
            test, used, keep = (
                evaluation.mask,
                expressions.columns_of(params["expr"]),
                params.get("keep"),
            )

            def kept(rb: Any) -> list[Any]:
                with numbering.numbering.kept_on_error():
                    mask = test(params["expr"], encoded_text.plain_columns(rb, used))
                if keep is not None:
                    # one column stays at least, because the number of rows must be known
                    few = [n for n in rb.schema.names if n in keep] or rb.schema.names[:1]
                    rb = rb.select(few) if len(few) < rb.num_columns else rb
                return [
                    selection.where(rb, mask)
                    if isinstance(mask, pa.Array)
                    else rb.slice(0, rb.num_rows if mask.as_py() else 0)
                ]

            return rows.by_batch(params, batches, task, kept)

        def build(got: list[Any], rb: Any) -> list[Any]:
            keep = [True if v else False for v in got]
            return [rb if all(keep) else selection.where(rb, np.array(keep, bool))]

        return rows.by_row(params, batches, task, lambda got: None, build, keeps=True)


operator = Filter()
