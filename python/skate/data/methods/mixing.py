"""What Dataset.mix makes of its arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from skate._deps import fractions
from skate.data.op import mix

MOST = 1000  # rows of a round
MOST_INPUTS = 64  # SK_PLAN_SIDES_MAX


def shares(datasets: Sequence[Any], weights: Sequence[float] | None) -> list[int]:
    """The rows of each Dataset in a round; ValueError for wrong arguments."""
    n = len(datasets)
    if not 2 <= n <= MOST_INPUTS:
        raise ValueError(f"mix: takes 2 to {MOST_INPUTS} Datasets, not {n}")
    if weights is None:
        return [1] * n
    if len(weights) != n:
        raise ValueError(f"mix: {len(weights)} weights for {n} Datasets")
    for w in weights:
        if isinstance(w, bool) or not math.isfinite(w) or w <= 0:
            raise ValueError(f"mix: a weight is a number above 0, not {w!r}: {list(weights)}")
    # 0.1 means a tenth, and not the double that is nearest to it
    exact = [fractions.Fraction(str(w)).limit_denominator(10**9) for w in weights]
    whole = sum(exact)
    for total in range(n, MOST + 1):
        parts = [f * total / whole for f in exact]
        if all(abs(p - round(p)) < fractions.Fraction(1, 10**6) and round(p) > 0 for p in parts):
            return [round(p) for p in parts]
    return _rounded([f * MOST / whole for f in exact])


def _rounded(parts: list[fractions.Fraction]) -> list[int]:
    """Whole numbers near these, each above 0, with the same sum: the largest rests are rounded up."""
    out = [max(1, math.floor(p)) for p in parts]
    rest = sorted(range(len(parts)), key=lambda k: (out[k] - parts[k], k))
    for k in rest[: max(0, MOST - sum(out))]:
        out[k] += 1
    return out


def rows_of(parts: list[int], rows: Sequence[int | None], shortest: bool) -> int | None:
    """The number of rows of the mix; None: not known."""
    if None in rows:
        return None
    known = [n for n in rows if n is not None]
    if not shortest:
        return sum(known)
    rounds = min(n // p for n, p in zip(known, parts, strict=True))
    left = [min(n - rounds * p, p) for n, p in zip(known, parts, strict=True)]
    return rounds * sum(parts) + len(mix.places(parts, left, True))
