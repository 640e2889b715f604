"""map_groups: a user's function over groups: rows of equal keys, which come one behind the other and whole. A group is one call, however large it is."""

from __future__ import annotations

from typing import Any

from skate import _lazy
from skate.data.op import Batches, Operator, Params
from skate.data.op.map_batches import called

by_group = _lazy.module("skate.data.by_group")
unify = _lazy.module("skate.data.values.unify")
tasks = _lazy.module("skate.data.worker.task")


class MapGroups(Operator):
    def modules(self, params: Params) -> tuple[str, ...]:
        return ("pyarrow.compute", "skate.data.by_group", *super().modules(params))

    def frames(self, params: Params) -> bool:
        return bool(params["batch_format"] == "pandas")

    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        row = 0
        for rb in groups(params, batches):
            n = rb.num_rows
            task.at_hand(params, tasks.BATCH, row, rb)
            try:
                yield from called(params, rb)
            except GeneratorExit:
                raise
            except BaseException as e:
                key = {k: v[0] for k, v in rb.slice(0, 1).select(params["keys"]).to_pydict().items()}
                task.note(e, params, f"the group {key}, input rows {row}..{row + n - 1}", row, rb)
                raise
            row += n


def groups(params: Params, batches: Batches) -> Batches:
    """The rows of each group. Those of the last one of a batch may go on in the next."""
    runs = by_group.Runs(params["keys"], params["label"])
    held: list[Any] = []
    for rb in batches:
        if not rb.num_rows:
            continue
        for i, part in enumerate(runs.groups(rb).slices(rb)):
            if held and not (i == 0 and runs.goes_on(held, part)):
                yield unify.merge(held)
                held = []
            held.append(part)
    if held:
        yield unify.merge(held)


operator = MapGroups()
