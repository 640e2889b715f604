"""aggregate_map: the first half of an exchange that computes aggregates by group in the kernel
(kernel_aggregates.py). It yields sorted runs of states, and plain rows where aggregating them would hardly
reduce their number.

params: what (the description of the exchange in the plan's node), by, fns, names.
"""

from __future__ import annotations

from typing import Any

from skate import _skate
from skate.data.by_key import kernel_aggregates
from skate.data.op import Batches, Operator, Params
from skate.data.op.exchange_map import gathered
from skate.data.values import unify

# approximate bytes of input that are aggregated in one step; at most 1/8 of the bytes of the hash
# table
STEP = 4 << 20


def kernel(params: Params) -> Any:
    """Makes the aggregates of a node, computed by the kernel."""
    return kernel_aggregates.Kernel(params["by"], params["fns"], params["names"], params["label"])


class AggregateMap(Operator):
    packs = True

    def modules(self, params: Params) -> tuple[str, ...]:
        return ("skate.data.by_key.kernel_aggregates",)

    def run(self, params: Params, batches: Batches, task: Any) -> Any:
        of, row0 = kernel(params), 0
        for made in _made(of, params["what"], batches, task):
            rb = of.plain(made)
            yield from _skate.exchange_map(
                params["what"], rb, task.seq or 0, row0, None, task.values
            )
            row0 += rb.num_rows


def _made(of: Any, what: bytes, batches: Batches, task: Any) -> Batches:
    """Yields batches of states, and then the rows that were not aggregated. The states held are
    given out before they would exceed the limit of a map (MAP_BLOCKS), or a table exceed half a
    block's bytes: making the output needs about as much memory again."""
    most, share = _skate.MAP_BLOCKS * task.target, task.target // 2
    states = schema = empty = None
    rows: list[Any] = []  # rows that are passed on without aggregation
    taken = 0
    for rb in gathered(kernel_aggregates.rows_of(of, batches), min(STEP, share // 8), task.nbytes):
        if not rb.num_rows:
            empty = rb
            continue
        if states is None or taken > most or states.nbytes > share or not rb.schema.equals(schema):
            yield from _held(states, rows)
            states, schema, taken = of.states(what, rb), rb.schema, 0
        n = states.add(rb)
        if n < rb.num_rows:
            rows.append(rb.slice(n))
        taken += task.nbytes(rb)
    yield from _held(states, rows)
    if states is None and empty is not None:
        yield empty


def _held(states: Any, rows: list[Any]) -> Batches:
    """Yields the states, if there are any, then the rows, and empties both."""
    if states is not None and states.rows:
        yield states.batch()
    if rows:
        whole = unify.merge(rows)
        rows.clear()
        yield whole


operator = AggregateMap()
