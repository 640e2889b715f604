"""read_parquet -> map_batches, filter -> write_parquet: strings with few distinct values stay
dictionary-encoded inside the task; this changes the speed and nothing else."""

import glob
import os

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import skate.data as sd
from skate.data.expressions import col

N = 20_000


def make(seed):
    r = np.random.default_rng(seed)
    words = np.array(["", "a", f"only in {seed}", "日本", "long " * 20], object)
    few = words[r.integers(0, len(words), N)]
    nulls = np.where(r.random(N) < 0.2, None, few)
    return pa.table(
        {
            "n": pa.array(np.arange(N) + seed * N),
            "few": pa.array(few, pa.string()),
            "nulls": pa.array(nulls, pa.string()),
            "all null": pa.nulls(N, pa.string()),
            "many": pa.array([f"value {i} of {seed}" for i in range(N)]),
            "large": pa.array(few, pa.large_string()),
            "users": pa.array(few, pa.string()).dictionary_encode(),
            "when": pa.array(np.arange(N), pa.timestamp("us", "Europe/Berlin")),
        }
    )


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    at = tmp_path_factory.mktemp("coded") / "in"
    os.makedirs(at)
    for i in range(2):
        pq.write_table(make(i), at / f"{i}.parquet", row_group_size=7_000)
    return str(at), pa.concat_tables([make(0), make(1)])


def written(folder):
    files = sorted(glob.glob(f"{folder}/*.parquet"))
    tables = [pq.read_table(f) for f in files]
    assert all(t.schema.equals(tables[0].schema, check_metadata=True) for t in tables)
    return pa.concat_tables(tables)


def same(got, want):
    assert got.schema.equals(want.schema)
    for name in want.column_names:
        assert (
            got[name]
            .cast(pa.string() if name == "users" else want.schema.field(name).type)
            .to_pylist()
            == (want[name].cast(pa.string()) if name == "users" else want[name]).to_pylist()
        ), name


def untouched(b):
    b["m"] = b["n"] + 1
    return b


def as_dict(b):
    b = dict(b)
    b["m"] = b["n"] + 1
    return b


def as_pandas(b):
    import pandas as pd

    return pd.DataFrame(
        {k: v for k, v in b.items() if k not in ("users", "large", "when")} | {"m": b["n"] + 1}
    )


def as_generator(b):
    yield {**b, "m": b["n"] + 1}


@pytest.mark.parametrize("fn", [untouched, as_dict, as_generator])
@pytest.mark.parametrize(
    "expr",
    [col("n") % 3 == 0, col("few") == "日本", col("nulls").is_null(), None],
    ids=["number", "text", "null", "none"],
)
def test_the_values_are_the_same(source, tmp_path, fn, expr):
    path, t = source
    ds = sd.read_parquet(path).map_batches(fn)
    want = t.append_column("m", pc.add(t["n"], 1))
    if expr is not None:
        ds = ds.filter(expr=expr)
        want = want.filter(expr.to_pyarrow())
    ds.write_parquet(str(tmp_path / "o"))
    same(written(tmp_path / "o").sort_by("n"), want)


def test_strings_are_coded_on_the_way(source, tmp_path):
    def types(b):
        return {**b, **{f"type of {f.name}": [str(f.type)] * len(b["n"]) for f in b.rb.schema}}

    sd.read_parquet(source[0]).map_batches(types).filter(expr="n >= 0").write_parquet(
        str(tmp_path / "o")
    )
    t = written(tmp_path / "o")
    said = {n[8:]: t[n].unique().to_pylist() for n in t.column_names if n.startswith("type of ")}
    assert (
        "coded" in said["few"][0]
        and "coded" in said["nulls"][0]
        and said["many"] == ["string"]
        and said["large"] == ["large_string"]
    )
    assert said["users"][0].startswith("dictionary<")
    assert t.schema.field("few").type == pa.string() and len(said["few"]) == 1
    md = pq.read_metadata(glob.glob(f"{tmp_path}/o/*.parquet")[0])
    chunk = {
        md.row_group(0).column(i).path_in_schema: md.row_group(0).column(i)
        for i in range(md.num_columns)
    }["few"]
    assert (
        "RLE_DICTIONARY" in chunk.encodings
        and chunk.statistics.min == ""
        and chunk.statistics.max == "日本"
    )


def test_functions_that_change_strings(source, tmp_path):
    def change(b):
        b["few"][0] = "changed in place"
        if int(b["n"][0]) % 2:
            b["nulls"] = np.array(["new"] * len(b["n"]), object)
        b["swap"], b["many"] = b["few"], b["few"]
        del b["large"]
        return b

    sd.read_parquet(source[0]).map_batches(change).write_parquet(str(tmp_path / "o"))
    got = written(tmp_path / "o")
    few = got["few"].to_pylist()
    assert (
        few == got["swap"].to_pylist() == got["many"].to_pylist()
        and "changed in place" in few
        and "large" not in got.column_names
    )
    assert got.schema.field("few").type == got.schema.field("nulls").type == pa.string()
    want = source[1].filter(pc.is_in(source[1]["n"], got["n"]))
    assert [a for a in few if a != "changed in place"] == [
        w for w, a in zip(want["few"].to_pylist(), few) if a != "changed in place"
    ]


def test_some_batches_without_coded_columns(source, tmp_path):
    """A function may return encoded strings for some batches and plain ones for others; the written
    column is one of strings in any case."""

    def some(b):
        first = int(b["n"][0])
        out = {"n": b["n"], "few": b["few"] if first % 2 else [f"row {i}" for i in b["n"]]}
        return out

    sd.read_parquet(source[0], batch_size=999).map_batches(some).write_parquet(str(tmp_path / "o"))
    got = written(tmp_path / "o")
    assert got.schema.types == [pa.int64(), pa.string()] and sorted(got["n"].to_pylist()) == list(
        range(2 * N)
    )
    by = dict(zip(source[1]["n"].to_pylist(), source[1]["few"].to_pylist()))
    kinds = {True: 0, False: 0}
    for n, v in zip(got["n"].to_pylist(), got["few"].to_pylist()):
        assert v in (by[n], f"row {n}")
        kinds[v == by[n]] += 1
    assert kinds[True] and kinds[False]


def test_a_column_that_later_batches_lack(source, tmp_path):
    def lacks(b):
        b = dict(b)
        if int(b["n"][0]) % 2:
            del b["few"]
        return b

    sd.read_parquet(
        source[0], columns=["n", "few"], batch_size=999, override_num_blocks=1
    ).map_batches(lacks).write_parquet(str(tmp_path / "o"))
    got = written(tmp_path / "o").sort_by("n")
    by = source[1]["few"].to_pylist()
    assert (
        all(v in (None, by[n]) for n, v in zip(got["n"].to_pylist(), got["few"].to_pylist()))
        and got["few"].null_count
    )


def test_other_ways_out(source, tmp_path):
    path, t = source
    few = sorted(set(t["few"].to_pylist()))
    ds = sd.read_parquet(path).map_batches(as_dict).filter(expr="n < 5000")
    want = t.slice(0, 5000)["few"].to_pylist()
    assert [r["few"] for r in ds.take_all()] == want
    assert (
        ds.to_arrow()["few"].to_pylist() == want
        and ds.schema().base_schema.field("few").type == pa.string()
    )
    sd.read_parquet(path).map_batches(as_dict).map_batches(
        lambda d: d, batch_format="pandas"
    ).write_parquet(str(tmp_path / "p"))
    assert written(tmp_path / "p").sort_by("n")["few"].to_pylist() == t["few"].to_pylist()
    sd.read_parquet(path, columns=["n", "few"]).map_batches(as_dict).write_parquet(
        str(tmp_path / "c"), partition_cols=["few"]
    )
    assert {v or "" for v in pq.read_table(str(tmp_path / "c"))["few"].to_pylist()} <= {
        *few,
        "__HIVE_DEFAULT_PARTITION__",
    }
    sd.read_parquet(path).map_batches(as_pandas).write_parquet(str(tmp_path / "d"))
    got = written(tmp_path / "d").sort_by("n")
    assert (
        got["few"].to_pylist() == t["few"].to_pylist()
        and got["nulls"].to_pylist() == t["nulls"].to_pylist()
    )
    sd.read_parquet(path).map_batches(as_dict).write_csv(str(tmp_path / "e"))
    assert len(sd.read_csv(str(tmp_path / "e")).take(3)) == 3


def test_an_error_names_the_row_and_bad_rows_are_strings(source, tmp_path):
    def fails(b):
        if 1234 in b["n"]:
            raise RuntimeError("no")
        return b

    with pytest.raises(RuntimeError):
        sd.read_parquet(source[0]).map_batches(fails).write_parquet(str(tmp_path / "a"))
    ds = sd.read_parquet(source[0]).map_batches(fails, on_error="quarantine")
    ds.write_parquet(str(tmp_path / "b"))
    assert written(tmp_path / "b").num_rows == 2 * N - 1
