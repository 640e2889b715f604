"""Dividing and joining Datasets by rows and blocks: split, train_test_split, zip, union,
repartition, block order; sort and random_shuffle, which exchange rows between blocks. A part of
Dataset.

What has to know how many rows there are runs the Dataset first (materialize) and then says ranges
of its blocks: no row is copied.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any, Literal

from skate._deps import dataset
from skate.data import exchange_strategy, random_config, streaming_split
from skate.data.plan.node import Node, bytes_of
from skate.data.plan.resources import resources
from skate.data.read.source import Facts
from skate.data.run import errors
from skate.data.run.execute import input_blocks
from skate.data.values.ranges import cut, even

if TYPE_CHECKING:
    from skate.data.dataset import Dataset, MaterializedDataset
    from skate.data.exchange_strategy import ExchangeStrategy
    from skate.data.iterator import DataIterator
    from skate.data.typed import Seed


@errors.part_of("skate.data.dataset", "Dataset")
class Splits:
    """Part of Dataset."""

    _node: Node
    _facts: Facts
    context: Any

    def _of_blocks(self, blocks: list[Any]) -> Any:
        """A MaterializedDataset of blocks of this one."""
        rows, size = sum(b[2] for b in blocks), sum(b[3] for b in blocks)
        known = (
            {k: v for k, v in self._node.params.items() if k in ("pandas", "dtypes")}
            if self._node.op == "blocks"
            else {}
        )
        node = Node("blocks", "Blocks", known, (), blocks=blocks)
        out = dataset.MaterializedDataset(
            node, Facts(rows, self._facts.schema, self._facts.files, size), self.context
        )
        out._stats = getattr(self, "_stats", None)
        return out

    def _rows_at(self, at: list[int]) -> list[Any]:
        """Datasets that end before these rows, and the rest."""
        if self._node.blocks is None:
            return self.materialize()._rows_at(at)  # type: ignore[attr-defined,no-any-return]
        blocks = input_blocks(self._node, self.context)
        empty = [(blocks[0][0], blocks[0][1], 0, 0)] if blocks else []
        return [self._of_blocks(part or empty) for part in cut([b for b in blocks if b[2]], at)]

    def split(
        self, n: int, *, equal: bool = False, locality_hints: list[Any] | None = None
    ) -> list[MaterializedDataset]:
        """n Datasets of about as many rows, in order. Runs this one.

        Args:
            n: How many; ValueError below 1.
            equal: All have the same number of rows; up to n - 1 rows are left out.
            locality_hints: One for each split (ValueError otherwise); there is one machine, so
                nothing follows from them.

        Example:
            >>> import skate
            >>> [d.count() for d in skate.data.range(10).split(3, equal=True)]
            [3, 3, 3]
        """
        if not isinstance(n, int) or n < 1:
            raise ValueError(f"split: n={n!r}: 1 or more")
        if locality_hints is not None and len(locality_hints) != n:
            raise ValueError(
                f"split: {len(locality_hints)} locality_hints for {n} splits: one for each"
            )
        rows = (
            sum(b[2] for b in input_blocks(self._node, self.context))
            if self._node.blocks is not None
            else None
        )
        source: Any = self if rows is not None else self.materialize()  # type: ignore[attr-defined]
        rows = source._facts.rows
        at = [rows // n * i for i in range(1, n + 1)] if equal else even(rows, n)
        return source._rows_at(at)[:n]

    def split_at_indices(self, indices: list[int]) -> list[MaterializedDataset]:
        """Datasets that end before these rows, and one of the rest. Runs this one.

        Args:
            indices: Row numbers, ascending; ValueError for none, negative or descending ones.

        Example:
            >>> import skate
            >>> [d.count() for d in skate.data.range(10).split_at_indices([2, 5])]
            [2, 3, 5]
        """
        if len(indices) < 1:
            raise ValueError("split_at_indices: no indices; give at least one")
        if sorted(indices) != list(indices):
            raise ValueError(f"split_at_indices: indices {indices} are not in rising order")
        if indices[0] < 0:
            raise ValueError("indices must be positive")
        return self._rows_at(list(indices))

    def split_proportionately(self, proportions: list[float]) -> list[MaterializedDataset]:
        """Datasets of these shares of the rows, and one of the rest. Runs this one.

        Args:
            proportions: Each over 0, together under 1 (ValueError otherwise).

        Example:
            >>> import skate
            >>> [d.count() for d in skate.data.range(10).split_proportionately([0.2, 0.5])]
            [2, 5, 3]
        """
        if len(proportions) < 1:
            raise ValueError("split_proportionately: no proportions; give at least one")
        if sum(proportions) >= 1:
            raise ValueError(
                f"split_proportionately: proportions {proportions} come to 1 or more; the last split is what they leave"
            )
        if any(p <= 0 for p in proportions):
            raise ValueError(
                f"split_proportionately: proportions {proportions}: each is more than 0"
            )
        source: Any = self.materialize()  # type: ignore[attr-defined]
        rows = source._facts.rows
        ends, total = [], 0.0
        for p in proportions:
            total += p
            ends.append(int(rows * total))
        subtract = 0  # every part has a row, where there are enough
        for i in range(len(ends) - 2, -1, -1):
            ends[i] -= subtract
            if ends[i] == ends[i + 1]:
                subtract += 1
                ends[i] -= 1
        if (
            any(e <= 0 for e in ends)
            or ends[-1] >= rows
            and rows > 0
            and sum(proportions) < 1
            and ends[-1] > rows
        ):
            raise ValueError(
                f"split_proportionately: {rows} rows are too few for proportions {proportions}: a split would be empty"
            )
        return source._rows_at(ends)

    def train_test_split(
        self,
        test_size: int | float,
        *,
        shuffle: bool = False,
        seed: int | None = None,
        stratify: str | None = None,
    ) -> tuple[MaterializedDataset, MaterializedDataset]:
        """(train, test): the last rows are the test. Runs this one.

        Args:
            test_size: Rows as an int, or a share between 0 and 1; ValueError otherwise.
            shuffle: The rows are shuffled before.
            seed: Of the shuffle: an int gives the same order each time.
            stratify: A column: of the rows of each of its values that share, rounded down, is in
                the test. Both parts come in the order of that column. ValueError together with
                shuffle.

        Example:
            >>> import skate
            >>> train, test = skate.data.range(8).train_test_split(0.25)
            >>> test.take_all()
            [{'id': 6}, {'id': 7}]
        """
        if shuffle and stratify:
            raise ValueError(
                "Cannot specify both 'shuffle=True' and 'stratify': to keep the shares of the classes, rows are chosen by class, not at random"
            )
        if isinstance(test_size, bool) or not isinstance(test_size, (int, float)):
            raise TypeError(
                f"train_test_split: test_size is a number of rows or a share of them, not {type(test_size)}"
            )
        if isinstance(test_size, float) and not 0 < test_size < 1:
            raise ValueError(
                f"train_test_split: test_size={test_size}: as a share it lies between 0 and 1; a number of rows is an int"
            )
        source: Any = self
        if shuffle:
            source = self.random_shuffle(seed=seed)
        elif stratify is not None:
            source = self._whole_groups(self._check_key(stratify, "train_test_split"), None)  # type: ignore[attr-defined]
        source = source.materialize()
        rows = source._facts.rows
        if isinstance(test_size, int) and not 0 < test_size < rows:
            raise ValueError(
                f"train_test_split: test_size={test_size}: of {rows} rows both parts need at least one"
            )
        if stratify is not None:
            params = {
                "keys": [stratify],
                "share": test_size / rows if isinstance(test_size, int) else test_size,
            }
            nodes = [
                Node(
                    "stratify",
                    "TestSplit" if test else "TrainSplit",
                    {**params, "test": test},
                    (source._node,),
                )
                for test in (False, True)
            ]
            train, test = (
                source._add(n, Facts(None, source._facts.schema, source._facts.files)).materialize()
                for n in nodes
            )
            return train, test
        at = rows - test_size if isinstance(test_size, int) else rows - math.ceil(rows * test_size)
        train, test = source._rows_at([at])
        return train, test

    def streaming_train_test_split(
        self,
        test_size: float,
        *,
        split_type: Literal["random", "hash"] = "random",
        hash_column: str | None = None,
        seed: int | None = None,
        **ray_remote_kwargs: Any,
    ) -> tuple[Dataset, Dataset]:
        """(train, test), row by row, without running anything: which side a row is on follows from
        its number and seed, or from a column.

        Args:
            test_size: Share of the test, between 0 and 1.
            split_type: "random" or "hash".
            hash_column: The column for "hash": equal values are on one side.
            seed: Of "random"; by default the two sides still fit together.
            ray_remote_kwargs: Other options of the tasks or actors, as of skate.remote: resources,
                runtime_env, scheduling_strategy, max_retries, ...

        Raises:
            ValueError: The arguments do not fit together.

        Example:
            >>> import skate
            >>> train, test = skate.data.range(100).streaming_train_test_split(0.2, seed=1)
            >>> train.count() + test.count()
            100
        """
        if not 0 < test_size < 1:
            raise ValueError(f"test_size must be between 0 and 1, not {test_size}")
        if split_type not in ("random", "hash"):
            raise ValueError(f"Invalid split type: {split_type}; it is 'hash' or 'random'")
        if split_type == "hash" and hash_column is None:
            raise ValueError("hash_column is required for hash split")
        if split_type == "hash" and seed is not None:
            raise ValueError("seed is not supported for hash split")
        if split_type == "random" and hash_column is not None:
            raise ValueError("hash_column is not supported for random split")
        key = int.from_bytes(os.urandom(8), "little") if seed is None else int(seed)
        out = []
        for test in (False, True):
            params = {"test": test, "share": float(test_size), "seed": key, "column": hash_column}
            node = Node(
                "split_rows",
                f"Split{'Test' if test else 'Train'}",
                params,
                (self._node,),
                **resources(ray_remote_kwargs),
            )
            out.append(self._add(node, Facts(None, self._facts.schema, self._facts.files)))  # type: ignore[attr-defined]
        return out[0], out[1]

    def streaming_split(
        self,
        n: int,
        *,
        equal: bool | Literal["drop", "pad"] = False,
        locality_hints: list[Any] | None = None,
        batch_size: int | None = None,
    ) -> list[DataIterator]:
        """n iterators over one execution, to be used at the same time, in any process; see
        streaming_split.py.

        Args:
            n: How many.
            equal: All get the same number of rows, and of batches: True or "drop" leaves up to n -
                1 rows out, "pad" (with a batch_size) gives up to n - 1 rows twice.
            locality_hints: One for each (ValueError otherwise); there is one machine, so nothing
                follows from them.
            batch_size: Rows are dealt in batches of so many, in turn, and each iterator is asked
                for batches of as many. Then it has a len(), and a state_dict() that any number of
                iterators can go on with.

        Raises:
            ValueError: n, batch_size or locality_hints are wrong, or "pad" comes without a
                batch_size.

        Example:
            >>> import skate
            >>> ds = skate.data.range(10).materialize()
            >>> [len(it) for it in ds.streaming_split(2, equal="pad", batch_size=3)]
            [2, 2]
        """
        if not isinstance(n, int) or n < 1:
            raise ValueError(f"streaming_split needs a positive number of splits, not {n!r}")
        if locality_hints is not None and len(locality_hints) != n:
            raise ValueError(
                f"streaming_split: {len(locality_hints)} locality_hints for {n} splits"
            )
        if equal not in (True, False, "drop", "pad"):
            raise ValueError(
                f'streaming_split: equal={equal!r}: it is False, True, "drop" or "pad"'
            )
        if batch_size is not None and (not isinstance(batch_size, int) or batch_size < 1):
            raise ValueError(f"streaming_split: batch_size={batch_size!r}: a positive int or None")
        if equal == "pad" and batch_size is None:
            raise ValueError(
                'streaming_split: equal="pad" fills up the last batches: give it a batch_size'
            )
        return [*streaming_split.streaming_split(self, self._request(), n, equal, batch_size)]

    def zip(self, *other: Dataset) -> Dataset:
        """The rows of several Datasets side by side; all must have as many rows (ValueError when it
        runs). It
        streams: blocks of the others are cut (by reference) where those of one end: the largest, if
        the bytes of all are known beforehand, else this one. A name that is taken gets _1, _2, ...

        Args:
            other: The other Datasets; at least one (ValueError).

        Example:
            >>> import skate
            >>> skate.data.range(2).zip(skate.data.range(2)).take_all()
            [{'id': 0, 'id_1': 0}, {'id': 1, 'id_1': 1}]
        """
        if not other:
            raise ValueError("zip needs at least one other Dataset")
        nodes = [self._node, *[d._node for d in other]]
        sizes = [bytes_of(n) for n in nodes]
        lead = 0 if None in sizes else max(range(len(nodes)), key=lambda i: sizes[i] or 0)
        # the engine cuts where blocks of the first input end
        order = [lead, *(i for i in range(len(nodes)) if i != lead)]
        rows = {d._facts.rows for d in (self, *other)}
        equal = len(rows) == 1 and None not in rows
        node = Node(
            "zip_rows", "Zip", {"order": order, "equal": equal}, tuple(nodes[i] for i in order)
        )
        files = [f for d in (self, *other) for f in d._facts.files]
        return self._add(node, Facts(rows.pop() if equal else None, None, files))  # type: ignore[attr-defined]

    def repartition(
        self,
        num_blocks: int | None = None,
        target_num_rows_per_block: int | None = None,
        *,
        strict: bool = False,
        shuffle: bool = False,
        keys: str | list[str] | None = None,
        sort: bool = False,
        strategy: ExchangeStrategy | str | None = None,
    ) -> Dataset:
        """The same rows in other blocks; in the same order, unless they are shuffled.

        Args:
            num_blocks: How many blocks, of as many rows; runs everything above first.
            target_num_rows_per_block: Rows in a block, at most; streams.
            strict: With target_num_rows_per_block: exactly so many, over all borders of blocks.
            shuffle: With num_blocks: each block gets a piece of what each task before made. The
                order is the same on every run.
            keys: One or several; with num_blocks: all rows that are equal in these columns come
                into one block, in the order in which they came.
            sort: With keys: each block is sorted by them, ascending.
            strategy: With shuffle or keys: how the exchange is wired, as of sort().

        Raises:
            ValueError: None or both of num_blocks and target_num_rows_per_block; one that is no
                positive int; what goes with the other one.
            KeyError: There is no such column.

        Example:
            >>> import skate
            >>> skate.data.range(10).repartition(4).materialize().num_blocks()
            4
        """
        if num_blocks is not None and target_num_rows_per_block is not None:
            raise ValueError(
                "Only one of `num_blocks` or `target_num_rows_per_block` must be set, but not both."
            )
        if num_blocks is None and target_num_rows_per_block is None:
            raise ValueError("Either `num_blocks` or `target_num_rows_per_block` must be set")
        if target_num_rows_per_block is not None:
            if keys is not None:
                raise ValueError("`keys` must be None when `target_num_rows_per_block` is set.")
            if sort:
                raise ValueError(
                    "repartition: sort is for num_blocks; with target_num_rows_per_block leave it out"
                )
            if shuffle:
                raise ValueError("`shuffle` must be False when `target_num_rows_per_block` is set.")
        for name, v in (
            ("num_blocks", num_blocks),
            ("target_num_rows_per_block", target_num_rows_per_block),
        ):
            if v is not None and (not isinstance(v, int) or isinstance(v, bool) or v < 1):
                raise ValueError(f"repartition: {name} must be a positive int, not {v!r}")
        keys = [keys] if isinstance(keys, str) else keys  # as Ray's documents write it
        if keys is not None and not (
            isinstance(keys, (list, tuple)) and all(isinstance(k, str) for k in keys)
        ):
            raise ValueError(f"repartition: keys must be names of columns, not {keys!r}")
        if sort and not keys:
            raise ValueError("repartition: sort needs keys")
        if strategy is not None and not (num_blocks and (shuffle or keys)):
            raise ValueError("repartition: strategy is for shuffle=True or keys; leave it out")
        self._check_columns(keys or [], "repartition")  # type: ignore[attr-defined]
        if num_blocks is not None and (shuffle or keys):
            node = Node(
                "repartition_shuffled",
                "Repartition",
                {"n": num_blocks, "keys": list(keys or ()), "sort": sort},
                (self._node,),
                **exchange_strategy.option("repartition", strategy),
            )
        elif num_blocks is not None:
            node = Node("repartition_even", "Repartition", {"n": num_blocks}, (self._node,))
        else:
            n = target_num_rows_per_block or 0
            if strict:
                node = Node(
                    "repartition_exact",
                    f"StreamingRepartition[num_rows_per_block={n},strict=True]",
                    {"n": n},
                    (self._node,),
                )
            else:
                node = Node(
                    "repartition",
                    f"StreamingRepartition[num_rows_per_block={n},strict=False]",
                    {"rows": n},
                    (self._node,),
                    batch_rows=n,
                )
        return self._add(node, Facts(self._facts.rows, self._facts.schema, self._facts.files))  # type: ignore[attr-defined]

    def randomize_block_order(self, *, seed: Seed = None) -> Dataset:
        """The same blocks in a random order; runs everything above first.

        Args:
            seed: An int: the same order each time; a RandomSeedConfig; None: another each time.

        Example:
            >>> import skate
            >>> skate.data.range(4, override_num_blocks=2).randomize_block_order(seed=1).count()
            4
        """
        of_run = random_config.seeds(seed)
        node = Node(
            "randomize_block_order",
            "RandomizeBlockOrder",
            {"seed": of_run(0)},
            (self._node,),
            each_run=lambda k: {"params": {"seed": of_run(k)}},
        )
        return self._add(node, Facts(self._facts.rows, self._facts.schema, self._facts.files))  # type: ignore[attr-defined]

    # ---- what exchanges rows between blocks

    def sort(
        self,
        key: str | list[str],
        descending: bool | list[bool] = False,
        boundaries: list[int | float] | None = None,
        *,
        strategy: ExchangeStrategy | str | None = None,
    ) -> Dataset:
        """The rows in the order of a column or of several. Equal rows stay in the order in which
        they came; NaN and then nulls come last, for either direction; -0.0 equals 0.0. The result
        is the same on every run, whatever workers and memory there are.

        Args:
            key: Its name, or their names, the most significant first.
            descending: The largest value first; of several keys one for each.
            boundaries: Numbers: the first key's values at which blocks begin, so there is a block
                more. [10, 20]: what is less than 10, the rest of what is less than 20, the rest;
                with
                descending the other way round. None: blocks are of about the same size.
            strategy: How the exchange is wired, which changes no row: a skate.data.ExchangeStrategy
                or a name; None: as DataContext.shuffle_strategy says.

        Raises:
            ValueError: No key, one that is no name, as many directions as there are no keys,
                boundaries that are no numbers; when it runs: a column that is not there, or whose
                type has no order.

        Example:
            >>> import skate
            >>> skate.data.from_items([{"a": 2}, {"a": None}, {"a": 3}]).sort(
            ...     "a", descending=True
            ... ).take_all()
            [{'a': 3}, {'a': 2}, {'a': None}]
        """
        if key is None:
            raise ValueError("The 'key' parameter cannot be None for sorting.")
        keys = [key] if isinstance(key, str) else key
        if not isinstance(keys, list) or not keys or not all(isinstance(k, str) for k in keys):
            raise ValueError(f"Key must be a string or a list of strings, but got {key}.")
        directions = [descending] * len(keys) if isinstance(descending, bool) else list(descending)
        if len(directions) != len(keys):
            raise ValueError("Length of `descending` does not match the length of the key.")
        for b in boundaries or ():
            if not isinstance(b, int | float) or isinstance(b, bool) or b != b:
                raise ValueError("The type of items in boundaries must be int or float.")
        self._check_columns(keys, "sort")  # type: ignore[attr-defined]
        cuts = sorted(set(boundaries or ()), reverse=directions[0])
        by = ", ".join(k + " descending" * d for k, d in zip(keys, directions, strict=True))
        node = Node(
            "sort",
            f"Sort({by})",
            {"keys": list(keys), "descending": directions, "boundaries": cuts or None},
            (self._node,),
            **exchange_strategy.option("sort", strategy),
        )
        return self._add(node, Facts(self._facts.rows, self._facts.schema, self._facts.files))  # type: ignore[attr-defined]

    def random_shuffle(
        self,
        *,
        seed: Seed = None,
        num_blocks: int | None = None,
        strategy: ExchangeStrategy | str | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """The rows in a random order; all orders are equally likely. A seed gives the same order on
        every run, whatever workers and memory there are.

        Args:
            seed: An int: the same order each time; a RandomSeedConfig; None: another each time.
            num_blocks: As in Ray no longer supported: repartition() behind it.
            strategy: How the exchange is wired, as of sort().
            ray_remote_args: Resources of the tasks that deal rows out, by the names that
                map_batches has.

        Raises:
            DeprecationWarning: num_blocks was given.

        Example:
            >>> import skate
            >>> sorted(row["id"] for row in skate.data.range(4).random_shuffle(seed=1).take_all())
            [0, 1, 2, 3]
        """
        if num_blocks is not None:
            raise DeprecationWarning(
                "`num_blocks` parameter is deprecated in Ray 2.9. random_shuffle() does not support to change the number of output blocks. Use repartition() instead."
            )
        of_run = random_config.seeds(seed)
        node = Node(
            "random_shuffle",
            "RandomShuffle",
            {"seed": of_run(0), "resources": resources(ray_remote_args)},
            (self._node,),
            each_run=lambda k: {"params": {"seed": of_run(k)}},
            **exchange_strategy.option("random_shuffle", strategy),
        )
        return self._add(node, Facts(self._facts.rows, self._facts.schema, self._facts.files))  # type: ignore[attr-defined]
