"""Arrays and objects in cells of DataFrames and Arrow tables are converted to blocks and back."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import skate.data as sd
from skate.data.extensions import (
    ArrowPythonObjectArray,
    ArrowTensorArray,
    ArrowTensorType,
    ArrowTensorTypeV2,
    ArrowVariableShapedTensorArray,
    ArrowVariableShapedTensorType,
    FixedShapeTensorFormat,
    PythonObjectArray,
    TensorArray,
)
from skate.data.values.types import PythonObjectType
from skate.data.values.unify import cast_batch


class Thing:
    def __init__(self, n):
        self.n = n


def test_tensor_cells():
    t = np.arange(24).reshape(3, 2, 2, 2)
    df = pd.DataFrame({"i": [1, 2, 3], "t": TensorArray(t)})
    for op in (
        lambda a: 2 * (a + 1) / 3,
        lambda a: a % 2 == 0,
        lambda a: a & (3 * a) | (5 * a),
        lambda a: 10 - a,
    ):
        np.testing.assert_array_equal(np.asarray(op(df["t"]).array.values), op(t))
    assert df["t"].dtype.element_shape == (2, 2, 2) and np.array_equal(df["t"].iloc[1], t[1])
    got = sd.from_pandas(df).map_batches(lambda b: {"t": b["t"] + 1, "i": b["i"]}).take_all()
    assert [np.array_equal(r["t"], t[r["i"] - 1] + 1) for r in got] == [True] * 3
    ragged = TensorArray([np.ones((1, 2)), np.zeros((2, 2))])
    rows = sd.from_pandas(pd.DataFrame({"t": ragged})).take_all()
    assert [r["t"].shape for r in rows] == [(1, 2), (2, 2)]
    both = TensorArray._concat_same_type([TensorArray(t), TensorArray(t)])
    assert len(both) == 6 and len(both.take([0, 5])) == 2 and not both.isna().any()
    for bad in (object(), [object()], np.array([object()])):
        with pytest.raises(TypeError):
            TensorArray(bad)


def test_arrow_tensors():
    a = np.arange(12.0).reshape(3, 2, 2)
    col = ArrowTensorArray.from_numpy(a)
    assert isinstance(col.type, ArrowTensorTypeV2) and col.type == ArrowTensorTypeV2(
        (2, 2), pa.float64()
    )
    assert list(pa.table({"x": col}).to_pandas()["x"].dtype.element_shape) == [2, 2]
    np.testing.assert_array_equal(col.to_numpy_ndarray(), a)
    ragged = ArrowVariableShapedTensorArray.from_numpy([np.ones((1, 2)), np.ones((3, 1))])
    assert isinstance(
        ragged.type, ArrowVariableShapedTensorType
    ) and ragged.type == ArrowVariableShapedTensorType(pa.float64(), 2)
    assert [r["x"].shape for r in sd.from_arrow(pa.table({"x": ragged})).take_all()] == [
        (1, 2),
        (3, 1),
    ]
    for bad in (object(), [], [np.ones(2), np.ones((2, 2))]):
        with pytest.raises(ValueError):
            ArrowVariableShapedTensorArray.from_numpy(bad)


@pytest.mark.parametrize("fmt", list(FixedShapeTensorFormat))
def test_tensor_formats(fmt, tmp_path, monkeypatch):
    monkeypatch.setattr(sd.DataContext.get_current(), "arrow_fixed_shape_tensor_format", fmt)
    for a in (
        np.arange(12.0).reshape(3, 2, 2),
        np.array([[True, False], [False, True]]),
        np.array([["a", "bc"], ["d", ""]]),
        np.zeros((2, 0, 3)),
        np.arange(6, dtype=np.int16).reshape(3, 2)[::2],
    ):
        col = ArrowTensorArray.from_numpy(a)
        np.testing.assert_array_equal(col.to_numpy_ndarray(), a)
        np.testing.assert_array_equal(np.asarray(col[1].to_numpy()), a[1])
        np.testing.assert_array_equal(col[1:].to_numpy_ndarray(), a[1:])
        back = sd.from_arrow(pa.table({"x": col})).map_batches(lambda b: b).to_arrow()["x"]
        assert back.type == col.type and back.combine_chunks().storage.equals(col.storage)
    a = np.arange(12).reshape(3, 2, 2)
    sd.from_numpy(a).write_parquet(str(tmp_path))
    ds = sd.read_parquet(str(tmp_path))
    assert isinstance(ds.schema().types[0], fmt.to_type())
    assert isinstance(
        ds.map_batches(lambda b: {"y": b["data"] + 1}).schema().types[0], fmt.to_type()
    )
    np.testing.assert_array_equal(
        ds.map_batches(lambda b: {"y": b["data"] + 1}).take_batch()["y"], a + 1
    )
    with_null = (
        pa.ExtensionArray.from_storage(
            fmt.to_type()((2,), pa.int64()),
            pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int64(), 2)).cast(
                fmt.to_type()((2,), pa.int64()).storage_type
            ),
        )
        if fmt is not FixedShapeTensorFormat.ARROW_NATIVE
        else None
    )
    if with_null is not None:
        rows = sd.from_arrow(pa.table({"x": with_null})).map(lambda r: r).take_all()
        assert [None if r["x"] is None else r["x"].tolist() for r in rows] == [[1, 2], None, [3, 4]]
    with pytest.raises(ValueError):
        sd.DataContext.get_current().arrow_fixed_shape_tensor_format = "v9"


def test_the_tensor_format_of_the_run_holds_for_readers(tmp_path, monkeypatch):
    """Workers that ran with another setting before make arrays by the present setting."""
    a = np.arange(24).reshape(3, 2, 4)
    sd.from_items([{"x": v.tobytes()} for v in a]).write_parquet(str(tmp_path / "p"))
    sd.from_numpy(a).write_numpy(str(tmp_path / "n"), column="data")
    for fmt in (*FixedShapeTensorFormat, *FixedShapeTensorFormat):
        monkeypatch.setattr(sd.DataContext.get_current(), "arrow_fixed_shape_tensor_format", fmt)
        for ds in (
            sd.read_parquet(
                str(tmp_path / "p"), tensor_column_schema={"x": (a.dtype, a.shape[1:])}
            ),
            sd.read_numpy(str(tmp_path / "n")),
            sd.range_tensor(3, shape=(2, 2)),
        ):
            assert isinstance(
                ds.take_batch(batch_format="pyarrow").schema.types[0], fmt.to_type()
            ), (fmt, ds)


def test_tensor_types():
    v1, v2, ragged = (
        ArrowTensorType((2, 3), pa.int64()),
        ArrowTensorTypeV2((2, 3), pa.int64()),
        ArrowVariableShapedTensorType(pa.int64(), 2),
    )
    assert (
        len(
            {
                v1,
                v2,
                ragged,
                ArrowTensorType((3, 2), pa.int64()),
                ArrowTensorType((2, 3), pa.int32()),
            }
        )
        == 5
    )
    assert ragged == ArrowVariableShapedTensorType(pa.int64(), 3) and pickle.loads(
        pickle.dumps([v1, v2, ragged])
    ) == [v1, v2, ragged]
    for t in (v1, v2):  # as Ray writes them: with a pickled shape
        assert type(t).__arrow_ext_deserialize__(t.storage_type, pickle.dumps((2, 3))) == t
        with pytest.raises(ValueError, match="are numbers"):
            type(t).__arrow_ext_deserialize__(t.storage_type, pickle.dumps(print))
    base = np.arange(6)
    col = ArrowVariableShapedTensorArray.from_numpy([base[:2], base[2:]])
    # nothing is copied
    assert col.storage.field("data").buffers()[3].address == base.__array_interface__["data"][0]
    assert [v.tolist() for v in col.to_numpy()] == [[0, 1], [2, 3, 4, 5]] and [
        v.as_py().tolist() for v in col[1:]
    ] == [[2, 3, 4, 5]]
    canonical = pa.StructArray.from_arrays(
        [pa.array([[1, 2], [3]]), pa.array([[2, 1], [1, 1]], pa.list_(pa.int32(), 2))],
        ["data", "shape"],
    )
    field = pa.field(
        "x",
        canonical.type,
        metadata={
            "ARROW:extension:name": "arrow.variable_shape_tensor",
            "ARROW:extension:metadata": "{}",
        },
    )
    rb = pa.RecordBatch._import_from_c_capsule(
        *pa.RecordBatch.from_arrays([canonical], schema=pa.schema([field])).__arrow_c_array__()
    )
    assert [r["x"].shape for r in sd.from_arrow(rb).map(lambda r: r).take_all()] == [(2, 1), (1, 1)]


def test_pandas_batches_of_tensors_without_casting(monkeypatch):
    monkeypatch.setattr(sd.DataContext.get_current(), "enable_tensor_extension_casting", False)
    a = np.arange(8).reshape(2, 2, 2)
    (df,) = sd.from_numpy(a).iter_batches(batch_format="pandas")
    assert isinstance(df["data"].array, TensorArray) and np.array_equal(df["data"].to_numpy(), a)


def test_ints_beyond_64_bits():
    big = [{"a": 1}, {"a": None}, {"a": -(2**100)}, {"a": 2**64}]
    assert sd.from_items(big).take_all() == big == sd.from_items(big).map(lambda r: r).take_all()
    ds = (
        sd.range(4, override_num_blocks=4)
        .map_batches(lambda b: {"a": [int(b["id"][0]) or 2**64]})
        .materialize()
    )
    assert ds.schema().types == [PythonObjectType()] and [r["a"] for r in ds.take_all()] == [
        2**64,
        1,
        2,
        3,
    ]
    with pytest.raises(TypeError, match="values of mixed types"):
        sd.from_items([{"a": 2**100}, {"a": "x"}])


def test_objects():
    values = ["a", 1, None, {"k": 2}, Thing(7)]
    col = ArrowPythonObjectArray.from_objects(values)
    assert (
        col[1:3].to_pylist() == [1, None]
        and col[4].as_py().n == 7
        and list(col.to_pandas())[:2] == ["a", 1]
    )
    (back,) = [
        r
        for r in sd.from_arrow(pa.table({"o": col})).map(lambda r: r).take_all()
        if isinstance(r["o"], Thing)
    ]
    assert back["o"].n == 7
    cells = PythonObjectArray([1.0, float("nan"), None])
    assert (
        cells.isna().tolist() == [False, True, True]
        and len(PythonObjectArray._concat_same_type([cells, cells])) == 6
    )
    assert cells.take([0, -1], allow_fill=True, fill_value=5).to_numpy().tolist() == [1.0, 5]
    with pytest.raises(TypeError, match="sequence of objects"):
        PythonObjectArray(object())


def test_arrays_of_other_shapes_in_one_write(tmp_path):
    """Each file has one schema; the files are read back in one schema for all."""
    ds = sd.range(3).map(lambda r: {"i": r["id"], "a": np.full((r["id"] + 1, 2), r["id"], np.int8)})
    ds.write_parquet(str(tmp_path / "t"), concurrency=1)
    back = sd.read_parquet(str(tmp_path / "t"), override_num_blocks=1)
    assert isinstance(back.schema().base_schema.field("a").type, ArrowVariableShapedTensorType)
    assert [r["a"].shape for r in back.take_all()] == [(1, 2), (2, 2), (3, 2)]
    sd.from_blocks([pa.table({"v": [1, 2]}), pa.table({"v": [0.5]})]).write_parquet(
        str(tmp_path / "n"), concurrency=1
    )
    assert sd.read_parquet(str(tmp_path / "n")).sum("v") == 3.5
    with pytest.raises(TypeError, match="column 'v' has type"):
        sd.from_blocks([pa.table({"v": [1]}), pa.table({"v": ["x"]})]).write_parquet(
            str(tmp_path / "bad"), concurrency=1
        )


def test_casting_tensors_looks_at_shapes():
    t = ArrowTensorArray.from_numpy(np.zeros((2, 2, 3)))
    rb = pa.RecordBatch.from_arrays([t], names=["a"])
    for shape in ((3, 2), (6,), (2, 2)):
        with pytest.raises(TypeError, match="'a'"):
            cast_batch(rb, pa.schema([("a", ArrowTensorTypeV2(shape, pa.float64()))]))
    for to in (pa.fixed_shape_tensor(pa.float64(), (2, 3)), ArrowTensorType((2, 3), pa.float64())):
        assert cast_batch(rb, pa.schema([("a", to)])).column(0).type == to
    lists = pa.RecordBatch.from_arrays([pa.array([[1, 2], [3, 4]])], names=["a"])
    assert cast_batch(lists, pa.schema([("a", ArrowTensorTypeV2((2,), pa.int64()))])).column(
        0
    ).to_numpy().tolist() == [[1, 2], [3, 4]]
    with pytest.raises(TypeError, match="'a'"):
        cast_batch(lists, pa.schema([("a", ArrowTensorTypeV2((3,), pa.int64()))]))


def test_delegating_block_builder():
    """The class with which datasources written as Ray's documentation shows collect their rows."""
    from skate.data._internal.delegating_block_builder import DelegatingBlockBuilder
    from skate.data._internal.util import is_null, rows_same

    b = DelegatingBlockBuilder()
    assert b.build().num_rows == 0
    b.add({"a": 1, "image": np.zeros((2, 3), np.uint8)})
    b.add_batch({"a": np.array([2, 3]), "image": np.ones((2, 2, 3), np.uint8)})
    assert b.num_rows() == 3 and b.get_estimated_memory_usage() > 0
    t = b.build()
    assert t["a"].to_pylist() == [1, 2, 3] and sd.from_arrow(t).take_all()[2]["image"].tolist() == [
        [1, 1, 1],
        [1, 1, 1],
    ]
    with pytest.raises(TypeError, match="a row is a dict"):
        b.add([1])
    assert [is_null(v) for v in (None, float("nan"), pd.NA, pd.NaT, 0, "", float("inf"))] == [
        True
    ] * 4 + [False] * 3
    one = pd.DataFrame({"a": [1, 2, 2], "b": [None, "x", "x"]})
    assert (
        rows_same(one, one[["b", "a"]][::-1])
        and not rows_same(one, one.assign(a=[1, 1, 2]))
        and not rows_same(one, one[:2])
    )


BESIDE = '''
import sys, types
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

MODULE = "ray.data._internal.tensor_extensions.arrow"
THEIRS = """
import json
import pyarrow as pa

class ArrowTensorTypeV2(pa.ExtensionType):
    def __init__(self, shape, dtype):
        self.shape = tuple(shape)
        super().__init__(pa.large_list(dtype), "ray.data.arrow_tensor_v2")

    def __arrow_ext_serialize__(self):
        return json.dumps(self.shape).encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, serialized):
        return cls(json.loads(serialized), storage.value_type)

try:
    pa.register_extension_type(ArrowTensorTypeV2((0,), pa.int64()))
except pa.ArrowKeyError:
    pass

def made():
    flat = pa.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    storage = pa.LargeListArray.from_arrays([0, 4, 8], flat)
    return pa.table({"x": pa.ExtensionArray.from_storage(ArrowTensorTypeV2((2, 2), pa.float64()), storage)})

def through(t):
    "As a worker of theirs gets it."
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, t.schema) as w:
        w.write_table(t)
    del t
    return pa.ipc.open_stream(sink.getvalue()).read_all()

def type_of(t):
    return type(t.schema.field("x").type).__module__
"""

def theirs():
    module = types.ModuleType(MODULE)
    sys.modules[MODULE] = module
    exec(THEIRS, module.__dict__)
    return module

order, folder = sys.argv[1:]
if order == "theirs first":
    ray = theirs()
import skate, skate.data
skate.init(num_cpus=1)
if order == "ours first":
    skate.data.from_numpy(np.zeros((2, 2, 2))).materialize()
    ray = theirs()

OURS = "skate.data.values.tensor_types"
def x(ds):
    t = next(iter(ds.iter_batches(batch_format="pyarrow")))
    assert type(t.schema.field("x").type).__module__ == OURS, t.schema
    return ds.take_batch(2)["x"].tolist()

want = np.arange(1.0, 9.0).reshape(2, 2, 2).tolist()
own = skate.data.from_items([{"x": np.array(v)} for v in want])
for _ in range(2):  # once more, behind what the other one did
    assert x(own.map_batches(lambda b: b)) == want
    assert x(own.materialize()) == want
    assert ray.type_of(ray.through(ray.made())) == MODULE
    assert x(skate.data.from_arrow(ray.through(ray.made()))) == want
    assert x(skate.data.from_arrow(ray.made().to_batches())) == want
    ours = next(iter(own.iter_batches(batch_format="pyarrow")))
    assert ray.type_of(ray.through(ours)) == MODULE  # what it is given by us
    pq.write_table(ray.made(), folder + "/theirs.parquet")
    own.write_parquet(folder + "/ours", mode="overwrite")
    assert x(skate.data.read_parquet(folder + "/theirs.parquet")) == want
    assert x(skate.data.read_parquet(folder + "/ours")) == want
    sink = pa.BufferOutputStream()  # neither skate nor Ray asks for the type here, so the mark in its parameters says whose it is
    with pa.ipc.new_stream(sink, ours.schema) as w:
        w.write_table(ours)
    assert ray.type_of(pa.ipc.open_stream(sink.getvalue()).read_all()) == OURS
print("fine")
'''


@pytest.mark.parametrize("order", ["theirs first", "ours first"])
def test_ray_data_with_its_own_classes_in_the_same_process(order, tmp_path):
    """Uses a stand-in for Ray Data, which registers its classes under the same names as skate; for
    the real package see tests/py/cluster/test_ray.py."""
    program = tmp_path / "program.py"
    program.write_text(BESIDE)
    r = subprocess.run(
        [sys.executable, str(program), order, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert r.stdout == "fine\n", r.stdout + r.stderr
