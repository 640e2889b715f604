"""join: puts rows of two inputs with equal keys side by side. Both inputs are partitioned by the
hashes of their keys, and each partition is joined by itself (join_reduce). params: join, n (the
number of partitions that the user asked for; 0: chosen from sizes), resources; larger (the side
that had more rows before its filter; run/join_sizing.py sets it; without it each partition compares
its own numbers of rows)."""

from __future__ import annotations

from skate import _skate
from skate.data.by_key.join_args import described
from skate.data.op import ALL, Columns, Operator, Params, Phase, Phases

# flag in the third number of the node's key ids: the side with more rows in a partition gives the
# order of the output rows (sk_exchange_desc in src/plan/plan.h)
LARGER = 2


class Join(Operator):
    moves_rows = sizes_first = True

    def columns(self, params: Params) -> Columns:
        return ALL

    def phases(self, params: Params) -> Phases:
        join, n = (
            params["join"],
            params["n"] or _skate.PARTITIONS,
            # a fixed number of partitions, so that the order of rows follows from the data alone
        )
        spread = {
            "spread": 1 + params.get("larger", LARGER),
            "tells": _skate.join_rules(join.kind)[2],
        }

        def side(keys: tuple[str, ...]) -> Phase:
            what = _skate.exchange_what(
                "hash", keys=[(k, False, False) for k in keys], partitions=n
            )
            return Phase("exchange_map", f"JoinMap({', '.join(keys)})", {"keys": list(keys)}, what)

        maps = tuple(side(keys) for keys in join.on)
        options = {**params["resources"], "exchange": {"cut": False, "n_partitions": n, **spread}}
        return Phases(
            maps,
            Phase(
                "join_reduce",
                f"JoinReduce({join.kind})",
                {"join": join},
                described(join),
                options,
            ),
        )


operator = Join()
