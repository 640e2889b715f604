"""Errors say what is wrong, where, and what to do: the text of each error is what a user reads
first."""

import inspect
import json
import pickle
import re
import subprocess
import sys

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq
import pytest
import skate
import skate.data
from cases import case


def said(call, kind=Exception):
    """The text of the error that call() raises."""
    with pytest.raises(kind) as e:
        call()
    return str(e.value)


# ---- calls whose arguments do not fit


def test_wrong_keywords_name_the_public_method_and_the_nearest():
    ds = skate.data.range(3)
    for call, text in (
        (lambda: ds.sort("id", desc=True), "Dataset.sort() got an unexpected keyword argument 'desc'; did you mean 'descending'?"),
        (lambda: ds.materialize().sort("id", desc=True), "Dataset.sort() got an unexpected keyword argument 'desc'; did you mean 'descending'?"),
        (lambda: ds.groupby("id").sum(onn="id"), "GroupedData.sum() got an unexpected keyword argument 'onn'; did you mean 'on'?"),
        (lambda: ds.to_pandas(lim=1), "Dataset.to_pandas() got an unexpected keyword argument 'lim'; did you mean 'limit'?"),
        (lambda: ds.iterator().iter_batches(batchsize=1), "DataIterator.iter_batches() got an unexpected keyword argument 'batchsize'; did you mean 'batch_size'?"),
        (lambda: ds.materialize(x=1), "Dataset.materialize() got an unexpected keyword argument 'x'; it takes none"),
        (lambda: ds.sort("id", qqqqqq=1), "Dataset.sort() got an unexpected keyword argument 'qqqqqq'; known are boundaries, descending, key, strategy"),
        (lambda: ds.sort(), "Dataset.sort() missing 1 required positional argument: 'key'"),
        (lambda: skate.data.read_text(pth="x"), "read_text() got an unexpected keyword argument 'pth'; did you mean 'paths'?"),
        (lambda: skate.data.from_items([1], para=1), "from_items() got an unexpected keyword argument 'para'; did you mean 'parallelism'?"),
        (lambda: skate.data.DataLoader(ds, batchsize=2), "DataLoader() got an unexpected keyword argument 'batchsize'; did you mean 'batch_size'?"),
        (lambda: skate.data.ActorPoolStrategy(sise=2), "ActorPoolStrategy() got an unexpected keyword argument 'sise'; did you mean 'size'?"),
    ):  # fmt: skip
        with case(text):
            assert said(call, TypeError) == text


def test_wrong_keywords_of_preprocessors_name_the_class_that_was_called():
    from skate.data.preprocessors import OneHotEncoder, StandardScaler

    for call, text in (
        (lambda: StandardScaler(colums=["id"]), "StandardScaler() got an unexpected keyword argument 'colums'; did you mean 'columns'?"),
        (lambda: StandardScaler(), "StandardScaler() missing 1 required positional argument: 'columns'"),
        (lambda: OneHotEncoder(["a"], max_category={}), "OneHotEncoder() got an unexpected keyword argument 'max_category'; did you mean 'max_categories'?"),
        (lambda: StandardScaler(["id"]).fit(dss=1), "Preprocessor.fit() got an unexpected keyword argument 'dss'; did you mean 'ds'?"),
    ):  # fmt: skip
        with case(text):
            assert said(call, TypeError) == text


def test_an_error_inside_of_a_function_is_left_as_it_is():
    def takes_one(row):
        return {"x": int("1", bas=3)}

    assert (
        said(lambda: skate.data.range(3).map(takes_one).take_all(), TypeError).count("did you mean")
        == 0
    )


def test_methods_go_by_the_name_of_their_public_class():
    for name, f in inspect.getmembers(skate.data.Dataset, callable):
        if not name.startswith("_"):
            with case(name):
                assert f.__qualname__.split(".")[0] in ("Dataset", "MaterializedDataset")
    assert pickle.loads(pickle.dumps(skate.data.Dataset.sort)) is skate.data.Dataset.sort


@skate.remote
def two(a, b=1):
    return a


@skate.remote
class Counts:
    def __init__(self, start):
        self.n = start

    def add(self, k):
        return self.n + k


def test_calls_of_remote_functions_name_them_and_what_they_take():
    counts = Counts.remote(1)
    for call, text in (
        (lambda: two.remote(1, 2, 3), "two(): too many positional arguments; it takes (a, b=1), and was given 3 positional arguments"),
        (lambda: two.remote(), "two(): missing a required argument: 'a'; it takes (a, b=1), and was given 0 positional arguments"),
        (lambda: two.remote(1, c=2), "two(): got an unexpected keyword argument 'c'; it takes (a, b=1), and was given 1 positional argument, c="),
        (lambda: Counts.remote(), "Counts.__init__(): missing a required argument: 'start'; it takes (start), and was given 0 positional arguments"),
        (lambda: counts.add.remote(1, 2), "Counts.add(): too many positional arguments; it takes (k), and was given 2 positional arguments"),
    ):  # fmt: skip
        with case(text):
            assert said(call, TypeError) == text


# ---- things that are not ready in time


def test_a_get_that_is_too_late_says_for_what(tmp_path):
    import os

    path = str(tmp_path / "gate")
    os.mkfifo(path)
    gate = os.open(path, os.O_RDWR)

    @skate.remote(num_cpus=0)
    def held(go):
        return go and open(path, "rb", 0).read(1)

    @skate.remote(num_cpus=0)
    def after(x):
        return x

    @skate.remote(num_cpus=0)
    def yields():
        yield open(path, "rb", 0).read(1)

    late = [held.remote(True) for _ in range(4)]
    refs, gen = [held.remote(False), *late, after.remote(late[0])], yields.remote()
    skate.get(refs[0])
    text = said(lambda: skate.get(refs, timeout=0.01), skate.exceptions.GetTimeoutError)
    assert text.startswith("Get timed out: some object(s) not ready: 5 of 6: ") and text.endswith(
        ", and 2 more"
    )
    assert re.search(
        rf"ObjectRef\({late[0].hex()}\) of task held, which (runs in|is queued on|waits for) .*, submitted \d+\.\d s ago",
        text,
    )
    assert refs[0].hex() not in text
    text = said(lambda: skate.get(refs[-1], timeout=0), skate.exceptions.GetTimeoutError)
    assert (
        f"1 of 1: ObjectRef({refs[-1].hex()}) of task after, which waits for 1 of its arguments, submitted"
        in text
    )
    text = said(lambda: gen.next_within(0.01), skate.exceptions.GetTimeoutError)
    assert text.startswith("the next item is not ready: it is one of task yields, which ")
    os.write(gate, b"x" * 5)
    skate.get(late)
    os.close(gate)


# ---- names of tasks


def test_tasks_of_datasets_are_named_after_their_operators():
    from skate.util import state

    class Same:
        def __call__(self, batch):
            return batch

    skate.data.range(100).map_batches(Same, concurrency=1).random_shuffle().take_all()
    summary = state.summarize_tasks()["cluster"]["summary"]
    assert {"ReadRange", "MapBatches(Same)", "RandomShuffleReduce"} <= {
        n.split("->")[0] for n in summary
    }
    names = {(t.name, t.func_or_class_name) for t in state.list_tasks()} | {
        (None, a.class_name) for a in state.list_actors()
    }
    assert not [
        n
        for pair in names
        for n in pair
        if n is not None and (not n or "stage" in n or n == ".__init__")
    ]
    assert "MapBatches(Same)" in {a.class_name for a in state.list_actors()}
    assert not [e for e in skate.timeline() if "stage" in str(e.get("name"))]


# ---- a column of two types


def csv(path, values):
    path.write_text("k,x\n" + "".join(f"{i},{v}\n" for i, v in enumerate(values)))


def lines(path, values):
    path.write_text("".join(json.dumps({"k": i, "x": v}) + "\n" for i, v in enumerate(values)))


def feather(path, values):
    from pyarrow.feather import write_feather

    write_feather(pa.table({"k": range(len(values)), "x": values}), str(path))


def orc(path, values):
    from pyarrow.orc import write_table

    write_table(pa.table({"k": range(len(values)), "x": values}), str(path))


@pytest.mark.parametrize(
    "how, write, way",
    [
        ("csv", csv, "column_types={'x': pyarrow.string()}"),
        ("json", lines, "explicit_schema=pyarrow.schema([('x', pyarrow.string())])"),
        ("feather", feather, "union them"),
        ("orc", orc, "union them"),
        ("parquet", lambda path, values: pq.write_table(pa.table({"x": values}), path), "schema="),
    ],
)
def test_files_of_two_types_are_named_with_the_way_out(tmp_path, how, write, way):
    a, b = tmp_path / f"a.{how}", tmp_path / f"b.{how}"
    write(a, [1, 2])
    write(b, ["one", "two"])
    read = getattr(skate.data, f"read_{how}")
    for name, use in {
        "take_all": lambda ds: ds.take_all(),
        "materialize": lambda ds: ds.materialize(),
        "to_pandas": lambda ds: ds.to_pandas(),
        "iter_batches": lambda ds: list(ds.iter_batches()),
        "sort": lambda ds: ds.sort("x").take_all(),
        "map_batches": lambda ds: ds.map_batches(lambda batch: batch, batch_size=4).take_all(),
        "groupby": lambda ds: ds.groupby("x").count().take_all(),
        "repartition": lambda ds: ds.repartition(1).take_all(),
        "random_shuffle": lambda ds: ds.random_shuffle().take_all(),
        "union": lambda ds: ds.union(skate.data.range(1).rename_columns({"id": "k"})).take_all(),
        "streaming_split": lambda ds: list(ds.streaming_split(1)[0].iter_rows()),
        "join": lambda ds: ds.join(
            skate.data.range(3),
            "inner",
            on=("x",) if how == "parquet" else ("k",),
            right_on=("id",),
        ).take_all(),
        "write": lambda ds: ds.write_parquet(str(tmp_path / "out")),
    }.items():
        with case(name):
            text = said(
                lambda use=use: use(read([str(a), str(b)], override_num_blocks=2)), TypeError
            )
            assert (
                f"column 'x' has type int64 in {a} and string in {b}, and no type holds the values of both exactly"
                in text
            )
            assert way in text
            assert (
                name != "write"
                or how == "parquet"
                or text.endswith("No file of this write is in its place")
            )


def test_the_way_out_of_two_types_is_one(tmp_path):
    csv(tmp_path / "a.csv", [1, 2])
    csv(tmp_path / "b.csv", ["one"])
    lines(tmp_path / "a.json", [1, 2])
    lines(tmp_path / "b.json", ["one"])
    asked = pyarrow.csv.ConvertOptions(column_types={"x": pa.string()})
    found = skate.data.read_csv(
        [str(tmp_path / f"{n}.csv") for n in "ab"], convert_options=asked
    ).take_all()
    assert [r["x"] for r in found] == ["1", "2", "one"]
    asked = pyarrow.json.ParseOptions(explicit_schema=pa.schema([("x", pa.string())]))
    found = skate.data.read_json(
        [str(tmp_path / f"{n}.json") for n in "ab"], parse_options=asked
    ).take_all()
    assert [r["x"] for r in found] == ["1", "2", "one"]


def test_types_of_two_reads_and_of_rows_far_down(tmp_path):
    csv(tmp_path / "a.csv", [1, 2])
    csv(tmp_path / "b.csv", ["one"])
    both = [skate.data.read_csv(str(tmp_path / f"{n}.csv")) for n in "ab"]
    text = said(lambda: both[0].union(both[1]).take_all(), TypeError)
    assert (
        f"column 'x' has type int64 in {tmp_path}/a.csv and string in {tmp_path}/b.csv" in text
        and "column_types" in text
    )
    assert said(lambda: both[0].union(both[1]).max("x"), TypeError) == text
    # behind the rows that determine the type
    csv(tmp_path / "c.csv", [*[10**9] * 400_000, "one"])
    text = said(lambda: skate.data.read_csv(str(tmp_path / "c.csv")).sum("x"))
    assert (
        "c.csv line 400002: column 'x': CSV conversion error to int64: invalid value 'one' (column_types of convert_options"
        in text
    )


def test_what_functions_make_is_no_matter_of_files(tmp_path):
    csv(tmp_path / "a.csv", [1, 2])
    csv(tmp_path / "b.csv", [3, 4])
    ds = skate.data.read_csv(
        [str(tmp_path / "a.csv"), str(tmp_path / "b.csv")], override_num_blocks=2
    )
    text = said(lambda: ds.map(lambda r: {"x": "text" if r["x"] > 2 else 1}).take_all(), TypeError)
    assert (
        "column 'x' has type int64 in what came from row 0 on and string in what came from row 2 on"
        in text
        and "a.csv" not in text
    )


# ---- JSON of several kinds, as text


def test_json_of_several_kinds_is_read_as_text_where_a_schema_asks(tmp_path):
    asked = pyarrow.json.ParseOptions(explicit_schema=pa.schema([("x", pa.string())]))
    records = [
        '{"x":1}',
        '{"x":"foo"}',
        '{"x":{"a":[1, 2], "é":"\\u00e9"}}',
        '{"x":null}',
        '{"y":2, "x":true}',
        '{ "x" : 1.50 , "y":3}',
        '{"x":[]}',
    ]
    want = ["1", "foo", '{"a":[1, 2], "é":"\\u00e9"}', None, "true", "1.50", "[]"]
    path = tmp_path / "a.json"
    path.write_text("\n".join(records))
    found = skate.data.read_json(str(path), parse_options=asked).take_all()
    assert [r["x"] for r in found] == want and [r["y"] for r in found] == [
        None,
        None,
        None,
        None,
        2,
        3,
        None,
    ]
    path.write_text("[" + ",".join(records) + "]")
    found = skate.data.read_json(str(path), parse_options=asked).take_all()
    assert [json.loads(r["x"]) if i in (2, 5) else r["x"] for i, r in enumerate(found)] == [
        *want[:2], {"a": [1, 2], "é": "é"}, *want[3:5], 1.5, "[]"
    ]  # fmt: skip
    path.write_text("\n".join(records))
    text = said(lambda: skate.data.read_json(str(path)).take_all())
    assert (
        "column 'x' is" in text
        and "a string in explicit_schema of parse_options reads both as text" in text
    )


def test_json_as_text_inside_of_objects_and_lists_and_with_bad_lines(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(
        '{"x":{"a":1,"b":[1,"z"]}}\n{"x":{"a":"q","b":[{"k":1}, null], "c": 1}}\n{"x":{"a":2}\n'
    )
    nested = pa.schema([("x", pa.struct([("a", pa.string()), ("b", pa.list_(pa.string()))]))])
    asked = pyarrow.json.ParseOptions(explicit_schema=nested)
    found = skate.data.read_json(str(path), parse_options=asked, on_error="skip").take_all()
    assert [r["x"]["a"] for r in found] == ["1", "q"] and [r["x"]["b"] for r in found] == [
        ["1", "z"],
        ['{"k":1}', None],
    ]
    assert "a.json line 3: " in said(
        lambda: skate.data.read_json(str(path), parse_options=asked).take_all()
    )


# ---- types


def test_cast_takes_types_of_arrow_and_numpy_and_says_what_else_it_got():
    import numpy as np
    from skate.data.datatype import DataType
    from skate.data.expressions import col

    for t in (pa.int32(), np.dtype("int32"), DataType.int32()):
        with case(t):
            assert (
                skate.data.range(2)
                .with_column("x", col("id").cast(t))
                .schema()
                .base_schema.field("x")
                .type
                == pa.int32()
            )
    start = "cast: target_type must be a skate.data.datatype.DataType, such as DataType.int64(), or an Arrow type, such as pyarrow.int64(), not "
    assert said(lambda: col("id").cast(int), TypeError) == start + "the class int"
    assert said(lambda: col("id").cast("int64"), TypeError) == start + "'int64', a str"

    class OfRay:  # Ray's own class, in the same process, has the same name
        __qualname__, __module__ = "DataType", "ray.data.datatype"

        def __repr__(self):
            return "DataType(int64)"

    assert (
        said(lambda: col("id").cast(OfRay()), TypeError)
        == start + "DataType(int64), a ray.data.datatype.DataType"
    )


# ---- names of Ray that skate does not have


OF_RAY = {  # public names of Ray 2.60
    "": """
        ActorClassID ActorID ClientBuilder DynamicObjectRefGenerator FunctionID JobID Language LoggingConfig NodeID ObjectID ObjectRef ObjectRefGenerator
        PlacementGroupID SCRIPT_MODE TaskID UniqueID WORKER_MODE WorkerID actor autoscaler available_resources cancel client cluster_resources cpp_function
        data get get_actor get_gpu_ids get_runtime_context init internal is_initialized java_actor_class java_function kill method nodes put remote shutdown
        timeline util wait widgets workflow
    """,
    "data": """
        ActorPoolStrategy ArrowTensorType ArrowVariableShapedTensorType BlockBasedFileDatasink Catalog CatalogAccessMode ClickHouseTableSettings DataContext
        DataIterator DatabricksUnityCatalog Dataset DatasetContext DatasetIterator DatasetSummary Datasink Datasource ExecutionOptions ExecutionResources
        FileShuffleConfig KafkaAuthConfig MixStoppingCondition NodeIdStr Preprocessor RandomSeedConfig ReadTask ReaderFormat ResolvedSource
        RowBasedFileDatasink SaveMode Schema SinkMode TaskPoolStrategy configure_logging from_arrow from_arrow_refs from_blocks from_daft from_dask
        from_huggingface from_items from_mars from_modin from_numpy from_numpy_refs from_pandas from_pandas_refs from_spark from_tf from_torch
        get_pyarrow_version list_stats_summaries parse_version pyarrow_version range range_tensor read_audio read_avro read_bigquery read_binary_files
        read_clickhouse read_csv read_databricks_tables read_datasource read_delta read_delta_sharing_tables read_hudi read_iceberg read_images read_json
        read_kafka read_lance read_lerobot read_mcap read_mongo read_numpy read_orc read_parquet read_snowflake read_sql read_text read_tfrecords
        read_unity_catalog read_videos read_webdataset read_zarr
    """,
    "data.Dataset": """
        add_column aggregate columns context copy count deserialize_lineage drop_columns explain filter flat_map get_dataset_id get_internal_block_refs
        get_stats_summary groupby has_serializable_lineage input_files iter_batches iter_internal_ref_bundles iter_jax_batches iter_rows iter_tf_batches
        iter_torch_batches iterator join limit map map_batches map_batches_internal materialize max mean min mix name num_blocks random_sample random_shuffle
        randomize_block_order rename_columns repartition schema select_columns serialize_lineage set_name show size_bytes sort split split_at_indices
        split_proportionately stats std streaming_split streaming_train_test_split sum summary take take_all take_batch to_arrow_refs to_daft to_dask to_mars
        to_modin to_numpy_refs to_pandas to_pandas_refs to_random_access_dataset to_spark to_tf train_test_split union unique with_column with_columns
        write_bigquery write_clickhouse write_csv write_datasink write_delta write_iceberg write_images write_json write_kafka write_lance write_mongo
        write_numpy write_orc write_parquet write_snowflake write_sql write_tfrecords write_turbopuffer write_webdataset zip
    """,
    "data.DataIterator": """
        get_context iter_batches iter_jax_batches iter_rows iter_tf_batches iter_torch_batches materialize schema stats to_tf to_torch
    """,
}


def test_each_public_name_of_ray_is_here_or_says_why_it_is_not():
    missing = 0
    for where, names in OF_RAY.items():
        of = skate
        for part in filter(None, where.split(".")):
            of = getattr(of, part)
        of = (
            skate.data.range(1)
            if where == "data.Dataset"
            else skate.data.range(1).iterator()
            if where == "data.DataIterator"
            else of
        )
        for name in names.split():
            with case(f"{where}.{name}"):
                try:
                    getattr(of, name)
                except AttributeError as e:
                    missing += 1
                    assert re.search(
                        rf"has no attribute '{name}' \((not planned: |skate\.).+\)$", str(e)
                    )
    assert missing > 40
    assert "not planned" in said(lambda: skate.data.read_hudi, AttributeError) and not hasattr(
        skate.data.range(1), "write_mongo"
    )
    assert (
        said(lambda: skate.data.range(1).write_parqet, AttributeError)
        == "'Dataset' object has no attribute 'write_parqet'; did you mean 'write_parquet'?"
    )
    assert (
        said(lambda: skate.data.range(1)._nothing, AttributeError)
        == "'Dataset' object has no attribute '_nothing'"
    )


# ---- packages that are not installed


def test_without_cloudpickle_the_package_is_named():
    code = """
import sys
sys.modules["cloudpickle"] = None
import skate, skate.data
skate.init(num_cpus=1)
for call in (
    lambda: skate.remote(lambda: 1).remote(),
    lambda: skate.put(lambda: 1),
    lambda: skate.data.range(3).map(lambda r: r).take_all(),
    lambda: skate.data.range(3).filter(fn=lambda r: True).count(),
    lambda: skate.data.range(3).take_all(),
):
    try:
        print(call())
    except Exception as e:
        print(type(e).__name__, e)
"""
    r = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    told = 'ModuleNotFoundError functions, and values that pickle does not take, go to other processes by the package cloudpickle, which is not installed here: pip install "cloudpickle>=3.1.1,<4"'
    assert r.stdout.splitlines() == [told] * 5, r.stdout + r.stderr


def test_without_pandas_the_package_is_named():
    code = """
import sys
sys.modules["pandas"] = None
import skate, skate.data
skate.init(num_cpus=1)
ds = skate.data.range(3)
for call in (
    lambda: ds.map_batches(lambda df: df, batch_format="pandas").take_all(),
    lambda: ds.groupby("id").map_groups(lambda df: df).take_all(),
    lambda: ds.add_column("x", lambda df: 1).take_all(),
    lambda: ds.to_pandas(),
    lambda: ds.take_batch(batch_format="pandas"),
):
    try:
        print(call())
    except Exception as e:
        print(type(e).__name__, e)
"""
    r = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    told = "ModuleNotFoundError this needs the package pandas, which is not installed here: pip install pandas"
    assert r.stdout.splitlines() == [told] * 5 and not r.stderr, r.stdout + r.stderr


def test_without_pillow_the_package_is_named():
    code = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name == "PIL":
            raise ModuleNotFoundError("No module named 'PIL'", name="PIL")

sys.meta_path.insert(0, Hidden())
from skate.data.values import pictures
try:
    pictures.Image.open("x.png")
except ImportError as e:
    print(e)
"""
    r = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    told = "this needs the package pillow, which is not installed here: pip install pillow"
    assert r.stdout.splitlines() == [told], r.stdout + r.stderr
