"""random_shuffle(), and repartition() with shuffle or keys: the same rows, in the right blocks, in
the same order in each run."""

import math
import os
import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
import skate
import skate.data
from cases import case
from skate import _skate
from skate.data import RandomSeedConfig


def ids(ds):
    return [r["id"] for r in ds.take_all()]


def blocks(ds):
    return [skate.get(r).to_pylist() for r in ds.materialize().to_arrow_refs()]


def small(ds, target=2000):
    ds.context.target_max_block_size = target
    ds.context.target_min_block_size = 0
    return ds


def test_shuffled_rows_are_the_same_rows():
    for n, parts in [(1, 1), (2, 2), (100, 1), (1000, 7), (5000, 3)]:
        with case(n, parts):
            ds = skate.data.range(n, override_num_blocks=parts)
            got = ids(ds.random_shuffle(seed=3))
            assert sorted(got) == list(range(n))
            assert got == ids(ds.random_shuffle(seed=3))
            assert n < 100 or got != list(range(n)) and got != ids(ds.random_shuffle(seed=4))


def test_each_place_is_as_likely():
    """Where the first, the middle and the last row go: chi squared over 10 places in 2,000
    shuffles; a biased shuffle is far beyond 60."""
    seen = {0: [0] * 10, 5: [0] * 10, 9: [0] * 10}
    table = pa.table({"id": list(range(10))})
    ds = skate.data.from_arrow([table.slice(0, 3), table.slice(3)])
    for seed in range(400):
        for place, v in enumerate(ids(ds.random_shuffle(seed=seed))):
            if v in seen:
                seen[v][place] += 1
    for v, counts in seen.items():
        with case(v, counts):
            assert sum((c - 40) ** 2 / 40 for c in counts) < 60


def test_neighbours_part():
    got = ids(skate.data.range(20_000, override_num_blocks=4).random_shuffle(seed=1))
    assert sum(abs(a - b) == 1 for a, b in zip(got, got[1:], strict=False)) < 20
    assert abs(sum(got[:10_000]) / 10_000 - 10_000) < 300


def test_seeds():
    ds = skate.data.range(300)
    none = ds.random_shuffle()
    assert ids(none) != ids(none)
    assert ids(ds.random_shuffle(seed=5)) == ids(
        ds.random_shuffle(seed=RandomSeedConfig(seed=5, reseed_after_execution=False))
    )
    again = ds.random_shuffle(seed=RandomSeedConfig(seed=5))
    assert ids(again) != ids(again)
    with pytest.raises(DeprecationWarning, match="num_blocks"):
        ds.random_shuffle(num_blocks=3)
    with pytest.raises(ValueError, match="seed"):
        ds.random_shuffle(seed="x")
    with pytest.raises(TypeError, match="num_cpu"):
        ds.random_shuffle(num_cpuss=1)
    assert sorted(ids(ds.random_shuffle(seed=1, num_cpus=0.5))) == list(range(300))


def test_any_type_is_moved():
    rng = random.Random(2)
    t = pa.table(
        {
            "id": list(range(500)),
            "f": [rng.choice([None, math.nan, 1.5]) for _ in range(500)],
            "s": pa.array([rng.choice([None, "", "word" * rng.randrange(9)]) for _ in range(500)]),
            "d": pa.array([rng.choice(["x", "y", None]) for _ in range(500)]).dictionary_encode(),
            "l": [[i] * (i % 4) for i in range(500)],
            "m": [{"a": i, "b": [str(i)]} for i in range(500)],
            "b": [i % 3 == 0 for i in range(500)],
        }
    )
    want = {r["id"]: str(r) for r in t.to_pylist()}
    ds = small(skate.data.from_arrow([t.slice(0, 100), t.slice(100, 1), t.slice(101)]))
    for out in (
        ds.random_shuffle(seed=1),
        ds.repartition(7, shuffle=True),
        ds.repartition(7, keys=["s"]),
    ):
        got = [r for b in blocks(out) for r in b]
        assert {r["id"]: str(r) for r in got} == want and len(got) == 500


def test_blocks_of_other_types_are_brought_together():
    def made(b):
        i = int(b["id"][0])
        return pa.table(
            {
                "id": b["id"],
                "x": pa.nulls(10) if i < 30 else pa.array(b["id"] * (1 if i < 60 else 0.5)),
            }
        )

    ds = skate.data.range(90, override_num_blocks=9).map_batches(made, batch_size=10)
    want = {i: None if i < 30 else i * (1 if i < 60 else 0.5) for i in range(90)}
    assert {r["id"]: r["x"] for r in ds.random_shuffle(seed=1).take_all()} == want
    assert {r["id"]: r["x"] for r in ds.repartition(2, shuffle=True).take_all()} == want


def test_equal_keys_of_other_types_meet():
    ds = skate.data.range(90, override_num_blocks=9).map_batches(
        lambda b: {
            "k": b["id"] % 7 if b["id"][0] < 45 else (b["id"] % 7).astype("float32"),
            "id": b["id"],
        },
        batch_size=10,
    )
    where = {}
    for i, b in enumerate(blocks(ds.repartition(5, keys=["k"]))):
        for r in b:
            assert where.setdefault(r["k"], i) == i
    assert len(where) == 7


def test_a_large_dictionary_is_not_copied_into_each_part():
    words = pa.array([f"{i:05d}" * 20 for i in range(20_000)])
    table = pa.table(
        {
            "d": pa.DictionaryArray.from_arrays(
                pa.array([i * 7 % 20_000 for i in range(50_000)], pa.int32()), words
            ),
            "id": range(50_000),
        }
    )
    for ds in (
        skate.data.from_arrow(table).random_shuffle(seed=1),
        skate.data.from_arrow(table).sort("d"),
    ):
        out = ds.materialize()
        made = next(o for o in out.stats_dict()["ops"] if "Map" in o["label"])
        assert made["bytes_out"] < 20e6, made  # 96 reduces of 2 MB each once took 200
        got = out.to_pandas()
        assert sorted(got["id"]) == list(range(50_000)) and all(
            d[:5] == f"{i * 7 % 20_000:05d}" for d, i in zip(got["d"], got["id"], strict=True)
        )


def test_nothing_to_shuffle():
    none = skate.data.range(50).filter(lambda r: False)
    for out in (
        none.random_shuffle(seed=1),
        none.repartition(3, shuffle=True),
        none.repartition(3, keys=["id"]),
    ):
        assert out.take_all() == [] and out.count() == 0
    assert skate.data.from_items([]).random_shuffle().take_all() == []


def test_repartition_shuffled():
    for n, parts in [(100, 4), (1000, 13), (3, 2), (5, 9), (700, 250)]:
        with case(n, parts):
            ds = (
                skate.data.range(n, override_num_blocks=3)
                .repartition(parts, shuffle=True)
                .materialize()
            )
            sizes = [len(b) for b in blocks(ds)]
            # blocks without rows are left out
            assert ds.num_blocks() == len(sizes) == min(n, parts)
            assert sorted(ids(ds)) == list(range(n))
            assert max(sizes) - min(sizes) <= 4
    one_row_each = skate.data.from_arrow([pa.table({"id": [i]}) for i in range(12)])
    assert Counter(map(len, blocks(small(one_row_each, 1).repartition(4, shuffle=True)))) == {3: 4}


def test_repartition_by_keys():
    rng = random.Random(1)
    for kind, words in [
        (pa.int64(), list(range(20))),
        (pa.string(), ["a", "b", "", "é"]),
        (pa.float64(), [0.0, -0.0, math.nan, 2.5]),
    ]:
        with case(kind):
            rows = [
                {"id": i, "k": rng.choice([None, *words]), "j": rng.randrange(3)}
                for i in range(400)
            ]
            t = pa.table(
                {
                    "id": [r["id"] for r in rows],
                    "k": pa.array([r["k"] for r in rows], kind),
                    "j": [r["j"] for r in rows],
                }
            )
            ds = small(skate.data.from_arrow([t.slice(0, 150), t.slice(150)]))
            for keys in (["k"], ["k", "j"]):
                out = ds.repartition(6, keys=keys).materialize()
                # blocks without rows are left out
                assert out.num_blocks() == 6 or kind != pa.int64()
                where = {}
                for i, b in enumerate(blocks(out)):
                    assert [r["id"] for r in b] == sorted(r["id"] for r in b), (
                        "in the order in which they came"
                    )
                    for r in b:
                        key = tuple("nan" if r[k] != r[k] else r[k] for k in keys)
                        assert where.setdefault(key, i) == i
                assert sorted(ids(out)) == list(range(400))
    ds = small(
        skate.data.range(500, override_num_blocks=4).map(
            lambda r: {"id": -r["id"], "k": r["id"] % 7}
        )
    )
    sorted_too = blocks(ds.repartition(3, keys=["k", "id"], sort=True))
    assert (
        all(b == sorted(b, key=lambda r: (r["k"], r["id"])) for b in sorted_too)
        and sum(map(len, sorted_too)) == 500
    )
    assert ids(skate.data.range(9).repartition(1, keys=["id"])) == list(range(9))
    for args, words in [
        ({"keys": [3]}, "names of columns"),
        ({"keys": 3}, "names of columns"),
        ({"sort": True}, "needs keys"),
    ]:
        with case(args), pytest.raises(ValueError, match=words):
            skate.data.range(3).repartition(2, **args)
    with pytest.raises(KeyError, match="idd"):
        skate.data.range(3).repartition(2, keys=["idd"])
    # a single key, as in Ray's documentation
    assert skate.data.range(9).repartition(3, keys="id").count() == 9


def test_explain():
    text = skate.data.range(10).random_shuffle(seed=1).explain_text()
    assert (
        "RandomShuffleMap" in text
        and "RandomShuffleReduce" in text
        and "partitions by size" in text
    )
    blocking = skate.data.range(10, override_num_blocks=4).repartition(3).explain_text()
    assert "ReadRange  4 tasks" in blocking and "0 tasks" not in blocking
    text = skate.data.range(10).repartition(3, keys=["id"]).explain_text()
    assert (
        "RepartitionMap(id)" in text and "RepartitionReduce(id)" in text and "3 partitions" in text
    )


# ---- other engines: these tests must be last


def wide(n=150_000, parts=9):
    return skate.data.range(n, override_num_blocks=parts).map_batches(
        lambda b: {"id": b["id"], "pad": b["id"].astype("S80")}
    )


def test_the_same_whatever_workers_memory_and_kills_there_are(tmp_path):
    def dies(b):
        mark = tmp_path / str(int(b["id"][0]) % 7)
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), 9)
        return b

    seen = []
    for cpus, store, limit, kill in [
        (1, 512, None, False),
        (3, 512, None, False),
        (2, 64, 6 << 20, False),
        (2, 512, None, True),
    ]:
        skate.shutdown()
        skate.init(
            num_cpus=cpus,
            object_store_memory=store << 20,
            _system_config={"preload": "numpy,light_pytest"},
        )
        ds = small(wide(), 1 << 20)
        if limit:
            ds.context.execution_options.resource_limits = (
                ds.context.execution_options.resource_limits.copy(object_store_memory=limit)
            )
        if kill:
            ds = ds.map_batches(dies, batch_size=None)
        ds = ds.random_shuffle(seed=9)
        if kill:
            ds = ds.map_batches(dies, batch_size=None)
        seen.append(
            [
                int(v)
                for b in ds.iter_batches(batch_size=None, batch_format="numpy")
                for v in b["id"]
            ]
        )
    assert sorted(seen[0]) == list(range(150_000))
    assert all(s == seen[0] for s in seen[1:])
    assert len(list(tmp_path.iterdir())) > 2


@pytest.mark.parametrize("strategy", _skate.SHUFFLES)
def test_rows_do_not_depend_on_the_strategy(strategy):
    """Maps make more than a MiB, so that their packs and runs are in several values if the strategy
    asks for this."""
    n = 300_000
    ds = skate.data.range(n, override_num_blocks=3).map_batches(
        lambda b: {"id": b["id"], "k": b["id"] * 7919 % 1000}
    )

    def rows(ds):
        return np.concatenate(
            [b["id"] for b in ds.iter_batches(batch_size=None, batch_format="numpy")]
        ).tolist()

    def exchanged(ds):
        """The rows of ds, which equal those of "index"; checks the wiring in the statistics."""
        ds.context.shuffle_strategy = "index"
        want = rows(ds)
        ds.context.shuffle_strategy = strategy
        assert rows(ds) == want
        ops = ds.stats_dict()["ops"]
        merges = [o["tasks_done"] for o in ops if o.get("merges")]
        assert len(merges) == _skate.SHUFFLES[strategy]
        if strategy not in ("auto", "streaming"):  # they may make none, of three maps
            assert (sum(merges) > 0) == _skate.SHUFFLES[strategy]
        x = next(o["exchange"] for o in ops if "exchange" in o)
        assert (
            x["strategy"] == strategy and x["packs"] and x["taken_bytes"] >= x["largest_bytes"] > 0
        )
        assert (
            f"strategy {strategy} (" in ds.stats() and f"strategy {strategy}" in ds.explain_text()
        )
        return want

    exchanged(ds.random_shuffle(seed=5))
    exchanged(ds.repartition(7, keys=["k"], sort=True))
    exchanged(ds.repartition(5, shuffle=True))
    at = np.arange(n)
    assert exchanged(ds.sort("k")) == at[np.argsort(at * 7919 % 1000, kind="stable")].tolist()


@pytest.mark.parametrize("strategy", ["merge", "push_star", "streaming"])
def test_packs_of_several_schemas_are_merged(strategy):
    def mixed(b):
        i = int(b["id"][0]) // 1000
        x = b["id"].astype("float64") + 0.5 if i == 1 else b["id"]
        return pa.table(
            {
                "id": b["id"],
                "x": pa.array(x, None if i < 2 else pa.int64()) if i != 2 else pa.nulls(len(x)),
                "k": b["id"] % 10,
            }
        )

    ds = skate.data.range(5000, override_num_blocks=5).map_batches(mixed, batch_size=None)
    ds.context.shuffle_strategy = "index"
    want = [
        ds.sort("k").take_all(),
        ds.random_shuffle(seed=2).take_all(),
        ds.groupby("k").max("x").take_all(),
    ]
    ds.context.shuffle_strategy = strategy
    assert [
        ds.sort("k").take_all(),
        ds.random_shuffle(seed=2).take_all(),
        ds.groupby("k").max("x").take_all(),
    ] == want


def test_merges_where_a_worker_dies_and_memory_is_short(tmp_path):
    """More data than memory, and a worker that dies while merges run: the same rows."""

    def dies(b):
        mark = tmp_path / "died"
        if b["id"][0] > 60_000 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), 9)
        return b

    seen = []
    for strategy, kill in [
        ("index", False),
        ("push_star", True),
        ("merge", False),
        ("streaming", True),
    ]:
        skate.shutdown()
        skate.init(
            num_cpus=2,
            object_store_memory=32 << 20,
            _system_config={"preload": "numpy,light_pytest"},
        )
        ds = small(wide(), 1 << 20)
        ds.context.shuffle_strategy = strategy
        (tmp_path / "died").unlink(missing_ok=True)
        if kill:
            ds = ds.map_batches(dies, batch_size=None)
        ds = ds.random_shuffle(seed=9)
        seen.append(
            [
                int(v)
                for b in ds.iter_batches(batch_size=None, batch_format="numpy")
                for v in b["id"]
            ]
        )
    assert sorted(seen[0]) == list(range(150_000))
    assert all(s == seen[0] for s in seen[1:])


def test_a_strategy_that_is_none():
    with pytest.raises(ValueError, match="simple"):
        skate.data.range(1).context.shuffle_strategy = "quick"
    skate.data.range(1).context.shuffle_strategy = "hash_shuffle"  # one of Ray's names
