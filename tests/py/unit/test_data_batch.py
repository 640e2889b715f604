"""Conversion of batches between Arrow and the formats of users: a function that returns its input
changes nothing, for every type and format, or an error is raised."""

import datetime as dt
import decimal
import uuid

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from cases import case
from hypothesis import given
from hypothesis import strategies as st
from identities import FORMATS, numpy_copy, pandas_identity, rows_identity
from rounds import examples
from skate.data.values import batch, frames, from_arrow, numpy_batch, row_dicts, to_arrow
from skate.data.values.tensor_types import (
    ArrowTensorTypeV2,
    ArrowVariableShapedTensorType,
    is_fixed,
    of_flat,
)
from skate.data.values.types import is_ragged

N = None
TZ = (None, "UTC", "Europe/Berlin", "+05:30")


def columns():
    c = {}
    for t in (
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.uint8(),
        pa.uint16(),
        pa.uint32(),
        pa.uint64(),
    ):
        c[str(t)] = pa.array([1, N, 3], t)
        c[f"{t} full"] = pa.array([1, 2, 3], t)
    c["int64 large"] = pa.array([2**53 + 1, N, -(2**63)], pa.int64())
    c["uint64 large"] = pa.array([2**64 - 1, N, 0], pa.uint64())
    for t in (pa.float16(), pa.float32(), pa.float64()):
        # pyarrow 20 can make float16 only from NumPy's float16
        c[str(t)] = pa.array([np.float16(1.5), N, np.float16("nan")], t)
        c[f"{t} full"] = pa.array(np.array([1.5, float("nan"), -0.0], np.float16)).cast(t)
    c["float32 fine"] = pa.array([0.1, N, 1e-40], pa.float32())
    c["bool"] = pa.array([True, N, False])
    c["bool full"] = pa.array([True, True, False])
    for t in (pa.string(), pa.large_string(), pa.string_view()):
        c[str(t)] = pa.array(["a", N, "\0é" + "b" * 20], t)
    for t in (pa.binary(), pa.large_binary(), pa.binary_view()):
        c[str(t)] = pa.array([b"a\0", N, b"\xff" * 20], t)
    c["fixed binary"] = pa.array([b"ab", N, b"cd"], pa.binary(2))
    for u in ("s", "ms", "us", "ns"):
        for tz in TZ:
            c[f"timestamp {u} {tz}"] = pa.array([1, N, 1234567890], pa.timestamp(u, tz))
            c[f"timestamp {u} {tz} full"] = pa.array([1, 7, -123456789], pa.timestamp(u, tz))
        c[f"duration {u}"] = pa.array([1, N, -5], pa.duration(u))
    c["date32"] = pa.array([dt.date(1, 1, 1), N, dt.date(9999, 12, 31)])
    c["date32 full"] = pa.array([dt.date(1, 1, 1), dt.date(2024, 2, 29), dt.date(9999, 12, 31)])
    c["date64"] = pa.array([dt.date(2024, 1, 1), N, dt.date(1969, 1, 1)], pa.date64())
    for t in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")):
        c[str(t)] = pa.array([dt.time(1, 2, 3), N, dt.time(0)], t)
    D = decimal.Decimal
    c["decimal128"] = pa.array([D("1.10"), N, D("-99999.01")], pa.decimal128(20, 2))
    c["decimal256"] = pa.array([D("1.10"), N, N], pa.decimal256(50, 5))
    c["null"] = pa.nulls(3)
    c["dictionary"] = pa.array(["x", N, "y"]).dictionary_encode()
    c["dictionary int"] = pa.array([5, N, 6], pa.int16()).dictionary_encode()
    c["dictionary ordered"] = pa.DictionaryArray.from_arrays(
        pa.array([1, 0, N], pa.int8()), pa.array(["a", "b"]), ordered=True
    )
    c["run end"] = pc.run_end_encode(pa.array(["q", "q", N]))
    c["list"] = pa.array([[1, 2], N, []])
    c["list nulls"] = pa.array([[1, N], N, []])
    c["list int8"] = pa.array([[1, 2], [3], []], pa.list_(pa.int8()))
    c["list float32"] = pa.array([[0.1], N, [float("nan")]], pa.list_(pa.float32()))
    c["list float32 nulls"] = pa.array([[0.1, N], N, [float("nan")]], pa.list_(pa.float32()))
    c["large list"] = pa.array([[1, 2], N, []], pa.large_list(pa.int32()))
    c["list str"] = pa.array([["a", N], N, []])
    c["list large str"] = pa.array([["a", N], N, []], pa.list_(pa.large_string()))
    c["list list"] = pa.array([[[1], [N]], N, [[]]])
    c["list view"] = pa.array([[1], N, [2, 3]], pa.list_view(pa.int32()))
    c["list timestamp"] = pa.array([[1], N, [2, 3]], pa.list_(pa.timestamp("ns")))
    c["fixed list"] = pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int16(), 2))
    c["fixed list nulls"] = pa.array([[1, 2], N, [5, N]], pa.list_(pa.int16(), 2))
    c["fixed list float32"] = pa.array([[0.1, 2], N, [5, 6]], pa.list_(pa.float32(), 2))
    c["fixed list str"] = pa.array([["a", "b"], N, ["c", N]], pa.list_(pa.string(), 2))
    c["struct"] = pa.array([{"a": 1, "b": "x"}, N, {"a": N, "b": N}])
    c["struct narrow"] = pa.array(
        [{"a": 1, "b": 0.1}, N, {"a": N, "b": N}],
        pa.struct([("a", pa.int8()), ("b", pa.float32())]),
    )
    c["struct timestamp"] = pa.array(
        [{"a": dt.datetime(2020, 1, 1)}, N, N], pa.struct([("a", pa.timestamp("s", "UTC"))])
    )
    c["map"] = pa.array([[("a", 1)], N, []], pa.map_(pa.string(), pa.int32()))
    c["union"] = pa.UnionArray.from_dense(
        pa.array([0, 1, 0], pa.int8()),
        pa.array([0, 0, 1], pa.int32()),
        [pa.array([1, 2]), pa.array(["x"])],
    )
    c["tensor uint8"] = to_arrow.array_from_numpy(
        np.arange(12, dtype=np.uint8).reshape(3, 2, 2), None
    )
    c["tensor float32"] = to_arrow.array_from_numpy(
        np.arange(6, dtype=np.float32).reshape(3, 2), None
    )
    c["tensor bool"] = to_arrow.array_from_numpy(np.ones((3, 2, 1), bool), None)
    perm = pa.fixed_shape_tensor(pa.int32(), [2, 3], dim_names=["h", "w"], permutation=[1, 0])
    c["tensor permuted"] = pa.ExtensionArray.from_storage(
        perm, pa.FixedSizeListArray.from_arrays(pa.array(range(18), pa.int32()), 6)
    )
    c["tensor nulls"] = pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.int32(), [2]),
        pa.array([[1, 2], N, [3, 4]], pa.list_(pa.int32(), 2)),
    )
    for t in (pa.float16(), pa.float32(), pa.float64()):
        c[f"tensor {t} nulls"] = pa.ExtensionArray.from_storage(
            pa.fixed_shape_tensor(t, [2]),
            pa.array(
                [np.array([1, 2], t.to_pandas_dtype()), N, np.array([3, 4], t.to_pandas_dtype())],
                pa.list_(t, 2),
            ),
        )
    for name, t in (("ints", pa.int16()), ("floats", pa.float32()), ("large ints", pa.int64())):
        values = pa.array([1, N, 2**60 if name == "large ints" else 3, 4, N, N], t)
        c[f"tensor of {name} with nulls inside"] = pa.ExtensionArray.from_storage(
            pa.fixed_shape_tensor(t, [2]), pa.FixedSizeListArray.from_arrays(values, 2)
        )
        c[f"ray tensor of {name} with nulls inside"] = of_flat(
            values, 3, ArrowTensorTypeV2((2,), t)
        )
        c[f"fixed list of {name} with nulls inside"] = pa.FixedSizeListArray.from_arrays(values, 2)
        c[f"list of {name} with nulls inside"] = pa.ListArray.from_arrays(
            pa.array([0, 1, 4, 6], pa.int32()), values
        )
    c["fixed list float32 null inside"] = pa.array([[0.1, N], N, [N, N]], pa.list_(pa.float32(), 2))
    c["ray tensor nulls"] = to_arrow.array_from_numpy(
        np.arange(6, dtype=np.float32).reshape(3, 2), None
    ).take(pa.array([0, N, 2]))
    c["ray tensor of ints nulls"] = to_arrow.array_from_numpy(
        np.arange(6).reshape(3, 2), None
    ).take(pa.array([0, N, 2]))
    c["bool full of null"] = pa.nulls(3, pa.bool_())
    c["large dictionary"] = pa.array([2**60 + 1, N, 3]).dictionary_encode()
    c["bool dictionary"] = pa.DictionaryArray.from_arrays(
        pa.array([0, N, 1], pa.int8()), pa.array([True, False])
    )
    c["float64 both"] = pa.array([float("nan"), N, -0.0])
    c["tensor ragged"] = to_arrow.from_objects(
        [np.ones((2, 3), np.uint8), N, np.zeros((1, 0), np.uint8)], N
    )
    for name, values in (
        ("ints", pa.array([1, N, 3, 4, N], pa.int16())),
        ("floats", pa.array([1, N, float("nan"), 4, N], pa.float32())),
    ):
        data = pa.LargeListArray.from_arrays(pa.array([0, 4, 4, 5]), values)
        shape = pa.array([[2, 2], [0, 1], [1, 1]], pa.list_(pa.int64()))
        storage = pa.StructArray.from_arrays(
            [data, shape], names=["data", "shape"], mask=pa.array([False, True, False])
        )
        c[f"tensor ragged of {name} with nulls inside"] = pa.ExtensionArray.from_storage(
            ArrowVariableShapedTensorType(values.type, 2), storage
        )
    c["uuid"] = pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([uuid.UUID(int=1).bytes, N, uuid.UUID(int=2).bytes], pa.binary(16))
    )
    c["json"] = pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a":1}', N, "2"]))
    c["bool8"] = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([0, N, 1], pa.int8()))
    c["opaque"] = pa.ExtensionArray.from_storage(
        pa.opaque(pa.int32(), "t", "v"), pa.array([0, N, 1], pa.int32())
    )
    c["interval"] = pa.array([(1, 2, 3), N, (4, 5, 6)], pa.month_day_nano_interval())
    for t in (pa.int32(), pa.string(), pa.list_(pa.int32()), pa.timestamp("s", "UTC")):
        c[f"only null {t}"] = pa.nulls(3, t)
    return c


COLUMNS = columns()
SHAPES = {
    "as is": lambda c: c,
    "slice": lambda c: pa.concat_arrays([c, c]).slice(2, 3),
    "empty": lambda c: c.slice(0, 0),
}


RAISES = {
    ("union", f)
    for f in (
        "numpy_copy",
        "numpy_pieces",
        "numpy_some",
        "numpy_writable",
        "pandas_identity",
        "pandas_copy",
        "rows_identity",
    )
}


def assert_same(a, b):
    assert a.type.equals(b.type)
    assert repr(a.to_pylist()) == repr(b.to_pylist())


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", SHAPES)
def test_identity(shape, fmt):
    for name in COLUMNS:
        with case(name):
            identity(name, shape, fmt)


def identity(name, shape, fmt):
    col = SHAPES[shape](COLUMNS[name])
    rb = pa.RecordBatch.from_arrays([col], names=["x"])
    if (name, fmt.__name__) in RAISES:
        if shape != "empty":
            with pytest.raises(TypeError, match="'x'|dense_union"):
                fmt(rb)
        return
    out = fmt(rb)
    if out is None:
        assert shape == "empty"
        return
    assert_same(col, out.column(0))


@pytest.mark.parametrize(
    "fmt", [numpy_copy, pandas_identity, rows_identity], ids=lambda f: f.__name__
)
def test_nanoseconds_of_a_time_are_not_dropped(fmt):
    rb = pa.RecordBatch.from_arrays([pa.array([1001, 5], pa.time64("ns"))], names=["x"])
    with pytest.raises(ValueError, match="'x'.*pyarrow"):
        fmt(rb)


def test_smallest_timestamp_is_not_taken_for_null():
    rb = pa.RecordBatch.from_arrays(
        [pa.array([-(2**63)], pa.int64()).view(pa.timestamp("us"))], names=["when"]
    )
    with pytest.raises(ValueError, match="'when'.*pyarrow"):
        numpy_batch.to_numpy(rb)


SCALARS = {
    pa.int8(): st.integers(-128, 127),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.bool_(): st.booleans(),
    pa.float64(): st.floats(allow_nan=True),
    pa.float32(): st.floats(width=32),
    pa.string(): st.text(max_size=5),
    pa.large_binary(): st.binary(max_size=5),
    pa.timestamp("us", "UTC"): st.integers(-(2**40), 2**40),
    pa.duration("ms"): st.integers(-(2**40), 2**40),
    pa.date32(): st.integers(-1000, 10000),
    pa.list_(pa.int32()): st.lists(st.one_of(st.none(), st.integers(-5, 5)), max_size=3),
    pa.list_(pa.string()): st.lists(st.text(max_size=2), max_size=2),
    pa.struct([("a", pa.int16()), ("b", pa.list_(pa.float32()))]): st.fixed_dictionaries(
        {
            "a": st.one_of(st.none(), st.integers(0, 9)),
            "b": st.lists(st.floats(width=32), max_size=2),
        }
    ),
}


@st.composite
def batches(draw):
    n = draw(st.integers(1, 6))
    cols = []
    for t in draw(st.lists(st.sampled_from(list(SCALARS)), min_size=1, max_size=4)):
        values = draw(st.lists(st.one_of(st.none(), SCALARS[t]), min_size=n, max_size=n))
        cols.append(pa.array(values, t))
    at = draw(st.integers(0, n - 1))
    return pa.RecordBatch.from_arrays(cols, names=[f"c{i}" for i in range(len(cols))]).slice(at)


@examples(60)
@given(batches(), st.sampled_from(FORMATS))
def test_identity_of_any_values(rb, fmt):
    out = fmt(rb)
    assert out.schema.names == rb.schema.names
    for a, b in zip(rb.columns, out.columns):
        assert_same(a, b)


def test_what_numpy_functions_see():
    rb = pa.RecordBatch.from_pydict(
        {"i": [1, 2], "n": [1, None], "s": ["a", None], "l": [[1, 2], [3]], "b": [True, False]}
    )
    d = numpy_batch.NumpyBatch(rb)
    assert d["i"].dtype == np.int64 and not d["i"].flags.writeable
    assert (
        type(d["n"]) is np.ndarray
        and d["n"].dtype == np.float64
        and np.isnan(d["n"]).tolist() == [False, True]
    )
    assert d["s"].dtype == object and d["s"].tolist() == ["a", None]
    assert d["l"][0].dtype == np.int64 and d["l"][0].tolist() == [1, 2]
    assert d["b"].dtype == bool
    out = batch.from_batch({"n": d["n"] + 1}, "f", rb, d)[0]
    assert out.column(0).to_pylist() == [2, None] and out.column(0).type == pa.int64()


def test_a_batch_is_a_dict_that_converts_what_is_used():
    rb = pa.RecordBatch.from_pydict({"a": [1, 2], "s": ["x", "y"], "l": [[1], [2]]})
    d = numpy_batch.NumpyBatch(rb)
    assert (
        isinstance(d, dict)
        and len(d) == 3
        and "s" in d
        and list(d) == ["a", "s", "l"] == list(d.keys())
        and not d.given
    )
    d["b"] = d["a"] * 2
    assert (
        list(d.given) == ["a"]
        and batch.from_batch(d, "f", rb, d)[0].column("s").equals(rb.column("s"))
        and list(d.given) == ["a"]
    )
    for make in (
        dict,
        lambda b: {**b},
        lambda b: b.copy(),
        lambda b: b | {},
        lambda b: {} | b,
        lambda b: (lambda **k: k)(**b),
        lambda b: __import__("pickle").loads(__import__("pickle").dumps(b)),
        lambda b: {k: b.get(k) for k in b},
        lambda b: dict(b.items()),
        lambda b: dict(zip(b, b.values())),
        lambda b: {k: b.pop(k) for k in list(b)},
    ):
        plain = make(numpy_batch.NumpyBatch(rb))
        assert (
            type(plain) is dict
            and all(type(v) is np.ndarray for v in plain.values())
            and plain["s"].tolist() == ["x", "y"]
        )
    assert repr(numpy_batch.NumpyBatch(rb)) == repr(dict(numpy_batch.NumpyBatch(rb)))
    with pytest.raises(KeyError):
        d["zz"]


def test_changes_in_place_are_seen():
    rb = pa.RecordBatch.from_pydict({"s": ["x", "y"], "b": [b"1", b"2"], "o": [{"k": 1}, {"k": 2}]})
    d = numpy_batch.NumpyBatch(rb)
    d["s"][0] = "changed"
    d["o"][1]["k"] = 7
    assert batch.from_batch(d, "f", rb, d)[0].to_pylist() == [
        {"s": "changed", "b": b"1", "o": {"k": 1}},
        {"s": "y", "b": b"2", "o": {"k": 7}},
    ]


def test_a_batch_given_back_untouched_is_the_batch():
    rb = pa.RecordBatch.from_arrays([pa.array([1, 2]), pa.array(["a", "b"])], names=["x", "y"])
    b = numpy_batch.NumpyBatch(rb)
    assert batch.from_batch(b, "f", rb, b)[0] is rb
    assert b["x"].tolist() == [1, 2] and batch.from_batch(b, "f", rb, b)[0] is rb
    b["z"] = b["x"] + 1
    out = batch.from_batch(b, "f", rb, b)[0]
    assert out.schema.names == ["x", "y", "z"] and out.column(2).to_pylist() == [2, 3]
    del b["z"], b["y"]
    assert batch.from_batch(b, "f", rb, b)[0].to_pydict() == {"x": [1, 2]}
    b = numpy_batch.NumpyBatch(rb, writable=True)
    b["x"][0] = 7
    assert batch.from_batch(b, "f", rb, b)[0].column(0).to_pylist() == [7, 2]
    b = numpy_batch.NumpyBatch(rb)
    b["y"][0] = "c"  # arrays of Python objects may be changed in place
    assert batch.from_batch(b, "f", rb, b)[0].column(1).to_pylist() == ["c", "b"]
    b = numpy_batch.NumpyBatch(rb)
    b["x"] = b.pop("x")  # the same columns in another order
    assert batch.from_batch(b, "f", rb, b)[0].schema.names == ["y", "x"]
    for marked in (
        rb.replace_schema_metadata({"k": "v"}),
        rb.cast(pa.schema([pa.field("x", pa.int64(), nullable=False), ("y", pa.string())])),
    ):
        b = numpy_batch.NumpyBatch(marked)
        out = batch.from_batch(b, "f", marked, b)[0]
        assert out.equals(rb) and out.schema.equals(rb.schema, check_metadata=True)


def test_a_tensor_type_in_use_is_made_once():
    """Else pyarrow would make the Python half of a type anew at each access to a column."""
    rb = pa.RecordBatch.from_arrays(
        [to_arrow.array_from_numpy(np.zeros((3, 7, 5), np.int16), None)], names=["x"]
    )
    assert (
        rb.column(0).type
        is rb.schema.field(0).type
        is to_arrow.array_from_numpy(np.ones((1, 7, 5), np.int16), None).type
    )
    again = pa.ipc.open_stream(pa.BufferReader(_ipc(rb))).read_next_batch()
    assert again.equals(rb) and again.column(0).type is again.schema.field(0).type
    other = to_arrow.array_from_numpy(np.zeros((3, 5, 7), np.int16), None).type
    assert other != rb.column(0).type and other.shape == (5, 7)


def _ipc(rb):
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, rb.schema) as w:
        w.write_batch(rb)
    return out.getvalue()


def test_fixed_lists_and_tensors_are_arrays():
    t = batch.from_batch({"t": np.arange(12.0).reshape(3, 2, 2)}, "f")[0]
    assert is_fixed(t.column(0).type)
    assert numpy_batch.to_numpy(t)["t"].shape == (3, 2, 2)
    rb = pa.RecordBatch.from_arrays(
        [pa.array([[1, 2], [3, 4]], pa.list_(pa.int8(), 2))], names=["v"]
    )
    assert numpy_batch.to_numpy(rb)["v"].shape == (2, 2)


def test_a_new_dtype_is_the_users_choice():
    rb = pa.RecordBatch.from_arrays([pa.array([1, 2], pa.int8())], names=["x"])
    d = numpy_batch.NumpyBatch(rb)
    assert (
        batch.from_batch({"x": d["x"].astype(np.int64)}, "f", rb, d)[0].column(0).type == pa.int64()
    )
    assert batch.from_batch({"x": d["x"] * 2}, "f", rb, d)[0].column(0).type == pa.int8()


def test_rows_keep_types_only_when_exact():
    rb = pa.RecordBatch.from_arrays(
        [pa.array([100, 2], pa.int8()), pa.array([0.5, 1.0], pa.float32())], names=["i", "f"]
    )
    same = row_dicts.from_rows([{"i": 7, "f": 0.25}], "f", rb)
    assert same.schema.types == [pa.int8(), pa.float32()]
    wide = row_dicts.from_rows([{"i": 300, "f": 0.1}], "f", rb)
    assert wide.schema.types == [pa.int64(), pa.float64()]
    assert wide.to_pylist() == [{"i": 300, "f": 0.1}]


def test_arrays_of_different_shapes():
    a, b = (
        to_arrow.from_objects([np.ones((2, 2)), np.zeros((2, 3))], None),
        to_arrow.from_objects([np.ones((2, 2)), np.zeros((2, 2))], None),
    )
    assert is_ragged(a.type) and from_arrow.column_to_numpy("x", a)[1].shape == (2, 3)
    with pytest.raises(TypeError, match="different kinds"):
        to_arrow.from_objects([np.ones((2, 2)), np.zeros((2, 2, 2))], None)
    from skate.data.values.unify import concat

    t = concat([pa.RecordBatch.from_arrays([c], names=["x"]) for c in (b, a)])
    assert [v.shape for v in numpy_batch.to_numpy(t.combine_chunks().to_batches()[0])["x"]] == [
        (2, 2),
        (2, 2),
        (2, 2),
        (2, 3),
    ]


def test_rows_with_other_keys():
    rb = row_dicts.from_rows([{"a": 1}, {"b": "x", "a": 2}], "f")
    assert rb.to_pylist() == [{"a": 1, "b": None}, {"a": 2, "b": "x"}]


def test_row_arrays_become_tensors_or_lists():
    assert is_fixed(
        row_dicts.from_rows([{"v": np.zeros((2, 2))}, {"v": np.ones((2, 2))}], "f").column(0).type
    )
    assert row_dicts.from_rows([{"v": np.zeros(2)}, {"v": np.ones(3)}], "f").column(
        0
    ).type == pa.list_(pa.float64())


@pytest.mark.parametrize(
    "out, words",
    [
        (None, ["f returned None", "dict of arrays"]),
        ([1, 2], ["f returned a value of type list", "dict of arrays"]),
        ({"a": 5}, ["'a'", "one value per row"]),
        ({"a": [1], "b": [1, 2]}, ["different lengths", "'a' has 1", "'b' has 2"]),
        ({"a": [1, "x"]}, ["'a'", "int, str"]),
        ({1: [1]}, ["key 1", "str"]),
        ({"a": np.array(["2020-01-01T05"], "datetime64[h]")}, ["'a'", "datetime64[h]", "astype"]),
        ({"a": np.zeros(2, complex)}, ["'a'", "complex128"]),
        ({"a": np.float64(3)}, ["'a'", "one value per row"]),
    ],
)
def test_errors_say_what_to_return(out, words):
    with pytest.raises((TypeError, ValueError)) as e:
        batch.from_batch(out, "f")
    for w in words:
        assert w in str(e.value)


def test_what_a_pandas_index_says_is_kept():
    import pandas as pd

    df = pd.DataFrame({"k": ["a", "b", "a"], "j": [1, 1, 2], "x": [1, 2, 3]})

    def columns(frame):
        return batch.from_batch(frame, "f")[0].to_pydict()

    assert columns(df.groupby("k").sum()) == {"k": ["a", "b"], "j": [3, 1], "x": [4, 2]}
    assert columns(df.groupby(["k", "j"]).sum()) == {
        "k": ["a", "a", "b"],
        "j": [1, 2, 1],
        "x": [1, 3, 2],
    }
    assert columns(df.set_index("x")) == {"x": [1, 2, 3], "k": ["a", "b", "a"], "j": [1, 1, 2]}
    assert columns(df.set_index("k", drop=False)) == df.to_dict("list"), (
        "the column of its name says the same"
    )
    assert columns(df[df.j == 1]) == df[df.j == 1].to_dict("list"), "numbers of rows are left out"
    assert columns(df.groupby("k")[["x"]].apply(lambda g: g.head(1))) == {
        "k": ["a", "b"],
        "x": [1, 2],
    }, "and beside a name"
    assert columns(df[["x"]].describe().loc[["min", "max"]]) == {
        "__index_level_0__": ["min", "max"],
        "x": [1.0, 3.0],
    }
    assert columns(df[["x"]].set_index(pd.MultiIndex.from_tuples([(1, 2), (1, 3), (2, 1)]))) == {
        "__index_level_0__": [1, 1, 2],
        "__index_level_1__": [2, 3, 1],
        "x": [1, 2, 3],
    }
    days = pd.DataFrame({"x": [1]}, index=pd.DatetimeIndex(["2020-01-02"], name="day"))
    assert columns(days)["day"] == [days.index[0]]
    with pytest.raises(ValueError, match="a column 'x' and an index of that name"):
        columns(df.rename_axis("x"))


def test_an_index_comes_back_in_the_type_of_its_column():
    rb = pa.record_batch(
        {
            "k": pa.array([2, 1], pa.int32()),
            "s": pa.array(["a", None]).dictionary_encode(),
            "x": [1.0, 2.0],
        }
    )
    for key in "ks":
        out = batch.from_batch(frames.to_pandas(rb).set_index(key), "f", rb)[0]
        assert out.select(["k", "s", "x"]).equals(rb) and out.schema.names[0] == key


def test_pandas_names_are_str():
    import pandas as pd

    rb = batch.from_batch(pd.DataFrame({0: [1, 2]}, index=[5, 6]), "f")[0]
    assert rb.schema.names == ["0"] and rb.num_rows == 2
    with pytest.raises(ValueError, match="twice"):
        batch.from_batch(pd.DataFrame([[1, 2]], columns=["a", "a"]), "f")


def test_pandas_missing_values():
    import pandas as pd

    rb = batch.from_batch(
        pd.DataFrame(
            {
                "f": [1.0, float("nan")],
                "s": ["a", None],
                "o": pd.Series([b"x", None], dtype=object),
                "i": pd.array([1, None], dtype="Int64"),
            }
        ),
        "f",
    )[0]
    assert rb.column("f").null_count == 0, "NaN of a float column stays NaN"
    assert rb.column("s").null_count == rb.column("o").null_count == rb.column("i").null_count == 1
    assert rb.schema.types == [pa.float64(), pa.string(), pa.binary(), pa.int64()]


def test_more_text_than_one_array_holds(monkeypatch):
    """The limit is 2 GiB; a single value above it gets a type with 64-bit offsets."""
    import pandas as pd
    from skate.data.values import to_arrow

    monkeypatch.setattr(to_arrow, "CHUNK_BYTES", 64)
    texts = [("é" if i % 3 else "x") * (i % 7) for i in range(40)]
    raw = [t.encode() for t in texts]
    for values, t in ((texts, pa.string()), (raw, pa.binary())):
        frame = pd.DataFrame({"x": values, "i": range(40)})
        objects = np.empty(40, object)
        objects[:] = values
        rows = [{"x": v, "i": i} for i, v in enumerate(values)]
        ways = [
            batch.from_batch({"x": values, "i": np.arange(40)}, "f"),
            batch.from_batch({"x": objects, "i": np.arange(40)}, "f"),
            batch.from_batch(frame, "f"),
            row_dicts.rows_to_batches(rows, "f"),
        ]
        for rbs in ways:
            assert len(rbs) > 3 and {b.schema.field("x").type for b in rbs} == {t}
            assert all(
                sum(len(v.encode() if t == pa.string() else v) for v in b["x"].to_pylist()) <= 64
                for b in rbs
            )
            assert [r for b in rbs for r in b.to_pylist()] == rows
        assert row_dicts.from_rows(rows, "f").to_pylist() == rows, (
            "readers of whole files want one batch"
        )
    if pd.__version__ < "3":
        return  # this pyarrow has no such type
    some = pd.DataFrame({"x": pd.array([*texts, None], "str")})
    rbs = batch.from_batch(some, "f")
    assert len(rbs) > 3 and [v for b in rbs for v in b["x"].to_pylist()] == [*texts, None]


def test_joining_more_text_than_one_array_holds():
    """The 2.4 GB that the offsets refer to are never touched, so the test uses no such memory."""
    from skate.data.values import unify

    n = 1_200_000_000
    data = pa.py_buffer(np.zeros(n, np.uint8))
    part = pa.Array.from_buffers(
        pa.binary(), 1, [None, pa.py_buffer(np.array([0, n], np.int32)), data]
    )
    parts = [pa.record_batch({"x": part})] * 2
    with pytest.raises(pa.ArrowInvalid, match="offset overflow"):
        pa.concat_batches(parts)
    asked = []

    class Batch:
        schema = parts[0].schema

        def cast(self, schema):
            asked.append(schema)
            return pa.record_batch({"x": pa.array([b"a"], schema.field(0).type)})

    real = pa.concat_batches
    with pytest.MonkeyPatch.context() as m:
        m.setattr(
            unify.pa, "concat_batches", lambda b: real(parts) if type(b[0]) is Batch else real(b)
        )
        assert (
            unify.merge([Batch(), Batch()]).schema.field("x").type
            == asked[0].field("x").type
            == pa.large_binary()
        )
    nested = pa.struct([("a", pa.list_(pa.string())), ("i", pa.int8())])
    assert unify.widened(nested) == pa.struct(
        [("a", pa.large_list(pa.large_string())), ("i", pa.int8())]
    )


class Tensor:
    """The parts of a torch tensor that conversions use."""

    __module__ = "torch"

    def __init__(self, *values):
        self.a = np.array(values)

    def __array__(self, dtype=None, copy=None):
        return self.a

    def __eq__(self, other):
        return type(other) is Tensor and self.a.tolist() == other.a.tolist()


def test_arrays_inside_a_value_are_kept_as_they_are():
    """(image, label) of a torch Dataset, a list of tensors, a list of matrices: Arrow has no type
    for them, so they are kept as objects."""
    for value in (
        (Tensor(1.0, 2.0), 3),
        [Tensor(1.0), Tensor(1.0, 2.0)],
        {"a": [Tensor(1.0)]},
        [Tensor(1), Tensor(2, 3), None],
    ):
        rb = row_dicts.from_rows([{"item": value, "i": 0}, {"item": None, "i": 1}], "f")
        assert row_dicts.to_rows(rb) == [{"item": value, "i": 0}, {"item": None, "i": 1}]
        assert numpy_batch.NumpyBatch(rb)["item"][0] == value
    (out,) = batch.from_batch({"x": [[np.ones((2, 2)), np.zeros((1, 2))], []]}, "f")
    got = row_dicts.to_rows(out)
    assert [a.tolist() for a in got[0]["x"]] == [[[1.0, 1.0], [1.0, 1.0]], [[0.0, 0.0]]] and got[1][
        "x"
    ] == []
    assert row_dicts.from_rows([{"x": [np.float32(1.5), np.ones(1)[0]]}], "f").schema.field(
        "x"
    ).type == pa.list_(pa.float64()), "single numbers are numbers"
    with pytest.raises((TypeError, pa.ArrowInvalid)):
        row_dicts.from_rows([{"x": [1, "a"]}], "f")
