"""How many rows a function gets at a time with batch_size="auto": more and more, as long as that makes
it faster, and no more than time and memory allow. One Sizer is kept by each worker process."""

from __future__ import annotations

GAIN = 1.1  # a larger batch has to be faster by this factor
MISSES = 2  # after so many sizes that are not, the best one stays: one may be chance
LONGEST_S = 1.0  # a batch takes no longer: what fails or is retried is small, and rows flow
SHORTEST_S = 0.005  # what is measured at one size: in less time the clock shows chance
MOST_BYTES = 64 << 20  # of the input of a batch


class Sizer:
    """The size of the next batch: a power of two from 1 on. The size depends on time, so only a
    function whose result for a row does not depend on the other rows of the batch gives the same
    rows on each run."""

    def __init__(self) -> None:
        self.size = 1
        self.most = 1 << 30
        self.grows = True
        self.best = 0.0, 1  # rows per second, and the size
        self.misses = 0  # sizes since then that were not faster
        self.rows, self.seconds = 0, 0.0  # measured at this size

    def __call__(self) -> int:
        return self.size

    def took(self, rows: int, seconds: float, nbytes: int) -> None:
        """A batch of these rows took so long."""
        if not self.grows or rows < self.size:
            return  # the last batch of a task may be smaller
        self.rows += rows
        self.seconds += seconds
        if self.seconds < SHORTEST_S and self.rows < 16 * self.size:
            return
        rate = self.rows / max(self.seconds, 1e-9)
        self.rows, self.seconds = 0, 0.0
        if rate >= self.best[0] * GAIN:
            self.best, self.misses = (rate, self.size), 0
        else:
            self.misses += 1
        larger = self.size * 2
        if (
            self.misses == MISSES
            or larger > self.most
            or larger / rate > LONGEST_S
            or nbytes / max(rows, 1) * larger > MOST_BYTES
        ):
            self.grows, self.size = False, self.best[1]
        else:
            self.size = larger

    def too_large(self, rows: int) -> int:
        """A batch of these rows was too large for memory. Returns how many rows to try."""
        self.size = self.most = max(1, rows // 2)
        self.grows = False
        return self.size


def no_memory(e: BaseException) -> bool:
    """Whether an error says that memory is exhausted: MemoryError, and the errors of torch, JAX and
    CuPy for that of a GPU."""
    if isinstance(e, MemoryError):
        return True
    text = type(e).__name__
    return text in ("OutOfMemoryError", "OutOfMemoryException") or (
        text in ("XlaRuntimeError", "JaxRuntimeError") and "RESOURCE_EXHAUSTED" in str(e)
    )
