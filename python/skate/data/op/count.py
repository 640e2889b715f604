"""count: yields one row for each task: the number of the task's rows; the caller adds these up."""

from __future__ import annotations

from typing import Any

from skate._deps import pa
from skate.data.op import Batches, Operator, Params
from skate.data.values import to_arrow


class Count(Operator):
    counts = True

    def looks(self, params: Params) -> bool:
        return False

    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        n = sum(rb.num_rows for rb in batches)
        yield pa.RecordBatch.from_arrays([to_arrow.from_objects([n], None)], names=["count"])


operator = Count()
