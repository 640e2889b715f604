"""group_partial: turns rows into states of aggregates, one row for each group (user_aggregates.py), before
an exchange brings the states of a group together. params: by (the key's columns), fns, names,
one_key (whether init() of a user's aggregate gets a single key as it is, and not as a tuple)."""

from __future__ import annotations

from typing import Any

from skate.data.by_key import user_aggregates
from skate.data.op import ALL, ITS_OWN, Batches, Columns, Operator, Params


def aggregates(params: Params) -> Any:
    """Makes the aggregates of a node."""
    return user_aggregates.Aggregates(
        params["by"], params["fns"], params["names"], params["one_key"], params["label"]
    )


def used(params: Params) -> Columns:
    """Which columns the aggregates read and make."""
    each = [f.columns() for f in params["fns"]]
    return (
        ALL if None in each else Columns(needs=frozenset(params["by"]).union(*each), keeps=ITS_OWN)
    )


class GroupPartial(Operator):
    def columns(self, params: Params) -> Columns:
        return used(params)

    def modules(self, params: Params) -> tuple[str, ...]:
        return ("pyarrow.compute", "skate.data.by_key.user_aggregates")

    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        yield from aggregates(params).made(batches)


operator = GroupPartial()
