"""A missing number never becomes another number: the list of types in values/batch.py, in every way
to a batch, and the way back."""

import importlib
import importlib.util
import sys
import threading
import types

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import skate
import skate.data as sd
from cases import case
from hypothesis import given
from hypothesis import strategies as st
from rounds import examples
from skate.data.aggregate import AggregateFnV2, ValueCounter
from skate.data.preprocessor import Preprocessor
from skate.data.util import dtypes as dtype_rule
from skate.data.values import batch, missing, numpy_batch

torch = None
try:
    import torch
except ImportError:
    pass
needs_torch = pytest.mark.skipif(torch is None, reason="there is no torch")

N, NAN = None, float("nan")
# column -> (its Arrow form, the dtype and values of its NumPy batches)
TABLE = {
    "i": (pa.array([1, N, 3]), "float64", [1.0, NAN, 3.0]),
    "u8": (pa.array([1, N, 255], pa.uint8()), "float64", [1.0, NAN, 255.0]),
    "u64": (pa.array([1, N, 2**53], pa.uint64()), "float64", [1.0, NAN, 2.0**53]),
    "big": (pa.array([2**53 + 1, N, 3]), "object", [2**53 + 1, N, 3]),
    "low": (pa.array([-(2**53) - 1, N, 3]), "object", [-(2**53) - 1, N, 3]),
    "ubig": (pa.array([2**64 - 1, N, 3], pa.uint64()), "object", [2**64 - 1, N, 3]),
    "f16": (
        pa.array(np.array([1.5, 0, NAN], np.float16), mask=np.array([0, 1, 0], bool)),
        "float16",
        [1.5, NAN, NAN],
    ),
    "f32": (pa.array([0.5, N, NAN], pa.float32()), "float32", [0.5, NAN, NAN]),
    "f64": (pa.array([0.1, N, NAN]), "float64", [0.1, NAN, NAN]),
    "b": (pa.array([True, N, False]), "float64", [1.0, NAN, 0.0]),
    "code": (pa.array([7, N, 9]).dictionary_encode(), "float64", [7.0, NAN, 9.0]),
    "runs": (
        pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 3], pa.int32()), pa.array([7, N, 9])),
        "float64",
        [7.0, NAN, 9.0],
    ),
    "nothing": (pa.nulls(3, pa.int64()), "float64", [NAN, NAN, NAN]),
    "day": (
        pa.array([1, N, 3], pa.date32()),
        "datetime64[D]",
        [np.datetime64(1, "D"), np.datetime64("NaT"), np.datetime64(3, "D")],
    ),
    "span": (
        pa.array([1, N, 3], pa.duration("s")),
        "timedelta64[s]",
        [np.timedelta64(1, "s"), np.timedelta64("NaT"), np.timedelta64(3, "s")],
    ),
    "text": (pa.array(["a", N, "b"]), "object", ["a", N, "b"]),
    "vector": (
        pa.array([[1, 2], [3, N], [5, 6]], pa.list_(pa.int16(), 2)),
        "float64",
        [[1, 2], [3, NAN], [5, 6]],
    ),
    "vectors": (
        pa.array([[1, 2], N, [5, N]], pa.list_(pa.float32(), 2)),
        "float32",
        [[1, 2], [NAN, NAN], [5, NAN]],
    ),
}
SCHEMA = pa.schema([(k, c.type) for k, (c, *_) in TABLE.items()])


def tensors():
    pixels = batch.from_batch(
        {
            "t": np.arange(12, dtype=np.uint8).reshape(3, 2, 2),
            "e": np.arange(6, dtype=np.float32).reshape(3, 2),
        },
        "f",
    )[0]
    return {k: pixels.column(k).take(pa.array([0, N, 2])) for k in ("t", "e")}


def table():
    return pa.table({k: c for k, (c, *_) in TABLE.items()})


def dataset():
    return sd.from_arrow(table())


def right(got, what):
    for k, (_, dtype, values) in TABLE.items():
        v = got[k]
        assert type(v) is np.ndarray and v.dtype == dtype, (what, k, v.dtype)
        assert repr(v.tolist()) == repr(np.array(values, dtype).tolist()), (what, k, v)


class Noted(Preprocessor):
    _is_fittable = False

    def _transform_numpy(self, b):
        right(b, "preprocessor")
        return b

    @classmethod
    def preferred_batch_format(cls):
        return "numpy"


def checked(b):
    right(b, "a function")
    return b


class Checked:
    def __call__(self, b):
        right(b, "an actor")
        return b


WAYS = {
    "iter_batches": lambda ds: next(iter(ds.iter_batches())),
    "numpy": lambda ds: next(iter(ds.iter_batches(batch_format="numpy", batch_size=3))),
    "whole blocks": lambda ds: next(iter(ds.iter_batches(batch_size=None))),
    "over blocks": lambda ds: next(iter(ds.repartition(3).iter_batches(batch_size=3))),
    "shuffled": lambda ds: next(
        iter(ds.iter_batches(batch_size=3, local_shuffle_buffer_size=1, local_shuffle_seed=1))
    ),
    "take_batch": lambda ds: ds.take_batch(),
    "split": lambda ds: next(iter(ds.streaming_split(1)[0].iter_batches(batch_size=3))),
    "to_numpy_refs": lambda ds: skate.get(ds.to_numpy_refs())[0],
    "column of refs": lambda ds: {k: skate.get(ds.to_numpy_refs(column=k))[0] for k in TABLE},
    "block": lambda ds: sd.block.BlockAccessor.for_block(ds.to_arrow()).to_numpy(),
    "map_batches": lambda ds: ds.map_batches(checked).take_batch(),
    "writable": lambda ds: ds.map_batches(checked, zero_copy_batch=False).take_batch(),
    "actor": lambda ds: ds.map_batches(Checked, concurrency=1).take_batch(),
    "map_groups": lambda ds: (
        ds.add_column("k", lambda b: np.zeros(3), batch_format="numpy")
        .groupby("k")
        .map_groups(checked, batch_format="numpy")
        .take_batch()
    ),
    "preprocessor": lambda ds: Noted().transform(ds).take_batch(),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_table(way):
    got = WAYS[way](dataset())
    order = np.argsort(got["f64"]) if way == "shuffled" else None
    if order is None:
        right(got, way)
    else:
        assert (
            sorted(got["i"][~np.isnan(got["i"])].tolist()) == [1.0, 3.0]
            and np.isnan(got["b"]).sum() == 1
        )


def test_rows_and_other_formats_have_null():
    ds = dataset()
    for row in (ds.take_all()[1], list(ds.iter_rows())[1], ds.map(lambda r: r).take_all()[1]):
        assert all(row[k] is None for k in TABLE if k != "vector") and row["vector"] == [3, None]
    df = next(iter(ds.iter_batches(batch_format="pandas")))
    assert (str(df["i"].dtype), str(df["u8"].dtype), str(df["f32"].dtype), str(df["b"].dtype)) == (
        "Int64",
        "UInt8",
        "Float32",
        "boolean",
    )
    assert df["i"].isna().tolist() == [False, True, False]
    assert next(iter(ds.iter_batches(batch_format="pyarrow"))).schema.equals(SCHEMA)


def test_usual_lines_of_a_function_do_not_calculate_with_zeros(tmp_path):
    (tmp_path / "x.csv").write_text("a,b,c\n1,0.5,true\n,,\n3,1.5,false\n")
    b = sd.read_csv(str(tmp_path / "x.csv")).take_batch()
    for lines in (
        np.stack([b["a"], b["b"], b["c"]], axis=1),
        np.asarray([b["a"], b["b"], b["c"]]).T,
        np.column_stack([b["a"], b["b"], b["c"]]),
        pd.DataFrame(b).to_numpy(),
        np.array(list(b.values())).T,
    ):
        assert repr(lines.astype(float).tolist()) == repr(
            [[1, 0.5, 1], [NAN] * 3, [3, 1.5, 0]]
        ).replace("[1,", "[1.0,").replace("1],", "1.0],").replace("[3,", "[3.0,").replace(
            " 0]]", " 0.0]]"
        )
    assert np.isnan(b["a"].mean()) and np.nanmean(b["a"]) == 2


# ---- the way back

KEEP = {
    "itself": lambda v: v,
    "copied": lambda v: v.copy(),
    "some rows": lambda v: v[[0, 1]],
    "backwards": lambda v: v[::-1],
    "masked out": lambda v: v[np.array([True, False, True])],
    "twice": lambda v: np.concatenate([v, v]),
    "none": lambda v: v[:0],
}


@pytest.mark.parametrize("how", KEEP)
@pytest.mark.parametrize("writable", [False, True])
def test_what_a_function_hands_on_is_what_it_was(how, writable):
    keep = KEEP[how]
    t = table().append_column("t", tensors()["t"]).append_column("e", tensors()["e"])
    rb = t.to_batches()[0]
    given = numpy_batch.NumpyBatch(rb, writable)
    out = batch.from_batch({k: keep(v) for k, v in given.items()}, "f", rb, given)[0]
    rows = keep(np.arange(3)).tolist()
    for name in out.schema.names:
        old, new = rb.column(name), out.column(name)
        if len(rows) or pa.types.is_primitive(old.type):
            assert new.type == old.type, (name, new.type)
            want = old.to_pylist()
            assert repr(new.to_pylist()) == repr([want[i] for i in rows]), (name, new)


def back(col, make, name="x"):
    rb = pa.RecordBatch.from_arrays([col], names=["x"])
    given = numpy_batch.NumpyBatch(rb)
    return batch.from_batch({name: make(given["x"])}, "f", rb, given)[0].column(0)


def test_calculated_columns():
    ints, floats = pa.array([1, N, 4]), pa.array([1.0, N, 0.0, NAN])
    assert back(ints, lambda v: v + 1).equals(pa.array([2, N, 5]))
    assert back(ints, lambda v: v / 2).equals(pa.array([0.5, N, 2.0]))
    assert back(ints, np.nan_to_num).equals(pa.array([1, 0, 4]))
    # the result stays float64, which cannot represent the other ints as integers
    assert back(ints, lambda v: v * 2.0**60).equals(pa.array([2.0**60, N, 2.0**62]))
    assert back(pa.array([1, N], pa.uint8()), lambda v: v - 2).equals(pa.array([-1.0, N]))
    assert back(pa.array([1, N], pa.int8()), lambda v: v * 1000).equals(pa.array([1000.0, N]))
    # integers have no NaN
    assert back(ints, lambda v: np.where(v > 1, np.nan, v)).equals(pa.array([1, N, N]))
    assert back(ints, lambda v: v.astype(np.float32)).equals(pa.array([1, N, 4], pa.float32()))
    with np.errstate(invalid="ignore"):
        got = back(floats, lambda v: v / v)
    # 0/0 is NaN, and the original null is null
    assert repr(got.to_pylist()) == "[1.0, None, nan, nan]"
    assert back(pa.array([True, N, False]), lambda v: 1 - v).equals(pa.array([False, N, True]))
    assert back(pa.array([True, N]), lambda v: v / 2).equals(pa.array([0.5, N]))
    assert back(ints, lambda v: v > 1).equals(pa.array([False, False, True]))
    assert back(ints, lambda v: [1, 2, N]).equals(pa.array([1, 2, N]))
    big = pa.array([2**60 + 1, N, 4])
    assert back(big, lambda v: v[1:]).equals(pa.array([N, 4])) and back(
        big, lambda v: v[2:]
    ).equals(pa.array([4]))
    # returned under another name
    assert back(ints, lambda v: v, "y").equals(ints) and back(big, lambda v: v, "y").equals(big)
    assert back(ints, lambda v: v * 0.5, "y").equals(pa.array([0.5, N, 2.0]))
    assert repr(back(floats, lambda v: v[[3, 1]], "y").to_pylist()) == "[nan, None]"


def test_masked_arrays_of_functions():
    m = np.ma.masked_array([1, 2, 3], mask=[0, 1, 0])
    assert back(pa.array([1, N, 4]), lambda v: m).equals(pa.array([1, N, 3]))
    assert back(pa.array([1, 2, 4]), lambda v: m).equals(pa.array([1, N, 3]))
    assert sd.from_numpy(m).to_arrow()["data"].to_pylist() == [1, None, 3]
    rows = sd.range(2).map(
        lambda r: {
            "x": np.ma.masked if r["id"] else np.float64(2),
            "v": np.ma.masked_array([1, 2], mask=[0, r["id"]]),
        }
    )
    assert repr(rows.take_batch()["x"].tolist()) == "[2.0, nan]" and [
        r["x"] for r in rows.take_all()
    ] == [2.0, None]
    assert repr(rows.take_batch()["v"].tolist()) in (
        "[[1.0, 2.0], [1.0, nan]]",
        "[array([1, 2]), array([ 1., nan])]",
    )


def test_tensors_with_null_rows():
    ds = sd.from_arrow(pa.table(tensors()))
    b = ds.take_batch()
    assert (
        b["e"].dtype == np.float32
        and repr(b["e"].tolist()) == "[[0.0, 1.0], [nan, nan], [4.0, 5.0]]"
    )
    assert b["t"].dtype == object and b["t"][1] is None and b["t"][0].dtype == np.uint8
    out = ds.map_batches(lambda b: {"e": b["e"] * 2, "n": b["e"][:, 0], "t": b["t"]}).take_all()
    assert (
        out[1] == {"e": None, "n": None, "t": None}
        and out[2]["e"].tolist() == [8, 10]
        and out[2]["n"] == 4
    )


def test_the_dtype_of_a_batch_goes_by_its_rows_not_by_blocks():
    t = pa.table({"x": pa.array([1, 2, 3, N, 2**60, N]), "i": range(6)})
    for blocks in ([t], [t.slice(0, 3), t.slice(3)], [t.slice(0, 1), t.slice(1)]):
        dtypes = [b["x"].dtype.name for b in sd.from_blocks(blocks).iter_batches(batch_size=2)]
        assert dtypes == ["int64", "float64", "object"]


def test_blocks_of_several_dtypes_are_one_column():
    t = pa.table(
        {"x": pa.array([1, 2, 3, N, 2**60, N]), "b": pa.array([True, True, N, False, N, N])}
    )
    ds = sd.from_blocks([t.slice(i, 2) for i in (0, 2, 4)])
    same = ds.map_batches(
        lambda b: {"x": b["x"][::-1].copy()[::-1], "y": b["x"], "b": b["b"].copy()}, batch_size=None
    ).to_arrow()
    assert same["x"].equals(t["x"]) and same["y"].equals(t["x"]) and same["b"].equals(t["b"])
    half = (
        sd.from_blocks([t.slice(0, 2), t.slice(2, 2)])
        .map_batches(lambda b: {"x": b["x"] / 2, "z": b["x"] * 1}, batch_size=None)
        .to_arrow()
    )
    assert half["x"].to_pylist() == [0.5, 1.0, 1.5, None] and half["z"].to_pylist() == [
        1,
        2,
        3,
        None,
    ]
    refs = sd.from_blocks([t.slice(2, 2), t.slice(0, 2).append_column("more", pa.array([1, 2]))])
    first = skate.get(refs.to_numpy_refs())[0]
    assert repr(first["x"].tolist()) == "[3.0, nan]" and np.isnan(first["more"]).all()


@examples(60)
@given(st.data())
def test_selections_of_any_numbers(data):
    """A function returns any rows of any numbers in any order: types, values and nulls stay the
    same, with NaN and null side by side."""
    t, values = data.draw(
        st.sampled_from(
            [
                (pa.int8(), st.integers(-128, 127)),
                (
                    pa.int64(),
                    st.integers(-(2**63), 2**63 - 1) | st.integers(-(2**53) - 2, -(2**53) + 2),
                ),
                (pa.uint64(), st.integers(0, 2**64 - 1) | st.integers(2**53 - 2, 2**53 + 2)),
                (pa.float32(), st.floats(width=32)),
                (pa.float64(), st.floats()),
                (pa.bool_(), st.booleans()),
            ]
        )
    )
    col = pa.array(data.draw(st.lists(st.none() | values, min_size=1, max_size=8)), t)
    rows = data.draw(st.lists(st.integers(0, len(col) - 1), min_size=1, max_size=8))
    shown = numpy_batch.to_numpy(pa.RecordBatch.from_arrays([col], ["x"]))["x"]
    for a, b in zip(shown.tolist(), col.to_pylist(), strict=True):
        assert (
            (a is None or a != a) if b is None else repr(a) == repr(b) or a == b and int(a) == b
        ), (a, b)
    got = back(col, lambda v: v[rows])
    assert got.type == t and repr(got.to_pylist()) == repr([col[i].as_py() for i in rows])


# ---- tensors


def of_torch(ds, **options):
    return next(iter(ds.iter_torch_batches(**options)))


@needs_torch
@pytest.mark.parametrize(
    "options", [{}, {"batch_size": None}, {"local_shuffle_buffer_size": 1, "local_shuffle_seed": 1}]
)
def test_torch_batches(options):
    some = ["i", "u8", "f16", "f32", "f64", "b", "vector", "vectors"]
    got = of_torch(dataset().select_columns(some), **options)
    for k in some:
        assert str(got[k].dtype).split(".")[1] == TABLE[k][1]
        assert int(got[k].isnan().sum()) == int(np.isnan(np.array(TABLE[k][2])).sum()), k
    half = of_torch(dataset().select_columns(["i", "b"]), dtypes=torch.float32, **options)
    assert half["i"].dtype == torch.float32 and half["b"].isnan().sum() == 1
    for dtype in (torch.int64, torch.bool, {"i": torch.uint8}):
        with pytest.raises(
            TypeError, match="column 'i' has missing values.*is_not_null.*dtype of floats"
        ):
            of_torch(dataset().select_columns(["i"]), dtypes=dtype, **options)
    with pytest.raises(TypeError, match="column 'big' has nulls beside integers.*is_not_null"):
        of_torch(dataset().select_columns(["big"]), **options)
    with pytest.raises(TypeError, match="column 't' has nulls beside ndarray"):
        of_torch(sd.from_arrow(pa.table({"t": tensors()["t"]})), **options)


@needs_torch
def test_to_torch_and_collate_functions():
    ds = dataset().select_columns(["i", "b", "f32"])
    features, label = next(iter(ds.to_torch(label_column="b", batch_size=3)))
    assert (
        repr(features.tolist()) == "[[1.0, 0.5], [nan, nan], [3.0, nan]]"
        and repr(label.tolist()) == "[[1.0], [nan], [0.0]]"
    )
    with pytest.raises(ValueError, match="column i .*missing values"):
        next(
            iter(
                ds.to_torch(feature_columns=["i"], feature_column_dtypes=torch.int64, batch_size=3)
            )
        )
    with pytest.raises(ValueError, match="column big .*nulls beside"):
        next(iter(dataset().to_torch(feature_columns=["big"], batch_size=3)))
    got = of_torch(ds, collate_fn=lambda b: torch.as_tensor(np.stack([b["i"], b["b"]])))
    assert repr(got.tolist()) == "[[1.0, nan, 3.0], [1.0, nan, 0.0]]"
    made = sd.collate_fn.DefaultCollateFn(dtypes=torch.float32)(ds.to_arrow())
    assert made["i"].isnan().tolist() == [False, True, False]
    with pytest.raises(TypeError, match="column 'i' has missing values"):
        sd.collate_fn.DefaultCollateFn(dtypes=torch.int32)(ds.to_arrow())


@pytest.fixture
def tensorflow(monkeypatch):
    """A stand-in for the parts of TensorFlow that iter_tf_batches() calls; it keeps the threads
    that call it."""
    tf = types.ModuleType("tensorflow")
    tf.threads = set()

    def convert(v, dtype=None):
        tf.threads.add(threading.get_ident())
        return v if dtype is None else v.astype(dtype)

    tf.convert_to_tensor = convert
    tf.TensorSpec = lambda shape, dtype: (shape, dtype)
    tf.data = types.SimpleNamespace(
        Dataset=types.SimpleNamespace(from_generator=lambda make, output_signature: make)
    )
    monkeypatch.setitem(sys.modules, "tensorflow", tf)
    return tf


def test_tensorflow_batches(tensorflow):
    ds = dataset().select_columns(["i", "f32"])
    assert np.isnan(next(iter(ds.iter_tf_batches()))["i"]).tolist() == [False, True, False]
    assert next(iter(ds.iter_tf_batches(dtypes=np.dtype("float32"))))["i"].dtype == np.float32
    with pytest.raises(TypeError, match="column 'i' has missing values"):
        next(iter(ds.iter_tf_batches(dtypes={"i": np.dtype("int64")})))


@pytest.mark.parametrize("ahead", [0, 1])
def test_tensorflow_batches_are_made_by_a_thread_if_prefetched(tensorflow, ahead):
    ds = sd.range(20)
    assert len(list(ds.iter_tf_batches(batch_size=5, prefetch_batches=ahead))) == 4
    made = ds.to_tf("id", "id", batch_size=5, prefetch_batches=ahead)
    assert len(list(made())) == 4
    assert (threading.get_ident() in tensorflow.threads) == (ahead == 0)


class OfTensorflow:
    """A dtype as TensorFlow's."""

    def __init__(self, name, floats, complex=False):
        self.name, self.is_floating, self.is_complex = name, floats, complex

    def __repr__(self):
        return self.name


DTYPES = {
    "numpy": {"int32": np.dtype("int32"), "bool": bool, "float16": "float16", "complex64": "c8"},
    "tensorflow": {
        "int32": OfTensorflow("int32", False),
        "bool": OfTensorflow("bool", False),
        "float16": OfTensorflow("float16", True),
        "complex64": OfTensorflow("complex64", False, complex=True),
    },
    "torch": {},
}
if importlib.util.find_spec("torch"):
    torch = importlib.import_module("torch")
    DTYPES["torch"] = {name: getattr(torch, name) for name in DTYPES["numpy"]}


def refused(dtypes, values):
    """The text of the error of each column for which `dtypes` has no room, without the dtype."""
    out = {}
    for name, v in values.items():
        try:
            assert dtype_rule.checked(dtypes, name, v) is dtype_rule.asked(dtypes, name)
        except TypeError as e:
            out[name] = str(e).replace(repr(dtype_rule.asked(dtypes, name)), "it")
    return out


def test_libraries_agree_on_which_dtypes_have_room_for_missing_numbers():
    values = {
        "missing": np.array([1.0, np.nan]),
        "half": np.array([1, np.nan], np.float16),
        "whole": np.array([1.0, 2.0]),
        "n": np.array([1, 2]),
        "empty": np.array([], np.float64),
    }
    for library, dtypes in DTYPES.items():
        for name, dtype in dtypes.items():
            with case(f"{name} of {library}"):
                for given in (dtype, dict.fromkeys(values, dtype), {"half": dtype}):
                    no_room = {"missing", "half"} & (
                        given if type(given) is dict else values
                    ).keys()
                    expected = no_room if name in ("int32", "bool") else set()
                    assert set(refused(given, values)) == expected
                    if library == "torch":
                        tensors = {k: torch.from_numpy(v) for k, v in values.items()}
                        assert refused(given, tensors) == refused(given, values)


# ---- other columns beside them


def test_marks_go_through_calculations_and_conversions():
    for a in missing.MARKS:
        for b in missing.MARKS:
            v = np.array([missing.MARKS[a], np.nan, -np.nan, 1, np.inf], a).astype(b)
            assert missing.marked(v).tolist() == [True, False, False, False, False]
            assert missing.marked(1 - v * 2).tolist() == [True, False, False, False, False]
            rows = np.array([missing.ROW_MARKS[a], missing.MARKS[a], 1], a).astype(b)[
                :, None
            ] + np.zeros(2, b)
            assert missing.marked_rows(rows).tolist() == [True, False, False] and missing.marked(
                rows[:, 1]
            ).tolist() == [True, True, False]


def test_aggregates_and_statistics_leave_nulls_out():
    ds = dataset()
    assert (
        ds.sum("i"),
        ds.mean("i"),
        ds.min("u8"),
        ds.max("u8"),
        ds.std("i", ddof=0),
        ds.count(),
    ) == (4, 2, 1, 255, 1, 3)
    assert set(ds.unique("i")) == {1, 3, None}

    class Seen(AggregateFnV2):
        def __init__(self):
            super().__init__("seen", lambda: 0, on="i", ignore_nulls=False)

        def aggregate_block(self, block):
            return block.column("i").null_count if hasattr(block, "column") else -1

        def combine(self, a, b):
            return a + b

    assert ds.aggregate(Seen())["seen"] == 1


def test_nan_is_one_value_whatever_its_bits():
    """0/0 has other bits than np.nan, and a marked null that became a value has yet others."""
    v = np.array([NAN, -NAN, 1, missing.MARKS[np.dtype(float)], NAN, -0.0, 0.0])
    ds = sd.from_arrow(
        pa.table({"v": pa.concat_arrays([pa.array(v), pa.array([N], pa.float64())]), "k": [1] * 8})
    )
    assert repr([r["v"] for r in ds.distinct("v").take_all()]) == "[-0.0, 1.0, nan, None]"
    assert [r["count()"] for r in ds.groupby("v").count().take_all()] == [2, 1, 4, 1]
    for counts in (
        ds.aggregate(ValueCounter("v")),
        ds.groupby("k").aggregate(ValueCounter("v")).take_all()[0],
    ):
        assert counts["value_counter(v)"]["counts"] == [4, 1, 2, 1]


def test_preprocessors_and_their_batches():
    from skate.data.preprocessors import Concatenator, SimpleImputer, StandardScaler

    ds = dataset().select_columns(["i", "b", "f64"])
    assert (
        repr(Concatenator(["i", "b"]).transform(ds).take_batch()["concat_out"].tolist())
        == "[[1.0, 1.0], [nan, nan], [3.0, 0.0]]"
    )
    with pytest.raises(ValueError, match="column 'i' has missing values, which int32 cannot hold"):
        Concatenator(["i", "b"], dtype=np.int32).transform(ds).take_batch()
    imputer = SimpleImputer(["i"], strategy="mean").fit(ds)
    assert imputer.transform(ds).to_arrow()["i"].to_pylist() == [1, 2, 3]
    assert imputer.transform_batch(ds.take_batch())["i"].tolist() == [1, 2, 3]
    scaled = StandardScaler(["i"]).fit(ds).transform_batch(ds.take_batch())["i"]
    assert np.isnan(scaled).tolist() == [False, True, False] and scaled[0] == -1


def test_write_numpy(tmp_path):
    dataset().write_numpy(str(tmp_path), column="i")
    (file,) = tmp_path.iterdir()
    assert repr(np.load(file).tolist()) == "[1.0, nan, 3.0]"
    with pytest.raises(TypeError, match="'big'"):
        dataset().write_numpy(str(tmp_path / "b"), column="big")
