"""group_rows: puts rows of equal keys next to each other, in the order of the keys, in blocks that
end at the end of a group. params: keys, n (the number of partitions that the user asked for; 0:
chosen from sizes)."""

from __future__ import annotations

from typing import Any

from skate import _skate
from skate.data.op import Columns, Operator, Params, Phase, Phases
from skate.data.values.unify import few


def by_order(name: str, params: Params, keys: list[str], before: str | None, behind: str) -> Phases:
    """The phases of an exchange of sorted runs in which no partition begins inside a group. before,
    behind: the operators that the maps and the reduces apply to rows. keys: key columns of the rows
    in the exchange. name: the operator's name in plans."""
    what = _skate.exchange_what(
        "sort", keys=[(k, False, False) for k in keys], groups=True, own_reduce=True
    )
    given = {**params, "keys": keys}
    by = few(params.get("by", keys))
    reduce = Phase(
        "group_reduce",
        f"{name}Reduce({by})",
        {**given, "behind": behind},
        what,
        {"exchange": {"cut": True, "n_partitions": params["n"]}},
    )
    return Phases(
        (
            Phase(
                "group_map" if before else "exchange_map",
                f"{name}Map({by})",
                {**given, "before": before},
                what,
            ),
        ),
        reduce,
    )


class GroupRows(Operator):
    moves_rows = True

    def columns(self, params: Params) -> Columns:
        return Columns(needs=frozenset(params["keys"]))

    def schema(self, params: Params, given: Any) -> Any:
        return given

    def phases(self, params: Params) -> Phases:
        return by_order("Group", params, params["keys"], None, "whole_groups")


operator = GroupRows()
