"""Divides and joins Datasets by rows and blocks: split, train_test_split, zip, repartition, block
order; sort and random_shuffle, which exchange rows between blocks. The methods of Dataset with
these names call these functions, which turn a RunRequest into a new node and its facts.

Operations that need the number of rows first run the Dataset (materialize), and then use ranges of
its blocks: no row is copied.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skate.data import exchange_strategy, random_config
from skate.data.plan.node import Block, Node, bytes_of
from skate.data.plan.resources import resources
from skate.data.read.source import Facts
from skate.data.run.execute import input_blocks
from skate.data.run.request import RunRequest
from skate.data.trainers import streaming_split
from skate.data.values.ranges import cut, even

if TYPE_CHECKING:
    from skate.data.dataset import Dataset
    from skate.data.typed import Seed, Strategy

Added = tuple[Node, Facts]  # what a method adds to a plan
At = Callable[[int], list[int]]  # from the number of rows to the row numbers at which parts end


def parts(request: RunRequest, at: list[int]) -> list[list[Block]]:
    """Splits a materialized Dataset at these row numbers; returns the blocks of each part, and of
    the rest."""
    blocks = input_blocks(request.node, request.context)
    empty = [(blocks[0][0], blocks[0][1], 0, 0)] if blocks else []
    return [part or empty for part in cut([b for b in blocks if b[2]], at)]


def by_number(n: int, equal: bool, locality_hints: list[Any] | None) -> At:
    """Splits into n parts of about equal row counts; with `equal`, of exactly equal row counts, and
    a rest."""
    if not isinstance(n, int) or n < 1:
        raise ValueError(f"split: n={n!r}: 1 or more")
    if locality_hints is not None and len(locality_hints) != n:
        raise ValueError(
            f"split: {len(locality_hints)} locality_hints for {n} splits: one for each"
        )
    return lambda rows: [rows // n * i for i in range(1, n + 1)] if equal else even(rows, n)


def at_indices(indices: list[int]) -> At:
    """Splits before these row numbers."""
    if len(indices) < 1:
        raise ValueError("split_at_indices: no indices; give at least one")
    if sorted(indices) != list(indices):
        raise ValueError(f"split_at_indices: indices {indices} are not in rising order")
    if indices[0] < 0:
        raise ValueError("indices must be positive")
    return lambda rows: list(indices)


def by_shares(proportions: list[float]) -> At:
    """Splits into parts with these shares of the rows, and a rest."""
    if len(proportions) < 1:
        raise ValueError("split_proportionately: no proportions; give at least one")
    if sum(proportions) >= 1:
        raise ValueError(
            f"split_proportionately: proportions {proportions} come to 1 or more; the last split is what they leave"
        )
    if any(p <= 0 for p in proportions):
        raise ValueError(f"split_proportionately: proportions {proportions}: each is more than 0")

    def at(rows: int) -> list[int]:
        ends, total = [], 0.0
        for p in proportions:
            total += p
            ends.append(int(rows * total))
        subtract = 0  # each part gets at least one row, if there are enough rows
        for i in range(len(ends) - 2, -1, -1):
            ends[i] -= subtract
            if ends[i] == ends[i + 1]:
                subtract += 1
                ends[i] -= 1
        if any(e <= 0 for e in ends) or 0 < rows < ends[-1]:
            raise ValueError(
                f"split_proportionately: {rows} rows are too few for proportions {proportions}: a split would be empty"
            )
        return ends

    return at


def of_test(test_size: int | float, shuffle: bool, stratify: str | None) -> At:
    """Splits before the rows of the test part, which are the last rows."""
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

    def at(rows: int) -> list[int]:
        if isinstance(test_size, float):
            return [rows - math.ceil(rows * test_size)]
        if not 0 < test_size < rows:
            raise ValueError(
                f"train_test_split: test_size={test_size}: of {rows} rows both parts need at least one"
            )
        return [rows - test_size]

    return at


def stratified(request: RunRequest, at: At, test_size: int | float, column: str) -> list[Added]:
    """(train, test) of a materialized Dataset, both in the order of a column: for each value of the
    column, the share test_size of its rows is in the test part."""
    rows = request.facts.rows or 0
    at(rows)
    share = test_size / rows if isinstance(test_size, int) else test_size
    facts = Facts(None, request.facts.schema, request.facts.files)
    params = {"keys": [column], "share": share}
    return [
        (Node("stratify", label, {**params, "test": test}, (request.node,)), facts)
        for test, label in ((False, "TrainSplit"), (True, "TestSplit"))
    ]


def by_row(
    request: RunRequest,
    test_size: float,
    split_type: str,
    hash_column: str | None,
    seed: int | None,
    remote: dict[str, Any],
) -> list[Added]:
    """See Dataset.streaming_train_test_split."""
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
    params = {"share": float(test_size), "seed": key, "column": hash_column}
    facts = Facts(None, request.facts.schema, request.facts.files)
    options = resources(remote)
    return [
        (Node("split_rows", label, {**params, "test": test}, (request.node,), **options), facts)
        for test, label in ((False, "SplitTrain"), (True, "SplitTest"))
    ]


def streaming(
    ds: Dataset,
    request: RunRequest,
    n: int,
    equal: bool | str,
    locality_hints: list[Any] | None,
    batch_size: int | None,
) -> list[streaming_split.SplitIterator]:
    """n iterators over one execution; see trainers/streaming_split.py."""
    if not isinstance(n, int) or n < 1:
        raise ValueError(f"streaming_split needs a positive number of splits, not {n!r}")
    if locality_hints is not None and len(locality_hints) != n:
        raise ValueError(f"streaming_split: {len(locality_hints)} locality_hints for {n} splits")
    if equal not in (True, False, "drop", "pad"):
        raise ValueError(f'streaming_split: equal={equal!r}: it is False, True, "drop" or "pad"')
    if batch_size is not None and (not isinstance(batch_size, int) or batch_size < 1):
        raise ValueError(f"streaming_split: batch_size={batch_size!r}: a positive int or None")
    if equal == "pad" and batch_size is None:
        raise ValueError(
            'streaming_split: equal="pad" fills up the last batches: give it a batch_size'
        )
    return [*streaming_split.streaming_split(ds, request, n, equal, batch_size)]


def zipped(of: list[RunRequest]) -> Added:
    """See Dataset.zip."""
    if len(of) < 2:
        raise ValueError("zip needs at least one other Dataset")
    nodes = [r.node for r in of]
    sizes = [bytes_of(n) for n in nodes]
    lead = 0 if None in sizes else max(range(len(nodes)), key=lambda i: sizes[i] or 0)
    # the first input determines the blocks: the engine slices the other inputs where its blocks end
    order = [lead, *(i for i in range(len(nodes)) if i != lead)]
    rows = {r.facts.rows for r in of}
    equal = len(rows) == 1 and None not in rows
    node = Node("zip_rows", "Zip", {"order": order, "equal": equal}, tuple(nodes[i] for i in order))
    return node, Facts(rows.pop() if equal else None, None, [f for r in of for f in r.facts.files])


def repartition(
    request: RunRequest,
    num_blocks: int | None,
    target_num_rows_per_block: int | None,
    strict: bool,
    shuffle: bool,
    keys: str | list[str] | None,
    sort: bool,
    strategy: Strategy,
) -> Added:
    """See Dataset.repartition."""
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
    # keys may be a single name, as in Ray's documentation
    keys = [keys] if isinstance(keys, str) else keys
    if keys is not None and not (
        isinstance(keys, (list, tuple)) and all(isinstance(k, str) for k in keys)
    ):
        raise ValueError(f"repartition: keys must be names of columns, not {keys!r}")
    if sort and not keys:
        raise ValueError("repartition: sort needs keys")
    if strategy is not None and not (num_blocks and (shuffle or keys)):
        raise ValueError("repartition: strategy is for shuffle=True or keys; leave it out")
    request.facts.check_columns(keys or [], "repartition")
    below = (request.node,)
    if num_blocks is not None and (shuffle or keys):
        params = {"n": num_blocks, "keys": list(keys or ()), "sort": sort}
        wired = exchange_strategy.option("repartition", strategy)
        node = Node("repartition_shuffled", "Repartition", params, below, **wired)
    elif num_blocks is not None:
        node = Node("repartition_even", "Repartition", {"n": num_blocks}, below)
    else:
        n = target_num_rows_per_block or 0
        label = f"StreamingRepartition[num_rows_per_block={n},strict={strict}]"
        if strict:
            node = Node("repartition_exact", label, {"n": n}, below)
        else:
            node = Node("repartition", label, {"rows": n}, below, batch_rows=n)
    return node, _same_rows(request)


def randomize_block_order(request: RunRequest, seed: Seed) -> Added:
    """See Dataset.randomize_block_order."""
    of_run = random_config.seeds(seed)
    node = Node(
        "randomize_block_order",
        "RandomizeBlockOrder",
        {"seed": of_run(0)},
        (request.node,),
        each_run=lambda k: {"params": {"seed": of_run(k)}},
    )
    return node, _same_rows(request)


def sort(
    request: RunRequest,
    key: str | list[str],
    descending: bool | list[bool],
    boundaries: list[int | float] | None,
    strategy: Strategy,
) -> Added:
    """See Dataset.sort."""
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
    request.facts.check_columns(keys, "sort")
    cuts = sorted(set(boundaries or ()), reverse=directions[0])
    by = ", ".join(k + " descending" * d for k, d in zip(keys, directions, strict=True))
    params = {"keys": list(keys), "descending": directions, "boundaries": cuts or None}
    wired = exchange_strategy.option("sort", strategy)
    return Node("sort", f"Sort({by})", params, (request.node,), **wired), _same_rows(request)


def random_shuffle(
    request: RunRequest,
    seed: Seed,
    num_blocks: int | None,
    strategy: Strategy,
    remote: dict[str, Any],
) -> Added:
    """See Dataset.random_shuffle."""
    if num_blocks is not None:
        raise DeprecationWarning(
            "`num_blocks` parameter is deprecated in Ray 2.9. random_shuffle() does not support to change the number of output blocks. Use repartition() instead."
        )
    of_run = random_config.seeds(seed)
    node = Node(
        "random_shuffle",
        "RandomShuffle",
        {"seed": of_run(0), "resources": resources(remote)},
        (request.node,),
        each_run=lambda k: {"params": {"seed": of_run(k)}},
        **exchange_strategy.option("random_shuffle", strategy),
    )
    return node, _same_rows(request)


def _same_rows(request: RunRequest) -> Facts:
    return Facts(request.facts.rows, request.facts.schema, request.facts.files)
