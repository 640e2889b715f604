"""exchange_reduce: the second half of an exchange: makes the rows of some partitions from slices of
packs or sorted runs. Where sorted runs have to be divided at keys, one task of this operator first
decides at which keys.

params: what (the description of the exchange in the plan's node, which C reads, too), keys. C code
moves the rows (src/shuffle/work.h). Slices of different schemas are first cast to one schema
(values/unify.py), and so are the keys of all runs before the cut is decided.
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
        at once; otherwise yields batches. A match report, which a split reduce yields first, is a
        BlockOut in any case."""
        x = task.exchange
        if x.phase == _skate.PHASE_CUT:
            yield from cut(params["what"], params["keys"], [part.blocks for part in x.parts], x.n)
            return
        # Only the last operator of a task stops after `cap` rows: operators that are fused behind
        # a reduce may drop rows.
        stops, left = params["last"] and task.cap >= 0, task.cap
        report = x.phase == _skate.PHASE_SPLIT_REDUCE
        for out in self.reduced(params, x, task.target):
            yield out if params["last"] or report else out.batch()
            report = False
            left -= out.num_rows
            if stops and left <= 0:
                return

    def reduced(self, params: Params, x: Any, target: int) -> Any:
        """Yields the BlockOuts of a reduce."""
        return reduced(params, x, target)


def cut(what: bytes, keys: list[str], samples: list[Any], n: int) -> Any:
    """The output of the task that decides the cut (PHASE_CUT)."""
    work = _skate.exchange_cut(what, samples, n)
    if work is None:
        batches = [_skate.blocks(s)[0] for s in samples]
        # the columns of samples are named by numbers; errors need the real names
        batches = [b.rename_columns([*keys, *b.schema.names[len(keys) :]]) for b in batches]
        schema = unify.unify([b.schema for b in batches])
        work = _skate.exchange_cut(what, [[unify.cast_batch(b, schema)] for b in batches], n)
    return work


def reduced(params: Params, x: Any, target: int) -> Any:
    """Yields the BlockOuts of a reduce."""
    slices = [(part.blocks, part.run, part.rows > 0, part.row) for part in x.parts]
    how = (x.first, x.end, x.n, target, [] if x.bounds is None else [x.bounds])
    work = _skate.exchange_reduce(params["what"], slices, *how)
    if work is None:
        slices = [
            (batches, part.run, part.rows > 0, part.row)
            for batches, part in zip(in_one_schema(params["keys"], x), x.parts, strict=True)
        ]
        work = _skate.exchange_reduce(params["what"], slices, *how)
    return work


def in_one_schema(keys: list[str], x: Any) -> list[list[Any]]:
    """Returns the batches of each slice, cast to a schema that can hold them all. Casts the keys to
    the types that the bounds have."""
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
