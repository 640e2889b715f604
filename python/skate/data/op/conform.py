"""conform: the same rows in a schema that holds them exactly: other types, columns of nulls that other inputs of a union have (Dataset.union)."""

from __future__ import annotations

from typing import Any

from skate import _lazy
from skate.data.op import Batches, Columns, Operator, Params

pa = _lazy.module("pyarrow")
unify = _lazy.module("skate.data.values.unify")


class Conform(Operator):
    one_to_one = by_row = True

    def columns(self, params: Params) -> Columns:
        return Columns(makes=frozenset(params["lacks"]))

    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        """Columns that nobody asked the input for stay away."""
        whole, lacks = params["schema"], set(params["lacks"])
        for rb in batches:
            have = lacks.union(rb.schema.names)
            to = whole if have.issuperset(whole.names) else pa.schema([f for f in whole if f.name in have])
            try:
                out = unify.cast_batch(rb, to)
            except TypeError as e:
                raise TypeError(f"union: {e}") from None
            yield out


operator = Conform()
