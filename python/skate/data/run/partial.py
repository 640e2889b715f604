"""Aggregates by group as they become known (online aggregation, Hellerstein and others, SIGMOD 1997; the streaming shuffle of Exoshuffle): the pieces of a source are worked off in a random
order, each becomes states in the order of their keys (op/group_states.py), and the state of all rounds so far takes a round of them: state_k = reduce(state_k-1, round k). A result of it comes after every round.

A piece is drawn without replacement, so what was seen estimates the whole (sampling of clusters; Cochran, Sampling Techniques, 3rd ed., 9.2 and 6.4): counts and sums by N / n, means as ratios, each with
the half width of a confidence interval by the central limit, Student's t of n - 1 degrees and the correction for a finite population. For that a group's sums of squares by piece are kept
beside its state. When all pieces were seen the estimate is the result and the error 0.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skate import _skate
from skate.data import aggregate as ag
from skate.data import in_kernel
from skate.data.op.aggregate_map import kernel
from skate.data.op.group_partial import aggregates
from skate.data.plan.node import Node
from skate.data.plan.optimise import add, new_plan
from skate.data.plan.resources import as_input
from skate.data.run import execute
from skate.data.run.blocks import fetch

FIRST = 1 / 50  # of the pieces: the first round
MOST = 1 / 4  # of them: a round, which are twice as large each
SUM_OF, COUNT_OF = "\1sum {}", "\1count {}"  # names of what a mean's error is worked out from


class Partial(NamedTuple):
    """A result before all rows were seen: what GroupedData.iter_partial gives.

    Args:
        fraction: Of the pieces of the input that were seen; 1.0: it is the last result.
        table: A pyarrow.Table as that of aggregate(): a row a group that was seen, in the order of the keys. Counts and sums are estimates of the whole (float64 before the last one).
        errors: By the name of an aggregate that has one the half width of its confidence interval, a NumPy array with an item a row of table; NaN while a single piece was seen.
    """

    fraction: float
    table: Any
    errors: dict[str, Any]

    def to_pandas(self) -> Any:
        """The table as a DataFrame, with a column "name +-" for each aggregate that has an error."""
        df = self.table.to_pandas()
        for name, error in self.errors.items():
            df[f"{name} +-"] = error
        return df


def pieces_of(node: Node, what: str) -> tuple[list[Node], int]:
    """(the chain from node to its source, how many pieces that has); ValueError where it is none of which one task works on a piece."""
    chain = [node]
    while len(chain[-1].inputs) == 1 and chain[-1].operator.by_task:
        chain.append(chain[-1].inputs[0])
    source = chain[-1]
    if "units" in source.options:
        plan, root = new_plan(), -1
        for n in reversed(chain):
            root = add(plan, n, b"", () if n is source else (root,), {k: v for k, v in n.options.items() if k != "units"})
        if len(plan.stages(root)) == 1:
            return chain, len(source.options["units"])
    raise ValueError(
        f"{what}: the rows have to come from one reader through operators that run in its tasks; {source.label} has no pieces of which "
        "any would stand for the whole (blocks, a limit, a sort, actors): write what it gives and read it again, or use aggregate()"
    )


def in_random_order(chain: list[Node], seed: int | None) -> Node:
    """The chain over its source's pieces in another order."""
    units = list(chain[-1].options["units"])
    random.Random(seed).shuffle(units)
    node = chain[-1].replaced(options={**chain[-1].options, "units": units})
    for n in reversed(chain[:-1]):
        node = n.replaced(inputs=(node,))
    return node


def ends_of_rounds(n: int) -> set[int]:
    """After how many of n pieces there is a result."""
    ends, at, step = set(), 0, max(1, math.ceil(n * FIRST))
    while at < n:
        at = min(n, at + step)
        ends.add(at)
        step = max(1, min(2 * step, int(n * MOST)))
    return ends


def t_quantile(confidence: float, freedom: int) -> float:
    """Of Student's distribution, two-sided (Cornish and Fisher's expansion: 3 % too small for 2 degrees, exact to 1 in 1,000 from 5 on)."""
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    if freedom == 1:
        return math.tan(math.pi * confidence / 2)
    v = freedom
    return (
        z + (z**3 + z) / (4 * v) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2) + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
    )


class _Kernel:
    """States that the kernel makes and merges.

    Args:
        params: by, fns, names, label; of the node.
    """

    def __init__(self, params: dict[str, Any]):
        self.of = kernel(params)
        self.what = self.of.what()
        self.states: Any = None
        self.schema: Any = None

    def add(self, batch: Any) -> None:
        """Takes states, or rows."""
        if self.states is not None and self.schema.equals(batch.schema):
            self.states.add(batch)
            return
        before = [] if self.states is None else [self.states.batch()]
        first, (held,) = self.of.unified([[*before, batch]], None)
        self.states = _skate.group_states(self.what, first, True)
        for b in held:
            self.states.add(b)
        self.schema = None if before else batch.schema  # of several types each is cast

    def results(self, states: Any = None) -> Any:
        """The results of some states, or of all: a row a group, in the order of the keys."""
        given: Any = states if states is not None else self.states.batch()
        made: Any = _skate.exchange_reduce(self.what, [([given], 0, True, 0)], 0, 1, 1, 0, None)
        return next(made).batch()


class _Calls:
    """The same of aggregates of which one is the user's own (by_group.py)."""

    def __init__(self, params: dict[str, Any]):
        self.of = aggregates(params)
        self.states: Any = None

    def add(self, batch: Any) -> None:
        self.states = self.of.combined([batch] if self.states is None else [self.states, batch])

    def results(self, states: Any = None) -> Any:
        made = self.of.results(states if states is not None else self.states)
        keys = made.select(range(len(self.of.keys))).rename_columns(self.of.state_names[: len(self.of.keys)])
        order = [(name, "ascending") for name in keys.schema.names]
        return made.take(pc.sort_indices(keys, order)) if order else made


class Fold:
    """The state of all rounds so far: the states of the aggregates, and the squares, sums over pieces of products of a group's numbers in one.

    Args:
        params: Of the node: the user's aggregates, and behind them those that errors are worked out from.
        n_user: How many are the user's.
        pieces: How many there are.
        confidence: Of the intervals.
    """

    def __init__(self, params: dict[str, Any], n_user: int, pieces: int, confidence: float):
        self.n_user, self.pieces, self.confidence = n_user, pieces, confidence
        self.by, self.fns, self.names = params["by"], params["fns"], params["names"]
        self.params = params
        self.of: Any = _Kernel(params) if in_kernel.takes(self.fns, self.names) else _Calls(params)
        self.squares: Any = None  # the sums of squares: as many aggregates as products
        self.found: Any = None  # their results so far
        self.at: list[str] = []  # of which numbers a square is: "2ab" of the two of the aggregate number 2
        self.any = False

    def take(self, states: list[Any], last: bool = False) -> None:
        """A round: the states of some pieces, of each a row a group at most. last: it is the last one, whose result has no error, so that no squares are wanted."""
        for s in states:
            self.any = True
            self.of.add(s)
            if last:
                continue
            results = self.of.results(s)
            products = self._products(results)
            self.at = list(products)
            if not products:
                continue
            if self.squares is None:
                sums = {"fns": [ag.Sum(name) for name in products], "names": self.at}
                self.squares = _Kernel({**self.params, **sums})
            names = [*self.by, *(f"v{i}" for i in range(len(products)))]
            self.squares.add(pa.RecordBatch.from_arrays([*results.columns[: len(self.by)], *products.values()], names=names))

    def _products(self, results: Any) -> dict[str, Any]:
        out = {}
        for i, f in enumerate(self.fns[: self.n_user]):
            a, b = self._numbers(results, i, f)
            if a is None:
                continue
            out[f"{i}aa"] = pa.array(a * a)
            if b is not None:
                out[f"{i}ab"], out[f"{i}bb"] = pa.array(a * b), pa.array(b * b)
        return out

    def _numbers(self, results: Any, i: int, f: Any) -> tuple[Any, Any]:
        """(the sum or count of the i-th aggregate, the count that a mean has below it), or None."""
        if type(f) is ag.Mean:
            at = len(self.by) + self.names.index(SUM_OF.format(i))
            return column(results.column(at)), column(results.column(at + 1))
        return (column(results.column(len(self.by) + i)), None) if type(f) in (ag.Sum, ag.Count) else (None, None)

    def result(self, n: int) -> Partial:
        """After n pieces."""
        last = n == self.pieces
        all_of = self.of.results()
        self.found = self.squares.results() if self.squares is not None and not last else None
        names = [*self.by, *self.names[: self.n_user]]
        table = pa.Table.from_batches([all_of]).select(range(len(names)))
        errors = {}
        for i, f in enumerate(self.fns[: self.n_user]):
            a, b = self._numbers(all_of, i, f)
            if a is None:
                continue
            errors[self.names[i]] = np.zeros(len(a)) if last else self._error(i, a, b, n)
            if b is None and not last:
                table = table.set_column(len(self.by) + i, self.names[i], pa.array(a * (self.pieces / n), from_pandas=True))
        return Partial(n / self.pieces, table, errors)

    def _square(self, i: int, which: str) -> Any:
        return column(self.found.column(len(self.by) + self.at.index(f"{i}{which}")))

    def _error(self, i: int, a: Any, b: Any, n: int) -> Any:
        if n == 1:
            return np.full(len(a), np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            if b is None:
                spread, scale = self._square(i, "aa") - a * a / n, float(self.pieces)
            else:
                ratio = a / b
                spread, scale = self._square(i, "aa") - 2 * ratio * self._square(i, "ab") + ratio * ratio * self._square(i, "bb"), n / b
            variance = np.maximum(spread, 0) / (n - 1) / n * (1 - n / self.pieces)
            return t_quantile(self.confidence, n - 1) * scale * np.sqrt(variance)


def column(values: Any) -> Any:
    """Numbers of an Arrow column as floats, NaN where there is none."""
    return values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)


def partials(ds: Any, params: dict[str, Any], confidence: float, seed: int | None) -> Iterator[Partial]:
    """The results of aggregates while they become known."""
    chain, pieces = pieces_of(ds._node, params["label"])
    n_user = len(params["fns"])
    fns, names = list(params["fns"]), list(params["names"])
    for i, f in enumerate(params["fns"]):
        if type(f) is ag.Mean:
            on = f.get_target_column()
            fns += [ag.Sum(on), ag.Count(on, ignore_nulls=True)]
            names += [SUM_OF.format(i), COUNT_OF.format(i)]
    params = {**params, "fns": fns, "names": names}
    fold, ends = Fold(params, n_user, pieces, confidence), ends_of_rounds(pieces)
    source = in_random_order(chain, seed)
    node = Node("group_states", params["label"], params, (source,), **as_input(source))
    return _results(ds, node, fold, ends)


def _results(ds: Any, node: Node, fold: Fold, ends: set[int]) -> Iterator[Partial]:
    states: list[Any] = []
    seen = 0
    run = execute.run(ds, node, skip=bytes(fold.pieces))
    try:
        for block in run:
            while seen < block[4]:  # the pieces before this one are complete
                seen += 1
                if seen in ends and states:
                    fold.take(states)
                    states = []
                    yield fold.result(seen)
            states.append(fetch(block[:4]))
    finally:
        run.close()
    if states:
        fold.take(states, last=True)
    if fold.any:
        yield fold.result(fold.pieces)
