"""Bytes from outside the job run no code (docs/design/security.md): through each input, a pickle
that would make a folder is refused, and is run if the user trusts it."""

import io
import os
import pickle
import random
import subprocess
import sys
import tarfile
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest
import rounds
import skate
import skate.data as sd
from cases import case
from skate import _job, _skate
from skate.data.checkpoint import CheckpointConfig
from skate.data.exceptions import UntrustedPickleError
from skate.data.extensions import ArrowPythonObjectArray
from skate.data.preprocessor import Preprocessor, SerializablePreprocessorBase
from skate.data.trainers import ranks
from skate.data.values import marks
from skate.data.values.row_dicts import to_columns, to_rows
from skate.data.values.types import PythonObjectType
from skate.data.values.unify import cast_batch, merge, unify
from skate.data.worker import replay, rerun
from skate.data.write import fingerprint
from skate.data.write.rows import Rows

THEIRS = PythonObjectType(b"")  # the type in a file from somebody else


class Payload:
    """Unpickling it makes a folder."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.makedirs, (self.path, 0o777, True)


@pytest.fixture
def mark(tmp_path):
    return tmp_path / "ran"


@pytest.fixture(autouse=True)
def trust_nobody():
    yield
    sd.DataContext.get_current().trust_pickled_columns = False


def evil(mark):
    return pickle.dumps(Payload(mark))


def column(mark, n=2, t=THEIRS):
    return pa.ExtensionArray.from_storage(t, pa.array([evil(mark)] * n, pa.large_binary()))


def shapes(mark):
    """{name: a column that contains such bytes at some level}"""
    flat = column(mark)
    return {
        "plain": flat,
        "list": pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), flat),
        "large_list": pa.LargeListArray.from_arrays(pa.array([0, 1, 2], pa.int64()), flat),
        "fixed_list": pa.FixedSizeListArray.from_arrays(flat, 1),
        "struct": pa.StructArray.from_arrays([flat], ["f"]),
        "map": pa.MapArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pa.array(["k", "l"]), flat),
        "deep": pa.StructArray.from_arrays(
            [pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), flat)], ["f"]
        ),
    }


def refused(act, mark, *words):
    """Checks that act() is refused with these words, and that no code has run."""
    with pytest.raises(
        UntrustedPickleError, match="pickled outside of this job|serialized outside of this job"
    ) as e:
        act()
    assert not mark.exists() and "trust_pickled_columns = True" in str(e.value)
    for w in words:
        assert str(w) in str(e.value), str(e.value)


def runs(act, mark):
    """Checks that act() unpickles the bytes."""
    out = act()
    assert mark.exists()
    mark.rmdir()
    return out


# ---- columns


LOOKS = {
    "take": lambda ds: ds.take(1),
    "map": lambda ds: ds.map(lambda r: {"y": 1 if r else 0}).take_all(),
    "numpy": lambda ds: ds.map_batches(lambda b: {"y": [len(b["x"])]}).take_all(),
    "pandas": lambda ds: ds.map_batches(lambda b: {"y": [1]}, batch_format="pandas").take_all(),
    "arrow": lambda ds: ds.map_batches(
        lambda b: {"y": [len(b["x"].to_pylist())]}, batch_format="pyarrow"
    ).take_all(),
    "scalar": lambda ds: ds.map_batches(
        lambda b: {"y": [1 if b["x"][0].as_py() else 0]}, batch_format="pyarrow"
    ).take_all(),
    "to_pandas": lambda ds: ds.to_pandas(),
    "iter_batches": lambda ds: list(ds.iter_batches()),
    "iter_rows": lambda ds: list(ds.iter_rows()),
}


def test_a_column_of_a_file_runs_nothing(mark, tmp_path):
    path = str(tmp_path / "f.parquet")
    pq.write_table(pa.table({"x": column(mark), "n": [1, 2]}), path)
    ds = sd.read_parquet(path)
    for name, look in LOOKS.items():
        with case(name):
            refused(
                lambda look=look: look(ds),
                mark,
                "" if name in ("arrow", "scalar") else "column 'x'",
                path,
            )
            refused(
                lambda look=look: look(sd.read_parquet(path, filter=pa.compute.field("n") > 0)),
                mark,
            )
            runs(lambda look=look: look(sd.read_parquet(path, trust_pickled_columns=True)), mark)
    refused(lambda: ds.write_json(str(tmp_path / "json")), mark, "column 'x'", path)
    assert ds.count() == 2 and ds.select_columns(["n"]).take_all() == ds.drop_columns(
        ["x"]
    ).take_all() == [{"n": 1}, {"n": 2}]
    assert ds.filter(expr="n > 1").drop_columns(["x"]).take_all() == [{"n": 2}]
    refused(lambda: ds.map(lambda r: r, on_error="skip").take_all(), mark)
    copy = str(tmp_path / "copy")
    ds.write_parquet(copy)  # the bytes are passed on unchanged
    assert (
        pq.read_table(copy)["x"].combine_chunks().storage.to_pylist() == [evil(mark)] * 2
        and not mark.exists()
    )


def test_all_formats_and_depths(mark, tmp_path):
    for name, col in shapes(mark).items():
        table = pa.table({"x": col})
        ways = {}
        if name != "fixed_list":
            pq.write_table(table, tmp_path / f"{name}.parquet")
            # pyarrow 20 reads them as bytes inside a map
            if marks.has_objects(pq.read_schema(tmp_path / f"{name}.parquet").field("x").type):
                ways["parquet"] = lambda f=name, **o: sd.read_parquet(
                    str(tmp_path / f"{f}.parquet"), **o
                )
        pf.write_feather(table, str(tmp_path / f"{name}.feather"))
        ways["feather"] = lambda f=name, **o: sd.read_feather(str(tmp_path / f"{f}.feather"), **o)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as w:
            w.write_table(table)
        (tmp_path / f"{name}.arrows").write_bytes(sink.getvalue().to_pybytes())
        ways["stream"] = lambda f=name, **o: sd.read_feather(str(tmp_path / f"{f}.arrows"), **o)
        ways["bytes"] = lambda s=sink, **o: sd.from_arrow(s.getvalue().to_pybytes(), **o)
        ways["table"] = lambda t=table, **o: sd.from_arrow(t, **o)
        for way, read in ways.items():
            with case(name, way):
                refused(
                    lambda read=read: read().take_all(),
                    mark,
                    "column 'x'",
                    *([".parquet"] if way == "parquet" else []),
                )
                refused(
                    lambda read=read: read().map(lambda r: {"y": len(r)}).take_all(),
                    mark,
                    "column 'x'",
                )
                runs(
                    lambda read=read: (
                        read(trust_pickled_columns=True).map(lambda r: {"y": len(r)}).take_all()
                    ),
                    mark,
                )


def test_the_setting_reaches_workers_and_stays_with_its_dataset(mark, tmp_path):
    sd.DataContext.get_current().trust_pickled_columns = True
    path = str(tmp_path / "f.parquet")
    pq.write_table(pa.table({"x": column(mark)}), path)

    def opened(ds):
        return ds.map(lambda r: {"y": 1}).take_all()

    runs(lambda: opened(sd.read_parquet(path)), mark)
    runs(lambda: sd.read_parquet(path).take_all(), mark)
    runs(lambda: opened(sd.from_arrow(pq.read_table(path))), mark)
    runs(
        lambda: (
            sd.range(1)
            .map_batches(lambda b: {"y": [len(pq.read_table(path)["x"].to_pylist())]})
            .take_all()
        ),
        mark,
    )
    sd.DataContext.get_current().trust_pickled_columns = False
    refused(lambda: opened(sd.read_parquet(path)), mark)
    ds = sd.read_parquet(path)
    ds.context.trust_pickled_columns = True
    runs(lambda: ds.take_all(), mark)
    runs(lambda: opened(ds), mark)
    # a stage without functions, in workers that had the settings of `ds`
    refused(lambda: sd.read_parquet(path).write_json(str(tmp_path / "json")), mark, path)


def test_functions_that_read_files(mark, tmp_path):
    path = str(tmp_path / "f.parquet")
    pq.write_table(pa.table({"x": column(mark)}), path)
    refused(
        lambda: (
            sd.range(1)
            .map_batches(lambda b: {"y": [len(pq.read_table(path)["x"].to_pylist())]})
            .take_all()
        ),
        mark,
    )
    refused(
        lambda: sd.range(1).map_batches(lambda b: pq.read_table(path)).take_all(),
        mark,
        "column 'x'",
    )
    refused(
        lambda: sd.range(1).map_batches(lambda b: pq.read_table(path)).map(lambda r: r).take_all(),
        mark,
        "column 'x'",
    )
    ref = skate.remote(lambda: pq.read_table(path)).remote()
    refused(lambda: sd.from_arrow_refs(ref).take_all(), mark)
    refused(lambda: skate.get(ref)["x"].to_pylist(), mark)
    refused(lambda: skate.get(ref)["x"].chunk(0).to_numpy(), mark)
    refused(lambda: skate.get(ref)["x"].chunk(0).to_pandas(), mark)


def test_what_only_looks_like_the_type(mark, tmp_path):
    """Metadata of a field that Arrow takes for the type when the block is read again; marks that
    somebody has guessed; a type over other bytes."""
    bytes_ = pa.array([evil(mark)], pa.large_binary())
    name = {b"ARROW:extension:name": b"skate.python_object"}
    for what, said in {
        "plain": {**name, b"ARROW:extension:metadata": b""},
        "no parameter": name,
        "guess": {**name, b"ARROW:extension:metadata": b"\0" * 16},
        "source": {**name, b"ARROW:extension:metadata": b"\0" * 16 + b"/etc"},
    }.items():
        with case(what):
            table = pa.table(
                [bytes_], schema=pa.schema([pa.field("x", pa.large_binary(), metadata=said)])
            )
            refused(lambda t=table: sd.from_arrow(t).map(lambda r: {"y": r["x"]}).take_all(), mark)
            pf.write_feather(table, str(tmp_path / "f.feather"))
            refused(lambda: sd.read_feather(str(tmp_path / "f.feather")).take_all(), mark)
    twice = pa.KeyValueMetadata(
        [
            ("ARROW:extension:name", "nobody.knows"),
            ("ARROW:extension:metadata", ""),
            ("ARROW:extension:name", "skate.python_object"),
            ("ARROW:extension:metadata", ""),
        ]
    )
    table = pa.table([bytes_], schema=pa.schema([pa.field("x", pa.large_binary(), metadata=twice)]))
    for got in (sd.from_arrow(table).take_all, sd.from_arrow(table).map(lambda r: r).take_all):
        try:
            assert got() == [{"x": evil(mark)}]
        except UntrustedPickleError:
            pass
        assert not mark.exists()
    with pytest.raises(ValueError, match="over large_binary, not int64"):
        PythonObjectType.__arrow_ext_deserialize__(pa.int64(), b"")


def test_nothing_makes_them_ours(mark, tmp_path):
    """This job's objects beside foreign ones, casts, schemas: foreign objects never become this
    job's."""
    path = str(tmp_path / "f.parquet")
    pq.write_table(pa.table({"x": column(mark)}), path)
    ours = sd.from_items([{"x": Fraction(1, 2)}])
    theirs = sd.read_parquet(path)
    for both in (ours.union(theirs), theirs.union(ours)):
        refused(lambda ds=both: ds.take_all(), mark, "column 'x'")
        refused(
            lambda ds=both: ds.materialize().map(lambda r: {"y": 1}).take_all(), mark, "column 'x'"
        )
    with pytest.raises(pa.ArrowInvalid):
        pa.concat_arrays([column(mark), column(mark, t=PythonObjectType())])
    schema = pa.schema([("x", PythonObjectType())])
    refused(lambda: sd.read_parquet(path, schema=schema).take_all(), mark)
    plain = str(tmp_path / "plain.parquet")
    pq.write_table(
        pa.table(
            {
                "x": pa.array([evil(mark)], pa.large_binary()),
                "l": pa.array([[evil(mark)]], pa.list_(pa.large_binary())),
            }
        ),
        plain,
    )
    refused(lambda: sd.read_parquet(plain, columns=["x"], schema=schema).take_all(), mark)
    assert sd.read_parquet(plain, columns=["x"]).union(ours).take_all() == [
        {"x": evil(mark)},
        {"x": Fraction(1, 2)},
    ]
    lists = pa.ListArray.from_arrays(
        pa.array([0, 1], pa.int32()),
        pa.ExtensionArray.from_storage(
            PythonObjectType(), pa.array([pickle.dumps(1)], pa.large_binary())
        ),
    )
    with pytest.raises(TypeError, match="column 'l'"):
        sd.from_arrow(pa.table({"l": lists})).union(
            sd.read_parquet(plain, columns=["l"])
        ).take_all()
    # Arrow treats these types as equal
    for a, b in ((PythonObjectType(), THEIRS), (THEIRS, PythonObjectType())):
        one = [
            pa.table({"x": pa.DictionaryArray.from_arrays(pa.array([0]), column(mark, 1, t))})
            for t in (a, b)
        ]
        refused(lambda one=one: merge([t.to_batches()[0] for t in one]), mark, "column 'x'")
        refused(
            lambda one=one: (
                sd.from_arrow(one[0])
                .union(sd.from_arrow(one[1]))
                .repartition(1)
                .map_batches(lambda rows: {"y": [len(rows["x"])]})
                .take_all()
            ),
            mark,
        )
    assert not mark.exists()
    assert sd.from_arrow(pa.table({"l": lists})).map(lambda r: {"y": r["l"][0] + 1}).take_all() == [
        {"y": 2}
    ]


def test_they_go_through_exchanges_unopened(mark, tmp_path):
    """Rows of several files, whose columns name different sources: operators that move the rows
    unpickle no value, and an operator that does names the source."""
    for i in range(4):
        col = pa.ExtensionArray.from_storage(
            THEIRS, pa.array([pickle.dumps((i, j)) for j in range(10)], pa.large_binary())
        )
        pq.write_table(
            pa.table({"x": col, "n": [i * 10 + j for j in range(10)]}),
            str(tmp_path / f"{i}.parquet"),
        )
    moves = {
        "sort": lambda ds: ds.sort("n", descending=True),
        "shuffle": lambda ds: ds.random_shuffle(seed=1),
        "repartition": lambda ds: ds.repartition(3),
        "union": lambda ds: ds.union(sd.range(0).rename_columns({"id": "n"})),
        "materialize": lambda ds: ds.materialize(),
    }
    for name, move in moves.items():
        with case(name):
            ds = move(sd.read_parquet(str(tmp_path), override_num_blocks=4))
            assert sorted(r["n"] for r in ds.select_columns(["n"]).take_all()) == list(range(40))
            refused(
                ds.take_all, mark, "column 'x' of ", "0.parquet" if name != "sort" else ".parquet"
            )
            rows = move(
                sd.read_parquet(str(tmp_path), override_num_blocks=4, trust_pickled_columns=True)
            ).take_all()
            assert len(rows) == 40 and all(r["x"] == divmod(r["n"], 10) for r in rows)


def test_lance_and_delta(mark, tmp_path):
    lance = pytest.importorskip("lance")
    path = str(tmp_path / "lance")
    lance.write_dataset(pa.table({"x": column(mark)}), path)
    refused(lambda: sd.read_lance(path).take_all(), mark, "column 'x'", path)
    runs(lambda: sd.read_lance(path, trust_pickled_columns=True).take_all(), mark)
    sd.from_items([{"x": Fraction(1)}]).write_lance(str(tmp_path / "ours"))
    assert lance.dataset(str(tmp_path / "ours")).schema.field("x").type == THEIRS
    deltalake = pytest.importorskip("deltalake")
    path = str(tmp_path / "delta")
    deltalake.write_deltalake(path, pa.table({"x": pa.array([evil(mark)], pa.large_binary())}))
    (file,) = [f for f in os.listdir(path) if f.endswith(".parquet")]
    pq.write_table(pa.table({"x": column(mark)}), os.path.join(path, file))
    for trust in (False, True):  # the table's schema has bytes, and so has the column
        assert [r["x"] for r in sd.read_delta(path, trust_pickled_columns=trust).take_all()] == [
            evil(mark)
        ] * 2
    assert not mark.exists()


def test_tables_of_other_libraries(mark, tmp_path):
    path = str(tmp_path / "f.parquet")
    pq.write_table(pa.table({"x": column(mark)}), path)
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    for given in (
        polars.read_parquet(path),
        duckdb.sql(f"select * from '{path}'").to_arrow_table(),
    ):
        # their result depends on their version: no type, the type, or the type over other bytes
        try:
            assert sd.from_arrow(given).take_all() == [{"x": evil(mark)}] * 2
        except ValueError as e:
            assert isinstance(
                e, UntrustedPickleError
            ) or "skate.python_object is over large_binary" in str(e)
    assert not mark.exists()


def test_our_own_go_on_without_a_setting(tmp_path):
    ds = sd.range(20, override_num_blocks=4).map(
        lambda r: {"x": Fraction(r["id"], 7), "l": [Fraction(1, 3)]}
    )
    want = [Fraction(i, 7) for i in range(20)]
    assert [r["x"] for r in ds.random_shuffle().map(lambda r: {"x": r["x"]}).take_all()] != []
    assert [r["x"] for r in ds.materialize().map(lambda r: r).take_all()] == want
    assert [r["x"] for r in ds.union(ds).limit(20).take_all()] == want
    table = ds.to_arrow()
    assert pickle.loads(pickle.dumps(table))["x"].to_pylist() == want
    assert skate.get(skate.remote(lambda t: t["x"].to_pylist()).remote(table)) == want
    assert [r["x"] for r in sd.from_arrow(table).map(lambda r: r).take_all()] == want
    fitted = skate.remote(
        lambda: sd.range(3).map(lambda r: {"x": Fraction(r["id"])}).take_all()
    ).remote()
    assert skate.get(fitted) == [{"x": Fraction(i)} for i in range(3)]


def test_files_and_plans_do_not_carry_the_mark(tmp_path, monkeypatch):
    """Written files have no mark, whatever the rows were, so that two jobs write the same bytes;
    the fingerprint of a resumed write has no mark either."""
    ds = sd.range(8, override_num_blocks=2).map(
        lambda r: {"x": Fraction(r["id"]) if r["id"] < 6 else r["id"], "id": r["id"]}
    )
    half = _job.secret()[:16]
    for fmt, read in (("parquet", sd.read_parquet), ("feather", sd.read_feather)):
        with case(fmt):
            target = str(tmp_path / fmt)
            getattr(ds, f"write_{fmt}")(target)
            for name in os.listdir(target):
                full = os.path.join(target, name)
                schema = pq.read_schema(full) if fmt == "parquet" else pa.ipc.open_file(full).schema
                assert schema.field("x").type == THEIRS and half not in open(full, "rb").read()
            with pytest.raises(UntrustedPickleError):
                read(target).take_all()
            rows = read(target, trust_pickled_columns=True).sort("id").take_all()
            assert [r["x"] for r in rows] == [Fraction(i) for i in range(8)]
    ours = PythonObjectType()
    sd.from_items([{"x": 1}]).write_parquet(
        str(tmp_path / "given"), schema=pa.schema([("x", ours)])
    )
    assert (
        pq.read_schema(str(tmp_path / "given" / os.listdir(tmp_path / "given")[0])).field("x").type
        == THEIRS
    )
    said = fingerprint.of({"schema": pa.schema([("x", pa.list_(ours))])})
    monkeypatch.setattr(_job, "_own", os.urandom(32))
    assert (
        not ours.trusted
        and fingerprint.of({"schema": pa.schema([("x", pa.list_(PythonObjectType()))])}) == said
    )


def test_nested_objects_of_blocks_that_differ():
    """Lists without elements, fields that some blocks lack, wider lists: objects at some depth are
    unified to one type, as other values are. Bytes do not become objects."""
    objects = ArrowPythonObjectArray.from_objects([Fraction(1, 2)])
    small, large = pa.array([0, 1], pa.int32()), pa.array([0, 1], pa.int64())
    lists, wide = (
        pa.ListArray.from_arrays(small, objects),
        pa.LargeListArray.from_arrays(large, objects),
    )
    less, more = (
        pa.StructArray.from_arrays([objects], ["a"]),
        pa.StructArray.from_arrays([objects, pa.array([1])], ["a", "b"]),
    )
    half, full = Fraction(1, 2), {"a": Fraction(1, 2), "b": 1}
    for a, b, want in (
        (pa.array([[]], pa.list_(pa.null())), lists, [[], [half]]),
        (lists, wide, [[half], [half]]),
        (less, more, [{"a": half, "b": None}, full]),
        (pa.array([{"a": None}]), less, [{"a": None}, {"a": half}]),
        (
            pa.ListArray.from_arrays(small, less),
            pa.ListArray.from_arrays(small, more),
            [[{"a": half, "b": None}], [full]],
        ),
    ):
        for one, other, values in ((a, b, want), (b, a, None)):
            with case(one.type, other.type):
                got = (
                    merge([pa.RecordBatch.from_arrays([c], ["x"]) for c in (one, other)])
                    .column(0)
                    .to_pylist()
                )
                assert got == values if values is not None else len(got) == 2
    for wrong in (pa.array([[b"x"]], pa.list_(pa.large_binary())), pa.array([[1]])):
        with pytest.raises(TypeError, match="column 'x'"):
            merge([pa.RecordBatch.from_arrays([c], ["x"]) for c in (wrong, lists)])


def test_marks_of_every_shape(mark):
    for name, col in shapes(mark).items():
        with case(name):
            ours = marks.trust(col)
            assert (
                ours.type != col.type
                and marks.bare(ours).equals(col)
                and marks.bare(ours.slice(1)).equals(col.slice(1))
            )
            assert marks.trust(ours) is ours and marks.has_objects(col.type)
            runs(ours.to_pylist, mark)
            told = marks.came_from(col, "/data/f")
            refused(told.to_pylist, mark, "/data/f")
            assert marks.relabelled(ours, told.type).equals(told) and marks.relabelled(
                told, col.type
            ).equals(col)
            refused(lambda told=told, ours=ours: marks.relabelled(told, ours.type), mark, "/data/f")
    assert marks.bare(pa.array([1])).type == pa.int64() and marks.trust(None) is None
    encoded = pa.DictionaryArray.from_arrays(pa.array([0, 0]), column(mark, 1))
    refused(encoded.to_pylist, mark)
    runs(marks.trust(encoded).to_pylist, mark)
    both = marks.of_both(marks.came_from(THEIRS, "/a"), marks.came_from(THEIRS, "/b"))
    refused(column(mark, t=both).to_pylist, mark, "several sources, such as /a")


# ---- formats with their own entries


def test_webdataset_unpickles_nothing(mark, tmp_path):
    path = str(tmp_path / "f.tar")
    objects = io.BytesIO()
    np.save(objects, np.array([Payload(mark)], dtype=object), allow_pickle=True)
    for ends in (("pyd",), ("pickle",), ("pkl",), ("npy",)):
        data = objects.getvalue() if ends == ("npy",) else evil(mark)
        with tarfile.open(path, "w") as tar:
            info = tarfile.TarInfo(f"a.{ends[0]}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        with case(*ends):
            if ends == ("npy",):
                with pytest.raises(ValueError, match="allow_pickle=False"):
                    sd.read_webdataset(path).take_all()
            else:
                assert sd.read_webdataset(path).take_all()[0][ends[0]] == evil(mark)
            assert not mark.exists()

    def decoded(row):
        return {**row, "npy": str(np.load(io.BytesIO(row["npy"]), allow_pickle=True))}

    runs(lambda: sd.read_webdataset(path, decoder=decoded).take_all(), mark)


def test_webdataset_tensors_are_data_only(mark, tmp_path):
    torch = pytest.importorskip("torch")
    path = str(tmp_path / "f.tar")
    for what, bad in ((torch.arange(3), False), (Payload(mark), True)):
        data = io.BytesIO()
        torch.save(what, data)
        with tarfile.open(path, "w") as tar:
            info = tarfile.TarInfo("a.pt")
            info.size = len(data.getvalue())
            tar.addfile(info, io.BytesIO(data.getvalue()))
        if bad:
            with pytest.raises(Exception, match="[Ww]eights"):
                sd.read_webdataset(path).take_all()
        else:
            assert sd.read_webdataset(path).take_all()[0]["pt"].tolist() == [0, 1, 2]
        assert not mark.exists()


def test_numpy_files(mark, tmp_path):
    path = str(tmp_path / "f.npy")
    np.save(path, np.array([Payload(mark)], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="allow_pickle=False"):
        sd.read_numpy(path).take_all()
    assert not mark.exists()
    runs(
        lambda: (
            sd.read_numpy(path, allow_pickle=True).count()
            or sd.read_numpy(path, allow_pickle=True).take_all()
        ),
        mark,
    )


def test_parameters_of_tensor_types(mark):
    """Ray pickles these parameters; they are not unpickled as code. A type also cannot misstate its
    storage type."""
    from skate.data.values.tensor_types import (
        ArrowTensorType,
        ArrowTensorTypeV2,
        ArrowVariableShapedTensorType,
    )

    ragged = ArrowVariableShapedTensorType(pa.int8(), 1)
    for cls, storage in (
        (ArrowTensorType, pa.list_(pa.int8())),
        (ArrowTensorTypeV2, pa.large_list(pa.int8())),
        (type(ragged), ragged.storage_type),
    ):
        with case(cls.__name__):
            with pytest.raises(ValueError, match="parameters of a tensor type are numbers"):
                cls.__arrow_ext_deserialize__(storage, evil(mark))
            assert not mark.exists()
            good = pickle.dumps(1 if cls is type(ragged) else (2,))
            assert cls.__arrow_ext_deserialize__(storage, good).storage_type == storage
            for other in (
                pa.int64(),
                pa.list_(pa.int8(), 2),
                pa.large_list(pa.int8()),
                pa.list_(pa.int8()),
                pa.struct([("data", pa.list_(pa.int8()))]),
            ):
                if other != storage:
                    with pytest.raises(ValueError, match="over"):
                        cls.__arrow_ext_deserialize__(other, good)


def test_metadata_of_pandas(mark, tmp_path):
    """A file's metadata about DataFrames is text, of which nothing is evaluated."""
    call = f"__import__('os').makedirs({str(mark)!r})"
    table = pa.Table.from_pandas(pd.DataFrame({"x": [1, 2]}))
    said = table.schema.metadata[b"pandas"].replace(
        b'"int64"', ('"' + call.replace('"', "'") + '"').encode()
    )
    table = table.replace_schema_metadata({b"pandas": said})
    pq.write_table(table, str(tmp_path / "f.parquet"))
    for ds in (sd.from_arrow(table), sd.read_parquet(str(tmp_path / "f.parquet"))):
        assert ds.to_pandas()["x"].tolist() == [1, 2]
        assert ds.map_batches(lambda b: b, batch_format="pandas").take_all() == [{"x": 1}, {"x": 2}]
    assert not mark.exists()


# ---- objects that programs store and load


def test_preprocessors(mark, tmp_path, monkeypatch):
    from skate.data import preprocessors as P

    fitted = P.StandardScaler(["x"]).fit(sd.from_items([{"x": 1.0}, {"x": 3.0}]))
    chain = P.Chain(P.StandardScaler(["x"])).fit(sd.from_items([{"x": 1.0}, {"x": 3.0}]))
    own = P.Concatenator(["x"])
    own.more = Payload(mark)  # an attribute that a program may have added
    text = Preprocessor.serialize(own)
    runs(lambda: Preprocessor.deserialize(text), mark)  # the text is from this job
    kept = [fitted.serialize(), chain.serialize()]
    monkeypatch.setattr(_job, "_own", os.urandom(32))  # from now on this process is another job
    refused(lambda: Preprocessor.deserialize(text), mark, "makedirs")
    made = pickle.loads(fitted.serialize()[5:])
    made["fields"] = {**made["fields"], "columns": Payload(mark)}
    refused(
        lambda: SerializablePreprocessorBase.deserialize(b"CPKL:" + pickle.dumps(made)),
        mark,
        "makedirs",
    )
    for name in (
        b"base\nos.makedirs",
        b"base\ninspect",
        b"base\npa",
        b"utils\nsimple_split_tokenizer.__globals__",
    ):
        refused(
            lambda n=name: SerializablePreprocessorBase.deserialize(
                b"CPKL:cskate.data.preprocessors." + n + b"\n."
            ),
            mark,
        )
    for k in kept:  # data only, as a program that serves a model loads it
        load = SerializablePreprocessorBase if isinstance(k, bytes) else Preprocessor
        again = load.deserialize(k)
        assert again.transform_batch(pd.DataFrame({"x": [3.0]}))["x"].tolist() == [1.0]
    sd.DataContext.get_current().trust_pickled_columns = True
    runs(lambda: Preprocessor.deserialize(text), mark)


def test_plans(mark, monkeypatch):
    data = sd.range(3).map(lambda r: r).serialize_lineage()
    assert sd.Dataset.deserialize_lineage(data).count() == 3
    refused(lambda: sd.Dataset.deserialize_lineage(evil(mark)), mark, "deserialize_lineage")
    refused(lambda: sd.Dataset.deserialize_lineage(evil(mark) + data[-32:]), mark)
    monkeypatch.setattr(_job, "_own", os.urandom(32))
    refused(lambda: sd.Dataset.deserialize_lineage(data), mark)
    sd.DataContext.get_current().trust_pickled_columns = True
    runs(lambda: sd.Dataset.deserialize_lineage(evil(mark)), mark)
    assert sd.Dataset.deserialize_lineage(data).count() == 3


# ---- files of skate's own, and sockets


def test_replay_files(mark, tmp_path, monkeypatch, capsys):
    """Replay files contain pickles, so only files that this user alone can have written are read.
    Foreign objects in them stay foreign, and their bytes do not have the mark."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ours = pa.RecordBatch.from_arrays(
        [ArrowPythonObjectArray.from_objects([Fraction(1, 2)]), column(mark, 1)], names=["a", "x"]
    )
    params = {
        "label": "Map",
        "op": "map",
        "fn": lambda row: {"b": print("a is", row["a"]) or 1},
        "fn_args": (),
        "fn_kwargs": {},
        "on_error": "raise",
    }
    name = replay.keep(params, ours, "row 0", 1 << 20)
    at = tmp_path / f"skate-replay-{os.getuid()}" / name
    assert not any(half in at.read_bytes() for half in (_job.secret()[:16], _job.secret()[16:]))
    kept = replay.load(name)
    assert marks.as_kept(
        pa.ipc.open_stream(kept["batch"]).read_next_batch(), kept["schema"]
    ).equals(ours)
    monkeypatch.setattr("pdb.post_mortem", lambda *a: None)
    monkeypatch.setattr("faulthandler.enable", lambda: None)  # pytest has enabled it already
    rerun.run(name)
    assert "UntrustedPickleError: column 'x'" in capsys.readouterr().out and not mark.exists()
    rerun.run(replay.keep(params, ours.select(["a"]), "row 0", 1 << 20))
    assert "a is 1/2" in capsys.readouterr().out
    at.write_bytes(evil(mark))
    at.chmod(0o666)
    with pytest.raises(PermissionError, match="can be written by others"):
        replay.load(name)
    at.chmod(0o600)
    at.parent.chmod(0o777)
    with pytest.raises(PermissionError, match="mode 0700"):
        replay.load(name)
    at.parent.chmod(0o700)
    (at.parent / "link").symlink_to(at)
    with pytest.raises(OSError, match="symbolic"):
        replay.load("link")
    assert not mark.exists()
    # the user's own files are trusted like the user's programs; this file was not written by keep()
    with pytest.raises(TypeError):
        replay.load(name)
    assert mark.exists()


def test_job_logs(mark, tmp_path):
    """Logs are records, not pickles, and cannot lead to other files."""
    target, kept = tmp_path / "out", tmp_path / "kept"
    (target / ".skate-job").mkdir(parents=True)
    log = target / ".skate-job" / "log"
    log.write_bytes(evil(mark))
    source = str(tmp_path / "in.parquet")
    pq.write_table(pa.table({"n": [1, 2, 3]}), source)
    with pytest.raises(skate.exceptions.RaySystemError, match="is no log of a job"):
        sd.read_parquet(source).write_parquet(str(target), resume=True)
    log.unlink()
    sd.read_parquet(source).write_parquet(str(target), resume=True)
    assert sd.read_parquet(str(target)).count() == 3 and not mark.exists()
    made = _skate.JobLog(str(log))
    (head,) = [r for r in made.records() if r[0] == 1]
    made.close()
    for staged, final in (
        ("../../kept", "x.parquet"),
        ("run-1/x", "../../../over"),
        (str(kept), "x.parquet"),
    ):
        kept.write_bytes(b"1")
        log.unlink()
        made = _skate.JobLog(str(log))
        made.head(head[1], head[2], head[3], [tuple(p) for p in head[4]])
        made.unit(0, [(staged.encode(), final.encode(), 3, 1)])
        made.sync()
        made.close()
        with case(staged, final):
            # such a record is treated as damage (base/log/joblog.h)
            sd.read_parquet(source).write_parquet(str(target), resume=True)
            assert (
                kept.read_bytes() == b"1"
                and not (tmp_path.parent / "over").exists()
                and sd.read_parquet(str(target)).count() % 3 == 0
            )


class Gone(sd.Datasink):
    def __init__(self, path):
        self.path = path

    def write(self, blocks, ctx):
        return None


def test_checkpoints_of_rows(mark, tmp_path):
    """Records of ids are read as columns, in which nothing is unpickled; skate's own records have
    no mark."""
    config = CheckpointConfig(
        id_column="id", checkpoint_path=str(tmp_path / "notes"), delete_checkpoint_on_success=False
    )
    notes = Rows(config, Gone(str(tmp_path / "out")))
    os.makedirs(notes.folder)
    pq.write_table(pa.table({"id": column(mark)}), os.path.join(notes.folder, "uuid_0.parquet"))
    assert notes.begin("other")["done"].type == THEIRS and not mark.exists()
    notes.note("other", 1, [ArrowPythonObjectArray.from_objects([Fraction(1)])])
    assert pq.read_schema(os.path.join(notes.folder, "other_1.parquet")).field("id").type == THEIRS


TRAINER = """
import skate.data as sd
from fractions import Fraction
(batch,) = sd.attach().iter_batches(batch_size=10)
assert list(batch["x"]) == [Fraction(i, 7) for i in range(4)], batch
"""


def test_the_socket_of_ranks(monkeypatch):
    """Each side checks that the process at the other end is of the same user; a trainer that
    attaches may unpickle the objects of its job."""
    its = (
        sd.range(4)
        .map(lambda r: {"x": Fraction(r["id"], 7)})
        .materialize()
        .streaming_split(1, equal=True, batch_size=10)
    )
    with sd.serve_ranks(its) as served:
        env = {**served.environ(), "RANK": "0"}
        trainer = subprocess.run(
            [sys.executable, "-c", TRAINER], env=env, capture_output=True, text=True, timeout=60
        )
        assert trainer.returncode == 0, trainer.stderr
        monkeypatch.setattr(ranks, "_peer", lambda s: (1, os.getuid() + 1))
        with pytest.raises(ConnectionError, match=f"of the user {os.getuid() + 1}"):
            sd.attach(served.address, 0)
        known = _job.secrets()
        # the driver finds another user at the other end
        monkeypatch.setattr(ranks, "_peer", lambda s: (1, os.getuid() + bool(s.getsockname())))
        with pytest.raises((RuntimeError, ConnectionError)):
            sd.attach(served.address, 0)
        assert _job.secrets() == known


def test_workers_know_the_secret_of_their_job(monkeypatch):
    assert (
        skate.get(skate.remote(lambda: _job.secret()).remote()) == _job.secret()
        and len(_job.secret()) == 32
    )
    ours = PythonObjectType()
    monkeypatch.setattr(_job, "handed", b"")
    monkeypatch.setattr(_job, "_facts", _job._facts)
    monkeypatch.setattr(_job, "_given", b"")
    # now this is a process of another driver, as processes of Ray may be
    _job.hand(pickle.dumps({"secret": b"s" * 32}))
    assert _job.secret() == b"s" * 32 and not ours.trusted and PythonObjectType().trusted
    assert _job.is_signed(_job.signed(b"x")) and not _job.is_signed(b"x" + bytes(32))


# ---- random columns and tables


def some_column(r, shape, mark, n, depth=0):
    """A column of n rows with objects at some depth: this job's, foreign ones, their bytes, or both
    kinds in the parts of a struct. shape: chooses the type."""
    kind = shape.choice(
        ["leaf", "list", "large_list", "fixed", "struct", "map", "dictionary"]
        if depth < 2
        else ["leaf"]
    )
    if kind == "leaf":
        of = r.choice(["ours", "theirs", "read", "bytes"])
        if of == "ours":
            return ArrowPythonObjectArray.from_objects(
                [r.choice([None, Fraction(1, 2), {1}]) for _ in range(n)]
            )
        bytes_ = pa.array(
            [r.choice([None, evil(mark), evil(mark)]) for _ in range(n)], pa.large_binary()
        )
        if of == "bytes":
            return bytes_
        return marks.came_from(
            pa.ExtensionArray.from_storage(THEIRS, bytes_),
            r.choice(["/a", "/b", ""]) if of == "read" else "",
        )
    if kind == "struct":
        parts = [some_column(r, shape, mark, n, depth + 1) for _ in range(shape.randint(1, 2))]
        return pa.StructArray.from_arrays(parts, [f"f{i}" for i in range(len(parts))])
    if kind == "dictionary":
        return pa.DictionaryArray.from_arrays(
            pa.array([r.randrange(2) for _ in range(n)], pa.int32()),
            some_column(r, shape, mark, 2, 2),
        )
    if kind == "fixed":
        return pa.FixedSizeListArray.from_arrays(some_column(r, shape, mark, 2 * n, depth + 1), 2)
    ends = [0, *sorted(r.randint(0, n) for _ in range(n - 1)), n]
    inner = some_column(r, shape, mark, n, depth + 1)
    if kind == "map":
        return pa.MapArray.from_arrays(
            pa.array(ends, pa.int32()), pa.array([str(i) for i in range(n)]), inner
        )
    make, t = (pa.ListArray, pa.int32()) if kind == "list" else (pa.LargeListArray, pa.int64())
    return make.from_arrays(pa.array(ends, t), inner)


def as_files(r, table, at):
    """The table as it is after a pickle or, if its format allows, after a file or a stream."""
    way = r.choice(["feather", "stream", "pickle", "parquet", "nothing"])
    bare = marks.bare(table)
    try:
        if way == "pickle":
            return pickle.loads(pickle.dumps(table))
        if way == "feather":
            pf.write_feather(bare, at)
            return pf.read_table(at)
        if way == "stream":
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, bare.schema) as w:
                w.write_table(bare)
            return pa.ipc.open_stream(sink.getvalue()).read_all()
        if way == "parquet":
            pq.write_table(bare, at)
            return pq.read_table(at)
    except (ValueError, pa.ArrowException, OSError):
        pass
    return table


@rounds.campaign()
def test_tables_of_both_at_random(mark, tmp_path):
    """Whatever is combined with whatever, no foreign pickle is unpickled, and bytes that are given
    out stay bytes."""
    first = rounds.seed()
    wrong = (
        UntrustedPickleError,
        TypeError,
        ValueError,
        pa.ArrowException,
        NotImplementedError,
    )  # types that cannot be unified, or for which Arrow has no kernel
    opened = 0
    for seed in range(first, first + rounds.rounds(300)):
        r = random.Random(seed)
        # mostly one type
        shapes_ = [
            random.Random(seed if r.random() < 0.7 else r.random()) for _ in range(r.randint(1, 3))
        ]
        tables = [
            as_files(
                r,
                pa.table({"x": some_column(r, shape, mark, r.randint(1, 4))}),
                str(tmp_path / "f"),
            )
            for shape in shapes_
        ]
        with case("seed", seed, *[t.schema.field("x").type for t in tables]):
            parts = [b for t in tables for b in t.to_batches()]
            for put in (
                lambda parts=parts: merge(parts),
                lambda parts=parts: [
                    cast_batch(p, unify([q.schema for q in parts])) for p in parts
                ],
                lambda parts=parts: [cast_batch(p, parts[0].schema) for p in parts],
                lambda parts=parts: pa.Table.from_batches(parts),
            ):
                try:
                    got = put()
                    for one in got if isinstance(got, list) else [got]:
                        for look in (to_rows, to_columns):
                            for b in one.to_batches() if isinstance(one, pa.Table) else [one]:
                                opened += len(look(b))
                except wrong:
                    pass
                assert not mark.exists()
            if seed % 10 == 0:
                try:
                    sd.from_arrow(tables).map(lambda row: {"n": len(row)}).take_all()
                    opened += 1
                except wrong:
                    pass
                assert not mark.exists()
    assert opened, "no table was looked at"
