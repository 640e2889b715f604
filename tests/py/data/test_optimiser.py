"""Each rule of the optimiser: what explain() shows with and without it, and that the rows stay the
same."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import skate.data as sd
from skate.data import aggregate as ag
from skate.data.aggregate import Count
from skate.data.expressions import col, lit, monotonically_increasing_id
from skate.data.plan import optimise
from skate.data.plan.node import below

RULES = ("projection", "predicates", "dictionary encoding", "limit", "fusion")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    at = tmp_path_factory.mktemp("optimiser")
    for i in range(3):
        x = list(range(100 * i, 100 * i + 100))
        pq.write_table(
            pa.table({"x": x, "y": [-v for v in x], "s": [f"kind {v % 3}" for v in x]}),
            at / f"{i}.parquet",
            row_group_size=40,
        )
    return str(at)


def physical(ds, capsys, write=None):
    text = ds.explain_text(write)
    return text[text.index("physical") :]


def without(monkeypatch, *rules):
    monkeypatch.setattr(optimise, "OFF", set(rules))


def test_projection(folder, monkeypatch, capsys):
    ds = (
        sd.read_parquet(folder)
        .filter(expr="x % 7 == 0")
        .select_columns(["y", "s"])
        .select_columns("y")
    )
    said = "  projection: ReadParquet reads 2 of 3 columns: x, y\n"
    assert said in physical(ds, capsys) + "\n"
    rows = ds.take_all()
    without(monkeypatch, "projection")
    assert "projection" not in physical(ds, capsys) and ds.take_all() == rows and len(rows) == 43


def test_rows_alone_are_wanted(folder, monkeypatch):
    """If only the number of rows is needed after a selection, the column that is read is one of the
    selection's."""
    few = sd.read_parquet(folder).select_columns(["s", "y"])
    plans = [
        few.with_column("n", lit(1)).select_columns("n").limit(2),
        few.select_columns("s").with_column("n", lit(1)).select_columns("n").limit(2),
    ]
    counts = [few.aggregate(Count()), few.select_columns("y").aggregate(Count())]
    assert [ds.take_all() for ds in plans] == [[{"n": 1}] * 2] * 2 and counts == [
        {"count()": 300}
    ] * 2
    without(monkeypatch, *RULES)
    assert [ds.take_all() for ds in plans] == [[{"n": 1}] * 2] * 2 and few.aggregate(
        Count()
    ) == counts[0]


def test_a_filter_hands_on_what_is_asked_for(folder, monkeypatch):
    """A filter passes the needed columns on, also behind a function whose columns are unknown."""
    ds = (
        sd.read_parquet(folder)
        .map_batches(lambda b: {**b, "z": b["x"] * 2})
        .filter(expr="z >= 590")
    )
    plans = [ds.select_columns(["y"]), ds.groupby("s").sum("y"), ds.aggregate]
    found = [n for n in below(optimise.optimised(plans[0]._node, "raise")[0]) if n.op == "filter"]
    assert [n.params["keep"] for n in found] == [{"y"}] and "keep" not in ds._node.params
    rows = [plans[0].take_all(), plans[1].take_all(), plans[2](Count()), ds.take(1)]
    without(monkeypatch, *RULES)
    assert [plans[0].take_all(), plans[1].take_all(), plans[2](Count()), ds.take(1)] == rows
    assert (
        len(rows[0]) == 5 and rows[2] == {"count()": 5} and set(rows[3][0]) == {"x", "y", "s", "z"}
    )


def test_predicates(folder, monkeypatch, capsys):
    ds = (
        sd.read_parquet(folder)
        .with_column("z", col("x") + col("y"))
        .filter(expr="x > 290")
        .filter(expr="z == 0")
    )
    said = "predicates: ReadParquet skips rows for which this does not hold: (x > 290)"
    assert said in physical(ds, capsys) and "z ==" not in said
    rows = ds.take_all()
    without(monkeypatch, "predicates")
    assert "predicates" not in physical(ds, capsys) and ds.take_all() == rows and len(rows) == 9


def test_predicates_stay_above_what_numbers_rows(folder, monkeypatch):
    """Rows that a predicate drops must have been numbered, too."""
    ds = (
        sd.read_parquet(folder)
        .with_column("i", monotonically_increasing_id())
        .filter(expr="x % 100 >= 98")
        .select_columns(["x", "i"])
    )
    rows = ds.take_all()
    without(monkeypatch, *RULES)
    assert ds.take_all() == rows and all(r["i"] & 0xFF > 10 for r in rows) and len(rows) == 6


def test_dictionary_encoding(folder, monkeypatch, tmp_path, capsys):
    ds = sd.read_parquet(folder).map_batches(lambda b: {**b, "z": b["x"] * 2}).filter(expr="z > 10")
    said = "dictionary encoding: strings of few values stay numbers into a dictionary from ReadParquet to WriteParquet"
    assert (
        said in physical(ds, capsys, "parquet")
        and said not in physical(ds, capsys)
        and said not in physical(ds, capsys, "csv")
    )
    ds.write_parquet(tmp_path / "with")
    assert said in ds.stats_dict()["rules"]
    without(monkeypatch, "dictionary encoding")
    assert said not in physical(ds, capsys, "parquet")
    ds.write_parquet(tmp_path / "without")
    assert "rules" not in ds.stats_dict()
    a, b = (sorted((tmp_path / name).iterdir()) for name in ("with", "without"))
    assert [pq.read_table(f).to_pylist() for f in a] == [
        pq.read_table(f).to_pylist() for f in b
    ] and len(a) == len(b)
    assert [pq.read_schema(f) for f in a] == [pq.read_schema(f) for f in b]


def test_dictionary_encoding_is_for_one_task_alone(folder, monkeypatch, tmp_path):
    """If another task writes what a task has read, the rows go through a block, where strings are
    plain strings."""

    def rules(ds, **more):
        ds.write_parquet(tmp_path, **more)
        return ds.stats_dict().get("rules")

    read = sd.read_parquet(folder)
    assert rules(read)
    assert rules(read.map_batches(lambda b: b, num_cpus=0.5)) is None
    assert rules(read.map_batches(lambda b: b, on_error="skip")) is None
    assert rules(read, min_rows_per_file=1000) is None
    without(monkeypatch, "fusion")
    assert rules(read) is None


def test_dictionary_encoding_up_to_groups(folder, monkeypatch, capsys):
    """The task that reads strings looks them up as numbers, and yields them as strings."""
    read = sd.read_parquet(folder)
    said = "dictionary encoding: strings of few values stay numbers into a dictionary from ReadParquet to Aggregate"
    ds = (
        read.map_batches(lambda b: {**b, "z": b["x"] * 2})
        .filter(expr="z > 10")
        .groupby("s")
        .aggregate(ag.Count(), ag.Max("x"), ag.Min("s"))
    )
    own = ag.AggregateFn(
        init=lambda k: 0, accumulate_row=lambda a, r: a + 1, merge=lambda a, b: a + b, name="own"
    )
    assert said in physical(ds, capsys) and said not in physical(
        read.groupby("s").aggregate(own), capsys
    )
    assert said not in physical(read.union(read.groupby("s").count()), capsys), (
        "others take what is read"
    )
    rows = ds.take_all()
    assert rows and ds.schema().base_schema.field("s").type == pa.string()
    for rule in ("fusion", "dictionary encoding"):
        without(monkeypatch, rule)
        assert said not in physical(ds, capsys) and ds.take_all() == rows


def test_the_plan_of_a_write(folder, capsys):
    read = sd.read_parquet(folder)
    assert "[tasks] ReadParquet->WriteFeather" in physical(read, capsys, "feather")
    for write in ("arrow", "sql", "files"):
        with pytest.raises(ValueError, match="feather, images, json"):
            read.explain_text(write)


def test_limit(monkeypatch, capsys):
    def same(row):
        return row

    ds = sd.range(1000, override_num_blocks=4).map(same).limit(7).limit(5)
    assert (
        "a task stops after 5 rows" in physical(ds, capsys)
        and physical(ds, capsys).count("[limit]") == 1
    )
    rows = ds.take_all()
    without(monkeypatch, "limit")
    assert "a task stops" not in physical(ds, capsys) and physical(ds, capsys).count("[limit]") == 2
    assert ds.take_all() == rows == [{"id": i} for i in range(5)]


def test_fusion(monkeypatch, capsys):
    def plus(row):
        return {"id": row["id"] + 1}

    ds = sd.range(10, override_num_blocks=2).map(plus).filter(expr="id > 3")
    assert "[tasks] ReadRange->Map(plus)->Filter(id > 3)" in physical(ds, capsys)
    rows = ds.take_all()
    without(monkeypatch, "fusion")
    assert physical(ds, capsys).count("[tasks]") == 3 and ds.take_all() == rows and len(rows) == 7


def test_no_rule_changes_rows(folder, monkeypatch):
    """All rules at once, over plans of all kinds."""
    read = sd.read_parquet(folder)
    plans = [
        read.rename_columns({"x": "a"}).filter(expr="a > 250").drop_columns("s"),
        read.select_columns(["s", "x"])
        .union(read.select_columns(["s", "x"]).filter(expr="x < 5"))
        .limit(303),
        read.filter(expr="x > 5").repartition(2).filter(expr="y < -290"),
        read.random_sample(0.3, seed=3).filter(expr="x > 50"),
        read.with_column("x", col("y")).filter(expr="x < -290"),
        read.limit(50).filter(expr="x > 45").select_columns("y"),
    ]
    rows = [ds.take_all() for ds in plans]
    sums = [ds.sum(ds.columns()[0]) for ds in plans[2:]]
    without(monkeypatch, *RULES)
    assert [ds.take_all() for ds in plans] == rows and all(rows)
    assert [ds.sum(ds.columns()[0]) for ds in plans[2:]] == sums


def test_columns_from_several_expressions_at_once(folder, monkeypatch, capsys):
    """Each expression sees the columns of the input; predicates over columns that do not change
    reach the reader."""
    ds = (
        sd.read_parquet(folder)
        .with_columns({"x": col("y") + 1, "z": col("x") * 2})
        .filter(expr="y < -290")
        .filter(expr="z > 585")
    )
    text = physical(ds, capsys)
    assert (
        "WithColumns(x=col('y') + 1, z=col('x') * 2)" in text
        and "does not hold: (y < -290)" in text
    )
    want = [{"x": 1 - i, "y": -i, "s": f"kind {i % 3}", "z": 2 * i} for i in range(293, 300)]
    assert ds.take_all() == want
    numbered = sd.range(6, override_num_blocks=2).with_columns(
        {"i": monotonically_increasing_id(), "j": col("id")}
    )
    assert [r["i"] & 7 for r in numbered.take_all()] == [0, 1, 2] * 2
    for wrong, error in (
        ({}, ValueError),
        ({"": col("x")}, ValueError),
        ({"a": 1}, TypeError),
        ([("a", col("x"))], TypeError),
    ):
        with pytest.raises(error, match="with_columns"):
            ds.with_columns(wrong)
    without(monkeypatch, *RULES)
    assert ds.take_all() == want
