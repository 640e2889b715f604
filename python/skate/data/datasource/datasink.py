"""Datasink: a target that users write. The driver calls on_write_start(), workers call
write(blocks, ctx) once per task, and the driver calls on_write_complete() at the end.

A retried task calls write() again with the same blocks and the same ctx.task_idx. A sink that must
not write twice therefore uses task_idx in the names of what it writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import skate

WriteReturnType = TypeVar("WriteReturnType")


@dataclass
class TaskContext:
    """Information for a write() call: the number of its task, which is the same in a retry, and the
    id of the write, in kwargs."""

    task_idx: int
    op_name: str = "Write"
    target_max_block_size_override: int | None = None
    kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass
class WriteResult(Generic[WriteReturnType]):
    """The result of a write: rows, bytes, and the return values of the write() calls, in order."""

    num_rows: int
    size_bytes: int
    write_returns: list[WriteReturnType]

    @classmethod
    def combine(cls, *wrs: WriteResult[WriteReturnType]) -> WriteResult[WriteReturnType]:
        """Combines several results into one."""
        return cls(
            sum(w.num_rows for w in wrs),
            sum(w.size_bytes for w in wrs),
            [r for w in wrs for r in w.write_returns],
        )


WRITE_UUID_KWARG_NAME = "write_uuid"


class Datasink(Generic[WriteReturnType]):
    """A target that users write: define write(), then ds.write_datasink(sink)."""

    # whether on_write_complete() publishes all rows at once and a failed write leaves none
    _whole_or_not = False

    def on_write_start(self, schema: Any = None) -> None:
        """Called once in the driver, before anything is written.

        Args:
            schema: The pyarrow.Schema of the rows, if it is known.
        """

    def write(self, blocks: Iterable[Any], ctx: TaskContext) -> WriteReturnType:
        """Writes the blocks (pyarrow Tables) of one task; the result is pickled to the driver.

        Args:
            blocks: The blocks, in order.
            ctx: The number of the task, and the id of the write.
        """
        raise NotImplementedError

    def on_write_complete(self, write_result: WriteResult[WriteReturnType]) -> None:
        """Called once in the driver when all tasks have written.

        Args:
            write_result: The result of the write.
        """

    def on_write_failed(self, error: Exception) -> None:
        """Called once in the driver when a write failed.

        Args:
            error: The error of the write.
        """

    def get_name(self) -> str:
        """The name in plans: that of the class without "Datasink"."""
        return type(self).__name__.removeprefix("_").removesuffix("Datasink")

    @property
    def supports_distributed_writes(self) -> bool:
        """Whether tasks may run in workers."""
        return True

    @property
    def min_rows_per_write(self) -> int | None:
        """Minimum number of rows that a write() call should get."""
        return None


class DummyOutputDatasink(Datasink):
    """Counts the writes: num_ok, num_failed, and the rows in its actor data_sink."""

    def __init__(self) -> None:
        self.data_sink = skate.remote(num_cpus=0)(_Counter).remote()
        self.num_ok = self.num_failed = 0
        self.enabled = True

    def write(self, blocks: Iterable[Any], ctx: TaskContext) -> None:
        if not self.enabled:
            raise ValueError("disabled")
        skate.get([self.data_sink.write.remote(b) for b in blocks])

    def on_write_complete(self, write_result: WriteResult) -> None:
        self.num_ok += 1

    def on_write_failed(self, error: Exception) -> None:
        self.num_failed += 1


class _Counter:
    def __init__(self) -> None:
        self.rows_written = 0
        self.enabled = True

    def write(self, block: Any) -> None:
        self.rows_written += len(block)

    def get_rows_written(self) -> int:
        return self.rows_written
