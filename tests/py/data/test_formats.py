"""Formats, partitioned folders, users' sources and sinks: rows that are written are the same when
they are read back."""

import builtins
import datetime as dt
import decimal
import gzip
import io
import os
import pathlib
import re
import signal
import sqlite3
import struct
import subprocess
import sys
import tarfile
import threading
import urllib.parse

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
import skate.data as sd
from pyarrow import fs as pafs
from skate.data import FileShuffleConfig
from skate.data.datasource import (
    BlockBasedFileDatasink,
    Datasink,
    Datasource,
    FileBasedDatasource,
    FilenameProvider,
    Partitioning,
    PathPartitionFilter,
    PathPartitionParser,
    ReadTask,
    RowBasedFileDatasink,
)
from skate.data.datasource.file_based_datasource import FILE_SIZE_FETCH_PARALLELIZATION_THRESHOLD
from skate.data.expressions import col
from skate.data.read.files import list_files

TABLE = pa.table(
    {
        "i": pa.array([1, None, 3], pa.int32()),
        "s": ["a", "ü", None],
        "d": pa.array(
            [decimal.Decimal("1.10"), None, decimal.Decimal("-2.00")], pa.decimal128(9, 2)
        ),
        "t": pa.array([dt.datetime(2020, 1, 1), None, dt.datetime(2021, 2, 3)], pa.timestamp("us")),
        "l": pa.array([[1, 2], [], None], pa.list_(pa.int64())),
    }
)


@pytest.mark.parametrize("fmt", ["parquet", "feather", "orc"])
def test_arrow_formats_keep_types(tmp_path, fmt):
    getattr(sd.from_arrow(TABLE), f"write_{fmt}")(str(tmp_path))
    back = getattr(sd, f"read_{fmt}")(str(tmp_path))
    got = back.to_arrow()
    assert got.select(TABLE.column_names).to_pylist() == TABLE.to_pylist()
    assert back.schema().names == TABLE.column_names
    one = getattr(sd, f"read_{fmt}")(str(tmp_path), columns=["s"])
    assert one.take_all() == [{"s": "a"}, {"s": "ü"}, {"s": None}]


def test_numpy_files(tmp_path):
    data = np.arange(12, dtype=np.int16).reshape(4, 3)
    sd.from_numpy(data).write_numpy(str(tmp_path), column="data")
    assert np.array_equal(
        np.stack([r["data"] for r in sd.read_numpy(str(tmp_path)).take_all()]), data
    )
    with pytest.raises(KeyError, match="no column 'zz'"):
        sd.from_numpy(data).write_numpy(str(tmp_path), column="zz")
    with pytest.raises(TypeError, match="different shapes"):
        sd.from_items([{"a": [1]}, {"a": [1, 2]}]).write_numpy(str(tmp_path / "x"), column="a")


def test_images(tmp_path):
    images = [np.full((4, 5, 3), i, np.uint8) for i in range(3)]
    sd.from_items([{"im": i} for i in images]).write_images(str(tmp_path), column="im")
    got = sd.read_images(str(tmp_path), include_paths=True).take_all()
    assert [np.array_equal(r["image"], i) for r, i in zip(got, images, strict=True)] == [True] * 3
    assert all(r["path"].endswith(".png") for r in got)


ROWS = [
    {
        "b": b"\x00x",
        "s": "text",
        "i": -5,
        "f": 1.5,
        "li": [1, 2, 1 << 40],
        "lf": [0.5, 0.25],
        "none": None,
        "flag": True,
    },
    {
        "b": b"",
        "s": "ü",
        "i": 1 << 62,
        "f": -2.0,
        "li": [7, 8],
        "lf": [1.0, 2.0],
        "none": None,
        "flag": False,
    },
]


def test_tfrecords(tmp_path):
    sd.from_items(ROWS).write_tfrecords(str(tmp_path))
    for got, row in zip(sd.read_tfrecords(str(tmp_path)).take_all(), ROWS, strict=True):
        assert (
            got["b"] == row["b"]
            and got["s"].decode() == row["s"]
            and got["i"] == row["i"]
            and got["f"] == row["f"]
        )
        assert (
            list(got["li"]) == row["li"]
            and list(got["lf"]) == row["lf"]
            and got["flag"] == int(row["flag"])
        )
    (file,) = tmp_path.iterdir()
    data = bytearray(file.read_bytes())
    packed = tmp_path / "z" / "a.tfrecords.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress(bytes(data)))
    assert sd.read_tfrecords(str(packed)).count() == 2
    for at in (3, 20, len(data) - 1):  # in the length, in the data, in the last checksum
        hurt = bytearray(data)
        hurt[at] ^= 1
        bad = tmp_path / "bad" / f"{at}.tfrecords"
        bad.parent.mkdir(exist_ok=True)
        bad.write_bytes(bytes(hurt))
        with pytest.raises(ValueError, match="checksum"):
            sd.read_tfrecords(str(bad)).take_all()
    (tmp_path / "bad" / "short").write_bytes(bytes(data[:-3]))
    with pytest.raises(ValueError, match="ends within"):
        sd.read_tfrecords(str(tmp_path / "bad" / "short")).take_all()


def test_tfrecord_framing_is_the_documented_one():
    """Compares with a record made by hand: the CRC-32C of 32 zero bytes is 0x8a9136aa (RFC 3720),
    which is masked by a rotation and 0xa282ead8."""
    from skate._skate import crc32c
    from skate.data.files.crc32c import masked
    from skate.data.write.tfrecords import record

    assert crc32c(b"\x00" * 32) == 0x8A9136AA and crc32c(b"") == 0
    c = crc32c(b"abc")
    assert masked(b"abc") == ((c >> 15 | c << 17) + 0xA282EAD8) & 0xFFFFFFFF
    r = record(b"abc")
    assert (
        r[:8] == struct.pack("<Q", 3)
        and r[12:15] == b"abc"
        and struct.unpack("<I", r[15:])[0] == masked(b"abc")
    )


def test_webdataset(tmp_path):
    rows = [
        {"__key__": f"k{i}", "txt": f"t{i}", "json": {"a": i}, "cls": i, "npy": np.arange(i + 1)}
        for i in range(3)
    ]
    sd.from_items(rows).write_webdataset(str(tmp_path))
    got = sd.read_webdataset(str(tmp_path)).take_all()
    assert [(r["__key__"], r["txt"], r["json"]["a"], r["cls"]) for r in got] == [
        (f"k{i}", f"t{i}", i, i) for i in range(3)
    ]
    assert [len(r["npy"]) for r in got] == [1, 2, 3]
    only = sd.read_webdataset(str(tmp_path), suffixes=["txt"], decoder=None).take_all()
    assert only[0]["txt"] == b"t0" and "json" not in only[0]
    assert sd.read_webdataset(str(tmp_path), expand_json=True).take(1)[0]["a"] == 0
    twice = io.BytesIO()
    with tarfile.open(fileobj=twice, mode="w") as t:
        for _ in range(2):
            info = tarfile.TarInfo("x.txt")
            info.size = 1
            t.addfile(info, io.BytesIO(b"a"))
    (tmp_path / "twice.tar").write_bytes(twice.getvalue())
    with pytest.raises(ValueError, match="duplicate file name"):
        sd.read_webdataset(str(tmp_path / "twice.tar")).take_all()


def test_sql(tmp_path):
    db = str(tmp_path / "x.db")

    def connect():
        return sqlite3.connect(db)

    with connect() as c:
        c.execute("create table t(a integer, b text)")
    sd.range(500).map(lambda r: {"a": r["id"], "b": f"n{r['id']}"}).write_sql(
        "insert into t values (?, ?)", connect
    )
    assert sd.read_sql("select * from t", connect).count() == 500
    assert sd.read_sql(
        "select a from t where a >= ? order by a", connect, sql_params=(498,)
    ).take_all() == [{"a": 498}, {"a": 499}]
    with pytest.raises(ValueError, match="shard_keys"):
        sd.read_sql("select * from t", connect, override_num_blocks=3)
    # SQLite has no MD5, so there is one task
    assert (
        sd.read_sql("select * from t", connect, override_num_blocks=3, shard_keys=["a"]).count()
        == 500
    )


def test_partitioned_folders(tmp_path):
    sd.from_items(
        [{"y": y, "k": k, "v": 10 * y + k} for y in (1, 2) for k in (3, 4)]
    ).write_parquet(str(tmp_path / "h"), partition_cols=["y", "k"])
    ds = sd.read_parquet(str(tmp_path / "h"))
    assert sorted((r["y"], r["k"], r["v"]) for r in ds.take_all()) == [
        ("1", "3", 13),
        ("1", "4", 14),
        ("2", "3", 23),
        ("2", "4", 24),
    ]
    typed = sd.read_parquet(
        str(tmp_path / "h"), partitioning=Partitioning("hive", field_types={"y": int})
    )
    assert (
        sorted(r["y"] for r in typed.take_all()) == [1, 1, 2, 2]
        and typed.schema().types[typed.schema().names.index("y")] == pa.int64()
    )
    some = sd.read_parquet(
        str(tmp_path / "h"), partition_filter=PathPartitionFilter.of(lambda d: d["y"] == "2")
    )
    assert sorted(r["v"] for r in some.take_all()) == [23, 24]
    by_filter = sd.read_parquet(str(tmp_path / "h"), filter=pc.field("k") == "3")
    assert sorted(r["v"] for r in by_filter.take_all()) == [13, 23]
    assert sd.read_parquet(str(tmp_path / "h"), partitioning=None).columns() == ["v"]
    assert sd.read_parquet(str(tmp_path / "h"), columns=["k"]).columns() == ["k"]
    d = tmp_path / "d" / "2020" / "de"
    d.mkdir(parents=True)
    (d / "a.csv").write_text("v\n1\n")
    ds = sd.read_csv(
        str(tmp_path / "d"),
        partitioning=Partitioning(
            "dir", base_dir=str(tmp_path / "d"), field_names=["year", "land"]
        ),
        include_paths=True,
    )
    assert ds.take_all() == [{"v": 1, "year": "2020", "land": "de", "path": str(d / "a.csv")}]
    both = tmp_path / "m" / "month=01" / "a.csv"
    both.parent.mkdir(parents=True)
    both.write_text("month,v\n1,2\n,3\n")
    assert sd.read_csv(str(tmp_path / "m"), partitioning=Partitioning("hive")).take_all() == [
        {"month": 1, "v": 2},
        {"month": 1, "v": 3},
    ]
    both.write_text("month,v\n1,2\n2,3\n")
    with pytest.raises(ValueError, match="partition column month: the path says '01'"):
        sd.read_csv(str(tmp_path / "m"), partitioning=Partitioning("hive")).take_all()
    with pytest.raises(ValueError, match="No input files"):
        sd.read_csv(str(tmp_path / "d"), partition_filter=PathPartitionFilter.of(lambda d: False))


def test_partition_values_that_the_data_contradict(tmp_path):
    (tmp_path / "v=2").mkdir()
    (tmp_path / "v=2" / "a.csv").write_text("v,w\n1,5\n")
    with pytest.raises(ValueError, match="partition column v: the path says '2'"):
        sd.read_csv(str(tmp_path)).take_all()
    (tmp_path / "v=2" / "a.csv").write_text("v,w\n2,5\n")
    assert sd.read_csv(str(tmp_path)).take_all() == [{"v": 2, "w": 5}]


def test_path_parser():
    p = PathPartitionParser.of("hive", base_dir="/b", field_types={"n": int, "f": bool})
    assert (
        p("/b/n=3/f=True/x=a%20b/file") == {"n": 3, "f": True, "x": "a b"}
        and p("/c/n=3/file") == {}
    )
    assert PathPartitionParser.of("dir", field_names=["a", None, "b"])("1/2/3/x") == {
        "a": "1",
        "b": "3",
    }
    for bad in ({"style": "dir"}, {"style": "what"}):
        with pytest.raises(ValueError):
            PathPartitionParser.of(**bad)
    with pytest.raises(ValueError, match="Expected 2 partition"):
        PathPartitionParser.of("dir", field_names=["a", "b"])("1/x")
    with pytest.raises(ValueError, match="field_names wants "):
        PathPartitionParser.of("hive", field_names=["a"])("b=1/x")


def test_files_of_different_columns_have_one_schema(tmp_path):
    pq.write_table(pa.table({"a": pa.array([1], pa.int32()), "b": ["x"]}), tmp_path / "1.parquet")
    pq.write_table(
        pa.table({"a": pa.array([1 << 40], pa.int64()), "c": [2.0]}), tmp_path / "2.parquet"
    )
    ds = sd.read_parquet(str(tmp_path))
    assert ds.schema().names == ["a", "b", "c"] and ds.schema().types[0] == pa.int64()
    assert ds.take_all() == [{"a": 1, "b": "x", "c": None}, {"a": 1 << 40, "b": None, "c": 2.0}]
    assert ds.select_columns(["c", "a"]).take_all() == [
        {"c": None, "a": 1},
        {"c": 2.0, "a": 1 << 40},
    ]
    pq.write_table(pa.table({"a": ["text"]}), tmp_path / "3.parquet")
    with pytest.raises(
        TypeError, match="column .a. has type int64 in .*2.parquet and string in .*3.parquet"
    ):
        sd.read_parquet(str(tmp_path))


def test_pushdown_reads_less_and_gives_the_same(tmp_path):
    pq.write_table(
        pa.table({"a": list(range(1000)), "b": [f"s{i}" for i in range(1000)], "c": [1.0] * 1000}),
        tmp_path / "x.parquet",
        row_group_size=100,
    )
    ds = sd.read_parquet(str(tmp_path), override_num_blocks=1)
    out = ds.filter(expr=col("a") >= 950).select_columns(["b"])
    assert [r["b"] for r in out.take_all()] == [f"s{i}" for i in range(950, 1000)]
    read = [f for o in out._stats.ops for f in o.get("fused") or [o]][0]
    # fewer than 1,000 rows, because the reader skipped row groups
    assert (read["rows_out"] if isinstance(read, dict) else read[0]) == 50
    same = ds.map_batches(lambda b: b).filter(expr=col("a") >= 950).select_columns(["b"])
    assert same.take_all() == out.take_all()
    assert ds.filter(expr="a < 10").count() == 10 == ds.filter(lambda r: r["a"] < 10).count()
    assert ds.with_column("n", col("a") + 1).select_columns(["n"]).sum("n") == sum(range(1, 1001))


def test_a_selection_of_a_selection(tmp_path):
    """The reader leaves out columns that the second selection does not need, so the first selection
    must not ask for them."""
    sd.from_items([{"a": i, "b": -i, "k": i % 2} for i in range(6)]).write_parquet(
        str(tmp_path), partition_cols=["k"]
    )
    ds = sd.read_parquet(str(tmp_path)).select_columns(["b", "a", "k"])
    assert sorted(r["a"] for r in ds.select_columns(["a"]).take_all()) == list(range(6))
    assert (
        ds.select_columns(["a", "b"]).columns()
        == ["a", "b"]
        == ds.select_columns(["a", "b"]).take_batch(batch_format="pyarrow").column_names
    )
    assert ds.drop_columns(["k"]).select_columns(["b"]).sum("b") == -15
    assert ds.count() == 6 and ds.drop_columns(["a", "b", "k"]).count() == 6


def test_many_remote_paths_are_looked_at_side_by_side(tmp_path):
    local = pytest.importorskip("fsspec.implementations.local")
    n = FILE_SIZE_FETCH_PARALLELIZATION_THRESHOLD
    # raises an error after a minute unless n tasks wait at the same time
    together = threading.Barrier(n)

    class Together(local.LocalFileSystem):
        cachable = False

        def info(self, path, **kw):
            if path in asked:
                asked.remove(path)
                together.wait(60)
            return super().info(path, **kw)

    paths = [str(tmp_path / f"{i}.txt") for i in range(n)]
    for i, p in enumerate(paths):
        pathlib.Path(p).write_text(f"{i}\n")
    asked = set(paths)
    listing = list_files(paths, filesystem=Together())
    assert (
        not asked and listing.paths == paths and listing.sizes == [len(f"{i}\n") for i in range(n)]
    )
    with pytest.raises(FileNotFoundError, match="gone"):
        list_files([*paths, str(tmp_path / "gone")], filesystem=pafs.LocalFileSystem())
    listing = list_files(
        [*paths, str(tmp_path / "gone")], filesystem=pafs.LocalFileSystem(), ignore_missing=True
    )
    assert listing.paths == paths


def test_shuffled_files(tmp_path):
    for i in range(8):
        (tmp_path / f"{i}.csv").write_text(f"v\n{i}\n")

    def values(ds):
        return [r["v"] for r in ds.take_all()]

    fixed = sd.read_csv(
        str(tmp_path), shuffle=FileShuffleConfig(seed=5, reseed_after_execution=False)
    )
    assert values(fixed) == values(fixed) != list(range(8)) and sorted(values(fixed)) == list(
        range(8)
    )
    moving = sd.read_csv(str(tmp_path), shuffle=FileShuffleConfig(seed=5))
    assert len({tuple(values(moving)) for _ in range(4)}) > 1
    with pytest.raises(ValueError, match="Invalid value for 'shuffle'"):
        sd.read_csv(str(tmp_path), shuffle="rows")


def test_each_run_differs_when_the_reader_is_told_what_is_needed(tmp_path):
    """Pushing columns down replaces nodes of a plan; the runs of the new nodes must be counted as
    well."""
    for i in range(8):
        pq.write_table(pa.table({"v": [i], "w": [i]}), tmp_path / f"{i}.parquet")

    def runs(ds, n=4):
        return {tuple(r["v"] for r in ds.take_all()) for _ in range(n)}

    assert (
        len(
            runs(
                sd.read_parquet(str(tmp_path), shuffle=FileShuffleConfig(seed=1)).select_columns(
                    ["v"]
                )
            )
        )
        > 1
    )
    seed = sd.RandomSeedConfig(seed=1, reseed_after_execution=True)
    assert (
        len(
            runs(sd.read_parquet(str(tmp_path)).random_sample(0.5, seed=seed).select_columns(["v"]))
        )
        > 1
    )
    fixed = FileShuffleConfig(seed=1, reseed_after_execution=False)
    assert len(runs(sd.read_parquet(str(tmp_path), shuffle=fixed).select_columns(["v"]), 2)) == 1


class Counting(Datasource):
    def estimate_inmemory_data_size(self):
        return None

    def get_read_tasks(self, parallelism, per_task_row_limit=None, data_context=None):
        return [
            ReadTask(
                lambda i=i: iter([pa.table({"x": [i, i]})]),
                None,
                per_task_row_limit=per_task_row_limit,
            )
            for i in range(parallelism)
        ]


def test_sources_of_users():
    ds = sd.read_datasource(Counting(), override_num_blocks=3)
    assert [r["x"] for r in ds.take_all()] == [0, 0, 1, 1, 2, 2]
    one = ReadTask(
        lambda: [pa.table({"x": [1, 2, 3]}), pa.table({"x": [4]})], None, per_task_row_limit=2
    )
    assert [t.num_rows for t in one()] == [2]


class Lines(FileBasedDatasource):
    def _read_stream(self, f, path):
        yield pa.table({"line": f.read().decode().split()})


def test_file_sources_of_users(tmp_path):
    (tmp_path / "a.txt").write_text("x y")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"z"))
    ds = sd.read_datasource(Lines(str(tmp_path), include_paths=True))
    assert [r["line"] for r in ds.take_all()] == ["x", "y", "z"] and ds.take(1)[0]["path"].endswith(
        "a.txt"
    )


class Collect(Datasink):
    def __init__(self, path, bad=False):
        self.path, self.bad, self.state = path, bad, []

    def on_write_start(self, schema=None):
        self.state.append("start")

    def write(self, blocks, ctx):
        rows = [r for b in blocks for r in b.column("id").to_pylist()]
        if self.bad:
            raise OSError("no room")
        return ctx.task_idx, rows

    def on_write_complete(self, result):
        self.state.append(result)

    def on_write_failed(self, error):
        self.state.append(error)


def test_sinks_of_users():
    sink = Collect("x")
    sd.range(10, override_num_blocks=3).write_datasink(sink)
    start, result = sink.state
    assert (
        start == "start"
        and result.num_rows == 10
        and [r for _, rows in result.write_returns for r in rows] == list(range(10))
    )
    bad = Collect("x", bad=True)
    with pytest.raises(OSError, match="no room"):
        sd.range(3).write_datasink(bad)
    assert isinstance(bad.state[-1], OSError)


class PerRow(RowBasedFileDatasink):
    def write_row_to_file(self, row, file):
        file.write(str(row["id"]).encode())


class PerBlock(BlockBasedFileDatasink):
    def write_block_to_file(self, block, file):
        file.write(str(block.num_rows()).encode())


def test_file_sinks_of_users(tmp_path):
    sd.range(5).write_datasink(PerRow(str(tmp_path / "r"), file_format="txt"))
    assert sorted(p.read_text() for p in (tmp_path / "r").iterdir()) == ["0", "1", "2", "3", "4"]
    sd.range(40, override_num_blocks=8).write_datasink(
        PerBlock(str(tmp_path / "b"), min_rows_per_file=20, file_format="n")
    )
    assert (
        sum(int(p.read_text()) for p in (tmp_path / "b").iterdir()) == 40
        and len(list((tmp_path / "b").iterdir())) <= 2
    )


class Named(FilenameProvider):
    def get_filename_for_task(self, write_uuid, task_index):
        return f"part-{task_index}.csv"


class Unique(FilenameProvider):
    def get_filename_for_task(self, write_uuid, task_index):
        return f"part-{write_uuid}-{task_index}.parquet"


def test_appended_files_have_names_of_their_own(tmp_path):
    ds = sd.range(5, override_num_blocks=1)
    with pytest.raises(ValueError, match="'part-0.csv' that Named gave lacks"):
        ds.write_parquet(str(tmp_path), filename_provider=Named())
    assert list(tmp_path.iterdir()) == []
    for _ in range(2):
        ds.write_parquet(str(tmp_path), filename_provider=Unique())
    assert len(list(tmp_path.iterdir())) == 2 and sd.read_parquet(str(tmp_path)).count() == 10
    ds.write_parquet(str(tmp_path), filename_provider=Named(), mode="overwrite")
    assert [p.name for p in tmp_path.iterdir()] == ["part-0.csv"]


def test_file_names_and_modes(tmp_path):
    sd.range(5, override_num_blocks=1).write_csv(str(tmp_path), filename_provider=Named())
    assert [p.name for p in tmp_path.iterdir()] == ["part-0.csv"]
    for mode in ("error", sd.SaveMode.ERROR):
        with pytest.raises(ValueError, match="exists"):
            sd.range(5).write_csv(str(tmp_path), mode=mode)
    sd.range(7).write_csv(str(tmp_path), mode="ignore")
    assert sd.read_csv(str(tmp_path)).count() == 5
    sd.range(7).write_csv(str(tmp_path), mode="overwrite")
    assert sd.read_csv(str(tmp_path)).count() == 7
    sd.range(2).write_csv(str(tmp_path))
    assert sd.read_csv(str(tmp_path)).count() == 9


def test_snappy_and_other_streams(tmp_path):
    from skate.data.files.crc32c import masked

    def chunk(kind, body):
        return bytes([kind]) + len(body).to_bytes(3, "little") + body

    plain = b"hello " * 100
    packed = pa.Codec("snappy").compress(plain, asbytes=True)
    crc = struct.pack("<I", masked(plain))
    stream = (
        b"\xff\x06\x00\x00sNaPpY"
        + chunk(0, crc + packed)
        + chunk(1, struct.pack("<I", masked(b"end")) + b"end")
        + chunk(0xFE, b"\x00" * 5)
    )
    (tmp_path / "a.snappy").write_bytes(stream)
    assert sd.read_binary_files(str(tmp_path / "a.snappy")).take_all() == [
        {"bytes": plain + b"end"}
    ]
    (tmp_path / "b").write_bytes(stream)
    assert sd.read_binary_files(
        str(tmp_path / "b"), arrow_open_stream_args={"compression": "snappy"}
    ).take_all() == [{"bytes": plain + b"end"}]
    hurt = bytearray(stream)
    hurt[40] ^= 4
    (tmp_path / "c.snappy").write_bytes(bytes(hurt))
    with pytest.raises((ValueError, OSError)):
        sd.read_binary_files(str(tmp_path / "c.snappy")).take_all()
    (tmp_path / "d.txt.gz").write_bytes(gzip.compress(b"x\ny\n"))
    assert [r["text"] for r in sd.read_text(str(tmp_path / "d.txt.gz")).take_all()] == ["x", "y"]


def test_json_that_arrow_refuses(tmp_path):
    (tmp_path / "a.json").write_text('{"a": {"x": 1}}\n{"a": {"x": "text"}}\n')
    with pytest.raises((TypeError, pa.ArrowInvalid)):
        sd.read_json(str(tmp_path / "a.json")).take_all()
    (tmp_path / "b.json").write_text('{"a":\n 1}\n{"a": 2}')
    assert sd.read_json(str(tmp_path / "b.json")).take_all() == [{"a": 1}, {"a": 2}]


def test_references_of_other_forms():
    import pandas as pd
    import skate

    assert (
        sd.from_arrow_refs([skate.put(pa.table({"a": [1]})), skate.put(pa.table({"a": [2]}))]).sum(
            "a"
        )
        == 3
    )
    assert sd.from_pandas_refs(skate.put(pd.DataFrame({"a": [1, 2]}))).count() == 2
    assert sd.from_numpy_refs([skate.put(np.ones(3))]).count() == 3
    with pytest.raises(ValueError, match="expected ObjectRef"):
        sd.from_pandas_refs([pd.DataFrame({"a": [1]})])


def test_what_is_missing_says_which_package(monkeypatch, tmp_path):
    real = builtins.__import__

    def without(name, *a, **k):
        if name.split(".")[0] in ("fastavro", "dask", "modin", "daft", "tensorflow"):
            raise ImportError(f"No module named {name!r}")
        return real(name, *a, **k)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match="fastavro"):
        sd.read_avro(str(tmp_path))
    for method, package in (("to_dask", "dask"), ("to_modin", "modin"), ("to_daft", "daft")):
        with pytest.raises(ImportError, match=package):
            getattr(sd.range(1), method)()


def test_lineage_goes_to_other_processes():
    ds = sd.range(5).with_column("y", col("id") * 2).map(lambda r: {"z": r["y"] + 1})
    again = sd.Dataset.deserialize_lineage(ds.serialize_lineage())
    assert again.take_all() == ds.take_all()
    assert not sd.from_items([1]).has_serializable_lineage()
    with pytest.raises(ValueError, match="blocks in memory"):
        sd.from_items([1]).serialize_lineage()


@pytest.mark.parametrize("flavor", ["hive", None, "filename", "unsaid"])
def test_partitioning_flavors(tmp_path, flavor):
    """The files are as pyarrow expects them; they are appended twice, with and without a log."""
    import pyarrow.dataset as pds

    n = 300
    ds = sd.range(n, override_num_blocks=3).map_batches(
        lambda b: {"id": b["id"], "g": b["id"] % 5, "h": np.array([f"v/{i % 2}" for i in b["id"]])}
    )
    said = {} if flavor == "unsaid" else {"partitioning_flavor": flavor}
    for more in ({}, {"resume": True}, {"arrow_parquet_args_fn": lambda: said}):
        ds.write_parquet(
            str(tmp_path),
            partition_cols=["g", "h"],
            **({} if "arrow_parquet_args_fn" in more else said),
            **more,
        )
    schema = pa.schema([("g", pa.int64()), ("h", pa.string())])
    how = pds.partitioning(
        schema, flavor=None if flavor is None else "filename" if flavor == "filename" else "hive"
    )
    t = pds.dataset(str(tmp_path), partitioning=how).to_table()
    assert sorted(t.column_names) == ["g", "h", "id"] and t.num_rows == 3 * n
    assert all(r["g"] == r["id"] % 5 and r["h"] == f"v/{r['id'] % 2}" for r in t.to_pylist())
    assert sorted(t["id"].to_pylist()) == sorted(3 * list(range(n)))
    if flavor is None:
        parts = Partitioning(
            "dir", field_names=["g", "h"], base_dir=str(tmp_path), field_types={"g": int}
        )
        back = sd.read_parquet(str(tmp_path), partitioning=parts)
        assert back.count() == 3 * n and {r["g"] for r in back.take_all()} == set(range(5))
    elif flavor != "filename":
        assert {r["h"] for r in sd.read_parquet(str(tmp_path)).take_all()} == {"v/0", "v/1"}


def test_partitioning_flavors_that_cannot_be():
    ds = sd.from_items([{"g": None, "x": 1}])
    with pytest.raises(ValueError, match="give partition_cols"):
        ds.write_parquet("/nowhere", partitioning_flavor="hive")
    with pytest.raises(ValueError, match="'hive', None .* or 'filename', not 'odd'"):
        ds.write_parquet("/nowhere", partition_cols=["g"], partitioning_flavor="odd")


def test_a_null_has_a_folder_in_hive_only(tmp_path):
    ds = sd.from_items([{"g": None, "x": 1}, {"g": "a", "x": 2}])
    for flavor in (None, "filename"):
        with pytest.raises(ValueError, match="'g' has None"):
            ds.write_parquet(str(tmp_path / "no"), partition_cols=["g"], partitioning_flavor=flavor)
    ds.write_parquet(str(tmp_path / "out"), partition_cols="g")
    assert sorted(map(str, sd.read_parquet(str(tmp_path / "out")).unique("g"))) == ["None", "a"]


class Template(FilenameProvider):
    def __init__(self, text):
        super().__init__()
        self.text = text

    def get_filename_for_task(self, write_uuid, task_index):
        return self.text.replace("UUID", write_uuid)


def test_names_of_users_for_parquet(tmp_path):
    ds = sd.range(10, override_num_blocks=1)
    for text in ("x", "x.parquet", "x-{i}"):
        with pytest.raises(ValueError, match="lacks the write_uuid.*the same names"):
            ds.write_parquet(str(tmp_path), filename_provider=Template(text))
        ds.write_parquet(str(tmp_path / "over"), filename_provider=Template(text), mode="overwrite")
    for text in ("x_UUID", "x_UUID.parquet", "x_UUID-{i}", "x_UUID-{i}.parquet"):
        ds.write_parquet(str(tmp_path / "a"), filename_provider=Template(text), max_rows_per_file=5)
    names = sorted(p.name for p in (tmp_path / "a").iterdir())
    assert len(names) == 8 and all(
        re.fullmatch(r"x_[0-9a-f]{32}(_000001|-[01]|)\.parquet", n) for n in names
    ), names
    assert sd.read_parquet(str(tmp_path / "a")).count() == 40


def test_columns_that_are_null_at_first_get_their_type(tmp_path):
    rows = [{"a": None, "b": 1}, {"a": 1, "b": None}, {"a": None, "b": None}]
    ds = sd.from_blocks([pa.Table.from_pylist([r]) for r in rows])
    ds.write_parquet(str(tmp_path), min_rows_per_file=3)
    (f,) = tmp_path.iterdir()
    assert pq.read_table(f).to_pylist() == rows and pq.read_schema(f).types == [
        pa.int64(),
        pa.int64(),
    ]


# ---- names that occur twice


TWICE = pa.table([pa.array([1, 2]), pa.array([3, 4])], names=["a", "a"])
TWO = pa.table({"a": [1, 2], "b": [3, 4]})


def _connect():
    return sqlite3.connect(":memory:")


AT_THE_CALL = {
    "from_arrow": lambda d: sd.from_arrow(TWICE),
    "from_arrow of a batch": lambda d: sd.from_arrow(TWICE.to_batches()[0]),
    "from_blocks": lambda d: sd.from_blocks([TWICE]),
    "from_pandas": lambda d: sd.from_pandas(pd.DataFrame([[1, 2]], columns=["a", "a"])),
    "rename_columns": lambda d: sd.from_arrow(TWO).rename_columns({"b": "a"}),
    "select_columns": lambda d: sd.from_arrow(TWO).select_columns(["a", "a"]),
    "read_parquet": lambda d: sd.read_parquet(f"{d}/t.parquet"),
    "columns": lambda d: sd.read_parquet(f"{d}/p.parquet", columns=["a", "a"]),
}
IN_THE_RUN = {
    "rename_columns": lambda d: sd.from_arrow(TWO).map(lambda r: r).rename_columns({"b": "a"}),
    "a Table": lambda d: sd.from_arrow(TWO).map_batches(lambda t: TWICE, batch_format="pyarrow"),
    "a RecordBatch": lambda d: sd.from_arrow(TWO).map_batches(
        lambda t: TWICE.to_batches()[0], batch_format="pyarrow"
    ),
    "a DataFrame": lambda d: sd.from_arrow(TWO).map_batches(
        lambda t: pd.DataFrame([[1, 2]], columns=["a", "a"]), batch_format="pandas"
    ),
    "read_feather": lambda d: sd.read_feather(f"{d}/t.arrow"),
    "read_orc": lambda d: sd.read_orc(f"{d}/t.orc"),
    "read_sql": lambda d: sd.read_sql("select 1 as a, 2 as a", _connect),
}


@pytest.fixture(scope="module")
def named_twice(tmp_path_factory):
    d = tmp_path_factory.mktemp("twice")
    pq.write_table(TWICE, d / "t.parquet")
    pq.write_table(pa.table({"a": [1], "path": ["x"]}), d / "p.parquet")
    with pa.ipc.new_file(str(d / "t.arrow"), TWICE.schema) as f:
        f.write_table(TWICE)
    orc.write_table(TWICE, d / "t.orc")
    return d


@pytest.mark.parametrize("how", AT_THE_CALL)
def test_a_name_that_is_there_twice_is_an_error_at_the_call(named_twice, how):
    with pytest.raises(ValueError, match="'a'"):
        AT_THE_CALL[how](named_twice)


@pytest.mark.parametrize("how", IN_THE_RUN)
def test_a_name_that_is_there_twice_is_an_error_of_the_run(named_twice, how):
    ds = IN_THE_RUN[how](named_twice)
    with pytest.raises(ValueError, match="column name 'a' is there twice"):
        ds.take_all()


def test_names_that_are_made_or_replaced(tmp_path, named_twice):
    (tmp_path / "x.csv").write_text("a,a,b,a\n1,2,3,4\n")
    assert sd.read_csv(str(tmp_path / "x.csv")).take_all() == [{"a": 1, "a.1": 2, "b": 3, "a.2": 4}]
    for header in ("a,a,a.1", "a.1,a,a", "x,x.1,x,x.1"):
        (tmp_path / "x.csv").write_text(
            f"{header}\n" + ",".join("1" for _ in header.split(",")) + "\n"
        )
        assert sd.read_csv(str(tmp_path / "x.csv")).columns() == list(
            pd.read_csv(tmp_path / "x.csv").columns
        )
    ds = sd.from_arrow(TWO)
    assert ds.zip(ds).columns() == ["a", "b", "a_1", "b_1"]
    assert ds.rename_columns({"a": "b", "b": "a"}).take(1) == [{"b": 1, "a": 3}]
    assert ds.add_column("a", lambda b: b["b"]).take(1) == [{"a": 3, "b": 3}]
    with pytest.raises(ValueError, match="'path' is there twice"):
        sd.read_parquet(str(named_twice / "p.parquet"), include_paths=True)
    (tmp_path / "x.csv").write_text("path\n1\n")
    with pytest.raises(ValueError, match='column "path" of its own'):
        sd.read_csv(str(tmp_path / "x.csv"), include_paths=True).take_all()


# ---- file:// and local://


def test_what_is_a_local_path():
    from skate.data.files.local import local_path

    home = os.path.expanduser("~")
    for given, want in {
        "/a b": "/a b",
        "a/b": "a/b",
        "~/a": f"{home}/a",
        "file:///a%20b": "/a b",
        "file:/a": "/a",
        "file://localhost/a": "/a",
        "file://~/a": f"{home}/a",
        "local:///a%20b": "/a%20b",
        "s3://b/a": None,
        "gs://b/file:/x": None,
    }.items():
        assert local_path(given) == want, given


BY_URI = {
    "parquet": lambda ds, at: ds.write_parquet(at),
    "csv": lambda ds, at: ds.write_csv(at),
    "json": lambda ds, at: ds.write_json(at),
    "numpy": lambda ds, at: ds.write_numpy(at, column="n"),
    "tfrecords": lambda ds, at: ds.write_tfrecords(at),
    "webdataset": lambda ds, at: ds.map(lambda r: {"__key__": "k", "txt": "t"}).write_webdataset(
        at
    ),
    "feather": lambda ds, at: ds.write_feather(at),
    "orc": lambda ds, at: ds.write_orc(at),
    "images": lambda ds, at: ds.map(lambda r: {"image": np.zeros((2, 2), np.uint8)}).write_images(
        at, "image"
    ),
    "text": lambda ds, at: (
        pathlib.Path(local(at)).mkdir(parents=True),
        pathlib.Path(local(at), "x.txt").write_text("x"),
    ),
    "binary_files": lambda ds, at: (
        pathlib.Path(local(at)).mkdir(parents=True),
        pathlib.Path(local(at), "x").write_text("x"),
    ),
}


def local(uri):
    return urllib.parse.unquote(uri.removeprefix("file://").removeprefix("local://"))


@pytest.mark.parametrize("how", BY_URI)
def test_uris_of_local_files(tmp_path, how):
    folder = tmp_path / "a b"
    read = getattr(sd, f"read_{how}")
    for i, at in enumerate((folder.as_uri() + "/1", f"local://{folder}/2")):
        BY_URI[how](sd.from_items([{"n": 1}]), at)
        assert sorted(os.listdir(folder)) == ["1", "2"][: i + 1], "it is where the URI says"
        assert read(at).count() == 1
        assert read([at]).count() == 1
        (name,) = os.listdir(local(at))
        assert read(f"{at}/{name[:3]}*").count() == 1
    if how == "json":  # other files of a folder are left out, however the folder is named
        (folder / "2" / "x.txt").write_text("no JSON")
        assert read(at).count() == 1
    if how == "parquet":
        sd.range(1).write_parquet(f"{folder.as_uri()}/3", resume=True)
        assert (
            read(f"{folder.as_uri()}/3", include_paths=True)
            .take(1)[0]["path"]
            .startswith(f"{folder}/3/")
        )


# ---- many small files


def test_footers_are_read_side_by_side_only_where_they_are_waited_for(monkeypatch):
    """Footers are read in parallel only if reads have to wait: 32 threads that contended for the
    GIL took four times as long, and on a busy machine ten times."""
    import threading
    import types

    from skate.data.read.formats import parquet

    def threads(local, slept):
        counts = iter(slept)
        monkeypatch.setattr(
            parquet.resource, "getrusage", lambda _: types.SimpleNamespace(ru_nvcsw=next(counts))
        )
        paths = [str(i) for i in range(5 * parquet.LOOK + 3)]
        got = list(parquet._each(lambda p: (p, threading.get_ident()), paths, local))
        assert [p for p, _ in got] == paths
        return [t == threading.get_ident() for _, t in got]

    assert all(threads(True, [0, 3] * 6)), "the kernel had them at hand"
    mine = threads(True, [0, 0, 0, parquet.LOOK])
    assert mine == [True] * 2 * parquet.LOOK + [False] * (3 * parquet.LOOK + 3)
    assert not any(threads(False, []))


def test_a_small_parquet_file_is_read_as_a_whole(tmp_path, monkeypatch):
    """Arrow reads the columns of a file on its own threads, and waiting for one of these for each
    small file made such reads slow and uneven."""
    from skate.data.read.formats import parquet

    path = str(tmp_path / "x.parquet")
    pq.write_table(pa.table({"a": [1]}), path)
    with parquet._File._opened(None, path, {}) as f:
        assert isinstance(f, pa.BufferReader) and pq.read_table(f)["a"].to_pylist() == [1]
    monkeypatch.setattr(parquet, "SMALL_BYTES", 10)
    with parquet._File._opened(None, path, {}) as f:
        assert not isinstance(f, pa.BufferReader) and pq.read_table(f)["a"].to_pylist() == [1]


# ---- no rows


NONE = pa.schema([("a", pa.int32()), ("b", pa.string()), ("t", pa.timestamp("ns"))]).empty_table()


@pytest.mark.parametrize(
    "how", ["parquet", "feather", "orc", "csv", "json", "tfrecords", "webdataset"]
)
def test_no_rows_are_written_and_read_back(tmp_path, how):
    ones = pa.Table.from_pylist([{"a": 1, "b": "x", "t": None}], schema=NONE.schema)
    sources = {
        "empty": sd.from_arrow(NONE),
        "filtered": sd.from_arrow(ones).filter(lambda r: False),
        "unknown": sd.from_arrow(ones).map_batches(lambda t: t.slice(0, 0), batch_format="pyarrow"),
    }
    for name, ds in sources.items():
        at = str(tmp_path / name)
        getattr(ds, f"write_{how}")(at)
        back = getattr(sd, f"read_{how}")(at).materialize()
        assert back.count() == 0 and len(os.listdir(at)) == 1
        if how in ("parquet", "feather", "orc"):
            assert back.schema().base_schema.equals(NONE.schema)
        elif how == "csv":
            assert back.columns() == NONE.column_names
            getattr(ds, f"write_{how}")(at)
            assert len(os.listdir(at)) == 1, "to append nothing adds no file"


def test_no_rows_of_other_writes(tmp_path):
    ds = sd.from_arrow(NONE)
    ds.write_parquet(str(tmp_path / "parts"), partition_cols=["b"])
    assert sd.read_parquet(str(tmp_path / "parts")).schema().base_schema.equals(NONE.schema)
    schema = pa.schema([("b", pa.large_string()), ("a", pa.int64())])
    ds.select_columns(["a", "b"]).write_parquet(str(tmp_path / "schema"), schema=schema)
    assert sd.read_parquet(str(tmp_path / "schema")).schema().base_schema.equals(schema)
    sd.range(0).write_parquet(str(tmp_path / "range"))
    assert sd.read_parquet(str(tmp_path / "range")).columns() == ["id"]
    for _ in range(2):
        sd.range(10).filter(lambda r: False).write_parquet(str(tmp_path / "resumed"), resume=True)
    assert sd.read_parquet(str(tmp_path / "resumed")).columns() == ["id"]
    ds.write_numpy(str(tmp_path / "numpy"), column="a")
    assert sd.read_numpy(str(tmp_path / "numpy")).count() == 0
    sd.range(4, override_num_blocks=4).filter(lambda r: r["id"] == 2).write_parquet(
        str(tmp_path / "some")
    )
    assert len(os.listdir(tmp_path / "some")) == 1, "no file of the tasks without rows"


def test_a_csv_file_with_a_header_only(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n")
    ds = sd.read_csv(str(tmp_path / "x.csv"))
    assert ds.count() == 0 and ds.columns() == ["a", "b"]
    (tmp_path / "y.csv").write_text("a,b\n1,x\n")
    assert sd.read_csv(str(tmp_path)).take_all() == [{"a": 1, "b": "x"}]


# ---- errors that are found before a run


ODD = pa.table(
    {"n": [1], "l": [[1, 2]], "y": [b"x"], "s": [{"deep": [b"x"]}], "u": pa.array([1], pa.uint64())}
)


@pytest.mark.parametrize(
    "how, columns, named",
    [
        ("csv", ["n", "l"], "l"),
        ("csv", ["s"], "s"),
        ("json", ["n", "y"], "y"),
        ("json", ["n", "s"], "s"),
        ("orc", ["n", "u"], "u"),
    ],
)
def test_a_column_that_a_format_has_no_form_for(tmp_path, how, columns, named):
    ds = sd.from_arrow(ODD).select_columns(columns)
    with pytest.raises(TypeError, match=f"write_{how}: column '{named}' is of type") as e:
        getattr(ds, f"write_{how}")(str(tmp_path / "x"))
    assert type(e.value) is TypeError and not os.path.exists(tmp_path / "x"), "no task has run"
    # the schema is not known before the run
    with pytest.raises(TypeError, match=f"write_{how}: column '{named}'"):
        getattr(ds.map_batches(lambda t: t, batch_format="pyarrow"), f"write_{how}")(
            str(tmp_path / "x")
        )


def test_bytes_in_json_that_the_user_turns_into_text(tmp_path):
    sd.from_arrow(ODD).select_columns(["y"]).write_json(str(tmp_path), default=lambda v: v.decode())
    assert sd.read_json(str(tmp_path)).take_all() == [{"y": "x"}]


@pytest.mark.parametrize("how", ["parquet", "csv", "json", "feather", "orc"])
def test_a_misspelt_keyword_of_a_write(tmp_path, how):
    with pytest.raises(TypeError, match=f"write_{how}: unexpected keyword argument 'compresion'"):
        getattr(sd.range(3), f"write_{how}")(str(tmp_path / "x"), compresion="zstd")
    assert not os.path.exists(tmp_path / "x")


@pytest.mark.parametrize(
    "how, wrong, near",
    [
        ("parquet", "colums", "columns"),
        ("csv", "parse_option", "parse_options"),
        ("json", "line", "lines"),
        ("numpy", "alow_pickle", "allow_pickle"),
    ],
)
def test_a_misspelt_keyword_of_a_read(how, wrong, near):
    with pytest.raises(
        TypeError, match=f"read_{how}.*unexpected keyword argument '{wrong}'; did you mean '{near}'"
    ):
        getattr(sd, f"read_{how}")("/nowhere", **{wrong: 1})


TERMINATED = """
import os, signal, sys
import skate.data as sd

out = sys.argv[1]

def f(b):
    if b["id"][0]:
        (stage,) = [n for n in os.listdir(out) if n.startswith(".skate-")]
        print("staged", flush=True)
        signal.pause()
    return b

sd.range(2, override_num_blocks=2).map_batches(f).write_parquet(sys.argv[1])
"""


def test_a_write_that_is_terminated_leaves_nothing(tmp_path):
    out = tmp_path / "out"
    p = subprocess.Popen(
        [sys.executable, "-c", TERMINATED, str(out)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert "staged" in p.stdout.readline()
        p.terminate()
        assert p.wait(60) == -signal.SIGTERM, "as any program that SIGTERM ends"
        assert os.listdir(out) == []
    finally:
        p.kill()
        p.wait()


def test_arguments_that_only_some_readers_and_writers_had(tmp_path):
    """Every reader and writer accepts the arguments that all share."""
    folder = tmp_path / "k=a"
    sd.range(5, override_num_blocks=1).write_tfrecords(str(folder), max_rows_per_file=2)
    assert len(os.listdir(folder)) == 3
    rows = sd.read_tfrecords(str(tmp_path), partitioning=sd.datasource.Partitioning("hive"))
    assert {r["k"] for r in rows.take_all()} == {"a"} and rows.count() == 5
    sd.range(3, override_num_blocks=3).write_feather(str(tmp_path / "f"), num_rows_per_file=3)
    assert len(os.listdir(tmp_path / "f")) == 1
    sd.range(3).write_parquet(str(tmp_path / "p"))
    paths = [str(tmp_path / "p"), str(tmp_path / "gone")]
    with pytest.raises(FileNotFoundError, match="gone"):
        sd.read_parquet(paths)
    assert sd.read_parquet(paths, ignore_missing_paths=True).count() == 3
