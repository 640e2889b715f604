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
from skate._deps import np, pa, pc
from skate.data import aggregate as ag
from skate.data import in_kernel
from skate.data.op import Batches, Params
from skate.data.op.aggregate_map import kernel, rows_of
from skate.data.op.group_partial import GroupPartial, aggregates
from skate.data.values import selection

SUM_OF, COUNT_OF = "\1sum {}", "\1count {}"  # names of what a mean's bound is worked out from
# begins the name of a column of products: "\1" and the number of the aggregate, then aa, ab or bb
PRODUCT = "\1"


class States:
    """States that the kernel makes and merges.

    Args:
        params: by, fns, names, label; of the node.
    """

    def __init__(self, params: Params):
        self.of = kernel(params)
        self.what = self.of.what()
        self.states: Any = None
        self.schemas: list[Any] = []  # of batches that it takes as it is
        # where these are several: the types that hold all, to which each is cast
        self.whole: Any = None

    def add(self, batch: Any) -> None:
        """Takes states, or rows."""
        if self.states is None:
            self.states = self.of.states(self.what, batch, True)
            self.schemas.append(batch.schema)
        if any(s.equals(batch.schema) for s in self.schemas):
            self.states.add(batch if self.whole is None else self.of.cast(batch, self.whole))
            return
        first, (held,) = self.of.unified([[self.states.batch(), batch]], None)
        self.states, self.whole = _skate.group_states(self.what, first, True), first.schema
        for b in held:
            self.states.add(b)
        self.schemas.append(batch.schema)

    def batch(self) -> Any:
        return self.of.plain(self.states.batch())

    def results(self, as_seen: bool = False) -> Any:
        """A row a group, in the order of the keys, or in that of batch()."""
        try:
            return self.states.results(as_seen)
        except OverflowError as e:
            raise OverflowError(f"{self.of.label}: {e}") from None


class Calls:
    """The same of aggregates of which one is the user's own (by_group.py)."""

    def __init__(self, params: Params):
        self.of = aggregates(params)
        self.states: Any = None

    def add(self, batch: Any) -> None:
        """Takes states."""
        self.states = self.of.combined([batch] if self.states is None else [self.states, batch])

    def batch(self) -> Any:
        return self.states

    def results(self, as_seen: bool = False) -> Any:
        made = self.of.results(self.states)
        if as_seen or not self.of.keys:
            return made
        order = [(f"{i}", "ascending") for i in range(len(self.of.keys))]
        keys = made.select(range(len(order))).rename_columns([name for name, _ in order])
        return selection.take(made, pc.sort_indices(keys, order))


def states_of(params: Params) -> Any:
    return (States if in_kernel.takes(params["fns"], params["names"]) else Calls)(params)


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


class GroupStates(GroupPartial):
    def modules(self, params: Params) -> tuple[str, ...]:
        return ("skate.data.in_kernel", *super().modules(params))

    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        held = states_of(params)
        for rb in (
            rows_of(held.of, batches)
            if isinstance(held, States)
            else super().run(params, batches, task)
        ):
            held.add(rb)
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
