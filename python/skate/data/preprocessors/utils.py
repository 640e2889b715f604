"""Common code of preprocessors: the aggregates of a fit, tokens, hashes of tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any


def simple_split_tokenizer(value: str) -> list[str]:
    """The words of a text, split at single spaces.

    Args:
        value: The text.
    """
    return value.split(" ")


def simple_hash(value: object, num_features: int) -> int:
    """A number from 0 to num_features - 1 that depends on a value only, the same in every process:
    SHA-256 of its str().

    Args:
        value: Any value.
        num_features: Number of different results.
    """
    return int.from_bytes(hashlib.sha256(str(value).encode()).digest(), "big") % num_features


class StatComputationPlan:
    """The aggregates of a fit, which one pass over the Dataset computes."""

    def __init__(self) -> None:
        self._asked: list[tuple[Any, Callable[[Any], Any] | None]] = []

    def reset(self) -> None:
        """Removes all aggregates."""
        self._asked.clear()

    def add(self, aggregate: Any, then: Callable[[Any], Any] | None = None) -> None:
        """Adds an aggregate. Its result, converted by a function, is stored under its name.

        Args:
            aggregate: An AggregateFn.
            then: Converts the result into the stored value.
        """
        self._asked.append((aggregate, then))

    def add_aggregator(
        self,
        *,
        aggregator_fn: Callable[[str], Any],
        columns: Sequence[str],
        post_process_fn: Callable[[Any], Any] | None = None,
        batch_format: Any = None,
    ) -> None:
        """Adds an aggregate for each column.

        Args:
            aggregator_fn: A function from the name of a column to an AggregateFn, such as Mean.
            columns: Names of columns.
            post_process_fn: Converts a result into the stored value.
            batch_format: An argument of Ray's; results are always Python values here.
        """
        for name in columns:
            self.add(aggregator_fn(name), post_process_fn)

    def compute(self, dataset: Any, what: str = "fit") -> dict[str, Any]:
        """Computes the results, by the names of the aggregates.

        Args:
            dataset: The Dataset, which runs here, once.
            what: Name of the caller, for errors.

        Raises:
            ValueError: The Dataset has no rows.
        """
        return compute_all([self], dataset, what)[0]


def compute_all(
    plans: Sequence[StatComputationPlan], dataset: Any, what: str
) -> list[dict[str, Any]]:
    """The results of several plans, by one pass over a Dataset; without aggregates nothing runs."""
    fns = [aggregate for plan in plans for aggregate, _ in plan._asked]
    found = dataset.aggregate(*fns) if fns else {}
    if found is None:
        raise ValueError(f"{what}: the Dataset has no rows, so nothing can be learned from it")
    # the results are matched by the order of the aggregates, since aggregates of one name were
    # renamed
    values = iter(found.values())
    return [
        {a.name: then(v) if then else v for (a, then), v in zip(plan._asked, values)}
        for plan in plans
    ]
