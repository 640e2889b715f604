"""exchange_map_numbered: as exchange_map, for what depends on the number of the task: what is
drawn, or dealt out in turn."""

from __future__ import annotations

from skate.data.op.exchange_map import ExchangeMap


class ExchangeMapNumbered(ExchangeMap):
    numbered = True


operator = ExchangeMapNumbered()
