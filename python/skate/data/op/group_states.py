"""group_states: as group_partial, with the states in the order of their keys: for who puts those of many tasks together while they come (run/partial.py)."""

from __future__ import annotations

from typing import Any

from skate import _lazy
from skate.data.op import Batches, Params
from skate.data.op.group_partial import GroupPartial

pc = _lazy.module("pyarrow.compute")


class GroupStates(GroupPartial):
    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        keys = [(f"k{i}", "ascending") for i in range(len(params["by"]))]
        for rb in super().run(params, batches, task):
            yield rb.take(pc.sort_indices(rb, keys)) if keys and rb.num_rows > 1 else rb


operator = GroupStates()
