"""Tables of Iceberg (over a catalog in SQLite) and Delta Lake: what is written is read, by skate and by
the libraries themselves."""

import datetime as dt

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import skate.data as sd

ROWS = [{"k": i % 3, "x": i, "s": str(i)} for i in range(100)]


@pytest.fixture
def catalog(tmp_path):
    pyiceberg = pytest.importorskip("pyiceberg.catalog")
    kwargs = {
        "name": "here",
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/warehouse",
    }
    given = dict(kwargs)
    found = pyiceberg.load_catalog(given.pop("name"), **given)
    found.create_namespace("db")
    schema = pa.schema([("k", pa.int64()), ("x", pa.int64()), ("s", pa.string())])
    found.create_table("db.t", schema)
    return found, kwargs


def test_iceberg(catalog):
    found, kwargs = catalog
    how = {"table_identifier": "db.t", "catalog_kwargs": kwargs}
    assert sd.read_iceberg(**how).take_all() == []
    ds = sd.from_items(ROWS, override_num_blocks=4)
    ds.write_iceberg("db.t", kwargs, {"made": "here"})
    table = found.load_table("db.t")
    assert sorted(table.scan().to_arrow().to_pylist(), key=lambda r: r["x"]) == ROWS
    assert len(table.snapshots()) == 1 and table.snapshots()[0].summary["made"] == "here"
    back = sd.read_iceberg(**how)
    assert back.count() == 100 and back.columns() == ["k", "x", "s"]
    assert sorted(back.take_all(), key=lambda r: r["x"]) == ROWS
    few = sd.read_iceberg(**how, row_filter="x >= 90 and k = 1", selected_fields=("x",))
    assert sorted(r["x"] for r in few.take_all()) == [91, 94, 97]
    assert few.schema().names == ["x"]
    # one commit replaces the rows of one key; the old snapshot stays
    first = table.current_snapshot().snapshot_id
    new = sd.from_items([{"k": 1, "x": -1, "s": "new"}])
    new.write_iceberg("db.t", kwargs, mode="overwrite", overwrite_filter="k = 1")
    got = sd.read_iceberg(**how).take_all()
    want = [r for r in ROWS if r["k"] != 1] + [{"k": 1, "x": -1, "s": "new"}]
    assert sorted(got, key=lambda r: r["x"]) == sorted(want, key=lambda r: r["x"])
    assert sd.read_iceberg(**how, snapshot_id=first).count() == 100
    new.write_iceberg("db.t", kwargs, mode="overwrite")
    assert sd.read_iceberg(**how).take_all() == [{"k": 1, "x": -1, "s": "new"}]


def test_iceberg_says_what_is_wrong(catalog):
    found, kwargs = catalog
    with pytest.raises(ValueError, match="Table does not exist: db.u; create it"):
        sd.read_iceberg(table_identifier="db.u", catalog_kwargs=kwargs)
    with pytest.raises(ValueError, match="'namespace.table'"):
        sd.read_iceberg(table_identifier="t", catalog_kwargs=kwargs)
    with pytest.raises(ValueError, match="no snapshot 5"):
        sd.read_iceberg(table_identifier="db.t", catalog_kwargs=kwargs, snapshot_id=5)
    with pytest.raises(ValueError, match="the table has no column 'z'"):
        sd.from_items([{"z": 1}]).write_iceberg("db.t", kwargs)
    with pytest.raises(ValueError, match="mode is 'append' or 'overwrite'"):
        sd.range(1).write_iceberg("db.t", kwargs, mode="error")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="is for mode='overwrite'"):
        sd.range(1).write_iceberg("db.t", kwargs, overwrite_filter="k = 1")
    assert not found.load_table("db.t").snapshots()


def test_a_partitioned_iceberg_table(catalog):
    found, kwargs = catalog
    table = found.load_table("db.t")
    with table.update_spec() as spec:
        spec.add_identity("k")
    sd.from_items(ROWS, override_num_blocks=2).write_iceberg("db.t", kwargs)
    files = found.load_table("db.t").inspect.files().to_pylist()
    assert {tuple(f["partition"].values()) for f in files} == {(0,), (1,), (2,)}
    got = sd.read_iceberg(table_identifier="db.t", catalog_kwargs=kwargs, row_filter="k = 2")
    assert sorted(r["x"] for r in got.take_all()) == list(range(2, 100, 3))


def test_delta(tmp_path):
    deltalake = pytest.importorskip("deltalake")
    path = str(tmp_path / "t")
    ds = sd.from_items(ROWS, override_num_blocks=4)
    ds.write_delta(path)
    table = deltalake.DeltaTable(path)
    assert table.version() == 0
    back = sorted(table.to_pyarrow_table().to_pylist(), key=lambda r: r["x"])
    assert back == ROWS
    assert sorted(sd.read_delta(path).take_all(), key=lambda r: r["x"]) == ROWS
    sd.from_items([{"x": 1000, "k": 0, "s": "more"}]).write_delta(path)
    assert sd.read_delta(path).count() == 101
    sd.range(10).write_delta(path, mode="ignore")
    assert deltalake.DeltaTable(path).version() == 1
    with pytest.raises(FileExistsError, match="there is a table at"):
        ds.write_delta(path, mode="error")
    with pytest.raises(ValueError, match="there is no column 'id'"):
        sd.range(10).write_delta(path)
    sd.range(10).write_delta(path, mode="overwrite")
    assert [r["id"] for r in sd.read_delta(path).take_all()] == list(range(10))
    assert sd.read_delta(path, 0).count() == 100


def test_a_delta_table_with_partitions(tmp_path):
    deltalake = pytest.importorskip("deltalake")
    path = str(tmp_path / "t")
    rows = [
        {"d": dt.date(2024, 1, 1 + i % 2), "name": ("a b/c", "x=y", None)[i % 3], "x": i}
        for i in range(30)
    ]
    sd.from_items(rows, override_num_blocks=3).write_delta(path, partition_by=["d", "name"])
    table = deltalake.DeltaTable(path)
    assert table.metadata().partition_columns == ["d", "name"]
    got = table.to_pyarrow_table().to_pylist()
    assert sorted(got, key=lambda r: r["x"]) == rows
    sd.from_items(rows[:2]).write_delta(path)
    assert deltalake.DeltaTable(path).to_pyarrow_table().num_rows == 32
    assert sorted(r["x"] for r in sd.read_delta(path).take_all()) == sorted([*range(30), 0, 1])
    with pytest.raises(ValueError, match="partitioned by"):
        sd.from_items(rows).write_delta(path, partition_by=["x"])


def test_a_partition_of_nan_keeps_its_rows(tmp_path):
    pytest.importorskip("deltalake")
    keys = pa.array([1.0, float("nan"), float("nan"), None])
    sd.from_arrow(pa.table({"k": keys, "x": range(4)})).write_delta(
        str(tmp_path / "t"), partition_by=["k"]
    )
    files = sorted((tmp_path / "t").glob("k=*/*.parquet"))
    assert sorted(pq.read_metadata(f).num_rows for f in files) == [1, 1, 2]
