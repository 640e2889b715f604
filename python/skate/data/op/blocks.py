"""blocks: blocks that exist already. They are passed on unchanged, or the next stage reads them."""

from __future__ import annotations

from skate.data.op import Operator, Params


class Blocks(Operator):
    source = True

    def sure(self, params: Params) -> bool:
        return True

    def frames(self, params: Params) -> bool:
        return bool(params.get("pandas"))


operator = Blocks()
