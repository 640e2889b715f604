"""RandomAccessDataset: the rows of a Dataset in actors, sorted by a key, for look-ups by key."""

from __future__ import annotations

import bisect
from time import perf_counter
from typing import TYPE_CHECKING, Any

import skate
from skate._deps import pa, pc, random
from skate.data.values import row_dicts

if TYPE_CHECKING:
    from skate.data.dataset import Dataset


class RandomAccessDataset:
    """Rows that can be looked up by a key; Dataset.to_random_access_dataset() makes it. Its actors
    read the blocks in the store, without a copy.

    Args:
        ds: The Dataset, which runs now.
        key: Name of the key column.
        num_workers: Number of actors. Each serves all blocks.
    """

    def __init__(self, ds: Dataset, key: str, num_workers: int):
        begun = perf_counter()
        blocks = [b for b in ds.sort(key).get_internal_block_refs()]
        ends = skate.get([_ends.remote(b, key) for b in blocks])
        kept = [(b, e) for b, e in zip(blocks, ends, strict=True) if e is not None]
        self._blocks = [b for b, _ in kept]
        self._lower = kept[0][1][0] if kept else None
        self._upper = [e[1] for _, e in kept]
        self._workers = [_Lookups.remote(key, self._blocks) for _ in range(num_workers)]
        skate.get([w.stats.remote() for w in self._workers])
        self._build_time = perf_counter() - begun

    def _at(self, key: Any) -> int | None:
        """The number of the only block that may have a key; None if no block may."""
        if self._lower is None or key is None or key < self._lower:
            return None
        i = bisect.bisect_left(self._upper, key)
        return i if i < len(self._upper) else None

    def get_async(self, key: Any) -> Any:
        """A reference to the row with a key (a dict), or to None if there is no such row.

        Args:
            key: A value of the key column.
        """
        at = self._at(key)
        return skate.put(None) if at is None else random.choice(self._workers).get.remote(at, key)

    def multiget(self, keys: list[Any]) -> list[Any]:
        """The rows with several keys, one for each key; None for a key without a row.

        Args:
            keys: Values of the key column.
        """
        of: dict[int, list[Any]] = {}
        for k in keys:
            at = self._at(k)
            if at is not None:
                of.setdefault(at, []).append(k)
        asked = [
            (ks, random.choice(self._workers).multiget.remote(at, ks)) for at, ks in of.items()
        ]
        found = {k: row for ks, ref in asked for k, row in zip(ks, skate.get(ref), strict=True)}
        return [found.get(k) for k in keys]

    def stats(self) -> str:
        """Statistics as text: the time to build, the number of blocks, and the number and speed of
        look-ups by actor."""
        stats = skate.get([w.stats.remote() for w in self._workers])
        asked = [n for n, _ in stats]
        mean = int(sum(t for _, t in stats) / (1 + sum(asked)) * 1e6)
        n = len(self._blocks)
        return (
            f"RandomAccessDataset:\n- Build time: {self._build_time:.2f}s\n- Num workers: {len(stats)}\n- Blocks per worker: {n} min, {n} max, {n} mean\n"
            f"- Accesses per worker: {min(asked)} min, {max(asked)} max, {sum(asked) // len(asked)} mean\n- Mean access time: {mean}us\n"
        )


def _sorted_values(column: Any) -> Any:
    """The values that can be looked up, without null and NaN, which come after them."""
    there = len(column) - column.null_count
    if pa.types.is_floating(column.type):
        there -= pc.sum(pc.is_nan(column)).as_py() or 0
    return column.slice(0, there)


@skate.remote(num_cpus=0)
def _ends(block: Any, key: str) -> Any:
    """The first and the last value of a block's key; None if the block has none."""
    col = _sorted_values(block.column(key))
    return (col[0].as_py(), col[-1].as_py()) if len(col) else None


class _Values:
    """A column in the form of a sequence, for bisect."""

    def __init__(self, col: Any):
        self.col = col

    def __len__(self) -> int:
        return len(self.col)

    def __getitem__(self, i: int) -> Any:
        return self.col[i].as_py()


@skate.remote(num_cpus=0)
class _Lookups:
    def __init__(self, key: str, blocks: list[Any]):
        self.blocks = skate.get(blocks)
        self.values = [_Values(_sorted_values(b.column(key))) for b in self.blocks]
        self.asked, self.time = 0, 0.0

    def get(self, at: int, key: Any) -> Any:
        (row,) = self.multiget(at, [key])
        return row

    def multiget(self, at: int, keys: list[Any]) -> list[Any]:
        begun = perf_counter()
        values, block, out = self.values[at], self.blocks[at], []
        for k in keys:
            i = bisect.bisect_left(values, k)
            out.append(_row(block, i) if i < len(values) and values[i] == k else None)
        self.asked += 1
        self.time += perf_counter() - begun
        return out

    def stats(self) -> tuple[int, float]:
        return self.asked, self.time


def _row(block: Any, i: int) -> dict[str, Any]:
    row = block.slice(i, 1)
    return row_dicts.to_rows(row.to_batches()[0] if hasattr(row, "to_batches") else row)[0]  # type: ignore[no-any-return]
