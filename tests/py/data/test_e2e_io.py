"""Readers and writers on the engine."""

import hashlib
import os
import re

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import skate.data as sd


def digest(folder):
    """{name of a file without the write's id: digest of its content}"""
    return {
        re.sub("[0-9a-f]{32}_", "", os.path.relpath(os.path.join(w, f), folder)): hashlib.sha256(
            open(os.path.join(w, f), "rb").read()
        ).hexdigest()
        for w, _, fs in os.walk(folder)
        for f in fs
    }


def test_parquet_round_trip(tmp_path):
    ds = sd.range(5000, override_num_blocks=5).map_batches(
        lambda b: {"id": b["id"], "s": [str(i) for i in b["id"]]}
    )
    assert ds.write_parquet(str(tmp_path / "a")) is None
    ds.write_parquet(str(tmp_path / "b"))
    assert digest(tmp_path / "a") == digest(tmp_path / "b") and len(digest(tmp_path / "a")) == 5
    back = sd.read_parquet(str(tmp_path / "a"))
    assert back.count() == 5000 and back.schema().names == ["id", "s"]
    assert [r["id"] for r in back.take_all()] == list(range(5000))
    assert back.select_columns("s").take(1) == [{"s": "0"}]
    assert sd.read_parquet(str(tmp_path / "a"), columns=["id"]).map_batches(
        lambda b: b
    ).columns() == ["id"]
    with pytest.raises(KeyError, match="zz"):
        sd.read_parquet(str(tmp_path / "a"), columns=["zz"])
    assert "Wrote 5 files, 5,000 rows" in ds.stats()


def test_parquet_filter_and_row_groups(tmp_path):
    pq.write_table(pa.table({"x": list(range(1000))}), tmp_path / "f.parquet", row_group_size=100)
    ds = sd.read_parquet(str(tmp_path), filter=pc.field("x") >= 950, include_paths=True)
    assert ds.sum("x") == sum(range(950, 1000)) and ds.take(1)[0]["path"].endswith("f.parquet")
    assert sd.read_parquet(str(tmp_path), override_num_blocks=10).materialize().num_blocks() == 10


def test_partitions(tmp_path):
    sd.range(30).map(
        lambda r: {**r, "k": "a b" if r["id"] % 2 else None, "m": r["id"] % 3}
    ).write_parquet(str(tmp_path), partition_cols=["k", "m"])
    assert sorted(os.listdir(tmp_path)) == ["k=__HIVE_DEFAULT_PARTITION__", "k=a b"]
    rows = sd.read_parquet(str(tmp_path)).take_all()
    assert sorted(r["id"] for r in rows) == list(range(30))
    assert all((r["k"] == "a b") == (r["id"] % 2 == 1) and r["m"] == str(r["id"] % 3) for r in rows)


def test_modes(tmp_path):
    d = str(tmp_path / "d")
    sd.range(4, override_num_blocks=1).write_parquet(d)
    sd.range(4, override_num_blocks=1).write_parquet(d)
    assert sd.read_parquet(d).count() == 8, "append"
    sd.range(3).write_parquet(d, mode="ignore")
    assert sd.read_parquet(d).count() == 8
    with pytest.raises(ValueError, match="mode"):
        sd.range(3).write_parquet(d, mode=sd.SaveMode.ERROR)
    sd.range(3).write_parquet(d, mode="overwrite")
    assert sd.read_parquet(d).count() == 3
    with pytest.raises(ValueError):
        sd.range(3).write_parquet(d, mode="nonsense")


def test_a_failed_write_leaves_the_target_as_it_was(tmp_path):
    d = str(tmp_path / "d")
    sd.range(4).write_parquet(d)
    before = digest(d)

    def fail(b):
        if b["id"][0] >= 500:
            raise ValueError("no")
        return b

    for mode in ("append", "overwrite"):
        with pytest.raises(ValueError, match="no"):
            sd.range(1000, override_num_blocks=10).map_batches(fail).write_parquet(d, mode=mode)
        assert digest(d) == before and not [n for n in os.listdir(d) if n.startswith(".")]


def test_max_rows_per_file(tmp_path):
    sd.range(100, override_num_blocks=2).write_parquet(str(tmp_path), max_rows_per_file=30)
    sizes = [pq.read_metadata(tmp_path / n).num_rows for n in sorted(os.listdir(tmp_path))]
    assert sum(sizes) == 100 and max(sizes) <= 30


def test_disk_full_is_one_clear_error(tmp_path):
    def limited(b):
        import resource
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
        return b

    def freed(b):
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        return b

    with pytest.raises(OSError, match="disk full or file size limit.*nothing was added"):
        sd.range(100_000).map_batches(limited).write_parquet(str(tmp_path))
    assert os.listdir(tmp_path) == []
    sd.range(8, override_num_blocks=8).map_batches(freed).take_all()


def test_a_second_error_while_cleaning_up_is_noted(tmp_path):
    import types

    import pyarrow as pa
    from skate.data.write.files import Files

    class Writer:
        def write(self, table):
            raise self.error

        def close(self):
            raise RuntimeError("the second")

    for error in (KeyError("the first"), OSError(5, "the first")):
        Writer.error = error
        params = {"folder": str(tmp_path), "prefix": "", "max_rows": None, "fs": None, "args": {}}
        files = Files(
            params, types.SimpleNamespace(seq=0), "x", lambda sink, schema, args: Writer()
        )
        with pytest.raises(type(error), match="the first") as e:
            files.write(iter([pa.table({"a": [1]})]))
        assert ["RuntimeError: the second" in n for n in e.value.__notes__] == [True]
        assert os.listdir(tmp_path) == []


def test_csv_json_text(tmp_path):
    rows = [{"a": 1, "b": "x,y"}, {"a": 2, "b": "é"}]
    ds = sd.from_items(rows, override_num_blocks=1)
    ds.write_csv(str(tmp_path / "c"))
    ds.write_json(str(tmp_path / "j"))
    assert sd.read_csv(str(tmp_path / "c")).take_all() == rows
    assert sd.read_json(str(tmp_path / "j")).take_all() == rows
    assert sd.read_text(str(tmp_path / "j")).count() == 2
    (tmp_path / "t.txt").write_text("a\n\nb\r\n")
    assert sd.read_text(str(tmp_path / "t.txt")).take_all() == [{"text": "a"}, {"text": "b"}]
    assert sd.read_text(str(tmp_path / "t.txt"), drop_empty_lines=False).count() == 3
    (tmp_path / "arr.json").write_text('[{"a": 1}, {"a": 2}]')
    assert sd.read_json(str(tmp_path / "arr.json")).sum("a") == 3


def test_binary_files(tmp_path):
    (tmp_path / "sub").mkdir()
    for name, data in (
        ("b.bin", b"bb"),
        ("a.bin", b""),
        ("sub/c.txt", b"c" * 10),
        (".hidden", b"h"),
        ("_x", b"u"),
        ("sub/.kept", b"k"),
    ):
        (tmp_path / name).write_bytes(data)
    rows = sd.read_binary_files(str(tmp_path), include_paths=True).take_all()
    assert [(os.path.relpath(r["path"], tmp_path), r["bytes"]) for r in rows] == [
        ("a.bin", b""),
        ("b.bin", b"bb"),
        ("sub/.kept", b"k"),
        ("sub/c.txt", b"c" * 10),
    ]
    assert sd.read_binary_files(str(tmp_path), file_extensions=["txt"]).take_all() == [
        {"bytes": b"c" * 10}
    ]
    assert (
        len(sd.read_binary_files([str(tmp_path / "a.bin"), str(tmp_path / "b.bin")]).input_files())
        == 2
    )
    assert sd.read_binary_files(str(tmp_path / "*.bin")).count() == 2


def test_damaged_and_unreadable_files_are_named(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(Exception, match="x.parquet"):
        sd.read_parquet(str(tmp_path))
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n1,2,3\n")
    with pytest.raises(Exception, match="bad.csv"):
        sd.read_csv(str(tmp_path / "bad.csv")).take_all()
    (tmp_path / "gone").write_bytes(b"x")
    ds = sd.read_binary_files(str(tmp_path / "gone"))
    (tmp_path / "gone").unlink()
    with pytest.raises(FileNotFoundError, match="gone"):
        ds.take_all()
    (tmp_path / "latin.txt").write_bytes(b"\xe9")
    with pytest.raises(ValueError, match="latin.txt.*encoding"):
        sd.read_text(str(tmp_path / "latin.txt")).take_all()
