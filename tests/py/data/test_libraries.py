"""Conversion to and from Polars, DuckDB, Hugging Face datasets and Dask; Arrow streams in both
directions. Types that the other library does not have are refused, not changed."""

import decimal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
import skate.data as sd

TABLE = pa.table(
    {
        "i": pa.array([1, None, 2**53 + 1], pa.int64()),
        "s": pa.array(["a", None, "ß"], pa.large_string()),
        "t": pa.array([0, None, 10**15], pa.timestamp("us", tz="UTC")),
        "l": pa.array([[1, 2], None, []], pa.large_list(pa.int32())),
        "st": pa.array([{"a": 1}, {"a": None}, {"a": 3}], pa.struct([("a", pa.int16())])),
        "b": pa.array([b"x", b"", None], pa.large_binary()),
        "d": pa.array(
            [decimal.Decimal("1.50"), None, decimal.Decimal("-2.25")], pa.decimal128(10, 2)
        ),
    }
)


def datasets():
    """Datasets that are eager, lazy with several blocks, and without rows."""
    return [
        sd.from_arrow(TABLE),
        sd.from_arrow([TABLE, TABLE]).map_batches(lambda b: b, batch_format="pyarrow"),
        sd.from_arrow(TABLE.slice(0, 0)),
    ]


@pytest.mark.parametrize("k", range(3))
def test_arrow_stream_out_and_in(k):
    ds = datasets()[k]
    want = [TABLE, pa.concat_tables([TABLE, TABLE]), TABLE.slice(0, 0)][k]
    got = pa.table(ds)
    assert got.schema.equals(want.schema) and got.combine_chunks().equals(want.combine_chunks())
    back = sd.from_arrow(pa.RecordBatchReader.from_stream(ds))
    assert back.to_arrow().equals(want.combine_chunks())


def test_a_stream_runs_while_it_is_read():
    done = []
    ds = sd.range(400, override_num_blocks=100).map_batches(lambda b: b)
    reader = pa.RecordBatchReader.from_stream(ds)
    done.append(reader.read_next_batch().num_rows)
    del reader  # closing the reader ends the run
    assert done == [4]
    with pytest.raises(Exception, match="boom"):
        pa.table(
            sd.range(4).map(
                lambda r: {
                    "x": 1 / 0 if r["id"] == 5 else (_ for _ in ()).throw(ValueError("boom"))
                }
            )
        )


def test_polars():
    import polars as pl

    ds = datasets()[1]
    df = pl.DataFrame(ds)
    assert df.shape == (6, 7) and df["i"].to_list() == [1, None, 2**53 + 1] * 2
    assert ds.to_polars().equals(df)
    back = sd.from_polars(df).to_arrow()
    for name in TABLE.column_names:
        assert back[name].to_pylist() == pa.concat_tables([TABLE, TABLE])[name].to_pylist(), name
    assert sd.from_polars(df.lazy().filter(pl.col("i") > 1)).count() == 2
    out = sd.from_polars(pl.DataFrame({"x": [1, 2, 3]})).map_batches(
        lambda b: pl.DataFrame({"y": b["x"] * 2})
    )
    assert out.take_all() == [{"y": 2}, {"y": 4}, {"y": 6}]
    assert pl.DataFrame(sd.from_numpy(np.arange(6).reshape(3, 2)))["data"].to_list() == [
        [0, 1],
        [2, 3],
        [4, 5],
    ]


def test_huggingface():
    import datasets as hf

    ds = datasets()[1]
    d = ds.to_huggingface()
    assert (
        isinstance(d, hf.Dataset)
        and d.num_rows == 6
        and d[1]["i"] is None
        and d[2]["i"] == 2**53 + 1
    )
    back = sd.from_huggingface(d, override_num_blocks=3)
    assert back.take_all() == ds.take_all()
    odd = d.select([4, 0]).filter(lambda r: r["i"] == 1)
    assert sd.from_huggingface(odd).select_columns(["i", "s"]).take_all() == [{"i": 1, "s": "a"}]
    stream = d.select_columns(["i"]).to_iterable_dataset().map(lambda r: {"i": (r["i"] or 0) + 1})
    assert [r["i"] for r in sd.from_huggingface(stream).take_all()] == [2, 1, 2**53 + 2] * 2
    with pytest.raises(DeprecationWarning, match="train, test"):
        sd.from_huggingface(hf.DatasetDict({"train": d, "test": d}))


def test_duckdb():
    import duckdb

    ds = datasets()[1]
    con = duckdb.connect()
    rel = con.from_arrow(pa.RecordBatchReader.from_stream(ds))
    assert rel.aggregate("count(*), max(i)").fetchall() == [(6, 2**53 + 1)]
    # DuckDB finds `ds` by its name, through __arrow_c_stream__
    assert con.sql("select sum(i) from ds").fetchall() == [(2 + 2 * (2**53 + 1),)]
    all_rows = ds.to_duckdb(con)
    assert all_rows.columns == TABLE.column_names and con.sql(
        "select max(i) from all_rows"
    ).fetchall() == [(2**53 + 1,)]
    assert ds.to_duckdb().aggregate("count(*)").fetchall() == [(6,)]
    back = sd.from_duckdb(con.sql("select range as x, range % 2 = 0 as even from range(5)"))
    assert back.count() == 5 and back.filter(expr="even").take_all() == [
        {"x": 0, "even": True},
        {"x": 2, "even": True},
        {"x": 4, "even": True},
    ]


def test_dask():
    import dask.dataframe as dd
    import pandas as pd

    df = pd.DataFrame({"x": range(10), "y": [f"v{i}" for i in range(10)]})
    ds = sd.from_dask(dd.from_pandas(df, npartitions=3))
    assert ds.count() == 10 and ds.num_blocks() == 3 and ds.take(1) == [{"x": 0, "y": "v0"}]
    assert ds.map(lambda r: {"x": r["x"] * 2}).to_dask()["x"].sum().compute() == 90


def test_lance(tmp_path):
    lance = pytest.importorskip("lance")
    path = str(tmp_path / "x.lance")
    ds = sd.range(100, override_num_blocks=4).map_batches(
        lambda b: {"id": b["id"], "t": np.ones((len(b["id"]), 2), np.float32)}
    )
    with pytest.raises(FileNotFoundError, match="append"):
        ds.write_lance(path, mode="append")
    ds.write_lance(path, min_rows_per_file=10)
    ds.write_lance(path, mode="append")
    with pytest.raises(FileExistsError, match="overwrite"):
        ds.write_lance(path)
    back = sd.read_lance(path, override_num_blocks=3)
    assert back.count() == 200 and sorted(r["id"] for r in back.take_all()) == sorted(
        [*range(100)] * 2
    )
    some = sd.read_lance(
        path, columns=["id"], filter="id < 5", version=lance.dataset(path).version - 1
    )
    assert (
        sorted(r["id"] for r in some.take_all()) == [0, 1, 2, 3, 4]
        and some.schema().names == ["id"]
        and some.count() == 5
    )
    with pytest.raises(ZeroDivisionError):  # no output of a failed write is visible
        sd.range(10, override_num_blocks=2).map(
            lambda r: {"id": r["id"] // (r["id"] - 9)}
        ).write_lance(path, mode="append")
    assert sd.read_lance(path).count() == 200
    sd.range(3).write_lance(path, mode="overwrite", schema=pa.schema({"id": pa.int32()}))
    assert (
        sd.read_lance(path).to_arrow().schema == pa.schema({"id": pa.int32()})
        and sd.read_lance(path).count() == 3
    )


def test_lance_without_rows(tmp_path):
    pytest.importorskip("lance")
    path = f"file://{tmp_path}/x.lance"
    none = pa.schema([("a", pa.int32()), ("b", pa.string())]).empty_table()
    sd.from_arrow(none).write_lance(path)
    back = sd.read_lance(path)
    assert back.count() == 0 and back.schema().base_schema.equals(none.schema)
    sd.from_arrow(none).write_lance(path, mode="append")
    assert back.count() == 0


def test_delta(tmp_path):
    deltalake = pytest.importorskip("deltalake")
    path = str(tmp_path / "t")
    t = pa.table({"k": [1, 1, 2], "d": pa.array([1, 2, 3], pa.date32()), "v": ["a", None, "c"]})
    deltalake.write_deltalake(path, t, partition_by=["k", "d"])
    deltalake.write_deltalake(path, t.slice(0, 1), mode="append")
    want = sorted(t.to_pylist(), key=str)
    assert (
        sorted(sd.read_delta(path, 0).take_all(), key=str) == want
        and sd.read_delta(path).count() == 4
    )
    assert (
        sd.read_delta(path, 0).to_arrow().schema.equals(t.schema)
        and sd.read_delta(path).schema().types == t.schema.types
    )
    assert sorted(r["k"] for r in sd.read_delta(path, columns=["k"]).take_all()) == [1, 1, 1, 2]
    deltalake.DeltaTable(path).delete("v = 'c'")
    assert sd.read_delta(path).count() == 3
    empty = str(tmp_path / "e")
    deltalake.write_deltalake(empty, t.slice(0, 0))
    assert (
        sd.read_delta(empty).schema().names == t.schema.names and sd.read_delta(empty).count() == 0
    )


def mcap_file(path, first, n, encoding="json"):
    """Writes n messages on two topics in turn, logged a microsecond apart, starting at `first`; one
    topic has a schema."""
    from mcap.writer import CompressionType, Writer

    with open(path, "wb") as f:
        w = Writer(f, compression=CompressionType.NONE, chunk_size=200)
        w.start()
        schema = w.register_schema("pose", "jsonschema", b"{}")
        topics = [
            w.register_channel("/pose", encoding, schema),
            w.register_channel("/raw", "bytes", 0),
        ]
        for i in range(n):
            at = (first + i) * 1000
            w.add_message(
                topics[i % 2],
                at,
                b'{"x": %d}' % i if i % 2 == 0 and encoding == "json" else b"\xff%d" % i,
                at + 1,
                i,
            )
        w.finish()


def test_mcap(tmp_path):
    pytest.importorskip("mcap")
    mcap_file(tmp_path / "a.mcap", 0, 10)
    mcap_file(tmp_path / "b.mcap", 100, 4)
    (tmp_path / "notes.txt").write_text("no log")
    folder = str(tmp_path)
    poses = sd.read_mcap(folder, topics={"/pose"}, override_num_blocks=2)
    first = {"data": {"x": 0}, "topic": "/pose", "log_time": 0, "publish_time": 1, "sequence": 0}
    first |= {
        "channel_id": 1,
        "message_encoding": "json",
        "schema_name": "pose",
        "schema_encoding": "jsonschema",
        "schema_data": b"{}",
    }
    rows = poses.take_all()
    assert rows[0] == first and [r["data"]["x"] for r in rows] == [0, 2, 4, 6, 8, 0, 2]
    raw = sd.read_mcap(
        folder, topics=["/raw"], include_metadata=False, include_paths=True
    ).take_all()
    assert raw[-1] == {
        "data": b"\xff3",
        "topic": "/raw",
        "log_time": 103000,
        "publish_time": 103001,
        "sequence": 3,
        "path": f"{folder}/b.mcap",
    }
    some = sd.read_mcap(folder, topics=["/raw"], time_range=(3000, 101000)).take_all()
    assert [r["log_time"] for r in some] == [3000, 5000, 7000, 9000] and some[0][
        "schema_name"
    ] is None
    # messages without a schema stay, as in Ray
    assert sd.read_mcap(folder, message_types={"other"}).count() == 7
    for wrong in (5, (1,), (5, 5), (-1, 3)):
        with pytest.raises(ValueError, match="time_range is"):
            sd.read_mcap(folder, time_range=wrong)


def test_mcap_that_is_damaged(tmp_path):
    pytest.importorskip("mcap")
    mcap_file(tmp_path / "a.mcap", 0, 10, "cdr")
    mcap_file(tmp_path / "b.mcap", 10, 10, "cdr")
    whole = (tmp_path / "a.mcap").read_bytes()
    (tmp_path / "a.mcap").write_bytes(whole[:300] + b"\xff" * 40 + whole[340:-8])
    with pytest.raises(ValueError, match="read_mcap .*a.mcap: "):
        sd.read_mcap(str(tmp_path)).take_all()
    ds = sd.read_mcap(str(tmp_path), on_error="quarantine").materialize()
    assert [r["log_time"] for r in ds.take_all()][-10:] == [i * 1000 for i in range(10, 20)]
    assert [e["source"] for e in ds.errors().take_all()] == [str(tmp_path / "a.mcap")]


def test_audio(tmp_path):
    soundfile = pytest.importorskip("soundfile")
    for i in range(3):
        soundfile.write(tmp_path / f"{i}.wav", np.full((1000 + i, 2), 0.25 * i, np.float32), 16000)
    (tmp_path / "no.txt").write_text("no sound")
    rows = sd.read_audio(str(tmp_path), include_paths=True).take_all()
    assert [r["amplitude"].shape for r in rows] == [(2, 1000), (2, 1001), (2, 1002)] and {
        r["sample_rate"] for r in rows
    } == {16000}
    assert (
        rows[1]["amplitude"].dtype == np.float32
        and abs(rows[1]["amplitude"].mean() - 0.25) < 1e-3
        and rows[2]["path"].endswith("2.wav")
    )
    (tmp_path / "3.wav").write_bytes(b"RIFFnothing")
    assert sd.read_audio(str(tmp_path), on_error="skip").count() == 3


def test_videos(tmp_path):
    av = pytest.importorskip("av")
    with av.open(str(tmp_path / "a.mp4"), "w") as f:
        s = f.add_stream("mpeg4", rate=10)
        s.width, s.height, s.pix_fmt = 64, 48, "yuv420p"
        for i in range(25):
            f.mux(
                s.encode(
                    av.VideoFrame.from_ndarray(
                        np.full((48, 64, 3), 10 * i, np.uint8), format="rgb24"
                    )
                )
            )
        f.mux(s.encode())
    rows = sd.read_videos(str(tmp_path), include_timestamps=True).take_all()
    assert (
        [r["frame_index"] for r in rows] == list(range(25))
        and rows[3]["frame"].shape == (48, 64, 3)
        and rows[3]["frame"].dtype == np.uint8
    )
    assert (
        abs(int(rows[20]["frame"].mean()) - 200) < 6
        and abs(rows[20]["frame_timestamp"][0] - 2.0) < 1e-6
    )
    assert sd.read_videos(str(tmp_path)).schema().names == ["frame", "frame_index"]


def film(path, n, rate, size=(48, 64)):
    """A lossless video: frame i is (i, 2 i, 255 - i) everywhere."""
    av = pytest.importorskip("av")
    with av.open(str(path), "w") as f:
        codec, form = ("ffv1", "bgr0") if path.suffix == ".mkv" else ("png", "rgb24")
        s = f.add_stream(codec, rate=rate)
        s.height, s.width, s.pix_fmt = *size, form
        for i in range(n):
            picture = np.full((*size, 3), (i, 2 * i, 255 - i), np.uint8)
            f.mux(s.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        f.mux(s.encode())


def colours(rows):
    """The i of each frame, which has to be of one colour."""
    found = []
    for r in rows:
        i = int(r["frame"][0, 0, 0])
        assert (r["frame"] == (i, 2 * i, 255 - i)).all()
        found.append(i)
    return found


# At 10 frames a second frame i begins at i / 10. 4 fps: at 0, 0.25, 0.5, 0.75 s and so on.
@pytest.mark.parametrize(
    "name, rate, fps, want",
    [
        ("a.mov", 10, 4, [0, 3, 5, 8, 10, 13, 15, 18, 20, 23]),
        ("a.avi", 10, 4, [0, 3, 5, 8, 10, 13, 15, 18, 20, 23]),
        ("a.mov", 10, 10, list(range(25))),
        ("a.mov", 10, 1000, list(range(25))),
        ("a.mov", 10, 1 / 0.3, [0, 3, 6, 9, 12, 15, 18, 21, 24]),
        ("a.mov", 10, np.float32(0.5), [0, 20]),
        ("a.mov", 10, 1e-9, [0]),
        ("a.mkv", 30, 30, list(range(25))),  # times are whole milliseconds: 0, 33, 67, 100
        ("a.mkv", 30, 15, list(range(0, 25, 2))),
        ("a.mkv", 24, 8, list(range(0, 25, 3))),
    ],
)
def test_videos_at_a_rate(tmp_path, name, rate, fps, want):
    film(tmp_path / name, 25, rate)
    rows = sd.read_videos(str(tmp_path), fps=fps, include_timestamps=True).take_all()
    assert colours(rows) == want
    assert [r["frame_index"] for r in rows] == want
    begins = [r["frame_timestamp"][0] for r in rows]
    assert np.allclose(begins, np.array(want) / rate, atol=0.0006)


def test_videos_resized(tmp_path):
    film(tmp_path / "a.mov", 9, 10)
    film(tmp_path / "b.mov", 4, 10, (30, 20))  # sizes that differ go together
    runs = [sd.read_videos(str(tmp_path), fps=5, resize=(24, 40)).to_arrow() for _ in range(2)]
    assert runs[0].equals(runs[1])
    rows = sd.read_videos(str(tmp_path), fps=5, resize=[np.int64(24), 40]).take_all()
    assert colours(rows) == [0, 2, 4, 6, 8, 0, 2]
    assert {r["frame"].shape for r in rows} == {(24, 40, 3)}
    assert {r["frame"].dtype for r in rows} == {np.dtype(np.uint8)}


def test_videos_in_several_batches(tmp_path):
    film(tmp_path / "a.mov", 20, 10, (600, 800))  # 1.44 MB each: 2 a batch
    rows = sd.read_videos(str(tmp_path), fps=5)
    assert colours(rows.iter_rows()) == list(range(0, 20, 2))
    assert [r["frame_index"] for r in rows.select_columns("frame_index").iter_rows()] == list(
        range(0, 20, 2)
    )


def test_files_without_a_video(tmp_path):
    av = pytest.importorskip("av")
    (tmp_path / "broken.mp4").write_text("no video")
    with pytest.raises(ValueError, match="Invalid data found") as e:
        sd.read_videos(str(tmp_path)).take_all()
    assert "broken.mp4" in str(e.value)
    with av.open(str(tmp_path / "a.mp4"), "w") as f:
        s = f.add_stream("aac", rate=16000)
        sound = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
        sound.sample_rate = 16000
        f.mux(s.encode(sound))
        f.mux(s.encode())
    with pytest.raises(ValueError, match="a.mp4: the file has no video, only other streams"):
        sd.read_videos(str(tmp_path / "a.mp4")).take_all()
    film(tmp_path / "b.mov", 3, 10)
    ds = sd.read_videos(str(tmp_path), on_error="skip")
    assert colours(ds.take_all()) == [0, 1, 2]


@pytest.mark.parametrize("fps", [0, -1, float("nan"), float("inf"), 1e7, True, "2"])
def test_videos_refuse_a_wrong_rate(fps):
    with pytest.raises(ValueError, match=r"^read_videos: fps must be a number of frames .*, not "):
        sd.read_videos("nowhere", fps=fps)


@pytest.mark.parametrize(
    "size", [(0, 4), (4, -1), (4,), (4, 4, 3), 4, "44", (4.5, 4), (4, 1 << 14)]
)
def test_videos_refuse_a_wrong_size(size):
    with pytest.raises(
        ValueError, match=r"^read_videos: resize must be \(height, width\), .*, not "
    ):
        sd.read_videos("nowhere", resize=size)


def test_without_av_the_package_is_named():
    code = """
import sys
sys.modules["av"] = None
import skate.data
try:
    skate.data.read_videos("x.mp4")
except ImportError as e:
    print(e)
"""
    r = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert r.stdout.startswith("read_videos needs the package av, which is not installed ("), r
    assert r.stdout.endswith(": pip install av\n"), r
