"""Dataset: a lazy table of any size.

A method of Dataset either adds one node to the plan and returns a new Dataset, or runs the plan.
Names, arguments and defaults are those of Ray Data. skate/data/values/batch.py defines what rows
and batches look like to user functions; run/execute.py runs a plan.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import logging
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Unpack, overload

from skate import _job, _skate
from skate._deps import by_key, evaluation, pa, pd, split, write_job
from skate.compat import absent
from skate.data import aggregate, arguments, block, expressions, summary
from skate.data.context import DataContext
from skate.data.files import reading
from skate.data.iterator import DataIterator
from skate.data.methods import batches, convert, mixing, text_table
from skate.data.on_error import check_policy
from skate.data.plan.crossings import crossings
from skate.data.plan.lower import explain, strategy
from skate.data.plan.node import Node, below
from skate.data.plan.resources import as_input, remote_args, resources
from skate.data.random_config import RandomSeedConfig, seeds  # noqa: F401  RandomSeedConfig is public here
from skate.data.read.source import Facts, InMemory, Source
from skate.data.run import errors, execute
from skate.data.run.blocks import fetch, reference
from skate.data.run.dead_letters import Errors
from skate.data.run.engine import ensure_engine, expect
from skate.data.run.plot import StatsText
from skate.data.run.request import RunRequest, RunResult
from skate.data.run.stats import before_a_run
from skate.data.run.unions import conform
from skate.data.schema import Schema
from skate.data.values import batch, marks, pictures, row_dicts
from skate.data.values.unify import cast_batch, check_names, few, merge, unify
from skate.data.worker import dead_letters
from skate.data.write.options import RowOptions, takes_files, takes_rows, takes_tasks
from skate.serialize import cloudpickled
from skate.terminal import notebook

if TYPE_CHECKING:
    from skate import ObjectRef
    from skate.data.datasource import Datasink
    from skate.data.expressions import Expr
    from skate.data.grouped_data import GroupedData
    from skate.data.random_access_dataset import RandomAccessDataset
    from skate.data.summary import DatasetSummary
    from skate.data.trainers.streaming_split import SplitIterator
    from skate.data.typed import (
        BatchFormat,
        BatchFunction,
        Compute,
        Concurrency,
        Mode,
        NumpyBatch,
        OnError,
        Path,
        Row,
        RowFunction,
        Seed,
        Strategy,
    )
    from skate.data.write.mode import SaveMode
    from skate.data.write.options import OpenRowOptions, TaskOptions, WriteOptions


P = ParamSpec("P")


@dataclass
class TaskPoolStrategy:
    """Runs a user function in tasks.

    Args:
        size: Maximum number of tasks at once; None: as many as fit.

    Example:
        >>> from skate.data import TaskPoolStrategy
        >>> TaskPoolStrategy(size=2)
        TaskPoolStrategy(size=2)
    """

    size: int | None = None


@errors.methods
class ActorPoolStrategy:
    """Runs a callable class in a pool of actors, of a fixed size or between min_size and max_size.

    Args:
        size: The fixed number of actors; give either this or min_size and max_size.
        min_size: Number of actors that are started at once; None: 1.
        max_size: Maximum number of actors; None: as many as the CPUs, GPUs and memory allow.
        initial_size: Has no effect.
        max_tasks_in_flight_per_actor: Maximum number of tasks sent to one actor: one runs and the
            others are queued; None: the engine chooses.
        enable_true_multi_threading: Has no effect.

    Raises:
        ValueError: A number is out of its range, or size is combined with min_size or max_size.

    Example:
        >>> from skate.data import ActorPoolStrategy
        >>> ActorPoolStrategy(size=2)
        ActorPoolStrategy(min_size=2, max_size=2)
    """

    def __init__(
        self,
        *,
        size: int | None = None,
        min_size: int | None = None,
        max_size: int | None = None,
        initial_size: int | None = None,
        max_tasks_in_flight_per_actor: int | None = None,
        enable_true_multi_threading: bool = False,
    ):
        if size is not None:
            if size < 1:
                raise ValueError("size must be >= 1")
            if min_size is not None or max_size is not None:
                raise ValueError("size is min_size and max_size in one: give it, or these two")
            min_size = max_size = size
        if min_size is not None and min_size < 0:
            raise ValueError("min_size must be >= 0")
        if max_size is not None and max_size < max(1, min_size or 0):
            raise ValueError("min_size must be <= max_size")
        if max_tasks_in_flight_per_actor is not None and max_tasks_in_flight_per_actor < 1:
            raise ValueError("max_tasks_in_flight_per_actor must be >= 1")
        self.min_size = 1 if min_size is None else min_size
        self.max_size = max_size
        self.max_tasks_in_flight_per_actor = max_tasks_in_flight_per_actor

    def __repr__(self) -> str:
        return f"ActorPoolStrategy(min_size={self.min_size}, max_size={self.max_size})"


_numbers = itertools.count()


@errors.methods
class Dataset(batches.Batches):
    """A lazy, immutable table.

    skate.data.range, read_parquet, from_items, ... and the methods of other Datasets make Datasets;
    programs do not call this constructor.

    Args:
        node: The last operator of the plan (skate/data/plan/node.py).
        facts: What is known about the rows without running the plan.
        context: The settings; None: a copy of the current ones.
    """

    def __init__(self, node: Node, facts: Facts, context: DataContext | None = None):
        self._node, self._facts = node, facts
        self.context = context or DataContext.get_current().copy()
        self._stats: Any = None
        self._errors: Errors | None = None  # of the last run
        self._given_name: str | None = None
        self._schema: Any = None
        self._above: Dataset | None = None  # the Dataset that this one was made from, for repr()
        self._uuid = next(_numbers)

    if not TYPE_CHECKING:  # a type checker would take this method to mean that every name exists

        def __getattr__(self, name: str) -> Any:
            raise absent.attribute(self, "data.Dataset", name)

    def __getstate__(self) -> dict[str, Any]:
        """The state that is pickled for other processes, without the facts that a run in this
        process has found. Workers run the Dataset through run/remote.py."""
        return {
            k: v for k, v in self.__dict__.items() if k not in ("_stats", "_errors", "_above")
        } | {
            "_stats": None,
            "_errors": None,
            "_above": None,
        }

    # ---- The request for a run, and the result of the run.

    def _request(self) -> RunRequest:
        seen = self._schema.arrow if self._schema is not None else None
        return RunRequest(self._node, self.context, self._facts, seen, back=self._ran)

    def _ran(self, result: RunResult) -> None:
        """Stores the result of a run in this Dataset."""
        self._errors = result.errors or self._errors or Errors(None)
        self._stats = result.stats or self._stats
        if result.schema is not None:
            self._schema = Schema(result.schema, pandas=self._frames())

    # ---- Methods that return another Dataset.

    def _add(self, node: Node, facts: Facts | None = None) -> Dataset:
        facts = facts or Facts(files=self._facts.files)
        if (
            facts.rows is not None
            and node.operator.on_error
            and (node.params.get("on_error") or self.context.on_error) != "raise"
        ):
            facts = facts._replace(rows=None)
        out = Dataset(node, facts, self.context)
        out._above = self
        return out

    def _columns(self, op: str, label: str, params: dict[str, Any]) -> Dataset:
        """Adds a node that changes columns and runs in the tasks of the operator before it."""
        node, known = (
            Node(op, label, params, (self._node,), **as_input(self._node)),
            self._facts.schema,
        )
        # The schema is computed now and not lazily, because a thousand such nodes would nest
        # functions too deeply.
        schema = node.operator.schema(params, known()) if known else None
        rows = self._facts.rows if node.operator.one_to_one else None
        return self._add(
            node, Facts(rows, (lambda: schema) if schema is not None else None, self._facts.files)
        )

    def _udf(
        self,
        op: str,
        kind: str,
        fn: Any,
        *,
        compute: Any,
        concurrency: Any,
        fn_args: Any,
        fn_kwargs: Any,
        fn_constructor_args: Any,
        fn_constructor_kwargs: Any,
        remote: dict[str, Any],
        on_error: str | None = None,
        facts: Facts | None = None,
        batch_rows: int = 0,
        **params: Any,
    ) -> Dataset:
        """Adds a node with a user function: a function runs in tasks, a class in a pool of
        actors."""
        if not callable(fn):
            raise (ValueError if kind == "Filter" else TypeError)(
                f"{kind}: fn must be a UserDefinedFunction (a function, or a class with __call__), not {type(fn).__name__}"
            )
        inner = fn.func if isinstance(fn, functools.partial) else fn
        name = getattr(inner, "__name__", None) or type(inner).__name__
        if inspect.ismethod(inner):
            name = f"{(inner.__self__ if inspect.isclass(inner.__self__) else type(inner.__self__)).__name__}.{name}"
        label = f"{kind}({name})"
        options = resources(remote)
        if remote.get("num_cpus") and remote.get("num_gpus"):
            logging.getLogger("ray.data").warning(
                "Specifying both num_cpus and num_gpus for map tasks is experimental: both are reserved, the scarcer one decides how many run."
            )
        if check_policy(on_error) is not None:
            params["on_error"] = on_error
        if remote.get("max_concurrency") is not None:
            params["max_concurrency"] = remote["max_concurrency"]
        params.update(fn=fn, fn_args=tuple(fn_args or ()), fn_kwargs=dict(fn_kwargs or {}))
        if inspect.isclass(fn):
            params["ctor"] = (tuple(fn_constructor_args or ()), dict(fn_constructor_kwargs or {}))
            pool = _pool(kind, compute, concurrency, options)
            options["pool"] = (pool.min_size, pool.max_size)
            options["max_in_flight"] = pool.max_tasks_in_flight_per_actor or 0
        else:
            if fn_constructor_args or fn_constructor_kwargs:
                raise ValueError(
                    f"fn_constructor_args and fn_constructor_kwargs are for classes; {label} is a function"
                )
            options["max_tasks"] = _max_tasks(label, compute, concurrency)
        return self._add(
            Node(
                op, label, params, (self._node.beside(options),), batch_rows=batch_rows, **options
            ),
            facts,
        )

    def map_batches(
        self,
        fn: BatchFunction,
        *,
        batch_size: int | Literal["default", "auto"] | None = None,
        compute: Compute = None,
        batch_format: BatchFormat = "default",
        zero_copy_batch: bool = True,
        fn_args: Iterable[Any] | None = None,
        fn_kwargs: dict[str, Any] | None = None,
        fn_constructor_args: Iterable[Any] | None = None,
        fn_constructor_kwargs: dict[str, Any] | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        concurrency: Concurrency = None,
        udf_modifying_row_count: bool = True,
        on_error: OnError = None,
        ray_remote_args_fn: Callable[[], dict[str, Any]] | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Applies fn to batches of rows.

        Args:
            fn: A function, generator function or class with __call__ (run in a pool of actors) from
                a batch to a batch. If it is async, each task calls it for up to max_concurrency
                batches at once (one of ray_remote_args; 4), which it reads beforehand; the results
                keep the order of the batches.
            batch_size: Maximum number of rows of a batch; None: whole blocks. Required with
                num_gpus. "auto": from 1 row on twice as many, as long as that makes fn faster and a
                batch takes at most a second and 64 MiB; a batch for which memory does not suffice
                (also that of a GPU) is tried again in halves. So fn has to treat each row by
                itself.
            compute: Where fn runs and how many at once: a TaskPoolStrategy (for functions) or an
                ActorPoolStrategy (for classes). Replaces concurrency.
            batch_format: "default"/"numpy" (dict of arrays), "pandas" or "pyarrow"; None: "pandas"
                where the blocks came as DataFrames, else "pyarrow".
            zero_copy_batch: True: the arrays of a batch are read-only views of shared memory.
                False: fn gets a copy that it may write to.
            fn_args: Positional arguments passed to fn after its first one.
            fn_kwargs: Keyword arguments passed to fn.
            fn_constructor_args: Positional arguments of the constructor if fn is a class;
                ValueError if fn is a function.
            fn_constructor_kwargs: Keyword arguments of the constructor if fn is a class; ValueError
                if fn is a function.
            num_cpus: CPUs that each task or actor reserves; None: 1.
            num_gpus: GPUs that each task or actor reserves; None: none.
            memory: Bytes of memory that each task or actor reserves; None: none.
            concurrency: Maximum number of tasks or actors at once; for a class also (min, max)
                actors; None: as many as fit.
            udf_modifying_row_count: False promises that fn returns as many rows as it gets, so that
                the row count is known without a run (len() of a DataLoader, repr).
            on_error: What to do with rows on which fn raises: "raise", "skip" or "quarantine" (see
                errors()); None: as DataContext.on_error says. When a batch fails, fn is called
                again with halves of the batch until the bad rows are found, so fn then sees smaller
                batches, and some rows twice.
            ray_remote_args_fn: A function that returns more of ray_remote_args; called once.
            ray_remote_args: Other options of the tasks or actors, as in skate.remote: resources,
                runtime_env, scheduling_strategy, max_retries, ...

        Raises:
            TypeError, ValueError: fn is not callable, or an option does not fit it. Errors that fn
                raises appear when the Dataset runs.

        Example:
            >>> import skate
            >>> skate.data.range(3).map_batches(lambda b: {"x": b["id"] * 2}).take_all()
            [{'x': 0}, {'x': 2}, {'x': 4}]
        """
        from_default = batch_size == "default"
        if from_default:
            warnings.warn(
                "Passing 'default' to `map_batches` is deprecated and won't be supported after September 2025. Use `batch_size=None` instead.",
                DeprecationWarning,
                stacklevel=2,
            )
        size: Any = None if from_default else batch_size
        auto = size == "auto"
        if size is not None and not auto and (type(size) is not int or size < 1):
            raise ValueError(
                f"batch_size must be a positive int, 'auto' or None, not {batch_size!r}"
            )
        if num_gpus and size is None:
            raise ValueError(
                "map_batches with num_gpus needs batch_size: as many rows as the GPU's memory takes, at most"
            )
        if batch_format not in ("default", "numpy", "pandas", "pyarrow", None):
            raise ValueError(
                f"batch_format must be 'default', 'numpy', 'pandas', 'pyarrow' or None, not {batch_format!r}"
            )
        if batch_format is None and self._frames():
            batch_format = "pandas"
        rows = None if udf_modifying_row_count else self._facts.rows
        return self._udf(
            "map_batches",
            "MapBatches",
            fn,
            compute=compute,
            concurrency=concurrency,
            fn_args=fn_args,
            fn_kwargs=fn_kwargs,
            fn_constructor_args=fn_constructor_args,
            fn_constructor_kwargs=fn_constructor_kwargs,
            on_error=on_error,
            remote={
                "num_cpus": num_cpus,
                "num_gpus": num_gpus,
                "memory": memory,
                **remote_args(ray_remote_args, ray_remote_args_fn),
            },
            facts=Facts(rows, None, self._facts.files),
            batch_rows=0 if auto else size or 0,
            batch_size=size,
            batch_format=batch_format,
            zero_copy_batch=zero_copy_batch,
        )

    def map(
        self,
        fn: RowFunction,
        *,
        compute: Compute = None,
        fn_args: Iterable[Any] | None = None,
        fn_kwargs: dict[str, Any] | None = None,
        fn_constructor_args: Iterable[Any] | None = None,
        fn_constructor_kwargs: dict[str, Any] | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        concurrency: Concurrency = None,
        on_error: OnError = None,
        ray_remote_args_fn: Callable[[], dict[str, Any]] | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Applies fn to each row; fn maps a dict to a dict.

        Args:
            fn: A function, or a class with __call__ (run in a pool of actors), from a row (a dict)
                to a row. If it is async, each task calls it for up to max_concurrency rows at once
                (one of ray_remote_args; 16); the results keep the order of the rows.
            compute: Where fn runs and how many at once: a TaskPoolStrategy (for functions) or an
                ActorPoolStrategy (for classes). Replaces concurrency.
            fn_args: Positional arguments passed to fn after its first one.
            fn_kwargs: Keyword arguments passed to fn.
            fn_constructor_args: Positional arguments of the constructor if fn is a class;
                ValueError if fn is a function.
            fn_constructor_kwargs: Keyword arguments of the constructor if fn is a class; ValueError
                if fn is a function.
            num_cpus: CPUs that each task or actor reserves; None: 1.
            num_gpus: GPUs that each task or actor reserves; None: none.
            memory: Bytes of memory that each task or actor reserves; None: none.
            concurrency: Maximum number of tasks or actors at once; for a class also (min, max)
                actors; None: as many as fit.
            on_error: What to do with rows on which fn raises: "raise", "skip" or "quarantine" (see
                errors()); None: as DataContext.on_error says.
            ray_remote_args_fn: A function that returns more of ray_remote_args; called once.
            ray_remote_args: Other options of the tasks or actors, as in skate.remote: resources,
                runtime_env, scheduling_strategy, max_retries, ...

        Raises:
            TypeError, ValueError: fn is not callable, or an option does not fit it. Errors that fn
                raises appear when the Dataset runs.

        Example:
            >>> import skate
            >>> skate.data.range(2).map(lambda r: {"x": r["id"] + 1}).take_all()
            [{'x': 1}, {'x': 2}]
        """
        return self._udf(
            "map",
            "Map",
            fn,
            compute=compute,
            concurrency=concurrency,
            fn_args=fn_args,
            fn_kwargs=fn_kwargs,
            fn_constructor_args=fn_constructor_args,
            fn_constructor_kwargs=fn_constructor_kwargs,
            on_error=on_error,
            remote={
                "num_cpus": num_cpus,
                "num_gpus": num_gpus,
                "memory": memory,
                **remote_args(ray_remote_args, ray_remote_args_fn),
            },
            facts=Facts(self._facts.rows, None, self._facts.files),
        )

    def flat_map(
        self,
        fn: RowFunction,
        *,
        compute: Compute = None,
        fn_args: Iterable[Any] | None = None,
        fn_kwargs: dict[str, Any] | None = None,
        fn_constructor_args: Iterable[Any] | None = None,
        fn_constructor_kwargs: dict[str, Any] | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        concurrency: Concurrency = None,
        on_error: OnError = None,
        ray_remote_args_fn: Callable[[], dict[str, Any]] | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Applies fn to each row; fn maps a dict to a list of dicts.

        Args:
            fn: A function, or a class with __call__ (run in a pool of actors), from a row (a dict)
                to an iterable of rows. If it is async, each task calls it for up to
                max_concurrency rows at once (one of ray_remote_args; 16); the results keep the
                order of the rows.
            compute: Where fn runs and how many at once: a TaskPoolStrategy (for functions) or an
                ActorPoolStrategy (for classes). Replaces concurrency.
            fn_args: Positional arguments passed to fn after its first one.
            fn_kwargs: Keyword arguments passed to fn.
            fn_constructor_args: Positional arguments of the constructor if fn is a class;
                ValueError if fn is a function.
            fn_constructor_kwargs: Keyword arguments of the constructor if fn is a class; ValueError
                if fn is a function.
            num_cpus: CPUs that each task or actor reserves; None: 1.
            num_gpus: GPUs that each task or actor reserves; None: none.
            memory: Bytes of memory that each task or actor reserves; None: none.
            concurrency: Maximum number of tasks or actors at once; for a class also (min, max)
                actors; None: as many as fit.
            on_error: What to do with rows on which fn raises: "raise", "skip" or "quarantine" (see
                errors()); None: as DataContext.on_error says.
            ray_remote_args_fn: A function that returns more of ray_remote_args; called once.
            ray_remote_args: Other options of the tasks or actors, as in skate.remote: resources,
                runtime_env, scheduling_strategy, max_retries, ...

        Raises:
            TypeError, ValueError: fn is not callable, or an option does not fit it. Errors that fn
                raises appear when the Dataset runs.

        Example:
            >>> import skate
            >>> skate.data.range(2).flat_map(lambda r: [r, r]).count()
            4
        """
        return self._udf(
            "flat_map",
            "FlatMap",
            fn,
            compute=compute,
            concurrency=concurrency,
            fn_args=fn_args,
            fn_kwargs=fn_kwargs,
            fn_constructor_args=fn_constructor_args,
            fn_constructor_kwargs=fn_constructor_kwargs,
            on_error=on_error,
            remote={
                "num_cpus": num_cpus,
                "num_gpus": num_gpus,
                "memory": memory,
                **remote_args(ray_remote_args, ray_remote_args_fn),
            },
        )

    def filter(
        self,
        fn: RowFunction | None = None,
        expr: Expr | str | None = None,
        *,
        compute: Compute = None,
        fn_args: Iterable[Any] | None = None,
        fn_kwargs: dict[str, Any] | None = None,
        fn_constructor_args: Iterable[Any] | None = None,
        fn_constructor_kwargs: dict[str, Any] | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        concurrency: Concurrency = None,
        on_error: OnError = None,
        ray_remote_args_fn: Callable[[], dict[str, Any]] | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Keeps the rows for which fn(row), or the expression, is true; null counts as false.

        Args:
            fn: A function, or a class with __call__ (run in a pool of actors), from a row (a dict)
                to True or False; None if expr is given. If it is async, each task calls it for up
                to max_concurrency rows at once (one of ray_remote_args; 16).
            expr: An expression, or text such as "x > 3 and name in ('a', 'b') or y is null". It is
                evaluated column by column, without Python code per row.
            compute: Where fn runs and how many at once: a TaskPoolStrategy (for functions) or an
                ActorPoolStrategy (for classes). Replaces concurrency.
            fn_args: Positional arguments passed to fn after its first one.
            fn_kwargs: Keyword arguments passed to fn.
            fn_constructor_args: Positional arguments of the constructor if fn is a class;
                ValueError if fn is a function.
            fn_constructor_kwargs: Keyword arguments of the constructor if fn is a class; ValueError
                if fn is a function.
            num_cpus: CPUs that each task or actor reserves; None: 1.
            num_gpus: GPUs that each task or actor reserves; None: none.
            memory: Bytes of memory that each task or actor reserves; None: none.
            concurrency: Maximum number of tasks or actors at once; for a class also (min, max)
                actors; None: as many as fit.
            on_error: What to do with rows on which fn raises: "raise", "skip" or "quarantine" (see
                errors()); None: as DataContext.on_error says.
            ray_remote_args_fn: A function that returns more of ray_remote_args; called once.
            ray_remote_args: Other options of the tasks or actors, as in skate.remote: resources,
                runtime_env, scheduling_strategy, max_retries, ...

        Raises:
            TypeError, ValueError: fn is not callable, or an option does not fit it. Errors that fn
                raises appear when the Dataset runs.

        Example:
            >>> import skate
            >>> skate.data.range(10).filter(expr="id % 4 == 1").take_all()
            [{'id': 1}, {'id': 5}, {'id': 9}]
        """
        if (fn is None) == (expr is None):
            raise ValueError(
                "filter takes either a function or expr: exactly one of 'fn' and 'expr' must be provided"
            )
        facts = Facts(None, self._facts.schema, self._facts.files)
        if expr is not None:
            if isinstance(expr, str):
                expect("skate.data.expr.evaluation")
                text, expr = expr, evaluation.parse(expr)  # raises here, not in a worker
            elif isinstance(expr, expressions.Expr):
                text = expressions.inline(expr)
            else:
                raise TypeError(
                    f"filter: expr must be an expression or text, not {type(expr).__name__}"
                )
            remote = {
                "num_cpus": num_cpus,
                "num_gpus": num_gpus,
                "memory": memory,
                **remote_args(ray_remote_args, ray_remote_args_fn),
            }
            numbers = any(isinstance(n, expressions.NUMBERED) for n in expressions.walk(expr))
            return self._expressions(
                "filter_numbered" if numbers else "filter",
                f"Filter({text})",
                {"expr": expr},
                [expr],
                compute,
                concurrency,
                remote,
                facts,
                on_error,
            )
        return self._udf(
            "filter",
            "Filter",
            fn,
            compute=compute,
            concurrency=concurrency,
            fn_args=fn_args,
            fn_kwargs=fn_kwargs,
            fn_constructor_args=fn_constructor_args,
            fn_constructor_kwargs=fn_constructor_kwargs,
            on_error=on_error,
            remote={
                "num_cpus": num_cpus,
                "num_gpus": num_gpus,
                "memory": memory,
                **remote_args(ray_remote_args, ray_remote_args_fn),
            },
            facts=facts,
        )

    def _expressions(
        self,
        op: str,
        label: str,
        params: dict[str, Any],
        exprs: list[Any],
        compute: Any,
        concurrency: Any,
        remote: dict[str, Any],
        facts: Facts,
        on_error: str | None = None,
    ) -> Dataset:
        """Adds a node that evaluates expressions; callable classes in them need a pool of
        actors."""
        for e in exprs:
            for n in expressions.walk(e):
                if isinstance(n, expressions.AggregateExpr):
                    raise TypeError(
                        f"{label}: {expressions.inline(n)} is an aggregate: groupby(...).agg(...) computes it"
                    )
        options = {**as_input(self._node), **resources(remote)}
        if check_policy(on_error) is not None:
            params = {**params, "on_error": on_error}
        if any(
            isinstance(n, expressions.UDFExpr) and n.callable_class_spec is not None
            for e in exprs
            for n in expressions.walk(e)
        ):
            options.pop("max_tasks", None)
            pool = _pool(label, compute, concurrency, options)
            options["pool"], options["max_in_flight"] = (
                (pool.min_size, pool.max_size),
                pool.max_tasks_in_flight_per_actor or 0,
            )
        elif compute is not None or concurrency is not None:
            options["max_tasks"] = _max_tasks(label, compute, concurrency)
        return self._add(Node(op, label, params, (self._node,), **options), facts)

    def with_column(
        self,
        column_name: str,
        expr: Expr,
        *,
        compute: Compute = None,
        on_error: OnError = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Adds or replaces one column, computed by an expression over the other columns.

        Args:
            column_name: Name of the column; an existing column of this name is replaced.
            expr: An expression (skate.data.expressions); TypeError for anything else.
            compute: Where callable classes in expr run: TaskPoolStrategy or ActorPoolStrategy.
            on_error: What to do with rows on which expr raises: "raise", "skip" or "quarantine"
                (see errors()); None: as DataContext.on_error says.
            ray_remote_args: Other options of the tasks or actors, as in skate.remote: resources,
                runtime_env, scheduling_strategy, max_retries, ...

        Example:
            >>> import skate
            >>> from skate.data.expressions import col
            >>> skate.data.range(2).with_column("y", col("id") * 2).take_all()
            [{'id': 0, 'y': 0}, {'id': 1, 'y': 2}]
        """
        return self._project("with_column", {column_name: expr}, compute, on_error, ray_remote_args)

    def with_columns(
        self,
        exprs: dict[str, Expr],
        *,
        compute: Compute = None,
        on_error: OnError = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Adds or replaces several columns, each computed by an expression over the columns that
        were there before. (polars.DataFrame.with_columns; Ray has with_column alone.)

        Args:
            exprs: {name: expression}; existing columns of these names are replaced.
            compute: Where callable classes in exprs run: TaskPoolStrategy or ActorPoolStrategy.
            on_error: What to do with rows on which an expression raises: "raise", "skip" or
                "quarantine" (see errors()); None: as DataContext.on_error says.
            ray_remote_args: Other options of the tasks or actors, as in skate.remote: resources,
                runtime_env, scheduling_strategy, max_retries, ...

        Raises:
            TypeError, ValueError: exprs is no dict of names and expressions, or is empty.

        Example:
            >>> import skate
            >>> from skate.data.expressions import col
            >>> skate.data.range(2).with_columns(
            ...     {"id": col("id") + 1, "y": col("id") * 2}
            ... ).take_all()
            [{'id': 1, 'y': 0}, {'id': 2, 'y': 2}]
        """
        if not isinstance(exprs, dict):
            raise TypeError(
                f"with_columns: exprs must be a dict of names and expressions, not {type(exprs).__name__}"
            )
        if not exprs:
            raise ValueError("with_columns: exprs is empty; give at least one column")
        return self._project("with_columns", exprs, compute, on_error, ray_remote_args)

    def _project(
        self,
        what: str,
        exprs: dict[str, Expr],
        compute: Any,
        on_error: str | None,
        remote: dict[str, Any],
        keep: bool = True,
    ) -> Dataset:
        """Adds the node that computes columns from expressions, and appends or replaces them; without
        keep there are no others."""
        x = expressions
        for name, expr in exprs.items():
            if not isinstance(expr, x.Expr) or isinstance(expr, x.StarExpr):
                raise TypeError(
                    f"{what}: expr must be an expression over columns, not {type(expr).__name__}"
                )
            if not isinstance(name, str) or not name:
                raise ValueError(f"{what}: column_name must be a text, not {name!r}")
        numbers = any(isinstance(n, x.NUMBERED) for e in exprs.values() for n in x.walk(e))
        said = few([f"{name}={x.inline(e._unalias())}" for name, e in exprs.items()])
        label = (
            f"WithColumn{'' if len(exprs) == 1 else 's'}({said})" if keep else f"Project({said})"
        )
        params = {"exprs": list(exprs.items()), "keep": keep}
        facts = Facts(self._facts.rows, None, self._facts.files)
        op = "project_numbered" if numbers else "project"
        return self._expressions(
            op, label, params, list(exprs.values()), compute, None, remote, facts, on_error
        )

    def add_column(
        self,
        col: str,
        fn: Callable[[Any], Any],
        *,
        batch_format: Literal["pandas", "numpy", "pyarrow"] = "pandas",
        compute: Compute = None,
        concurrency: Concurrency = None,
        on_error: OnError = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Adds one column that fn computes from each batch, as a column of the batch's length and
        format.

        Args:
            col: Name of the column.
            fn: Returns a Series, a list or one value for all rows ("pandas"), a numpy.ndarray
                ("numpy") or a pyarrow Array ("pyarrow"); TypeError for others.
            batch_format: What fn gets: "pandas" (a DataFrame), "numpy" (a dict of arrays) or
                "pyarrow" (a Table).
            compute: Where fn runs and how many at once: a TaskPoolStrategy (for functions) or an
                ActorPoolStrategy (for classes). Replaces concurrency.
            concurrency: Maximum number of tasks or actors at once; for a class also (min, max)
                actors; None: as many as fit.
            on_error: What to do with rows on which fn raises: "raise", "skip" or "quarantine" (see
                errors()); None: as DataContext.on_error says.
            ray_remote_args: Other options of the tasks or actors, as in skate.remote: resources,
                runtime_env, scheduling_strategy, max_retries, ...

        Raises:
            ValueError: fn is not callable, or batch_format is not one of these.

        Example:
            >>> import skate
            >>> skate.data.range(2).add_column(
            ...     "y", lambda b: b["id"] * 3, batch_format="numpy"
            ... ).take_all()
            [{'id': 0, 'y': 0}, {'id': 1, 'y': 3}]
        """
        if not callable(fn):
            raise ValueError(f"`fn` must be callable, got {fn}")
        if batch_format not in ("pandas", "pyarrow", "numpy"):
            raise ValueError(
                f"batch_format argument must be 'pandas', 'pyarrow' or 'numpy', not {batch_format!r}"
            )
        return self._udf(
            "add_column",
            f"AddColumn[{col}]",
            fn,
            compute=compute,
            concurrency=concurrency,
            fn_args=None,
            fn_kwargs=None,
            fn_constructor_args=None,
            fn_constructor_kwargs=None,
            on_error=on_error,
            remote=ray_remote_args,
            facts=Facts(self._facts.rows, None, self._facts.files),
            col=col,
            batch_format=batch_format,
        )

    def select_columns(
        self,
        cols: str | list[str],
        *,
        compute: Compute = None,
        concurrency: int | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Keeps only these columns, in this order.

        Args:
            cols: A column or a list of columns.
            compute: Has no effect: the projection runs in the tasks of the operator before it.
            concurrency: Has no effect.
            ray_remote_args: Has no effect.

        Raises:
            KeyError: There is no such column (raised at once if the schema is known, else during
                the run).
            ValueError: A name is given twice.

        Example:
            >>> import skate
            >>> skate.data.from_items([{"a": 1, "b": 2}]).select_columns("b").take_all()
            [{'b': 2}]
        """
        names = _names(cols, "select_columns")
        if len(set(names)) != len(names):
            raise ValueError(f"select_columns: expected unique column names, not {names}")
        self._check_columns(names, "select_columns")
        return self._columns("select_columns", f"SelectColumns({few(names)})", {"cols": names})

    def drop_columns(
        self,
        cols: str | list[str],
        *,
        compute: Compute = None,
        concurrency: int | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Drops these columns and keeps all others.

        Args:
            cols: A column or a list of columns.
            compute: Has no effect: the projection runs in the tasks of the operator before it.
            concurrency: Has no effect.
            ray_remote_args: Has no effect.

        Raises:
            KeyError: There is no such column (raised at once if the schema is known, else during
                the run).
            ValueError: A name is given twice.

        Example:
            >>> import skate
            >>> skate.data.from_items([{"a": 1, "b": 2}]).drop_columns(["b"]).take_all()
            [{'a': 1}]
        """
        names = _names(cols, "drop_columns")
        if len(set(names)) != len(names):
            raise ValueError(f"drop_columns expects unique column names, not {names}")
        self._check_columns(names, "drop_columns")
        return self._columns("drop_columns", f"DropColumns({few(names)})", {"cols": names})

    def rename_columns(
        self,
        names: dict[str, str] | list[str],
        *,
        concurrency: int | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Renames columns, by a dict of old to new names or by a list of all new names.

        Args:
            names: {old name: new name}, or a list of new names for all columns in their order.
            concurrency: Has no effect.
            ray_remote_args: Has no effect.

        Raises:
            ValueError: Two columns would have one name, or the list is not as long as the number of
                columns.
            KeyError: There is no such column.

        Example:
            >>> import skate
            >>> skate.data.range(1).rename_columns({"id": "n"}).take_all()
            [{'n': 0}]
        """
        if isinstance(names, dict):
            if not names:
                raise ValueError("rename_columns received 'names' with no entries.")
            if not all(isinstance(v, str) for v in [*names, *names.values()]):
                raise ValueError(
                    "rename_columns requires both keys and values in the 'names' to be strings."
                )
            if len(set(names.values())) != len(names):
                raise ValueError(
                    f"rename_columns received duplicate values in the 'names': {names}"
                )
            new: Any = dict(names)
            self._check_columns(list(names), "rename_columns")
            if self._facts.schema is not None:
                check_names([new.get(n, n) for n in self._facts.schema().names], "rename_columns")
        elif isinstance(names, (list, tuple)):
            if not names:
                raise ValueError("rename_columns requires 'names' with at least one column name.")
            if not all(isinstance(v, str) for v in names):
                raise ValueError(
                    "rename_columns requires all elements in the 'names' to be strings."
                )
            if len(set(names)) != len(names):
                raise ValueError(
                    f"rename_columns received duplicate values in the 'names': {names}"
                )
            new = list(names)
        else:
            raise TypeError(
                f"rename_columns expected names to be either List[str] or Dict[str, str], got {type(names)}."
            )
        if (
            isinstance(new, list)
            and self._facts.schema is not None
            and len(self._facts.schema().names) != len(new)
        ):
            have = self._facts.schema().names
            raise ValueError(
                f"rename_columns requires 'names': [{few(map(repr, new))}] length match current schema names: [{few(map(repr, have))}]."
            )
        return self._columns("rename_columns", "RenameColumns", {"names": new})

    def explode(self, column: str) -> Dataset:
        """Makes one row of each element of a column of lists; the other columns are repeated.

        A row whose list is empty or null stays, with null. (polars.DataFrame.explode; Ray has no
        such method.)

        Args:
            column: Name of the column of lists.

        Raises:
            KeyError: There is no such column (raised at once if the schema is known, else during
                the run).
            TypeError: The column holds no lists (raised at the same time).

        Example:
            >>> import skate
            >>> skate.data.from_items([{"a": 1, "b": [2, 3]}, {"a": 4, "b": []}]).explode(
            ...     "b"
            ... ).take_all()
            [{'a': 1, 'b': 2}, {'a': 1, 'b': 3}, {'a': 4, 'b': None}]
        """
        self._check_columns([column], "explode")
        return self._columns("explode", f"Explode({column})", {"col": column})

    def unpivot(
        self,
        on: str | list[str] | None = None,
        *,
        index: str | list[str] | None = None,
        variable_name: str = "variable",
        value_name: str = "value",
    ) -> Dataset:
        """Turns columns into rows: each row becomes one row for each column of `on`, with the
        column's name and its value. (polars.DataFrame.unpivot, pandas.DataFrame.melt; Ray has no
        such method.)

        Rows made from one row stand together, in the order of `on`. The values get the type that
        holds the values of all these columns exactly.

        Args:
            on: A column or a list of columns; None: all columns but those of index.
            index: A column or a list of columns that are repeated beside each value; None: none.
            variable_name: Name of the column that holds the names.
            value_name: Name of the column that holds the values.

        Raises:
            KeyError: There is no such column (raised at once if the schema is known, else during
                the run).
            TypeError: No type holds the values of all these columns (raised at the same time).
            ValueError: Two columns would have one name, or no column is left to become rows.

        Example:
            >>> import skate
            >>> ds = skate.data.from_items([{"id": 1, "a": 2, "b": 3}])
            >>> ds.unpivot(["a", "b"], index="id").take_all()
            [{'id': 1, 'variable': 'a', 'value': 2}, {'id': 1, 'variable': 'b', 'value': 3}]
        """
        which = None if on is None else _names(on, "unpivot")
        beside = [] if index is None else _names(index, "unpivot")
        check_names([*beside, variable_name, value_name], "unpivot")
        if which is not None:
            check_names(which, "unpivot")
            if not which:
                raise ValueError("unpivot: `on` is empty; name the columns that become rows")
        self._check_columns([*(which or ()), *beside], "unpivot")
        label = f"Unpivot({'all others' if which is None else few(which)})"
        return self._columns(
            "unpivot",
            label,
            {"on": which, "index": beside, "names": [variable_name, value_name]},
        )

    def unnest(self, columns: str | list[str], *, separator: str | None = None) -> Dataset:
        """Puts the fields of struct columns in the place of the columns; a null becomes a null in
        each field. (polars.DataFrame.unnest; Ray has no such method.)

        Args:
            columns: A column or a list of columns.
            separator: None: a field's name is the name of its column. Else the name of the struct's
                column and this text come before it.

        Raises:
            KeyError: There is no such column (raised at once if the schema is known, else during
                the run).
            TypeError: A column has no structs (raised at the same time).
            ValueError: Two columns would have one name.

        Example:
            >>> import skate
            >>> ds = skate.data.from_items([{"id": 1, "at": {"x": 2, "y": 3}}])
            >>> ds.unnest("at").take_all(), ds.unnest("at", separator=".").columns()
            ([{'id': 1, 'x': 2, 'y': 3}], ['id', 'at.x', 'at.y'])
        """
        cols = _names(columns, "unnest")
        check_names(cols, "unnest")
        self._check_columns(cols, "unnest")
        return self._columns(
            "unnest", f"Unnest({few(cols)})", {"cols": cols, "separator": separator}
        )

    def decode_images(
        self,
        column: str,
        *,
        size: tuple[int, int] | None = None,
        mode: str | None = None,
        crop: tuple[int, int, int, int] | Literal["center"] | None = None,
        decoder: Literal["fast", "pillow"] | None = None,
        on_error: OnError = None,
    ) -> Dataset:
        """Decodes a column of encoded images (bytes) into arrays (height, width[, channels]) of
        uint8.

        Null stays null. (Ray has no such method; read_images does the same for files.)

        Args:
            column: Name of the column.
            size: (height, width) to resize to, bilinear with antialiasing; None: not resized.
            mode: Pillow's mode to convert to, such as "RGB" or "L"; None: not converted.
            crop: The region that is cut out before resizing: (top, left, height, width) in pixels,
                or "center": the largest region in the middle that has the proportions of size.
            decoder: None: exactly the pixels that Pillow gives, by a quicker decoder where
                possible; "fast", "pillow": as in read_images.
            on_error: What to do with rows that hold no image: "raise", "skip" or "quarantine" (see
                errors()); None: as DataContext.on_error says.

        Raises:
            KeyError: There is no such column (raised at once if the schema is known, else during
                the run).
            TypeError: The column holds no bytes (raised during the run).
            ValueError: An option has a value that is not one of these.

        Example:
            >>> import skate
            >>> png = bytes.fromhex(
            ...     "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b550000000a49444154789c6360000000020001e221bc330000000049454e44ae426082"
            ... )
            >>> skate.data.from_items([{"im": png}]).decode_images("im").take_all()[0]["im"].shape
            (1, 1)
        """
        self._check_columns([column], "decode_images")
        params = {"col": column, "want": tuple(pictures.wanted(size, mode, crop, decoder))}
        if check_policy(on_error) is not None:
            params["on_error"] = on_error
        return self._columns("decode_images", f"DecodeImages({column})", params)

    def _check_columns(self, names: list[str], what: str) -> None:
        """Raises errors about missing columns now, if the schema is known without a run."""
        self._facts.check_columns(names, what)

    def limit(self, limit: int) -> Dataset:
        """The first `limit` rows. Tasks that are not needed for them do not run; limit(0) still
        runs the first block, to learn its columns.

        Args:
            limit: Number of rows, 0 or more.

        Raises:
            ValueError: limit is no int, or is negative.

        Example:
            >>> import skate
            >>> skate.data.range(1000).limit(3).count()
            3
        """
        if not isinstance(limit, int) or limit < 0:
            raise ValueError(f"limit must be an int of 0 or more, not {limit!r}")
        rows = None if self._facts.rows is None else min(limit, self._facts.rows)
        return self._add(
            Node("limit", f"limit={limit}", {}, (self._node,), limit=limit),
            Facts(rows, self._facts.schema, self._facts.files),
        )

    def union(self, *other: Dataset) -> Dataset:
        """The rows of this Dataset, then those of the others.

        Args:
            other: Other Datasets. A column that one Dataset lacks is null in its rows. Types are
                unified; a TypeError names the columns where that is impossible. An input whose
                columns a user function makes is first run for its first rows, to learn its columns.

        Example:
            >>> import skate
            >>> skate.data.range(2).union(skate.data.range(1)).count()
            3
        """
        all_ds = [self, *other]
        rows = [d._facts.rows for d in all_ds]
        files = [f for d in all_ds for f in d._facts.files]
        nodes, known, schema = _one_schema("union", all_ds)
        # a loop of unions makes one node with many inputs, not a deep chain of nodes
        if nodes[0].operator.concatenates and len(nodes) > 1:
            nodes, known = (*nodes[0].inputs, *nodes[1:]), [*nodes[0].params["schemas"], *known[1:]]
        return self._add(
            Node("union", "Union", {"schemas": known, "seen": {}}, nodes),
            Facts(
                None if None in rows else sum(rows),
                (lambda: schema) if schema is not None else None,
                files,
            ),
        )

    @staticmethod
    def mix(
        datasets: list[Dataset],
        *,
        weights: list[float] | None = None,
        stopping_condition: Literal["first_exhausted", "all_exhausted"] = "first_exhausted",
    ) -> Dataset:
        """The rows of several Datasets in turns, by weights: with weights 3 and 1, three of four
        rows are of the first, and every fourth is of the second.

        The order is a function of the rows and weights alone: no chance, and the same on every run.
        So iterators go on behind any row (`state_dict()`), also with another number of ranks
        (`streaming_split`). Each Dataset keeps its order; shuffle before. The inputs stream side by
        side, and one that is ahead waits.

        Args:
            datasets: At least two and at most 64. Columns and types become one schema, as in
                union().
            weights: A number above 0 for each Dataset; None: all have the same. Weights that are no
                ratio of whole numbers with a sum of at most 1,000 are rounded to thousandths.
            stopping_condition: "first_exhausted": the mix ends where the next row would be one of a
                Dataset that has ended; what is left of the others is not computed.
                "all_exhausted": the others go on by their weights, and each row comes once.

        Raises:
            ValueError: An argument is wrong; or, during the run, the rows of a round (of 10 rows
                for the weights 0.7 and 0.3) are in too many small blocks.
            TypeError: The types of a column cannot be unified.

        Example:
            >>> import skate
            >>> a, b = skate.data.range(100), skate.data.from_items([{"id": -1}] * 100)
            >>> mixed = skate.data.Dataset.mix([a, b], weights=[0.75, 0.25])
            >>> [row["id"] for row in mixed.take(8)], mixed.count()
            ([0, 1, -1, 2, 3, 4, -1, 5], 133)
        """
        shares = mixing.shares(datasets, weights)
        if stopping_condition not in ("first_exhausted", "all_exhausted"):
            raise ValueError(
                f"mix: stopping_condition is 'first_exhausted' or 'all_exhausted', not {stopping_condition!r}"
            )
        shortest = stopping_condition == "first_exhausted"
        rows = [d._facts.rows for d in datasets]
        nodes, known, schema = _one_schema("mix", datasets)
        params = {"schemas": known, "seen": {}, "parts": shares, "shortest": shortest}
        said = ":".join(map(str, shares)) if len(shares) < 9 else f"{len(shares)} inputs"
        node = Node("mix", f"Mix({said})", params, nodes, parts=shares, shortest=shortest)
        facts = Facts(
            mixing.rows_of(shares, rows, shortest),
            (lambda: schema) if schema is not None else None,
            [f for d in datasets for f in d._facts.files],
        )
        return datasets[0]._add(node, facts)

    def random_sample(self, fraction: float, *, seed: Seed = None) -> Dataset:
        """Keeps each row with the probability `fraction`.

        Args:
            fraction: From 0 to 1; ValueError otherwise.
            seed: An int: the same rows each time; a RandomSeedConfig; None: different rows each
                run.

        Example:
            >>> import skate
            >>> skate.data.range(100).random_sample(0.1, seed=1).count() < 50
            True
        """
        if fraction < 0 or fraction > 1:
            raise ValueError(f"random_sample: fraction={fraction}: a share, from 0 to 1")
        if self._facts.rows == 0:
            raise ValueError("random_sample: the Dataset is empty, there is nothing to sample")
        of_run = seeds(seed)
        node = Node(
            "random_sample",
            "RandomSample",
            {"fraction": float(fraction), "seed": of_run(0)},
            (self._node,),
            each_run=lambda k: {"params": {"seed": of_run(k)}},
        )
        return self._add(node, Facts(None, self._facts.schema, self._facts.files))

    # ---- Changes of the order, of the blocks, and splits (methods/split.py).

    def sort(
        self,
        key: str | list[str],
        descending: bool | list[bool] = False,
        boundaries: list[int | float] | None = None,
        *,
        strategy: Strategy = None,
    ) -> Dataset:
        """Sorts the rows by one column or by several.

        The sort is stable. NaN and then nulls come last, in either direction; -0.0 equals 0.0. The
        result is the same on every run, whatever workers and memory there are.

        Args:
            key: A column's name, or several names with the most significant first.
            descending: True: the largest value first; a list has one bool for each key.
            boundaries: Numbers: the values of the first key at which a new block begins, so there
                is one block more than numbers. [10, 20] makes three blocks: values below 10, from
                10 to below 20, and 20 and above; with descending in the reverse order. None: blocks
                of about the same size.
            strategy: How the exchange is wired, which changes no row: a skate.data.ExchangeStrategy
                or a name; None: as DataContext.shuffle_strategy says.

        Raises:
            ValueError: key is empty or no name, descending is not as long as key, or boundaries are
                not numbers. Raised during the run: a column does not exist, or its type has no
                order.

        Example:
            >>> import skate
            >>> skate.data.from_items([{"a": 2}, {"a": None}, {"a": 3}]).sort(
            ...     "a", descending=True
            ... ).take_all()
            [{'a': 3}, {'a': 2}, {'a': None}]
        """
        return self._add(*split.sort(self._request(), key, descending, boundaries, strategy))

    def random_shuffle(
        self,
        *,
        seed: Seed = None,
        num_blocks: int | None = None,
        strategy: Strategy = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Shuffles the rows; all orders are equally likely. A seed gives the same order on every
        run, whatever workers and memory there are.

        Args:
            seed: An int: the same order each time; a RandomSeedConfig; None: a new order each time.
            num_blocks: No longer supported, as in Ray: call repartition() afterwards.
            strategy: How the exchange is wired, as in sort().
            ray_remote_args: Resources of the tasks that distribute the rows, by the names that
                map_batches has.

        Raises:
            DeprecationWarning: num_blocks was given.

        Example:
            >>> import skate
            >>> sorted(row["id"] for row in skate.data.range(4).random_shuffle(seed=1).take_all())
            [0, 1, 2, 3]
        """
        given = (seed, num_blocks, strategy, ray_remote_args)
        return self._add(*split.random_shuffle(self._request(), *given))

    def repartition(
        self,
        num_blocks: int | None = None,
        target_num_rows_per_block: int | None = None,
        *,
        strict: bool = False,
        shuffle: bool = False,
        keys: str | list[str] | None = None,
        sort: bool = False,
        strategy: Strategy = None,
    ) -> Dataset:
        """The same rows in other blocks, in the same order unless they are shuffled.

        Args:
            num_blocks: Number of blocks, of equal row counts; runs everything upstream first.
            target_num_rows_per_block: Maximum number of rows in a block; streams.
            strict: With target_num_rows_per_block: blocks have exactly this many rows (but the
                last).
            shuffle: With num_blocks: each new block gets a piece of what each upstream task made.
                The order is the same on every run.
            keys: One column or several; with num_blocks: all rows that are equal in these columns
                come into one block, in their original order.
            sort: With keys: each block is sorted by them, ascending.
            strategy: With shuffle or keys: how the exchange is wired, as in sort().

        Raises:
            ValueError: Neither or both of num_blocks and target_num_rows_per_block are given; one
                of them is no positive int; or an option is given that belongs to the other one.
            KeyError: There is no such column.

        Example:
            >>> import skate
            >>> skate.data.range(10).repartition(4).materialize().num_blocks()
            4
        """
        given = (num_blocks, target_num_rows_per_block, strict, shuffle, keys, sort, strategy)
        return self._add(*split.repartition(self._request(), *given))

    def randomize_block_order(self, *, seed: Seed = None) -> Dataset:
        """The same blocks in a random order; runs everything upstream first.

        Args:
            seed: An int: the same order each time; a RandomSeedConfig; None: a new order each time.

        Example:
            >>> import skate
            >>> skate.data.range(4, override_num_blocks=2).randomize_block_order(seed=1).count()
            4
        """
        return self._add(*split.randomize_block_order(self._request(), seed))

    def zip(self, *other: Dataset) -> Dataset:
        """The columns of several Datasets side by side; all must have the same number of rows.

        It streams: the blocks of one Dataset set the borders, and blocks of the others are sliced
        there without a copy. That Dataset is the largest if the byte sizes of all are known
        beforehand, else this one. A column name that is taken gets the suffix _1, _2, ...

        Args:
            other: The other Datasets, at least one.

        Raises:
            ValueError: No other Dataset is given; or, during the run, the row counts differ.

        Example:
            >>> import skate
            >>> skate.data.range(2).zip(skate.data.range(2)).take_all()
            [{'id': 0, 'id_1': 0}, {'id': 1, 'id_1': 1}]
        """
        return self._add(*split.zipped([d._request() for d in (self, *other)]))

    def split(
        self, n: int, *, equal: bool = False, locality_hints: list[Any] | None = None
    ) -> list[MaterializedDataset]:
        """Splits the rows in order into n Datasets of about equal row counts. Runs this Dataset.

        Args:
            n: Number of Datasets; ValueError below 1.
            equal: All get the same number of rows; up to n - 1 rows are left out.
            locality_hints: One for each split (ValueError otherwise). They have no effect: there is
                one machine.

        Example:
            >>> import skate
            >>> [d.count() for d in skate.data.range(10).split(3, equal=True)]
            [3, 3, 3]
        """
        return self._parts(split.by_number(n, equal, locality_hints))[:n]

    def split_at_indices(self, indices: list[int]) -> list[MaterializedDataset]:
        """Splits the rows before each of these row numbers. Runs this Dataset.

        Args:
            indices: Row numbers, ascending; ValueError for none, negative or descending ones.

        Returns:
            One Dataset for each index, with the rows before it, and one with the remaining rows.

        Example:
            >>> import skate
            >>> [d.count() for d in skate.data.range(10).split_at_indices([2, 5])]
            [2, 3, 5]
        """
        return self._parts(split.at_indices(indices))

    def split_proportionately(self, proportions: list[float]) -> list[MaterializedDataset]:
        """Splits the rows in order into Datasets of these shares, and one of the remaining rows.
        Runs this Dataset.

        Args:
            proportions: Each above 0, in sum below 1 (ValueError otherwise).

        Example:
            >>> import skate
            >>> [d.count() for d in skate.data.range(10).split_proportionately([0.2, 0.5])]
            [2, 5, 3]
        """
        return self._parts(split.by_shares(proportions))

    def train_test_split(
        self,
        test_size: int | float,
        *,
        shuffle: bool = False,
        seed: int | None = None,
        stratify: str | None = None,
    ) -> tuple[MaterializedDataset, MaterializedDataset]:
        """Splits the rows into (train, test); the last rows are the test. Runs this Dataset.

        Args:
            test_size: Rows as an int, or a share between 0 and 1; ValueError otherwise.
            shuffle: Shuffles the rows before the split.
            seed: Seed of the shuffle: an int gives the same order each time.
            stratify: A column: for each of its values, the share test_size of the rows, rounded
                down, goes into the test. Both results are in the order of that column. ValueError
                together with shuffle.

        Example:
            >>> import skate
            >>> train, test = skate.data.range(8).train_test_split(0.25)
            >>> test.take_all()
            [{'id': 6}, {'id': 7}]
        """
        at = split.of_test(test_size, shuffle, stratify)
        if stratify is None:
            train, test = (self.random_shuffle(seed=seed) if shuffle else self)._parts(at)
            return train, test
        keys = by_key.check_key(self._request(), stratify, "train_test_split")
        whole = self._whole_groups(keys, None).materialize()
        sides = split.stratified(whole._request(), at, test_size, stratify)
        train, test = (whole._add(*side).materialize() for side in sides)
        return train, test

    def _parts(self, at: Callable[[int], list[int]]) -> list[MaterializedDataset]:
        """Runs this Dataset and splits its rows before the row numbers that `at` returns for the
        number of rows."""
        whole = self.materialize()
        parts = split.parts(whole._request(), at(whole._facts.rows or 0))
        return [whole._of_blocks(blocks) for blocks in parts]

    def streaming_train_test_split(
        self,
        test_size: float,
        *,
        split_type: Literal["random", "hash"] = "random",
        hash_column: str | None = None,
        seed: int | None = None,
        **ray_remote_kwargs: Any,
    ) -> tuple[Dataset, Dataset]:
        """Splits into (train, test) row by row, without running anything: a row's side follows from
        its row number and the seed, or from the value of a column.

        Args:
            test_size: Share of the test, between 0 and 1.
            split_type: "random" or "hash".
            hash_column: The column for "hash": rows of equal values are on one side.
            seed: Seed for "random"; without one the two sides still have no row in common.
            ray_remote_kwargs: Other options of the tasks or actors, as in skate.remote: resources,
                runtime_env, scheduling_strategy, max_retries, ...

        Raises:
            ValueError: The arguments do not fit together.

        Example:
            >>> import skate
            >>> train, test = skate.data.range(100).streaming_train_test_split(0.2, seed=1)
            >>> train.count() + test.count()
            100
        """
        given = (test_size, split_type, hash_column, seed, ray_remote_kwargs)
        train, test = (self._add(*side) for side in split.by_row(self._request(), *given))
        return train, test

    @overload
    def streaming_split(
        self,
        n: int,
        *,
        equal: bool | Literal["drop", "pad"] = False,
        locality_hints: list[Any] | None = None,
        batch_size: None = None,
    ) -> list[DataIterator]: ...
    @overload
    def streaming_split(
        self,
        n: int,
        *,
        equal: bool | Literal["drop", "pad"] = False,
        locality_hints: list[Any] | None = None,
        batch_size: int,
    ) -> list[SplitIterator]: ...

    def streaming_split(
        self,
        n: int,
        *,
        equal: bool | Literal["drop", "pad"] = False,
        locality_hints: list[Any] | None = None,
        batch_size: int | None = None,
    ) -> list[DataIterator] | list[SplitIterator]:
        """n iterators over one execution, to be used at the same time, in any process; see
        trainers/streaming_split.py.

        Args:
            n: Number of iterators.
            equal: All get the same number of rows, and of batches: True or "drop" leaves up to n -
                1 rows out, "pad" (with a batch_size) repeats up to n - 1 rows.
            locality_hints: One for each iterator (ValueError otherwise). They have no effect: there
                is one machine.
            batch_size: Rows are dealt in turn in batches of this many rows, and each iterator must
                be asked for batches of this size. Each iterator then has a len(), and a
                state_dict() from which any number of iterators can continue.

        Raises:
            ValueError: n, batch_size or locality_hints are wrong, or "pad" comes without a
                batch_size.

        Example:
            >>> import skate
            >>> ds = skate.data.range(10).materialize()
            >>> [len(it) for it in ds.streaming_split(2, equal="pad", batch_size=3)]
            [2, 2]
        """
        given = (n, equal, locality_hints, batch_size)
        return split.streaming(self, self._request(), *given)

    # ---- Operations by a key (methods/by_key.py).

    def groupby(
        self,
        key: str | list[str] | None,
        num_partitions: int | None = None,
        *,
        strategy: Strategy = None,
    ) -> GroupedData:
        """Groups the rows by equal keys, to be aggregated or mapped. Results are in the order of
        the keys.

        Args:
            key: A column's name, or several; None: one group of all rows.
            num_partitions: Number of partitions of the exchange; None: chosen from measured sizes.
            strategy: How the exchange is wired, as in sort().

        Raises:
            ValueError: The key is no name of a column, its values have no order (lists, structs,
                arrays), or num_partitions is no positive int. If an operator before may have
                dropped rows, a missing column is an error of the run.

        Example:
            >>> import skate
            >>> skate.data.from_items([{"k": 2}, {"k": 1}, {"k": 2}]).groupby(
            ...     "k"
            ... ).count().take_all()
            [{'k': 1, 'count()': 1}, {'k': 2, 'count()': 2}]
        """
        return by_key.groupby(self, self._request(), key, num_partitions, strategy)

    def _whole_groups(
        self, keys: list[str], num_partitions: int | None, strategy: Strategy = None
    ) -> Dataset:
        return self._add(*by_key.whole_groups(self._request(), keys, num_partitions, strategy))

    def distinct(
        self,
        keys: str | list[str] | None = None,
        num_partitions: int | None = None,
        *,
        strategy: Strategy = None,
    ) -> Dataset:
        """The first row of each distinct key, in the order of the keys.
        (polars.DataFrame.unique; Ray has `unique` of one column alone.)

        Args:
            keys: Columns; None: all columns, for which the schema is fetched if it is not known.
            num_partitions: Number of partitions of the exchange; None: chosen from measured sizes.
            strategy: How the exchange is wired, as in sort().

        Raises:
            ValueError: As in groupby().

        Example:
            >>> import skate
            >>> skate.data.from_items(
            ...     [{"k": 2, "x": 1}, {"k": 1, "x": 2}, {"k": 2, "x": 3}]
            ... ).distinct("k").take_all()
            [{'k': 1, 'x': 2}, {'k': 2, 'x': 1}]
        """
        names = self.columns() or [] if keys is None else keys
        found = by_key.distinct(self._request(), names, num_partitions, strategy)
        return self if found is None else self._add(*found)

    def join(
        self,
        ds: Dataset,
        join_type: str,
        num_partitions: int | None = None,
        on: tuple[str, ...] | list[str] = ("id",),
        right_on: tuple[str, ...] | list[str] | None = None,
        left_suffix: str | None = None,
        right_suffix: str | None = None,
        *,
        partition_size_hint: int | None = None,
        aggregator_ray_remote_args: dict[str, Any] | None = None,
        validate_schemas: bool = False,
        strategy: Strategy = None,
    ) -> Dataset:
        """Joins two Datasets: the rows that have equal keys, side by side.

        A null key matches nothing; NaN matches NaN. The order of the rows is the same on every run,
        whatever workers and memory there are. It depends on the data alone:

        - Rows come partition by partition (by the hash of the keys). Within a partition they are in
          the order of the side that has more rows in it (with equal counts: the left side), then in
          the order of the other side; unmatched rows of the other side come last. Semi and anti
          joins keep the order of their side.
        - If one side is small (DataContext.broadcast_join_bytes) and num_partitions is not given,
          the small side is broadcast and rows are in the order of the other side.

        Args:
            ds: The other Dataset, the right side.
            join_type: "inner"; "left_outer", "right_outer" or "full_outer" (also unmatched rows of
                that side, with nulls); "left_semi" or "right_semi" (each matched row of that side
                once, with the columns of that side only); "left_anti" or "right_anti" (the
                unmatched rows of that side).
            num_partitions: Number of partitions of the exchange, each at least one block; None:
                chosen from measured sizes, and no exchange if one side is small.
            on: Columns of this Dataset that form the key.
            right_on: The same number of columns of the other Dataset; None: the same names.
            left_suffix: Suffix for columns of this side (other than keys) whose name the other side
                has as well.
            right_suffix: The same for the other side.
            partition_size_hint: Approximate bytes of a partition. Has no effect: sizes are
                measured.
            aggregator_ray_remote_args: Options of the tasks that join, as in skate.remote:
                num_cpus, memory, resources, ...
            validate_schemas: Fetches both schemas now and compares the types of the keys;
                ValueError if they differ.
            strategy: How the exchange is wired, as in sort(), if the join needs an exchange.

        Returns:
            The left columns, then the right ones without the right keys. "right_outer" leaves out
            the left keys instead; semi and anti joins return the columns of one side.

        Raises:
            ValueError: An argument is not as said above; the values of a key have no order; two
                columns would have one name (raised at once where both schemas are known, else
                during the run).
            KeyError: A side has no such column (also a ValueError).
            TypeError: The types of the keys cannot be compared.

        Example:
            >>> import skate
            >>> a = skate.data.from_items([{"id": 1, "x": "a"}, {"id": 2, "x": "b"}])
            >>> b = skate.data.from_items([{"id": 2, "y": 3}])
            >>> a.join(b, "inner").take_all(), a.join(b, "left_anti").take_all()
            ([{'id': 2, 'x': 'b', 'y': 3}], [{'id': 1, 'x': 'a'}])
        """
        schemas = (lambda: (self.schema(), ds.schema())) if validate_schemas else None
        how = (join_type, on, right_on, (left_suffix, right_suffix))
        more = (num_partitions, aggregator_ray_remote_args or {}, schemas, strategy)
        return self._add(*by_key.join(self._request(), ds._request(), how, *more))

    def to_random_access_dataset(
        self, key: str, num_workers: int | None = None
    ) -> RandomAccessDataset:
        """Loads the rows into actors, where they can be looked up by a key. Runs this Dataset.

        Args:
            key: A column's name. If several rows have one key, the first one is found.
            num_workers: Number of actors; None: 4.

        Raises:
            ValueError: There is no such column, or its values have no order.

        Example:
            >>> import skate
            >>> found = skate.data.range(10).to_random_access_dataset("id", num_workers=1)
            >>> skate.get(found.get_async(3)), found.multiget([1, 20])
            ({'id': 3}, [{'id': 1}, None])
        """
        return by_key.random_access(self, self._request(), key, num_workers)

    # ---- Copies of a Dataset.

    def copy(self, ds: Dataset | None = None) -> Dataset:
        """The same plan as another object.

        Args:
            ds: The Dataset to copy; None: this one.

        Example:
            >>> import skate
            >>> skate.data.range(3).copy().count()
            3
        """
        src = ds if ds is not None else self
        return type(src)(src._node, src._facts, src.context.copy())

    # ---- Facts about the Dataset.

    def schema(self, fetch_if_missing: bool = True) -> Schema | None:
        """Column names and types.

        If no metadata shows them, they are those that the last complete run of this object has
        found, or else those of the first rows, for which the plan is run. docs/design/data_api.md
        says how the types of several blocks become one.

        Args:
            fetch_if_missing: False: returns None if the schema is not known without running
                anything.

        Example:
            >>> import skate
            >>> skate.data.range(1).schema().names
            ['id']
        """
        if self._facts.schema is not None:
            self._check_files()
        if self._schema is None:
            schema = (
                self._facts.schema()
                if self._facts.schema is not None
                else execute.first_schema(self._request())
                if fetch_if_missing
                else None
            )
            self._schema = Schema(schema, pandas=self._frames()) if schema is not None else None
        return self._schema

    def _check_files(self) -> None:
        """Raises OSError if files have changed since their metadata was read, as a run would."""
        for n in below(self._node):
            if "stamps" in n.params:
                reading.check_stamps(n.params)

    def _frames(self) -> bool:
        """Whether the blocks were made from DataFrames, so that batch_format=None gives
        DataFrames."""
        return self._request().frames()

    def _dtypes(self) -> dict[str, tuple[str, str]]:
        """{name: (dtype in the form of frames.noted(), Arrow type)} of columns that were made from
        pandas' own dtypes. Columns for which two sources have different dtypes are left out."""
        kept: dict[str, tuple[str, str]] = {}
        other: set[str] = set()
        for node in below(self._node):
            for name, said in node.params.get("dtypes", {}).items() if node.op == "blocks" else ():
                if kept.setdefault(name, said) != said:
                    other.add(name)
        return {n: said for n, said in kept.items() if n not in other}

    def columns(self, fetch_if_missing: bool = True) -> list[str] | None:
        """Column names.

        Args:
            fetch_if_missing: False: returns None if they are not known without running anything.

        Example:
            >>> import skate
            >>> skate.data.range(3).columns()
            ['id']
        """
        s = self.schema(fetch_if_missing)
        return None if s is None else s.names

    def count(self) -> int:
        """Number of rows.

        Nothing runs if metadata has the count (footers of files, a range, blocks) and no operator
        in between can raise an error. User functions, expressions and casts can raise errors, so
        they are run. explain() says whether count() runs the plan.

        Example:
            >>> import skate
            >>> skate.data.range(10).count()
            10
        """
        if self._facts.rows is not None and self._unsure() is None:
            self._check_files()
            return self._facts.rows
        request = self._request().over(Node("count", "Count", {}, (self._node,)))
        return sum(rb.column(0)[0].as_py() for rb in execute.batches(request))

    def _unsure(self) -> str | None:
        """A text that says why the row count from metadata may differ from the count of a run; None
        if it cannot differ."""
        if self._node.blocks is not None:
            return None
        if self.context.on_error != "raise" or self.context.max_errored_blocks:
            return "rows or blocks that fail may be left out"
        unsure = [n.label for n in below(self._node) if not n.operator.sure(n.params)]
        return f"{unsure[0]} may raise" if unsure else None

    def size_bytes(self) -> int:
        """Bytes of all blocks; runs the plan unless the Dataset is materialized.

        Example:
            >>> import skate
            >>> skate.data.range(10).size_bytes()
            80
        """
        return sum(b[3] for b in execute.run(self._request()))

    def input_files(self) -> list[str]:
        """The files that this Dataset reads."""
        return list(dict.fromkeys(self._facts.files))

    def num_blocks(self) -> int:
        """Number of blocks of a materialized Dataset."""
        raise NotImplementedError(
            "num_blocks: how many blocks there are is known after the run only: ds.materialize().num_blocks()"
        )

    def explain(self, write: str | None = None) -> None:
        """Prints the logical and the physical plan, and what the optimiser did. Runs nothing.

        An operator that needs all of its input before it yields a row is marked BLOCKING, with the
        least amount of data that it reads; the plan of its input is shown below it. If the number
        of rows is known, the text says whether count() runs the plan. explain_text() returns the
        same text.

        Args:
            write: A file format, for the plan of a write by the method of this format with nothing but
                a path ("parquet": `write_parquet(path)`).

        Raises:
            ValueError: There is no write method for this format of files.

        Example:
            >>> import skate
            >>> skate.data.range(1000, override_num_blocks=4).repartition(2).explain()
            logical
              Repartition (BLOCKING: all of its input first, of 7.8 KiB read (1,000 rows))  cpu 1
            physical
              [tasks] Repartition (BLOCKING: all of its input first, of 7.8 KiB read (1,000 rows))  cpu 1
            <BLANKLINE>
            first, for Repartition
              logical
                ReadRange  4 tasks  1000 rows  7.8 KiB  cpu 1
              physical
                [tasks] ReadRange  4 tasks  1000 rows  7.8 KiB  cpu 1
            count()
              1,000 rows, by metadata: nothing runs
        """
        print(self.explain_text(write))

    def explain_text(self, write: str | None = None) -> str:
        """The text that explain() prints.

        Args:
            write: As in explain().

        Raises:
            ValueError: There is no write method for this format of files.

        Example:
            >>> import skate
            >>> "ReadRange->Map(abs)" in skate.data.range(4).map(abs).explain_text()
            True
        """
        ensure_engine()
        node = self._node if write is None else write_job.plan_of(self._node, write)
        text = explain(node, self.context.on_error, strategy(self.context))
        text += crossings(node)
        if write is None and self._facts.rows is not None:
            why = self._unsure()
            text += f"\ncount()\n  {f'{self._facts.rows:,} rows, by metadata: nothing runs' if why is None else f'runs this, since {why}'}"
        return notebook.Text(text)

    def stats(self) -> StatsText:
        """A text about the last execution, operator by operator; the last line names the
        bottleneck. Before the first execution the text says that nothing has run, and what is known
        about the plan. Its method plot(path=None) draws the execution over time: rates of rows,
        memory and queues."""
        text = before_a_run(self._request()) if self._stats is None else str(self._stats)
        return StatsText(text, self._stats)

    def stats_json(self) -> str:
        """The same facts as stats(), as JSON."""
        return self._stats.to_json() if self._stats is not None else "{}"

    def stats_dict(self) -> dict[str, Any]:
        """The same facts as stats(), as a dict."""
        return self._stats.to_dict() if self._stats is not None else {}

    def errors(self, operator: str | None = None) -> Dataset:
        """The dead letters of the last execution of this Dataset: one row for each bad record under
        on_error="quarantine".

        It may be called while the Dataset runs (in a loop over batches, or from another thread),
        and then returns the dead letters so far. They live as long as the Dataset object; to keep
        them longer, write them to files.

        Columns: operator (its label, such as "Map(f)"), error (class), message, source (the file;
        null if unknown), source_row (the row in the file, from 0; null if unknown, as for rows of a
        file that has a bad record itself), line (the line of a bad record of a text file, from 1),
        task, input_row (the row in the input of the operator's task, from 0), traceback, raw (the
        bytes that a reader found, or null) and row: the row as the operator got it, a struct of its
        columns (null for readers). If operators had columns with the same name
        whose types cannot be unified, row is a Python dict (a column of objects).

        Args:
            operator: Return only dead letters of the operator with this label.

        Raises:
            ValueError: Nothing has been executed on this Dataset object yet.

        Example:
            >>> import skate
            >>> ds = skate.data.from_items([{"x": "1"}, {"x": "?"}]).map(
            ...     lambda r: {"x": int(r["x"])}, on_error="quarantine"
            ... )
            >>> ds.take_all(), [(e["error"], e["row"]) for e in ds.errors().take_all()]
            ([{'x': 1}], [('ValueError', {'x': '?'})])
        """
        if self._errors is None:
            raise ValueError(
                "errors(): this Dataset has not been run, so no record can have been bad. Run it (take_all(), write_parquet(), materialize(), ...) and ask the "
                "object that you ran: ds.limit(5).take_all() is a run of another one"
            )
        blocks, schema = self._errors.letters(operator)
        if schema is None:
            return of_source(InMemory(blocks or [dead_letters.empty()], "Errors"))
        facts = Facts(sum(b[2] for b in blocks), lambda: schema, [], sum(b[3] for b in blocks))
        return MaterializedDataset(Node("blocks", "Errors", {}, (), blocks=blocks), facts)

    @property
    def name(self) -> str | None:
        """The name from set_name(); None if there is none."""
        return self._given_name

    def set_name(self, name: str | None) -> None:
        """Gives the Dataset a name, which logs and get_dataset_id() show.

        Args:
            name: The name; None: none.
        """
        self._given_name = name

    # ---- Reading rows and batches.

    def iterator(self) -> DataIterator:
        """A DataIterator, which can iterate over this Dataset several times."""
        return DataIterator(self, self._request)

    def _iterator(self) -> DataIterator:
        return self.iterator()

    def iter_rows(self, *, prefetch_batches: int = 1, prefetch_blocks: int = 0) -> Iterator[Row]:
        """Rows as dicts of Python values.

        Args:
            prefetch_batches: Has no effect: blocks are made ahead while their memory budget allows.
            prefetch_blocks: Has no effect, too.

        Example:
            >>> import skate
            >>> [row["id"] for row in skate.data.range(3).iter_rows()]
            [0, 1, 2]
        """
        return self.iterator().iter_rows()

    def take(self, limit: int = 20) -> list[Row]:
        """The first rows as dicts.

        Args:
            limit: Maximum number of rows.

        Raises:
            ValueError: limit is negative.

        Example:
            >>> import skate
            >>> skate.data.range(10).take(2)
            [{'id': 0}, {'id': 1}]
        """
        if limit < 0:
            raise ValueError(f"limit must be 0 or more, not {limit}")
        if limit == 0:
            return []
        return self._rows(None, Node("limit", f"limit={limit}", {}, (self._node,), limit=limit))

    def take_all(self, limit: int | None = None) -> list[Row]:
        """All rows, as dicts of Python values.

        Args:
            limit: Maximum number of rows allowed; None: any number.

        Raises:
            ValueError: There are more than limit rows.

        Example:
            >>> import skate
            >>> skate.data.range(2).take_all()
            [{'id': 0}, {'id': 1}]
        """
        return self._rows(limit)

    def _rows(self, most: int | None, node: Node | None = None) -> list[Row]:
        """The rows as dicts, at most `most` of them, all in one schema."""
        out: list[Row] = []
        schema: Any = None
        it = execute.in_one_schema(self._request(), node)
        for rb in it:
            if rb.num_rows:
                if schema is not None and not rb.schema.equals(schema):
                    row_dicts.in_wider_schema(out, schema, rb.schema)
                schema = rb.schema
                out += row_dicts.to_rows(rb)
            if most is not None and len(out) > most:
                it.close()
                raise ValueError(f"take_all: there are more than the limit of {most} rows")
        return out

    @overload
    def take_batch(
        self, batch_size: int = 20, *, batch_format: Literal["default", "numpy"] = "default"
    ) -> NumpyBatch: ...
    @overload
    def take_batch(
        self, batch_size: int = 20, *, batch_format: Literal["pandas"]
    ) -> pd.DataFrame: ...
    @overload
    def take_batch(self, batch_size: int = 20, *, batch_format: Literal["pyarrow"]) -> pa.Table: ...
    @overload
    def take_batch(self, batch_size: int = 20, *, batch_format: str | None) -> Any: ...

    def take_batch(self, batch_size: int = 20, *, batch_format: str | None = "default") -> Any:
        """The first rows as one batch.

        Args:
            batch_size: Maximum number of rows.
            batch_format: "default" or "numpy" (a dict of arrays), "pandas" or "pyarrow"; None:
                "pandas" where the blocks came as DataFrames, else "pyarrow".

        Raises:
            ValueError: There are no rows.

        Example:
            >>> import skate
            >>> skate.data.range(10).take_batch(3)["id"].tolist()
            [0, 1, 2]
        """
        first = Node("limit", f"limit={batch_size}", {}, (self._node,), limit=batch_size)
        rbs = [rb for rb in execute.in_one_schema(self._request(), first) if rb.num_rows]
        if not rbs:
            raise ValueError("The dataset is empty.")
        return batch.to_batch(
            merge(rbs), "pandas" if batch_format is None and self._frames() else batch_format
        )

    def show(self, limit: int = 20) -> None:
        """Prints the first rows.

        Args:
            limit: Maximum number of rows.

        Example:
            >>> import skate
            >>> skate.data.range(10).show(2)
            {'id': 0}
            {'id': 1}
        """
        for row in self.take(limit):
            print(row)

    # ---- Materialisation.

    def materialize(self) -> MaterializedDataset:
        """Runs the plan and holds its blocks in a MaterializedDataset.

        Example:
            >>> import skate
            >>> skate.data.range(10).materialize().count()
            10
        """
        keys: list[int] = []
        blocks = list(execute.run(self._request(), schemas=keys))
        known = self._facts.schema
        if known is None:
            blocks, schema = execute.conformed(self._node, blocks, keys)
            if schema is not None:
                known, self._schema = (lambda: schema), Schema(schema, pandas=self._frames())
        full = [b for b in blocks if b[2]] or blocks[:1]
        rows, size = sum(b[2] for b in full), sum(b[3] for b in full)
        kind = _of_frames(self._frames(), self._dtypes())
        out = MaterializedDataset(
            Node("blocks", "Blocks", kind, (), blocks=full),
            Facts(rows, known, self._facts.files, size),
            self.context,
        )
        out._stats, out._given_name, out._errors = self._stats, self._given_name, self._errors
        return out

    def _of_blocks(self, blocks: list[Any]) -> MaterializedDataset:
        """A MaterializedDataset of these blocks of this (materialized) Dataset."""
        rows, size = sum(b[2] for b in blocks), sum(b[3] for b in blocks)
        kind = {k: v for k, v in self._node.params.items() if k in ("pandas", "dtypes")}
        out = MaterializedDataset(
            Node("blocks", "Blocks", kind, (), blocks=blocks),
            Facts(rows, self._facts.schema, self._facts.files, size),
            self.context,
        )
        out._stats = self._stats
        return out

    # ---- Conversions to other libraries (convert.py)

    def to_pandas(self, limit: int | None = None) -> pd.DataFrame:
        """All rows as one DataFrame.

        A column that was passed to from_pandas() with one of pandas' own dtypes (Int64, boolean,
        string, int64[pyarrow], ...) has this dtype again, whatever operators are in between, if it
        still has the same name and type. In other columns nulls are NaN for numbers and else None,
        as pandas has them by default (unlike batches of functions, which have masked columns). A
        column of integers that floats cannot represent exactly stays a masked column.

        Args:
            limit: Maximum number of rows allowed; None: any number.

        Raises:
            ValueError: There are more than limit rows.

        Example:
            >>> import skate
            >>> skate.data.range(3).to_pandas()["id"].tolist()
            [0, 1, 2]
        """
        return convert.to_pandas(self._request(), limit, self._dtypes())

    def to_arrow(self) -> pa.Table:
        """All rows as one pyarrow Table.

        Example:
            >>> import skate
            >>> skate.data.range(3).to_arrow().num_rows
            3
        """
        return convert.to_arrow(self._request())

    def to_arrow_refs(self) -> list[ObjectRef[pa.Table]]:
        """References to pyarrow Tables, one for each block."""
        return convert.to_arrow_refs(self._request())

    def to_numpy_refs(self, *, column: str | None = None) -> list[ObjectRef[Any]]:
        """References to dicts of arrays (or to the arrays of one column), one for each block.

        Args:
            column: Name of the column to convert; None: dicts of all columns.

        Example:
            >>> import skate
            >>> [
            ...     len(skate.get(r))
            ...     for r in skate.data.range(4, override_num_blocks=2).to_numpy_refs(column="id")
            ... ]
            [2, 2]
        """
        return convert.to_numpy_refs(self._request(), column)

    def to_pandas_refs(self) -> list[ObjectRef[pd.DataFrame]]:
        """References to DataFrames, one for each block."""
        return convert.to_pandas_refs(self._request())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The blocks as an Arrow stream; the Dataset runs while the stream is read.
        polars.DataFrame(ds), duckdb and pyarrow.table(ds) call it."""
        return convert.arrow_stream(self._request(), requested_schema)

    def to_polars(self) -> Any:
        """All rows as one Polars DataFrame, as polars.DataFrame(ds) gives it. ImportError without
        Polars."""
        return convert.to_polars(self)

    def to_duckdb(self, connection: Any = None) -> Any:
        """All rows as a DuckDB relation, to query with its methods or in SQL of the same
        connection, by the name of the Python variable that holds the relation.

        Queries over the Dataset itself stream instead: duckdb.sql("select ... from ds").
        ImportError without DuckDB.

        Args:
            connection: A DuckDB connection; None: duckdb's default one.
        """
        return convert.to_duckdb(self._request(), connection)

    def to_huggingface(self) -> Any:
        """All rows as a Hugging Face datasets.Dataset. ImportError without the package datasets."""
        return convert.to_huggingface(self._request())

    def to_daft(self) -> Any:
        """The rows as a Daft DataFrame. ImportError without Daft."""
        return convert.to_daft(self._request())

    def to_dask(self, meta: Any = None, verify_meta: bool = True) -> Any:
        """The rows as a Dask DataFrame with one partition for each block. ImportError without Dask.

        Args:
            meta: An empty DataFrame with the columns, as Dask takes it; None: made from the first
                rows.
            verify_meta: Whether Dask checks partitions against meta.
        """
        return convert.to_dask(self._request(), meta, verify_meta)

    def to_modin(self) -> Any:
        """The rows as a Modin DataFrame. ImportError without Modin."""
        return convert.to_modin(self.to_pandas)

    def to_mars(self) -> Any:
        """The rows as a Mars DataFrame. ImportError without Mars."""
        return convert.to_mars(self.to_pandas)

    def to_spark(self, spark: Any) -> Any:
        """The rows as a Spark DataFrame of a session.

        Args:
            spark: The SparkSession.
        """
        return spark.createDataFrame(self.to_pandas())

    # ---- Writes (write/job.py; skate/data/write/__init__.py explains the arguments).

    @takes_rows(rest="arrow_parquet_args")
    def write_parquet(
        self,
        path: Path,
        *,
        partition_cols: list[str] | None = None,
        arrow_parquet_args_fn: Callable[[], dict[str, Any]] | None = None,
        **options: Unpack[OpenRowOptions],
    ) -> None:
        """Writes Parquet files into a folder.

        Args:
            path: The folder; local, or a URI of a pyarrow file system.
            partition_cols: Columns that become folders (col=value).
            arrow_parquet_args_fn: A function that returns more of arrow_parquet_args; it is called
                in the tasks.
            options: See RowOptions.
            arrow_parquet_args: Arguments of pyarrow.parquet.write_table (compression,
                row_group_size, ...); schema: the pyarrow.Schema of the files (TypeError for values
                that it cannot hold exactly); and partitioning_flavor: "hive", None (folders are
                named by the values alone: read them with Partitioning("dir", field_names=...)) or
                "filename" (values are put in front of the file names, as in pyarrow).

        Raises:
            ValueError: mode is "error" and the folder has files, or options do not fit together.
            TypeError: A column has values that the format cannot hold, or a keyword is unknown.
            OSError: A file cannot be written. Then no output of the write is visible.

        Example:
            >>> import skate, tempfile
            >>> folder = tempfile.mkdtemp()
            >>> skate.data.range(3).write_parquet(folder)
            >>> skate.data.read_parquet(folder).count()
            3
        """
        args = arguments.others(options, RowOptions)
        self._write("parquet", path, options, args, arrow_parquet_args_fn, partition_cols)

    @takes_tasks()
    def write_lance(
        self,
        path: Path,
        *,
        schema: Any = None,
        mode: Mode = "create",
        min_rows_per_file: int = 1024 * 1024,
        max_rows_per_file: int = 64 * 1024 * 1024,
        data_storage_version: str | None = None,
        storage_options: dict[str, Any] | None = None,
        **options: Unpack[TaskOptions],
    ) -> None:
        """Writes a Lance dataset; all rows become visible as one version.

        Args:
            path: Path or URI of the Lance dataset.
            schema: The pyarrow.Schema to write; None: the schema of the blocks.
            mode: "create" (FileExistsError if a dataset exists), "append" or "overwrite".
            min_rows_per_file: Minimum number of rows of a file.
            max_rows_per_file: Maximum number of rows of a file.
            data_storage_version: Version of Lance's file format; None: the library's default.
            storage_options: Options of the storage, as Lance takes them.
            options: See TaskOptions.

        Raises:
            ImportError: The package pylance is not installed.
            FileExistsError: mode is "create" and a dataset exists at path.
        """
        sink = write_job.LanceDatasink(
            str(path),
            schema,
            mode,
            min_rows_per_file,
            max_rows_per_file,
            data_storage_version,
            storage_options,
        )
        self.write_datasink(sink, **options)

    def write_iceberg(
        self,
        table_identifier: str,
        catalog_kwargs: dict[str, Any] | None = None,
        snapshot_properties: dict[str, str] | None = None,
        mode: SaveMode | Literal["append", "overwrite"] = "append",
        overwrite_filter: Any = None,
        **options: Unpack[TaskOptions],
    ) -> None:
        """Writes into an Iceberg table that exists; all rows become visible as one commit.

        Args:
            table_identifier: Name of the table in its catalog, such as "db.events".
            catalog_kwargs: Arguments of pyiceberg.catalog.load_catalog(), such as name, type, uri
                and warehouse.
            snapshot_properties: Properties of the snapshot.
            mode: "append", or "overwrite": rows that the table has are deleted in the same commit.
            overwrite_filter: With "overwrite", only rows for which this holds are deleted: an
                expression of pyiceberg, or its text; None: all.
            options: See TaskOptions.

        Raises:
            ImportError: The package pyiceberg is not installed.
            ValueError: There is no such table, it lacks a column, or an argument is wrong.
            TypeError: A column's type does not go into that of the table.
        """
        sink = write_job.IcebergDatasink(
            table_identifier, catalog_kwargs, snapshot_properties, mode, overwrite_filter
        )
        self.write_datasink(sink, **options)

    def write_delta(
        self,
        path: Path,
        *,
        mode: SaveMode | Literal["append", "overwrite", "ignore", "error"] = "append",
        partition_by: list[str] | None = None,
        storage_options: dict[str, str] | None = None,
        **options: Unpack[TaskOptions],
    ) -> None:
        """Writes a Delta Lake table; all rows become visible as one version.

        Args:
            path: Folder of the table; local, or a URI of a pyarrow file system.
            mode: If there is a table: "append", "overwrite", "ignore" (nothing is written), or
                "error". If there is none, it is created.
            partition_by: Columns by whose values the files are put into folders; None: as the table
                has it.
            storage_options: Options with which deltalake reads and writes the log.
            options: See TaskOptions.

        Raises:
            ImportError: The package deltalake is not installed.
            FileExistsError: mode is "error" and there is a table.
            ValueError: A column does not exist, or the table has other partitions.
        """
        sink = write_job.DeltaDatasink(str(path), mode, partition_by, storage_options)
        if sink.exists and sink.mode == "ignore":
            return
        self.write_datasink(sink, **options)

    @takes_rows(rest="arrow_csv_args")
    def write_csv(
        self,
        path: Path,
        *,
        arrow_csv_args_fn: Callable[[], dict[str, Any]] | None = None,
        **options: Unpack[OpenRowOptions],
    ) -> None:
        """Writes CSV files with a header line into a folder.

        Args:
            path: The folder; local, or a URI of a pyarrow file system.
            arrow_csv_args_fn: A function that returns more of arrow_csv_args; called in the tasks.
            options: See RowOptions.
            arrow_csv_args: Arguments of pyarrow.csv.WriteOptions, or write_options itself.

        Raises:
            ValueError: mode is "error" and the folder has files, or options do not fit together.
            TypeError: A column has values that the format cannot hold, or a keyword is unknown.
            OSError: A file cannot be written. Then no output of the write is visible.

        Example:
            >>> import skate, tempfile
            >>> folder = tempfile.mkdtemp()
            >>> skate.data.range(3).write_csv(folder)
            >>> skate.data.read_csv(folder).count()
            3
        """
        args = arguments.others(options, RowOptions)
        self._write("csv", path, options, args, arrow_csv_args_fn)

    @takes_rows(rest="pandas_json_args")
    def write_json(
        self,
        path: Path,
        *,
        pandas_json_args_fn: Callable[[], dict[str, Any]] | None = None,
        **options: Unpack[OpenRowOptions],
    ) -> None:
        """Writes JSON files, one object a line, into a folder.

        Args:
            path: The folder; local, or a URI of a pyarrow file system.
            pandas_json_args_fn: A function that returns more of pandas_json_args; it is called in
                the tasks.
            options: See RowOptions.
            pandas_json_args: Arguments of json.dumps. orient and lines are accepted as "records"
                and True only.

        Raises:
            ValueError: mode is "error" and the folder has files, or options do not fit together.
            TypeError: A column has values that the format cannot hold, or a keyword is unknown.
            OSError: A file cannot be written. Then no output of the write is visible.

        Example:
            >>> import skate, tempfile
            >>> folder = tempfile.mkdtemp()
            >>> skate.data.range(3).write_json(folder)
            >>> skate.data.read_json(folder).count()
            3
        """
        args = arguments.others(options, RowOptions)
        self._write("json", path, options, args, pandas_json_args_fn)

    @takes_rows()
    def write_numpy(self, path: Path, *, column: str, **options: Unpack[RowOptions]) -> None:
        """Writes one column into .npy files.

        Args:
            path: The folder; local, or a URI of a pyarrow file system.
            column: Name of the column; all its values must have one shape (TypeError).
            options: See RowOptions.

        Raises:
            ValueError: mode is "error" and the folder has files, or options do not fit together.
            TypeError: A column has values that the format cannot hold, or a keyword is unknown.
            OSError: A file cannot be written. Then no output of the write is visible.

        Example:
            >>> import skate, tempfile
            >>> folder = tempfile.mkdtemp()
            >>> skate.data.range(3).write_numpy(folder, column="id")
            >>> skate.data.read_numpy(folder).count()
            3
        """
        self._write("numpy", path, options, {"column": column})

    @takes_files()
    def write_images(
        self, path: Path, column: str, file_format: str = "png", **options: Unpack[WriteOptions]
    ) -> None:
        """Writes a column of arrays into image files, one for each row.

        Args:
            path: The folder; local, or a URI of a pyarrow file system.
            column: Arrays (height, width[, channels]) of uint8.
            file_format: "png", "jpeg", ..., one of Pillow's formats.
            options: See WriteOptions.

        Raises:
            ValueError: mode is "error" and the folder has files, or options do not fit together.
            TypeError: A column has values that the format cannot hold, or a keyword is unknown.
            OSError: A file cannot be written. Then no output of the write is visible.
        """
        args = {"column": column, "file_format": file_format}
        self._write("images", path, options, args)

    @takes_rows()
    def write_tfrecords(
        self, path: Path, *, tf_schema: Any = None, **options: Unpack[RowOptions]
    ) -> None:
        """Writes TFRecord files of tf.train.Example. Columns may hold bytes, text, ints, floats and
        lists of these (TypeError for others).

        Args:
            path: The folder; local, or a URI of a pyarrow file system.
            tf_schema: A schema of TensorFlow's metadata library; not supported
                (NotImplementedError).
            options: See RowOptions.

        Raises:
            ValueError: mode is "error" and the folder has files, or options do not fit together.
            TypeError: A column has values that the format cannot hold, or a keyword is unknown.
            OSError: A file cannot be written. Then no output of the write is visible.

        Example:
            >>> import skate, tempfile
            >>> folder = tempfile.mkdtemp()
            >>> skate.data.range(3).write_tfrecords(folder)
            >>> skate.data.read_tfrecords(folder).count()
            3
        """
        if tf_schema is not None:
            raise NotImplementedError(
                "write_tfrecords: tf_schema needs TensorFlow's metadata library, which skate does not use; leave it out"
            )
        self._write("tfrecords", path, options, {})

    @takes_rows()
    def write_webdataset(
        self, path: Path, *, encoder: Any = True, **options: Unpack[RowOptions]
    ) -> None:
        """Writes tar files in the WebDataset format: column "jpg" of the row with __key__ "a"
        becomes the member a.jpg.

        Args:
            path: The folder; local, or a URI of a pyarrow file system.
            encoder: True: values are encoded according to the column's name as a file ending; None:
                only bytes and text are allowed; or a function from row to row, or a list of
                functions.
            options: See RowOptions.

        Raises:
            ValueError: mode is "error" and the folder has files, or options do not fit together.
            TypeError: A column has values that the format cannot hold, or a keyword is unknown.
            OSError: A file cannot be written. Then no output of the write is visible.
        """
        self._write("webdataset", path, options, {"encoder": encoder})

    @takes_rows(rest="args")
    def write_feather(self, path: Path, **options: Unpack[OpenRowOptions]) -> None:
        """Writes Arrow IPC files (Feather version 2) into a folder.

        Args:
            path: The folder; local, or a URI of a pyarrow file system.
            options: See RowOptions.
            args: compression, which is "lz4" (default), "zstd" or None.

        Raises:
            ValueError: mode is "error" and the folder has files, or options do not fit together.
            TypeError: A column has values that the format cannot hold, or a keyword is unknown.
            OSError: A file cannot be written. Then no output of the write is visible.

        Example:
            >>> import skate, tempfile
            >>> folder = tempfile.mkdtemp()
            >>> skate.data.range(3).write_feather(folder)
            >>> skate.data.read_feather(folder).count()
            3
        """
        self._write("arrow", path, options, arguments.others(options, RowOptions))

    @takes_rows(rest="args")
    def write_orc(self, path: Path, **options: Unpack[OpenRowOptions]) -> None:
        """Writes ORC files into a folder.

        Args:
            path: The folder; local, or a URI of a pyarrow file system.
            options: See RowOptions.
            args: Arguments of pyarrow.orc.ORCWriter (compression, stripe_size, ...).

        Raises:
            ValueError: mode is "error" and the folder has files, or options do not fit together.
            TypeError: A column has values that the format cannot hold, or a keyword is unknown.
            OSError: A file cannot be written. Then no output of the write is visible.

        Example:
            >>> import skate, tempfile
            >>> folder = tempfile.mkdtemp()
            >>> skate.data.range(3).write_orc(folder)
            >>> skate.data.read_orc(folder).count()
            3
        """
        self._write("orc", path, options, arguments.others(options, RowOptions))

    def write_sql(
        self,
        sql: str,
        connection_factory: Callable[[], Any],
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
    ) -> None:
        """Writes rows into a database over DB-API, by executemany() in one transaction per task.

        Args:
            sql: An INSERT statement with one parameter for each column.
            connection_factory: A function without arguments that opens a connection; it is called
                in the workers.
            ray_remote_args: Other options of the write tasks, as in skate.remote: num_cpus, memory
                (bytes), resources, runtime_env, ...
            concurrency: Maximum number of write tasks at once; None: as many as fit.

        Example:
            >>> import os, skate, sqlite3, tempfile
            >>> db = os.path.join(tempfile.mkdtemp(), "x.db")
            >>> _ = sqlite3.connect(db).execute("create table t(a)")
            >>> skate.data.range(3).write_sql(
            ...     "insert into t values (?)", lambda: sqlite3.connect(db)
            ... )
            >>> sqlite3.connect(db).execute("select count(*) from t").fetchone()
            (3,)
        """
        options: TaskOptions = {"ray_remote_args": ray_remote_args, "concurrency": concurrency}
        write_job.write_sql(self._request(), sql, connection_factory, options)

    @takes_tasks()
    def write_datasink(self, datasink: Datasink, **options: Unpack[TaskOptions]) -> None:
        """Writes into a Datasink, for example one that the user wrote.

        Args:
            datasink: A skate.data.datasource.Datasink.
            options: See TaskOptions.
        """
        write_job.write_sink(self._request(), datasink, options)

    def _write(
        self, fmt: str, path: Any, options: WriteOptions, args: dict[str, Any], *more: Any
    ) -> None:
        """Writes files of a format; see write/job.py."""
        wrote = write_job.write(self._request(), fmt, path, options, args, *more)
        if wrote is not None and self._stats is not None:
            self._stats.extra["write"] = wrote

    # ---- Aggregates over all rows.

    def sum(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Any:
        """Sum of a column (for several columns a dict of sums); sums of ints are exact.

        Args:
            on: A column, or a list of them; None: all columns.
            ignore_nulls: True: nulls are left out. False: the result is None if any value is null.

        Returns:
            The value; None if there is none. For several columns a dict of values by names such as
                "sum(x)".

        Raises:
            KeyError: There is no such column.
            TypeError: Its values have no sum.

        Example:
            >>> import skate
            >>> skate.data.range(4).sum("id")
            6
        """
        return self._aggregate("sum", on, lambda c: aggregate.Sum(c, ignore_nulls))

    def min(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Any:
        """Smallest value of a column (for several columns a dict).

        Args:
            on: A column, or a list of them; None: all columns.
            ignore_nulls: True: nulls are left out. False: the result is None if any value is null.

        Returns:
            The value; None if there is none. For several columns a dict of values by names such as
                "min(x)".

        Raises:
            KeyError: There is no such column.
            TypeError: Its values have no order.

        Example:
            >>> import skate
            >>> skate.data.range(4).min("id")
            0
        """
        return self._aggregate("min", on, lambda c: aggregate.Min(c, ignore_nulls))

    def max(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Any:
        """Largest value of a column (for several columns a dict).

        Args:
            on: A column, or a list of them; None: all columns.
            ignore_nulls: True: nulls are left out. False: the result is None if any value is null.

        Returns:
            The value; None if there is none. For several columns a dict of values by names such as
                "max(x)".

        Raises:
            KeyError: There is no such column.
            TypeError: Its values have no order.

        Example:
            >>> import skate
            >>> skate.data.range(4).max("id")
            3
        """
        return self._aggregate("max", on, lambda c: aggregate.Max(c, ignore_nulls))

    def mean(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Any:
        """Mean of a column (for several columns a dict).

        Args:
            on: A column, or a list of them; None: all columns.
            ignore_nulls: True: nulls are left out. False: the result is None if any value is null.

        Returns:
            The value; None if there is none. For several columns a dict of values by names such as
                "mean(x)".

        Raises:
            KeyError: There is no such column.
            TypeError: Its values have no mean.

        Example:
            >>> import skate
            >>> skate.data.range(4).mean("id")
            1.5
        """
        return self._aggregate("mean", on, lambda c: aggregate.Mean(c, ignore_nulls))

    def std(
        self, on: str | list[str] | None = None, ddof: int = 1, ignore_nulls: bool = True
    ) -> Any:
        """Standard deviation of a column (for several columns a dict).

        Args:
            on: A column, or a list of them; None: all columns.
            ddof: The sum of squares is divided by the number of values minus ddof: 1 for a sample,
                0 for a whole population.
            ignore_nulls: True: nulls are left out. False: the result is None if any value is null.

        Returns:
            The value; None if there is none. For several columns a dict of values by names such as
                "std(x)".

        Raises:
            KeyError: There is no such column.
            TypeError: Its values have no standard deviation.

        Example:
            >>> import skate
            >>> skate.data.from_items([{"x": 1.0}, {"x": 3.0}]).std("x", ddof=0)
            1.0
        """
        return self._aggregate("std", on, lambda c: aggregate.Std(c, ddof, ignore_nulls))

    def _aggregate(self, kind: str, on: Any, of: Any) -> Any:
        columns = (
            [on] if isinstance(on, str) else list(on) if on is not None else self.columns() or []
        )
        if on is not None and not isinstance(on, str) and not columns:
            raise ValueError(f"{kind}: `on` names no column")
        self._check_columns(columns, kind)
        if not columns:
            return None
        fns = [of(c) for c in columns]
        found = execute.aggregate(
            self._request(), fns, [f.name for f in fns], f"{kind} of {', '.join(columns)}"
        )
        values = dict(zip((f.name for f in fns), found or [None] * len(fns), strict=True))
        return values[fns[0].name] if isinstance(on, str) or len(columns) == 1 else values

    def unique(self, column: str, ignore_nulls: bool = False) -> list[Any]:
        """Distinct values of a column, in order of appearance.

        Args:
            column: Name of the column.
            ignore_nulls: Whether null is left out of the result.

        Example:
            >>> import skate
            >>> skate.data.from_items([{"a": 1}, {"a": 2}, {"a": 1}]).unique("a")
            [1, 2]
        """
        self._check_columns([column], "unique")
        f = aggregate.Unique(
            column
        )  # NaN counts as a value here; Unique(ignore_nulls=True) would leave it out
        found = execute.aggregate(self._request(), [f], [f.name], f"unique of {column}")
        return [v for v in (found or [[]])[0] if v is not None or not ignore_nulls]

    def aggregate(self, *aggs: Any) -> dict[str, Any] | None:
        """Computes aggregates over all rows: a dict of results by name; None if there are no rows.

        Args:
            aggs: AggregateFn objects (skate.data.aggregate); ValueError if there is none or one
                lacks its column, TypeError for other objects. A name that occurs twice gets the
                suffix _2, _3, ...

        Example:
            >>> import skate
            >>> from skate.data.aggregate import Max, Mean
            >>> skate.data.range(5).aggregate(Max("id"), Mean("id"))
            {'max(id)': 4, 'mean(id)': 2.0}
        """
        self._check_aggregates(aggs)
        names = aggregate.names_of([], aggs)
        values = execute.aggregate(self._request(), aggs, names, ", ".join(a.name for a in aggs))
        return None if values is None else dict(zip(names, values, strict=True))

    def _check_aggregates(self, aggs: Sequence[Any]) -> None:
        if not aggs:
            raise ValueError("aggregate: give at least one AggregateFn, such as Sum('x')")
        for a in aggs:
            if not isinstance(a, aggregate.AggregateFn):
                raise TypeError(f"aggregate takes AggregateFn objects, not {type(a).__name__}")
            aggregate.check_column(a)
            self._check_columns(sorted(a.columns() or ()), a.name)

    def summary(
        self,
        columns: list[str] | None = None,
        override_dtype_agg_mapping: dict[Any, Any] | None = None,
    ) -> DatasetSummary:
        """A DatasetSummary: count, mean, min, max, std, and the shares of missing values and of
        zeros, for each column.

        Args:
            columns: Only these columns; ValueError for one that does not exist.
            override_dtype_agg_mapping: {DataType: function from a column's name to a list of
                aggregates}, used in place of the default aggregates of that type.
        """
        mapping = override_dtype_agg_mapping
        return summary.summarize(self.schema(), columns, mapping, self.aggregate)

    # ---- Methods that Python and notebooks call.

    def __repr__(self) -> str:
        s = self.schema(fetch_if_missing=False)
        if s is None or not s.names:
            return self._plan()
        return text_table.dataset(self._given_name, self._facts.rows, s, self._node.blocks)

    def _repr_html_(self) -> str:
        """HTML for notebooks: the columns, and the first rows of a materialized Dataset. Runs
        nothing."""
        s = self.schema(fetch_if_missing=False)
        if s is None or not s.names:
            return notebook.preformatted(self._plan())
        return text_table.html(self._given_name, self._facts.rows, s, self._node.blocks)

    def _plan(self) -> str:
        """The operators as text, down to a Dataset whose columns are known or to the source."""
        labels, ds = [], self
        while ds._above is not None and ds.schema(fetch_if_missing=False) is None:
            labels.append(ds._node.label)
            ds = ds._above
        known = ds.schema(fetch_if_missing=False)
        return text_table.plan(labels, type(ds).__name__, ds._given_name, ds._facts.rows, known)

    def __bool__(self) -> bool:
        """Always True, even for a Dataset without rows, so that `if ds:` runs nothing."""
        return True

    def __len__(self) -> int:
        raise AttributeError(
            "len(ds) is not there, since it may have to run the pipeline; ds.count() does that"
        )

    def has_serializable_lineage(self) -> bool:
        """Whether the plan can be sent without data: all its sources are outside this engine, so
        that none is a block in the store."""
        todo, seen = [self._node], set()
        while todo:
            n = todo.pop()
            if id(n) in seen:
                continue
            seen.add(id(n))
            if n.blocks is not None:
                return False
            todo += n.inputs
        return True

    def serialize_lineage(self) -> bytes:
        """The plan as bytes, for deserialize_lineage() in another process or engine; ValueError if
        the plan holds blocks of this engine."""
        if not self.has_serializable_lineage():
            raise ValueError(
                "serialize_lineage: this Dataset cannot be made again elsewhere: "
                "it holds blocks in memory (from_items, from_pandas, materialize, ...), which are no part of a plan"
            )
        return _job.signed(cloudpickled(self.copy()))

    @staticmethod
    def deserialize_lineage(serialized_ds: bytes) -> Dataset:
        """Makes a Dataset from the result of serialize_lineage().

        The bytes are unpickled, which runs code. So bytes of another job are accepted only with
        DataContext.trust_pickled_columns.

        Args:
            serialized_ds: The bytes.

        Raises:
            UntrustedPickleError: The bytes were not made by this job.

        Example:
            >>> import skate
            >>> skate.data.Dataset.deserialize_lineage(
            ...     skate.data.range(3).serialize_lineage()
            ... ).count()
            3
        """
        return marks.unpickled(serialized_ds, "deserialize_lineage")

    def iter_internal_ref_bundles(self) -> Iterator[Any]:
        """Yields the blocks as they are made, as objects with `blocks`: [(reference,
        BlockMetadata)].

        Example:
            >>> import skate
            >>> [
            ...     m.num_rows
            ...     for b in skate.data.range(4, override_num_blocks=2).iter_internal_ref_bundles()
            ...     for _, m in b.blocks
            ... ]
            [2, 2]
        """
        for b in execute.run(self._request()):
            yield block.RefBundle([(reference(b), block.BlockMetadata(b[2], b[3]))])

    def get_dataset_id(self) -> str:
        """A text that identifies this Dataset: its name, its own number, and the number of its
        runs."""
        return f"{self._given_name or 'dataset'}_{self._uuid}_{self._node.runs}"

    def get_internal_block_refs(self) -> list[Any]:
        """References to the blocks; runs the plan unless the Dataset is materialized."""
        return self.materialize().get_internal_block_refs()

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(
            "a Dataset is not iterable itself: ds.iter_rows() gives rows, ds.iter_batches() batches"
        )


@errors.methods
class MaterializedDataset(Dataset):
    """A Dataset whose blocks exist; Dataset.materialize() makes it.

    Args:
        node: The operator that holds the blocks.
        facts: What is known about the blocks.
        context: The settings; None: a copy of the current ones.
    """

    def schema(self, fetch_if_missing: bool = True) -> Schema | None:
        """Column names and types; read from the first block if they were not known before.

        Args:
            fetch_if_missing: Has no effect: the schema is known.
        """
        known = super().schema(fetch_if_missing=False)
        if known is None and (blocks := self._node.options["blocks"]):
            known = self._schema = Schema(fetch(blocks[0]).schema, pandas=self._frames())
        return known

    def num_blocks(self) -> int:
        """Number of blocks.

        Example:
            >>> import skate
            >>> skate.data.range(4, override_num_blocks=2).materialize().num_blocks()
            2
        """
        return len(self._node.options["blocks"])

    def materialize(self) -> MaterializedDataset:
        """Returns this Dataset: its blocks exist already."""
        return self

    def size_bytes(self) -> int:
        """Bytes of the blocks."""
        return sum(b[3] for b in self._node.options["blocks"])

    def get_internal_block_refs(self) -> list[Any]:
        """References to the blocks."""
        return [reference(b) for b in self._node.options["blocks"]]


def _one_schema(what: str, datasets: list[Dataset]) -> tuple[tuple[Node, ...], list[Any], Any]:
    """The inputs of a node whose rows have one schema: (their nodes, with casts; the schema of each,
    None: known only after a run; the schema of all, or None)."""
    nodes = tuple(d._node for d in datasets)
    known: list[Any] = [d._facts.known_schema() for d in datasets]
    if None in known:
        return nodes, known, None
    try:
        schema = unify(known, [f"input {i} ({n.label})" for i, n in enumerate(nodes, 1)])
    except TypeError as e:
        raise TypeError(f"{what}: {e}") from None
    nodes = tuple(conform(n, s, schema) for n, s in zip(nodes, known, strict=True))
    return nodes, [schema] * len(nodes), schema


def _names(cols: Any, what: str) -> list[str]:
    names = [cols] if isinstance(cols, str) else cols
    if not isinstance(names, (list, tuple)):
        raise TypeError(f"{what} requires 'cols' to be a string or a list of strings.")
    if not all(isinstance(n, str) for n in names):
        raise ValueError(f"{what} requires all elements of 'cols' to be strings.")
    return list(names)


def _pool(kind: str, compute: Any, concurrency: Any, options: dict[str, Any]) -> ActorPoolStrategy:
    """Makes the description of the actor pool in which a callable class runs."""
    _check_compute(kind, compute)
    if isinstance(compute, TaskPoolStrategy):
        raise ValueError(f"{kind}: a class runs in actors; use ActorPoolStrategy, or a function")
    if isinstance(compute, ActorPoolStrategy):
        pool = compute
    elif isinstance(concurrency, (tuple, list)):
        if len(concurrency) not in (2, 3) or not all(isinstance(c, int) for c in concurrency):
            raise ValueError(
                f"{kind}: concurrency must be an int, (min, max) or (min, max, initial), not {concurrency!r}"
            )
        pool = ActorPoolStrategy(min_size=concurrency[0], max_size=concurrency[1])
    elif concurrency is not None:
        if not isinstance(concurrency, int) or concurrency < 1:
            raise ValueError(f"{kind}: concurrency must be a positive int, not {concurrency!r}")
        pool = ActorPoolStrategy(size=concurrency)
    else:
        pool = ActorPoolStrategy(min_size=1)
    # The pool may have as many actors as the machine can run; the engine starts them only when
    # there is work
    if pool.max_size is None:
        fit = ActorPoolStrategy(
            min_size=pool.min_size,
            max_size=max(1, pool.min_size, os.cpu_count() or 1),
            max_tasks_in_flight_per_actor=pool.max_tasks_in_flight_per_actor,
        )
        return fit
    return pool


def _check_compute(kind: str, compute: Any) -> None:
    if compute is not None and not isinstance(compute, (TaskPoolStrategy, ActorPoolStrategy)):
        raise ValueError(
            f"{kind}: compute must be a TaskPoolStrategy or an ActorPoolStrategy, not {compute!r}"
        )


def _max_tasks(label: str, compute: Any, concurrency: Any) -> int:
    """The most tasks that run a function at the same time; 0: no maximum."""
    _check_compute(label, compute)
    if isinstance(compute, ActorPoolStrategy):
        raise ValueError(f"{label}: ActorPoolStrategy needs a class; a function runs in tasks")
    if isinstance(compute, TaskPoolStrategy):
        return compute.size or 0
    if isinstance(concurrency, (tuple, list)):
        raise ValueError(
            f"{label}: concurrency={concurrency}: a smallest and a largest number are for classes, whose actors stay; for a function give an int"
        )
    if concurrency is None:
        return 0
    if not isinstance(concurrency, int) or concurrency < 1:
        raise ValueError(f"{label}: concurrency must be a positive int, not {concurrency!r}")
    return concurrency


def _of_frames(frames: bool, dtypes: dict[str, tuple[str, str]]) -> dict[str, Any]:
    """The parameters of a node that say whether its blocks came from DataFrames, and from which
    dtypes."""
    return {**({"pandas": True} if frames else {}), **({"dtypes": dtypes} if dtypes else {})}


def of_source(given: Source | InMemory) -> Any:
    """Makes a Dataset from a reader's return value: a MaterializedDataset if the data is in
    memory."""
    if isinstance(given, InMemory):
        batches, schema = given.batches, None
        if batches:
            schema = unify(
                [b.schema for b in batches],
                [f"part {i} of what {given.label} was given" for i in range(1, len(batches) + 1)],
            )
            batches = [cast_batch(b, schema) for b in batches]
        blocks: list[Any] = [(b, 0, b.num_rows, b.nbytes) for b in batches]
        dtypes = (
            {n: (t, str(schema.field(n).type)) for n, t in (given.dtypes or {}).items()}
            if schema is not None
            else {}
        )
        node = Node("blocks", given.label, _of_frames(given.frames, dtypes), (), blocks=blocks)
        facts = Facts(
            sum(b[2] for b in blocks),
            (lambda: schema) if batches else None,
            [],
            sum(b[3] for b in blocks),
        )
        return MaterializedDataset(node, facts)
    o = given.options
    n, params = o.get("concurrency"), given.params
    if n is not None and (not isinstance(n, int) or n < 1):
        raise ValueError(f"concurrency of a read must be a positive int, not {n!r}")
    remote = dict(o.get("ray_remote_args") or {})
    pool = {"pool": remote.pop("pool")} if "pool" in remote else {}
    on_error = o.get("on_error")
    if check_policy(on_error) is not None:
        params = {**params, "on_error": on_error}
    facts = given.facts
    if params.get("trust_pickled_columns") and facts.schema is not None:
        known = facts.schema
        facts = facts._replace(schema=lambda: marks.trust(known()))
    options = resources({**{k: o.get(k) for k in ("num_cpus", "num_gpus", "memory")}, **remote})
    node = Node(
        "read",
        given.label,
        params,
        (),
        units=given.units,
        each_run=given.each_run,
        max_tasks=n or 0,
        **pool,
        **options,
    )
    return Dataset(node, facts)


def _named(public: Any, reader: Any, returns: str) -> Any:
    """Makes a public reader that is pickled by its public name, and has its own return type."""
    public.__module__ = "skate.data"
    reader.__annotations__["return"] = returns
    return public


def reads(
    reader: Callable[P, Source | InMemory], expects: str | None = None
) -> Callable[P, Dataset]:
    """Makes the public reader, which returns a Dataset, from the reader of a format. expects names
    a format whose modules the fork server may import while the reader works."""
    call = _skate.front(reader)

    @functools.wraps(reader)
    def public(*args: P.args, **kwargs: P.kwargs) -> Dataset:
        if expects is not None:
            expect(f"skate.data.read.formats.{expects}")
        return of_source(call(*args, **kwargs))

    return _named(public, reader, "Dataset")


def holds(reader: Callable[P, InMemory]) -> Callable[P, MaterializedDataset]:
    """Like reads(), for a reader whose data is in memory already."""
    call = _skate.front(reader)

    @functools.wraps(reader)
    def public(*args: P.args, **kwargs: P.kwargs) -> MaterializedDataset:
        return of_source(call(*args, **kwargs))

    return _named(public, reader, "MaterializedDataset")
