"""aggregate: turns the rows of a task into states of aggregates, one row for each group, or one
group of all rows if there is no key (Dataset.aggregate, where the driver merges the tasks' states).

params: as in group_partial."""

from __future__ import annotations

from typing import Any

from skate._deps import pc
from skate.data import aggregate
from skate.data.by_key import kernel_aggregates, user_aggregates
from skate.data.op import Batches, Columns, Operator, Params
from skate.data.op.group_partial import GroupPartial, aggregates, used
from skate.data.values import selection


class Calls:
    """Merges the states of a list of aggregates that contains an aggregate of the user's
    (user_aggregates.py). It has the methods of kernel_aggregates.States."""

    def __init__(self, of: user_aggregates.Aggregates):
        self.of = of
        self.states: Any = None

    def add(self, batch: Any) -> None:
        """Merges a batch of states into those held."""
        self.states = self.of.combined([batch] if self.states is None else [self.states, batch])

    def add_rows(self, batches: Batches) -> None:
        """Aggregates the rows of blocks into the states held."""
        for states in self.of.made(batches):
            self.add(states)

    def batch(self) -> Any:
        return self.states

    def results(self, as_seen: bool = False) -> Any:
        made = self.of.results(self.states)
        if as_seen or not self.of.keys:
            return made
        order = [(f"{i}", "ascending") for i in range(len(self.of.keys))]
        keys = made.select(range(len(order))).rename_columns([name for name, _ in order])
        return selection.take(made, pc.sort_indices(keys, order))

    def values(self) -> list[Any] | None:
        """The results over all rows; None if there was no row."""
        return self.of.values(self.states) if self.states is not None else None


def _of(params: Params, wide: bool) -> kernel_aggregates.Kernel | user_aggregates.Aggregates:
    by, fns, names, label = (params[k] for k in ("by", "fns", "names", "label"))
    if aggregate.takes(fns, names):
        return kernel_aggregates.Kernel(by, fns, names, label, wide)
    return aggregates(params)


def _states(of: Any) -> Any:
    return kernel_aggregates.States(of) if isinstance(of, kernel_aggregates.Kernel) else Calls(of)


def states_of(params: Params, wide: bool = False) -> Any:
    """The object that aggregates rows and merges the states of tasks."""
    return _states(_of(params, wide))


class Aggregate(Operator):
    def columns(self, params: Params) -> Columns:
        return used(params)

    def decodes(self, params: Params) -> bool:
        return aggregate.takes(params["fns"], params["names"])

    def modules(self, params: Params) -> tuple[str, ...]:
        return () if self.decodes(params) else GroupPartial().modules(params)

    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        # all tasks of a stage share the parameters, so the aggregates are made once
        if "of" not in params:
            params["of"] = _of(params, wide=True)
        held = _states(params["of"])
        held.add_rows(batches)
        if held.states is not None:
            yield held.batch()


operator = Aggregate()
