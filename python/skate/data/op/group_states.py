"""group_states: turns the rows of a task into states of aggregates, one row for each group, with
the numbers from which the error bounds of results are computed (src/shuffle/online.h). A task's
unit is several pieces of the input. run/partial.py merges the states of the tasks as they arrive.
task.about has the number of pieces, and whether bounds are wanted.

params: as in group_partial; user: the number of aggregates that the user asked for; the aggregates
behind them were added for the bounds of means.
"""

from __future__ import annotations

from typing import Any

from skate import _skate
from skate._deps import np, pa
from skate.data import aggregate as ag
from skate.data.op import Batches, Params
from skate.data.op.aggregate import Aggregate, states_of

SUM_OF, COUNT_OF = "\1sum {}", "\1count {}"  # columns from which the bound of a mean is computed
# prefix of the names of columns of products; the aggregate's number and aa, ab or bb follow it
PRODUCT = "\1"


def bounded(params: Params) -> dict[int, tuple[int, ...]]:
    """For each aggregate that has error bounds, by number: the result columns that its bound needs:
    (column of sums or counts,), or for a mean (column of sums, column of counts)."""
    out: dict[int, tuple[int, ...]] = {}
    n = len(params["by"])
    for i, f in enumerate(params["fns"][: params["user"]]):
        if type(f) is ag.Mean:
            at = n + params["names"].index(SUM_OF.format(i))
            out[i] = (at, at + 1)
        elif type(f) in (ag.Sum, ag.Count):
            out[i] = (n + i,)
    return out


def doubles(values: Any) -> Any:
    """Converts the numbers of an Arrow column to doubles."""
    return np.ascontiguousarray(values.cast("float64", safe=False).to_numpy(zero_copy_only=False))


class GroupStates(Aggregate):
    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        held = states_of(params)
        held.add_rows(batches)
        if held.states is not None:
            pieces, bounds = task.about
            yield with_products(params, held, pieces) if bounds else held.batch()


def with_products(params: Params, held: Any, pieces: int) -> Any:
    """Yields the states with the columns of products that the bounds need."""
    states = held.batch()
    try:
        results = held.results(True)
    except OverflowError:  # the sum of this part overflows: the part counts as one without a value
        results = None
    for i, columns in bounded(params).items():
        of = tuple(
            np.full(len(states), np.nan) if results is None else doubles(results.column(c))
            for c in columns
        )
        for which, made in zip(
            ("aa", "ab", "bb"), _skate.online_products(pieces, of), strict=False
        ):
            states = states.append_column(f"{PRODUCT}{i}{which}", pa.array(np.frombuffer(made)))
    return states


operator = GroupStates()
