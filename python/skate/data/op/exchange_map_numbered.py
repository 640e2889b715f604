"""exchange_map_numbered: like exchange_map, for rules that depend on the number of the task: random
partitions, or rows dealt in turn."""

from __future__ import annotations

from skate.data.op.exchange_map import ExchangeMap


class ExchangeMapNumbered(ExchangeMap):
    numbered = True


operator = ExchangeMapNumbered()
