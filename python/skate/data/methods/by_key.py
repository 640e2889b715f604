"""Operations of a Dataset by a key: groupby, join, distinct, look-ups, and the stratified split.
The methods of Dataset with these names call these functions, which turn a RunRequest into a new
node and its facts.

An exchange puts rows with equal keys next to each other (op/group_rows.py, op/join.py): in the
order of the keys, which is then the order of the results, or, for a join, by the hashes of the
keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skate.data import exchange_strategy, grouped_data, random_access_dataset
from skate.data.by_key import group_keys, join_args
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
    """The rows in the order of the keys, in blocks that end at the end of a group; without keys, in
    one block in their original order."""
    known = request.facts
    if keys:
        params = {"keys": keys, "n": num_partitions or 0}
        wired = exchange_strategy.option("groupby", strategy)
        node = Node("group_rows", f"GroupBy({few(keys)})", params, (request.node,), **wired)
    else:
        node = Node("repartition_even", "GroupAll", {"n": 1}, (request.node,))
    return node, Facts(known.rows, known.schema, known.files)


def check_key(request: RunRequest, key: Any, what: str) -> list[str]:
    """The columns of a key. ValueError if the key is invalid, or if a column is known to be
    missing. If it is unknown whether there are rows, the run raises this error at the first row,
    since without rows no column is needed."""
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
    """See Dataset.groupby."""
    if key is not None:
        check_key(request, key, "groupby")
    check_partitions(num_partitions)
    exchange_strategy.option("groupby", strategy)
    return grouped_data.GroupedData(ds, key, num_partitions=num_partitions, strategy=strategy)


def distinct(
    request: RunRequest, keys: str | list[str], num_partitions: int | None, strategy: Strategy
) -> Added | None:
    """See Dataset.distinct. Returns None if there is no key, so that all rows stay."""
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
    """See Dataset.join. given: join_type, on, right_on and the suffixes of Dataset.join. schemas: a
    function that returns the Schemas of both sides, which are then compared; None: not compared."""
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
    """See Dataset.to_random_access_dataset."""
    check_key(request, [key], "to_random_access_dataset")
    return random_access_dataset.RandomAccessDataset(ds, key, num_workers=num_workers or 4)


def check_partitions(n: Any) -> None:
    """Raises ValueError if n is no number of partitions."""
    if n is not None and (not isinstance(n, int) or isinstance(n, bool) or n < 1):
        raise ValueError("`num_partitions` must be a positive integer")
