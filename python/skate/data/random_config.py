"""RandomSeedConfig: the seed that a random operation of a Dataset uses in each run."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass
class RandomSeedConfig:
    """The seed of a random operation.

    Args:
        seed: An int (ValueError for anything else), or None: a new seed in each run.
        reseed_after_execution: Whether each run of one Dataset has another seed, all derived from
            `seed`.
    """

    seed: int | None = None
    reseed_after_execution: bool = True

    def __post_init__(self) -> None:
        if self.seed is not None and not isinstance(self.seed, int):
            raise ValueError(f"RandomSeedConfig: seed={self.seed!r}: an int or None")


@dataclass
class FileShuffleConfig:
    """Reads files in random order.

    Args:
        seed: The same seed gives the same order; None: a new order each time. ValueError if it is
            no int.
        reseed_after_execution: Whether each run of one Dataset has another order, all derived from
            seed.
    """

    seed: int | None = None
    reseed_after_execution: bool = True

    def __post_init__(self) -> None:
        if self.seed is not None and not isinstance(self.seed, int):
            raise ValueError(f"FileShuffleConfig: seed={self.seed!r}: an int or None")

    def get_seed(self, execution_idx: int = 0) -> int | None:
        """The seed of a run.

        Args:
            execution_idx: Number of the run, from 0.
        """
        if self.seed is None or not self.reseed_after_execution:
            return self.seed
        return hash((self.seed, execution_idx)) % (1 << 32)


def seeds(seed: Any) -> Callable[[int], int]:
    """A function from the number of a run to its seed; `seed` is an int, a RandomSeedConfig or
    None."""
    if seed is None or isinstance(seed, RandomSeedConfig) and seed.seed is None:
        return lambda k: int.from_bytes(os.urandom(8), "little")
    if isinstance(seed, RandomSeedConfig):
        base, again = int(seed.seed), seed.reseed_after_execution  # type: ignore[arg-type]
        return lambda k: (base + (k * 0x9E3779B97F4A7C15 if again else 0)) & 0xFFFFFFFFFFFFFFFF
    if not isinstance(seed, int):
        raise ValueError(f"seed={seed!r}: an int or None")
    return lambda k: seed & 0xFFFFFFFFFFFFFFFF
