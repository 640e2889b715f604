"""Batches that _skate.Rows (src/py/data/rows.c) gathers from a stream of blocks. C code makes the
memory of a batch, and columns of numbers are arrays over this memory; only other columns are
converted through Arrow."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from skate import _skate
from skate._deps import np, pa
from skate.data.values.from_arrow import column_to_numpy, form_of
from skate.data.values.unify import cast_batch


class Planned:
    """A batch that is not gathered yet; any thread may gather it at any time.

    Args:
        plan: A plan of _skate.Rows.
        columns: A Columns object for the schema.
    """

    __slots__ = ("columns", "num_rows", "plan")

    def __init__(self, plan: Any, columns: Columns):
        self.plan, self.columns, self.num_rows = plan, columns, plan.num_rows

    def batch(self) -> pa.RecordBatch:
        """Gathers the batch as an Arrow record batch."""
        memory, _ = self.plan.write()
        return _skate.block(memory, memory)

    def arrays(self, alloc: Any = None) -> tuple[dict[str, np.ndarray], list[str]]:
        """Gathers the batch into memory from alloc(bytes). Returns (arrays by column, names of the
        columns that were converted as by to_numpy()). All other arrays are in that memory, and may
        be written."""
        n = self.num_rows
        memory, where = self.plan.write(alloc)
        out: dict[str, Any] = {}
        converted: list[str] = []
        for (name, dtype, shape, width), at in zip(self.columns.forms, where, strict=True):
            if at is None or at[1] != n * width:
                converted.append(name)
                out[name] = None  # reserves the column's place in the order
            else:
                out[name] = np.ndarray((n, *shape), dtype, memory, at[0])
        if converted:
            batch = _skate.block(memory, memory)
            for name in converted:
                out[name] = column_to_numpy(name, batch.column(batch.schema.names.index(name)))
        return out, converted

    def numpy(self) -> dict[str, np.ndarray]:
        """Gathers the batch in the form of to_numpy()."""
        out, converted = self.arrays()
        for name, v in out.items():
            if name not in converted:
                v.setflags(write=False)
        return out


class Columns:
    """For each column of a schema (name, dtype, shape of a row, bytes of a row), for an array over
    its values; -1 bytes: the column is of another kind."""

    def __init__(self, schema: pa.Schema):
        self.schema, self.forms = schema, []
        for name, t in zip(schema.names, schema.types, strict=True):
            dtype, shape = form_of(t) or (None, ())
            self.forms.append(
                (name, dtype, shape, -1 if dtype is None else dtype.itemsize * math.prod(shape))
            )


class Gather:
    """Gathers batches from a stream of blocks, in the order that a _skate.Rows decides. The schema
    of the blocks may become wider, and change in no other way."""

    def __init__(self, rows: Any):
        self.rows = rows
        self.columns: Any = None

    def add(self, rb: pa.RecordBatch) -> None:
        """Reads the next block of the stream."""
        schema = rb.schema
        if self.columns is None:
            self.columns = Columns(schema)
        elif schema is not self.columns.schema and not schema.equals(
            self.columns.schema, check_metadata=True
        ):
            if schema.equals(self.columns.schema):
                rb = type(rb).from_arrays(rb.columns, schema=self.columns.schema)
            else:
                self.rows.cast(lambda held: cast_batch(held, schema))
                self.columns = Columns(schema)
        self.rows.add(rb)

    def next(self, size: int) -> Any:
        """The next `size` rows, or the remaining ones, as a Planned; None: no row is left."""
        plan = self.rows.plan(size)
        return None if plan is None else Planned(plan, self.columns)

    def plans(
        self, blocks: Iterator[pa.RecordBatch], size: int, drop_last: bool
    ) -> Iterator[Planned]:
        """Yields batches of `size` rows that are not gathered yet; the last one may have fewer
        rows."""
        rows, more = self.rows, True
        while True:
            while more and rows.wants(size):
                rb = next(blocks, None)
                if rb is None:
                    more = False
                    rows.end()
                else:
                    self.add(rb)
            planned = self.next(size)
            if planned is None or (drop_last and planned.num_rows < size):
                return
            yield planned
