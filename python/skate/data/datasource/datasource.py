"""Datasource: a source that users write. get_read_tasks() returns the pieces to read; each ReadTask
is one task of the engine and yields blocks.

Blocks are pyarrow Tables, pandas DataFrames or dicts of arrays. The blocks of a task must depend on
its number and content alone, or a retried task would yield other blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from skate._deps import np, pa
from skate.data import block as _block


class ReadTask:
    """One piece of a Datasource: a function without arguments that returns blocks.

    Args:
        read_fn: Returns an iterable of blocks.
        metadata: A BlockMetadata: what is known about the blocks.
        schema: The schema of the blocks, if known.
        per_task_row_limit: The most rows that the task yields.
    """

    def __init__(
        self,
        read_fn: Callable[[], Iterable[Any]],
        metadata: Any,
        schema: Any = None,
        per_task_row_limit: int | None = None,
    ):
        self._read_fn, self._metadata, self._schema, self._limit = (
            read_fn,
            metadata,
            schema,
            per_task_row_limit,
        )

    @property
    def metadata(self) -> Any:
        """The BlockMetadata of the blocks of this task."""
        return self._metadata

    @property
    def schema(self) -> Any:
        """The schema of the blocks, if known."""
        return self._schema

    @property
    def read_fn(self) -> Callable[[], Iterable[Any]]:
        """The function that returns the blocks."""
        return self._read_fn

    @property
    def per_task_row_limit(self) -> int | None:
        """The most rows that the task yields, or None if it has no maximum."""
        return self._limit

    def __call__(self) -> Iterator[Any]:
        """Yields the blocks, up to per_task_row_limit rows."""
        left = self._limit
        result = self._read_fn()
        for block in result:
            if left is None:
                yield block
                continue
            if left <= 0:
                return
            a = _block.BlockAccessor.for_block(block)
            n = a.num_rows()
            yield block if n <= left else a.slice(0, left)
            left -= n


class Datasource:
    """A source that users write: define get_read_tasks() and estimate_inmemory_data_size(), then
    skate.data.read_datasource(source)."""

    def get_name(self) -> str:
        """The name in plans: that of the class without "Datasource"."""
        return type(self).__name__.removesuffix("Datasource")

    def estimate_inmemory_data_size(self) -> int | None:
        """Bytes of all data in memory; None: unknown."""
        raise NotImplementedError

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        """Returns the pieces.

        Args:
            parallelism: The desired number of pieces.
            per_task_row_limit: The most rows that are needed of each piece.
            data_context: The settings of the Dataset.
        """
        raise NotImplementedError

    def create_reader(self, **read_args: Any) -> Any:
        """Makes a reader with get_read_tasks(parallelism). Older sources define this, or
        prepare_read().

        Args:
            read_args: The extra arguments of read_datasource().
        """
        return _Reader(self, read_args)

    def prepare_read(self, parallelism: int, **read_args: Any) -> list[ReadTask]:
        """Returns the pieces; older sources define it.

        Args:
            parallelism: Desired number of pieces.
            read_args: The extra arguments of read_datasource().
        """
        raise NotImplementedError

    @property
    def should_create_reader(self) -> bool:
        """Whether this is an older source, which has create_reader() or prepare_read() instead of
        get_read_tasks()."""
        return type(self).get_read_tasks is Datasource.get_read_tasks

    @property
    def supports_distributed_reads(self) -> bool:
        """Whether tasks may run in workers."""
        return True


class Reader:
    """The reader that create_reader() of an older source returns."""

    def estimate_inmemory_data_size(self) -> int | None:
        """Bytes of all data in memory; None: unknown."""
        raise NotImplementedError

    def get_read_tasks(self, parallelism: int) -> list[ReadTask]:
        """Returns the pieces."""
        raise NotImplementedError


class _Reader(Reader):
    def __init__(self, source: Datasource, args: dict[str, Any]):
        self._source, self._args = source, args

    def estimate_inmemory_data_size(self) -> int | None:
        return None

    def get_read_tasks(self, parallelism: int) -> list[ReadTask]:
        return self._source.prepare_read(parallelism, **self._args)


class RandomIntRowDatasource(Datasource):
    """n rows of num_columns random 64-bit integers, in columns c_0, c_1, ..."""

    def __init__(self, n: int, num_columns: int):
        self._n, self._num_columns = n, num_columns

    def get_name(self) -> str:
        return "RandomInt"

    def estimate_inmemory_data_size(self) -> int | None:
        return self._n * self._num_columns * 8

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        k = max(1, min(parallelism, self._n))
        names = [f"c_{i}" for i in range(self._num_columns)]
        out = []
        for i in range(k):
            rows = (i + 1) * self._n // k - i * self._n // k
            meta = _block.BlockMetadata(
                num_rows=rows, size_bytes=rows * len(names) * 8, input_files=None, exec_stats=None
            )
            out.append(
                ReadTask(
                    lambda rows=rows: [_random_ints(rows, names)], meta, None, per_task_row_limit
                )
            )
        return out


def _random_ints(rows: int, names: list[str]) -> Any:
    rng = np.random.default_rng()
    return pa.table(
        {n: rng.integers(np.iinfo(np.int64).max, size=rows, dtype=np.int64) for n in names}
    )
