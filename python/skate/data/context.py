"""DataContext: the settings of data pipelines, one object a process.

Names are Ray's where Ray's programs set them; what skate does not use is kept and ignored (programs may set any attribute). A Dataset
copies the context when it is made, so that a later change does not touch it.
"""

from __future__ import annotations

import contextlib
import copy as _copy
import enum
import math
import threading
import warnings
from collections.abc import Iterator
from typing import Any

MiB = 1 << 20
DEFAULT_TARGET_MAX_BLOCK_SIZE = (
    16 * MiB
)  # a task costs microseconds, so small blocks are affordable: memory stays low, the first batch comes early
DEFAULT_READ_BLOCK_SIZE = 4 * MiB  # what one unit of range/from_items/... holds
DEFAULT_BATCH_SIZE = 256  # of iter_batches


RETRIED_IO_ERRORS = (
    "AWS Error INTERNAL_FAILURE",
    "AWS Error NETWORK_CONNECTION",
    "AWS Error SLOW_DOWN",
    "AWS Error UNKNOWN (HTTP status 503)",
    "AWS Error SERVICE_UNAVAILABLE",
)


class ShuffleStrategy(enum.StrEnum):
    """Ray's names of ways to shuffle."""

    SORT_SHUFFLE_PULL_BASED = "sort_shuffle_pull_based"
    SORT_SHUFFLE_PUSH_BASED = "sort_shuffle_push_based"
    HASH_SHUFFLE = "hash_shuffle"
    GPU_SHUFFLE = "gpu_shuffle"


class FixedShapeTensorFormat(enum.Enum):
    """How arrays of one shape become Arrow columns: Ray's two types for them (tensor_types.py), or Arrow's own fixed_shape_tensor."""

    V1 = "v1"
    V2 = "v2"
    ARROW_NATIVE = "arrow_native"

    def to_type(self) -> type:
        """The class of the Arrow type."""
        import pyarrow as pa

        from skate.data import tensor_types

        return {"v1": tensor_types.ArrowTensorType, "v2": tensor_types.ArrowTensorTypeV2}.get(self.value, pa.FixedShapeTensorType)

    @classmethod
    def _missing_(cls, value: Any) -> Any:
        return cls.ARROW_NATIVE if value == "native" else None


def _rounded(v: float | None, digits: int | None) -> float | None:
    return v if v is None or math.isinf(v) else round(v, digits)


class ExecutionResources:
    """Amounts of CPU, GPU, memory and object store memory (bytes). What is not given reads as 0; as a limit it means none (for_limits: inf). Immutable.

    Example:
        >>> from skate.data import ExecutionResources
        >>> ExecutionResources(cpu=2).add(ExecutionResources(cpu=1, memory=1 << 20))
        ExecutionResources(cpu=3, gpu=0.0, object_store_memory=0.0B, memory=1.0MiB)
    """

    NAMES = ("cpu", "gpu", "object_store_memory", "memory")

    def __init__(
        self, cpu: float | None = None, gpu: float | None = None, object_store_memory: float | None = None, memory: float | None = None
    ):
        self._given = (_rounded(cpu, 5), _rounded(gpu, 5), _rounded(object_store_memory, None), _rounded(memory, None))

    cpu: float = property(lambda self: self._given[0] or 0)  # type: ignore[assignment]
    gpu: float = property(lambda self: self._given[1] or 0)  # type: ignore[assignment]
    object_store_memory: float = property(lambda self: self._given[2] or 0)  # type: ignore[assignment]
    memory: float = property(lambda self: self._given[3] or 0)  # type: ignore[assignment]

    @classmethod
    def for_limits(
        cls, cpu: float | None = None, gpu: float | None = None, object_store_memory: float | None = None, memory: float | None = None
    ) -> ExecutionResources:
        """Limits; what is not given is without one (inf)."""
        return cls(*(math.inf if v is None else v for v in (cpu, gpu, object_store_memory, memory)))

    @classmethod
    def zero(cls) -> ExecutionResources:
        """Nothing."""
        return cls(0, 0, 0, 0)

    @classmethod
    def inf(cls) -> ExecutionResources:
        """No limit."""
        return cls.for_limits()

    @classmethod
    def from_resource_dict(cls, resource_dict: dict[str, float]) -> ExecutionResources:
        """From Ray's names of resources, those of options (num_cpus, num_gpus) or those of nodes (CPU, GPU)."""
        d = resource_dict
        return cls(d.get("CPU") or d.get("num_cpus"), d.get("GPU") or d.get("num_gpus"), d.get("object_store_memory"), d.get("memory"))

    def to_resource_dict(self) -> dict[str, float]:
        """By Ray's names of resources; what is not set is 0."""
        return dict(zip(("CPU", "GPU", "object_store_memory", "memory"), self._amounts(), strict=True))

    def _amounts(self) -> tuple[float, ...]:
        return tuple(v or 0 for v in self._given)

    def _with(self, other: ExecutionResources, f: Any) -> ExecutionResources:
        return ExecutionResources(*(f(a, b) for a, b in zip(self._amounts(), other._amounts(), strict=True)))

    def copy(
        self, cpu: float | None = None, gpu: float | None = None, memory: float | None = None, object_store_memory: float | None = None
    ) -> ExecutionResources:
        """The same with other amounts of those that are given."""
        new = (cpu, gpu, object_store_memory, memory)
        return ExecutionResources(*(a if v is None else v for v, a in zip(new, self._given, strict=True)))

    def add(self, other: ExecutionResources) -> ExecutionResources:
        """The sum of both, each amount by itself."""
        return self._with(other, lambda a, b: a + b)

    def subtract(self, other: ExecutionResources) -> ExecutionResources:
        """What is left; may be negative."""
        return self._with(other, lambda a, b: a - b)

    def max(self, other: ExecutionResources) -> ExecutionResources:
        """The larger of each amount."""
        return self._with(other, max)

    def min(self, other: ExecutionResources) -> ExecutionResources:
        """The smaller of each amount."""
        return self._with(other, min)

    def scale(self, f: float) -> ExecutionResources:
        """f times each amount; ValueError for a negative f."""
        if f < 0:
            raise ValueError(f"scale: the factor must be non-negative, not {f}")
        return ExecutionResources(*(a * f if f else 0 for a in self._amounts()))

    def floordiv(self, other: ExecutionResources) -> ExecutionResources:
        """How often `other` goes into it, amount by amount; inf where `other` has none of it."""
        return self._with(other, lambda a, b: math.inf if b == 0 or math.isinf(a) else math.floor(a / b))

    def satisfies_limit(self, limit: ExecutionResources, *, ignore_object_store_memory: bool = False) -> bool:
        """Whether no amount is above that of the limit."""
        return all(
            a <= b or (ignore_object_store_memory and n == "object_store_memory")
            for n, a, b in zip(self.NAMES, self._amounts(), limit._amounts(), strict=True)
        )

    def is_zero(self) -> bool:
        """Whether there is nothing in it."""
        return not any(self._amounts())

    def is_non_negative(self) -> bool:
        """Whether no amount is below 0."""
        return min(self._amounts()) >= 0

    def object_store_memory_str(self) -> str:
        """The object store memory for people."""
        return _bytes_text(self.object_store_memory)

    def memory_str(self) -> str:
        """The memory for people."""
        return _bytes_text(self.memory)

    def __eq__(self, other: object) -> bool:
        """What is not set counts as 0."""
        return isinstance(other, ExecutionResources) and self._amounts() == other._amounts()

    def __hash__(self) -> int:
        return hash(self._amounts())

    def __repr__(self) -> str:
        return f"ExecutionResources(cpu={self.cpu or 0.0}, gpu={self.gpu or 0.0}, object_store_memory={self.object_store_memory_str()}, memory={self.memory_str()})"


def _bytes_text(n: float) -> str:
    if math.isinf(n):
        return "inf"
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    i = 0
    while abs(n) >= 1024 and i < len(units) - 1:
        n, i = n / 1024, i + 1
    return f"{n:.1f}{units[i]}"


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
        self.resource_limits = resource_limits  # type: ignore[assignment]
        self.exclude_resources = exclude_resources or ExecutionResources.zero()
        if locality_with_output:
            self.locality_with_output = locality_with_output
        self.preserve_order = preserve_order
        self.actor_locality_enabled = actor_locality_enabled
        self.verbose_progress = verbose_progress

    @property
    def locality_with_output(self) -> bool:
        """False: there is one machine."""
        return False

    @locality_with_output.setter
    def locality_with_output(self, v: Any) -> None:
        if v:
            warnings.warn("locality_with_output is a no-op: there is one machine", DeprecationWarning, stacklevel=2)

    @property
    def resource_limits(self) -> ExecutionResources:
        """What one execution may use; what is not set is without limit (inf)."""
        return self._resource_limits

    @resource_limits.setter
    def resource_limits(self, v: ExecutionResources | None) -> None:
        v = v or ExecutionResources()
        self._resource_limits = ExecutionResources.for_limits(*v._given)

    def is_resource_limits_default(self) -> bool:
        """Whether nothing is limited."""
        return self._resource_limits == ExecutionResources.for_limits()

    def validate(self) -> None:
        """ValueError where a resource is limited and excluded at once."""
        for n in ("cpu", "gpu", "object_store_memory"):
            limit, less = getattr(self.resource_limits, n), getattr(self.exclude_resources, n)
            if not math.isinf(limit) and less > 0:
                raise ValueError(
                    f"{n}: resource_limits ({limit}) and exclude_resources ({less}) exclude each other; set the limit to what is left"
                )

    def __repr__(self) -> str:
        return f"ExecutionOptions({', '.join(f'{k.removeprefix(chr(95))}={v!r}' for k, v in self.__dict__.items())})"


_DEPRECATED = {
    "write_file_retry_on_errors": "retried_io_errors",
    "use_push_based_shuffle": "shuffle_strategy",
    "target_shuffle_max_block_size": "target_max_block_size",
    "use_polars": "use_polars_sort",
    "use_arrow_tensor_v2": "arrow_fixed_shape_tensor_format",
}


# Ray's, with its defaults: kept for programs that set or read them, and not used.
_KEPT = {
    "_enable_actor_pool_on_exit_hook": False,
    "actor_prefetcher_enabled": False,
    "autoscaling_config": None,
    "dataset_logger_id": None,
    "decoding_size_estimation": True,
    "default_hash_shuffle_parallelism": 200,
    "downstream_capacity_backpressure_ratio": 10.0,
    "eager_free": False,
    "enable_dynamic_output_queue_size_backpressure": False,
    "enable_get_object_locations_for_metrics": False,
    "enable_operator_progress_bars": True,
    "enable_per_node_metrics": False,
    "enable_progress_bar_name_truncation": True,
    "enable_rich_progress_bars": False,
    "enforce_schemas": False,
    "gpu_shuffle_num_actors": None,
    "gpu_shuffle_rmm_pool_size": None,
    "gpu_shuffle_setup_timeout_s": 120.0,
    "gpu_shuffle_spill_memory_limit": "auto",
    "hash_aggregate_operator_actor_num_cpus_override": None,
    "hash_shuffle_aggregator_health_warning_interval_s": 30,
    "hash_shuffle_operator_actor_num_cpus_override": None,
    "iceberg_config": None,
    "issue_detectors_config": None,
    "join_operator_actor_num_cpus_override": None,
    "large_args_threshold": 50 * MiB,
    "max_hash_shuffle_aggregators": None,
    "max_hash_shuffle_finalization_batch_size": None,
    "memory_usage_poll_interval_s": 1,
    "min_hash_shuffle_aggregator_wait_time_in_s": 300,
    "min_parallelism": 200,
    "op_resource_reservation_enabled": True,
    "op_resource_reservation_ratio": 0.5,
    "override_object_store_memory_limit_fraction": None,
    "pandas_block_ignore_metadata": False,
    "pipeline_push_based_shuffle_reduce_tasks": True,
    "print_on_execution_start": True,
    "s3_try_create_dir": False,
    "scheduling_strategy_large_args": "DEFAULT",
    "shuffle_strategy": ShuffleStrategy.HASH_SHUFFLE,
    "streaming_read_buffer_size": 32 * MiB,
    "trace_allocations": False,
    "use_polars_sort": False,
    "use_ray_tqdm": True,
    "warn_on_driver_memory_usage_bytes": 2 << 30,
}


class DataContext:
    """Settings of data pipelines of this process.

    max_errored_blocks: Tasks of a run that may fail, Ray's meaning: what such a task had yet to give is missing, the error goes to the log. -1: any number.
    on_error: What becomes of a bad record (a row whose function raises; a line or file that a reader cannot understand), where the operator does not say:
        "raise" ends the run, "skip" leaves it out and counts it, "quarantine" keeps it for Dataset.errors().
    checkpoint_config: A skate.data.checkpoint.CheckpointConfig: writes of files can be resumed.
    max_errors: Bad records that a run may have before it fails with skate.data.exceptions.TooManyErrors: a number of rows (int; checked all the time), or a
        share of the rows that came in (float from 0.0 to 1.0; checked at the end, before a write is committed); None: any number.
    replay_bytes: A batch that makes a function of the user fail is kept for `skate replay` (data/replay.py) when it has at most so many bytes; 0: none is.

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
        self.on_error: str = "raise"
        self.max_errors: int | float | None = None
        self.replay_bytes: int = 64 * MiB
        self.checkpoint_config: Any = None
        self.read_op_min_num_blocks: int = 1
        self.enable_auto_log_stats: bool = False
        self.verbose_stats_logs: bool = False
        self.max_tasks_in_flight_per_actor: int | None = None
        self.retried_io_errors: list[str] = list(RETRIED_IO_ERRORS)
        self.raise_original_map_exception: bool = False
        self.scheduling_strategy: Any = (
            "SPREAD"  # a PlacementGroupSchedulingStrategy: all tasks of a Dataset run in the group; texts are without effect
        )
        self.log_internal_stack_trace_to_stdout: bool = False
        self.enable_fallback_to_arrow_object_ext_type: bool | None = None
        self.arrow_fixed_shape_tensor_format: FixedShapeTensorFormat = FixedShapeTensorFormat.V2
        self.wait_for_min_actors_s: int = -1
        # Errors for which a call of an actor, or the constructor of its class, is tried again: True (all) or a list of classes
        self.actor_task_retry_on_errors: Any = False
        self.actor_init_retry_on_errors: Any = False
        self.actor_init_max_retries: int = 3  # -1: for ever
        self.enable_pandas_block: bool = True  # False: batch_format=None is "pyarrow" always
        self.enable_tensor_extension_casting: bool = True  # False: pandas batches have TensorArray columns
        self.custom_execution_callback_classes: list[Any] = []  # kept, not used
        self._kv_configs: dict[str, Any] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        other = _DEPRECATED.get(name)
        if other is not None:
            warnings.warn(f"`{name}` is deprecated! Configure `{other}` instead.", DeprecationWarning, stacklevel=2)
            if other in ("target_max_block_size", "use_polars_sort"):
                object.__setattr__(self, other, value)
            elif other == "arrow_fixed_shape_tensor_format":
                setattr(self, other, "v2" if value else "v1")
        if name == "checkpoint_config" and isinstance(value, dict):
            from skate.data.checkpoint import CheckpointConfig

            value = CheckpointConfig(**value)
        if name == "arrow_fixed_shape_tensor_format" and not isinstance(value, FixedShapeTensorFormat):
            value = FixedShapeTensorFormat(getattr(value, "value", value))  # ValueError names what is none
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        try:
            return _KEPT[name]
        except KeyError:
            raise AttributeError(f"DataContext has no setting {name!r}") from None

    def get_config(self, key: str, default: Any = None) -> Any:
        """A value that set_config() stored."""
        return self._kv_configs.get(key, default)

    def set_config(self, key: str, value: Any) -> None:
        """Stores a value under a name; functions find it in their DataContext.get_current()."""
        self._kv_configs[key] = value

    def remove_config(self, key: str) -> None:
        """Forgets a value."""
        self._kv_configs.pop(key, None)

    @classmethod
    def get_current(cls) -> DataContext:
        """The context of this process (made at the first call)."""
        with cls._lock:
            if cls._current is None:
                cls._current = DataContext()
            return cls._current

    @classmethod
    @contextlib.contextmanager
    def current(cls, context: DataContext) -> Iterator[None]:
        """Makes a context the current one within a with block."""
        before = cls.get_current()
        cls._set_current(context)
        try:
            yield
        finally:
            cls._set_current(before)

    @classmethod
    def _set_current(cls, context: DataContext) -> None:
        with cls._lock:
            cls._current = context

    def copy(self) -> DataContext:
        """An independent copy."""
        return _copy.deepcopy(self)
