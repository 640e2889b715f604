"""Takes expressions with aggregates apart, for GroupedData.agg(): what is computed for each row before,
which aggregates the kernel computes, and what is computed for each group behind them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from skate.data import aggregate
from skate.data.expressions import (
    AggregateExpr,
    ColumnExpr,
    Expr,
    inline,
    walk,
)


class Apart(NamedTuple):
    """The parts of some expressions.

    Args:
        before: {name: expression} of columns that are computed for each row.
        aggregates: What is computed for each group.
        behind: {name: expression} over the aggregates' results and the keys, one for each result in
            order; None: the results are those of the aggregates.
    """

    before: dict[str, Expr]
    aggregates: list[aggregate.AggregateFn]
    behind: dict[str, Expr] | None


def apart(keys: list[str], given: Iterable[Any], named: Mapping[str, Any]) -> Apart:
    """Takes the arguments of agg() apart: aggregates, expressions, and expressions by name."""
    wanted = [(_name(e), e) for e in given]
    wanted += [(name, e) for name, e in named.items() if _name(e)]
    before: dict[str, Expr] = {}
    aggregates: list[aggregate.AggregateFn] = []
    behind: dict[str, Expr] = {key: ColumnExpr(key) for key in keys}
    plain = True
    for name, e in wanted:
        if name in behind:
            raise ValueError(
                f"agg: {name!r} is the name of a key, or of two results: give one another name, as in .alias('x')"
            )
        if isinstance(e, aggregate.AggregateFn):
            if name != e.name:
                e = copy.copy(e)
                e.name = name
            aggregates.append(e)
            behind[name] = ColumnExpr(name)
            continue
        e = e._unalias()
        direct = isinstance(e, AggregateExpr)
        plain = plain and direct
        if not any(isinstance(n, AggregateExpr) for n in walk(e)):
            raise ValueError(f"agg: {inline(e)} aggregates nothing; write for example {EXAMPLE}")
        parts = _Parts(keys, before, aggregates)
        behind[name] = parts.behind(e, name if direct else None)
    return Apart(before, aggregates, None if plain else behind)


EXAMPLE = "col('x').sum()"


def _name(e: Any) -> str:
    if isinstance(e, aggregate.AggregateFn):
        return e.name
    if not isinstance(e, Expr):
        raise TypeError(
            f"agg takes expressions such as {EXAMPLE}, and aggregates such as Sum('x'), not {type(e).__name__}"
        )
    return e.name or inline(e)


class _Parts(NamedTuple):
    keys: list[str]
    before: dict[str, Expr]
    aggregates: list[aggregate.AggregateFn]

    def behind(self, e: Expr, name: str | None) -> Expr:
        """The expression with a column in place of each aggregate in it."""
        if isinstance(e, AggregateExpr):
            return ColumnExpr(self.aggregate(e, name))
        if isinstance(e, ColumnExpr) and e.name not in self.keys:
            raise ValueError(
                f"agg: {e.name!r} has many values in a group; aggregate it, as in col({e.name!r}).first()"
            )
        return e.with_children([self.behind(part, None) for _, part in e.children()])

    def aggregate(self, e: AggregateExpr, name: str | None) -> str:
        """Adds an aggregate; returns the name of its result."""
        operand = e.operand._unalias()
        if isinstance(operand, ColumnExpr):
            on = operand.name
        else:
            on = f"{inline(operand)} ({len(self.before)})"
            self.before[on] = operand
        name = name or f"{e.name} ({len(self.aggregates)})"
        made = getattr(aggregate, e.kind)(on, alias_name=name, **e.options)
        self.aggregates.append(made)
        return name
