"""The operators of groupby, distinct and join, over exchanges in one process (exchanges.py): the
results are the same however rows are cut into batches, tasks and partitions."""

import math

import pyarrow as pa
import pytest
from exchanges import exchanged
from hypothesis import given
from hypothesis import strategies as st
from rounds import examples
from skate.data import aggregate as ag
from skate.data.by_key import join_args

KEYS = st.sampled_from([None, math.nan, -0.0, 0.0, 1.5, -3.0, 7.0])
TEXTS = st.sampled_from([None, "", "a", "ab", "ä"])
ROWS = st.lists(st.tuples(KEYS, TEXTS), max_size=60)
CUTS = st.lists(st.integers(0, 20), min_size=1, max_size=6)


def place(v):
    nan = isinstance(v, float) and math.isnan(v)
    return (v is None, nan, 0 if v is None or nan else v.encode() if isinstance(v, str) else v)


def batches(rows, sizes, names=("k", "t", "i")):
    """The numbered rows in batches of these sizes, and a batch of the remaining rows."""
    out, at = [], 0
    rows = [(*r, i) for i, r in enumerate(rows)]
    for n in [*sizes, len(rows)]:
        part = rows[at : at + n]
        cols = list(zip(*part, strict=True)) if part else [()] * 3
        types = (pa.float64(), pa.string(), pa.int64())
        out.append(
            pa.RecordBatch.from_arrays(
                [pa.array(c, t) for c, t in zip(cols, types, strict=True)], names=list(names)
            )
        )
        at += n
    return out


def tasks(of, every):
    return [of[i : i + every] for i in range(0, len(of), every)]


@examples(60)
@given(
    ROWS,
    CUTS,
    st.integers(1, 3),
    st.integers(1, 5),
    st.sampled_from([["k"], ["t", "k"]]),
    st.sampled_from([64, 1 << 20]),
)
def test_groups_are_whole_and_in_order(rows, sizes, every, n, keys, target):
    given = tasks(batches(rows, sizes), every)
    found = [
        b for b in exchanged("group_rows", {"keys": keys, "n": 0}, [given], n, target) if b.num_rows
    ]
    got = [r for b in found for r in b.to_pylist()]

    def key(r):
        return tuple(place({"k": r["k"], "t": r["t"]}[k]) for k in keys)

    want = sorted((dict(zip("kti", (*r, i), strict=True)) for i, r in enumerate(rows)), key=key)
    assert [r["i"] for r in got] == [r["i"] for r in want]
    for a, b in zip(found, found[1:], strict=False):
        assert key(a.slice(a.num_rows - 1).to_pylist()[0]) != key(b.slice(0, 1).to_pylist()[0]), (
            "a group is in two blocks"
        )


@examples(60)
@given(ROWS, CUTS, st.integers(1, 3), st.integers(1, 5), st.sampled_from([64, 1 << 20]))
def test_aggregates(rows, sizes, every, n, target):
    given = tasks(batches(rows, sizes), every)
    fns = [
        ag.Count(),
        ag.Sum("i"),
        ag.AsList("i"),
        ag.Unique("t"),
        ag.AggregateFn(
            init=lambda k: 0,
            accumulate_row=lambda a, r: a + r["i"],
            merge=lambda a, b: a + b,
            name="own",
        ),
    ]
    params = {"by": ["k"], "fns": fns, "names": ag.names_of(["k"], fns), "one_key": True, "n": 0}
    got = [
        r for b in exchanged("group_aggregate", params, [given], n, target) for r in b.to_pylist()
    ]
    want = {}
    for i, (k, t) in enumerate(rows):
        want.setdefault(place(k), []).append((i, t))
    assert [place(r["k"]) for r in got] == sorted(want)
    for r in got:
        of = want[place(r["k"])]
        numbers = [i for i, _ in of]
        assert (r["count()"], r["sum(i)"], r["list(i)"], r["own"]) == (
            len(of),
            sum(numbers),
            numbers,
            sum(numbers),
        )
        assert r["unique(t)"] == list(dict.fromkeys(t for _, t in of))


@examples(60)
@given(
    ROWS,
    CUTS,
    st.integers(1, 3),
    st.integers(1, 5),
    st.sampled_from([["k"], ["k", "t"]]),
    st.sampled_from([64, 1 << 20]),
)
def test_distinct(rows, sizes, every, n, keys, target):
    given = tasks(batches(rows, sizes), every)
    got = [
        r
        for b in exchanged("distinct", {"keys": keys, "n": 0}, [given], n, target)
        for r in b.to_pylist()
    ]
    first = {}
    for i, r in enumerate(rows):
        first.setdefault(tuple(place(v) for v in r[: len(keys)]), i)
    assert [r["i"] for r in got] == [i for _, i in sorted(first.items())]


def meets(a, b):
    return a is not None and b is not None and place(a) == place(b)


@pytest.mark.parametrize("kind", join_args.KINDS)
@examples(15)
@given(ROWS, ROWS, CUTS, st.integers(1, 3), st.integers(0, 5))
def test_joins(kind, left, right, sizes, every, n):
    a, b = batches(left, sizes), batches(right, sizes[::-1], ("q", "u", "j"))
    params = {"join": join_args.check(kind, ("k",), ("q",), (None, None)), "n": n, "resources": {}}
    got = [
        r
        for rb in exchanged("join", params, [tasks(a, every), tasks(b, every)], 7)
        for r in rb.to_pylist()
    ]
    pairs = [(i, j) for i, x in enumerate(left) for j, y in enumerate(right) if meets(x[0], y[0])]
    met = ({i for i, _ in pairs}, {j for _, j in pairs})
    lone = (
        [i for i in range(len(left)) if i not in met[0]],
        [j for j in range(len(right)) if j not in met[1]],
    )
    want = {
        "inner": pairs,
        "left_outer": pairs + [(i, None) for i in lone[0]],
        "right_outer": pairs + [(None, j) for j in lone[1]],
        "full_outer": pairs + [(i, None) for i in lone[0]] + [(None, j) for j in lone[1]],
        "left_semi": [(i, None) for i in met[0]],
        "right_semi": [(None, j) for j in met[1]],
        "left_anti": [(i, None) for i in lone[0]],
        "right_anti": [(None, j) for j in lone[1]],
    }[kind]
    assert sorted((place(r.get("i")), place(r.get("j"))) for r in got) == sorted(
        (place(i), place(j)) for i, j in want
    )
    for r in got:
        if r.get("i") is not None and "k" in r:
            assert (place(r["k"]), r["t"]) == (place(left[r["i"]][0]), left[r["i"]][1])
        if r.get("j") is not None and "u" in r:
            assert r["u"] == right[r["j"]][1]
