"""Paths that are no regular files, and files that change between the plan and the run."""

import os
import shutil
import socket

import fsspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import skate.data as sd
from pyarrow import fs as pafs

READERS = {
    "parquet": "read_parquet",
    "csv": "read_csv",
    "json": "read_json",
    "txt": "read_text",
    "bin": "read_binary_files",
    "png": "read_images",
    "npy": "read_numpy",
    "tfrecords": "read_tfrecords",
    "tar": "read_webdataset",
    "orc": "read_orc",
    "feather": "read_feather",
}


@pytest.mark.parametrize("ending", READERS)
@pytest.mark.parametrize("filesystem", [None, pafs.LocalFileSystem()])
def test_a_fifo_is_refused(tmp_path, ending, filesystem):
    path = tmp_path / f"a.{ending}"
    os.mkfifo(path)
    for given in (path, tmp_path):
        with pytest.raises(OSError, match=rf"not a file.*a\.{ending}"):
            getattr(sd, READERS[ending])(str(given), filesystem=filesystem).take_all()


def test_sockets_and_devices_are_refused(tmp_path):
    s = socket.socket(socket.AF_UNIX)
    s.bind(str(tmp_path / "s.csv"))
    with pytest.raises(OSError, match=r"a socket, not a file.*s\.csv"):
        sd.read_csv(str(tmp_path))
    s.close()
    with pytest.raises(OSError, match="a device, not a file.*/dev/zero"):
        sd.read_binary_files("/dev/zero")


@pytest.mark.parametrize("ending", ["parquet", "csv", "json", "txt", "bin", "orc", "feather"])
def test_a_file_that_becomes_a_fifo_is_refused(tmp_path, ending):
    path = str(tmp_path / f"a.{ending}")
    if ending == "parquet":
        pq.write_table(pa.table({"a": [1]}), path)
    else:
        with open(path, "w") as f:
            f.write("a\n1\n")
    ds = getattr(sd, READERS[ending])(path)
    os.unlink(path)
    os.mkfifo(path)
    with pytest.raises(OSError, match="a FIFO, not a file"):
        ds.take_all()


def files_of(folder, rows, n=4):
    os.makedirs(folder, exist_ok=True)
    for i in range(n):
        pq.write_table(
            pa.table({"a": list(range(rows))}),
            os.path.join(folder, f"{i}.parquet"),
            row_group_size=100,
        )


@pytest.mark.parametrize("where", ["local", "pyarrow", "fsspec"])
@pytest.mark.parametrize("filtered", [False, True])
def test_a_parquet_file_that_is_replaced_is_noticed(tmp_path, where, filtered):
    """19,010 rows become 20,000: the new file is smaller or larger, and is renamed into place or
    written in place."""
    at = {"local": None, "pyarrow": pafs.LocalFileSystem(), "fsspec": fsspec.filesystem("file")}[
        where
    ]
    for k, rows in enumerate((250, 10, 900)):
        folder = tmp_path / str(k)
        files_of(folder, 500)
        ds = sd.read_parquet(
            str(folder), filesystem=at, filter=pc.field("a") >= 0 if filtered else None
        )
        assert ds.count() == 2000 and ds.schema().names == ["a"]
        limited = ds.limit(1500)
        new = pa.table({"a": list(range(rows))})
        if k % 2:
            pq.write_table(new, folder / "new")
            os.rename(folder / "new", folder / "2.parquet")
        else:
            pq.write_table(new, folder / "2.parquet", row_group_size=100)
        for ask in (
            ds.count,
            ds.schema,
            ds.take_all,
            ds.map(lambda r: r).take_all,
            limited.count,
            ds.materialize,
        ):
            if filtered and ask is limited.count:
                continue  # the task may run and end before it reaches the changed file
            with pytest.raises(
                OSError, match=r"changed or replaced after its footer was read.*2\.parquet"
            ):
                ask()
        assert sd.read_parquet(str(folder), filesystem=at).count() == 1500 + rows


def test_a_file_of_the_same_size_is_noticed(tmp_path):
    """The statistics of the new file may differ: the row groups that a filter has excluded in the
    old file are not those of the new one."""
    a, b = str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")
    for path, first in ((a, 0), (b, 1000)):
        pq.write_table(
            pa.table({"a": list(range(first, first + 300))}),
            path,
            row_group_size=100,
            use_dictionary=False,
            compression="none",
        )
    assert os.path.getsize(a) == os.path.getsize(b)
    ds = sd.read_parquet(a, filter=pc.field("a") >= 1150)
    os.rename(b, a)
    with pytest.raises(OSError, match="another file"):
        ds.take_all()


def test_a_file_that_is_gone_is_named_by_count(tmp_path):
    for at in (None, pafs.LocalFileSystem()):
        files_of(tmp_path, 10)
        ds = sd.read_parquet(str(tmp_path), filesystem=at)
        os.unlink(tmp_path / "1.parquet")
        with pytest.raises(FileNotFoundError, match="1.parquet"):
            ds.count()


def test_what_is_in_memory_stays(tmp_path):
    files_of(tmp_path / "x", 10)
    ds = sd.read_parquet(str(tmp_path / "x")).materialize()
    shutil.rmtree(tmp_path / "x")
    assert ds.count() == 40 and ds.schema().names == ["a"]


def test_what_a_write_stages_is_not_read(tmp_path):
    """Staged files are not read, whether the folder itself or a folder above it is listed."""
    files_of(tmp_path / "sub", 10, 1)
    files_of(tmp_path / "sub" / ".skate-00", 10, 1)
    for at in (None, pafs.LocalFileSystem()):
        for folder in (tmp_path, tmp_path / "sub"):
            assert sd.read_parquet(str(folder), filesystem=at).count() == 10
