"""Joins of two batches (data/by_key/join_args.py, join_kernel.py), in one process: compared with a loop
over all pairs of rows; names of columns and errors."""

import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rounds import examples
from skate import _skate
from skate.data.by_key import join_args, join_kernel
from skate.data.values.unify import merge

KINDS = list(join_args.KINDS)


def work(join, sides, target, first, phase=_skate.PHASE_REDUCE, told=()):
    slices = [(rows, 0, True, 0, side) for side, rows in enumerate(sides)]
    how = (0, 1, 1, target, list(told), phase, 1 + first)
    return join_kernel.joined(join, join_args.described(join), slices, how)


def batches_of(join, left, right, target=1 << 20, first=join_args.LEFT):
    return [out.batch() for out in work(join, (left, right), target, first)]


def joined(join, left, right):
    """The join of one batch on each side."""
    return merge(batches_of(join, [left], [right]))


KEYS = st.sampled_from([None, math.nan, 0.0, -0.0, 1.0, 2.5])
TEXTS = st.sampled_from([None, "", "a", "b"])
SIDE = st.lists(st.tuples(KEYS, TEXTS, st.integers(0, 99)), max_size=12)


def batch(rows, names):
    cols = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    return pa.RecordBatch.from_arrays(
        [
            pa.array(c, t)
            for c, t in zip(cols, (pa.float64(), pa.string(), pa.int64()), strict=True)
        ],
        names=names,
    )


def meet(a, b):
    """Whether two keys are equal."""
    return all(
        x is not None and y is not None and (x == y or x != x and y != y)
        for x, y in zip(a, b, strict=True)
    )


def by_hand(kind, left, right, n):
    """(left row or None, right row or None) for each row of the result; n: the number of key
    columns."""
    pairs = [(a, b) for a in left for b in right if meet(a[:n], b[:n])]
    lone_left = [a for a in left if not any(meet(a[:n], b[:n]) for b in right)]
    lone_right = [b for b in right if not any(meet(a[:n], b[:n]) for a in left)]
    if kind in ("left_semi", "left_anti"):
        return [(a, None) for a in left if (a in lone_left) == (kind == "left_anti")]
    if kind in ("right_semi", "right_anti"):
        return [(None, b) for b in right if (b in lone_right) == (kind == "right_anti")]
    out = []
    for a in left:
        met = [(a, b) for x, b in pairs if x is a]
        out += met or ([(a, None)] if kind in ("left_outer", "full_outer") else [])
    return out + ([(None, b) for b in lone_right] if kind in ("right_outer", "full_outer") else [])


def same(v):
    return "NaN" if isinstance(v, float) and v != v else v


@pytest.mark.parametrize("kind", KINDS)
@examples(40)
@given(SIDE, SIDE, st.sampled_from([1, 2]), st.integers(0, 12), st.sampled_from([1, 1 << 20]))
def test_every_kind(kind, left, right, n, cut, target):
    # rows that can be told apart
    left, right = (
        [(*r[:2], i) for i, r in enumerate(left)],
        [(*r[:2], 100 + i) for i, r in enumerate(right)],
    )
    on = ["k", "t"][:n]
    join = join_args.check(kind, on, ["q", "r"][:n], (None, None))
    a, b = batch(left, ["k", "t", "x"]), batch(right, ["q", "r", "y"])
    got = merge(batches_of(join, [a[:cut], a[cut:]], [b[:0], b], target))
    want = []
    for a, b in by_hand(kind, left, right, n):
        row = dict.fromkeys(got.schema.names)
        row.update({k: v for k, v in zip(["k", "t", "x"], a or (), strict=False) if k in row})
        row.update({k: v for k, v in zip(["q", "r", "y"], b or (), strict=False) if k in row})
        if kind == "full_outer" and a is None:
            row.update(zip(on, b, strict=False))
        want.append(row)
    assert [{k: same(v) for k, v in r.items()} for r in got.to_pylist()] == [
        {k: same(v) for k, v in r.items()} for r in want
    ]
    assert got.schema.equals(
        join_args.schema_of(
            join, (batch([], ["k", "t", "x"]).schema, batch([], ["q", "r", "y"]).schema)
        )
    )


@pytest.mark.parametrize("first", [join_args.LEFT, join_args.RIGHT])
@pytest.mark.parametrize("kind", KINDS)
@examples(20)
@given(SIDE, SIDE, st.sampled_from([1, 2]), st.integers(0, 12), st.sampled_from([1, 1 << 20]))
def test_shares_and_what_they_leave_are_the_whole(kind, first, left, right, n, cut, target):
    join = join_args.check(kind, ["k", "t"][:n], ["q", "r"][:n], (None, None))
    sides = (batch(left, ["k", "t", "x"]), batch(right, ["q", "r", "y"]))
    whole = merge(batches_of(join, [sides[0]], [sides[1]], first=first))
    out, told = [], []
    for share in (sides[first][:cut], sides[first][cut:]):
        have = ([share], [sides[1]]) if first == join_args.LEFT else ([sides[0]], [share])
        one = iter(work(join, have, target, first, _skate.PHASE_SPLIT_REDUCE))
        told.append(next(one).written())
        out += [rows.batch() for rows in one]
    have = ([sides[0][:0]], [sides[1]]) if first == join_args.LEFT else ([sides[0]], [sides[1][:0]])
    rest = work(join, have, target, first, _skate.PHASE_UNMATCHED, told)
    got = merge(out + [rows.batch() for rows in rest])
    assert str(got.to_pylist()) == str(whole.to_pylist()) and got.schema.equals(whole.schema)
    rows = [
        sorted(str(row).replace("-0.0", "0.0") for row in batch.to_pylist())
        for batch in (whole, merge(batches_of(join, [sides[0]], [sides[1]])))
    ]
    # except 0.0, which may be the key of a full_outer join as -0.0
    assert rows[0] == rows[1], "the same rows, whatever side comes first"


def test_what_is_told_is_of_the_other_side():
    join = join_args.check("full_outer", ("k",), None, (None, None))
    a, b = (
        batch([(1.0, "a", 1)], ["k", "t", "x"]),
        batch([(1.0, "b", i) for i in range(9)], ["k", "u", "y"]),
    )
    told = [_skate.BlockOut(pa.record_batch([pa.array([True])], names=["met"])).written()]
    with pytest.raises(ValueError, match="reported matches of 1 rows, and there are 9"):
        work(join, ([a[:0]], [b]), 1 << 20, join_args.LEFT, _skate.PHASE_UNMATCHED, told)


NAMES = {
    "inner": ["k", "x", "z_l", "y", "z_r"],
    "left_outer": ["k", "x", "z_l", "y", "z_r"],
    "full_outer": ["k", "x", "z_l", "y", "z_r"],
    "right_outer": ["x", "z_l", "q", "y", "z_r"],
    "left_semi": ["k", "x", "z"],
    "left_anti": ["k", "x", "z"],
    "right_semi": ["q", "y", "z"],
    "right_anti": ["q", "y", "z"],
}


@pytest.mark.parametrize("kind", KINDS)
def test_names(kind):
    join = join_args.check(kind, ("k",), ("q",), ("_l", "_r"))
    assert [c.name for c in join_args.columns(join, (["k", "x", "z"], ["q", "y", "z"]))] == NAMES[
        kind
    ]


def test_names_that_meet():
    def names(left, right, suffixes=(None, None), on=("k",), right_on=None, kind="inner"):
        return [
            c.name
            for c in join_args.columns(join_args.check(kind, on, right_on, suffixes), (left, right))
        ]

    assert names(["k", "x"], ["k", "x"], ("_l", None)) == ["k", "x_l", "x"], "one suffix is enough"
    assert names(["k", "q"], ["q", "y"], on=("k",), right_on=("q",)) == ["k", "q", "y"], (
        "the right key is left out, so it meets nothing"
    )
    assert names(["k", "q"], ["q", "k"], ("_l", "_r"), ("k",), ("q",)) == ["k", "q", "k_r"], (
        "a key keeps its name"
    )
    with pytest.raises(
        ValueError, match="'x' would be there twice.*left_suffix.*Field \"x\" exists 2 times"
    ):
        names(["k", "x"], ["k", "x"])
    with pytest.raises(ValueError, match="'x_l' would be there twice"):
        names(["k", "x", "x_l"], ["k", "x"], ("_l", None))
    with pytest.raises(ValueError, match="'k' would be there twice"):
        names(["k", "x"], ["q", "k"], on=("k",), right_on=("q",))
    with pytest.raises(KeyError, match="there is no column 'k' on the right side; columns are y"):
        names(["k"], ["y"])
    with pytest.raises(ValueError, match="there is no column 'k' on the left side"):
        names(["x"], ["k"], kind="left_semi")


def test_arguments():
    for kw, said in (
        (
            ("outer", ("k",), None),
            r"Invalid join type: 'outer'. Supported join types are: inner, left_outer, right_outer, full_outer, left_semi, ",
        ),
        (("inner", "k", None), r"Expected tuple or list as `on` \(got str\)"),
        (("inner", ("k",), "k"), r"Expected tuple or list as `right_on` \(got str\)"),
        (("inner", (), None), "At least 1 column name to join on"),
        (
            ("inner", ("a", "b"), ("a",)),
            "Number of columns provided for left and right datasets has to match",
        ),
        (("inner", ("a", "a"), None), "names a column twice"),
        (("inner", (1,), None), "1 is no name of a column"),
    ):
        with pytest.raises(ValueError, match=said):
            join_args.check(*kw, (None, None))


def test_types_of_keys():
    join = join_args.check("full_outer", ("k",), None, (None, None))
    left, right = (
        pa.record_batch([pa.array(v, t)], names=["k"])
        for v, t in (([1, 300], pa.int16()), ([300, 2**40], pa.int64()))
    )
    assert joined(join, left, right).to_pydict() == {"k": [1, 300, 2**40]}
    coded = pa.record_batch([pa.array(["a", "b"]).dictionary_encode()], names=["k"])
    plain = pa.record_batch([pa.array(["b", "c"], pa.large_string())], names=["k"])
    assert joined(join, coded, plain).to_pydict() == {"k": ["a", "b", "c"]}
    with pytest.raises(
        TypeError, match="column 'k' of type string and column 'k' of type int64 cannot be compared"
    ):
        joined(join, pa.record_batch([pa.array(["a"])], names=["k"]), right)
    with pytest.raises(
        ValueError, match="column 'k' of type list<.*> on the left side cannot be a key"
    ):
        joined(join, pa.record_batch([pa.array([[1]])], names=["k"]), right)


def test_columns_of_any_type_come_along():
    left = pa.record_batch(
        [pa.array([1, 2]), pa.array([[1], [2, 3]]), pa.array([{"a": 1}, None])],
        names=["id", "l", "s"],
    )
    right = pa.record_batch([pa.array([2, 3]), pa.array(["x", "y"])], names=["id", "v"])
    got = joined(join_args.check("full_outer", ("id",), None, (None, None)), left, right)
    assert got.to_pylist() == [
        {"id": 1, "l": [1], "s": {"a": 1}, "v": None},
        {"id": 2, "l": [2, 3], "s": None, "v": "x"},
        {"id": 3, "l": None, "s": None, "v": "y"},
    ]
