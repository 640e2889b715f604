"""exchange_merge: runs between the halves of an exchange. It merges packs of the same partitions
into one pack, or sorted runs into one run, so that reduces read fewer and longer parts. The
strategy decides how many are merged (src/shuffle/shuffle.h), or that there are no merges.

params: what (the description of the exchange in the plan's node, which C reads, too). C code moves
the rows (src/shuffle/work.h); packs of different schemas are first cast to one schema, as in a
reduce.
"""

from __future__ import annotations

from typing import Any

from skate import _skate
from skate.data.op import Operator, Params
from skate.data.values import unify


class ExchangeMerge(Operator):
    packs = merge = True

    def run(self, params: Params, batches: Any, task: Any) -> Any:
        x = task.exchange
        work = _merge(params, x, task, [part.blocks for part in x.parts])
        yield from self.cast(params, x, task) if work is None else work

    def cast(self, params: Params, x: Any, task: Any) -> Any:
        """Merges packs of different schemas."""
        packs = [_skate.blocks(part.blocks) for part in x.parts]
        schema = unify.unify([rb.schema for pack in packs for rb in pack])
        same = [[unify.cast_batch(rb, schema) for rb in pack] for pack in packs]
        return _merge(params, x, task, same)


def _merge(params: Params, x: Any, task: Any, packs: list[Any]) -> Any:
    return _skate.exchange_merge(
        params["what"],
        [(pack, part.lengths) for pack, part in zip(packs, x.parts, strict=True)],
        x.first,
        x.end - x.first,
        task.values,
        task.target,
    )


operator = ExchangeMerge()
