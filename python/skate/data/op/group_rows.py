"""group_rows: puts rows of equal keys next to each other, in the order of the keys, in blocks that
end at the end of a group. params: keys, n (the number of partitions that the user asked for; 0:
chosen from sizes)."""

from __future__ import annotations

from typing import Any

from skate import _skate
from skate.data.op import Columns, Operator, Params, Phase, Phases
from skate.data.values.unify import few


def by_groups(
    name: str, params: Params, firsts: bool = False, whole_groups: bool = False
) -> Phases:
    """The phases of an exchange of sorted runs in which no partition begins inside a group. firsts,
    whole_groups: what is done with groups (_skate.exchange_what). name: the operator's name in
    plans."""
    keys, by = params["keys"], few(params["keys"])
    what = _skate.exchange_what(
        "sort",
        keys=[(k, False, False) for k in keys],
        groups=True,
        firsts=firsts,
        whole_groups=whole_groups,
    )
    given = {"keys": keys}
    cut = {"exchange": {"cut": True, "n_partitions": params["n"]}}
    reduce = Phase("exchange_reduce", f"{name}Reduce({by})", given, what, cut)
    return Phases((Phase("exchange_map", f"{name}Map({by})", given, what),), reduce)


class GroupRows(Operator):
    moves_rows = True

    def columns(self, params: Params) -> Columns:
        return Columns(needs=frozenset(params["keys"]))

    def schema(self, params: Params, given: Any) -> Any:
        return given

    def phases(self, params: Params) -> Phases:
        return by_groups("Group", params, whole_groups=True)


operator = GroupRows()
