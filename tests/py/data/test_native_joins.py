"""Reduces of joins run in a worker without Python (src/shuffle/join/): all kinds, keys of many types,
empty sides, shared partitions. What they give is what a reduce in Python gives, and for keys that
need a cast the reduce is in Python."""

import functools
import os

import numpy as np
import pyarrow as pa
import pytest
import skate as ray
from skate import _skate
from skate.data import DataContext, from_blocks
from skate.data.by_key import join_args

ROWS, OTHERS, PARTS = 160, 90, 4
LITTLE = 2 << 20


@pytest.fixture
def context():
    """Settings under which joins move both sides."""
    context = DataContext.get_current()
    limits = context.execution_options.resource_limits
    broadcast, context.broadcast_join_bytes = context.broadcast_join_bytes, 0
    yield context
    context.execution_options.resource_limits = limits
    context.broadcast_join_bytes = broadcast


def column(kind, n, rng):
    numbers, null = rng.integers(0, 40, n), rng.random(n) < 0.1
    if kind in ("string", "large_string", "dictionary"):
        words = [None if no else f"w{i}" for i, no in zip(numbers, null, strict=True)]
        made = pa.array(words, pa.large_string() if kind == "large_string" else pa.string())
        return made.dictionary_encode() if kind == "dictionary" else made
    if kind == "null":
        return pa.nulls(n)
    if kind == "nan":
        values = np.where(numbers % 5 == 0, np.nan, numbers * np.where(numbers == 0, -0.0, 1.0))
        return pa.array(values, mask=null)
    if kind == "seconds":
        return pa.array(numbers.astype("datetime64[s]"), mask=null)
    return pa.array(numbers.astype(kind), mask=null)


def side(key, n, other, blocks, seed):
    """A side with columns of many types; `same` and the key are on both sides."""
    rng = np.random.default_rng(seed)
    of_type = pa.table(
        {
            "k": column(key, n, rng),
            "j": column("int64", n, rng),
            "same": pa.array([f"{other}{i}" for i in range(n)]),
            other: pa.array([[i, None] if i % 3 else None for i in range(n)], pa.list_(pa.int16())),
            "d" + other: pa.array([f"v{i % 7}" for i in range(n)]).dictionary_encode(),
        }
    )
    fields = [
        f.with_nullable(f.name != "same").with_metadata({"of": other} if f.name == "same" else {})
        for f in of_type.schema
    ]
    table = of_type.cast(pa.schema(fields, metadata={"table": other}))
    cuts = [n * i // blocks for i in range(blocks + 1)]
    return from_blocks([table.slice(a, b - a) for a, b in zip(cuts, cuts[1:], strict=False)])


def reduces(ds):
    """(reduces of the join, those of them without Python)."""
    (op,) = [o for o in ds.stats_dict()["ops"] if o["label"].startswith("JoinReduce")]
    return op["tasks_done"], op["fused"][0]["native"]


def same(batch):
    return batch


def both_ways(ds):
    """The table of a join whose reduces end their stage, checked against the table of the same join
    with a function fused behind its reduces; (reduces, those without Python) of the first."""
    plain = ds.materialize()
    fused = ds.map_batches(same, batch_format="pyarrow", batch_size=None).materialize()
    assert reduces(fused)[1] == 0
    tables = [ray.get(d.to_arrow_refs()) for d in (plain, fused)]
    got = pa.concat_tables(tables[0])
    if not tables[1]:  # without rows the function was not called
        assert not len(got)
        return got, reduces(plain)
    want = pa.concat_tables(tables[1])
    assert got.schema.equals(want.schema, check_metadata=True)
    assert str(got.to_pydict()) == str(want.to_pydict())  # NaN, -0.0
    assert not got.schema.metadata and all(not f.metadata and f.nullable for f in got.schema)
    return got, reduces(plain)


def joined(kind, left, right, on=("k",), **how):
    return left.join(right, kind, num_partitions=PARTS, on=on, left_suffix="_l", **how)


# keys of the left and the right side; True: their reduces are native; None: but for full_outer
# joins, whose key column holds the keys of both sides
KEYS = [
    ("int64", "int64", True),
    ("int16", "int64", True),
    ("uint32", "uint8", True),
    ("string", "string", True),
    ("string", "large_string", None),
    ("dictionary", "dictionary", True),
    ("dictionary", "string", None),
    ("nan", "nan", True),
    ("seconds", "seconds", True),
    ("null", "null", True),
    ("null", "int64", False),
    ("uint8", "int64", False),
    ("int64", "float64", False),
]


@pytest.mark.parametrize("kind", join_args.KINDS)
@pytest.mark.parametrize(("left", "right", "native"), KEYS)
def test_keys_of_all_types(context, left, right, native, kind):
    ds = joined(kind, side(left, ROWS, "x", 3, 1), side(right, OTHERS, "y", 2, 2))
    got, counts = both_ways(ds)
    if native is None:
        native = kind != "full_outer"
    assert counts == (PARTS, PARTS if native else 0)
    if kind == "full_outer" and "int64" in (left, right):
        assert got.schema.field("k").type == (pa.float64() if right == "float64" else pa.int64())


@pytest.mark.parametrize("kind", join_args.KINDS)
def test_keys_of_two_columns_and_empty_sides(context, kind):
    left, right = side("string", ROWS, "x", 3, 1), side("string", OTHERS, "y", 2, 2)
    none = [d.filter(lambda row: False) for d in (left, right)]
    rows = {}
    for name, (a, b) in {
        "both": (left, right),
        "left": (left, none[1]),
        "right": (none[0], right),
        "none": (none[0], none[1]),
    }.items():
        got, counts = both_ways(joined(kind, a, b, ("k", "j"), right_suffix="_r"))
        assert counts == (PARTS, PARTS)
        rows[name] = len(got)
        assert got.schema.names == [
            *(["k", "j"] if not kind.startswith("right") else []),
            *(["same_l", "x", "dx"] if join_args.pairs(kind) else []),
            *(["same", "x", "dx"] if kind in ("left_semi", "left_anti") else []),
            *(["k", "j"] if kind.startswith("right") else []),
            *(["same_r", "y", "dy"] if join_args.pairs(kind) else []),
            *(["same", "y", "dy"] if kind in ("right_semi", "right_anti") else []),
        ]
    alone = {
        "left": ROWS * (kind in ("left_outer", "full_outer", "left_anti")),
        "right": OTHERS * (kind in ("right_outer", "full_outer", "right_anti")),
    }
    assert rows == {"both": rows["both"], **alone, "none": 0} and rows["both"]


def test_errors_are_those_of_python(context):
    left, right = side("string", ROWS, "x", 3, 1), side("int64", OTHERS, "y", 2, 2)
    left, right = (d.map_batches(same, batch_format="pyarrow") for d in (left, right))
    with pytest.raises(TypeError, match="column 'k' of type string and column 'k' of type int64"):
        joined("inner", left, right).materialize()
    with pytest.raises(ValueError, match="'j' would be there twice"):
        left.join(left, "inner", num_partitions=PARTS, on=("k",)).materialize()
    with pytest.raises(KeyError, match="You specified the column 'q'"):
        left.join(left, "inner", num_partitions=PARTS, on=("k",), right_on=("q",)).materialize()


def test_blocks_of_two_schemas_go_through_python(context):
    def change(batch):
        first = batch["id"][0] == 0
        return {"k": batch["id"].astype(np.int32 if first else np.int64), "x": batch["id"]}

    left = ray.data.range(100, override_num_blocks=4).map_batches(change, batch_size=None)
    right = ray.data.range(100).map_batches(lambda b: {"k": b["id"], "y": -b["id"]})
    ds = left.join(right, "inner", num_partitions=PARTS, on=("k",)).materialize()
    tasks, native = reduces(ds)
    assert native < tasks and sorted(r["y"] for r in ds.take_all()) == list(range(-99, 1))


def hot(n, name):
    """Half of the rows have one key."""
    i = np.arange(n)
    return from_blocks(
        [
            pa.table({"k": np.where(p % 2, 7, p * 2654435761 % 5000), name: p})
            for p in np.array_split(i, 24)
        ]
    )


def keys(n, name):
    i = np.arange(n)
    return from_blocks([pa.table({"k": p, name: -p}) for p in np.array_split(i, 3)])


def order(ds):
    return [(row.get("x"), row.get("y")) for row in ds.iter_rows()]


@pytest.mark.parametrize("hot_side", [join_args.LEFT, join_args.RIGHT])
@pytest.mark.parametrize("kind", join_args.KINDS)
def test_reduces_that_share_a_partition(context, kind, hot_side):
    def ds():
        sides = [hot(60_000, "x"), keys(9000, "y")]
        return sides[hot_side].join(sides[1 - hot_side], kind, num_partitions=PARTS, on=("k",))

    want = order(ds())
    options = context.execution_options
    options.resource_limits = options.resource_limits.copy(object_store_memory=LITTLE)
    split = ds().materialize()
    tasks, native = reduces(split)
    assert tasks == native > PARTS
    assert order(split) == want


def kill_once(folder, nth):
    """A setup hook of workers: the first one that is started dies at its nth yield of a native
    task."""

    def hook():
        try:
            with open(os.path.join(folder, "killed"), "x") as f:
                f.write(str(os.getpid()))
        except FileExistsError:
            return
        _skate.fault(f"native.yield:kill:{nth}")

    return hook


def hot_join():
    return hot(60_000, "x").join(keys(9000, "y"), "right_outer", num_partitions=PARTS, on=("k",))


@functools.cache
def order_of_hot_join():
    return order(hot_join())


@pytest.mark.parametrize(
    ("memory", "nth"), [(None, 1), (None, 3), (LITTLE, 1), (LITTLE, 2), (LITTLE, 6)]
)
def test_a_worker_that_dies_in_a_reduce(tmp_path, context, memory, nth):
    want = order_of_hot_join()
    options = context.execution_options
    options.resource_limits = options.resource_limits.copy(object_store_memory=memory)
    keep = ray.is_initialized()
    ray.shutdown()
    # one worker at a time, which therefore has that many yields
    ray.init(num_cpus=1, runtime_env={"worker_process_setup_hook": kill_once(str(tmp_path), nth)})
    try:
        made = hot_join().materialize()
        counts, got = reduces(made), order(made)
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / "killed").read_text()), 0)
    finally:
        ray.shutdown()
        if keep:
            ray.init(num_cpus=2, object_store_memory=1 << 30)
    assert got == want and counts[0] == counts[1] >= PARTS + (memory is not None)
