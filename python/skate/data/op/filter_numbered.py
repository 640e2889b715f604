"""filter_numbered: the operator filter with an expression that depends on the places of rows, such as
random()."""

from __future__ import annotations

from typing import Any

from skate.data.op import Params
from skate.data.op.filter import Filter


class FilterNumbered(Filter):
    numbered = True
    by_row = predicates = False  # nothing may drop rows before they are numbered

    def predicate(self, params: Params) -> Any:
        return None


operator = FilterNumbered()
