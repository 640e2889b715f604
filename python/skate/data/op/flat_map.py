"""flat_map: applies a user function that makes any number of rows of one row."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from skate.data.op import Batches, Operator, Params
from skate.data.values import batch, row_dicts
from skate.data.worker import rows


class FlatMap(Operator):
    by_row = on_error = True

    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        label = params["label"]

        def check(got: list[Any]) -> None:
            if not set(map(type, got)) <= {list, tuple}:
                for i, g in enumerate(got):
                    if (
                        g is None
                        or isinstance(g, (Mapping, str, bytes))
                        or not isinstance(g, Iterable)
                    ):
                        raise ValueError(
                            f"{label} returned {batch.named(g)} for row {i} of its batch; return a list of dicts (rows)"
                        )
                    if not isinstance(g, (list, tuple)):
                        got[i] = list(g)

        def build(got: list[Any], rb: Any) -> list[Any]:
            out = list(itertools.chain.from_iterable(got))
            rows.check(out, label, "a list of dicts (rows)")
            made: list[Any] = row_dicts.rows_to_batches(out, label, rb)
            return made

        return rows.by_row(params, batches, task, check, build, lists=True)


operator = FlatMap()
