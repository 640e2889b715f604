"""DataContext: the settings of data pipelines, one object a process.

Names are Ray's where Ray's programs set them; what skate does not use is kept and ignored (programs may set any attribute). A Dataset
copies the context when it is made, so that a later change does not touch it.
"""

from __future__ import annotations

import copy as _copy
import threading
from typing import Any

MiB = 1 << 20
DEFAULT_TARGET_MAX_BLOCK_SIZE = (
    16 * MiB
)  # a task costs microseconds, so small blocks are affordable: memory stays low, the first batch comes early
DEFAULT_READ_BLOCK_SIZE = 4 * MiB  # what one unit of range/from_items/... holds
DEFAULT_BATCH_SIZE = 256  # of iter_batches


class ExecutionResources:
    """Amounts of CPU, GPU, memory and object store memory; None means no limit."""

    def __init__(
        self, cpu: float | None = None, gpu: float | None = None, object_store_memory: float | None = None, memory: float | None = None
    ):
        self.cpu, self.gpu, self.object_store_memory, self.memory = cpu, gpu, object_store_memory, memory

    @classmethod
    def for_limits(cls, cpu=None, gpu=None, object_store_memory=None, memory=None) -> ExecutionResources:
        return cls(cpu, gpu, object_store_memory, memory)

    @classmethod
    def zero(cls) -> ExecutionResources:
        return cls(0.0, 0.0, 0.0, 0.0)

    def copy(self, **changes: Any) -> ExecutionResources:
        new = _copy.copy(self)
        new.__dict__.update(changes)
        return new

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionResources) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ExecutionResources({', '.join(f'{k}={v}' for k, v in self.__dict__.items() if v is not None)})"


class ExecutionOptions:
    """How one execution runs: limits, order, progress."""

    def __init__(
        self,
        resource_limits: ExecutionResources | None = None,
        exclude_resources: ExecutionResources | None = None,
        locality_with_output: Any = False,
        preserve_order: bool = True,  # Ray's default is False; here order costs nothing, so it is kept
        actor_locality_enabled: bool = True,
        verbose_progress: bool = False,
    ):
        self.resource_limits = resource_limits or ExecutionResources()
        self.exclude_resources = exclude_resources or ExecutionResources()
        self.locality_with_output = locality_with_output
        self.preserve_order = preserve_order
        self.actor_locality_enabled = actor_locality_enabled
        self.verbose_progress = verbose_progress

    def __repr__(self) -> str:
        return f"ExecutionOptions({', '.join(f'{k}={v!r}' for k, v in self.__dict__.items())})"


class DataContext:
    """Settings of data pipelines of this process.

    Example:
        >>> from skate.data import DataContext
        >>> DataContext.get_current().enable_progress_bars = False
    """

    _current: DataContext | None = None
    _lock = threading.Lock()

    def __init__(self) -> None:
        self.target_max_block_size: int | None = DEFAULT_TARGET_MAX_BLOCK_SIZE
        self.target_min_block_size: int = 1 * MiB
        self.read_block_size: int = DEFAULT_READ_BLOCK_SIZE
        self.enable_progress_bars: bool = True
        self.execution_options = ExecutionOptions()
        self.policy: str | None = None  # file in src/exec/by/; None: "adaptive" where objects may be spilled, else "downstream"
        self.max_errored_blocks: int = 0
        self.read_op_min_num_blocks: int = 1
        self.enable_auto_log_stats: bool = False
        self.verbose_stats_logs: bool = False
        self.shuffle_strategy: Any = None

    @classmethod
    def get_current(cls) -> DataContext:
        """The context of this process (made at the first call)."""
        with cls._lock:
            if cls._current is None:
                cls._current = DataContext()
            return cls._current

    current = get_current

    @classmethod
    def _set_current(cls, context: DataContext) -> None:
        with cls._lock:
            cls._current = context

    def copy(self) -> DataContext:
        """An independent copy."""
        return _copy.deepcopy(self)
