"""DataContext: the settings of data pipelines, one object a process.

Names are Ray's where Ray's programs set them. One table says what each may be; what is written is
checked where it is written. A Dataset copies the context when it is made, so that a later change
does not touch it.
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
    # a task costs microseconds, so small blocks are affordable: memory stays low, the first batch
    # comes early
)
DEFAULT_READ_BLOCK_SIZE = 4 * MiB  # what one unit of range/from_items/... holds
DEFAULT_BATCH_SIZE = 256  # of iter_batches


RETRIED_IO_ERRORS = (
    "AWS Error INTERNAL_FAILURE",
    "AWS Error NETWORK_CONNECTION",
    "AWS Error SLOW_DOWN",
    "AWS Error UNKNOWN (HTTP status 503)",
    "AWS Error SERVICE_UNAVAILABLE",
)


NodeIdStr = str


class ShuffleStrategy(enum.StrEnum):
    """Ray's names of ways to shuffle."""

    SORT_SHUFFLE_PULL_BASED = "sort_shuffle_pull_based"
    SORT_SHUFFLE_PUSH_BASED = "sort_shuffle_push_based"
    HASH_SHUFFLE = "hash_shuffle"
    GPU_SHUFFLE = "gpu_shuffle"


class FixedShapeTensorFormat(enum.Enum):
    """How arrays of one shape become Arrow columns: Ray's two types for them (tensor_types.py), or
    Arrow's own fixed_shape_tensor."""

    V1 = "v1"
    V2 = "v2"
    ARROW_NATIVE = "arrow_native"

    def to_type(self) -> type:
        """The class of the Arrow type."""
        return tensor_types.CLASSES[self.value]

    @classmethod
    def _missing_(cls, value: Any) -> Any:
        return cls.ARROW_NATIVE if value == "native" else None


def _rounded(v: float | None, digits: int | None) -> float | None:
    return v if v is None or math.isinf(v) else round(v, digits)


class ExecutionResources:
    """Amounts of CPU, GPU, memory and object store memory. What is not given reads as 0; as a limit
    it means none (for_limits: inf). Immutable.

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
        """Limits; what is not given is without one (inf).

        Args:
            cpu: CPUs.
            gpu: GPUs.
            object_store_memory: Bytes of the object store.
            memory: Bytes of memory of tasks.
        """
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
        """From Ray's names of resources, those of options (num_cpus, num_gpus) or those of nodes
        (CPU, GPU).

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
        """By Ray's names of resources; what is not set is 0."""
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
        """The same with other amounts of those that are given.

        Args:
            cpu: CPUs; None: as here.
            gpu: GPUs; None: as here.
            memory: Bytes of memory of tasks; None: as here.
            object_store_memory: Bytes of the object store; None: as here.
        """
        new = (cpu, gpu, object_store_memory, memory)
        return ExecutionResources(
            *(a if v is None else v for v, a in zip(new, self._given, strict=True))
        )

    def add(self, other: ExecutionResources) -> ExecutionResources:
        """The sum of both, each amount by itself.

        Args:
            other: The other amounts.
        """
        return self._with(other, lambda a, b: a + b)

    def subtract(self, other: ExecutionResources) -> ExecutionResources:
        """What is left; may be negative.

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
        """f times each amount; ValueError for a negative f.

        Args:
            f: The factor, 0 or more.
        """
        if f < 0:
            raise ValueError(f"scale: the factor must be non-negative, not {f}")
        return ExecutionResources(*(a * f if f else 0 for a in self._amounts()))

    def floordiv(self, other: ExecutionResources) -> ExecutionResources:
        """How often `other` goes into it, amount by amount; inf where `other` has none of it.

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
            limit: The amounts that are not to be passed.
            ignore_object_store_memory: Leaves the object store out.
        """
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
    """How one execution runs: limits and order. A name that is no option is an AttributeError with
    the nearest that is.

    Args:
        resource_limits: An ExecutionResources: what one execution may use at most; what is not set
            in it is without limit.
        exclude_resources: An ExecutionResources: what it leaves to others (CPUs, GPUs, bytes of the
            store).
        locality_with_output: Has no effect: there is one machine. Setting it warns.
        preserve_order: Whether blocks come in the order of the input. Order costs nothing here, so
            it is kept by default.
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
        # Ray's default is False; here order costs nothing, so it is kept
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
        """False: there is one machine."""
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
        """Checks the options against each other, as each run does.

        Raises:
            ValueError: A resource is limited and excluded at once.
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


_told: set[str] = set()  # names without effect that were spoken of


# ---- what a value may be: functions from the name and the value that was written to the value that
# is kept


Check = Callable[[str, Any], Any]


def _whole(least: int, unit: str, none: str | None = None) -> Check:
    """An int of `least` or more, in `unit`; a float that is whole counts. none: what None means,
    where it is allowed."""

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
        if type(v).__name__ in ("bool_", "bool"):  # NumPy's
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
    # ValueError names what is none
    return (
        v
        if isinstance(v, FixedShapeTensorFormat)
        else FixedShapeTensorFormat(getattr(v, "value", v))
    )


# name: (default, what a value may be). What they mean: the docstring of DataContext.
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
}


# what operators without a function of the user read there
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
    shows what differs from the defaults.

    A value is checked when it is written: TypeError or ValueError say what is wanted, in which
    unit. A name that is no setting is an AttributeError with the nearest that is; values of your
    own go to set_config(). Settings of Ray that mean nothing here are taken, with one warning each.
    (Where `import ray` means skate, a name that is like no setting is kept as a value of the
    program's own, as Ray does, with a warning.)

    target_max_block_size: Bytes that a block has at most, about; None: as many as a task makes.
    target_min_block_size: Bytes below which blocks are put together before a function gets them.
    read_block_size: Bytes that one block of range(), from_items() and the like has.
    read_op_min_num_blocks: Blocks that a custom Datasource is asked for at least.
    enable_progress_bars: Whether runs show a line with their progress, where stderr is a terminal
    or a notebook.
    execution_options: An ExecutionOptions: limits and order of runs.
    scheduling_policy: The name of the policy (a file of src/exec/by/) that chooses the operator
    which runs next; None: "adaptive" where objects may be spilled,
        else "downstream".
    scheduling_strategy: A PlacementGroupSchedulingStrategy: all tasks of a Dataset run in the
    group. The texts "SPREAD" and "DEFAULT" are without effect.
    shuffle_strategy: The name of the strategy (a file of src/shuffle/by/) by which rows move
    between blocks: "auto", "grouped", "index", "merge", "push",
        "push_star", "rounds", "simple", "two_level" (docs/design/exchange.md), or a
        skate.data.ExchangeStrategy of your own. Each ShuffleStrategy is "auto".
    max_errored_blocks: Tasks of a run that may fail, Ray's meaning: what such a task had yet to
    give is missing, the error goes to the log. -1: any number.
    on_error: What becomes of a bad record (a row whose function raises; a line or file that a
    reader cannot understand), where the operator does not say:
        "raise" ends the run, "skip" leaves it out and counts it, "quarantine" keeps it for
        Dataset.errors().
    max_errors: Bad records that a run may have before it fails with
    skate.data.exceptions.TooManyErrors: a number of rows (int; checked all the time), or a
        share of the rows that came in (float from 0.0 to 1.0; checked at the end, before a write is
        committed); None: any number.
    broadcast_join_bytes: A side of a join that comes to at most so many bytes goes to each block of
    the other side, which is not moved then; 0: never. Joins with a
        num_partitions, and those whose kind does not allow it, move both sides.
    replay_bytes: A batch that makes a function of the user fail is kept for `skate replay`
    (data/worker/replay.py) when it has at most so many bytes; 0: none is.
    arrays_in_store: Arrays of at least so many bytes that NumPy makes inside functions of
    map_batches are made in the object store, so that a block of one is not copied; 0: never.
    checkpoint_config: A skate.data.checkpoint.CheckpointConfig: writes of files can be resumed.
    enable_auto_log_stats: Whether each run writes its statistics to the logger `ray.data`, at the
    level INFO.
    verbose_stats_logs: Whether it writes all numbers of to_json() there, too.
    max_tasks_in_flight_per_actor: Tasks that an actor of a pool has at once, one running, the
    others next; None: the engine chooses.
    retried_io_errors: Texts; an error of reading or writing that has one of them in its message is
    tried again.
    raise_original_map_exception: Whether the exception of a user's function is raised as it is.
    log_internal_stack_trace_to_stdout: Whether errors keep the frames of skate's own code.
    enable_fallback_to_arrow_object_ext_type: False: objects that no Arrow type fits are an error;
    None, True: they are pickled.
    arrow_fixed_shape_tensor_format: How arrays of one shape become Arrow columns: a
    FixedShapeTensorFormat, or its value ("v1", "v2", "arrow_native").
    wait_for_min_actors_s: Seconds that a run waits for its actors to be there before it begins;
    GetTimeoutError after that; 0 and less: it does not wait. actor_task_retry_on_errors,
    actor_init_retry_on_errors: Errors for which a call of an actor, or the constructor of its
    class, is tried again: True (all) or
        a list of classes.
    actor_init_max_retries: How often the constructor is tried again; -1: for ever.
    enable_pandas_block: False: batch_format=None is "pyarrow" always.
    enable_tensor_extension_casting: False: pandas batches have TensorArray columns.
    trust_pickled_columns: Whether bytes from outside of this job are unpickled, which runs whatever
    code they name: columns of Python objects in files and tables,
        preprocessors and plans of other programs (docs/design/security.md). Readers have an
        argument of that name for themselves alone.

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
        """A name that is no setting: AttributeError; where the program was written for Ray, which
        takes any, only if it looks like a setting."""
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
        """What differs from the defaults."""
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
            key: Its name.
            default: What to return where there is none.
        """
        return self._kv_configs.get(key, default)

    def set_config(self, key: str, value: Any) -> None:
        """Stores a value under a name; functions find it in their DataContext.get_current().

        Args:
            key: Its name.
            value: Any value that can be pickled.
        """
        self._kv_configs[key] = value

    def remove_config(self, key: str) -> None:
        """Forgets a value.

        Args:
            key: Its name.
        """
        self._kv_configs.pop(key, None)

    @classmethod
    def get_current(cls) -> DataContext:
        """The context of this process (made at the first call)."""
        with cls._lock:
            if settings.current is None:
                settings.current = DataContext()
            return settings.current

    @classmethod
    @contextlib.contextmanager
    def current(cls, context: DataContext) -> Iterator[None]:
        """Makes a context the current one within a with block.

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
        """Whether operators without a function of the user would do something else there by the
        defaults."""
        return any(getattr(self, name) != _default(name) for name in _IN_WORKERS)

    def copy(self) -> DataContext:
        """An independent copy."""
        return _copy.deepcopy(self)


DatasetContext = DataContext  # Ray's older name
