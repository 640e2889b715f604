"""Blocks as users of Datasource and Datasink see them: BlockAccessor over a pyarrow Table,
RecordBatch, DataFrame or dict of arrays; BlockMetadata."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from skate._deps import pa
from skate.data.values import batch, frames, numpy_batch, row_dicts, selection, to_arrow, unify

Block = Any
BlockColumn = Any
BatchColumn = Any
DataBatch = Any
UserDefinedFunction = Any
AggType = TypeVar("AggType")
KeyType = TypeVar("KeyType")
T = TypeVar("T")
U = TypeVar("U")
CallableClass = type


@dataclass
class BlockMetadata:
    """The facts known about blocks: rows, bytes and the files they come from."""

    num_rows: int | None
    size_bytes: int | None
    input_files: list[str] | None = None
    exec_stats: Any = None
    task_exec_stats: Any = None


@dataclass
class RefBundle:
    """References to blocks, with the metadata of each block."""

    blocks: list[tuple[Any, BlockMetadata]]

    @property
    def block_refs(self) -> list[Any]:
        """The references to the blocks."""
        return [r for r, _ in self.blocks]

    @property
    def metadata(self) -> list[BlockMetadata]:
        """The BlockMetadata of each block."""
        return [m for _, m in self.blocks]

    def num_rows(self) -> int | None:
        """Number of rows of all blocks."""
        return sum(m.num_rows or 0 for _, m in self.blocks)

    def size_bytes(self) -> int:
        """Bytes of all blocks."""
        return sum(m.size_bytes or 0 for _, m in self.blocks)


class BlockType(enum.Enum):
    """Kinds of blocks."""

    ARROW = "arrow"
    PANDAS = "pandas"


class BlockAccessor:
    """Uniform access to a block of any kind.

    Args:
        block: A pyarrow Table or RecordBatch, a DataFrame or a dict of arrays.

    Example:
        >>> import pyarrow
        >>> from skate.data.block import BlockAccessor
        >>> BlockAccessor.for_block(pyarrow.table({"a": [1, 2]})).num_rows()
        2
    """

    def __init__(self, block: Any):
        self._block = block
        self._arrow: Any = None

    @staticmethod
    def for_block(block: Any) -> BlockAccessor:
        """The accessor of a pyarrow Table or RecordBatch, a DataFrame or a dict of arrays.

        Args:
            block: The block.
        """
        return BlockAccessor(block)

    @staticmethod
    def batch_to_block(batch: Any, block_type: Any = None) -> Any:
        """A batch of any format as a pyarrow Table, or as a DataFrame.

        Args:
            batch: The batch.
            block_type: BlockType.PANDAS for a DataFrame; else a Table.
        """
        a = BlockAccessor(batch)
        return a.to_pandas() if block_type is BlockType.PANDAS else a.to_arrow()

    def to_block(self) -> Any:
        """Returns the wrapped block itself."""
        return self._block

    def to_arrow(self) -> Any:
        """The block as a pyarrow Table."""
        if self._arrow is None:
            b = self._block
            self._arrow = (
                b
                if isinstance(b, pa.Table)
                else pa.Table.from_batches(batch.from_batch(b, "block", marks=True))
            )
        return self._arrow

    def to_pandas(self) -> Any:
        """The block as a DataFrame."""
        return (
            self._block
            if type(self._block).__module__.startswith("pandas")
            else frames.table_to_pandas(self.to_arrow())
        )

    def to_numpy(self, columns: Any = None) -> Any:
        """The block as a dict of arrays, or the array of one column.

        Args:
            columns: One name (the result is its array) or a list of names; None: all.
        """
        arrays = numpy_batch.to_numpy(unify.merge(to_arrow.from_table(self.to_arrow())))
        if isinstance(columns, str):
            return arrays[columns]
        return arrays if columns is None else {c: arrays[c] for c in columns}

    def to_batch_format(self, batch_format: str | None) -> Any:
        """The block in a batch format: "default", "numpy", "pandas", "pyarrow"; None: unchanged.

        Args:
            batch_format: "default" or "numpy", "pandas", "pyarrow"; None: unchanged.
        """
        if batch_format is None:
            return self._block
        return {"pandas": self.to_pandas, "pyarrow": self.to_arrow}.get(
            batch_format, self.to_numpy
        )()

    def num_rows(self) -> int:
        """Number of rows."""
        return (
            len(self._block)
            if type(self._block).__module__.startswith("pandas")
            else self.to_arrow().num_rows
        )

    def size_bytes(self) -> int:
        """Bytes of the values."""
        return self.to_arrow().nbytes

    def column_names(self) -> list[str]:
        """Names of the columns."""
        return list(self.to_arrow().column_names)

    def schema(self) -> Any:
        """The pyarrow schema."""
        return self.to_arrow().schema

    def get_metadata(
        self, input_files: list[str] | None = None, exec_stats: Any = None, **more: Any
    ) -> BlockMetadata:
        """The BlockMetadata of the block.

        Args:
            input_files: Files that it was read from.
            exec_stats: What is known about how the block was made.
            more: Ray's other fields; they have no effect.
        """
        return BlockMetadata(self.num_rows(), self.size_bytes(), input_files, exec_stats)

    def iter_rows(self, public_row_format: bool = True) -> Iterator[dict[str, Any]]:
        """Rows as dicts.

        Args:
            public_row_format: Has no effect: rows are dicts.
        """
        for rb in self.to_arrow().to_batches():
            yield from row_dicts.to_rows(rb)

    def slice(self, start: int, end: int, copy: bool = False) -> Any:
        """Some adjacent rows, as a block of the same kind (a Table, if it is a dict).

        Args:
            start: The first row, from 0.
            end: The row after the last one.
            copy: True: the rows are copied; False: the result is a view.
        """
        if self._is_pandas():
            rows = self._block.iloc[start:end]
            rows.index = range(len(rows))
            return rows.copy(deep=True) if copy else rows
        if copy:
            return self.take(list(range(start, end)))
        return self.to_arrow().slice(start, end - start)

    def _is_pandas(self) -> bool:
        return type(self._block).__module__.startswith("pandas")

    def take(self, indices: list[int]) -> Any:
        """Rows by number, as a block of the same kind (a Table, if it is a dict).

        Args:
            indices: Row numbers, from 0.
        """
        if self._is_pandas():
            return self._block.take(indices).reset_index(drop=True)
        return selection.take(self.to_arrow(), indices)

    def select(self, columns: list[str]) -> Any:
        """Some columns, as a block of the same kind (a Table, if it is a dict). ValueError for a
        name that does not exist.

        Args:
            columns: Names of columns.
        """
        if not all(isinstance(c, str) for c in columns):
            raise ValueError(f"select: column names are str; not {columns!r}")
        return self._block[list(columns)] if self._is_pandas() else self.to_arrow().select(columns)

    def drop(self, columns: list[str]) -> Any:
        """All columns but these, as a block of the same kind.

        Args:
            columns: Names of columns.
        """
        return self.select([c for c in self.column_names() if c not in columns])

    def rename_columns(self, columns_rename: dict[str, str]) -> Any:
        """Renames columns; the result is a block of the same kind.

        Args:
            columns_rename: {old name: new name}.
        """
        if self._is_pandas():
            return self._block.rename(columns=columns_rename)
        t = self.to_arrow()
        return t.rename_columns([columns_rename.get(n, n) for n in t.column_names])

    def upsert_column(self, column_name: str, column_data: Any) -> Any:
        """Adds a column, or replaces the column of this name; the result is a block of the same
        kind.

        Args:
            column_name: Name of the column.
            column_data: Its values: an array of the kind of the block.
        """
        if self._is_pandas():
            return self._block.assign(**{column_name: column_data})
        t = self.to_arrow()
        i = t.schema.get_field_index(column_name)
        return (
            t.append_column(column_name, column_data)
            if i < 0
            else t.set_column(i, column_name, column_data)
        )

    def zip(self, other: Any) -> Any:
        """The columns of both blocks side by side; a name that is taken gets the suffix _1.
        ValueError for different numbers of rows.

        Args:
            other: The other block.
        """
        t, more = self.to_arrow(), BlockAccessor.for_block(other).to_arrow()
        if t.num_rows != more.num_rows:
            raise ValueError(f"zip: one block has {t.num_rows} rows, the other {more.num_rows}")
        for n, c in zip(more.column_names, more.columns, strict=True):
            t = t.append_column(unify.free_name(t.column_names, n), c)
        return BlockAccessor(t).to_pandas() if self._is_pandas() else t

    def to_default(self) -> Any:
        """The block in the default batch format: a dict of arrays."""
        return self.to_numpy()

    def block_type(self) -> BlockType:
        """The kind of the block."""
        return BlockType.PANDAS if self._is_pandas() else BlockType.ARROW

    @classmethod
    def batch_to_arrow_block(cls, batch: Any) -> Any:
        """A batch of any format as a pyarrow Table.

        Args:
            batch: The batch.
        """
        return cls(batch).to_arrow()

    @classmethod
    def batch_to_pandas_block(cls, batch: Any) -> Any:
        """A batch of any format as a DataFrame.

        Args:
            batch: The batch.
        """
        return cls(batch).to_pandas()
