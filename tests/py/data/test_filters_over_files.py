"""Filters over files give the same rows as the same filter in memory, and do not read what
statistics or folders exclude. docs/design/predicates.md defines the truth of predicates."""

import datetime as dt
import math
import os

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import skate.data as sd
from skate.data.datasource import Partitioning, PathPartitionParser
from skate.data.expressions import Expr, col, inline, lit

NAN = math.nan
FIVES = [5.0, NAN, 5.0, 5.0, NAN, NAN, None, 5.0, -0.0, 0.0, 7.0, None]
NAN_STAYS = [
    col("x") != 5,
    ~(col("x") == 5),
    col("x").not_in([5.0]),
    ~col("x").is_in([5, 6]),
    ~(col("x") <= 5),
    ~(col("x") >= 5),
    ~(col("x") <= 7) | (col("i") < 0),
    lit(5.0) != col("x"),
    col("x") != col("x"),
    col("x").is_in([NAN]),
    "x != 5 and i >= 0",
    "not (x >= 5)",
    "is_nan(x)",
]


def name(e):
    return inline(e) if isinstance(e, Expr) else str(e)


@pytest.fixture(scope="module")
def fives(tmp_path_factory):
    """A folder with a file whose row groups of two rows have statistics such as min == max == 5;
    and the same rows in memory."""
    at = tmp_path_factory.mktemp("fives")
    table = pa.table({"x": FIVES, "i": list(range(len(FIVES)))})
    pq.write_table(table, at / "0.parquet", row_group_size=2)
    return str(at), table


def kept(ds):
    return sorted(r["i"] for r in ds.take_all())


@pytest.mark.parametrize("e", NAN_STAYS, ids=name)
def test_nan_is_not_lost_to_statistics(fives, e):
    folder, table = fives
    here, there = (
        kept(ds.filter(expr=e)) for ds in (sd.from_arrow(table), sd.read_parquet(folder))
    )
    assert here == there and {1, 4, 5} <= set(here)


def test_nan_is_not_lost_to_an_expression_of_pyarrow(fives):
    folder, table = fives
    x, i = pc.field("x"), pc.field("i")
    for e in (
        x != 5.0,
        ~(x == 5.0),
        ~pc.is_in(x, pa.array([5.0])),
        ~(x <= 5.0) & (i >= 0),
        pc.is_nan(x),
        ~(i < NAN),
        i.isin([1, 4, None]),
        x.isin([0, None]),
        i.isin([*range(3, 9), None, *range(20, 50)]),
        x > 5,
        (i == 4) | (x == 7),
        x.is_null(),
    ):
        want = table.filter(e)["i"].to_pylist()
        assert kept(sd.read_parquet(folder, filter=e)) == want, e
        assert kept(sd.read_parquet(folder, filter=e, columns=["i"])) == want, e
    assert sd.read_parquet(folder, filter=x != 5.0, columns=["i"]).take(1) == [{"i": 1}]


def groups_read(monkeypatch, read):
    """The number of row groups that read() reads."""
    from skate.data.read.formats import parquet

    found = []
    plain = parquet._File.batches
    monkeypatch.setattr(
        parquet._File, "batches", lambda self, groups: found.extend(groups) or plain(self, groups)
    )
    read()
    monkeypatch.undo()
    return len(found)


def in_this_process(ds):
    """Runs the read of a filter in this process, as a worker does."""
    import types

    from skate.data.plan.optimise import optimised

    node = optimised(ds._node, "raise")[0].inputs[0]
    for unit, _, _ in node.options["units"]:
        task = types.SimpleNamespace(unit=unit, target=1 << 20, source=None, source_row=None)
        yield from node.operator.run({**node.params, "label": "read"}, None, task)


@pytest.mark.parametrize(
    "e, most",
    [
        (col("f") > 90, 1),
        (col("f") == 55, 1),
        (col("f").is_in([5, 15, 1000]), 2),
        (~(col("f") > 5), 10),  # true for NaN, which any row group may have
        (col("i") > 90.5, 1),
        (col("i") != 5, 10),
        (~(col("i") >= 10), 1),
        (col("u") >= 2**63 + 90, 1),
        (col("s") < "05", 1),
        (col("t") > dt.datetime(1970, 1, 4, 17), 1),
        (col("d") == 91.5, 1),
        ((col("i") < 5) | (col("s") > "95"), 2),
        (col("n").is_null(), 1),
        (col("n").is_not_null() & (col("i") < 15), 2),
        (col("same") != 3, 0),
        (col("i") > 10**30, 0),
    ],
    ids=name,
)
def test_row_groups_that_statistics_rule_out_are_not_read(tmp_path, monkeypatch, e, most):
    i = list(range(100))
    columns = {
        "i": i,
        "f": pa.array(i, pa.float32()),
        "u": pa.array([v + 2**63 for v in i], pa.uint64()),
        "s": [f"{v:02}" for v in i],
        "t": pa.array([v * 3600 for v in i], pa.timestamp("s")),
        "d": pa.array([v + 0.5 for v in i]).cast(pa.decimal128(9, 1)),
        "n": [None if v == 33 else v for v in i],
        "same": [3] * 100,
    }
    pq.write_table(pa.table(columns), tmp_path / "0.parquet", row_group_size=10)
    ds = sd.read_parquet(str(tmp_path)).filter(expr=e)
    assert groups_read(monkeypatch, lambda: list(in_this_process(ds))) <= most
    assert kept(ds) == kept(sd.from_arrow(pa.table(columns)).filter(expr=e))


def test_a_long_list_and_many_row_groups(tmp_path, monkeypatch):
    """Each value of the list is placed once, and not once for each row group."""
    from skate.data.expr import bounds

    pq.write_table(pa.table({"i": range(500)}), tmp_path / "0.parquet", row_group_size=1)
    ds = sd.read_parquet(str(tmp_path)).filter(expr=col("i").is_in([*range(1000, 3000), 7, 7.5, 8]))
    placed, position = [], bounds.comparison.position
    monkeypatch.setattr(
        bounds.comparison, "position", lambda v, t: placed.append(v) or position(v, t)
    )
    assert (
        sum((rb.column(0).to_pylist() for rb in in_this_process(ds)), []) == [7, 8]
        and len(placed) == 2003
    )


def test_a_test_that_fails_is_the_filters(tmp_path):
    """If a pushed-down expression cannot be computed, the filter reports the error for the bad
    rows, and no other row is lost."""
    pq.write_table(pa.table({"x": [1, 2**63 - 1, 3]}), tmp_path / "0.parquet")
    ds = sd.read_parquet(str(tmp_path))
    good = ds.filter(expr=col("x") + 1 > 1, on_error="skip")
    assert [r["x"] for r in good.take_all()] == [1, 3]
    with pytest.raises(Exception, match="(?s)overflow.*Filter"):
        ds.filter(expr=col("x") + 1 > 1).take_all()


def test_a_function_over_blocks_comes_before_the_filter(tmp_path):
    pq.write_table(pa.table({"i": [1, 2, 3]}), tmp_path / "0.parquet", row_group_size=1)
    ds = sd.read_parquet(
        str(tmp_path), _block_udf=lambda t: t.set_column(0, "i", pc.multiply(t["i"], 10))
    )
    assert kept(ds.filter(expr="i > 15")) == [20, 30]


def test_null_is_not_true_beside_a_view(tmp_path):
    """Rows with types that Arrow's filter does not support are gathered by skate's code; null
    counts as false there, too."""
    table = pa.table(
        {"i": [1, None, 3, None], "v": pa.array(["a", "b", None, "d"], pa.string_view())}
    )
    assert [r["i"] for r in sd.from_arrow(table).filter(expr=col("i") > 0).take_all()] == [1, 3]


def test_a_filter_without_rows_keeps_the_columns(fives):
    some = sd.read_parquet(fives[0]).filter(expr="i > 99").materialize()
    assert some.count() == 0 and some.schema().names == ["x", "i"]


def test_files_of_other_types(tmp_path):
    """Statistics have the types of the files, values the types of the common schema."""
    pq.write_table(
        pa.table({"x": [0.1, 5.0], "i": [1, 2]}), tmp_path / "0.parquet", row_group_size=1
    )
    pq.write_table(
        pa.table(
            {"x": pa.array([0.1, 5], pa.float32()), "i": pa.array([3, 4], pa.int8()), "y": [1, 1]}
        ),
        tmp_path / "1.parquet",
        row_group_size=1,
    )
    for e in (
        col("x") > 0.1,
        col("x") == 0.1,
        col("i") > 2,
        col("y") == 1,
        col("y").is_null(),
        ~(col("y") != 1),
    ):
        ds = sd.read_parquet(str(tmp_path))
        assert kept(ds.filter(expr=e)) == kept(ds.materialize().filter(expr=e)), e
    schema = pa.schema([("x", pa.float32()), ("i", pa.string())])
    for e in (col("x") > 0.1, col("i") > "2"):
        ds = sd.read_parquet(str(tmp_path), schema=schema)
        assert kept(ds.filter(expr=e)) == kept(ds.materialize().filter(expr=e)), e


# ---- folders


@pytest.fixture
def years(tmp_path):
    """Ten years for two countries, each a file, and one file without a year; rows are numbered."""
    n = 0
    for y in [*range(2015, 2025), "__HIVE_DEFAULT_PARTITION__"]:
        for c in ("de", "fr"):
            at = tmp_path / f"year={y}" / f"country={c}"
            at.mkdir(parents=True)
            pq.write_table(
                pa.table({"x": list(range(10)), "i": list(range(n, n + 10))}),
                at / "0.parquet",
                row_group_size=5,
            )
            n += 10
    return tmp_path


def explained(ds, capsys):
    ds.explain()
    return capsys.readouterr().out


YEARS = [
    (col("year") == "2020", 2),
    ((col("year") == "2020") & (col("x") > 7), 2),
    ((col("x") > 7) & (col("country") == "de"), 11),
    (
        ((col("year") == "2020") & (col("country") == "fr"))
        | ((col("year") >= "2023") & (col("x") == 1)),
        5,
    ),
    ("year == '2020' or year is null", 4),
    (~col("year").is_in(["2015", "2016"]), 18),
    (col("year").is_null(), 2),
    ((col("year") == "2020") | (col("x") == 3), 22),
    (col("year") == "1999", 0),
    (col("year") != col("country"), 20),
]


@pytest.mark.parametrize("e, files", YEARS, ids=name)
def test_files_that_folders_rule_out_are_not_opened(years, capsys, monkeypatch, e, files):
    whole = sd.read_parquet(str(years)).materialize()
    ds = sd.read_parquet(str(years)).filter(expr=e)
    said = explained(ds, capsys)
    assert (
        f"reads {files} of 22 files, by what the folders say: " in said
        if files < 22
        else "partitions:" not in said
    )
    want = kept(whole.filter(expr=e))
    from skate.data.read.formats import parquet

    opened = set()
    plain = parquet.open_file
    monkeypatch.setattr(parquet, "open_file", lambda fs, path: opened.add(path) or plain(fs, path))
    list(in_this_process(ds))
    monkeypatch.undo()
    assert len(opened) == max(files, 1)  # one file is opened for its columns
    assert set(ds.schema().names) == {"x", "i", "year", "country"}
    for f in years.rglob("*.parquet"):  # the run needs no other file
        if str(f) not in opened:
            f.unlink()
    assert kept(ds) == want


def test_folders_with_types(years, capsys):
    typed = Partitioning("hive", field_types={"year": int})
    ds = sd.read_parquet(str(years), partitioning=typed)
    for e, files in (
        (col("year") >= 2023, 4),
        (col("year") > 2023.5, 2),
        (col("year").is_null(), 2),
        ((col("year") % 5 == 0) & (col("x") == 0), 4),
    ):
        some = ds.filter(expr=e)
        assert f"reads {files} of 22 files" in explained(some, capsys)
        assert kept(some) == kept(ds.materialize().filter(expr=e))
    schema = pa.schema(
        [("x", pa.int64()), ("i", pa.int64()), ("year", pa.int32()), ("country", pa.string())]
    )
    some = sd.read_parquet(str(years), schema=schema).filter(
        expr=(col("year") == 2020) & (col("x") == 1)
    )
    assert "reads 2 of 22 files" in explained(some, capsys) and len(some.take_all()) == 2


def test_a_condition_on_a_folder_leaves_the_others_to_the_reader(years, capsys, monkeypatch):
    ds = sd.read_parquet(str(years)).filter(expr="year == '2020' and x >= 5 and country == 'de'")
    said = explained(ds, capsys)
    assert (
        "skips rows for which this does not hold: (x >= 5)" in said
        and "reads 1 of 22 files" in said
    )
    assert groups_read(monkeypatch, lambda: list(in_this_process(ds))) == 1
    assert [r["x"] for r in ds.take_all()] == [5, 6, 7, 8, 9]


def test_folders_of_other_formats_and_shuffled_files(tmp_path, capsys):
    for y in (2015, 2016, 2017):
        for fmt in ("csv", "json"):
            (tmp_path / fmt / f"year={y}").mkdir(parents=True)
        (tmp_path / "csv" / f"year={y}" / "0.csv").write_text("i\n1\n2\n")
        (tmp_path / "json" / f"year={y}" / "0.json").write_text('{"i": 1}\n{"i": 2}\n')
        (tmp_path / "pq" / f"year={y}").mkdir(parents=True)
        pq.write_table(pa.table({"i": [1, 2]}), tmp_path / "pq" / f"year={y}" / "0.parquet")
    for read, fmt in ((sd.read_csv, "csv"), (sd.read_json, "json"), (sd.read_parquet, "pq")):
        for shuffle in (None, "files"):
            ds = read(str(tmp_path / fmt), shuffle=shuffle).filter(
                expr=(col("year") >= "2016") & (col("i") == 2)
            )
            assert "reads 2 of 3 files" in explained(ds, capsys)
            assert (
                sorted(r["year"] for r in ds.take_all())
                == ["2016", "2017"]
                == sorted(r["year"] for r in ds.take_all())
            )
        os.remove(next((tmp_path / fmt / "year=2015").iterdir()))
        assert sorted(r["year"] for r in ds.take_all()) == ["2016", "2017"]


def test_a_write_that_can_be_resumed_counts_the_units_that_are_read(years, tmp_path):
    ds = sd.read_parquet(str(years), override_num_blocks=22).filter(expr="year >= '2023'")
    out = tmp_path / "out"
    for _ in range(2):
        ds.write_parquet(str(out), resume=True)
        assert sorted(r["i"] for r in sd.read_parquet(str(out)).take_all()) == list(range(160, 200))


def test_what_a_path_may_have():
    parse = PathPartitionParser.of("hive")
    for e, may in (
        ((col("year") == "2020") & (col("x") > 3), True),
        ((col("year") == "2021") & (col("x") > 3), False),
        ((col("year") == "2021") | (col("x") > 3), True),
        (col("x") > 3, True),
    ):
        assert parse.evaluate_predicate_on_partition("/a/year=2020/0.parquet", e) == may
