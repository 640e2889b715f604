"""conform: casts rows to a schema that can hold all their values: it changes types, and adds
columns of nulls that only other inputs of a union have (run/unions.py).

params: schema, lacks (names of columns that the input does not have), seen (whether the input's
schema is known from its first rows only), sure (whether no cast can fail)."""

from __future__ import annotations

from typing import Any

from skate._deps import pa
from skate.data.op import ALL, Batches, Columns, Operator, Params
from skate.data.values import unify


class Conform(Operator):
    one_to_one = by_row = True

    def sure(self, params: Params) -> bool:
        return bool(params["sure"])

    def columns(self, params: Params) -> Columns:
        """The operator may read all columns, because later rows may have columns that the first
        rows lack."""
        return ALL if params["seen"] else Columns(makes=frozenset(params["lacks"]))

    def looks(self, params: Params) -> bool:
        return False

    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        has, to = None, None
        for rb in batches:
            if has is None or not rb.schema.equals(has):
                has, to = rb.schema, fitting(params, rb.schema)
            try:
                out = unify.cast_batch(rb, to)
            except TypeError as e:
                raise unify.retold(e, "union: ", "") from None
            yield out


def fitting(params: Params, has: Any) -> Any:
    """The target schema for one batch: without the columns that a projection removed, and with the
    columns of the batch that the target does not name, unchanged."""
    lacks, fields = set(params["lacks"]), []
    for f in params["schema"]:
        i = has.get_field_index(f.name)
        if i >= 0:
            wide = unify.promoted(has.field(i).type, f.type)
            fields.append(
                f if wide is None and not params["seen"] else f.with_type(wide or has.field(i).type)
            )
        elif f.name in lacks:
            fields.append(f)
    known = set(params["schema"].names)
    return pa.schema([*fields, *(f for f in has if f.name not in known)])


operator = Conform()
