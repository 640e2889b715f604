"""count(): metadata gives the count if no operator in between can raise an error; an operator that
may raise is run, over files and over a range."""

import pytest
import skate.data as sd
from skate.data.expressions import col


def fails(x):
    raise ValueError("it was called")


@pytest.fixture(params=["files", "range"])
def source(request, tmp_path):
    if request.param == "range":
        return sd.range(100)
    sd.range(100).write_parquet(str(tmp_path))
    return sd.read_parquet(str(tmp_path))


RUN = {
    "map": lambda ds: ds.map(fails),
    "map, below what moves rows": lambda ds: ds.map(fails).random_shuffle().repartition(3),
    "map, below a limit": lambda ds: ds.map(fails).limit(3),
    "map, in a union": lambda ds: ds.union(ds.map(fails)),
    "map, in a zip": lambda ds: ds.zip(ds.map(fails)),
    "map_batches that keeps rows": lambda ds: ds.map_batches(fails, udf_modifying_row_count=False),
    "add_column": lambda ds: ds.add_column("x", fails),
    "filter": lambda ds: ds.filter(fails),
    "flat_map": lambda ds: ds.flat_map(fails),
    "groupby": lambda ds: ds.map(fails).groupby("id").count(),
}


@pytest.mark.parametrize("name", RUN)
def test_functions_run(source, name):
    ds = RUN[name](source)
    with pytest.raises(ValueError, match="it was called"):
        ds.count()
    with pytest.raises(ValueError, match="it was called"):
        ds.take_all()


def test_expressions_and_casts_run(source):
    with pytest.raises(Exception, match="divide by zero"):
        source.with_column("x", col("id") // 0).count()
    floats = sd.from_items([{"id": 0.5}])
    with pytest.raises(TypeError, match="union"):
        sd.from_items([{"id": 2**60 + 1}]).union(floats).count()
    assert source.union(sd.from_items([{"x": "a"}])).count() == 101


def test_zip_of_unequal_sides_is_an_error_of_each(source):
    for other in (
        sd.range(3),
        sd.range(101).map(lambda r: r),
        sd.range(100).filter(expr="id < 99"),
    ):
        ds = source.zip(other)
        with pytest.raises(ValueError, match="different number of rows"):
            ds.count()
        with pytest.raises(ValueError, match="different number of rows"):
            ds.take_all()
    assert source.zip(sd.range(100)).count() == 100


def test_metadata_answers_where_nothing_can_raise(source, monkeypatch):
    from skate.data.run import execute

    def runs(*_, **__):
        raise AssertionError("it runs")

    made = [
        source,
        source.select_columns("id").rename_columns({"id": "x"}).sort("x").random_shuffle(),
        source.repartition(3).randomize_block_order(),
        source.zip(source),
        source.union(sd.range(0)).limit(1000),
    ]
    monkeypatch.setattr(execute, "run", runs)
    assert [ds.count() for ds in made] == [100] * 5 and source.limit(7).count() == 7
    with pytest.raises(AssertionError, match="it runs"):
        source.map(fails).count()


def test_explain_says_which(source, capsys):
    source.limit(3).explain()
    assert "count()\n  3 rows, by metadata: nothing runs" in capsys.readouterr().out
    source.map(fails).sort("id").explain()
    assert "count()\n  runs this, since Map(fails) may raise" in capsys.readouterr().out
    source.filter(expr="id > 3").explain()
    assert "count()" not in capsys.readouterr().out
