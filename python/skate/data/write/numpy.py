"""NumPy files (.npy) of one column: the rows of a file along the first axis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from skate._deps import np, pa
from skate.data.values import from_arrow, to_arrow
from skate.data.values.unify import columns_are
from skate.data.write import files


class _Writer:
    def __init__(self, sink: Any, schema: Any, args: dict[str, Any]):
        self.sink, self.column = sink, args["column"]
        if self.column not in schema.names:
            raise KeyError(
                f"write_numpy: there is no column {self.column!r}; {columns_are(self.column, schema.names)}"
            )
        self.parts: list[Any] = []

    def write(self, table: Any) -> None:
        self.parts.append(table.select([self.column]))

    def close(self) -> None:
        (rb,) = to_arrow.from_table(pa.concat_tables(self.parts))
        a = from_arrow.column_to_numpy(self.column, rb.column(0))
        if a.dtype == object:
            try:
                a = np.stack([np.asarray(x) for x in a])
            except ValueError:
                raise TypeError(
                    f"write_numpy: column {self.column!r} ({rb.schema.field(0).type}) holds values of different shapes, which one array cannot"
                ) from None
            if a.dtype == object:
                raise TypeError(
                    f"write_numpy: column {self.column!r} ({rb.schema.field(0).type}) has no NumPy dtype; it would have to be pickled"
                )
        np.save(self.sink, a, allow_pickle=False)


def run(params: dict[str, Any], batches: Iterator[Any], task: Any) -> Iterator[Any]:
    yield from files.run(params, batches, task, "npy", _Writer, 64 << 20)
