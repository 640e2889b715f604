"""Each built-in aggregate over all rows of random tables, of each type, with nulls and NaN, cut
into blocks at random. Dataset.aggregate(), Dataset.sum() and similar methods, groupby(None),
groupby() of a column with one value, and a user's subclass that calls the methods which it
overrides must all agree, also with plain Python where that can compute the result.
"""

import datetime
import decimal
import math
import operator
import random

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import skate
import skate.data as sd
from cases import case
from rounds import campaign, rounds, seed
from skate import _skate
from skate.data import aggregate as ag

DAY = datetime.date(2020, 1, 1)
SCALARS = {
    "int64": (pa.int64(), lambda r: r.choice([r.randrange(-5, 5), -(2**63), 2**63 - 1])),
    "int8": (pa.int8(), lambda r: r.randrange(-128, 128)),
    "uint64": (pa.uint64(), lambda r: r.choice([0, 3, 2**64 - 1])),
    "uint16": (pa.uint16(), lambda r: r.randrange(9)),
    "float64": (pa.float64(), lambda r: r.choice([0.0, -0.0, math.nan, r.gauss(0, 1e3)])),
    "float32": (pa.float32(), lambda r: r.choice([0.5, -2.25, math.nan, math.inf])),
    "float16": (pa.float16(), lambda r: np.float16(r.choice([0.5, -2.25, math.nan]))),
    "bool": (pa.bool_(), lambda r: r.random() < 0.5),
    "string": (pa.string(), lambda r: r.choice(["", "a", "a\0", "ab"])),
    "large_binary": (pa.large_binary(), lambda r: r.choice([b"", b"\0", b"ab"])),
    "fixed": (pa.binary(2), lambda r: r.choice([b"ab", b"\0\0"])),
    "decimal": (pa.decimal128(20, 2), lambda r: decimal.Decimal(r.randrange(-9, 9)).scaleb(-2)),
    "decimal32": (pa.decimal32(5, 1), lambda r: decimal.Decimal(r.randrange(-9, 9)).scaleb(-1)),
    "decimal256": (pa.decimal256(50, 2), lambda r: decimal.Decimal(r.randrange(9)).scaleb(-2)),
    "date": (pa.date32(), lambda r: DAY + datetime.timedelta(r.randrange(5))),
    "timestamp": (pa.timestamp("us", "UTC"), lambda r: r.randrange(-5, 5)),
    "time": (pa.time64("us"), lambda r: r.randrange(5)),
    "duration": (pa.duration("ms"), lambda r: r.randrange(-5, 5)),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), lambda r: r.choice(["x", "", "y"])),
    "null": (pa.null(), lambda r: None),
}
NESTED = {
    "list": (pa.list_(pa.float64()), lambda r: [SCALARS["float64"][1](r)] * r.randrange(3)),
    "large list": (pa.large_list(pa.string()), lambda r: r.choice([[], ["a", None], ["a"]])),
    "fixed list": (pa.list_(pa.int8(), 2), lambda r: r.choice([[1, 2], [2, None]])),
    "struct": (
        pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))]),
        lambda r: r.choice([{"a": 1, "b": ["x"]}, {"a": 1, "b": None}, {"a": None, "b": []}]),
    ),
    "map": (pa.map_(pa.string(), pa.int64()), lambda r: r.choice([[("a", 1)], [("a", None)], []])),
}
KINDS = {**SCALARS, **NESTED}
WITH_NULLS = [
    ag.Count,
    ag.AsList,
    ag.Sum,
    ag.Min,
    ag.Max,
    ag.AbsMax,
    ag.Mean,
    ag.Std,
    ag.Variance,
    ag.First,
]
WITH_NULLS += [ag.Quantile, ag.Unique, ag.CountDistinct, ag.ZeroPercentage]
METHODS = {"sum": ag.Sum, "min": ag.Min, "max": ag.Max, "mean": ag.Mean, "std": ag.Std}


def aggregates(r):
    """One of each built-in aggregate of column x, some with unusual parameters."""
    nulls = r.random() < 0.7
    out = [a("x", ignore_nulls=nulls) for a in WITH_NULLS]
    out += [a("x") for a in (ag.ValueCounter, ag.MissingValuePercentage)]
    mode = r.choice([True, "HASH"])
    mode = ag.Unique.ListEncodingMode.HASH if mode == "HASH" else mode
    return [
        *out,
        ag.Count(),
        ag.Std("x", ddof=0, ignore_nulls=nulls),
        ag.Quantile("x", q=r.random()),
        ag.Unique("x", nulls, encode_lists=mode),
        ag.ApproximateQuantile("x", [0.5, r.random()]),
        ag.ApproximateTopK("x", r.randrange(1, 4)),
        ag.ApproximateTopK("x", 2, encode_lists=True),
    ]


@pytest.fixture(scope="module", autouse=True)
def engine():
    skate.shutdown()
    skate.init(num_cpus=2, _system_config={"preload": "numpy,pyarrow,light_pytest"})
    yield
    skate.shutdown()


def table(r, kind):
    t, make = KINDS[kind]
    share = r.choice([0, 0.3, 1.0])
    rows = r.choice([1, 2, 9, 60])
    x = pa.array([None if r.random() < share else make(r) for _ in range(rows)], t)
    cuts = sorted({0, rows, *(r.randrange(rows + 1) for _ in range(r.randrange(4)))})
    whole = pa.table({"k": pa.array([7] * rows), "x": x})
    return whole, [whole.slice(a, b - a) for a, b in zip(cuts, cuts[1:], strict=False)]


def plain(v):
    """A value in the form in which it is compared: bit by bit, and all NaN are equal."""
    if isinstance(v, np.ndarray):
        return plain(v.tolist())
    if isinstance(v, (list, tuple)):
        return [plain(x) for x in v]
    if isinstance(v, dict):
        return {k: plain(x) for k, x in v.items()}
    return repr(float(v)) if isinstance(v, (float, np.floating)) else repr(v)


def outcome(work, *args):
    """The result of a function of a Dataset, or the exception that it raises."""
    try:
        return plain(work(*args))
    except TypeError:
        return "TypeError"
    except OverflowError:
        return "OverflowError"


def of_user(a):
    """The same aggregate as the user's own, which runs as Python calls."""

    class Own(type(a)):
        def aggregate_block(self, block):
            return super().aggregate_block(block)

    out = object.__new__(Own)
    out.__dict__.update(a.__dict__)
    return out


def over_all(ds, a):
    return ds.aggregate(a)[a.name]


def by_group(ds, key, a):
    return ds.groupby(key).aggregate(a).take_all()[0][a.name]


def by_method(ds, name, ignore_nulls):
    return getattr(ds, name)("x", ignore_nulls=ignore_nulls)


def near(some, others):
    """Whether two outcomes of approximate quantiles agree within the error of the coarser one."""
    if not isinstance(some, list) or not isinstance(others, list):
        return some == others
    return len(some) == len(others) and all(
        a == b or math.isclose(float(a), float(b), rel_tol=2**-11) for a, b in zip(some, others)
    )


def missing(v):
    return v is None or isinstance(v, float) and math.isnan(v)


def by_python(a, values):
    """The result in plain Python, in the form of outcome(); None: plain Python cannot compute
    it."""
    kind, ignore = a.kind, a._ignore_nulls
    there = [v for v in values if not missing(v)]
    if kind == "list":
        return plain(there if ignore else values)
    if kind == "count" and a.get_target_column():
        return plain(len(there if ignore else values))
    if kind == "first":
        return plain(next(iter(there if ignore else values), None))
    if kind in ("sum", "min", "max"):
        if not there or (not ignore and len(there) < len(values)):
            return "None"
        of = {"sum": sum, "min": min, "max": max}[kind]
        return plain(of(there)) if isinstance(there[0], (int, decimal.Decimal)) else None
    return None


@campaign(200)
def test_all_rows_are_a_group_without_a_key():
    r = random.Random(seed())
    kinds = list(KINDS)
    r.shuffle(kinds)
    for i in range(rounds(12)):
        kind = kinds[i % len(kinds)]
        whole, blocks = table(r, kind)
        ds, values = sd.from_arrow(blocks), whole["x"].to_pylist()
        for a in aggregates(r):
            with case(i, kind, a.kind, a.name, vars(a), values, [b.num_rows for b in blocks]):
                everything = outcome(over_all, ds, a)
                grouped = outcome(by_group, ds, None, a)
                keyed = outcome(by_group, ds, "k", a)
                # an approximate quantile has more digits where there is no key
                same = near if a.kind == "approx_quantile" else operator.eq
                assert same(grouped, keyed)
                if a.kind == "sum" and grouped == "OverflowError":  # the column has 64-bit integers
                    assert everything == plain(sum(v for v in values if v is not None))
                else:
                    assert same(everything, grouped)
                if r.random() < 0.3:
                    assert same(outcome(over_all, ds, of_user(a)), everything)
                said = by_python(a, values)
                # strings have a minimum, but no sum
                if said is not None and everything not in ("TypeError", "OverflowError"):
                    assert everything == said or kind in NESTED or kind == "float16"
        ignore = r.random() < 0.5
        for name, of in METHODS.items():
            with case(i, kind, name, ignore, values):
                want = outcome(over_all, ds, of("x", ignore_nulls=ignore))
                assert outcome(by_method, ds, name, ignore) == want
        with case(i, kind, "unique", values):
            want = outcome(over_all, ds, ag.Unique("x"))
            assert outcome(ds.unique, "x") == want


def test_variance_is_that_of_pandas():
    r = random.Random(3)
    x = [r.gauss(1e6, 1) for _ in range(100)]
    ds = sd.from_arrow([pa.table({"x": x[:30]}), pa.table({"x": x[30:]})])
    got = ds.aggregate(ag.Variance("x"), ag.Variance("x", ddof=0, alias_name="of all"))
    assert got["var(x)"] == pytest.approx(pd.Series(x).var(), rel=1e-9)
    assert got["of all"] == pytest.approx(pd.Series(x).var(ddof=0), rel=1e-9)


def test_the_kernel_has_a_class_for_each_row_of_its_table():
    classes = [c for c in vars(ag).values() if isinstance(c, type) and issubclass(c, ag.Builtin)]
    assert {c.kind for c in classes if hasattr(c, "kind")} == set(_skate.aggregates())


def test_no_rows():
    ds = sd.from_arrow(pa.table({"x": pa.array([], pa.int64())}))
    assert ds.aggregate(*aggregates(random.Random(1))) is None
    assert [getattr(ds, m)("x") for m in METHODS] == [None] * len(METHODS)
    assert ds.unique("x") == [] and ds.groupby(None).count().take_all() == []
