"""write_parquet: columns with repeated values get dictionaries, columns of distinct values plain
pages; the values are the same in either case."""

import glob

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import skate

N = 40_000


def table():
    r = np.random.default_rng(3)
    return pa.table(
        {
            "key": pa.array(r.permutation(N)),
            "real": pa.array(r.random(N)),
            "few": pa.array(r.integers(0, 50, N).astype(float)),
            "some": pa.array(r.integers(0, 3000, N)),
            # the spread sample finds no value twice, but the sample of neighbours does
            "runs": pa.array(np.arange(N) // 30),
            "word": pa.array(r.choice(["a", "b", "longer"], N)),
            "name": pa.array([f"name {i}" for i in r.permutation(N)]),
            "nulls": pa.nulls(N, pa.int64()),
            "small": pa.array(r.integers(0, 100, N).astype(np.int8)),
            "point": pa.array(
                [{"x": 1, "y": [i % 3, None]} for i in range(N)],
                pa.struct([("x", pa.int32()), ("y", pa.list_(pa.int64()))]),
            ),
            "map": pa.array([[("k", i % 5)] for i in range(N)], pa.map_(pa.string(), pa.int64())),
            "pair": pa.array([[i % 7, 2] for i in range(N)], pa.list_(pa.int16(), 2)),
            "at": pa.array(r.permutation(N), pa.timestamp("us", "UTC")),
        }
    )


def encodings(folder):
    out = {}
    for f in glob.glob(f"{folder}/*.parquet"):
        md = pq.read_metadata(f)
        for g in range(md.num_row_groups):
            for i in range(md.num_columns):
                c = md.row_group(g).column(i)
                out.setdefault(c.path_in_schema, set()).add(
                    "RLE_DICTIONARY" in c.encodings or "PLAIN_DICTIONARY" in c.encodings
                )
    return out


PLAIN = {"key", "real", "name", "at"}


def test_dictionaries_where_values_repeat(tmp_path):
    t = table()
    skate.data.from_arrow(t).repartition(1).write_parquet(str(tmp_path / "o"))
    got = encodings(tmp_path / "o")
    assert {k: v for k, v in got.items() if k != "nulls"} == {
        k: {k not in PLAIN} for k in got if k != "nulls"
    }
    assert {
        "point.y.list.element",
        "map.key_value.key",
        "pair.list.element",
        "runs",
        "word",
    } <= got.keys()
    assert pq.read_table(str(tmp_path / "o")).equals(t)


@pytest.mark.parametrize(
    "args, all_of", [({"use_dictionary": True}, True), ({"use_dictionary": ["real"]}, False)]
)
def test_who_says_it_decides(tmp_path, args, all_of):
    skate.data.from_arrow(table().select(["key", "real", "few"])).repartition(1).write_parquet(
        str(tmp_path / "o"), **args
    )
    assert encodings(tmp_path / "o") == {"key": {all_of}, "real": {True}, "few": {all_of}}


def test_an_encoding_of_a_column(tmp_path):
    t = table().select(["real", "few"])
    skate.data.from_arrow(t).repartition(1).write_parquet(
        str(tmp_path / "o"), use_dictionary=False, column_encoding={"real": "BYTE_STREAM_SPLIT"}
    )
    assert encodings(tmp_path / "o") == {"real": {False}, "few": {False}}
    assert pq.read_table(str(tmp_path / "o")).equals(t)


def test_few_rows(tmp_path):
    t = table().slice(0, 5)
    skate.data.from_arrow(t).write_parquet(str(tmp_path / "o"))
    assert all(v == {True} for k, v in encodings(tmp_path / "o").items() if k != "nulls")
    assert pq.read_table(str(tmp_path / "o")).equals(t)
