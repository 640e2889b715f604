"""GroupedData: the result of Dataset.groupby(); its methods make Datasets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from skate.data import aggregate, exchange_strategy, expressions
from skate.data.expr import aggregated, evaluation
from skate.data.plan.node import Node
from skate.data.plan.resources import as_input, remote_args
from skate.data.read.source import Facts
from skate.data.run import errors, partial
from skate.data.values.unify import few

if TYPE_CHECKING:
    from skate.data.aggregate import AggregateFn
    from skate.data.dataset import Dataset
    from skate.data.expressions import Expr
    from skate.data.run.partial import Partial
    from skate.data.typed import BatchFormat, BatchFunction, Compute, Concurrency, Strategy


@errors.methods
class GroupedData:
    """The rows of a Dataset in groups of equal keys; Dataset.groupby() makes it. Nothing runs until
    a Dataset made from it runs.

    Groups are in the ascending order of their keys, over all blocks: NaN is after all other values
    and null after NaN, each as a separate key; -0.0 and 0.0 are one key. Within a group, rows keep
    their order.

    Args:
        dataset: The Dataset.
        key: A column's name, or several; None: one group of all rows.
        num_partitions: Number of partitions of the exchange, each at least one block of the result;
            None: chosen from measured sizes.
        strategy: How the exchange is wired, as in Dataset.sort().
    """

    def __init__(
        self,
        dataset: Dataset,
        key: str | list[str] | None,
        *,
        num_partitions: int | None = None,
        strategy: Strategy = None,
    ):
        self._dataset, self._key, self._num_partitions = dataset, key, num_partitions
        self._strategy = strategy
        self._keys = [] if key is None else [key] if isinstance(key, str) else list(key)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(dataset={self._dataset!r}, key={self._key!r})"

    def aggregate(self, *aggs: AggregateFn) -> Dataset:
        """One row for each group: the columns of the key, then one column for each aggregate, with
        the aggregate's name.

        Args:
            aggs: AggregateFn objects (skate.data.aggregate). A repeated name gets the suffix _2,
                _3, ...

        Raises:
            ValueError: No aggregate is given, or one lacks its column or has the name of a key.
            TypeError: An argument is no aggregate. Values that an aggregate cannot handle are a
                TypeError of the run.

        Example:
            >>> import skate
            >>> from skate.data.aggregate import Max, Mean
            >>> ds = skate.data.from_items(
            ...     [{"k": "a", "x": 1}, {"k": "b", "x": 2}, {"k": "a", "x": 5}]
            ... )
            >>> ds.groupby("k").aggregate(Max("x"), Mean("x", alias_name="m")).take_all()
            [{'k': 'a', 'max(x)': 5, 'm': 3.0}, {'k': 'b', 'max(x)': 2, 'm': 2.0}]
        """
        ds, params = self._dataset, self._params(aggs)
        label = params.pop("label")
        if self._keys or params["builtin"]:
            wired = exchange_strategy.option("groupby", self._strategy)
            node = Node("group_aggregate", label, params, (ds._node,), **wired)
        else:
            states = Node("group_partial", label, params, (ds._node,), **as_input(ds._node))
            node = Node(
                "group_final",
                label,
                params,
                (Node("repartition_even", "GroupAll", {"n": 1}, (states,)),),
            )
        return ds._add(node, Facts(None, None, ds._facts.files))

    def agg(self, *aggs: AggregateFn | Expr, **named: AggregateFn | Expr) -> Dataset:
        """One row for each group: the columns of the key, then one column for each expression, as in
        Polars. Aggregates of columns (col("x").sum(), mean, min, max, count, std, var, quantile,
        median, first, n_unique, implode) are those of aggregate() and run in the kernel; they skip
        null and NaN. They may be part of an expression, and may be over one.

        Args:
            aggs: Expressions over aggregates and keys, or AggregateFn objects. The result of
                col("x").sum() is called "sum(x)", unless alias() says another name.
            named: The same, each with its name.

        Raises:
            ValueError: Nothing is given, a name is given twice or is that of a key, or an
                expression has a column that is neither aggregated nor a key.
            TypeError: An argument is neither an expression nor an aggregate.

        Example:
            >>> import skate
            >>> from skate.data.expressions import col
            >>> ds = skate.data.from_items(
            ...     [{"k": "a", "x": 1}, {"k": "b", "x": 2}, {"k": "a", "x": 5}]
            ... )
            >>> ds.groupby("k").agg(
            ...     col("x").max(), spread=col("x").max() - col("x").min()
            ... ).take_all()
            [{'k': 'a', 'max(x)': 5, 'spread': 4}, {'k': 'b', 'max(x)': 2, 'spread': 0}]
        """
        parts = aggregated.apart(self._keys, aggs, named)
        before = self._dataset
        if parts.before:
            before = before.with_columns(parts.before)
        grouped = GroupedData(
            before, self._key, num_partitions=self._num_partitions, strategy=self._strategy
        )
        ds = grouped.aggregate(*parts.aggregates)
        return (
            ds
            if parts.behind is None
            else ds._project("agg", parts.behind, None, None, {}, keep=False)
        )

    def _params(self, aggs: tuple[AggregateFn, ...]) -> dict[str, Any]:
        """Parameters of the operators that compute these aggregates; ValueError or TypeError for
        arguments that are no aggregates."""
        self._dataset._check_aggregates(aggs)
        names = aggregate.names_of(self._keys, aggs)
        return {
            "by": self._keys,
            "fns": list(aggs),
            "names": names,
            "builtin": aggregate.takes(aggs, names),
            "one_key": isinstance(self._key, str),
            "n": self._num_partitions or 0,
            "label": f"Aggregate({few([*self._keys, *names])})",
        }

    def iter_partial(
        self, *aggs: AggregateFn, confidence: float = 0.95, seed: int | None = None
    ) -> Iterator[Partial]:
        """Yields results of aggregate() that improve while the rows are read; the last one is
        exact.

        The pieces of the input (files, row groups, ranges) are processed in random order, and the
        rows seen so far are treated as a sample of the whole. The first result comes after 1/50 of
        the pieces, and each further one after twice as many pieces as the one before.

        Counts, sums and means are estimates for the whole, each with an error bound. Other
        aggregates are those of the rows seen so far, without an error. An error applies to one
        group and one result. The last result equals aggregate()'s; only lists, which keep an order
        of values, have the order of the pieces.

        Args:
            aggs: As in aggregate().
            confidence: Probability with which a value is within its error of the final value.
            seed: Seed for the order of the pieces; None: a new order each time.

        Returns:
            An iterator of Partial, with fraction (of the pieces, 1.0 in the last), table (a
                pyarrow.Table), errors (a dict from the aggregate's name to a NumPy array with one
                item per row) and to_pandas().

        Raises:
            ValueError: As in aggregate(); or the rows do not come from one reader through operators
                that run in its tasks (a limit, a sort, actors and materialized blocks are
                excluded); or confidence is not between 0 and 1.

        Example:
            >>> import skate
            >>> from skate.data.aggregate import Count
            >>> ds = skate.data.range(1000, override_num_blocks=10).map_batches(
            ...     lambda b: {"k": b["id"] % 2}
            ... )
            >>> for p in ds.groupby("k").iter_partial(Count(), seed=1):
            ...     if p.fraction in (0.1, 1):
            ...         print(p.fraction, p.table.to_pylist(), p.errors["count()"])
            0.1 [{'k': 0, 'count()': 500.0}, {'k': 1, 'count()': 500.0}] [nan nan]
            1.0 [{'k': 0, 'count()': 500}, {'k': 1, 'count()': 500}] [0. 0.]
        """
        if not 0 < confidence < 1:
            raise ValueError(
                f"iter_partial: confidence is a probability between 0 and 1, not {confidence!r}"
            )
        return partial.partials(self._dataset._request(), self._params(aggs), confidence, seed)

    def count(self) -> Dataset:
        """Number of rows of each group, as columns of the key and "count()".

        Example:
            >>> import skate
            >>> skate.data.from_items([{"k": 1}, {"k": 1}, {"k": 2}]).groupby(
            ...     "k"
            ... ).count().take_all()
            [{'k': 1, 'count()': 2}, {'k': 2, 'count()': 1}]
        """
        return self.aggregate(aggregate.Count())

    def sum(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Dataset:
        """Sums of columns, by group.

        Args:
            on: A column, or a list of columns; None: all columns but the key, for which the schema
                is fetched if it is not known.
            ignore_nulls: True: null and NaN are left out. False: one makes the result null.

        Raises:
            ValueError: There is no such column, or no column is left.

        Example:
            >>> import skate
            >>> skate.data.from_items([{"k": 1, "x": 2}, {"k": 1, "x": 3}]).groupby("k").sum(
            ...     "x"
            ... ).take_all()
            [{'k': 1, 'sum(x)': 5}]
        """
        return self._aggregate_on(aggregate.Sum, on, ignore_nulls=ignore_nulls)

    def min(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Dataset:
        """Smallest values of columns, by group.

        Args:
            on: A column, or a list of columns; None: all columns but the key.
            ignore_nulls: True: null and NaN are left out. False: one makes the result null.

        Raises:
            ValueError: There is no such column, or no column is left.

        Example:
            >>> import skate
            >>> skate.data.from_items([{"k": 1, "x": 2}, {"k": 1, "x": 3}]).groupby("k").min(
            ...     "x"
            ... ).take_all()
            [{'k': 1, 'min(x)': 2}]
        """
        return self._aggregate_on(aggregate.Min, on, ignore_nulls=ignore_nulls)

    def max(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Dataset:
        """Largest values of columns, by group.

        Args:
            on: A column, or a list of columns; None: all columns but the key.
            ignore_nulls: True: null and NaN are left out. False: one makes the result null.

        Raises:
            ValueError: There is no such column, or no column is left.

        Example:
            >>> import skate
            >>> skate.data.from_items([{"k": 1, "x": 2}, {"k": 1, "x": 3}]).groupby("k").max(
            ...     "x"
            ... ).take_all()
            [{'k': 1, 'max(x)': 3}]
        """
        return self._aggregate_on(aggregate.Max, on, ignore_nulls=ignore_nulls)

    def mean(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Dataset:
        """Means of columns, by group.

        Args:
            on: A column, or a list of columns; None: all columns but the key.
            ignore_nulls: True: null and NaN are left out. False: one makes the result null.

        Raises:
            ValueError: There is no such column, or no column is left.

        Example:
            >>> import skate
            >>> skate.data.from_items([{"k": 1, "x": 2}, {"k": 1, "x": 3}]).groupby("k").mean(
            ...     "x"
            ... ).take_all()
            [{'k': 1, 'mean(x)': 2.5}]
        """
        return self._aggregate_on(aggregate.Mean, on, ignore_nulls=ignore_nulls)

    def std(
        self, on: str | list[str] | None = None, ddof: int = 1, ignore_nulls: bool = True
    ) -> Dataset:
        """Standard deviations of columns, by group.

        Args:
            on: A column, or a list of columns; None: all columns but the key.
            ddof: The sum of squares is divided by the number of values minus ddof: 1 for a sample,
                0 for a whole population.
            ignore_nulls: True: null and NaN are left out. False: one makes the result null.

        Raises:
            ValueError: There is no such column, or no column is left.

        Example:
            >>> import skate
            >>> skate.data.from_items([{"k": 1, "x": 2}, {"k": 1, "x": 4}]).groupby("k").std(
            ...     "x", ddof=0
            ... ).take_all()
            [{'k': 1, 'std(x)': 1.0}]
        """
        return self._aggregate_on(aggregate.Std, on, ddof=ddof, ignore_nulls=ignore_nulls)

    def _aggregate_on(self, of: Any, on: str | list[str] | None, **options: Any) -> Dataset:
        if on is None:
            on = [c for c in self._dataset.columns() or [] if c not in self._keys]
        on = list(on) if isinstance(on, (list, tuple)) else [on]
        if not on:
            raise ValueError(
                f"{of.__name__}: at least one column to aggregate on has to be provided"
            )
        return self.aggregate(*(of(c, **options) for c in on))

    def map_groups(
        self,
        fn: BatchFunction,
        *,
        zero_copy_batch: bool = True,
        compute: Compute = None,
        batch_format: BatchFormat = "default",
        fn_args: Iterable[Any] | None = None,
        fn_kwargs: dict[str, Any] | None = None,
        fn_constructor_args: Iterable[Any] | None = None,
        fn_constructor_kwargs: dict[str, Any] | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        concurrency: Concurrency = None,
        ray_remote_args_fn: Callable[[], dict[str, Any]] | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Applies fn to each group as one batch of all its rows, in their order. Each group is one
        call, so it has to fit into memory.

        Args:
            fn: A function, generator function or class with __call__ (run in a pool of actors) from
                a batch to a batch of any number of rows.
            zero_copy_batch: True: the arrays of a batch are read-only views of shared memory.
                False: fn gets a copy, which it may write to.
            compute: Where fn runs and how many at once: a TaskPoolStrategy (for functions) or an
                ActorPoolStrategy (for classes). Replaces concurrency.
            batch_format: "default"/"pandas", "numpy" (dict of arrays) or "pyarrow"; None: "pandas"
                where the blocks came as DataFrames, else "pyarrow".
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
            ray_remote_args_fn: A function that returns more of ray_remote_args; called once.
            ray_remote_args: Other options of the tasks or actors, as in skate.remote: resources,
                runtime_env, scheduling_strategy, max_retries, ...

        Raises:
            TypeError, ValueError: fn is not callable, or an option does not fit it. Errors that fn
                raises appear when the Dataset runs, and name the group.

        Example:
            >>> import skate
            >>> ds = skate.data.from_items([{"k": 2, "x": 1}, {"k": 1, "x": 2}, {"k": 2, "x": 5}])
            >>> ds.groupby("k").map_groups(
            ...     lambda g: {"k": g["k"][:1], "most": [g["x"].max()]}
            ... ).take_all()
            [{'k': 1, 'most': 2}, {'k': 2, 'most': 5}]
        """
        if batch_format not in ("default", "numpy", "pandas", "pyarrow", None):
            raise ValueError(
                f"batch_format must be 'default', 'numpy', 'pandas', 'pyarrow' or None, not {batch_format!r}"
            )
        ds = self._dataset
        if batch_format == "default" or batch_format is None and ds._frames():
            batch_format = "pandas"
        remote = remote_args(ray_remote_args, ray_remote_args_fn)
        return ds._whole_groups(self._keys, self._num_partitions, self._strategy)._udf(
            "map_groups",
            "MapBatches",  # the name of map_groups in Ray's plans
            fn,
            compute=compute,
            concurrency=concurrency,
            fn_args=fn_args,
            fn_kwargs=fn_kwargs,
            fn_constructor_args=fn_constructor_args,
            fn_constructor_kwargs=fn_constructor_kwargs,
            remote={"num_cpus": num_cpus, "num_gpus": num_gpus, "memory": memory, **remote},
            facts=Facts(None, None, ds._facts.files),
            keys=self._keys,
            batch_format=batch_format,
            zero_copy_batch=zero_copy_batch,
        )

    def with_column(self, column_name: str, expr: Expr, **ray_remote_args: Any) -> Dataset:
        """Adds or replaces one column, computed by an expression over the rows of each group.

        If the expression calls a user function (skate.data.expressions.udf), the value in a row may
        depend on the other rows of its group.

        Args:
            column_name: Name of the column; an existing column of this name is replaced.
            expr: An expression (skate.data.expressions).
            ray_remote_args: Other options of the tasks, as in skate.remote: num_cpus, resources,
                runtime_env, ...

        Raises:
            ValueError: column_name is no text, or is empty.
            TypeError: expr is no expression, or it downloads files.

        Example:
            >>> import skate
            >>> from skate.data.expressions import col
            >>> skate.data.from_items([{"k": 2, "x": 1}, {"k": 1, "x": 2}]).groupby(
            ...     "k"
            ... ).with_column("y", col("x") * 2).take_all()
            [{'k': 1, 'x': 2, 'y': 4}, {'k': 2, 'x': 1, 'y': 2}]
        """
        x = expressions
        if not isinstance(column_name, str) or not column_name:
            raise ValueError(f"column_name must be a text that is not empty, not {column_name!r}")
        if not isinstance(expr, x.Expr) or isinstance(expr, x.StarExpr):
            raise TypeError(
                f"with_column: expr must be an expression over columns, not {type(expr).__name__}"
            )
        if isinstance(expr, x.DownloadExpr):
            raise TypeError(
                "GroupedData.with_column has no downloads: use Dataset.with_column, whose rows need no groups"
            )
        fn = evaluation.Column(column_name, expr)
        return self.map_groups(fn, batch_format="pyarrow", **ray_remote_args)
