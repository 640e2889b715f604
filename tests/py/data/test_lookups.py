"""Dataset.train_test_split, stratified and shuffled, and to_random_access_dataset."""

import pytest
import skate
import skate.data as sd


def test_split_shuffled():
    ds = sd.range(100, override_num_blocks=4)
    train, test = ds.train_test_split(0.25, shuffle=True, seed=3)
    a, b = ([r["id"] for r in d.take_all()] for d in (train, test))
    assert sorted(a + b) == list(range(100)) and len(b) == 25 and b != list(range(75, 100))
    again = ds.train_test_split(25, shuffle=True, seed=3)
    assert [r["id"] for r in again[1].take_all()] == b


@pytest.mark.parametrize("size", [0.5, 10])
def test_split_that_keeps_shares(size):
    ds = sd.from_items(
        [{"label": "abcd"[i % 4] if i else "e", "i": i} for i in range(20)], override_num_blocks=6
    )
    train, test = ds.train_test_split(size, stratify="label")
    a, b = train.to_pandas(), test.to_pandas()
    assert a.label.value_counts().to_dict() == {"a": 2, "b": 3, "c": 3, "d": 3, "e": 1}
    assert b.label.value_counts().to_dict() == {"a": 2, "b": 2, "c": 2, "d": 2}
    assert sorted([*a.i, *b.i]) == list(range(20)) and list(a.columns) == ["label", "i"]


def test_split_errors():
    ds = sd.from_items([{"a": [1]}] * 4)
    with pytest.raises(ValueError, match="Cannot specify both"):
        ds.train_test_split(0.5, shuffle=True, stratify="a")
    with pytest.raises(ValueError, match="there is no column 'b'"):
        ds.train_test_split(0.5, stratify="b")
    with pytest.raises(ValueError, match="cannot be a key"):
        ds.train_test_split(0.5, stratify="a")
    for size in (0, 4, 9, -1):
        with pytest.raises(ValueError, match="both parts need at least one"):
            sd.range(4).train_test_split(size, shuffle=True)


# ---- lookups


def test_lookups():
    ds = sd.range(100, override_num_blocks=10).map(
        lambda r: {"id": r["id"], "key": (r["id"] * 37 % 100) * 2}
    )
    found = ds.to_random_access_dataset("key", num_workers=2)
    want = {r["key"]: r for r in ds.take_all()}
    assert skate.get([found.get_async(k) for k in (-1, 200, 3, 0, 198, None)]) == [
        None,
        None,
        None,
        want[0],
        want[198],
        None,
    ]
    keys = [-1, *range(0, 30), 500]
    assert found.multiget(keys) == [want.get(k) for k in keys]
    assert "- Num workers: 2" in found.stats() and "Accesses per worker: " in found.stats()


def test_lookups_of_text_with_missing_keys():
    ds = sd.from_items([{"k": k, "i": i} for i, k in enumerate(["b", None, "a", "b", "ä"])])
    found = ds.to_random_access_dataset("k", num_workers=1)
    assert found.multiget(["a", "b", "c", "ä", None]) == [
        {"k": "a", "i": 2},
        {"k": "b", "i": 0},
        None,
        {"k": "ä", "i": 4},
        None,
    ]
    nothing = sd.range(3).filter(lambda r: False).to_random_access_dataset("id", num_workers=1)
    assert skate.get(nothing.get_async(1)) is None
    with pytest.raises(ValueError, match="there is no column 'q'"):
        sd.range(3).to_random_access_dataset("q")
