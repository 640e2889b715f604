"""map_groups: applies a user function to groups. group_rows has put the rows of a group next to
each other into one batch. Each group is one call, however large it is.

DataFrames of groups are slices of one DataFrame of the batch, and DataFrames that the function
returns are concatenated before they become columns: pandas takes 0.1 ms for each step, whatever the
size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from skate.data.by_key import user_aggregates
from skate.data.op import Batches, Operator, Params
from skate.data.op.map_batches import called, returned
from skate.data.values import batch, frame_groups
from skate.data.worker import task as tasks


class MapGroups(Operator):
    def modules(self, params: Params) -> tuple[str, ...]:
        return ("skate.data.by_key.user_aggregates", *super().modules(params))

    def frames(self, params: Params) -> bool:
        return bool(params["batch_format"] == "pandas")

    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        runs = user_aggregates.Runs(params["keys"], params["label"])
        each = _of_frames if params["batch_format"] == "pandas" else _of_batches
        row = 0
        for rb in batches:
            if rb.num_rows:
                place = _Place(params, task, rb, row)
                sizes = runs.groups(rb).sizes.tolist()
                try:
                    yield from each(params, rb, sizes, place)
                except GeneratorExit:
                    raise
                except BaseException as e:
                    place.note(e)
                    raise
                row += rb.num_rows


class _Place:
    """The group that the function is called for, for the text of an error."""

    def __init__(self, params: Params, task: Any, rb: Any, row: int):
        self.params, self.task, self.rb, self.row = params, task, rb, row
        self.at, self.n = 0, rb.num_rows

    def move(self, at: int, n: int) -> Any:
        """Sets the group to rows [at, at + n) of the batch, and returns them."""
        self.at, self.n = at, n
        rows = self.rb.slice(at, n)
        self.task.at_hand(self.params, tasks.BATCH, self.row + at, rows)
        return rows

    def note(self, e: BaseException) -> None:
        rows = self.rb.slice(self.at, self.n)
        key = ", ".join(
            f"{k}={v[0]!r}"
            for k, v in rows.slice(0, 1).select(self.params["keys"]).to_pydict().items()
        )
        first = self.row + self.at
        self.task.note(
            e,
            self.params,
            f"the group {key or 'of all rows'}, input rows {first}..{first + self.n - 1}",
            first,
            rows,
        )


def _of_batches(params: Params, rb: Any, sizes: list[int], place: _Place) -> Batches:
    at = 0
    for n in sizes:
        yield from called(params, place.move(at, n))
        at += n


def _of_frames(params: Params, rb: Any, sizes: list[int], place: _Place) -> Iterator[Any]:
    frames, held = frame_groups.Frames(rb), frame_groups.Held(params["label"], rb)
    at = 0
    for n in sizes:
        rows = place.move(at, n)
        for out in returned(params, frames.of(at, rows)):
            if held.takes(out):
                if held.full():
                    yield from held.batches()
            else:
                yield from held.batches()
                yield from batch.from_batch(out, params["label"], rows)
        at += n
    yield from held.batches()


operator = MapGroups()
