"""Python's cut of output into blocks gives the same cuts as C's (src/data/cutter.c): the sum below is
also in tests/c/test_data_cutter.c, which makes the same batches."""

import pyarrow as pa
from skate.data.worker.stage import cut

CUTS = 119516640750622573
MASK = (1 << 64) - 1


class Out:
    """Stands for _skate.BlockOut: a block is its rows."""

    def __init__(self, rb: pa.RecordBatch):
        self.rows, self.nbytes = rb.num_rows, 8 * rb.num_rows

    @staticmethod
    def join(held: list["Out"]) -> "Out":
        one = object.__new__(Out)
        one.rows = sum(piece.rows for piece in held)
        return one


def test_cuts_are_those_of_c() -> None:
    """The sum over 50 random cases is equal."""
    state, check = 1, 0

    def below(n: int) -> int:
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) & MASK
        return (state >> 33) % n

    for _ in range(50):
        target, cap = 1 + below(20000), -1
        if below(3) == 0:
            cap = below(3000)
        batches = []
        for _ in range(40):
            kind, small, large = below(20), below(300), below(5000)
            rows = large if kind == 0 else 0 if kind < 4 else small
            name = "b" if below(8) == 0 else "a"
            batches.append(pa.record_batch({name: pa.nulls(rows, pa.int64())}))
        cuts = [block.rows for block in cut(iter(batches), target, cap, Out)]
        for rows in cuts:
            check = (check * 1000003 + rows + 1) & MASK
        check = (check * 1000003 + len(cuts)) & MASK
    assert check == CUTS
