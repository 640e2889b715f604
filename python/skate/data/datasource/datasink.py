"""Datasink: a target that users write. on_write_start() in the driver, write(blocks, ctx) once a
task in workers, on_write_complete() in the driver at the end.

A task that is run again calls write() again with the same blocks and the same ctx.task_idx: a sink
that must not write twice names what it writes by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import skate

WriteReturnType = TypeVar("WriteReturnType")


@dataclass
class TaskContext:
    """What a write() call is told about its task: its number, the same when it is run again, and
    the write's own id in kwargs."""

    task_idx: int
    op_name: str = "Write"
    target_max_block_size_override: int | None = None
    kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass
class WriteResult(Generic[WriteReturnType]):
    """What was written: rows, bytes, and what each write() call returned, in order."""

    num_rows: int
    size_bytes: int
    write_returns: list[WriteReturnType]

    @classmethod
    def combine(cls, *wrs: WriteResult[WriteReturnType]) -> WriteResult[WriteReturnType]:
        """All of them as one."""
        return cls(
            sum(w.num_rows for w in wrs),
            sum(w.size_bytes for w in wrs),
            [r for w in wrs for r in w.write_returns],
        )


WRITE_UUID_KWARG_NAME = "write_uuid"


class Datasink(Generic[WriteReturnType]):
    """A target that users write: define write(), then ds.write_datasink(sink)."""

    # on_write_complete() makes all rows appear at once; a failed write leaves none
    _whole_or_not = False

    def on_write_start(self, schema: Any = None) -> None:
        """Called once in the driver, before anything is written.

        Args:
            schema: The pyarrow.Schema of what will come, where it is known.
        """

    def write(self, blocks: Iterable[Any], ctx: TaskContext) -> WriteReturnType:
        """Writes the blocks (pyarrow Tables) of one task; what it returns is pickled to the driver.

        Args:
            blocks: The blocks, one after the other.
            ctx: The number of the task, and the id of the write.
        """
        raise NotImplementedError

    def on_write_complete(self, write_result: WriteResult[WriteReturnType]) -> None:
        """Called once in the driver when all is written.

        Args:
            write_result: What was written.
        """

    def on_write_failed(self, error: Exception) -> None:
        """Called once in the driver when a write failed.

        Args:
            error: Why.
        """

    def get_name(self) -> str:
        """A name for plans: the class's without "Datasink"."""
        return type(self).__name__.removeprefix("_").removesuffix("Datasink")

    @property
    def supports_distributed_writes(self) -> bool:
        """Whether tasks may run in workers."""
        return True

    @property
    def min_rows_per_write(self) -> int | None:
        """Rows that one write() call should get at least."""
        return None


class DummyOutputDatasink(Datasink):
    """Counts what it is given: num_ok, num_failed, and the rows in its actor data_sink."""

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
