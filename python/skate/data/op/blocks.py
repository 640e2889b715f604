"""blocks: a source of blocks that exist already. Its task passes them on unchanged, or the next
stage reads them without such a task."""

from __future__ import annotations

from skate.data.op import Operator, Params


class Blocks(Operator):
    source = True

    def sure(self, params: Params) -> bool:
        return True

    def frames(self, params: Params) -> bool:
        return bool(params.get("pandas"))


operator = Blocks()
