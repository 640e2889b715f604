"""DelegatingBlockBuilder: builds one block from rows, batches and blocks, for datasources written
as Ray's documentation shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skate._deps import pa
from skate.data.values import batch as _batch
from skate.data.values import row_dicts

WHAT = "DelegatingBlockBuilder"


class DelegatingBlockBuilder:
    """Collects rows, batches and blocks, in the order of the calls, into one pyarrow Table.

    Example:
        >>> from skate.data._internal.delegating_block_builder import DelegatingBlockBuilder
        >>> b = DelegatingBlockBuilder()
        >>> b.add({"a": 1})
        >>> b.add_batch({"a": [2, 3]})
        >>> b.build().to_pydict()
        {'a': [1, 2, 3]}
    """

    def __init__(self) -> None:
        self._rows: list[Mapping[str, Any]] = []
        self._batches: list[pa.RecordBatch] = []

    def add(self, item: Mapping[str, Any]) -> None:
        """Adds a row.

        Args:
            item: {column: value}. TypeError for something else.
        """
        if not isinstance(item, Mapping):
            raise TypeError(f"{WHAT}.add: a row is a dict, {{column: value}}, not {type(item)}")
        self._rows.append(item)

    def add_batch(self, batch: Any) -> None:
        """Adds several rows.

        Args:
            batch: {column: array or list}, a pyarrow Table or a DataFrame.
        """
        self._flush()
        self._batches += _batch.from_batch(batch, WHAT, marks=True)

    add_block = add_batch

    def _flush(self) -> None:
        if self._rows:
            self._batches += row_dicts.rows_to_batches(self._rows, WHAT)
            self._rows = []

    def build(self) -> pa.Table:
        """The block; without rows and columns if nothing was added."""
        self._flush()
        return (
            pa.concat_tables(
                [pa.Table.from_batches([b]) for b in self._batches], promote_options="permissive"
            )
            if self._batches
            else pa.table({})
        )

    def num_rows(self) -> int:
        """The number of rows added so far."""
        return len(self._rows) + sum(b.num_rows for b in self._batches)

    def get_estimated_memory_usage(self) -> int:
        """The number of bytes added so far."""
        self._flush()
        return sum(b.nbytes for b in self._batches)

    def will_build_yield_copy(self) -> bool:
        """Whether build() copies: false."""
        return False
