"""aggregate_reduce: the second half of an exchange that computes aggregates by group in the kernel
(kernel_aggregates.py): one row for each group, in the order of the keys. params: as in aggregate_map, and
keys."""

from __future__ import annotations

from typing import Any

from skate import _skate
from skate.data.op import Params
from skate.data.op.aggregate_map import kernel
from skate.data.op.exchange_reduce import ExchangeReduce


class AggregateReduce(ExchangeReduce):
    def modules(self, params: Params) -> tuple[str, ...]:
        return ("skate.data.by_key.kernel_aggregates",)

    def reduced(self, params: Params, x: Any, target: int) -> Any:
        beside = [] if x.bounds is None else [x.bounds]

        def work(slices: list[Any]) -> Any:
            return _skate.exchange_reduce(
                params["what"], slices, x.first, x.end, x.n, target, beside
            )

        try:
            made = work([(p.blocks, p.run, p.rows > 0, p.row) for p in x.parts])
            if made is None:
                bounds = None if x.bounds is None else _skate.blocks(x.bounds)[0]
                first, slices = kernel(params).unified(
                    [_skate.blocks(p.blocks) for p in x.parts], bounds
                )
                made = work(
                    [
                        ([first], 0, False, 0),
                        *(
                            (s, p.run, p.rows > 0, p.row)
                            for s, p in zip(slices, x.parts, strict=True)
                        ),
                    ]
                )
            yield from made
        except OverflowError as e:
            raise OverflowError(f"{params['label']}: {e}") from None


operator = AggregateReduce()
