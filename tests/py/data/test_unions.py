"""Unions of inputs with different columns, some of which are known only after a run: the operators
behind them get the same rows as behind materialize()."""

import random

import pyarrow as pa
import pytest
import rounds
import skate.data as sd
from skate.data.aggregate import Count, Max
from skate.data.expressions import col


def a(n=3):
    """Columns that are known only after a run."""
    return sd.range(n).map(lambda r: {"k": r["id"], "a": r["id"] * 2})


def b(n=3):
    return sd.range(n).map(lambda r: {"k": r["id"] + 1, "b": str(r["id"])})


def known():
    return sd.from_items([{"k": k, "a": k + 7} for k in range(4)])


INPUTS = {
    "a": a,
    "b": b,
    "known": known,
    "known, no rows": lambda: known().filter(lambda r: False),
    "a, no rows": lambda: a().filter(lambda r: False),
    "nothing": lambda: a(0),
    "sorted": lambda: b().sort("k", descending=True),
    "counted": lambda: b().groupby("k").count(),
    "joined": lambda: a().join(b(), "inner", on=["k"], num_partitions=1),
    "zipped": lambda: a().zip(sd.range(3)),
    "a, limited": lambda: a(20).limit(2),
    "a union": lambda: a().union(b()),
}


def column(t, name):
    return t[name] if name in t.schema.names else pa.nulls(t.num_rows)


OPERATORS = {
    "nothing": lambda u: u,
    "sort": lambda u: u.sort(["b", "a", "k"]),
    "groupby": lambda u: u.groupby("b").aggregate(Count(), Max("a")),
    "groupby, function": lambda u: u.groupby("k").map_groups(
        lambda t: t.slice(0, 1), batch_format="pyarrow"
    ),
    "distinct": lambda u: u.distinct("b"),
    "distinct of all": lambda u: u.distinct(),
    "filter": lambda u: u.filter(expr="b == '1'"),
    "filter, null": lambda u: u.filter(expr=col("a").is_null()),
    "filter, function": lambda u: u.filter(lambda r: r["b"] is None),
    "with_column": lambda u: u.with_column("z", col("a") + 1),
    "add_column": lambda u: u.add_column("z", lambda t: t["b"], batch_format="pyarrow"),
    "join": lambda u: u.join(
        sd.from_items([{"b": "1", "q": 1}]), "left_outer", on=["b"], num_partitions=2
    ),
    "join, small side": lambda u: u.join(sd.from_items([{"b": "1", "q": 1}]), "inner", on=["b"]),
    "select": lambda u: u.select_columns(["b", "a"]),
    "drop": lambda u: u.drop_columns("b"),
    "rename": lambda u: u.rename_columns({"b": "c"}),
    "map": lambda u: u.map(lambda r: {"s": f"{r['k']} {r['a']} {r['b']}"}),
    "flat_map": lambda u: u.flat_map(lambda r: [r, r]),
    "map_batches": lambda u: u.map_batches(lambda t: t.select(["b", "k"]), batch_format="pyarrow"),
    "repartition": lambda u: u.repartition(2).filter(expr="a >= 0 or b >= ''"),
    "repartition by key": lambda u: u.repartition(2, keys="b"),
    "random_shuffle": lambda u: u.random_shuffle(seed=3),
    "split": lambda u: u.split(2)[1],
    "zip": lambda u: u.zip(u.map(lambda r: {"other": r["b"]})),
    "limit": lambda u: u.limit(4),
    "another union": lambda u: u.union(known()).sort(["b", "a", "k"]),
}
VALUES = {
    "sum": lambda u: u.sum("a"),
    "unique": lambda u: sorted(map(str, u.unique("b"))),
    "columns": lambda u: u.columns(),
    "count": lambda u: u.count(),
    "batches": lambda u: [
        list(t.column_names) for t in u.iter_batches(batch_format="pyarrow", batch_size=2)
    ],
    "typo": lambda u: u.filter(expr="zz > 1").take_all(),
    "typo, sort": lambda u: u.sort("zz").take_all(),
}


def outcome(make, u):
    """The rows, in any order, and the columns; or the class of the error."""
    try:
        out = make(u)
        if not hasattr(out, "take_all"):
            return repr(out)
        rows = out.take_all()
        return sorted(map(repr, rows)), (out.materialize().columns() if rows else None)
    except Exception as e:
        return f"an error: {'no such column' if isinstance(e, KeyError) else type(e).__name__}"


def union_of(names):
    first, *more = [INPUTS[n]() for n in names]
    return first.union(*more)


@pytest.mark.parametrize("name", [*OPERATORS, *VALUES])
def test_columns_that_an_input_lacks_are_null_behind_a_union(name):
    make = {**OPERATORS, **VALUES}[name]
    for names in (["a", "b"], ["known", "b"], ["known, no rows", "b"]):
        want = outcome(make, union_of(names).materialize())
        assert "an error" not in want or "typo" in name, names
        assert outcome(make, union_of(names)) == want, names


@rounds.campaign()
def test_random_unions_are_as_behind_materialize():
    r = random.Random(rounds.seed())
    every = {**OPERATORS, **VALUES}
    for _ in range(rounds.rounds(40)):
        names, how = r.choices([*INPUTS], k=r.randint(2, 3)), r.choice([*every])
        direct, behind = (
            outcome(every[how], union_of(names)),
            outcome(every[how], union_of(names).materialize()),
        )
        # blocks without rows may lack columns, so only a materialized input without any rows shows
        # that a column is missing
        missing = behind == "an error: no such column" and direct == ([], None)
        assert direct == behind or missing, (names, how)


def test_an_input_without_rows_keeps_its_columns():
    for empty in ("known, no rows", "a, no rows"):
        for u in (union_of([empty, "b"]), union_of(["b", empty])):
            assert set(u.materialize().columns()) == {"k", "a", "b"} == set(u.columns())
            assert [r["a"] for r in u.take_all()] == [None] * 3


def test_first_rows_show_columns_once(tmp_path):
    """Before the first run, functions are called for one row to find its columns (operators that
    need their whole input get first rows of it), and not again later; counting rows calls
    nothing."""

    def calls(ds):
        n = len(list(tmp_path.iterdir()))
        ds.take_all()
        return len(list(tmp_path.iterdir())) - n

    def noted(r):
        (tmp_path / str(random.SystemRandom().random())).touch()
        return {"k": r["id"], "a": 1}

    one = sd.range(1000, override_num_blocks=10).map(noted)
    u = one.sort("k").union(b())
    assert 1000 < calls(u) <= 1200 and calls(u) == 1000
    two = sd.range(10, override_num_blocks=1).map(noted).union(b())
    n = len(list(tmp_path.iterdir()))
    assert two.count() == 13 and len(list(tmp_path.iterdir())) - n == 10
    assert "the first rows of input 1 (Map(noted)) show its columns: k, a" in str(
        _rules_of(two.filter(expr="a == 1"))
    )


def _rules_of(ds):
    ds.take_all()
    return ds.stats_dict()["rules"]


def test_seeds_of_runs_are_those_of_runs():
    """Finding first rows does not count as a run: random operations make the same choices as
    without it."""
    from skate.data import RandomSeedConfig

    def shuffled():
        return (
            sd.range(50).random_shuffle(seed=RandomSeedConfig(seed=1)).map(lambda r: {"k": r["id"]})
        )

    alone, behind = shuffled(), shuffled().union(b(1))
    for _ in range(2):
        assert [r["k"] for r in alone.take_all()] == [r["k"] for r in behind.take_all()][:50]
