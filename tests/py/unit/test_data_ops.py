"""Operators and expressions over batches, without an engine."""

import datetime as dt
import pickle
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rounds import examples
from skate.data import aggregate as ag
from skate.data.expr.evaluation import parse
from skate.data.op import find
from skate.data.op.aggregate import states_of
from skate.data.worker.task import task

RB = pa.RecordBatch.from_pydict(
    {
        "x": pa.array([1, 2, None, -7, 5], pa.int32()),
        "y": [0.5, None, 2.0, -1.5, 8.0],
        "s": ["a", "b", None, "abc", ""],
        "t": [dt.datetime(2020, 1, i + 1) for i in range(5)],
        "b": [True, False, None, True, True],
        "st": [{"k": i} for i in range(5)],
    }
)


def run(op, params, batches):
    return list(find(op).run(params, iter(batches), task))


@pytest.mark.parametrize(
    "expr, rows",
    [
        ("x > 1", [1, 4]),
        ("x >= 1 and y < 5", [0]),
        ("x > 1 or s == 'abc'", [1, 3, 4]),
        ("not x > 1", [0, 3]),
        ("x is null", [2]),
        ("x is not null and y is not None", [0, 3, 4]),
        ("x in (1, 5)", [0, 4]),
        ("x not in (1, 5)", [1, 3]),
        ("s in ('a', '')", [0, 4]),
        ("1 < x <= 5", [1, 4]),
        ("x + 1 == 2", [0]),
        ("x * 2 - 1 > y", [0, 4]),
        ("x / 2 == 0.5", [0]),
        ("x % 3 == 2", [1, 3, 4]),
        ("x // 2 == -4", [3]),
        ("-x == 7", [3]),
        ("x == -7", [3]),
        ("b", [0, 3, 4]),
        ("not b", [1]),
        ("(x > 0) & (y > 0)", [0, 4]),
        ("s != 'a'", [1, 3, 4]),
        ("st.k == 2", [2]),
        ("starts_with(s, 'a')", [0, 3]),
        ("is_null(y)", [1]),
        ("true", [0, 1, 2, 3, 4]),
        ("x ** 2 == 49", [3]),
        ("abs(x) == 7", [3]),
    ],
)
def test_filter_expressions(expr, rows):
    (out,) = run("filter", {"expr": parse(expr), "label": "f"}, [RB])
    assert out.column("st").to_pylist() == [{"k": i} for i in rows]


@pytest.mark.parametrize(
    "expr",
    [
        "x >",
        "import os",
        "__import__('os')",
        "x.__class__()",
        "lambda: 1",
        "[1]",
        "x if y else s",
        "x is 3",
        "x in s",
        "open('f')",
        "f'{x}'",
    ],
)
def test_bad_expressions_are_errors_at_once(expr):
    with pytest.raises(ValueError, match="filter expression"):
        parse(expr)


def test_unknown_column_is_named():
    with pytest.raises(KeyError, match="no column 'zz'; columns are x, y"):
        run("filter", {"expr": parse("zz > 1"), "label": "f"}, [RB])


@examples(100)
@given(st.integers(-50, 50), st.integers(-50, 50).filter(bool))
def test_modulo_and_floor_division_are_pythons(a, b):
    rb = pa.RecordBatch.from_pydict({"a": [a]})
    assert (
        run(
            "filter",
            {"expr": parse(f"a % {b} == {a % b} and a // {b} == {a // b}"), "label": "f"},
            [rb],
        )[0].num_rows
        == 1
    )


def test_columns():
    assert run("select_columns", {"cols": ["s", "x"], "label": "l"}, [RB])[0].schema.names == [
        "s",
        "x",
    ]
    assert run("drop_columns", {"cols": ["s", "t", "b", "st"], "label": "l"}, [RB])[
        0
    ].schema.names == ["x", "y"]
    assert run("rename_columns", {"names": {"x": "q"}, "label": "l"}, [RB])[0].schema.names == [
        "q",
        "y",
        "s",
        "t",
        "b",
        "st",
    ]
    for op, p in (
        ("select_columns", {"cols": ["zz"]}),
        ("drop_columns", {"cols": ["zz"]}),
        ("rename_columns", {"names": {"zz": "a"}}),
    ):
        with pytest.raises(KeyError, match="zz"):
            run(op, {**p, "label": "l"}, [RB])


@pytest.mark.parametrize("fmt", ["pandas", "numpy", "pyarrow"])
def test_add_column(fmt):
    p = {
        "fn": lambda b: {
            "pyarrow": lambda: b["st"],
            "numpy": lambda: np.arange(5),
            "pandas": lambda: [1, 2, 3, 4, 5],
        }[fmt](),
        "fn_args": (),
        "fn_kwargs": {},
        "label": "l",
        "col": "n",
        "batch_format": fmt,
    }
    out = run("add_column", p, [RB.select(["x", "st"])])[0]
    assert out.schema.names == ["x", "st", "n"] and out.num_rows == 5
    over = run("add_column", {**p, "col": "x"}, [RB.select(["x", "st"])])[0]
    assert over.schema.names == ["x", "st"]
    with pytest.raises(ValueError, match="2 values for 5 rows"):
        run(
            "add_column",
            {**p, "fn": lambda b: pa.array([1, 2]) if fmt == "pyarrow" else np.array([1, 2])},
            [RB],
        )


def test_random_sample_depends_on_seed_and_task_only():
    rb = pa.RecordBatch.from_pydict({"i": list(range(1000))})
    task.seq = 3
    a, b = (run("random_sample", {"fraction": 0.3, "seed": 1}, [rb])[0] for _ in range(2))
    assert a.equals(b) and 200 < a.num_rows < 400
    assert not run("random_sample", {"fraction": 0.3, "seed": 2}, [rb])[0].equals(a)


def combine(batches, *fns):
    """The values of aggregates over batches of tasks, merged as the driver merges them."""
    params = {
        "by": [],
        "fns": fns,
        "names": [f.name for f in fns],
        "one_key": False,
        "label": "Aggregate",
    }
    held = states_of(params, wide=True)
    for part in batches:
        for states in find("aggregate").run(params, iter(part), task):
            held.add(pickle.loads(pickle.dumps(states)))
    return held.values()


@examples(100)
@given(
    st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=30),
    st.integers(1, 5),
)
def test_int_aggregates_are_exact(values, k):
    col = pa.array(values, pa.int64())
    rb = pa.RecordBatch.from_arrays([col], names=["v"])
    parts = [[rb.slice(i, k)] for i in range(0, len(values), k)]
    have = [v for v in values if v is not None]
    got = combine(parts, ag.Sum("v"), ag.Min("v"), ag.Max("v"), ag.Count("v", True))
    assert got == [
        sum(have) if have else None,
        min(have, default=None),
        max(have, default=None),
        len(have),
    ]


@examples(50)
@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=30))
def test_uint64_sums_are_exact(values):
    rb = pa.RecordBatch.from_arrays([pa.array(values, pa.uint64())], names=["v"])
    assert combine([[rb]], ag.Sum("v")) == [sum(values)]


def test_float_aggregates():
    rng = random.Random(1)
    values = [rng.gauss(5, 2) for _ in range(1000)]
    rb = pa.RecordBatch.from_pydict({"v": values})
    parts = [[rb.slice(i, 90)] for i in range(0, 1000, 90)]
    mean, std = combine(parts, ag.Mean("v"), ag.Std("v"))
    assert mean == pytest.approx(np.mean(values), rel=1e-12) and std == pytest.approx(
        np.std(values, ddof=1), rel=1e-12
    )


def test_nulls_strings_and_empty():
    rb = pa.RecordBatch.from_pydict({"v": [1, None], "s": ["b", "a"]})
    assert combine(
        [[rb]],
        ag.Sum("v", False),
        ag.Sum("v"),
        ag.Min("s"),
        ag.Unique("s"),
    ) == [
        None,
        1,
        "a",
        ["b", "a"],
    ]
    assert combine([], ag.Sum("v"), ag.Count()) is None
    assert combine([[rb[:0]]], ag.Sum("v"), ag.Count()) is None
    with pytest.raises(TypeError, match=r"sum\(s\) over column 's' of type string"):
        combine([[rb]], ag.Sum("s"))


def test_added_column_from_pandas_objects():
    import pandas as pd

    p = {"fn_args": (), "fn_kwargs": {}, "label": "l", "col": "n", "batch_format": "pandas"}
    for fn in (
        lambda b: pd.Series([1] * len(b)),
        lambda b: pd.DatetimeIndex([1] * len(b)),
        lambda b: pd.DataFrame({"z": [1] * len(b)}),
    ):
        (out,) = run("add_column", {**p, "fn": fn}, [RB.select(["x"])])
        assert out.column(1).to_pylist() in ([1] * 5, [pd.Timestamp(1)] * 5)
    with pytest.raises(ValueError, match="2 columns"):
        run("add_column", {**p, "fn": lambda b: pd.DataFrame({"a": b["x"], "b": b["x"]})}, [RB])
