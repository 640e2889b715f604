"""exchange_reduce: the second half of an exchange: makes the rows of some partitions from slices of
packs or sorted runs. If runs are cut, one of its tasks first decides where.

params: what (the description of the exchange in the plan's node, which C reads, too), keys. C code
moves the rows (src/shuffle/work.h). Slices of different schemas are first cast to one schema
(values/unify.py), and so are the keys of all runs for the cut.
"""

from __future__ import annotations

from typing import Any

from skate import _skate
from skate._deps import pa
from skate.data.op import Operator, Params
from skate.data.values import unify


class ExchangeReduce(Operator):
    exchange = True

    def run(self, params: Params, batches: Any, task: Any) -> Any:
        """For the last operator of a stage, yields BlockOuts, which are written into their blocks
        at once; otherwise yields batches."""
        x = task.exchange
        if x.phase == _skate.PHASE_CUT:
            yield from cut(params["what"], params["keys"], [part.blocks for part in x.parts], x.n)
            return
        # Only the last operator of a task stops at the cap: operators that are fused after a reduce
        # may drop rows
        stops, left = params["last"] and task.cap >= 0, task.cap
        for out in self.reduced(params, x, task.target):
            yield out if params["last"] else out.batch()
            left -= out.num_rows
            if stops and left <= 0:
                return

    def reduced(self, params: Params, x: Any, target: int) -> Any:
        """The BlockOuts of a reduce."""
        return reduced(params, x, target)


def cut(what: bytes, keys: list[str], samples: list[Any], n: int) -> Any:
    """The output of the task that decides the cut (exec.h)."""
    work = _skate.exchange_cut(what, samples, n)
    if work is None:
        batches = [_skate.blocks(s)[0] for s in samples]
        # samples have numbers as names of columns; the real names are put back, for errors
        batches = [b.rename_columns([*keys, *b.schema.names[len(keys) :]]) for b in batches]
        schema = unify.unify([b.schema for b in batches])
        work = _skate.exchange_cut(what, [[unify.cast_batch(b, schema)] for b in batches], n)
    return work


def reduced(params: Params, x: Any, target: int) -> Any:
    """The BlockOuts of a reduce."""
    slices = [(part.blocks, part.run, part.rows > 0, part.row) for part in x.parts]
    how = (x.first, x.end, x.n, target, x.bounds)
    work = _skate.exchange_reduce(params["what"], slices, *how)
    if work is None:
        slices = [
            (batches, part.run, part.rows > 0, part.row)
            for batches, part in zip(in_one_schema(params["keys"], x), x.parts, strict=True)
        ]
        work = _skate.exchange_reduce(params["what"], slices, *how)
    return work


def in_one_schema(keys: list[str], x: Any) -> list[list[Any]]:
    """The batches of each slice, cast to a schema that holds them all, and the keys in the same
    types as the bounds."""
    slices = [_skate.blocks(part.blocks) for part in x.parts]
    schemas = [rb.schema for batches in slices for rb in batches]
    if x.bounds is not None:
        bounds = _skate.blocks(x.bounds)[0].schema
        schemas.append(
            pa.schema([pa.field(key, bounds.field(i).type) for i, key in enumerate(keys)])
        )
    schema = unify.unify(schemas)
    return [[unify.cast_batch(rb, schema) for rb in batches] for batches in slices]


operator = ExchangeReduce()
