"""What a Dataset does by a key: groupby, join, distinct, lookups, and the split that keeps the
shares of classes. What the methods of Dataset of these names do: from a RunRequest to the node
behind it and what is known of that.

Rows of equal keys come together by an exchange (op/group_rows.py, op/join.py): in the order of the
keys, so that results are in it, or for a join by their hashes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skate.data import exchange_strategy, group_keys, grouped_data, join_args, random_access_dataset
from skate.data.plan.node import Node, below
from skate.data.plan.resources import resources
from skate.data.read.source import Facts
from skate.data.run.request import RunRequest
from skate.data.values.unify import few

if TYPE_CHECKING:
    from skate.data.dataset import Dataset
    from skate.data.typed import Strategy

Added = tuple[Node, Facts]  # what a method adds to a plan


def whole_groups(
    request: RunRequest, keys: list[str], num_partitions: int | None, strategy: Strategy
) -> Added:
    """The rows in the order of keys, in blocks that end where a group does. No keys: in one block,
    as they come."""
    known = request.facts
    if keys:
        params = {"keys": keys, "n": num_partitions or 0}
        wired = exchange_strategy.option("groupby", strategy)
        node = Node("group_rows", f"GroupBy({few(keys)})", params, (request.node,), **wired)
    else:
        node = Node("repartition_even", "GroupAll", {"n": 1}, (request.node,))
    return node, Facts(known.rows, known.schema, known.files)


def check_key(request: RunRequest, key: Any, what: str) -> list[str]:
    """The columns of a key; ValueError at once for what is none, and where a column is known to be
    missing. Where there may be no rows it waits for one: none needs no columns."""
    keys = [key] if isinstance(key, str) else key
    if not isinstance(keys, (list, tuple)) or not all(isinstance(k, str) for k in keys):
        raise ValueError(f"{what}: Key must be a string or a list of strings, but got {key!r}.")
    if len(set(keys)) != len(keys):
        raise ValueError(f"{what}: a column is named twice in {list(keys)}")
    if not any(
        n.operator.no_more and not n.operator.one_to_one and not n.operator.first_rows
        for n in below(request.node)
    ):
        request.facts.check_columns(list(keys), what)
    known = request.facts.known_schema()
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
    ds: Dataset,
    request: RunRequest,
    key: str | list[str] | None,
    num_partitions: int | None,
    strategy: Strategy,
) -> grouped_data.GroupedData:
    """The rows in groups of equal keys."""
    if key is not None:
        check_key(request, key, "groupby")
    check_partitions(num_partitions)
    exchange_strategy.option("groupby", strategy)
    return grouped_data.GroupedData(ds, key, num_partitions=num_partitions, strategy=strategy)


def distinct(
    request: RunRequest, keys: str | list[str], num_partitions: int | None, strategy: Strategy
) -> Added | None:
    """The first row of each key; None: there is no key, so all rows."""
    names = check_key(request, keys, "distinct")
    check_partitions(num_partitions)
    if not names:
        return None
    params = {"keys": names, "n": num_partitions or 0}
    wired = exchange_strategy.option("distinct", strategy)
    node = Node("distinct", f"Distinct({few(names)})", params, (request.node,), **wired)
    return node, Facts(None, request.facts.schema, request.facts.files)


def join(
    left: RunRequest,
    right: RunRequest,
    given: tuple[Any, Any, Any, Any],
    num_partitions: int | None,
    remote: dict[str, Any],
    schemas: Callable[[], tuple[Any, Any]] | None,
    strategy: Strategy,
) -> Added:
    """The rows of two that have equal keys, side by side. given: join_type, on, right_on and the
    suffixes of Dataset.join. schemas: gives the Schemas of both, which are compared; None: they are
    not."""
    check_partitions(num_partitions)
    how = join_args.check(*given)
    if schemas is not None:
        join_args.validate(how, schemas())
    known, schema = (left.facts.known_schema(), right.facts.known_schema()), None
    if known[0] is not None and known[1] is not None:
        schema = join_args.schema_of(how, known)
    label = f"Join({how.kind}, on={', '.join(how.on[0])})"
    params = {"join": how, "n": num_partitions or 0, "resources": resources(remote)}
    wired = exchange_strategy.option("join", strategy)
    node = Node("join", label, params, (left.node, right.node), **wired)
    files = [*left.facts.files, *right.facts.files]
    return node, Facts(None, (lambda: schema) if schema is not None else None, files)


def random_access(
    ds: Dataset, request: RunRequest, key: str, num_workers: int | None
) -> random_access_dataset.RandomAccessDataset:
    """The rows in actors, to be looked up by a key."""
    check_key(request, [key], "to_random_access_dataset")
    return random_access_dataset.RandomAccessDataset(ds, key, num_workers=num_workers or 4)


def check_partitions(n: Any) -> None:
    """ValueError for what is no number of partitions."""
    if n is not None and (not isinstance(n, int) or isinstance(n, bool) or n < 1):
        raise ValueError("`num_partitions` must be a positive integer")
