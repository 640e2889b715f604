"""Random chains of operators over random sources: with all rules of the optimiser, with none, and
with each rule alone they give the same rows in the same order, and write the same files.

These tests do not say what the rows should be (test_pipelines.py has the models of operators): a
rule is correct if it changes nothing. Filters are expressions over columns with nulls and NaN, so
that rows which a reader skips by statistics are compared, too.
"""

import datetime
import importlib
import math
import os
import random
import shutil
import tempfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import skate
import skate.data as sd
from hypothesis import given, note
from hypothesis import strategies as st
from rounds import examples
from skate.data.aggregate import Count
from skate.data.expressions import col, lit, monotonically_increasing_id
from skate.data.plan import optimise
from skate.data.plan.node import below

RULES = ("projection", "predicates", "dictionary encoding", "limit", "fusion")


@pytest.fixture(scope="module", autouse=True)
def engine():
    skate.shutdown()
    skate.init(
        num_cpus=2,
        object_store_memory=256 << 20,
        _system_config={"preload": "hypothesis,numpy,pyarrow,light_pytest"},
    )
    yield
    skate.shutdown()


# ---- sources: files and tables of columns named by one letter, which is also their kind

KINDS = {
    "i": pa.int64(),  # no nulls
    "m": pa.int32(),  # nulls
    "f": pa.float64(),  # nulls, NaN, both zeros
    "s": pa.string(),  # few different values, for dictionary encoding
    "n": pa.string(),  # nulls
    "l": pa.list_(pa.int64()),  # nulls and empty lists
    "t": pa.timestamp("us"),
}


def a_table(n, salt):
    r = random.Random(salt)
    values = {
        "i": lambda: r.randrange(-20, 20),
        "m": lambda: r.choice([None, 1, 2, 30]),
        "f": lambda: r.choice([None, 0.0, -0.0, 1.5, -3.0, math.nan]),
        "s": lambda: r.choice(["a", "b", "kind"]),
        "n": lambda: r.choice([None, "a", "é", "x" * 80]),
        "l": lambda: r.choice([None, [], [1], [1, 2, None]]),
        "t": lambda: datetime.datetime(2020, 1, 1 + r.randrange(9)),
    }
    made = {c: [values[c]() for _ in range(n)] for c in KINDS}
    if r.random() < 0.5:  # some row groups have no statistics
        made["i"].sort()
        made["m"].sort(key=lambda v: (v is None, v))
    return pa.table({c: pa.array(v, KINDS[c]) for c, v in made.items()})


@st.composite
def sources(draw, folder):
    tables = [
        a_table(draw(st.integers(0, 90)), draw(st.integers(0, 1 << 30)))
        for _ in range(draw(st.integers(1, 3)))
    ]
    blocks = draw(st.none() | st.integers(1, 7))
    kind = draw(st.sampled_from(["parquet", "parquet", "parquet", "arrow"]))
    note(f"{kind}: {[len(t) for t in tables]} rows, override_num_blocks={blocks}")
    if kind == "arrow":
        return sd.from_arrow(tables, override_num_blocks=blocks)
    at = tempfile.mkdtemp(dir=folder)
    for i, t in enumerate(tables):
        pq.write_table(
            t, os.path.join(at, f"{i}.parquet"), row_group_size=draw(st.sampled_from([7, 40, 1000]))
        )
    columns = draw(st.none() | st.lists(st.sampled_from(sorted(KINDS)), min_size=1, unique=True))
    return sd.read_parquet(at, override_num_blocks=blocks, columns=columns)


# ---- operators: each takes a Dataset and the kinds of its columns, {name: letter}, which it
# changes; None: the operator does not fit


def some(draw, kinds, of):
    names = [c for c, k in kinds.items() if k in of]
    return draw(st.sampled_from(names)) if names else None


def a_number(draw, kinds):
    c = some(draw, kinds, "im")
    e = lit(draw(st.integers(-5, 5))) if c is None or draw(st.integers(0, 5)) == 0 else col(c)
    return e if draw(st.booleans()) else e * draw(st.integers(-2, 2)) + draw(st.integers(-5, 5))


def a_test(draw, kinds, deep=2):
    """An expression that is true, false or null."""
    how = draw(st.integers(0, 9))
    if deep and how < 4:
        a, b = a_test(draw, kinds, deep - 1), a_test(draw, kinds, deep - 1)
        return [a & b, a | b, ~a, ~b][how]
    c = some(draw, kinds, "imfsnt")
    if c is None:
        return a_number(draw, kinds) > 0
    k = kinds[c]
    if how == 9 or k == "t" and how > 6:
        return draw(st.sampled_from([col(c).is_null(), col(c).is_not_null()]))
    if how == 8 and k in "im":
        return col(c).is_in(draw(st.lists(st.integers(-3, 3), min_size=1, max_size=3)))
    if k in "im":
        v = a_number(draw, kinds) if how == 7 else draw(st.integers(-21, 31))
    elif k == "f":
        v = draw(st.sampled_from([0.0, -0.0, 1.5, -4.0]))
    else:
        v = (
            datetime.datetime(2020, 1, draw(st.integers(1, 9)))
            if k == "t"
            else draw(st.sampled_from(["a", "b", "é", "x"]))
        )
    return draw(
        st.sampled_from(
            [col(c) == v, col(c) != v, col(c) < v, col(c) <= v, col(c) > v, col(c) >= v]
        )
    )


def select(draw, ds, kinds):
    names = draw(st.permutations(sorted(kinds)))[: draw(st.integers(1, len(kinds)))]
    kept = {c: kinds[c] for c in names}
    kinds.clear()
    kinds.update(kept)
    return ds.select_columns(names)


def drop(draw, ds, kinds):
    if len(kinds) < 2:
        return None
    c = draw(st.sampled_from(sorted(kinds)))
    del kinds[c]
    return ds.drop_columns([c])


def rename(draw, ds, kinds):
    """A new name, the names of two columns exchanged, or new names for all."""
    names = list(kinds)
    a, b, how = draw(st.sampled_from(names)), draw(st.sampled_from(names)), draw(st.integers(0, 2))
    if how == 0 and a + "_" not in names:
        new = {a: a + "_"}
    elif how == 1:
        new = {a: b, b: a}
    else:
        new = {c: f"c{i}{len(names)}" for i, c in enumerate(names)}
    renamed = {new.get(c, c): k for c, k in kinds.items()}
    kinds.clear()
    kinds.update(renamed)
    return ds.rename_columns(list(renamed) if draw(st.booleans()) else new)


def with_columns(draw, ds, kinds):
    made = {}
    for _ in range(draw(st.integers(1, 2))):
        made[draw(st.sampled_from([*sorted(kinds), "new", "z"]))] = a_number(draw, kinds)
    kinds.update(dict.fromkeys(made, "m"))
    return ds.with_columns(made)


def keep(draw, ds, kinds):
    return ds.filter(expr=a_test(draw, kinds))


def numbered(draw, ds, kinds):
    kinds["number"] = "i"
    return ds.with_column("number", monotonically_increasing_id())


def same_rows(draw, ds, kinds):
    return ds.map(lambda row: row)


def same_batches(draw, ds, kinds):
    size, fmt = draw(st.sampled_from([None, 5, 1000])), draw(st.sampled_from(["numpy", "pyarrow"]))
    more = draw(st.sampled_from([{}, {"num_cpus": 0.5}]))
    return ds.map_batches(lambda b: b, batch_size=size, batch_format=fmt, **more)


def twice(draw, ds, kinds):
    return ds.flat_map(lambda row: [row, row])


def keep_by_function(draw, ds, kinds):
    c = some(draw, kinds, "i")
    return None if c is None else ds.filter(lambda row: row[c] % 3 != 0)


def explode(draw, ds, kinds):
    c = some(draw, kinds, "l")
    if c is None:
        return None
    kinds[c] = "m"
    return ds.explode(c)


def unpivot(draw, ds, kinds):
    on = sorted(c for c in kinds if kinds[c] == "i")[:2]
    if not on or {"variable", "value"} & kinds.keys():
        return None
    index = [c for c in sorted(kinds) if c not in on and draw(st.booleans())]
    for c in kinds.keys() - set(index):
        del kinds[c]
    kinds.update(variable="s", value="i")
    return ds.unpivot(on, index=index)


def limit(draw, ds, kinds):
    return ds.limit(draw(st.integers(0, 120)))


def sample(draw, ds, kinds):
    return None if ds._facts.rows == 0 else ds.random_sample(0.7, seed=draw(st.integers(0, 9)))


def union(draw, ds, kinds):
    """A union with other rows, of one branch or of two."""
    return ds.union(draw(st.sampled_from([ds, ds.limit(9), ds.filter(expr=a_test(draw, kinds))])))


def zipped(draw, ds, kinds):
    name = draw(st.sampled_from(sorted(kinds)))
    if name + "_1" in kinds:
        return None
    kinds[name + "_1"] = kinds[name]
    return ds.zip(ds.select_columns([name]))


def repartition(draw, ds, kinds):
    return ds.repartition(draw(st.integers(1, 5)))


OPS = [
    select,
    select,
    drop,
    rename,
    with_columns,
    with_columns,
    keep,
    keep,
    keep,
    numbered,
    same_rows,
    same_batches,
    twice,
    keep_by_function,
]
OPS += [explode, unpivot, limit, sample, union, zipped, repartition]


@st.composite
def chains(draw, folder):
    ds = draw(sources(folder))
    kinds = {c: c for c in ds.schema().names}
    names = []
    for op in draw(st.lists(st.sampled_from(OPS), max_size=7)):
        names.append(op.__name__)
        made = op(draw, ds, kinds)
        ds = ds if made is None else made
    note(" -> ".join(names))
    return ds


# ---- how results are compared


def same(a, b):
    """Compares NaN, the sign of zeros, and the order of columns, too."""
    return repr(a) == repr(b)


def written(ds, at):
    """The rows of the files, one file after another, and the schema."""
    ds.write_parquet(at)
    tables = [pq.read_table(os.path.join(at, name)) for name in sorted(os.listdir(at))]
    assert all(t.schema.equals(tables[0].schema) for t in tables)
    return [t.schema for t in tables[:1]] + [row for t in tables for row in t.to_pylist()]


def results(ds, sink, folder):
    if sink == "write":
        return written(ds, tempfile.mkdtemp(dir=folder))
    if sink == "count":
        return [ds.count(), ds.aggregate(Count())]
    return ds.take_all() if sink == "rows" else ds.take(sink)


@pytest.fixture
def folder():
    at = tempfile.mkdtemp()
    yield at
    shutil.rmtree(at)


@examples(40)
@given(data=st.data())
def test_no_rule_changes_rows(folder, data):
    ds = data.draw(chains(folder))
    sink = data.draw(st.sampled_from(["rows", "rows", "write", "write", "count", 7]))
    note(f"sink: {sink}")
    # Values that depend on the task follow how blocks were cut, which each rule changes: the chain
    # only has to run. The tests below check these values.
    by_task = any(n.operator.numbered for n in below(ds._node))
    plain = {}
    try:
        for on in [(), *((rule,) for rule in RULES), RULES]:
            optimise.OFF = set(RULES) - set(on)
            note(f"rules: {on}")
            got = results(ds, sink, folder)
            assert same(got, plain.setdefault(on if by_task else None, got)), on
    finally:
        optimise.OFF = set()


# ---- operators that number rows: a predicate moved below them would drop rows that should be
# numbered


COUNTING = {
    "numbered": numbered,
    "sample": lambda draw, ds, kinds: ds.random_sample(0.6, seed=draw(st.integers(0, 9))),
    "limit": lambda draw, ds, kinds: ds.limit(draw(st.integers(20, 120))),
    "limit of a function's": lambda draw, ds, kinds: ds.flat_map(lambda row: [row, row]).limit(
        draw(st.integers(20, 120))
    ),
}


def ordered_file(folder, n, rows_of_a_group):
    """i and t increase, so that a predicate about them can drop whole row groups by their
    statistics."""
    at = tempfile.mkdtemp(dir=folder)
    t = a_table(n, n).set_column(0, "i", pa.array(range(n), pa.int64()))
    days = pa.array(
        [datetime.datetime(2020, 1, 1) + datetime.timedelta(hours=k) for k in range(n)], KINDS["t"]
    )
    pq.write_table(
        t.set_column(t.column_names.index("t"), "t", days),
        os.path.join(at, "0.parquet"),
        row_group_size=rows_of_a_group,
    )
    return at


def later_rows(draw, ds, kinds, n):
    """Keeps the rows from some place on, so that whole row groups before it may be skipped."""
    first = draw(st.integers(1, n - 1))
    about = [c for c, k in kinds.items() if k in ("=i", "=t")]
    if not about:
        return ds
    c = draw(st.sampled_from(about))
    v = (
        first
        if kinds[c] == "=i"
        else datetime.datetime(2020, 1, 1) + datetime.timedelta(hours=first)
    )
    return ds.filter(expr=draw(st.sampled_from([col(c) >= v, (col(c) >= v) & a_test(draw, kinds)])))


def with_rules(ds, *on):
    optimise.OFF = set(RULES) - set(on)
    try:
        return ds.take_all()
    finally:
        optimise.OFF = set()


@examples(30)
@given(data=st.data())
def test_predicates_above_what_counts_rows(folder, data):
    draw = data.draw
    n = draw(st.integers(20, 90))
    ds = sd.read_parquet(
        ordered_file(folder, n, draw(st.sampled_from([5, 10]))),
        override_num_blocks=draw(st.sampled_from([1, 1, 2])),
    )
    # "=" marks increasing columns; other operators ignore the mark
    kinds = {c: c for c in ds.schema().names} | {"i": "=i", "t": "=t"}
    around = [rename, select, same_rows, with_columns, keep]
    names = [
        *draw(st.lists(st.sampled_from(around[:3]), max_size=1)),
        draw(st.sampled_from(sorted(COUNTING))),
    ]
    names += draw(st.lists(st.sampled_from(around), max_size=2))
    for op in names:
        ds = (COUNTING[op] if isinstance(op, str) else op)(draw, ds, kinds) or ds
    ds = later_rows(draw, ds, kinds, n)
    note(" -> ".join(op if isinstance(op, str) else op.__name__ for op in names))
    assert same(with_rules(ds), with_rules(ds, "predicates"))
    assert same(with_rules(ds, "fusion"), with_rules(ds, *RULES))


@pytest.mark.parametrize(
    "name, wrong",
    [("numbered", "project_numbered"), ("sample", "random_sample"), ("limit", "limit")],
)
def test_a_predicate_that_went_below_would_be_found(folder, monkeypatch, name, wrong):
    """The comparison fails if an operator that numbers rows declares that predicates may be moved
    below it."""
    ds = sd.read_parquet(ordered_file(folder, 60, 5), override_num_blocks=1)
    ds = {
        "numbered": lambda: numbered(None, ds, {}),
        "sample": lambda: ds.random_sample(0.5, seed=1),
        "limit": lambda: ds.limit(30),
    }[name]()
    ds = ds.filter(expr=col("i") >= 12)
    plain = with_rules(ds)
    assert same(plain, with_rules(ds, "predicates"))
    monkeypatch.setattr(
        importlib.import_module(f"skate.data.op.{wrong}").operator, "predicates", True
    )
    assert not same(plain, with_rules(ds, "predicates"))
