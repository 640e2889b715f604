"""One schema for each Dataset: blocks of different types are unified by the rule in
data/values/unify.py, wherever they are read."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
import skate
import skate.data as sd
from skate.data.values.types import PythonObjectType, ragged_type
from skate.data.values.unify import cast_batch, merge, misfits, promote, unify

COLUMNS = {
    "none then int": ([None, 5], pa.int64(), [None, 5]),
    "int then float": ([1, 2.5], pa.float64(), [1.0, 2.5]),
    "empty list then list": ([[], [1.5]], pa.list_(pa.float64()), [[], [1.5]]),
    "struct that grows": (
        [{"a": 1}, {"a": 2, "b": "x"}],
        pa.struct([("a", pa.int64()), ("b", pa.string())]),
        [{"a": 1, "b": None}, {"a": 2, "b": "x"}],
    ),
    "vectors": ([np.ones(1), np.ones(2)], pa.list_(pa.float64()), [[1.0], [1.0, 1.0]]),
    "objects": ([1, Fraction(1, 2)], PythonObjectType(), [1, Fraction(1, 2)]),
}


def made(values, column="x"):
    """A Dataset with a block for each value; the types are known only after a run."""
    return sd.range(len(values), override_num_blocks=len(values)).map(
        lambda r: {column: values[r["id"]]}
    )


@pytest.mark.parametrize("name", COLUMNS)
def test_one_type_wherever_it_is_seen(name):
    values, t, rows = COLUMNS[name]
    ds = made(values)
    assert [r["x"] for r in ds.take_all()] == rows
    assert ds.schema().types == [t], "as a whole run has seen it"
    assert [b.schema.types for b in ds.iter_batches(batch_size=None, batch_format="pyarrow")] == [
        [t]
    ] * 2, "and the next one begins with it"
    kept = made(values).materialize()
    assert kept.schema().types == [t] and kept.num_blocks() == 2
    assert [b.schema.types for b in kept.iter_batches(batch_size=None, batch_format="pyarrow")] == [
        [t]
    ] * 2
    seen = kept.map_batches(
        lambda b: {"t": [str(b.schema.field("x").type)]}, batch_size=None, batch_format="pyarrow"
    ).take_all()
    assert {r["t"] for r in seen} == {str(t)}, "functions see it, too"
    assert [r["x"] for r in kept.take_all()] == rows
    assert made(values).to_arrow().schema.types == [t]
    assert [r["x"] for r in made(values).take(2)] == rows


def test_one_type_in_parts_and_references():
    for part in made([None, 5]).split_at_indices([1]):
        assert part.schema().types == [pa.int64()] and part.to_arrow().schema.types == [pa.int64()]
    assert [skate.get(ref).schema.types for ref in made([1, 0.5]).to_arrow_refs()] == [
        [pa.float64()]
    ] * 2
    assert [skate.get(ref)["x"].dtype for ref in made([1, 0.5]).to_numpy_refs()] == [np.float64] * 2
    assert [skate.get(ref).dtype for ref in made([1, 0.5]).to_numpy_refs(column="x")] == [
        np.float64
    ] * 2
    assert [str(skate.get(ref)["x"].dtype) for ref in made([1, None, 0.5]).to_pandas_refs()] == [
        "float64",
        "Float64",
        "float64",
    ]
    (it,) = made([1, 0.5, 3]).streaming_split(1)
    assert [str(b["x"].dtype) for b in it.iter_batches(batch_size=1)] == [
        "int64",
        "float64",
        "float64",
    ]


@pytest.mark.parametrize(
    "nothing",
    [
        lambda: pd.DataFrame(),
        lambda: pa.table({}),
        lambda: pd.DataFrame({"y": pd.Series([], dtype="int64")}),
    ],
)
def test_a_block_without_rows_says_nothing_of_the_schema(nothing):
    for empty in (1, 0):
        ds = sd.range(2, override_num_blocks=2).map_batches(
            lambda b, empty=empty: nothing() if b["id"][0] == empty else {"x": b["id"] + 0.5},
            batch_size=1,
        )
        tables = skate.get(ds.to_arrow_refs())
        assert [t.schema.names for t in tables] == [["x"]] * 2 and pa.concat_tables(tables)[
            "x"
        ].to_pylist() == [1.5 - empty]
        assert sorted(len(f) for f in skate.get(ds.to_pandas_refs())) == [0, 1]
        assert sorted(len(f["x"]) for f in skate.get(ds.to_numpy_refs())) == [0, 1]
    none = sd.range(2, override_num_blocks=2).map_batches(lambda b: nothing(), batch_size=1)
    assert sum(t.num_rows for t in skate.get(none.to_arrow_refs())) == 0


def test_a_stream_only_widens():
    ds = made([1, 2, 2.5, None, 4])
    types = [
        b.schema.field("x").type for b in ds.iter_batches(batch_size=None, batch_format="pyarrow")
    ]
    assert types == [pa.int64()] * 2 + [pa.float64()] * 3
    assert [type(r["x"]) for r in made([1, 2.5, 3]).iter_rows()] == [int, float, float]
    assert [b["x"].dtype for b in made([1, 2, 2.5, 4]).iter_batches(batch_size=2)] == [
        np.int64,
        np.float64,
    ]
    assert made([None, 7]).schema().types == [pa.int64()], (
        "a first row that says nothing is not the last one asked"
    )


def test_materialize_is_a_whole_run():
    ds = made([1, 0.5])
    assert ds.schema().types == [pa.int64()], "of the first row"
    assert ds.materialize().schema() == ds.schema() and ds.schema().types == [pa.float64()]


def test_a_column_that_some_blocks_lack_is_null_there():
    ds = sd.range(2, override_num_blocks=2).map(lambda r: {"a": 1} if r["id"] == 0 else {"b": "x"})
    assert ds.take_all() == [{"a": 1, "b": None}, {"a": None, "b": "x"}]
    assert ds.schema().names == ["a", "b"] and ds.materialize().schema().names == ["a", "b"]


def test_arrays_of_several_shapes():
    ds = sd.range(3, override_num_blocks=3).map(lambda r: {"x": np.full((r["id"] + 1, 2), r["id"])})
    kept = ds.materialize()
    assert kept.schema().types == [ragged_type(pa.int64(), 2)]
    assert (
        [r["x"].tolist() for r in kept.take_all()]
        == [r["x"].tolist() for r in ds.take_all()]
        == [[[0, 0]], [[1, 1]] * 2, [[2, 2]] * 3]
    )


def test_types_that_do_not_go_together():
    ds = made([1, 2, "a"])
    for run in (
        ds.take_all,
        ds.materialize,
        ds.to_pandas,
        lambda: list(ds.iter_batches(batch_size=None)),
    ):
        with pytest.raises(
            TypeError,
            match=r"Map\(<lambda>\): column 'x' has type int64 in what came from row 0 on and string in what came from row 2 on",
        ):
            run()
    with pytest.raises(TypeError, match="cannot become double of another without loss"):
        made([2**60 + 1, 0.5]).take_all()


def test_union_says_its_schema_when_it_is_made(tmp_path):
    a, b = sd.from_items([{"x": 1}]), sd.from_items([{"x": 2.5, "y": "u"}])
    ds = a.union(b)
    assert ds.schema().types == [pa.float64(), pa.string()]
    assert ds.take_all() == [{"x": 1.0, "y": None}, {"x": 2.5, "y": "u"}]
    seen = ds.map_batches(
        lambda t: t.append_column("t", [[str(t.schema.types)] * len(t)]), batch_format="pyarrow"
    ).take_all()
    assert len({r["t"] for r in seen}) == 1
    ds.write_parquet(tmp_path)
    assert {str(pq.read_schema(f).types) for f in tmp_path.glob("*.parquet")} == {
        str(ds.schema().types)
    }
    assert ds.select_columns(["x"]).take_all() == [{"x": 1.0}, {"x": 2.5}]
    files = sd.read_parquet(tmp_path).union(sd.from_items([{"z": 1}]))
    assert files.select_columns(["z"]).take_all() == [{"z": None}] * 2 + [{"z": 1}], (
        "columns that nobody needs are not read"
    )
    assert files.filter(expr="x > 2").take_all() == [{"x": 2.5, "y": "u", "z": None}]
    with pytest.raises(
        TypeError,
        match=r"union: column 'x' has type int64 in input 1 \(FromItems\) and string in input 2 \(FromItems\)",
    ):
        a.union(sd.from_items([{"x": "s"}]))
    with pytest.raises(
        TypeError,
        match="column 'x' has type int64 in part 1 of what FromArrow was given and string in part 2",
    ):
        sd.from_arrow([pa.table({"x": [1]}), pa.table({"x": ["s"]})])
    later = a.union(made(["s"]))
    with pytest.raises(
        TypeError,
        match=r"union: column 'x' has type int64 in input 1 \(FromItems\) and string in input 2 \(Map\(<lambda>\)\)",
    ):
        later.take_all()


WRITERS = {
    "parquet": (sd.Dataset.write_parquet, pq.read_table),
    "arrow": (sd.Dataset.write_feather, lambda f: pa.ipc.open_file(f).read_all()),
    "orc": (sd.Dataset.write_orc, orc.read_table),
}


@pytest.mark.parametrize("fmt", WRITERS)
def test_all_files_of_a_write_have_one_schema(fmt, tmp_path):
    write, read = WRITERS[fmt]
    ds = sd.range(4, override_num_blocks=4).map(
        lambda r: (
            {"i": r["id"], "x": r["id"] if r["id"] < 2 else 0.5}
            | ({"y": "u"} if r["id"] == 3 else {})
        )
    )
    write(ds, str(tmp_path))
    files = sorted(tmp_path.iterdir())
    assert [read(f).schema.types for f in files] == [[pa.int64(), pa.float64(), pa.string()]] * 4
    assert [r for f in files for r in read(f).to_pylist()] == [
        {"i": i, "x": x, "y": y}
        for i, x, y in ((0, 0.0, None), (1, 1.0, None), (2, 0.5, None), (3, 0.5, "u"))
    ]


def test_files_that_do_not_go_together_are_not_written(tmp_path):
    with pytest.raises(
        TypeError,
        match=r"WriteParquet: column 'x' has type int64 in [0-9a-f]{32}_000000_000000.parquet and string in [0-9a-f]{32}_000001_000000.parquet",
    ):
        made([1, "a"]).write_parquet(tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())
    ds = sd.range(2, override_num_blocks=1).map_batches(
        lambda b: {"x": [1 if b["id"][0] == 0 else "a"]}, batch_size=1
    )
    with pytest.raises(
        TypeError,
        match="write: column 'x' has type int64 in what is written first and string in what comes then",
    ):
        ds.write_parquet(tmp_path)


def test_files_on_another_file_system_and_in_folders(tmp_path):
    from pyarrow.fs import LocalFileSystem

    ds = sd.range(4, override_num_blocks=4).map(
        lambda r: {"k": r["id"] % 2, "x": r["id"] if r["id"] < 2 else 0.5}
    )
    ds.write_parquet(str(tmp_path), filesystem=LocalFileSystem(), partition_cols=["k"])
    files = sorted(tmp_path.rglob("*.parquet"))
    assert len(files) == 4 and {str(pq.read_schema(f).field("x").type) for f in files} == {"double"}
    assert sorted((int(r["k"]), r["x"]) for r in sd.read_parquet(str(tmp_path)).take_all()) == [
        (0, 0.0),
        (0, 0.5),
        (1, 0.5),
        (1, 1.0),
    ]


def test_the_majority_of_types_wins_among_bad_rows():
    def f(r):
        i = r["id"]
        return {"x": "s" if i < 30 else [1] if i == 50 else i if i % 2 else i + 0.5}

    ds = sd.range(100, override_num_blocks=1).map(f, on_error="quarantine")
    assert ds.schema().types == [pa.float64()], "the first rows are those that are wrong"
    assert [r["x"] for r in ds.take_all()] == [
        i if i % 2 else i + 0.5 for i in range(30, 100) if i != 50
    ]
    letters = ds.errors().take_all()
    assert [e["input_row"] for e in letters] == [*range(30), 50]
    assert "column 'x' has type double in most rows and string in this one" in letters[0]["message"]


def test_the_majority_is_found_by_column():
    kinds = [
        {"a": pa.int64(), "b": pa.string()},
        {"a": pa.float64()},
        {"a": pa.string(), "b": pa.string()},
        {"a": pa.null(), "b": pa.int8()},
    ]
    parts = [(n, pa.schema(list(k.items()))) for n, k in zip((3, 3, 5, 9), kinds, strict=True)]
    assert [w and str(w).split(":")[0] for w in misfits(parts)] == [
        "column 'b' has type int8 in most rows and string in this one, and no type holds the values of both exactly",
        None,  # this many rows, together with the ints, outnumber the strings
        "column 'a' has type double in most rows and string in this one, and no type holds the values of both exactly",
        None,
    ]
    assert [
        w is None for w in misfits(parts, pa.schema([("a", pa.string()), ("b", pa.string())]))
    ] == [False, False, True, False]
    assert misfits([(4, None)]) == [None]


TENSOR = pa.fixed_shape_tensor(pa.int8(), (2, 2))
RULE = [
    (pa.null(), pa.list_(pa.int8()), pa.list_(pa.int8())),
    (pa.int8(), pa.int64(), pa.int64()),
    (pa.int64(), pa.float64(), pa.float64()),
    (pa.float32(), pa.float64(), pa.float64()),
    (pa.int64(), pa.decimal128(22, 2), pa.decimal128(22, 2)),
    (pa.int64(), pa.decimal128(10, 2), pa.decimal128(21, 2)),
    (pa.uint64(), pa.decimal128(30, 25), pa.decimal256(45, 25)),
    (pa.int8(), pa.decimal128(2, -3), pa.decimal128(5, 0)),
    (pa.int64(), pa.decimal256(76, 70), None),
    (pa.float64(), pa.decimal128(10, 2), None),
    (pa.float16(), pa.decimal256(40, 2), None),
    (pa.string(), pa.large_string(), pa.large_string()),
    (pa.binary(), pa.large_binary(), pa.large_binary()),
    (pa.timestamp("s"), pa.timestamp("us"), pa.timestamp("us")),
    (pa.dictionary(pa.int8(), pa.string()), pa.string(), pa.string()),
    (
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int32(), pa.string()),
        pa.dictionary(pa.int32(), pa.string()),
    ),
    (pa.list_(pa.int8()), pa.large_list(pa.float64()), pa.large_list(pa.float64())),
    (pa.list_(pa.int8(), 2), pa.list_(pa.int8(), 3), pa.list_(pa.int8())),
    (
        pa.struct([("a", pa.int8())]),
        pa.struct([("a", pa.int16()), ("b", pa.null())]),
        pa.struct([("a", pa.int16()), ("b", pa.null())]),
    ),
    (TENSOR, pa.fixed_shape_tensor(pa.int8(), (1, 2)), ragged_type(pa.int8(), 2)),
    (TENSOR, ragged_type(pa.float32(), 2), ragged_type(pa.float32(), 2)),
    (pa.fixed_shape_tensor(pa.int8(), (2,)), pa.list_(pa.int64()), pa.list_(pa.int64())),
    (TENSOR, PythonObjectType(), PythonObjectType()),
    (pa.int64(), pa.string(), None),
    (pa.string(), pa.binary(), None),
    (pa.list_(pa.string()), pa.list_(pa.binary()), None),
    (pa.bool_(), pa.int64(), None),
    (pa.date32(), pa.timestamp("s"), None),
    (pa.timestamp("s", "UTC"), pa.timestamp("s"), None),
    (TENSOR, pa.fixed_shape_tensor(pa.int8(), (2, 2, 1)), None),
    (TENSOR, pa.list_(pa.int8()), None),
    (pa.int64(), pa.list_(pa.int64()), None),
]


@pytest.mark.parametrize("a, b, both", RULE, ids=lambda t: str(t))
def test_the_rule(a, b, both):
    for x, y in ((a, b), (b, a)):
        if both is None:
            with pytest.raises(TypeError, match="column 'x' has type"):
                promote("x", x, y)
        else:
            assert promote("x", x, y).equals(both)
            empty = pa.RecordBatch.from_arrays([pa.nulls(2, x)], names=["x"])
            assert cast_batch(empty, pa.schema([("x", both)])).column(0).null_count == 2


def test_values_are_cast_by_the_rule():
    def column(v):
        return pa.record_batch({"x": v})

    coded = pa.array(["a", None, "b"]).dictionary_encode()
    assert merge([column(coded), column(pa.array(["c"]))])["x"].to_pylist() == ["a", None, "b", "c"]
    small = pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), ["z"])
    assert merge([column(small), column(coded)])["x"].to_pylist() == ["z", "a", None, "b"]
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(
        np.arange(4, dtype=np.int8).reshape(1, 2, 2)
    )
    floats = pa.FixedShapeTensorArray.from_numpy_ndarray(np.full((1, 2, 2), 0.5))
    both = merge([column(tensors), column(floats)])["x"]
    assert [np.asarray(v.as_py()).ravel().tolist() for v in both] == [[0, 1, 2, 3], [0.5] * 4]
    exact = merge([column(pa.array([Decimal("0.10")])), column(pa.array([2**63 - 1]))])["x"]
    assert exact.to_pylist() == [Decimal("0.10"), 2**63 - 1]
    schema = unify([column(pa.array([], pa.int64())).schema, column(pa.array([0.5])).schema])
    with pytest.raises(TypeError, match="without loss"):
        cast_batch(column(pa.array([2**53 + 1])), schema)
