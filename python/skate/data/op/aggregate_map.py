"""aggregate_map: the first half of an exchange that computes aggregates by group in the kernel
(kernel_aggregates.py). It yields sorted runs of states, and of plain rows where there would not be a quarter
as many states.

params: what (the description of the exchange in the plan's node), by, fns, names.
"""

from __future__ import annotations

from typing import Any

from skate import _skate
from skate.data.by_key import kernel_aggregates
from skate.data.op import Batches, Operator, Params
from skate.data.op.exchange_map import gathered
from skate.data.values import unify

# approximate bytes of input that are aggregated in one step; at most 1/8 of the bytes of the table
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
    """Yields batches of states, or of rows where states would not be a quarter as many. Rows are
    held until it is known that states are worth it, up to the limit of a map (MAP_BLOCKS); states
    until their table is as large as the task may make it."""
    most = _skate.MAP_BLOCKS * task.target
    states = schema = empty = None
    worth, held_bytes = False, 0
    held: list[Any] = []  # rows of which it is not known yet
    for rb in gathered(
        kernel_aggregates.rows_of(of, batches), min(STEP, task.table // 8), task.nbytes
    ):
        if not rb.num_rows:
            empty = rb
            continue
        if states is None or (worth and states.nbytes > task.table) or not rb.schema.equals(schema):
            yield from _given(states, held)
            states, schema, worth, held_bytes = of.states(what, rb), rb.schema, False, 0
        if worth:
            states.add(rb)
            continue
        size = task.nbytes(rb)
        if held and held_bytes + size > most:
            # what `states` saw of the keys stays, as they may repeat later
            yield _whole(held)
            held_bytes = 0
        held.append(rb)
        held_bytes += size
        worth = states.judge(rb)
        if worth:
            _add(states, held)
    yield from _given(states, held)
    if states is None and empty is not None:
        yield empty


def _whole(held: list[Any]) -> Any:
    """The batches of the list as one; empties the list."""
    whole = unify.merge(held)
    held.clear()
    return whole


def _add(states: Any, held: list[Any]) -> None:
    for rb in held:
        states.add(rb)
    held.clear()


def _given(states: Any, held: list[Any]) -> Batches:
    """Yields the states, if there are any, or the rows that are held, and empties the list."""
    if states is not None and states.few:
        _add(states, held)
    if states is not None and states.rows:
        yield states.batch()
    if held:
        yield _whole(held)


operator = AggregateMap()
