"""group_states: rows of a task become states of aggregates by group, a row a group, with what they
add to the bounds of results (src/shuffle/online.h): for who puts those of many tasks together while
they come (run/partial.py). A task's unit is several pieces, and says how many, and whether bounds
are wanted (task.about).

params: as group_partial; user: how many of the aggregates are the user's, behind which are those
that bounds of means are worked out from.
"""

from __future__ import annotations

from typing import Any

from skate import _skate
from skate._deps import np, pa
from skate.data import aggregate as ag
from skate.data.op import Batches, Params
from skate.data.op.aggregate import Aggregate, states_of

SUM_OF, COUNT_OF = "\1sum {}", "\1count {}"  # names of what a mean's bound is worked out from
# begins the name of a column of products: "\1" and the number of the aggregate, then aa, ab or bb
PRODUCT = "\1"


def bounded(params: Params) -> dict[int, tuple[int, ...]]:
    """By the number of an aggregate of which there are bounds: the columns of results with its sums
    or counts, (a,), or of a mean with sums and counts, (a, b)."""
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
    """Numbers of an Arrow column as doubles."""
    return np.ascontiguousarray(values.cast("float64", safe=False).to_numpy(zero_copy_only=False))


class GroupStates(Aggregate):
    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        held = states_of(params)
        held.add_rows(batches)
        if held.states is not None:
            pieces, bounds = task.about
            yield with_products(params, held, pieces) if bounds else held.batch()


def with_products(params: Params, held: Any, pieces: int) -> Any:
    """The states, and columns of what they add to bounds."""
    states = held.batch()
    try:
        results = held.results(True)
    except OverflowError:  # of a part, which other parts may bring back: as if it had no value
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
