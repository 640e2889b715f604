"""sort: puts the rows in the order of keys. Each map sorts its rows, one task decides at which keys
blocks begin, and reduces merge. If the user gave boundaries, maps divide their rows at these, one
block for each range."""

from __future__ import annotations

from typing import Any

from skate import _skate
from skate.data.op import Columns, Operator, Params, Phase, Phases


class Sort(Operator):
    moves_rows = predicates = True

    def sure(self, params: Params) -> bool:
        return not params["boundaries"]

    def columns(self, params: Params) -> Columns:
        return Columns(needs=frozenset(params["keys"]))

    def schema(self, params: Params, given: Any) -> Any:
        return given

    def first(self, params: Params, rows: int) -> Params | None:
        return {**params, "limit": rows} if rows and not params["boundaries"] else None

    def phases(self, params: Params) -> Phases:
        keys, boundaries = params["keys"], params["boundaries"]
        n = len(boundaries) + 1 if boundaries else 0
        what = _skate.exchange_what(
            "sort",
            keys=[(k, d, False) for k, d in zip(keys, params["descending"], strict=True)],
            partitions=n,
            one_block=bool(n),
            limit=params.get("limit") or 0,
        )
        given = {"keys": keys, "boundaries": boundaries}
        by = ", ".join(
            k + " descending" * d for k, d in zip(keys, params["descending"], strict=True)
        )
        reduce = Phase(
            "exchange_reduce",
            f"SortReduce({by})",
            given,
            what,
            {"exchange": {"cut": not n, "n_partitions": n}},
        )
        return Phases((Phase("exchange_map", f"SortMap({by})", given, what),), reduce)


operator = Sort()
