"""What preprocessors share: the aggregates of a fit, tokens, hashes of tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any


def simple_split_tokenizer(value: str) -> list[str]:
    """The words of a text, which one space each parts.

    Args:
        value: The text.
    """
    return value.split(" ")


def simple_hash(value: object, num_features: int) -> int:
    """A number from 0 to num_features - 1 that follows from a value, in every process the same:
    SHA-256 of its str().

    Args:
        value: Any.
        num_features: How many numbers there are.
    """
    return int.from_bytes(hashlib.sha256(str(value).encode()).digest(), "big") % num_features


class StatComputationPlan:
    """The aggregates of a fit, which one pass over the Dataset computes."""

    def __init__(self) -> None:
        self._asked: list[tuple[Any, Callable[[Any], Any] | None]] = []

    def reset(self) -> None:
        """Nothing is asked for any more."""
        self._asked.clear()

    def add(self, aggregate: Any, then: Callable[[Any], Any] | None = None) -> None:
        """Asks for an aggregate. Its result, changed by a function, has its name.

        Args:
            aggregate: An AggregateFn.
            then: From the result to what is kept.
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
        """Asks for an aggregate of each column.

        Args:
            aggregator_fn: From the name of a column to an AggregateFn, such as Mean.
            columns: The names.
            post_process_fn: From a result to what is kept.
            batch_format: Ray's; results are Python values here in any case.
        """
        for name in columns:
            self.add(aggregator_fn(name), post_process_fn)

    def compute(self, dataset: Any, what: str = "fit") -> dict[str, Any]:
        """The results by the names of the aggregates.

        Args:
            dataset: The Dataset, which runs here, once.
            what: What asks, for errors.

        Raises:
            ValueError: It has no rows.
        """
        return compute_all([self], dataset, what)[0]


def compute_all(
    plans: Sequence[StatComputationPlan], dataset: Any, what: str
) -> list[dict[str, Any]]:
    """The results of several plans, by one pass over a Dataset; of none where nothing is asked
    for."""
    fns = [aggregate for plan in plans for aggregate, _ in plan._asked]
    found = dataset.aggregate(*fns) if fns else {}
    if found is None:
        raise ValueError(f"{what}: the Dataset has no rows, so nothing can be learned from it")
    # in the order of the aggregates; two of one name have got other names there
    values = iter(found.values())
    return [
        {a.name: then(v) if then else v for (a, then), v in zip(plan._asked, values)}
        for plan in plans
    ]
