"""group_states: rows become states of aggregates by group, a row a group, and go as blocks: for who puts those of many tasks together while they come (run/partial.py). params: as
group_partial."""

from __future__ import annotations

from typing import Any

from skate import _lazy
from skate.data.op import Batches, Params
from skate.data.op.aggregate_map import kernel, rows_of
from skate.data.op.group_partial import GroupPartial

in_kernel = _lazy.module("skate.data.in_kernel")


class GroupStates(GroupPartial):
    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        if not in_kernel.takes(params["fns"], params["names"]):
            yield from super().run(params, batches, task)
            return
        of = kernel(params)
        what = of.what()
        states = schema = None
        for rb in rows_of(of, batches):
            if states is None or not rb.schema.equals(schema):
                if states is not None:
                    yield of.plain(states.batch())
                states, schema = of.states(what, rb, True), rb.schema
            states.add(rb)
        if states is not None:
            yield of.plain(states.batch())


operator = GroupStates()
