"""DataContext: the settings of data pipelines, one object in each process.

Settings that programs for Ray use have Ray's names. One table has the default and the check of each
setting; a value is checked when it is assigned. A Dataset copies the context when it is made, so a
later change does not affect it.
"""

from __future__ import annotations

import contextlib
import copy as _copy
import enum
import math
import numbers
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from skate import _did_you_mean, _forked, _skate
from skate.compat.without_effect import DATA_CONTEXT
from skate.data import checkpoint, exchange_strategy, settings
from skate.data.values import tensor_types

MiB = 1 << 20
DEFAULT_TARGET_MAX_BLOCK_SIZE = (
    16 * MiB
    # a task takes only microseconds more, so small blocks are affordable: they use little memory,
    # and the first batch arrives early
)
DEFAULT_READ_BLOCK_SIZE = 4 * MiB  # bytes of one block of range(), from_items() and similar sources
DEFAULT_BATCH_SIZE = 256  # rows of a batch of iter_batches


RETRIED_IO_ERRORS = (
    "AWS Error INTERNAL_FAILURE",
    "AWS Error NETWORK_CONNECTION",
    "AWS Error SLOW_DOWN",
    "AWS Error UNKNOWN (HTTP status 503)",
    "AWS Error SERVICE_UNAVAILABLE",
)


NodeIdStr = str


class ShuffleStrategy(enum.StrEnum):
    """Ray's names of shuffle strategies."""

    SORT_SHUFFLE_PULL_BASED = "sort_shuffle_pull_based"
    SORT_SHUFFLE_PUSH_BASED = "sort_shuffle_push_based"
    HASH_SHUFFLE = "hash_shuffle"
    GPU_SHUFFLE = "gpu_shuffle"


class FixedShapeTensorFormat(enum.Enum):
    """The Arrow type of columns of arrays that have one shape: one of Ray's two types
    (tensor_types.py), or Arrow's own fixed_shape_tensor."""

    V1 = "v1"
    V2 = "v2"
    ARROW_NATIVE = "arrow_native"

    def to_type(self) -> type:
        """The class of the Arrow type that this value names."""
        return tensor_types.CLASSES[self.value]

    @classmethod
    def _missing_(cls, value: Any) -> Any:
        return cls.ARROW_NATIVE if value == "native" else None


def _rounded(v: float | None, digits: int | None) -> float | None:
    return v if v is None or math.isinf(v) else round(v, digits)


class ExecutionResources:
    """Amounts of CPU, GPU, memory and object store memory. Immutable.

    An amount that is not given reads as 0; as a limit it means no limit (for_limits() makes it
    inf).

    Args:
        cpu: CPUs; None: not given.
        gpu: GPUs; None: not given.
        object_store_memory: Bytes of the object store; None: not given.
        memory: Bytes of memory of tasks; None: not given.

    Example:
        >>> from skate.data import ExecutionResources
        >>> ExecutionResources(cpu=2).add(ExecutionResources(cpu=1, memory=1 << 20))
        ExecutionResources(cpu=3, gpu=0.0, object_store_memory=0.0B, memory=1.0MiB)
    """

    NAMES = ("cpu", "gpu", "object_store_memory", "memory")

    def __init__(
        self,
        cpu: float | None = None,
        gpu: float | None = None,
        object_store_memory: float | None = None,
        memory: float | None = None,
    ):
        self._given = (
            _rounded(cpu, 5),
            _rounded(gpu, 5),
            _rounded(object_store_memory, None),
            _rounded(memory, None),
        )

    cpu: float = property(lambda self: self._given[0] or 0)  # type: ignore[assignment]
    gpu: float = property(lambda self: self._given[1] or 0)  # type: ignore[assignment]
    object_store_memory: float = property(lambda self: self._given[2] or 0)  # type: ignore[assignment]
    memory: float = property(lambda self: self._given[3] or 0)  # type: ignore[assignment]

    @classmethod
    def for_limits(
        cls,
        cpu: float | None = None,
        gpu: float | None = None,
        object_store_memory: float | None = None,
        memory: float | None = None,
    ) -> ExecutionResources:
        """Limits; an amount that is not given is unlimited (inf).

        Args:
            cpu: CPUs.
            gpu: GPUs.
            object_store_memory: Bytes of the object store.
            memory: Bytes of memory of tasks.
        """
        return cls(*(math.inf if v is None else v for v in (cpu, gpu, object_store_memory, memory)))

    @classmethod
    def zero(cls) -> ExecutionResources:
        """No resources: each amount is 0."""
        return cls(0, 0, 0, 0)

    @classmethod
    def inf(cls) -> ExecutionResources:
        """Limits that allow any amount: each amount is inf."""
        return cls.for_limits()

    @classmethod
    def from_resource_dict(cls, resource_dict: dict[str, float]) -> ExecutionResources:
        """Resources from a dict with Ray's names, those of options (num_cpus, num_gpus) or those of
        nodes (CPU, GPU).

        Args:
            resource_dict: {name: amount}.
        """
        d = resource_dict
        return cls(
            d.get("CPU") or d.get("num_cpus"),
            d.get("GPU") or d.get("num_gpus"),
            d.get("object_store_memory"),
            d.get("memory"),
        )

    def to_resource_dict(self) -> dict[str, float]:
        """A dict by Ray's names of resources; an amount that is not set is 0."""
        return dict(
            zip(("CPU", "GPU", "object_store_memory", "memory"), self._amounts(), strict=True)
        )

    def _amounts(self) -> tuple[float, ...]:
        return tuple(v or 0 for v in self._given)

    def _with(self, other: ExecutionResources, f: Any) -> ExecutionResources:
        return ExecutionResources(
            *(f(a, b) for a, b in zip(self._amounts(), other._amounts(), strict=True))
        )

    def copy(
        self,
        cpu: float | None = None,
        gpu: float | None = None,
        memory: float | None = None,
        object_store_memory: float | None = None,
    ) -> ExecutionResources:
        """A copy in which the given amounts are replaced.

        Args:
            cpu: CPUs; None: the amount of this object.
            gpu: GPUs; None: the amount of this object.
            memory: Bytes of memory of tasks; None: the amount of this object.
            object_store_memory: Bytes of the object store; None: the amount of this object.
        """
        new = (cpu, gpu, object_store_memory, memory)
        return ExecutionResources(
            *(a if v is None else v for v, a in zip(new, self._given, strict=True))
        )

    def add(self, other: ExecutionResources) -> ExecutionResources:
        """The sum of both, amount by amount.

        Args:
            other: The other amounts.
        """
        return self._with(other, lambda a, b: a + b)

    def subtract(self, other: ExecutionResources) -> ExecutionResources:
        """The difference, amount by amount; may be negative.

        Args:
            other: The other amounts.
        """
        return self._with(other, lambda a, b: a - b)

    def max(self, other: ExecutionResources) -> ExecutionResources:
        """The larger of each amount.

        Args:
            other: The other amounts.
        """
        return self._with(other, max)

    def min(self, other: ExecutionResources) -> ExecutionResources:
        """The smaller of each amount.

        Args:
            other: The other amounts.
        """
        return self._with(other, min)

    def scale(self, f: float) -> ExecutionResources:
        """Each amount multiplied by f; ValueError for a negative f.

        Args:
            f: The factor, 0 or more.
        """
        if f < 0:
            raise ValueError(f"scale: the factor must be non-negative, not {f}")
        return ExecutionResources(*(a * f if f else 0 for a in self._amounts()))

    def floordiv(self, other: ExecutionResources) -> ExecutionResources:
        """How many times `other` fits, amount by amount (floor division); inf where `other` has 0.

        Args:
            other: The other amounts.
        """
        return self._with(
            other, lambda a, b: math.inf if b == 0 or math.isinf(a) else math.floor(a / b)
        )

    def satisfies_limit(
        self, limit: ExecutionResources, *, ignore_object_store_memory: bool = False
    ) -> bool:
        """Whether no amount is above that of the limit.

        Args:
            limit: The limits to compare with.
            ignore_object_store_memory: Whether to leave out the object store.
        """
        return all(
            a <= b or (ignore_object_store_memory and n == "object_store_memory")
            for n, a, b in zip(self.NAMES, self._amounts(), limit._amounts(), strict=True)
        )

    def is_zero(self) -> bool:
        """Whether all amounts are 0."""
        return not any(self._amounts())

    def is_non_negative(self) -> bool:
        """Whether no amount is below 0."""
        return min(self._amounts()) >= 0

    def object_store_memory_str(self) -> str:
        """The object store memory as text with a unit."""
        return _bytes_text(self.object_store_memory)

    def memory_str(self) -> str:
        """The memory as text with a unit."""
        return _bytes_text(self.memory)

    def __eq__(self, other: object) -> bool:
        """Compares the amounts; an amount that is not set counts as 0."""
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
    """Limits and order of one execution. Setting an unknown option raises an AttributeError that
    names the nearest known option.

    Args:
        resource_limits: An ExecutionResources: the most that one execution may use; an amount that
            is not set is unlimited.
        exclude_resources: An ExecutionResources: the amounts that the execution must leave free
            (CPUs, GPUs, bytes of the store).
        locality_with_output: Has no effect: there is one machine. Setting it logs a warning.
        preserve_order: Whether blocks are given in the order of the input. Order costs nothing in
            skate, so the default is True.
        actor_locality_enabled: Has no effect: there is one machine.
        verbose_progress: Whether the progress line has a part for each operator.

    Raises:
        TypeError: A value is of another type.

    Example:
        >>> from skate.data import ExecutionOptions, ExecutionResources
        >>> ExecutionOptions(resource_limits=ExecutionResources(cpu=2)).resource_limits.cpu
        2
    """

    def __init__(
        self,
        resource_limits: ExecutionResources | None = None,
        exclude_resources: ExecutionResources | None = None,
        locality_with_output: Any = False,
        # Ray's default is False; in skate order costs nothing
        preserve_order: bool = True,
        actor_locality_enabled: bool = True,
        verbose_progress: bool = False,
    ):
        self.resource_limits = resource_limits
        self.exclude_resources: ExecutionResources = exclude_resources or ExecutionResources.zero()
        if locality_with_output:
            self.locality_with_output = locality_with_output
        self.preserve_order: bool | None = preserve_order
        self.actor_locality_enabled: bool = actor_locality_enabled
        self.verbose_progress: bool = verbose_progress

    def __setattr__(self, name: str, value: Any) -> None:
        what = f"ExecutionOptions.{name} = {value!r}:"
        if name in ("resource_limits", "exclude_resources"):
            if value is not None and not isinstance(value, ExecutionResources):
                raise TypeError(f"{what} an ExecutionResources is wanted")
        elif name in ("preserve_order", "actor_locality_enabled", "verbose_progress"):
            if value is not None and not isinstance(value, bool):
                raise TypeError(f"{what} True or False is wanted")
        elif name not in ("locality_with_output", "_resource_limits"):
            raise AttributeError(
                f"ExecutionOptions has no option {name!r}{_did_you_mean.meant(name, self.NAMES, 0.0)}"
            )
        object.__setattr__(self, name, value)

    NAMES = (
        "resource_limits",
        "exclude_resources",
        "locality_with_output",
        "preserve_order",
        "actor_locality_enabled",
        "verbose_progress",
    )

    @property
    def locality_with_output(self) -> bool:
        """Always False, because there is one machine."""
        return False

    @locality_with_output.setter
    def locality_with_output(self, v: Any) -> None:
        if v:
            warnings.warn(
                "locality_with_output is a no-op: there is one machine",
                DeprecationWarning,
                stacklevel=3,
            )

    @property
    def resource_limits(self) -> ExecutionResources:
        """The resources that one execution may use; an amount that is not set is unlimited
        (inf)."""
        return self._resource_limits

    @resource_limits.setter
    def resource_limits(self, v: ExecutionResources | None) -> None:
        v = v or ExecutionResources()
        self._resource_limits = ExecutionResources.for_limits(*v._given)

    def is_resource_limits_default(self) -> bool:
        """Whether no resource is limited."""
        return self._resource_limits == ExecutionResources.for_limits()

    def validate(self) -> None:
        """Checks the options against each other, as each run does.

        Raises:
            ValueError: A resource has both a limit and an exclusion.
        """
        for n in ("cpu", "gpu", "object_store_memory"):
            limit, less = getattr(self.resource_limits, n), getattr(self.exclude_resources, n)
            if not math.isinf(limit) and less > 0:
                raise ValueError(
                    f"{n}: resource_limits ({limit}) and exclude_resources ({less}) exclude each other; set the limit to what is left"
                )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionOptions) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ExecutionOptions({', '.join(f'{k.removeprefix(chr(95))}={v!r}' for k, v in self.__dict__.items())})"


_DEPRECATED = {
    "write_file_retry_on_errors": "retried_io_errors",
    "use_push_based_shuffle": "shuffle_strategy",
    "target_shuffle_max_block_size": "target_max_block_size",
    "use_polars": "use_polars_sort",
    "use_arrow_tensor_v2": "arrow_fixed_shape_tensor_format",
}


_told: set[str] = set()  # settings without effect about which a warning was logged


# ---- Checks of settings: functions from (name, assigned value) to the value that is stored; they
# raise TypeError or ValueError


Check = Callable[[str, Any], Any]


def _whole(least: int, unit: str, none: str | None = None) -> Check:
    """A check for an int in `unit` that is at least `least`; a float with a whole value is
    accepted. none: the meaning of None, if None is allowed."""

    def check(name: str, v: Any) -> Any:
        if v is None and none is not None:
            return v
        number = isinstance(v, numbers.Real) and not isinstance(v, bool)
        if number and v == v and not math.isinf(v) and int(v) == v and v >= least:  # type: ignore[type-var]
            return int(v)  # type: ignore[arg-type]
        hint = " (a size in MiB is n * 1024**2)" if unit == "bytes" else ""
        _refuse(
            name,
            v,
            f"a whole number of {unit}{hint}, {least} or more"
            + (f", or None: {none}" if none else ""),
            number,
        )

    return check


def _seconds(least: float) -> Check:
    def check(name: str, v: Any) -> Any:
        number = isinstance(v, numbers.Real) and not isinstance(v, bool)
        if number and v >= least:  # type: ignore[operator]
            return v
        _refuse(name, v, f"seconds, {least:g} or more", number)

    return check


def _flag(none: bool = False) -> Check:
    def check(name: str, v: Any) -> Any:
        if isinstance(v, bool) or (v is None and none):
            return v
        if type(v).__name__ in ("bool_", "bool"):  # NumPy's bool types
            return bool(v)
        _refuse(name, v, "True, False or None" if none else "True or False", False)

    return check


def _refuse(name: str, v: Any, wanted: str, right_type: bool) -> Any:
    raise (ValueError if right_type else TypeError)(
        f"DataContext.{name} = {v!r}: what is wanted is {wanted}"
    )


def _word(*words: str) -> Check:
    def check(name: str, v: Any) -> Any:
        if v in words:
            return v
        _refuse(name, v, f"one of {', '.join(map(repr, words))}", True)

    return check


def _texts(name: str, v: Any) -> Any:
    if (
        isinstance(v, str)
        or not isinstance(v, (list, tuple, set))
        or not all(isinstance(t, str) for t in v)
    ):
        _refuse(name, v, "a list of texts", False)
    return v


def _max_errors(name: str, v: Any) -> Any:
    if v is None:
        return v
    if isinstance(v, bool) or not isinstance(v, (int, float)):
        _refuse(name, v, "a number of rows (int), a share from 0.0 to 1.0 (float) or None", False)
    if v < 0 or (isinstance(v, float) and not v <= 1):
        _refuse(
            name,
            v,
            "a number of rows from 0 on (int), a share from 0.0 to 1.0 (float) or None",
            True,
        )
    return v


def _page(name: str, v: Any) -> Any:
    number = isinstance(v, int)
    if number and 0 <= v <= 65535:
        return v
    _refuse(name, v, "True, False or the number of a port (0: none)", number)


def _classes(name: str, v: Any) -> Any:
    if isinstance(v, bool):
        return v
    if not isinstance(v, (list, tuple)) or not all(
        isinstance(c, type) and issubclass(c, BaseException) for c in v
    ):
        _refuse(name, v, "True, False or a list of exception classes", False)
    return v


def _scheduling_policy(name: str, v: Any) -> Any:
    if v is not None and v not in _skate.POLICIES:
        _refuse(
            name, v, f"None or one of {', '.join(map(repr, _skate.POLICIES))}", isinstance(v, str)
        )
    return v


def _shuffle_strategy(name: str, v: Any) -> Any:
    if not isinstance(v, str):
        return exchange_strategy.checked(f"DataContext.{name}", v)
    if v in _skate.SHUFFLES:
        return v
    try:
        return ShuffleStrategy(v)
    except ValueError:
        _refuse(
            name,
            v,
            f"a ShuffleStrategy, one of {', '.join(map(repr, _skate.SHUFFLES))} or an ExchangeStrategy",
            isinstance(v, str),
        )


def _scheduling_strategy(name: str, v: Any) -> Any:
    if v is None or (isinstance(v, str) and v not in ("DEFAULT", "SPREAD")):
        _refuse(
            name,
            v,
            "'DEFAULT', 'SPREAD' or a scheduling strategy of skate.util.scheduling_strategies",
            isinstance(v, str),
        )
    return v


def _execution_options(name: str, v: Any) -> Any:
    if not isinstance(v, ExecutionOptions):
        _refuse(name, v, "an ExecutionOptions", False)
    return v


def _checkpoint(name: str, v: Any) -> Any:
    if isinstance(v, dict):
        v = checkpoint.CheckpointConfig(**v)
    if v is not None and not hasattr(v, "checkpoint_path"):
        _refuse(name, v, "a CheckpointConfig (or a dict of its arguments) or None", False)
    return v


def _tensor_format(name: str, v: Any) -> Any:
    # ValueError names the bad value
    return (
        v
        if isinstance(v, FixedShapeTensorFormat)
        else FixedShapeTensorFormat(getattr(v, "value", v))
    )


# name: (default, check). The docstring of DataContext explains each setting.
_SETTINGS: dict[str, tuple[Any, Check]] = {
    "target_max_block_size": (DEFAULT_TARGET_MAX_BLOCK_SIZE, _whole(1, "bytes", "no limit")),
    "target_min_block_size": (1 * MiB, _whole(0, "bytes")),
    "read_block_size": (DEFAULT_READ_BLOCK_SIZE, _whole(1, "bytes")),
    "read_op_min_num_blocks": (1, _whole(1, "blocks")),
    "enable_progress_bars": (True, _flag()),
    "execution_options": (None, _execution_options),
    "scheduling_policy": (None, _scheduling_policy),
    "scheduling_strategy": ("SPREAD", _scheduling_strategy),
    "shuffle_strategy": (ShuffleStrategy.HASH_SHUFFLE, _shuffle_strategy),
    "max_errored_blocks": (0, _whole(-1, "tasks (-1: any number)")),
    "on_error": ("raise", _word("raise", "skip", "quarantine")),
    "max_errors": (None, _max_errors),
    "broadcast_join_bytes": (10 * MiB, _whole(0, "bytes (0: never)")),
    "replay_bytes": (64 * MiB, _whole(0, "bytes")),
    "arrays_in_store": (32 * MiB, _whole(0, "bytes (0: never)")),
    "checkpoint_config": (None, _checkpoint),
    "enable_auto_log_stats": (False, _flag()),
    "verbose_stats_logs": (False, _flag()),
    "max_tasks_in_flight_per_actor": (None, _whole(1, "tasks", "the engine chooses")),
    "retried_io_errors": (RETRIED_IO_ERRORS, _texts),
    "raise_original_map_exception": (False, _flag()),
    "log_internal_stack_trace_to_stdout": (False, _flag()),
    "enable_fallback_to_arrow_object_ext_type": (None, _flag(none=True)),
    "arrow_fixed_shape_tensor_format": (FixedShapeTensorFormat.V2, _tensor_format),
    "wait_for_min_actors_s": (-1, _seconds(-1)),
    "actor_task_retry_on_errors": (False, _classes),
    "actor_init_retry_on_errors": (False, _classes),
    "actor_init_max_retries": (3, _whole(-1, "tries (-1: for ever)")),
    "enable_pandas_block": (True, _flag()),
    "enable_tensor_extension_casting": (True, _flag()),
    "trust_pickled_columns": (False, _flag()),
    "page": (False, _page),
}


# settings that operators without a user function need in the workers
_IN_WORKERS = ("replay_bytes", "retried_io_errors", "trust_pickled_columns")


def _default(name: str) -> Any:
    if name == "execution_options":
        return ExecutionOptions()
    v = _SETTINGS[name][0]
    return list(v) if isinstance(v, tuple) else v


def _hint(name: str) -> str:
    near = _did_you_mean.nearest(name, [*_SETTINGS, *DATA_CONTEXT])
    return f": did you mean {near!r}" if near else "; help(DataContext) lists them"


class DataContext:
    """Settings of data pipelines of this process. A Dataset copies them when it is made. repr()
    shows the settings that differ from the defaults.

    A value is checked when it is assigned: a TypeError or ValueError says which values and which
    unit are allowed. Assigning an unknown name raises an AttributeError that names the nearest
    setting; a program's own values are stored with set_config(). Settings of Ray that have no
    effect in skate are accepted, with one warning for each. (If `import ray` means skate, a name
    that resembles no setting is stored as the program's own value, as in Ray, with a warning.)

    Attributes:
        target_max_block_size: Approximate maximum bytes of a block; None: one block for each task.
        target_min_block_size: Smaller blocks (in bytes) are coalesced before a function gets them.
        read_block_size: Bytes of one block of range(), from_items() and similar sources.
        read_op_min_num_blocks: Minimum number of blocks that a custom Datasource is asked for.
        enable_progress_bars: Whether runs show a progress line, if stderr is a terminal or a
            notebook.
        execution_options: An ExecutionOptions: limits and order of runs.
        scheduling_policy: The name of the policy (a file of src/exec/by/) that chooses the operator
            which launches the next task; None: "adaptive" where objects may be spilled, else
            "downstream".
        scheduling_strategy: A PlacementGroupSchedulingStrategy: all tasks of a Dataset run in the
            placement group. The texts "SPREAD" and "DEFAULT" have no effect.
        shuffle_strategy: The name of the strategy (a file of src/shuffle/by/) by which rows move
            between blocks: "auto", "grouped", "index", "merge", "push", "push_star", "rounds",
            "simple", "streaming", "two_level" (docs/design/exchange.md), or a
            skate.data.ExchangeStrategy of your own. Each member of ShuffleStrategy means "auto".
        max_errored_blocks: The number of tasks of a run that may fail, as in Ray: rows that a
            failed task did not yield are missing, and its error is logged. -1: any number.
        on_error: What to do with a bad record (a row on which a function raises an exception; a
            line or file that a reader cannot parse), unless the operator has its own on_error:
            "raise" ends the run, "skip" leaves the record out and counts it, "quarantine" stores it
            for Dataset.errors().
        max_errors: Number of bad records of a run above which it fails with
            skate.data.exceptions.TooManyErrors: a number of rows (int; checked all the time), or a
            share of the input rows (float from 0.0 to 1.0; checked at the end, before a write is
            committed); None: any number.
        broadcast_join_bytes: Maximum bytes of a side of a join that is broadcast to each block of
            the other side, which then need not be moved; 0: never. Joins with num_partitions, and
            join types that do not allow a broadcast, move both sides.
        replay_bytes: The most bytes of a batch that is saved for `skate replay`
            (data/worker/replay.py) when a user function fails on it; 0: no batch is saved.
        arrays_in_store: The least bytes of an array that NumPy, inside functions of map_batches,
            allocates in the object store, so that a block made of it is not copied; 0: no array is.
        checkpoint_config: A skate.data.checkpoint.CheckpointConfig, with which writes of files can
            be resumed.
        enable_auto_log_stats: Whether each run writes its statistics to the logger `ray.data`, at
            the level INFO.
        verbose_stats_logs: Whether these statistics contain all numbers of to_json().
        max_tasks_in_flight_per_actor: Maximum number of tasks sent to one actor of a pool: one runs
            and the others are queued; None: the engine chooses.
        retried_io_errors: Texts; a read or write is retried if the message of its error contains
            one of them.
        raise_original_map_exception: Whether the exception of a user's function is raised
            unwrapped.
        log_internal_stack_trace_to_stdout: Whether errors show the frames of skate's own code.
        enable_fallback_to_arrow_object_ext_type: False: objects for which there is no Arrow type
            are an error; None, True: they are pickled.
        arrow_fixed_shape_tensor_format: The Arrow type of columns of arrays that have one shape: a
            FixedShapeTensorFormat, or its value ("v1", "v2", "arrow_native").
        wait_for_min_actors_s: Seconds that a run waits at its start for its minimum number of
            actors, after which it raises GetTimeoutError; 0 or less: it does not wait.
        actor_task_retry_on_errors: Errors after which a call of an actor is retried: True (all) or
            a list of classes.
        actor_init_retry_on_errors: Errors after which the constructor of an actor is retried: True
            (all) or a list of classes.
        actor_init_max_retries: Maximum number of retries of the constructor; -1: no maximum.
        enable_pandas_block: False: batch_format=None always means "pyarrow".
        enable_tensor_extension_casting: False: pandas batches have TensorArray columns.
        trust_pickled_columns: Whether bytes from outside this job are unpickled, which runs
            whatever code they name: columns of Python objects in files and tables, preprocessors
            and plans of other programs (docs/design/security.md). Readers have an argument with
            this name for a single read.
        page: Whether a page at 127.0.0.1 shows the runs of this program in a browser: True (at any
            free port), or the port. Its address is printed to stderr. SKATE_PAGE opens it with the
            engine.

    Example:
        >>> from skate.data import DataContext
        >>> ctx = DataContext()
        >>> ctx.target_max_block_size = 128 * 1024**2
        >>> ctx
        DataContext(target_max_block_size=134217728)
    """

    _lock = _forked.lock()

    target_max_block_size: int | None
    target_min_block_size: int
    read_block_size: int
    read_op_min_num_blocks: int
    enable_progress_bars: bool
    execution_options: ExecutionOptions
    scheduling_policy: str | None
    shuffle_strategy: ShuffleStrategy | str | exchange_strategy.ExchangeStrategy
    scheduling_strategy: Any
    max_errored_blocks: int
    on_error: str
    max_errors: int | float | None
    broadcast_join_bytes: int
    replay_bytes: int
    arrays_in_store: int
    checkpoint_config: Any
    enable_auto_log_stats: bool
    verbose_stats_logs: bool
    max_tasks_in_flight_per_actor: int | None
    retried_io_errors: list[str]
    raise_original_map_exception: bool
    log_internal_stack_trace_to_stdout: bool
    enable_fallback_to_arrow_object_ext_type: bool | None
    arrow_fixed_shape_tensor_format: FixedShapeTensorFormat
    wait_for_min_actors_s: float
    actor_task_retry_on_errors: bool | list[type[BaseException]]
    actor_init_retry_on_errors: bool | list[type[BaseException]]
    actor_init_max_retries: int
    enable_pandas_block: bool
    enable_tensor_extension_casting: bool
    trust_pickled_columns: bool
    page: bool | int

    def __init__(self) -> None:
        for name in _SETTINGS:
            object.__setattr__(self, name, _default(name))
        self._kv_configs: dict[str, Any] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _SETTINGS:
            value = _SETTINGS[name][1](name, value)
        elif name in _DEPRECATED:
            self._deprecated(name, value)
            return
        elif name in DATA_CONTEXT:
            default, why = DATA_CONTEXT[name]
            if value != default and name not in _told:
                _told.add(name)
                warnings.warn(
                    f"DataContext.{name} is a setting of Ray that has no effect in skate: {why}",
                    UserWarning,
                    stacklevel=2,
                )
        elif name != "_kv_configs" and name not in self.__dict__:
            self._unknown(name)
        object.__setattr__(self, name, value)

    def _deprecated(self, name: str, value: Any) -> None:
        other = _DEPRECATED[name]
        warnings.warn(
            f"`{name}` is deprecated! Configure `{other}` instead.",
            DeprecationWarning,
            stacklevel=3,
        )
        if other == "arrow_fixed_shape_tensor_format":
            value = "v2" if value else "v1"
        elif other == "shuffle_strategy":
            value = ShuffleStrategy.SORT_SHUFFLE_PUSH_BASED if value else _default(other)
        setattr(self, other, value)

    def _unknown(self, name: str) -> None:
        """Handles the assignment of an unknown name, normally with an AttributeError. In a program
        written for Ray, which accepts any name, only a name that resembles a setting is an
        error."""
        if (
            "ray" in sys.modules
            and _did_you_mean.nearest(name, [*_SETTINGS, *DATA_CONTEXT]) is None
        ):
            warnings.warn(
                f"DataContext has no setting {name!r}: it is kept for functions to read, and nothing else comes of it",
                stacklevel=3,
            )
            return
        raise AttributeError(
            f"DataContext has no setting {name!r}{_hint(name)}. A value of your own goes to set_config({name!r}, ...)"
        )

    def __getattr__(self, name: str) -> Any:
        if name in _DEPRECATED:
            v = getattr(self, _DEPRECATED[name])
            if name == "use_push_based_shuffle":
                return v == ShuffleStrategy.SORT_SHUFFLE_PUSH_BASED
            return v == FixedShapeTensorFormat.V2 if name == "use_arrow_tensor_v2" else v
        try:
            v = DATA_CONTEXT[name][0]
        except KeyError:
            pass
        else:
            return list(v) if isinstance(v, tuple) else v
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"DataContext has no setting {name!r}{_hint(name)}")

    def __repr__(self) -> str:
        """The settings that differ from the defaults."""
        out = [
            f"{n}={v!r}" for n, v in self.__dict__.items() if n in _SETTINGS and v != _default(n)
        ]
        out += [
            f"{n}={v!r}"
            for n, v in self.__dict__.items()
            if n not in _SETTINGS and n != "_kv_configs" and v != DATA_CONTEXT.get(n, (None,))[0]
        ]
        return f"DataContext({', '.join(out + [f'{k!r}: {v!r}' for k, v in self._kv_configs.items()])})"

    def get_config(self, key: str, default: Any = None) -> Any:
        """A value that set_config() stored.

        Args:
            key: Name of the value.
            default: Returned if there is no such value.
        """
        return self._kv_configs.get(key, default)

    def set_config(self, key: str, value: Any) -> None:
        """Stores a value under a name; user functions read it from DataContext.get_current().

        Args:
            key: Name of the value.
            value: Any value that can be pickled.
        """
        self._kv_configs[key] = value

    def remove_config(self, key: str) -> None:
        """Removes a value that set_config() stored.

        Args:
            key: Name of the value.
        """
        self._kv_configs.pop(key, None)

    @classmethod
    def get_current(cls) -> DataContext:
        """The context of this process, which the first call makes."""
        with cls._lock:
            if settings.current is None:
                settings.current = DataContext()
            return settings.current

    @classmethod
    @contextlib.contextmanager
    def current(cls, context: DataContext) -> Iterator[None]:
        """Makes `context` the current DataContext in a `with` block.

        Args:
            context: The context.
        """
        before = cls.get_current()
        cls._set_current(context)
        try:
            yield
        finally:
            cls._set_current(before)

    @classmethod
    def _set_current(cls, context: DataContext) -> None:
        with cls._lock:
            settings.current = context

    def matters_in_workers(self) -> bool:
        """Whether a setting that operators without a user function need in workers differs from its
        default, so that the context must be sent to the workers."""
        return any(getattr(self, name) != _default(name) for name in _IN_WORKERS)

    def copy(self) -> DataContext:
        """An independent copy."""
        return _copy.deepcopy(self)


DatasetContext = DataContext  # Ray's older name
