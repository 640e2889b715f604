"""What a Dataset does by a key: groupby, join, distinct, lookups, and the split that keeps the
shares of classes. A part of Dataset.

Rows of equal keys come together by an exchange (op/group_rows.py, op/join.py): in the order of the
keys, so that results are in it, or for a join by their hashes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate.data import exchange_strategy, group_keys, grouped_data, join_args, random_access_dataset
from skate.data.plan.node import Node, below
from skate.data.plan.resources import resources
from skate.data.read.source import Facts
from skate.data.run import errors
from skate.data.values.unify import few

if TYPE_CHECKING:
    from skate.data.dataset import Dataset
    from skate.data.exchange_strategy import ExchangeStrategy
    from skate.data.grouped_data import GroupedData
    from skate.data.random_access_dataset import RandomAccessDataset


@errors.part_of("skate.data.dataset", "Dataset")
class Keyed:
    """Part of Dataset."""

    _node: Node
    _facts: Facts
    context: Any

    def _whole_groups(
        self, keys: list[str], num_partitions: int | None, strategy: Any = None
    ) -> Dataset:
        """The rows in the order of keys, in blocks that end where a group does. No keys: in one
        block, as they come."""
        if keys:
            node = Node(
                "group_rows",
                f"GroupBy({few(keys)})",
                {"keys": keys, "n": num_partitions or 0},
                (self._node,),
                **exchange_strategy.option("groupby", strategy),
            )
        else:
            node = Node("repartition_even", "GroupAll", {"n": 1}, (self._node,))
        return self._add(node, Facts(self._facts.rows, self._facts.schema, self._facts.files))  # type: ignore[attr-defined,no-any-return]

    def _check_key(self, key: Any, what: str) -> list[str]:
        """The columns of a key; ValueError at once for what is none, and where a column is known to
        be missing. Where there may be no rows it waits for one: none needs no columns."""
        keys = [key] if isinstance(key, str) else key
        if not isinstance(keys, (list, tuple)) or not all(isinstance(k, str) for k in keys):
            raise ValueError(f"{what}: Key must be a string or a list of strings, but got {key!r}.")
        if len(set(keys)) != len(keys):
            raise ValueError(f"{what}: a column is named twice in {list(keys)}")
        if not any(
            n.operator.no_more and not n.operator.one_to_one and not n.operator.first_rows
            for n in below(self._node)
        ):
            self._check_columns(list(keys), what)  # type: ignore[attr-defined]
        known = self._facts.schema() if self._facts.schema is not None else None
        for k in keys:
            if (
                known is not None
                and k in known.names
                and not group_keys.orderable(t := known.field(k).type)
            ):
                raise ValueError(
                    f"{what}: column {k!r} of type {t} cannot be a key: its values have no order"
                )
        return list(keys)

    def groupby(
        self,
        key: str | list[str] | None,
        num_partitions: int | None = None,
        *,
        strategy: ExchangeStrategy | str | None = None,
    ) -> GroupedData:
        """The rows in groups of equal keys, to be aggregated or mapped. What comes of it is in the
        order of the keys.

        Args:
            key: A column's name, or several; None: one group of all rows.
            num_partitions: In how many parts to work; None: as many as their sizes ask for.
            strategy: How the exchange is wired, as of sort().

        Raises:
            ValueError: The key is no name of a column, there is no such column, its values have no
                order (lists, structs, arrays), or num_partitions is no positive int. Where rows may
                have been dropped before, a missing column is an error of the run.

        Example:
            >>> import skate
            >>> skate.data.from_items([{"k": 2}, {"k": 1}, {"k": 2}]).groupby(
            ...     "k"
            ... ).count().take_all()
            [{'k': 1, 'count()': 1}, {'k': 2, 'count()': 2}]
        """
        if key is not None:
            self._check_key(key, "groupby")
        check_partitions(num_partitions)
        exchange_strategy.option("groupby", strategy)
        return grouped_data.GroupedData(self, key, num_partitions=num_partitions, strategy=strategy)  # type: ignore[arg-type]

    def distinct(
        self,
        keys: str | list[str] | None = None,
        num_partitions: int | None = None,
        *,
        strategy: ExchangeStrategy | str | None = None,
    ) -> Dataset:
        """The rows without those whose key was there before: of each key the first row, in the
        order of the keys. (polars.DataFrame.unique; Ray has `unique` of one column alone.)

        Args:
            keys: Columns; None: all, which the schema has to tell, or is asked for.
            num_partitions: In how many parts to work; None: as many as their sizes ask for.
            strategy: How the exchange is wired, as of sort().

        Raises:
            ValueError: As groupby.

        Example:
            >>> import skate
            >>> skate.data.from_items(
            ...     [{"k": 2, "x": 1}, {"k": 1, "x": 2}, {"k": 2, "x": 3}]
            ... ).distinct("k").take_all()
            [{'k': 1, 'x': 2}, {'k': 2, 'x': 1}]
        """
        names = self._check_key(self.columns() or [] if keys is None else keys, "distinct")  # type: ignore[attr-defined]
        check_partitions(num_partitions)
        if not names:
            return self  # type: ignore[return-value]
        node = Node(
            "distinct",
            f"Distinct({few(names)})",
            {"keys": names, "n": num_partitions or 0},
            (self._node,),
            **exchange_strategy.option("distinct", strategy),
        )
        return self._add(node, Facts(None, self._facts.schema, self._facts.files))  # type: ignore[attr-defined,no-any-return]

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
        strategy: ExchangeStrategy | str | None = None,
    ) -> Dataset:
        """The rows of two Datasets that have equal keys, side by side. Null keys meet nothing; NaN
        meets NaN. Rows come partition by partition (of the keys' hashes), in each in the order of
        the rows of the side that has more of them in it (of as many: the left side), then of the
        other one, whose rows that meet nothing stand behind (semi and anti joins: in the order of
        their side); where one side is small (DataContext.broadcast_join_bytes) and num_partitions
        is not given, in the order of the other side's rows. Which it is depends on the data alone:
        the order is the same on every run, whatever workers and memory there are.

        Args:
            ds: The other Dataset, the right side.
            join_type: "inner"; "left_outer", "right_outer" or "full_outer" (rows of that side that
                meet nothing come, too, with nulls); "left_semi" or "right_semi" (rows of that side
                that meet something, each once, and its columns only); "left_anti" or "right_anti"
                (those that meet nothing).
            num_partitions: In how many parts to work, each at least a block; None: as many as their
                sizes ask for, none where a side is small.
            on: Columns of this Dataset that are the key.
            right_on: Those of the other one, as many; None: of the same names.
            left_suffix: What follows the name of a column of this side, no key, that the other side
                has as well.
            right_suffix: The same of the other side.
            partition_size_hint: Bytes of a part, about. Sizes are measured, so nothing follows from
                it.
            aggregator_ray_remote_args: Options of the tasks that join, as of skate.remote:
                num_cpus, memory, resources, ...
            validate_schemas: Compares the types of the keys now, for which the schemas are asked
                for: ValueError where they differ.
            strategy: How the exchange is wired, as of sort(), where there is one.

        Returns:
            The left columns, then the right ones without its key; of "right_outer" the left ones
            are without theirs; of semi and anti joins one side's columns.

        Raises:
            ValueError: An argument is not as said above; a key's values have no order; two columns
                would have one name (at once where both schemas are known, else of the run).
            KeyError: A side has no such column (a ValueError, too).
            TypeError: The keys' types cannot be compared.

        Example:
            >>> import skate
            >>> a = skate.data.from_items([{"id": 1, "x": "a"}, {"id": 2, "x": "b"}])
            >>> b = skate.data.from_items([{"id": 2, "y": 3}])
            >>> a.join(b, "inner").take_all(), a.join(b, "left_anti").take_all()
            ([{'id': 2, 'x': 'b', 'y': 3}], [{'id': 1, 'x': 'a'}])
        """
        check_partitions(num_partitions)
        how = join_args.check(join_type, on, right_on, (left_suffix, right_suffix))
        if validate_schemas:
            join_args.validate(how, (self.schema(), ds.schema()))  # type: ignore[attr-defined]
        known = [d._facts.schema() if d._facts.schema is not None else None for d in (self, ds)]
        schema = None
        if known[0] is not None and known[1] is not None:
            schema = join_args.schema_of(how, (known[0], known[1]))
        options = resources(aggregator_ray_remote_args or {})
        label = f"Join({how.kind}, on={', '.join(how.on[0])})"
        params = {"join": how, "n": num_partitions or 0, "resources": options}
        wired = exchange_strategy.option("join", strategy)
        node = Node("join", label, params, (self._node, ds._node), **wired)
        files = [*self._facts.files, *ds._facts.files]
        return self._add(node, Facts(None, (lambda: schema) if schema is not None else None, files))  # type: ignore[attr-defined,no-any-return]

    def to_random_access_dataset(
        self, key: str, num_workers: int | None = None
    ) -> RandomAccessDataset:
        """The rows in actors, to be looked up by a key. Runs this Dataset.

        Args:
            key: A column's name. Of rows of one key the first one is found.
            num_workers: How many actors; None: 4.

        Raises:
            ValueError: There is no such column, or its values have no order.

        Example:
            >>> import skate
            >>> found = skate.data.range(10).to_random_access_dataset("id", num_workers=1)
            >>> skate.get(found.get_async(3)), found.multiget([1, 20])
            ({'id': 3}, [{'id': 1}, None])
        """
        self._check_key([key], "to_random_access_dataset")
        return random_access_dataset.RandomAccessDataset(self, key, num_workers=num_workers or 4)  # type: ignore[arg-type]


def check_partitions(n: Any) -> None:
    """ValueError for what is no number of partitions."""
    if n is not None and (not isinstance(n, int) or isinstance(n, bool) or n < 1):
        raise ValueError("`num_partitions` must be a positive integer")
