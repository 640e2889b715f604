"""read_parquet's row_hash and ignore_missing_paths, and label_selector of operators."""

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import skate.data as sd


@pytest.fixture
def folder(tmp_path):
    for k in range(2):
        table = pa.table({"x": range(k * 100, k * 100 + 100), "y": ["t"] * 100})
        pq.write_table(table, tmp_path / f"{k}.parquet", row_group_size=30)
    return tmp_path


def hashes(ds):
    return {r["x"]: r["row_hash"] for r in ds.take_all()}


def test_a_row_hash_is_of_the_file_and_the_rows_number(folder):
    whole = sd.read_parquet(str(folder), include_row_hash=True)
    assert whole.schema().names == ["x", "y", "row_hash"]
    want = hashes(whole)
    assert len(set(want.values())) == 200
    assert whole.schema().base_schema.field("row_hash").type == pa.uint64()
    # whatever tasks read, filters leave, and columns are asked for
    few = sd.read_parquet(str(folder), include_row_hash=True, override_num_blocks=1)
    assert hashes(few) == want
    by_test = hashes(few.filter(expr="x > 70 and x < 140"))
    assert by_test == {x: h for x, h in want.items() if 70 < x < 140}
    given = sd.read_parquet(str(folder), include_row_hash=True, filter=pc.field("x") > 150)
    assert hashes(given) == {x: h for x, h in want.items() if x > 150}
    some = sd.read_parquet(str(folder), include_row_hash=True, columns=["x"], include_paths=True)
    assert some.columns() == ["x", "path", "row_hash"]
    assert hashes(some) == want
    only = whole.select_columns(["row_hash"]).take_all()
    assert {r["row_hash"] for r in only} == set(want.values())
    assert whole.filter(expr="x > 1000").count() == 0


def test_a_column_of_that_name_is_told(folder):
    pq.write_table(pa.table({"row_hash": [1]}), folder / "2.parquet")
    with pytest.raises(ValueError, match="row_hash"):
        sd.read_parquet(str(folder / "2.parquet"), include_row_hash=True)


def test_missing_paths_are_left_out(folder):
    paths = [str(folder / "0.parquet"), str(folder / "9.parquet")]
    assert sd.read_parquet(paths, ignore_missing_paths=True).count() == 100
    with pytest.raises(FileNotFoundError, match="9.parquet"):
        sd.read_parquet(paths)


def test_operators_check_a_label_selector():
    assert sd.range(3).map_batches(lambda b: b, label_selector={"zone": "!in(a, b)"}).count() == 3
    with pytest.raises(ValueError, match="label_selector: 'zone'"):
        sd.range(3).map_batches(lambda b: b, label_selector={"zone": "a b"})
    with pytest.raises(TypeError, match="label_selector"):
        sd.range(3).filter(lambda r: True, label_selector="zone")
