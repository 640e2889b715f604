"""Names, arguments and results that programs written for Ray Data rely on."""

import sys
import types

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import skate
import skate.data as sd
from skate.data import DataContext, ExecutionOptions, ExecutionResources
from skate.data.block import BlockAccessor
from skate.data.expressions import col
from skate.data.extensions import ArrowConversionError, TensorArray, TensorDtype


@pytest.fixture
def context():
    """The current settings; they are restored afterwards."""
    ctx = DataContext.get_current().copy()
    with DataContext.current(ctx):
        yield ctx


# ---- resources


def test_amounts():
    r = ExecutionResources
    a, b = r(cpu=2, memory=1 << 20), r(cpu=1, gpu=1)
    assert (
        a.add(b) == r(3, 1, 0, 1 << 20)
        and b.subtract(a) == r(-1, 1, 0, -(1 << 20))
        and not b.subtract(a).is_non_negative()
    )
    assert (
        a.max(b) == r(2, 1, 0, 1 << 20)
        and a.min(b) == r(1)
        and hash(a.min(b)) == hash(r(1, 0, 0, 0))
    )
    assert (
        a.scale(0).is_zero()
        and a.scale(1.5).cpu == 3
        and a.floordiv(b) == r(2, 0, float("inf"), float("inf"))
    )
    assert a.satisfies_limit(r.inf()) and not a.satisfies_limit(r(cpu=1)) and a.copy(cpu=1).cpu == 1
    assert r(object_store_memory=9).satisfies_limit(r(1, 1, 1, 1), ignore_object_store_memory=True)
    assert r.from_resource_dict({"num_cpus": 2, "GPU": 1}).to_resource_dict() == {
        "CPU": 2,
        "GPU": 1,
        "object_store_memory": 0,
        "memory": 0,
    }
    with pytest.raises(ValueError, match="non-negative"):
        a.scale(-1)


def test_options():
    o = ExecutionOptions()
    assert o.is_resource_limits_default() and o.resource_limits.cpu == float("inf")
    o.resource_limits = ExecutionResources(cpu=1)
    o.exclude_resources = ExecutionResources(cpu=1)
    with pytest.raises(ValueError, match="cpu"):
        o.validate()
    with pytest.warns(DeprecationWarning, match="no-op"):
        o.locality_with_output = True


@pytest.mark.parametrize("how", ["limit", "exclude"])
def test_limits_of_cpus_hold(context, how):
    """Of 4 CPUs the run takes 2, also if its tasks are short. Tasks that need more are refused with
    a clear error."""
    skate.shutdown()
    skate.init(num_cpus=4)

    @skate.remote(num_cpus=0)
    class Count:
        def __init__(self):
            self.n = self.most = 0

        def go(self, d):
            self.n += d
            self.most = max(self.most, self.n)
            return self.most

    c = Count.remote()

    def f(r):
        skate.get(c.go.remote(1))
        skate.get(c.go.remote(-1))
        return r

    options = context.execution_options
    if how == "limit":
        options.resource_limits = ExecutionResources(cpu=2)
    else:
        options.exclude_resources = ExecutionResources(cpu=2)
    assert sd.range(64, override_num_blocks=64).map(f).materialize().count() == 64
    assert skate.get(c.go.remote(0)) <= 2
    with pytest.raises(skate.exceptions.TaskUnschedulableError, match="resource_limits allow 2"):
        sd.range(4).map(lambda r: r, num_cpus=3).materialize()


# ---- what functions may return, and the error when they return something else


def test_wrong_results_are_value_errors():
    for wrong in (
        lambda d: d.map(lambda r: 5),
        lambda d: d.map_batches(lambda b: 5),
        lambda d: d.map_batches(lambda b: {"x": "text"}),
    ):
        with pytest.raises(ValueError, match="returned"):
            wrong(sd.range(2)).materialize()


def test_objects_only_where_allowed(context):
    class Thing:
        pass

    context.enable_fallback_to_arrow_object_ext_type = False
    with pytest.raises(ArrowConversionError, match="they are not pickled"):
        sd.range(2).map(lambda r: {"x": Thing()}).materialize()


def test_errors_are_values_too():
    values = [r["item"] for r in sd.from_items([1, ValueError("x")]).map(lambda r: r).take_all()]
    assert values[0] == 1 and str(values[1]) == "x"


def test_constructors_and_calls_are_tried_again(context):
    @skate.remote(num_cpus=0)
    class Count:
        def __init__(self):
            self.n = 0

        def next(self):
            self.n += 1
            return self.n

    made, called = Count.remote(), Count.remote()

    class Late:
        def __init__(self):
            if skate.get(made.next.remote()) <= 2:
                raise ValueError("not yet")

        def __call__(self, b):
            if skate.get(called.next.remote()) <= 2:
                raise KeyError("not yet")
            return b

    ds = sd.range(10).map_batches(Late, concurrency=1)
    with pytest.raises(skate.exceptions.RayError, match="not yet"):
        ds.materialize()
    context.actor_init_retry_on_errors = True
    context.actor_task_retry_on_errors = [KeyError]
    assert len(sd.range(10).map_batches(Late, concurrency=1).take_all()) == 10

    context.actor_task_retry_on_errors = [OSError]
    with pytest.raises(KeyError):
        sd.range(10).map_batches(_Never, concurrency=1).materialize()


class _Never:
    def __call__(self, b):
        raise KeyError("never")


# ---- DataFrames as blocks


def test_blocks_that_came_as_frames(context):
    df = pd.DataFrame({"a": [np.zeros((2, 3))] * 2, "i": [1, 2]})
    ds = sd.from_pandas(df)
    assert ds.schema().base_schema.types[0] == TensorDtype(
        (2, 3), np.float64
    ) and ds.schema().base_schema.names == ("a", "i")
    assert ds.schema().types[1] == pa.int64() and isinstance(
        sd.range(1).schema().base_schema, pa.Schema
    )
    for d in (
        ds,
        ds.materialize(),
        ds.limit(1),
        sd.range(3).map_batches(lambda b: b, batch_format="pandas"),
    ):
        assert isinstance(next(iter(d.iter_batches(batch_format=None))), pd.DataFrame)
        assert isinstance(d.take_batch(1, batch_format=None), pd.DataFrame)
    assert (
        ds.map_batches(
            lambda b: b if isinstance(b, pd.DataFrame) else 1 / 0, batch_format=None
        ).count()
        == 2
    )
    assert isinstance(next(iter(ds.map(lambda r: r).iter_batches(batch_format=None))), pa.Table)
    context.enable_pandas_block = False
    assert isinstance(next(iter(sd.from_pandas(df).iter_batches(batch_format=None))), pa.Table)


def test_what_only_this_process_can_import_is_sent_along(monkeypatch):
    """A module that was put into sys.modules by hand is used in a function, in a value of a row,
    and in a plan that is stored."""
    module = types.ModuleType("no_such_package.by_hand")
    exec(
        "class Pair:\n    def __init__(self, a):\n        self.a = a\ndef odd(row):\n    return row['id'] % 2 == 1",
        module.__dict__,
    )
    monkeypatch.setitem(sys.modules, module.__name__, module)
    odd, pair = module.odd, module.Pair
    ds = sd.range(4).filter(lambda row: odd(row))
    assert ds.take_all() == sd.range(4).filter(odd).take_all() == [{"id": 1}, {"id": 3}]
    assert [
        r["p"].a
        for r in sd.from_items([{"p": pair(i)} for i in range(3)]).map(lambda row: row).take_all()
    ] == [0, 1, 2]
    assert sd.Dataset.deserialize_lineage(ds.serialize_lineage()).count() == 2


def test_a_method_is_shown_with_its_class():
    class Scaler:
        def scale(self, batch):
            return batch

        @classmethod
        def check(cls, batch):
            return batch

    assert "MapBatches(Scaler.scale)" in repr(sd.range(3).map_batches(Scaler().scale))
    assert "Map(Scaler.check)" in repr(sd.range(3).map(Scaler.check)) and "Map(len)" in repr(
        sd.range(3).map(len)
    )


def test_accessors_keep_the_kind():
    df = pd.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "z"]})
    for block in (df, pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]})):
        a = BlockAccessor.for_block(block)
        for out, names, n in (
            (a.select(["b"]), ["b"], 3),
            (a.drop(["b"]), ["a"], 3),
            (a.rename_columns({"a": "c"}), ["c", "b"], 3),
            (a.slice(1, 3, copy=True), ["a", "b"], 2),
            (a.slice(3, 3, copy=True), ["a", "b"], 0),
            (a.take([2]), ["a", "b"], 1),
            (a.zip(block), ["a", "b", "a_1", "b_1"], 3),
            (
                a.upsert_column(
                    "a", pa.array([4, 5, 6]) if isinstance(block, pa.Table) else [4, 5, 6]
                ),
                ["a", "b"],
                3,
            ),
        ):
            assert type(out) is type(block)
            assert (
                BlockAccessor.for_block(out).column_names() == names
                and BlockAccessor.for_block(out).num_rows() == n
            )
        with pytest.raises(ValueError):
            a.select([len])


def test_tensor_arrays():
    t = TensorArray(np.arange(12).reshape(3, 2, 2))
    df = pd.DataFrame({"t": t})
    for name, f in TensorArray.SUPPORTED_REDUCERS.items():
        got = t._reduce(name, **({"ddof": 1} if name in ("std", "var") else {}))
        np.testing.assert_array_equal(
            got, f(t.to_numpy(), axis=0, **({"ddof": 1} if name in ("std", "var") else {}))
        )
    assert "[[0, 1], [2, 3]]" in repr(df)
    frame = pd.DataFrame({"t": [np.zeros((2, 2), int), np.ones((3, 3), int)]})
    assert frame["t"].astype(TensorDtype(None, np.int64)).array.is_variable_shaped


# ---- reading, writing, iterating


def test_schema_of_files(tmp_path):
    schema = pa.schema({"id": pa.float32()})
    sd.range(3).write_parquet(str(tmp_path / "a"), schema=schema)
    assert pq.read_table(tmp_path / "a").schema == schema
    ds = sd.from_items([{"k": i % 2, "v": i} for i in range(4)])
    ds.write_parquet(
        str(tmp_path / "b"),
        partition_cols=["k"],
        schema=pa.schema({"k": pa.int64(), "v": pa.int32()}),
    )
    assert pq.read_table(
        next((tmp_path / "b" / "k=0").iterdir()), partitioning=None
    ).schema == pa.schema({"v": pa.int32()})
    with pytest.raises(TypeError, match="without loss"):
        sd.from_items([{"id": 1.5}]).write_parquet(
            str(tmp_path / "c"), schema=pa.schema({"id": pa.int64()})
        )


def test_settings_as_a_source_was_made(context):
    class Source(sd.Datasource):
        def get_read_tasks(self, parallelism, **kwargs):
            def read():
                return [pa.table({"id": [DataContext.get_current().get_config("foo")]})]

            return [sd.ReadTask(read, sd.block.BlockMetadata(1, 8))]

    context.set_config("foo", 1)
    ds = sd.read_datasource(Source())
    context.set_config("foo", 2)
    assert ds.take_all() == [{"id": 1}] and sd.read_datasource(Source()).take_all() == [{"id": 2}]


def test_large_read_tasks_are_warned_of():
    class Source(sd.Datasource):
        def get_read_tasks(self, parallelism, **kwargs):
            large = np.zeros(2 << 20, np.uint8)
            return [
                sd.ReadTask(lambda: [pa.table({"n": [len(large)]})], sd.block.BlockMetadata(1, 8))
            ]

    with pytest.warns(UserWarning, match="holds on to large objects"):
        assert sd.read_datasource(Source()).take_all() == [{"n": 2 << 20}]


def test_large_shuffle_buffers_are_warned_of():
    skate.shutdown()
    skate.init(num_cpus=2, object_store_memory=64 << 20)
    with pytest.warns(UserWarning, match="shuffle buffer"):
        next(
            iter(
                sd.range_tensor(2, shape=(1 << 21,)).iter_batches(
                    batch_size=1, local_shuffle_buffer_size=10
                )
            )
        )


def test_what_runs_first_is_in_the_stats():
    ds = sd.range(10).map(lambda r: r, num_cpus=0.5).repartition(2).filter(expr="id > 3")
    assert ds.materialize().count() == 6
    text, d = ds.materialize().stats(), ds.stats_dict()
    assert "Map(<lambda>):" in text and "Filter(id > 3):" in text and d["before"][0]["ops"]


def test_folders_and_predicates():
    from skate.data.datasource import Partitioning, PathPartitionParser

    p = PathPartitionParser(Partitioning("hive"))
    assert p.evaluate_predicate_on_partition("year=2020/a.parquet", col("year") > "2019") is True
    assert p.evaluate_predicate_on_partition("year=2020/a.parquet", col("year") < "2019") is False
    assert p.evaluate_predicate_on_partition("year=2020/a.parquet", col("x") < "2019") is True
    assert p.evaluate_predicate_on_partition("a.parquet", col("year") < "2019") is False


def test_a_dataset_is_true():
    assert sd.range(0) and sd.range(3).map(lambda r: 1 / 0), "and nothing runs"


def test_torch_items_and_features():
    torch = pytest.importorskip("torch")
    images = torch.arange(4000.0).reshape(4, 1000)

    class Pairs(torch.utils.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return images[i], i

    got = sd.from_torch(Pairs()).materialize()
    assert got.size_bytes() < 4 * 6000, "a row holds its image, not the tensor that it is a part of"
    assert all(torch.equal(r["item"][0], images[r["item"][1]]) for r in got.take_all())
    assert got.map(lambda r: {"x": r["item"][0], "y": r["item"][1]}).take_batch()["x"].shape == (
        4,
        1000,
    )

    def batches(row, **options):
        return list(sd.from_items([row, row]).to_torch(batch_size=2, **options))

    ((x, y),) = batches({"a": 1, "b": 2.5, "y": 1}, label_column="y")
    assert x.tolist() == [[1.0, 2.5]] * 2 and y.tolist() == [[1], [1]]
    ((x, y),) = batches({"y": 1}, label_column="y")
    assert x.shape == (2, 0) and y.tolist() == [[1], [1]]
    for row, options, words in (
        ({"a": np.ones((2, 2)), "b": 1.0}, {}, r"a \(2, 1, 2, 2\), b \(2, 1\); feature_columns"),
        ({"a": 1, "b": 2.5}, {"unsqueeze_feature_tensors": False}, "several tensors"),
        ({"a": 1, "b": "x"}, {}, "column b.*feature_columns says which"),
        ({"a": 1}, {"feature_columns": ["z"]}, "no column 'z'"),
    ):
        with pytest.raises(ValueError, match=words):
            batches(row, **options)


def test_torch(context):
    torch = pytest.importorskip("torch")

    class Numbers(torch.utils.data.IterableDataset):
        def __len__(self):
            return 2

        def __iter__(self):
            return iter([0, 1])

    assert [r["item"] for r in sd.from_torch(Numbers()).take_all()] == [0, 1]
    b = next(iter(sd.from_arrow(pa.table({"x": pa.nulls(3)})).iter_torch_batches()))
    assert torch.isnan(b["x"]).all()
    with pytest.raises(ValueError, match="collate_fn"):
        sd.range(2).iter_torch_batches(collate_fn=lambda b: b, device="cpu")


# ---- where stages run


def _where(b):
    import os

    from skate.util import get_current_placement_group

    pg = get_current_placement_group()
    return {
        "pg": [None if pg is None else pg.id.hex()] * len(b["id"]),
        "env": [os.environ.get("WHERE")] * len(b["id"]),
    }


class Where:
    def __call__(self, b):
        return _where(b)


def test_placement_groups_and_environments(context):
    from skate.util.placement_group import placement_group, remove_placement_group
    from skate.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    skate.shutdown()
    skate.init(num_cpus=2)
    pg = placement_group([{"CPU": 2}])  # all CPUs: tasks outside the group have to wait
    skate.get(pg.ready())
    inside = PlacementGroupSchedulingStrategy(placement_group=pg)
    try:
        read = sd.from_items([{"id": i} for i in range(4)])
        for fn, more in ((_where, {}), (Where, {"concurrency": 1})):
            for given in (
                {"scheduling_strategy": inside},
                {"ray_remote_args_fn": lambda: {"scheduling_strategy": inside}},
            ):
                assert {r["pg"] for r in read.map_batches(fn, **given, **more).take_all()} == {
                    pg.id.hex()
                }
        # a reader gets a CPU only from the group
        for fn, more in ((_where, {}), (Where, {"concurrency": 1})):
            assert {
                r["pg"]
                for r in sd.range(4).map_batches(fn, scheduling_strategy=inside, **more).take_all()
            } == {pg.id.hex()}
        context.scheduling_strategy = inside
        ds = (
            sd.range(100, override_num_blocks=2)
            .map(lambda r: {"id": r["id"] + 1})
            .map_batches(_where)
            .filter(expr="pg is not null")
        )
        assert {r["pg"] for r in ds.take_all()} == {pg.id.hex()} and len(
            ds.stats_dict()["ops"]
        ) == 1
        with pytest.raises(ValueError, match="bundle"):
            read.map_batches(_where, num_cpus=3, scheduling_strategy=inside)
    finally:
        remove_placement_group(pg)
    context.scheduling_strategy = "SPREAD"
    env = {"runtime_env": {"env_vars": {"WHERE": "here"}}}
    for fn, more in ((_where, {}), (Where, {"concurrency": 1})):
        assert {(r["pg"], r["env"]) for r in read.map_batches(fn, **env, **more).take_all()} == {
            (None, "here")
        }
    assert {r["env"] for r in read.map_batches(_where).take_all()} == {None}


def test_methods_can_be_sent():
    method = sd.Dataset.map_batches
    assert skate.get(skate.remote(lambda: method is sd.Dataset.map_batches).remote())


# a reference to the first rows of a block once was one to the whole block
def test_references_to_blocks_that_are_parts_of_others():
    ds = sd.range(24, override_num_blocks=3).repartition(target_num_rows_per_block=2, strict=True)
    for refs in (
        [r for b in ds.iter_internal_ref_bundles() for r in b.block_refs],
        ds.materialize().get_internal_block_refs(),
    ):
        assert [skate.get(r).column("id").to_pylist() for r in refs] == [
            [i, i + 1] for i in range(0, 24, 2)
        ]


def test_bundles_of_blocks():
    ds = sd.range(6, override_num_blocks=3)
    bundles = list(ds.map(lambda r: r).iter_internal_ref_bundles())
    assert (
        [b.num_rows() for b in bundles]
        == [2, 2, 2]
        == [m.num_rows for b in bundles for m in b.metadata]
    )
    assert [
        r
        for b in bundles
        for ref, m in b.blocks
        for r in BlockAccessor.for_block(skate.get(ref)).to_arrow()["id"].to_pylist()
    ] == [*range(6)]
    assert len({ds.get_dataset_id(), sd.range(6).get_dataset_id()}) == 2


def test_old_and_kept_settings(context):
    assert (
        sd.DatasetContext is DataContext
        and context.large_args_threshold == 50 << 20
        and context.copy().min_parallelism == 200
    )
    with pytest.raises(AttributeError, match="nonsense"):
        context.nonsense  # noqa: B018
    context.min_parallelism = 7
    assert context.copy().min_parallelism == 7
    context.checkpoint_config = {"id_column": "id", "checkpoint_path": "/tmp/x"}
    assert (
        context.checkpoint_config.checkpoint_path == "/tmp/x"
        and context.checkpoint_config.filesystem.type_name == "local"
    )


def test_parquet_in_a_schema_with_its_folders(tmp_path):
    schema = pa.schema({"k": pa.int32(), "v": pa.int64()})
    sd.from_items([{"k": 1, "v": 1}, {"k": 2, "v": 2}]).write_parquet(
        str(tmp_path), partition_cols=["k"]
    )
    ds = sd.read_parquet(str(tmp_path), schema=schema)
    assert ds.schema().types == schema.types and ds.to_arrow().schema.equals(schema)
    assert sorted(ds.take_all(), key=str) == [{"k": 1, "v": 1}, {"k": 2, "v": 2}]


def test_tensors_of_files_in_a_fresh_process(tmp_path):
    import subprocess
    import sys

    sd.from_numpy(np.zeros((4, 2, 2))).write_parquet(str(tmp_path))
    code = f"import skate.data as sd; print(sd.read_parquet({str(tmp_path)!r}).schema())"
    assert (
        "ArrowTensorTypeV2(shape=(2, 2)"
        in subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
    )


def test_summaries():
    from skate.data import stats
    from skate.data.aggregate import Count
    from skate.data.datatype import DataType

    ds = sd.from_items([{"x": 10, "s": "a", "n": None}, {"x": 20, "s": "b", "n": None}])
    got = ds.summary().to_pandas().set_index(stats.DatasetSummary.STATISTIC_COLUMN)
    assert (
        got["x"]["approx_quantile[0]"] == 20
        and got["x"]["count"] == 2
        and got["s"]["approx_topk[0]"] == {"s": "a", "count": 1}
    )
    assert got["n"].dropna().to_dict() == {"count": 2}
    some = stats._dtype_aggregators_for_dataset(
        ds.schema(), ["x"], {DataType.int64(): lambda c: [Count(c)]}
    )
    assert some.column_to_dtype == {"x": "DataType(arrow:int64)"} and [
        a.name for a in some.aggregators
    ] == ["count(x)"]
    with pytest.raises(ValueError, match="not found"):
        stats._dtype_aggregators_for_dataset(ds.schema(), ["y"])


def test_what_was_made_is_shown():
    ds = sd.range(3).map(lambda r: {"x": str(r["id"])}).materialize()
    assert "x" in repr(ds) and "string" in repr(ds) and "Showing 3 of 3 rows" in repr(ds)
    assert "Map(<lambda>)" in repr(sd.range(3).map(lambda r: {"x": 1}).map(lambda r: r))
