"""group_rows: rows of equal keys together, in the order of the keys, in blocks that end where a
group does. params: keys, n (parts that were asked for; 0: by sizes)."""

from __future__ import annotations

from typing import Any

from skate import _skate
from skate.data.op import Columns, Operator, Params, Phase, Phases
from skate.data.values.unify import few


def by_order(name: str, params: Params, keys: list[str], before: str | None, behind: str) -> Phases:
    """Sorted runs, which are cut between keys only. before, behind: the operators that rows go
    through in the maps and in the reduces. keys: columns of what goes between
    them. name: what plans call it."""
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
