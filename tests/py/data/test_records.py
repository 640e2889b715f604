"""Compares read_records with numpy.fromfile, over files of random record types, and reads damaged
files."""

import gzip

import numpy as np
import pyarrow as pa
import pytest
import skate.data as sd
from hypothesis import given
from hypothesis import strategies as st
from rounds import examples
from skate.data.read.formats import records

FIELDS = ["?", "i1", ">i2", "<u4", "<i8", "<f4", ">f8", "S3", "V2", ("<i2", (2, 3)), "M8[us]"]
PARTS = st.lists(st.sampled_from(FIELDS), min_size=1, max_size=5).map(
    lambda fields: [(f"f{i}", *(f if isinstance(f, tuple) else (f,))) for i, f in enumerate(fields)]
)


def same(column, want):
    """Whether the values of a column equal those of a field that NumPy read."""
    if want.dtype.kind in "SV" and not want.dtype.names:
        raw, size = np.ascontiguousarray(want).tobytes(), want.dtype.itemsize
        assert column.to_pylist() == [raw[i : i + size] for i in range(0, len(raw), size)]
    elif want.ndim > 1:
        assert column.combine_chunks().to_numpy_ndarray().tolist() == want.tolist()
    else:
        assert column.to_pylist() == want.astype(want.dtype.newbyteorder("=")).tolist()


@examples(60)
@given(PARTS, st.integers(0, 40), st.integers(0, 2**32 - 1))
def test_columns_are_the_fields_that_numpy_reads(fields, n, seed):
    dtype = np.dtype(fields)
    data = np.random.default_rng(seed).integers(0, 2, n * dtype.itemsize, np.uint8).tobytes()
    want = np.frombuffer(data, dtype)
    got = pa.Table.from_batches([records._batch(want)])
    assert got.column_names == list(dtype.names) and got.num_rows == n
    for name in dtype.names:
        same(got.column(name), want[name])


def test_files_of_a_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "BATCH", 100 * 22)
    dtype = np.dtype([("id", ">u4"), ("key", "S10"), ("at", [("x", "<f4"), ("y", "<f4")])])
    rows = np.zeros(1000, dtype)
    rows["id"], rows["key"], rows["at"]["y"] = np.arange(1000), b"ab", np.arange(1000) / 4
    for i in range(4):
        part = b"head" + rows[i * 250 : (i + 1) * 250].tobytes() + b"end"
        (tmp_path / f"{i}.bin").write_bytes(part)
    ds = sd.read_records(tmp_path, dtype, header_bytes=4, footer_bytes=3, override_num_blocks=2)
    assert ds.columns() == ["id", "key", "at"]
    assert sorted(ds.take_all(), key=lambda r: r["id"]) == [
        {"id": i, "key": b"ab" + bytes(8), "at": {"x": 0.0, "y": i / 4}} for i in range(1000)
    ]


def test_a_dtype_without_fields_and_a_compressed_file(tmp_path):
    with gzip.open(tmp_path / "a.gz", "wb") as f:
        f.write(np.arange(5, dtype="<i2").tobytes())
    assert sd.read_records(tmp_path / "a.gz", "<i2").to_pandas()["data"].tolist() == [0, 1, 2, 3, 4]
    (tmp_path / "none").touch()
    empty = sd.read_records(tmp_path / "none", [("a", "<i2")])
    assert empty.take_all() == [] and empty.schema().names == ["a"]


@pytest.mark.parametrize(("n", "rows"), [(13, 3), (3, 0)])
def test_a_file_that_ends_within_a_record(tmp_path, n, rows):
    (tmp_path / "a").write_bytes(bytes(n))
    with pytest.raises(ValueError, match=rf"a.*its {n} bytes.*records of 4 bytes"):
        sd.read_records(tmp_path / "a", "<i4").take_all()
    ds = sd.read_records(tmp_path / "a", "<i4", on_error="quarantine").materialize()
    assert ds.count() == rows and ds.errors().count() == 1
    with pytest.raises(ValueError, match="9 of a header"):
        sd.read_records(tmp_path / "a", "<i4", header_bytes=9, footer_bytes=9).take_all()


@pytest.mark.parametrize(
    ("args", "error", "text"),
    [
        (("O",), TypeError, "Python objects"),
        (("V0",), ValueError, "has no bytes"),
        (("i4", -1), ValueError, "header_bytes"),
        (("nonsense",), TypeError, "nonsense"),
    ],
)
def test_what_is_wrong_is_said(args, error, text):
    with pytest.raises(error, match=text):
        sd.read_records("x", args[0], **dict(zip(("header_bytes",), args[1:])))
