"""Arrays and objects in cells of DataFrames and Arrow tables, into blocks and back."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import skate.data as sd
from skate.data.extensions import (
    ArrowPythonObjectArray,
    ArrowTensorArray,
    ArrowTensorType,
    ArrowVariableShapedTensorArray,
    ArrowVariableShapedTensorType,
    PythonObjectArray,
    TensorArray,
)


class Thing:
    def __init__(self, n):
        self.n = n


def test_tensor_cells():
    t = np.arange(24).reshape(3, 2, 2, 2)
    df = pd.DataFrame({"i": [1, 2, 3], "t": TensorArray(t)})
    for op in (lambda a: 2 * (a + 1) / 3, lambda a: a % 2 == 0, lambda a: a & (3 * a) | (5 * a), lambda a: 10 - a):
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
    assert isinstance(col.type, ArrowTensorType) and col.type == ArrowTensorType((2, 2), pa.float64())
    assert not isinstance(col.type, ArrowVariableShapedTensorType)
    np.testing.assert_array_equal(col.to_numpy_ndarray(), a)
    ragged = ArrowVariableShapedTensorArray.from_numpy([np.ones((1, 2)), np.ones((3, 1))])
    assert isinstance(ragged.type, ArrowVariableShapedTensorType) and ragged.type == ArrowVariableShapedTensorType(pa.float64(), 2)
    assert [r["x"].shape for r in sd.from_arrow(pa.table({"x": ragged})).take_all()] == [(1, 2), (3, 1)]
    for bad in (object(), [], [np.ones(2), np.ones((2, 2))]):
        with pytest.raises(ValueError):
            ArrowVariableShapedTensorArray.from_numpy(bad)


def test_objects():
    values = ["a", 1, None, {"k": 2}, Thing(7)]
    col = ArrowPythonObjectArray.from_objects(values)
    assert col[1:3].to_pylist() == [1, None] and col[4].as_py().n == 7 and list(col.to_pandas())[:2] == ["a", 1]
    (back,) = [r for r in sd.from_arrow(pa.table({"o": col})).map(lambda r: r).take_all() if isinstance(r["o"], Thing)]
    assert back["o"].n == 7
    cells = PythonObjectArray([1.0, float("nan"), None])
    assert cells.isna().tolist() == [False, True, True] and len(PythonObjectArray._concat_same_type([cells, cells])) == 6
    assert cells.take([0, -1], allow_fill=True, fill_value=5).to_numpy().tolist() == [1.0, 5]
    with pytest.raises(TypeError, match="sequence of objects"):
        PythonObjectArray(object())
