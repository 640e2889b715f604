"""split_rows: keeps the rows of one side of streaming_train_test_split. The side of a row follows
from (seed, task, row), or from the value of a column."""

from __future__ import annotations

import zlib
from typing import Any

from skate._deps import np
from skate.data.op import Batches, Operator, Params
from skate.data.values import selection
from skate.data.worker import rows


class SplitRows(Operator):
    no_more = alone = numbered = True

    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        rng = np.random.Generator(
            np.random.Philox(key=[params["seed"] & 0xFFFFFFFFFFFFFFFF, task.seq])
        )
        for rb in batches:
            if params["column"] is None:
                test = rng.random(rb.num_rows) < params["share"]
            else:
                i = rb.schema.get_field_index(params["column"])
                if i < 0:
                    raise rows.missing(params["column"], rb, params["label"])
                test = (
                    np.array(
                        [zlib.crc32(repr(v).encode()) for v in rb.column(i).to_pylist()], np.uint32
                    )
                    < params["share"] * 2**32
                )
            yield selection.where(rb, test if params["test"] else ~test)


operator = SplitRows()
