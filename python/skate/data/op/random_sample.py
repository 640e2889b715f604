"""random_sample: keeps each row with a given probability. The choice depends on the row's place in
the task, not on the values of the row."""

from __future__ import annotations

from typing import Any

from skate._deps import np
from skate.data.op import Batches, Columns, Operator, Params
from skate.data.values import selection


class RandomSample(Operator):
    no_more = numbered = True

    def columns(self, params: Params) -> Columns:
        return Columns()

    def schema(self, params: Params, given: Any) -> Any:
        return given

    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        # the choice is a function of (task, seed, row), the same function as Ray's
        rng = np.random.default_rng([task.seq, params["seed"] & 0xFFFFFFFFFFFFFFFF])
        for rb in batches:
            yield selection.where(rb, rng.random(rb.num_rows) < params["fraction"])


operator = RandomSample()
