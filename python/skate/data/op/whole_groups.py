"""whole_groups: makes blocks that end at the end of a group, for operators that need whole groups.
The rows arrive in the order of their keys."""

from __future__ import annotations

from typing import Any

from skate.data.by_key import user_aggregates
from skate.data.op import Batches, Operator, Params
from skate.data.values import unify


class WholeGroups(Operator):
    one_to_one = makes_blocks = True

    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        runs = user_aggregates.Runs(params["keys"], params["label"])
        held: list[Any] = []
        size = 0
        for rb in batches:
            if not rb.num_rows:
                continue
            begins = int(runs.groups(rb).first[-1])  # the first row of the last group of rb
            n = task.nbytes(rb)
            if (begins or not runs.goes_on(held, rb)) and held and size + n >= task.target:
                yield unify.merge([*held, rb.slice(0, begins)] if begins else held)
                held, size = [], 0
                rb = rb.slice(begins)
                n = task.nbytes(rb)
            held.append(rb)
            size += n
        if held:
            yield unify.merge(held)


operator = WholeGroups()
