"""batch_size="auto": which sizes follow from what was measured, and that rows stay in order. No engine."""

import numpy as np
import pyarrow as pa
import pytest
from skate.data.op.map_batches import called, measured, returned
from skate.data.values.rebatch import rebatch
from skate.data.worker.batch_sizer import MOST_BYTES, Sizer, no_memory


def settled(seconds, nbytes=lambda n: n):
    """The size at which a Sizer stops, if a batch of n rows takes seconds(n)."""
    s = Sizer()
    for _ in range(10_000):
        if not s.grows:
            break
        s.took(s(), seconds(s()), nbytes(s()))
    assert not s.grows
    return s()


def test_sizes_grow_while_that_is_faster():
    assert (
        settled(lambda n: 0.010 + n * 0.001) == 256
    )  # a call costs ten rows: 4 % are left to gain
    assert settled(lambda n: n * 0.001) == 1  # nothing is gained
    assert settled(lambda n: 0.4 + n * 0.01) == 16  # twice as many could take a second
    assert settled(lambda n: 0.01, lambda n: n * (MOST_BYTES >> 3)) == 8  # bytes
    # a size that is slower (a cache that is too small) is left again
    assert settled(lambda n: 0.01 + n * (1e-4 if n <= 16 else 1e-3)) == 16


def params(fn, **more):
    return {
        "fn": fn,
        "fn_args": (),
        "fn_kwargs": {},
        "label": "f",
        "batch_format": "numpy",
        "zero_copy_batch": True,
        "sizer": Sizer(),
        **more,
    }


def test_a_batch_for_which_memory_does_not_suffice_is_halved():
    seen = []

    def model(batch):
        seen.append(len(batch["x"]))
        if len(batch["x"]) > 3:
            raise MemoryError("no")
        return {"y": batch["x"] * 2}

    p = params(model)
    rb = pa.RecordBatch.from_pydict({"x": range(10)})
    out = [v for b in measured(p, rb) for v in b["y"].to_pylist()]
    assert out == [x * 2 for x in range(10)]
    assert seen[0] == 10 and max(seen[2:]) <= 5
    assert p["sizer"]() <= 3 and not p["sizer"].grows

    def hopeless(batch):
        raise MemoryError("no")

    with pytest.raises(MemoryError):
        list(measured(params(hopeless), rb))

    class OutOfMemoryError(RuntimeError):
        """As torch.cuda.OutOfMemoryError."""

    assert no_memory(OutOfMemoryError()) and not no_memory(ValueError("memory"))


def test_batches_of_a_size_that_changes_have_all_rows_in_order():
    sizes = iter([1, 2, 4, 8, 8, 3] + [5] * 100)
    given = [pa.RecordBatch.from_pydict({"x": range(i, i + 7)}) for i in range(0, 70, 7)]
    out = [b["x"].to_pylist() for b in rebatch(iter(given), lambda: next(sizes))]
    assert [len(b) for b in out[:6]] == [1, 2, 4, 8, 8, 3]
    assert [x for b in out for x in b] == list(range(70))


def test_an_async_generator_goes_on_when_its_next_item_is_asked_for():
    made, closed = [], []

    async def items(batch):
        try:
            for i in range(1000):
                made.append(i)
                yield {"x": np.array([i])}
        finally:
            closed.append(True)

    rb = pa.RecordBatch.from_pydict({"x": [0]})
    out = called(params(items), rb)
    assert next(out)["x"].to_pylist() == [0]
    assert len(made) == 1
    assert next(out)["x"].to_pylist() == [1]
    assert len(made) == 2
    out.close()
    assert closed == [True] and len(made) == 2

    async def fails(batch):
        yield {"x": np.array([1])}
        raise ValueError("second")

    out = returned(params(fails), {"x": np.array([0])})
    assert next(out)["x"].tolist() == [1]
    with pytest.raises(ValueError, match="second"):
        next(out)
