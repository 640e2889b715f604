"""Aggregates by group whose results become more exact step by step (GroupedData.iter_partial).
src/shuffle/online.h decides which pieces of the input a task works on, after which pieces there is
a result, and how exact it is. A task merges the states of its pieces (op/group_states.py); the
driver merges the states of the tasks as they arrive, and makes a result of them after each
round."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any, NamedTuple

import skate
from skate import _skate
from skate._deps import np, pa, random
from skate.data import aggregate as ag
from skate.data.op.aggregate import states_of
from skate.data.op.group_states import COUNT_OF, PRODUCT, SUM_OF, bounded, doubles
from skate.data.plan.node import Node
from skate.data.plan.optimise import add, new_plan
from skate.data.plan.resources import as_input
from skate.data.run import execute
from skate.data.run.blocks import fetch
from skate.data.run.request import RunRequest


class Partial(NamedTuple):
    """A result computed from a part of the rows, as GroupedData.iter_partial gives it.

    Args:
        fraction: The share of the input's pieces that this result is computed from; 1.0: the last
            result.
        table: A pyarrow.Table like that of aggregate(): one row for each group seen so far, in the
            order of the keys. Counts and sums are estimates for the whole input (float64 except in
            the last result).
        errors: By the name of an aggregate that has error bounds: a NumPy array with half the width
            of the confidence interval for each row of table; NaN while only one piece was seen.
    """

    fraction: float
    table: Any
    errors: dict[str, Any]

    def to_pandas(self) -> Any:
        """The table as a DataFrame, with a column "name +-" for each aggregate that has error
        bounds."""
        df = self.table.to_pandas()
        for name, error in self.errors.items():
            df[f"{name} +-"] = error
        return df


def pieces_of(node: Node, what: str) -> list[Node]:
    """The chain of nodes from `node` to its source, whose units are the pieces. ValueError if the
    plan is not a chain in which a task can work on a single piece."""
    chain = [node]
    while len(chain[-1].inputs) == 1 and chain[-1].operator.by_task:
        chain.append(chain[-1].inputs[0])
    source = chain[-1]
    if "units" in source.options:
        plan, root = new_plan(), -1
        for n in reversed(chain):
            root = add(
                plan,
                n,
                b"",
                () if n is source else (root,),
                {k: v for k, v in n.options.items() if k != "units"},
            )
        if len(plan.stages(root)) == 1:
            return chain
    raise ValueError(
        f"{what}: the rows have to come from one reader through operators that run in its tasks; {source.label} has no pieces of which "
        "any would stand for the whole (blocks, a limit, a sort, actors): write what it gives and read it again, or use aggregate()"
    )


class Unit(NamedTuple):
    """The pieces that one task works on (online.h)."""

    pieces: int
    ends: bool  # whether a result is given after this unit
    bounds: bool  # whether the products for the error bounds are computed for this unit


def in_units(chain: list[Node], seed: int | None) -> tuple[Node, list[Unit]]:
    """Rebuilds the chain: its source has the pieces in random order, several pieces for each
    task."""
    source = chain[-1].this_run()
    pieces = list(enumerate(source.options["units"]))
    random.Random(seed).shuffle(pieces)
    slots, at = int(skate.cluster_resources().get("CPU", 1)) if skate.is_initialized() else 1, 0
    made, units = [], []
    while (unit := Unit(*_skate.online_unit(len(pieces), slots, at))).pieces:
        mine = pieces[at : at + unit.pieces]
        at += unit.pieces
        rows, size = ([u[k] for _, u in mine] for k in (1, 2))
        data = pickle.dumps(((unit.pieces, unit.bounds), [(seq, u[0]) for seq, u in mine]), 5)
        made.append((data, *(sum(known) if min(known) >= 0 else -1 for known in (rows, size))))
        units.append(unit)
    node = source.replaced(
        params={**source.params, "pieces": True}, options={**source.options, "units": made}
    )
    for n in reversed(chain[:-1]):
        node = n.replaced(inputs=(node,))
    return node, units


class Fold:
    """The merged state of all units so far: the states of the aggregates, and the sums of products
    from which the error bounds are computed.

    Args:
        params: Of the aggregate's node: the user's aggregates, then those from which the bounds are
            computed.
        pieces: The number of pieces of the whole input.
        confidence: The confidence level of the bounds, between 0 and 1.
    """

    def __init__(self, params: dict[str, Any], pieces: int, confidence: float):
        self.params, self.pieces, self.confidence = params, pieces, confidence
        self.by, self.names = params["by"], params["names"][: params["user"]]
        self.of: Any = states_of(params)
        self.products: Any = None
        self.seen = self.units = 0

    def take(self, batch: Any) -> None:
        """Merges a batch of states, which has some or all states of a unit."""
        columns = [n for n in batch.schema.names if n.startswith(PRODUCT)]
        states = batch.select(range(batch.num_columns - len(columns)))
        self.of.add(states)
        if not columns:
            return
        if self.products is None:
            sums = [ag.Sum(n) for n in columns]
            self.products = states_of({**self.params, "fns": sums, "names": columns})
        rows = [*states.columns[: len(self.by)], *batch.columns[states.num_columns :]]
        self.products.add(
            pa.RecordBatch.from_arrays(
                rows, names=[*self.by, *(f"v{i}" for i in range(len(columns)))]
            )
        )

    def result(self) -> Partial:
        """The result after the units that were merged so far."""
        last = self.seen == self.pieces
        results = self.of.results()
        table = pa.Table.from_batches([results]).select(range(len(self.by) + len(self.names)))
        found = None if last or self.products is None else self.products.results()
        seen = (self.pieces, self.seen, self.units, self.confidence)
        errors: dict[str, Any] = {}
        for i, at in bounded(self.params).items():
            name = self.names[i]
            if found is None:
                errors[name] = np.full(len(results), 0.0 if last else np.nan)
                continue
            columns = [doubles(results.column(c)) for c in at]
            products = [
                doubles(found.column(f"{PRODUCT}{i}{which}"))
                for which in ("aa", "ab", "bb")[: 1 if len(at) == 1 else 3]
            ]
            if len(columns) == 1:
                total, bound = map(
                    np.frombuffer, _skate.online_totals(seen, (columns[0], products[0]))
                )
                table = table.set_column(len(self.by) + i, name, pa.array(total, from_pandas=True))
            else:
                (bound,) = map(np.frombuffer, _skate.online_ratios(seen, (*columns, *products)))
            errors[name] = bound
        return Partial(self.seen / self.pieces, table, errors)


def partials(
    request: RunRequest, params: dict[str, Any], confidence: float, seed: int | None
) -> Iterator[Partial]:
    """Yields the results of the aggregates, each more exact than the one before."""
    chain = pieces_of(request.node, params["label"])
    fns, names = list(params["fns"]), list(params["names"])
    for i, f in enumerate(params["fns"]):
        if type(f) is ag.Mean:
            on = f.get_target_column()
            fns += [ag.Sum(on), ag.Count(on, ignore_nulls=True)]
            names += [SUM_OF.format(i), COUNT_OF.format(i)]
    params = {**params, "fns": fns, "names": names, "user": len(params["fns"])}
    return _results(request, chain, params, confidence, seed)


def _results(
    request: RunRequest,
    chain: list[Node],
    params: dict[str, Any],
    confidence: float,
    seed: int | None,
) -> Iterator[Partial]:
    execute.ensure_engine(request.node)
    source, units = in_units(chain, seed)
    fold = Fold(params, sum(u.pieces for u in units), confidence)
    node = Node("group_states", params["label"], params, (source,), **as_input(source))
    some, left = False, iter(units)
    run = execute.run(request.over(node, bytes(len(units))))

    def to(unit: int) -> Iterator[Partial]:
        """Takes the outputs of tasks until all units before `unit` are complete; yields the results
        that are ready after them."""
        while fold.units < unit:
            done = next(left)
            fold.seen += done.pieces
            fold.units += 1
            if done.ends and some:
                yield fold.result()

    try:
        for block in run:
            yield from to(block[4])
            fold.take(fetch(block[:4]))
            some = True
    finally:
        run.close()
    yield from to(len(units))
