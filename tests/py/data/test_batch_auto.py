"""batch_size="auto" in a run: the rows of a loop, in sizes that grow."""

import pytest
import skate.data as sd


def with_size(batch):
    return {"x": batch["id"] * 2, "n": [len(batch["id"])] * len(batch["id"])}


def test_rows_are_those_of_any_size():
    ds = sd.range(5000, override_num_blocks=3).map_batches(with_size, batch_size="auto")
    rows = ds.take_all()
    assert [r["x"] for r in rows] == [2 * i for i in range(5000)]
    assert rows[0]["n"] == 1 and max(r["n"] for r in rows) > 1

    class Model:
        def __call__(self, batch):
            return with_size(batch)

    pool = sd.range(300, override_num_blocks=2).map_batches(Model, batch_size="auto", concurrency=1)
    assert [r["x"] for r in pool.take_all()] == [2 * i for i in range(300)]


def test_bad_rows_are_left_out():
    def fails(batch):
        if 77 in batch["id"]:
            raise ValueError("bad")
        return batch

    ds = sd.range(200).map_batches(fails, batch_size="auto", on_error="skip")
    assert [r["id"] for r in ds.take_all()] == [i for i in range(200) if i != 77]


def test_other_texts_are_refused():
    with pytest.raises(ValueError, match="positive int, 'auto' or None, not 'much'"):
        sd.range(1).map_batches(with_size, batch_size="much")  # pyright: ignore[reportArgumentType]
