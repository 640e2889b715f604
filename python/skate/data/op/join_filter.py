"""join_filter: drops rows that have no partner on the other side of a join, so that an exchange
need not move them. A Bloom filter holds the keys of the other side. A task in which most rows pass
stops filtering. params: keys, filter (bytes). run/join_sizing.py makes this operator."""

from __future__ import annotations

from typing import Any

from skate import _skate
from skate._deps import pa
from skate.data.op import Batches, Operator, Params
from skate.data.values import selection

LOOK = 32 << 10  # rows of a task after which the benefit of the filter is checked
PAYS = 0.7  # the filter is switched off if a larger share of rows passes


class JoinFilter(Operator):
    no_more = by_row = True

    def run(self, params: Params, batches: Batches, task: Any) -> Any:
        seen = passed = 0
        for rb in batches:
            if (
                not rb.num_rows
                or (seen >= LOOK and passed > PAYS * seen)
                or not all(k in rb.schema.names for k in params["keys"])
            ):
                yield rb
                continue
            keys = pa.RecordBatch.from_arrays(
                [rb.column(k) for k in params["keys"]], names=params["keys"]
            )
            index = _skate.bloom_select(params["filter"], keys)
            n = len(index) // 4
            seen += rb.num_rows
            passed += n
            yield (
                rb
                if n == rb.num_rows
                else selection.take(
                    rb, pa.Array.from_buffers(pa.uint32(), n, [None, pa.py_buffer(index)])
                )
            )


operator = JoinFilter()
