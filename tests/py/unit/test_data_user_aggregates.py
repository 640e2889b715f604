"""Aggregates by group (data/by_key/kernel_aggregates.py, user_aggregates.py), over exchanges in one
process: compared with plain Python over the rows of each group, however rows are cut into
batches."""

import datetime
import decimal
import math
import statistics
import types

import numpy as np
import pyarrow as pa
import pytest
from exchanges import exchanged
from hypothesis import given
from hypothesis import strategies as st
from rounds import examples
from skate import _skate
from skate.data import aggregate as ag
from skate.data.by_key import kernel_aggregates
from skate.data.by_key.group_keys import orderable
from skate.data.by_key.user_aggregates import Groups
from skate.data.op import aggregate_map
from skate.data.values.to_arrow import from_objects
from skate.data.values.types import python_objects

NAN = math.nan


def is_nan(v):
    return isinstance(v, float) and math.isnan(v)


def same(v):
    """A form of the value that is equal for all values of one group."""
    return "NaN" if is_nan(v) else 0.0 if v == 0 and isinstance(v, float) else v


def in_order(key):
    return [(v is None, is_nan(v), 0 if v is None or is_nan(v) else v) for v in key]


def by_hand(keys, rows):
    """{key: its rows}, in the order of the keys."""
    out = {}
    for r in rows:
        out.setdefault(tuple(same(r[k]) for k in keys), []).append(r)
    return [
        (tuple(rs[0][k] for k in keys), rs)
        for _, rs in sorted(out.items(), key=lambda e: in_order(e[1][0][k] for k in keys))
    ]


def aggregated(keys, aggs, batches, n=1):
    """The results of an exchange with one task for each batch and n partitions."""
    params = {
        "by": keys,
        "fns": aggs,
        "names": ag.names_of(keys, aggs),
        "one_key": len(keys) == 1,
        "n": 0,
    }
    return [
        row
        for rb in exchanged("group_aggregate", params, [[[b] for b in batches]], n)
        for row in rb.to_pylist()
    ]


def batch(rows, types):
    return pa.RecordBatch.from_arrays(
        [pa.array([r[c] for r in rows], t) for c, t in types.items()], names=list(types)
    )


def cut(rows, sizes, types):
    out, at = [], 0
    for n in [*sizes, len(rows)]:
        if at < len(rows):
            out.append(batch(rows[at : at + n], types))
            at += n
    return out


KEYS = st.sampled_from([None, NAN, -0.0, 0.0, 1.5, -3.0])
TEXTS = st.sampled_from([None, "", "a", "ab", "b\0", "ä"])
INTS = st.one_of(st.none(), st.integers(-(2**40), 2**40))
FLOATS = st.sampled_from([None, NAN, 0.0, -0.0, 1.0, 2.5, -4.25])
ROWS = st.lists(st.fixed_dictionaries({"k": KEYS, "t": TEXTS, "i": INTS, "f": FLOATS}), max_size=40)
TYPES = {"k": pa.float64(), "t": pa.string(), "i": pa.int64(), "f": pa.float64()}


def there(rs, c):
    return [r[c] for r in rs if r[c] is not None and not is_nan(r[c])]


def of_values(values, f):
    return f(values) if values else None


def distinct(values):
    out = {}
    for v in values:
        out.setdefault(same(v), 0.0 if v == 0 and isinstance(v, float) else v)
    return list(out.values())


def quantile(v, q):
    v = sorted(v)
    k = (len(v) - 1) * q
    a, b = math.floor(k), math.ceil(k)
    return float(v[a]) if a == b else round(v[a] * (b - k) + v[b] * (k - a), 5)


def expected(rs, c, lax):
    """The results, computed in plain Python. lax: ignore_nulls."""
    v = there(rs, c)
    strict_none = not lax and len(v) < len(rs)
    n = None if strict_none else v
    return {
        "count": len(v) if lax else len(rs),
        "sum": None if n is None else of_values(v, sum),
        "min": None if n is None else of_values(v, min),
        "max": None if n is None else of_values(v, max),
        "abs": None if n is None else of_values([abs(x) for x in v], max),
        "mean": None if n is None else of_values(v, lambda x: sum(x) / len(x)),
        "std": None
        if n is None
        else of_values(v, lambda x: statistics.stdev(x) if len(x) > 1 else NAN),
        "q": None if n is None else of_values(v, lambda x: quantile(x, 0.3)),
        "list": v if lax else [r[c] for r in rs],
        "unique": distinct(v if lax else [r[c] for r in rs]),
        "distinct": len(distinct(v if lax else [r[c] for r in rs])),
        "zeros": 100.0 * sum(x == 0 for x in v) / d if (d := len(v) if lax else len(rs)) else None,
    }


def all_of(c, lax):
    o = {"ignore_nulls": lax}
    return [
        ag.Count(c, alias_name="count", **o),
        ag.Sum(c, alias_name="sum", **o),
        ag.Min(c, alias_name="min", **o),
        ag.Max(c, alias_name="max", **o),
        ag.AbsMax(c, alias_name="abs", **o),
        ag.Mean(c, alias_name="mean", **o),
        ag.Std(c, alias_name="std", **o),
        ag.Quantile(c, q=0.3, alias_name="q", **o),
        ag.AsList(c, alias_name="list", **o),
        ag.Unique(c, alias_name="unique", **o),
        ag.CountDistinct(c, alias_name="distinct", **o),
        ag.ZeroPercentage(c, alias_name="zeros", **o),
    ]


def close(got, want):
    if isinstance(want, list):
        return len(got) == len(want) and all(map(close, got, want))
    if is_nan(want):
        return is_nan(got)
    if isinstance(want, float):
        return got is not None and math.isclose(got, want, rel_tol=1e-9, abs_tol=1e-4)
    return got == want


@examples(60)
@given(
    ROWS,
    st.lists(st.integers(1, 15), max_size=4),
    st.sampled_from([["k"], ["t"], ["k", "t"], ["t", "k", "i"], []]),
    st.booleans(),
    st.integers(1, 3),
)
def test_aggregates_of_numbers(rows, sizes, keys, lax, width):
    for c in ("i", "f"):
        got = aggregated(keys, all_of(c, lax), cut(rows, sizes, TYPES), width)
        want = by_hand(keys, rows)
        assert len(got) == len(want)
        for g, (key, rs) in zip(got, want, strict=True):
            assert all(close(g[k], v) for k, v in zip(keys, key, strict=True)), (g, key)
            for name, v in expected(rs, c, lax).items():
                assert close(g[name], v), (c, name, key, rs)


@examples(30)
@given(ROWS, st.lists(st.integers(1, 15), max_size=3))
def test_aggregates_of_text_and_of_all(rows, sizes):
    aggs = [
        ag.Count(),
        ag.Count("t", ignore_nulls=True),
        ag.Min("t"),
        ag.Max("t"),
        ag.Unique("t"),
        ag.ValueCounter("t"),
        ag.MissingValuePercentage("f"),
    ]
    got = aggregated(["k"], aggs, cut(rows, sizes, TYPES))
    for g, (_, rs) in zip(got, by_hand(["k"], rows), strict=True):
        t = there(rs, "t")
        all_t = [r["t"] for r in rs]
        assert g["count()"] == len(rs) and g["count(t)"] == len(t)
        assert g["min(t)"] == of_values(t, lambda v: min(v, key=str.encode)) and g[
            "max(t)"
        ] == of_values(t, lambda v: max(v, key=str.encode))
        assert g["unique(t)"] == distinct(all_t)
        assert g["value_counter(t)"] == {
            "values": distinct(all_t),
            "counts": [all_t.count(v) for v in distinct(all_t)],
        }
        assert g["missing_pct(f)"] == pytest.approx(100 * (len(rs) - len(there(rs, "f"))) / len(rs))


class Product(ag.AggregateFnV2):
    def __init__(self, on):
        super().__init__(f"product({on})", lambda: 1, on=on, ignore_nulls=True)

    def aggregate_block(self, block):
        return math.prod(v for v in block.column("i").to_pylist() if v is not None)

    def combine(self, current_accumulator, new):
        return current_accumulator * new


def test_aggregates_of_users_get_keys_and_rows():
    rows = [
        {"k": k, "t": t, "i": i, "f": None}
        for i, (k, t) in enumerate([(1.5, "a"), (None, "a"), (1.5, "b"), (1.5, "a"), (NAN, "a")])
    ]
    seen, columns = [], ["f", "i", "k", "t"]
    fn = ag.AggregateFn(
        init=lambda k: seen.append(k) or 0,
        accumulate_row=lambda a, r: a + r["i"] * (sorted(r) == columns),
        merge=lambda a, b: a + b,
        name="s",
    )
    parts = [batch(rows[:2], TYPES), batch(rows[2:], TYPES)]
    assert [(g["product(i)"], g["s"]) for g in aggregated(["k"], [fn, Product("i")], parts)] == [
        (0, 5),
        (4, 4),
        (1, 1),
    ]
    assert sorted(map(repr, seen)) == ["1.5", "1.5", "None", "nan"], (
        "init gets the value of a single key"
    )
    seen.clear()
    got = aggregated(["k", "t"], [fn], parts)
    assert [(g["k"], g["t"], g["s"]) for g in got if not is_nan(g["k"])] == [
        (1.5, "a", 3),
        (1.5, "b", 2),
        (None, "a", 1),
    ]
    assert set(map(type, seen)) == {tuple}


D = decimal.Decimal
DAY = datetime.date(2020, 1, 1)
VALUES = {
    "bool": (pa.bool_(), [True, False, True], {"sum": 2, "min": False, "max": True, "mean": 2 / 3}),
    "int8": (pa.int8(), [-128, 127, 127], {"sum": 126, "min": -128, "max": 127, "mean": 42.0}),
    "uint64": (pa.uint64(), [2**63, 5, 7], {"sum": 2**63 + 12, "min": 5, "max": 2**63}),
    "float16": (pa.float16(), [1.5, 2.5, -1.0], {"sum": 3.0, "min": -1.0, "max": 2.5, "mean": 1.0}),
    "float32": (pa.float32(), [1.5, 2.5, -1.0], {"sum": 3.0, "min": -1.0, "max": 2.5, "mean": 1.0}),
    "decimal128": (
        pa.decimal128(10, 2),
        [D("1.10"), D("2.20"), D("-5.00")],
        {"sum": D("-1.70"), "min": D("-5.00"), "max": D("2.20"), "mean": -1.7 / 3},
    ),
    "decimal256": (
        pa.decimal256(50, 2),
        [D("1.10"), D("2.20"), D("-5.00")],
        {"sum": D("-1.70"), "min": D("-5.00"), "max": D("2.20")},
    ),
    "date32": (
        pa.date32(),
        [DAY, DAY + datetime.timedelta(3), DAY],
        {"min": DAY, "max": DAY + datetime.timedelta(3)},
    ),
    "timestamp": (pa.timestamp("us", "UTC"), [1, 5, 3], {}),
    "duration": (pa.duration("s"), [1, 5, 3], {"sum": datetime.timedelta(seconds=9)}),
    "time64": (pa.time64("us"), [1, 5, 3], {}),
    "string_view": (pa.string_view(), ["b", "a", "c"], {"min": "a", "max": "c"}),
    "large_string": (pa.large_string(), ["b", "a", "c"], {"min": "a", "max": "c"}),
    "binary": (pa.binary(), [b"b", b"a", b"c"], {"min": b"a", "max": b"c"}),
    "fixed": (pa.binary(2), [b"bb", b"aa", b"cc"], {"min": b"aa", "max": b"cc"}),
    "dictionary": (
        pa.dictionary(pa.int8(), pa.string()),
        ["b", "a", "c"],
        {"min": "a", "max": "c"},
    ),
    "null": (
        pa.null(),
        [None, None, None],
        {"sum": None, "min": None, "max": None, "mean": None, "std": None},
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_and_keys_of_every_type(name):
    t, values, want = VALUES[name]
    col = pa.array(values, t)
    aggs = [
        ag.Count("v", alias_name="count"),
        ag.AsList("v", alias_name="list"),
        ag.Unique("v", alias_name="unique"),
        ag.ValueCounter("v", alias_name="n"),
    ]
    aggs += [getattr(ag, n.capitalize())("v", alias_name=n) for n in want]
    rbs = [
        pa.RecordBatch.from_arrays([pa.array([1, 1], pa.int64()), col[:2]], names=["k", "v"]),
        pa.RecordBatch.from_arrays([pa.array([1]), col[2:]], names=["k", "v"]),
    ]
    (got,) = aggregated(["k"], aggs, rbs)
    assert (
        got["count"] == 3
        and got["list"] == col.to_pylist()
        and got["unique"] == distinct(col.to_pylist())
    )
    for n, v in want.items():
        assert close(got[n], v), n
    keyed = [
        pa.RecordBatch.from_arrays([rb.column("v"), rb.column("v")], names=["k", "v"]) for rb in rbs
    ]
    got = aggregated(["k"], [ag.Count()], keyed)
    assert (
        [r["k"] for r in got] == sorted(set(col.to_pylist()) - {None})
        or name == "null"
        and got == [{"k": None, "count()": 3}]
    )


def test_a_list_is_no_key_and_text_has_no_sum():
    rb = pa.RecordBatch.from_arrays([pa.array([[1]]), pa.array(["a"])], names=["l", "t"])
    with pytest.raises(ValueError, match=r"column 'l' of type list<.*> cannot be a key"):
        aggregated(["l"], [ag.Count()], [rb])
    for fn in (ag.Sum, ag.Mean, ag.Std, ag.Quantile, ag.AbsMax, ag.ZeroPercentage):
        with pytest.raises(
            TypeError, match=r"Aggregate.*: .*\(t\) over column 't' of type string is not possible"
        ):
            aggregated([], [fn("t")], [rb])
    with pytest.raises(TypeError, match="over column 'l' of type list"):
        aggregated([], [ag.Min("l")], [rb])
    with pytest.raises(KeyError, match="there is no column 'x'; columns are l, t"):
        aggregated([], [ag.Min("x")], [rb])
    with pytest.raises(ValueError, match="there is no column 'x'"):
        aggregated(["x"], [ag.Count()], [rb])
    assert (
        not orderable(pa.list_(pa.int8()))
        and not orderable(pa.struct([]))
        and orderable(pa.dictionary(pa.int8(), pa.string()))
    )


def test_sums_are_exact_or_an_error():
    big = [
        batch([{"i": 2**62}] * 3, {"i": pa.int64()}),
        batch([{"i": -(2**62)}] * 2, {"i": pa.int64()}),
    ]
    assert aggregated([], [ag.Sum("i"), ag.Mean("i")], big) == [
        {"sum(i)": 2**62, "mean(i)": 2**62 / 5}
    ]
    with pytest.raises(OverflowError, match=r"sum\(i\): a group's sum is more than int64 holds"):
        aggregated([], [ag.Sum("i")], big[:1])


def test_blocks_of_several_types():
    parts = [
        pa.array([1, 2, None]),
        pa.array([0.5, None, None]),
        pa.nulls(3),
        pa.array([2**62, 2**62, None]),
    ]
    rbs = [pa.RecordBatch.from_arrays([pa.array([1, 2, 3]), c], names=["k", "v"]) for c in parts]
    aggs = [ag.Sum("v"), ag.Mean("v"), ag.Count("v", ignore_nulls=True)]
    for width in (1, 2, 5):
        assert aggregated(["k"], aggs, rbs, width) == [
            {"k": 1, "sum(v)": 2.0**62, "mean(v)": 2.0**62 / 3, "count(v)": 3},
            {"k": 2, "sum(v)": 2.0**62, "mean(v)": 2.0**61, "count(v)": 2},
            {"k": 3, "sum(v)": None, "mean(v)": None, "count(v)": 0},
        ]
    money = [
        pa.record_batch({"v": c})
        for c in (pa.array([1, 2]), pa.array([D("0.50")], pa.decimal128(5, 2)))
    ]
    assert aggregated([], [ag.Sum("v"), ag.Mean("v")], money) == [
        {"sum(v)": D("3.50"), "mean(v)": 3.5 / 3}
    ]
    mixed = [pa.record_batch({"v": c}) for c in (pa.array([1, 2]), pa.array([0.5]))]
    assert aggregated([], [ag.Min("v"), ag.Max("v"), ag.AsList("v")], mixed) == [
        {"min(v)": 0.5, "max(v)": 2.0, "list(v)": [1.0, 2.0, 0.5]}
    ]


@pytest.mark.parametrize(
    ("keys", "target", "table", "sent"),
    [
        (40_000, 16 << 20, 64 << 20, [("states", 40_000)]),  # a quarter at 160,000 rows
        (60_000, 16 << 20, 64 << 20, [("rows", 200_000)]),
        # 128,000 rows are sent meanwhile
        (40_000, 1 << 19, 8 << 20, [("rows", 128_000), ("states", 40_000)]),
        (1_000, 16 << 20, 1 << 16, None),  # the table is full, again and again
    ],
)
def test_a_map_makes_states_however_late_keys_repeat(keys, target, table, sent):
    rows, step = 200_000, 4_000
    numbers = np.arange(rows)
    batches = [
        pa.record_batch({"k": numbers[i : i + step] % keys, "v": numbers[i : i + step]})
        for i in range(0, rows, step)
    ]
    task = types.SimpleNamespace(target=target, table=table, nbytes=_skate.block_nbytes)
    of = kernel_aggregates.Kernel(["k"], [ag.Sum("v")], ["s"], "Aggregate")
    got = [
        ("states" if of._is_states(rb.schema) else "rows", rb.num_rows)
        for rb in aggregate_map._made(of, of.what, iter(batches), task)
    ]
    if sent is None:
        assert len(got) > 2 and all(kind == "states" for kind, _ in got)
    else:
        assert got == sent


def test_a_task_whose_batches_have_several_types_keeps_the_order_of_values(monkeypatch):
    """Each batch is aggregated in its own type, one after another."""
    monkeypatch.setattr(aggregate_map, "STEP", 1)
    parts = [
        pa.record_batch({"k": [1] * len(v), "v": pa.array(v, t)})
        for v, t in (([2, 1], pa.int64()), ([0.5], pa.float64()), ([3, 1], pa.int8()))
    ]
    params = {
        "by": ["k"],
        "fns": [ag.AsList("v"), ag.Unique("v"), ag.Sum("v")],
        "names": ["l", "u", "s"],
        "one_key": True,
        "n": 0,
    }
    (got,) = [
        row for rb in exchanged("group_aggregate", params, [[parts]], 1) for row in rb.to_pylist()
    ]
    assert got == {"k": 1, "l": [2.0, 1.0, 0.5, 3.0, 1.0], "u": [2.0, 1.0, 0.5, 3.0], "s": 7.5}


def test_many_keys_go_as_rows_and_few_as_states():
    """Reduces get both rows and states, whichever a task sends."""
    n = 70_000
    many = pa.record_batch({"k": pa.array(range(n)), "v": pa.array(range(n))})
    few = pa.record_batch({"k": pa.array([i % 5 for i in range(n)]), "v": pa.array([1] * n)})
    params = {
        "by": ["k"],
        "fns": [ag.Sum("v"), ag.Count(), ag.Max("v")],
        "names": ["s", "n", "m"],
        "one_key": True,
        "n": 0,
    }
    found = list(exchanged("group_aggregate", params, [[[many], [few], [many.slice(0, 10)]]], 3))
    got = pa.Table.from_batches(found).to_pydict()
    assert got["k"] == list(range(n))
    assert got["s"] == [i + (n // 5 if i < 5 else 0) + (i if i < 10 else 0) for i in range(n)]
    assert got["n"] == [1 + (n // 5 if i < 5 else 0) + (i < 10) for i in range(n)] and got["m"] == [
        max(i, i < 5) for i in range(n)
    ]


def test_names():
    assert ag.names_of(["k"], [ag.Sum("x"), ag.Sum("x"), ag.Count(), ag.Sum("x")]) == [
        "sum(x)",
        "sum(x)_2",
        "count()",
        "sum(x)_3",
    ]
    with pytest.raises(ValueError, match="'k' is there twice"):
        ag.names_of(["k"], [ag.Sum("x", alias_name="k")])


def test_lists_inside_of_lists():
    rb = pa.RecordBatch.from_arrays(
        [pa.array([1, 2, 1, 1]), pa.array([[1, 2], [3], None, [2, 2]])], names=["k", "l"]
    )
    got = aggregated(
        ["k"],
        [
            ag.AsList("l"),
            ag.Unique("l", encode_lists=True, alias_name="u"),
            ag.Unique("l", encode_lists=True, ignore_nulls=True, alias_name="v"),
        ],
        [rb[:2], rb[2:]],
    )
    assert got == [
        {"k": 1, "list(l)": [[1, 2], None, [2, 2]], "u": [1, 2, None], "v": [1, 2]},
        {"k": 2, "list(l)": [[3]], "u": [3], "v": [3]},
    ]
    other = [ag.Unique("l", i, str(i), encode_lists=True) for i in (True, False)]
    got = aggregated(["k"], other, [rb])
    assert got[0] == {"k": 1, "True": [1, 2], "False": [1, 2, None]}
    got = aggregated(
        ["k"], [ag.Unique("l", encode_lists=ag.Unique.ListEncodingMode.HASH, alias_name="h")], [rb]
    )
    assert [len(g["h"]) for g in got] == [3, 1]


def test_columns_of_arrays_and_objects_are_listed():
    objects = python_objects([object(), {1}, None])
    rb = pa.RecordBatch.from_arrays(
        [pa.array([2, 1, 2]), from_objects([np.ones((2, 2))] * 3, None), objects],
        names=["k", "a", "o"],
    )
    got = aggregated(
        ["k"], [ag.AsList("a"), ag.AsList("o"), ag.Count("o", ignore_nulls=True)], [rb[:1], rb[1:]]
    )
    assert [g["count(o)"] for g in got] == [1, 1] and [len(g["list(a)"]) for g in got] == [1, 2]


def test_groups_of_rows():
    g = Groups([pa.array([2, 1, 2, None, 1])], 5)
    assert (
        g.n == 3
        and g.ids.tolist() == [0, 1, 0, 2, 1]
        and g.first.tolist() == [0, 1, 3]
        and g.sizes.tolist() == [2, 2, 1]
    )
    assert [
        s.column(0).to_pylist()
        for s in g.slices(pa.record_batch([pa.array(range(5))], names=["x"]))
    ] == [[0, 2], [1, 4], [3]]
    assert Groups([], 0).n == 0 and Groups([], 3).n == 1
