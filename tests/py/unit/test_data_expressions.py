"""Expressions: trees, evaluation compared with plain Python, text. No engine."""

import datetime as dt
import itertools
import math
import operator
import pickle
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from cases import case
from hypothesis import given
from hypothesis import strategies as st
from rounds import examples
from skate.data.aggregate import Sum
from skate.data.datatype import DataType
from skate.data.expr import evaluation
from skate.data.expressions import (
    BinaryExpr,
    ClassUDF,
    col,
    columns_of,
    download,
    inline,
    lit,
    monotonically_increasing_id,
    random,
    star,
    udf,
    uuid,
    when,
)
from skate.data.plan.node import Node
from skate.data.plan.optimise import optimised
from skate.data.values.unify import promoted

RB = pa.RecordBatch.from_pydict(
    {
        "x": pa.array([1, 2, None, -7, 5], pa.int32()),
        "y": [0.5, None, 2.0, -1.5, 8.0],
        "s": ["a b", "Bc", None, "abc", ""],
        "t": [dt.datetime(2020, 3, i + 1, 5) for i in range(5)],
        "l": [[3, 1, None], [], None, [5], [2, 2]],
        "ll": [[[1], [2, 3]], [], None, [[]], [[4], None]],
        "st": [{"k": i} for i in range(5)],
        "m": pa.array(
            [[("a", 1)], [], None, [("b", 2), ("c", 3)], []], pa.map_(pa.string(), pa.int64())
        ),
    }
)


def values(e, rb=RB):
    return evaluation.column(e, rb).to_pylist()


OPS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


@examples(100)
@given(
    st.sampled_from(list(OPS)),
    st.lists(
        st.tuples(st.none() | st.integers(-99, 99), st.integers(-99, 99).filter(bool)), min_size=1
    ),
)
def test_operations_are_pythons_and_null_gives_null(op, pairs):
    rb = pa.RecordBatch.from_pydict(
        {"a": pa.array([a for a, _ in pairs], pa.int64()), "b": [b for _, b in pairs]}
    )
    fn = OPS[op]
    assert values(fn(col("a"), col("b")), rb) == [None if a is None else fn(a, b) for a, b in pairs]
    assert values(fn(col("a"), 7), rb) == [None if a is None else fn(a, 7) for a, _ in pairs]
    assert values(fn(7, col("b")), rb) == [fn(7, b) for _, b in pairs]


@examples(100)
@given(st.lists(st.tuples(*[st.sampled_from([True, False, None])] * 2), min_size=1))
def test_and_or_not_are_kleenes(pairs):
    rb = pa.RecordBatch.from_pydict(
        {
            "a": pa.array([a for a, _ in pairs], pa.bool_()),
            "b": pa.array([b for _, b in pairs], pa.bool_()),
        }
    )

    def both(a, b):
        return False if a is False or b is False else None if a is None or b is None else True

    def either(a, b):
        return True if a or b else None if a is None or b is None else False

    assert values(col("a") & col("b"), rb) == [both(a, b) for a, b in pairs]
    assert values(col("a") | col("b"), rb) == [either(a, b) for a, b in pairs]
    assert values(~col("a"), rb) == [None if a is None else not a for a, _ in pairs]


@pytest.mark.parametrize(
    "e, want",
    [
        (col("x").is_null(), [False, False, True, False, False]),
        (col("x").is_not_null(), [True, True, False, True, True]),
        (col("x").is_in([1, 5]), [True, False, False, False, True]),
        (col("x").not_in([1, 5]), [False, True, True, True, False]),
        (col("s").is_in(["abc", None]), [False, False, True, True, False]),
        (col("x").abs(), [1, 2, None, 7, 5]),
        (-col("x"), [-1, -2, None, 7, -5]),
        (col("y").ceil(), [1.0, None, 2.0, -1.0, 8.0]),
        (col("x").power(2), [1, 4, None, 49, 25]),
        (col("x").cast(DataType.string()), ["1", "2", None, "-7", "5"]),
        (col("y").cast(DataType.int64(), safe=False), [0, None, 2, -1, 8]),
        (col("s") + "!", ["a b!", "Bc!", None, "abc!", "!"]),
        ("<" + col("s"), ["<a b", "<Bc", None, "<abc", "<"]),
        (col("s").str.upper(), ["A B", "BC", None, "ABC", ""]),
        (col("s").str.len(), [3, 2, None, 3, 0]),
        (col("s").str.contains("b"), [True, False, None, True, False]),
        (col("s").str.replace("b", "-"), ["a -", "Bc", None, "a-c", ""]),
        (col("s").str.split(" "), [["a", "b"], ["Bc"], None, ["abc"], [""]]),
        (col("s").str.pad(4, "*", "both"), ["a b*", "*Bc*", None, "abc*", "****"]),
        (col("s").str.strip("a"), [" b", "Bc", None, "bc", ""]),
        (col("t").dt.month(), [3] * 5),
        (col("t").dt.floor("day"), [dt.datetime(2020, 3, i + 1) for i in range(5)]),
        (col("t").dt.strftime("%d"), ["01", "02", "03", "04", "05"]),
        (col("l").list.len(), [3, 0, None, 1, 2]),
        (col("l").list.sort(), [[1, 3, None], [], None, [5], [2, 2]]),
        (col("l").list.sort("descending", "at_start"), [[None, 3, 1], [], None, [5], [2, 2]]),
        (col("ll").list.flatten(), [[1, 2, 3], [], None, [], [4]]),
        (col("l").list[0:1], [[3], [], None, [5], [2]]),
        (col("st").struct["k"], [0, 1, 2, 3, 4]),
        (col("st.k") + 1, [1, 2, 3, 4, 5]),
        (col("m").map.keys(), [["a"], [], None, ["b", "c"], []]),
        (col("m").map.values(), [[1], [], None, [2, 3], []]),
        (lit(3), [3] * 5),
        (lit(None), [None] * 5),
    ],
)
def test_functions(e, want):
    assert values(e) == want
    part = RB.slice(1, 3)
    assert values(e, part) == want[1:4]
    again = pickle.loads(pickle.dumps(e))
    assert again.structurally_equals(e) and values(again) == want


def test_errors_say_what_and_where():
    with pytest.raises(KeyError, match="no column 'zz'; columns are x, y"):
        values(col("zz"))
    with pytest.raises(ValueError, match="no field 'q'"):
        values(col("st.q"))
    with pytest.raises(TypeError, match="cannot add string and int32"):
        values(col("s") + col("x"))
    with pytest.raises(pa.ArrowInvalid, match="overflow"):
        values(col("x") * lit(2**31 - 1) * lit(2**40))
    with pytest.raises(TypeError, match="no truth value"):
        col("x") == 1 and col("y") == 2  # noqa: B015
    with pytest.raises(TypeError, match="true or false value per row, not int32"):
        evaluation.mask(col("x"), RB)
    with pytest.raises(TypeError, match="List indices"):
        col("l").list["a"]


BIG = pa.array([2**63, 1, None, 2**64 - 1], pa.uint64())
NEAR = pa.array([2**53 + 1, 2**53, None, 2**63 - 1], pa.int64())


@pytest.mark.parametrize(
    "of, e, want",
    [
        (BIG, col("x") >= 2**63, [True, False, None, True]),
        (BIG, col("x") == 2**64 - 1, [False, False, None, True]),
        (BIG, col("x") < 2**70, [True, True, None, True]),
        (BIG, col("x") > -1, [True, True, None, True]),
        (BIG, lit(2.0**63) <= col("x"), [True, False, None, True]),
        (BIG, col("x").is_in([2**63, -1, 1.0, 1.5, 2**70]), [True, True, False, False]),
        (BIG, col("x").not_in([2**64 - 1, None]), [True, True, False, False]),
        (BIG, col("x") // 2 + 2**62, [2**63, 2**62, None, 2**63 + 2**62 - 1]),
        (BIG, (col("x") - 1) % 10, [7, 0, None, 4]),
        (BIG, col("x") + 0.5, [2.0**63, 1.5, None, 2.0**64]),
        (NEAR, col("x") == 2.0**53, [False, True, None, False]),
        (NEAR, col("x") > float(2**53), [True, False, None, True]),
        (NEAR, col("x") < 2.0**63, [True, True, None, True]),
        (NEAR, col("x") / 2.0, [2.0**52, 2.0**52, None, 2.0**62]),
        (NEAR, col("x") < Decimal("9007199254740992.5"), [False, True, None, False]),
        (pa.array([1, None], pa.int8()), col("x") > 1000, [False, None]),
        (pa.array([1, None], pa.int8()), col("x") != 1000, [True, None]),
        (pa.array([1, None], pa.int8()), col("x") < math.inf, [True, None]),
        (pa.array([1, None], pa.int8()), col("x") + 1000, [1001, None]),
        (pa.array([1, None], pa.int8()), col("x") >= math.nan, [False, None]),
        (
            pa.array([0.0, -0.0, math.nan, 0.1], pa.float32()),
            col("x").is_in([0, math.nan, 0.1]),
            [True, True, True, False],
        ),
        (
            pa.array([0.0, -0.0, math.nan, 0.1], pa.float32()),
            col("x") != 0,
            [False, False, True, True],
        ),
        (pa.array([1.5, None], pa.float32()).cast(pa.float16()), col("x") >= 1.5, [True, None]),
        (pa.array([Decimal("0.10"), None]), col("x") == 0.1, [False, None]),
        (pa.array([Decimal("0.10"), None]), col("x") < 0.1, [True, None]),
        (
            pa.array([Decimal("0.10"), None]),
            col("x").is_in([Decimal("0.1"), 7, 10**30]),
            [True, False],
        ),
        (pa.array([dt.date(2020, 1, 1)]), col("x") < dt.datetime(2020, 1, 1, 1), [True]),
        (pa.array([dt.datetime(2020, 1, 1)]), col("x") == dt.date(2020, 1, 1), [True]),
        (pa.array([10**12], pa.timestamp("s")), col("x") > np.datetime64(1, "ns"), [True]),
        (
            pa.array([10], pa.timestamp("s", "Asia/Tokyo")),
            col("x") == dt.datetime(1970, 1, 1, 0, 0, 10, tzinfo=dt.UTC),
            [True],
        ),
        (
            pa.array([0, 1], pa.duration("s")),
            col("x") > dt.timedelta(microseconds=1),
            [False, True],
        ),
        (pa.array(["a", None], pa.string_view()), col("x").is_in(["a", "b"]), [True, False]),
        (pa.array(["a", None]).dictionary_encode(), col("x") >= "a", [True, None]),
        (pa.array([b"a"], pa.binary(1)), col("x").is_in([b"a", b"abc"]), [True]),
    ],
)
def test_numbers_are_compared_by_value(of, e, want):
    """A literal is cast to the column's type if it fits; if not, it is still compared exactly."""
    assert values(e, pa.record_batch({"x": of})) == want


@pytest.mark.parametrize(
    "a, b, less",
    [
        (BIG, pa.array([-1, 2, 1, 2**63 - 1], pa.int64()), [False, True, None, False]),
        (NEAR, pa.array([2.0**53, 2.0**53, 1.0, 2.0**63]), [False, False, None, True]),
        (BIG, pa.array([2.0**63, math.nan, 1.0, 2.0**64]), [False, False, None, True]),
        (pa.array([2**24 + 1], pa.int32()), pa.array([2.0**24], pa.float32()), [False]),
        (pa.array([10**12], pa.timestamp("s")), pa.array([1], pa.timestamp("ns")), [False]),
        (
            pa.array([1], pa.timestamp("s", "UTC")),
            pa.array([2], pa.timestamp("ms", "Asia/Tokyo")),
            [False],
        ),
        (
            pa.array([Decimal(1)], pa.decimal128(38, 2)),
            pa.array([Decimal("1.5")], pa.decimal128(38, 30)),
            [True],
        ),
        (pa.array([Decimal(1)], pa.decimal128(38, 30)), pa.array([2]), [True]),
        (pa.array(["a"], pa.string_view()), pa.array(["b"]), [True]),
    ],
)
def test_columns_of_two_types_are_compared_by_value(a, b, less):
    rb = pa.record_batch({"a": a, "b": b})
    assert values(col("a") < col("b"), rb) == values(col("b") > col("a"), rb) == less
    assert (
        values(~(col("a") >= col("b")) & (col("b") == col("b")) & (col("a") != col("b")), rb)
        == less
    )


def test_what_cannot_be_compared_says_so():
    for e, why in (
        (
            col("s") == 1,
            "values of string cannot be compared with values of int64 .==.; cast one of the two",
        ),
        (col("x").is_in(["a"]), "'a' cannot be compared with values of int32"),
        (
            col("t") < dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
            "cannot be compared with values of timestamp",
        ),
    ):
        with pytest.raises(TypeError, match=why):
            values(e)


def test_a_long_list_is_looked_at_once():
    e = col("x").is_in([*range(-(10**5), 10**5), 2**40])
    assert values(e) == [True, True, False, True, True]
    made = e.right.sets[pa.int32()]
    assert len(made) == 2 * 10**5 and values(e) and e.right.sets[pa.int32()] is made
    assert pickle.loads(pickle.dumps(e)).structurally_equals(e) and "sets" not in vars(e.right)


def test_structural_equality():
    for make in (
        lambda: col("a"),
        lambda: lit(1),
        lambda: col("a") + 1,
        lambda: ~(col("a") > 2),
        lambda: col("a").alias("b"),
        lambda: col("a").str.pad(3),
        lambda: star(),
        lambda: download("u"),
    ):
        assert make().structurally_equals(make())
    different = [
        col("a"),
        col("b"),
        lit(1),
        lit(1.0),
        lit(True),
        col("a") + 1,
        col("a") - 1,
        col("a").alias("b"),
        col("a").ceil(),
        star(),
    ]
    for i, a in enumerate(different):
        for j, b in enumerate(different):
            assert a.structurally_equals(b) == (i == j)
    assert isinstance(col("a") == col("a"), BinaryExpr)
    e = monotonically_increasing_id()
    assert not e.structurally_equals(e)


def test_user_functions():
    @udf(return_dtype=DataType.int64())
    def twice(x, by=2):
        assert isinstance(x, pa.ChunkedArray)
        return pc.multiply(x, by)

    assert values(twice(col("x"))) == [2, 4, None, -14, 10] and values(twice(col("x"), by=3)) == [
        3,
        6,
        None,
        -21,
        15,
    ]

    @udf(return_dtype=DataType.int64())
    class Plus:
        def __init__(self, n):
            self.n = n

        async def __call__(self, x):
            return pc.add(x, self.n)

    e = Plus(5)(col("x"))
    assert values(e) == [6, 7, None, -2, 10] == values(e)
    assert e.structurally_equals(Plus(5)(col("x"))) and not e.structurally_equals(Plus(6)(col("x")))
    assert isinstance(e.fn, ClassUDF) and e.callable_class_spec is not None

    @udf(return_dtype=DataType.int64())
    def wrong(x):
        return {"a": 1}

    with pytest.raises(TypeError, match="UDF 'wrong' returned invalid type dict"):
        values(wrong(col("x")))

    @udf(return_dtype=DataType.int64())
    def short(x):
        return np.zeros(2)

    with pytest.raises(ValueError, match="2 values for 5 rows"):
        values(short(col("x")))


def test_repr_and_columns():
    e = ((col("a") + 10) * lit("x" * 60)).alias("n")
    assert repr(e).splitlines() == [
        "ALIAS('n')",
        "    └── MUL",
        "        ├── left: ADD",
        "        │   ├── left: COL('a')",
        "        │   └── right: LIT(10)",
        "        └── right: LIT('" + "x" * 46 + "...)",
    ]
    assert (
        inline(~(col("a") > 1)) == "~(col('a') > 1)"
        and inline(col("a").is_null()) == "col('a').is_null()"
    )
    assert (
        columns_of(e) == {"a"} and columns_of(star()) is None and columns_of(download("u")) == {"u"}
    )


@examples(100)
@given(
    st.lists(st.none() | st.integers(-5, 5), min_size=1, max_size=20),
    st.integers(-5, 5),
    st.sets(st.integers(-5, 5)),
)
def test_arrow_expressions_select_the_same_rows(xs, k, some):
    """An expression that is pushed into a reader selects exactly the rows that the filter
    selects."""
    rb = pa.RecordBatch.from_pydict({"x": pa.array(xs, pa.int64())})
    for e in (
        col("x") > k,
        (col("x") == k) | col("x").is_null(),
        ~(col("x") < k) & (col("x") != k + 1),
        col("x").is_in(list(some)),
        col("x").not_in(list(some)),
        col("x") * 2 - 1 >= k,
        col("x") // 1 == k,
    ):
        kept = rb.filter(evaluation.mask(e, rb))
        assert pa.Table.from_batches([rb]).filter(e.to_pyarrow()).to_pylist() == kept.to_pylist(), e


def test_pushdown_of_columns_and_tests():
    read = Node(
        "read",
        "Read",
        {"columns": None, "pushed": None, "names": ["a", "b", "c", "p"], "stored": ["a", "b", "c"]},
    )

    def reader(n):
        while n.inputs:
            n = n.inputs[0]
        return n.params

    def chain(*steps):
        n = read
        for op, params in steps:
            n = Node(op, op, params, (n,), **({"limit": 5} if op == "limit" else {}))
        return reader(optimised(n, "raise")[0])

    assert chain(("select_columns", {"cols": ["b"]}))["columns"] == ["b"]
    assert chain(("map", {"fn": 1}), ("select_columns", {"cols": ["b"]}))["columns"] is None
    assert chain(("filter", {"expr": col("a") > 1}), ("select_columns", {"cols": ["b"]}))[
        "columns"
    ] == ["a", "b"]
    assert chain(
        ("project", {"exprs": [("n", col("c") + 1)], "keep": True}),
        ("select_columns", {"cols": ["n"]}),
    )["columns"] == ["c"]
    assert chain(("rename_columns", {"names": {"a": "z"}}), ("select_columns", {"cols": ["z"]}))[
        "columns"
    ] == ["a"]
    few, new = (
        ("select_columns", {"cols": ["c", "b"]}),
        ("project", {"exprs": [("n", lit(1))], "keep": True}),
    )
    # the column by which rows are counted is one of the selection's
    assert chain(few, new, ("select_columns", {"cols": ["n"]}))["columns"] == ["c"]
    sums = {"by": [], "fns": [Sum("b")], "names": ["sum(b)"]}
    assert chain(("limit", {}), ("aggregate", sums))["columns"] == ["b"]
    assert chain(("drop_columns", {"cols": ["a"]}))["columns"] is None
    got = chain(("filter", {"expr": col("a") > 1}), ("filter", {"expr": col("b") == 2}))["pushed"]
    assert sorted(map(inline, got)) == ["col('a') > 1", "col('b') == 2"]
    # each part of the condition is pushed separately
    got = chain(("filter", {"expr": (col("a") > 1) & (col("p") == "x") & ~(col("b") == 2)}))[
        "pushed"
    ]
    assert sorted(map(inline, got)) == ["col('a') > 1", "~(col('b') == 2)"]
    assert chain(("limit", {}), ("filter", {"expr": col("a") > 1}))["pushed"] is None
    # a column that only the path has
    assert chain(("filter", {"expr": col("p") == "x"}))["pushed"] is None
    made = chain(
        ("project", {"exprs": [("a", col("b"))], "keep": True}), ("filter", {"expr": col("a") > 1})
    )
    assert made["pushed"] is None
    assert read.params["columns"] is None  # the Dataset's own node does not change
    both = Node("union", "Union", {}, (read, Node("select_columns", "s", {"cols": ["a"]}, (read,))))
    assert all(reader(i)["columns"] is None for i in optimised(both, "raise")[0].inputs)


@examples(100)
@given(
    st.lists(st.none() | st.integers(-6, 6), min_size=1),
    st.lists(st.none() | st.floats(-4, 4, allow_nan=False), min_size=1),
)
def test_when_is_a_loop(xs, ys):
    n = min(len(xs), len(ys))
    rb = pa.RecordBatch.from_pydict(
        {"x": pa.array(xs[:n], pa.int32()), "y": pa.array(ys[:n], pa.float64())}
    )
    e = (
        when(col("x") > 2)
        .then(col("x"))
        .when((col("y") < 0) & (col("x") < 2))
        .then(col("y") * 2)
        .otherwise(9)
    )
    want = [
        x
        if x is not None and x > 2
        else y * 2
        if y is not None and y < 0 and x is not None and x < 2
        else 9
        for x, y in zip(xs[:n], ys[:n])
    ]
    assert values(e, rb) == want
    assert evaluation.column(e, rb).type == pa.float64()


def test_when_and_fill_null_have_one_type():
    def made(e):
        a = evaluation.column(e, RB)
        return a.type, a.to_pylist()

    assert made(when(col("x") > 1).then(7).otherwise(0)) == (pa.int64(), [0, 7, 0, 0, 7])
    assert made(when(col("x") > 1).then(col("x")).otherwise(0))[0] == pa.int32()
    assert made(when(col("x") > 1).then("many"))[1] == [None, "many", None, None, "many"]
    assert made(when(lit(True)).then(col("s")).otherwise("x"))[1] == RB["s"].to_pylist()
    assert made(when(lit(None)).then(1).otherwise(col("x")))[1] == RB["x"].to_pylist()
    assert made(when(col("x") > 1).then(None).otherwise(None))[1] == [None] * 5
    assert made(when(col("x") > 1).then(col("st")))[1] == [None, {"k": 1}, None, None, {"k": 4}]
    assert made(col("x").fill_null(0)) == (pa.int32(), [1, 2, 0, -7, 5])
    assert made(col("x").fill_null(col("y"))) == (pa.float64(), [1, 2, 2, -7, 5])
    assert made(col("x").fill_null(0.5)) == (pa.float64(), [1, 2, 0.5, -7, 5])
    assert made(col("s").fill_null("none"))[1] == ["a b", "Bc", "none", "abc", ""]
    assert made(col("l").fill_null(lit([1])))[1][2] == [1]
    coded = pa.RecordBatch.from_arrays([RB["s"].dictionary_encode()], names=["s"])
    assert values(col("s").fill_null("-"), coded) == ["a b", "Bc", "-", "abc", ""]
    for wrong in (
        when(col("x") > 1).then(col("x")).otherwise("text"),
        col("s").fill_null(0),
        when(col("x") > 1).then(col("t")).otherwise(col("x")),
    ):
        with pytest.raises(TypeError, match=r"cast\(\) them to one type"):
            evaluation.column(wrong, RB)
    with pytest.raises(TypeError, match="the condition is an expression"):
        when(True)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="true or false value per row, not int32"):
        values(when(col("x")).then(1))


SIMPLE = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()),
    *(pa.uint64(), pa.float32(), pa.float64(), pa.decimal128(5, 2), pa.decimal256(40, 1)),
    *(pa.string(), pa.large_string(), pa.binary(), pa.bool_(), pa.date32(), pa.time64("us")),
    *(pa.timestamp("s"), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.duration("ms")),
    *(pa.list_(pa.int8()), pa.list_(pa.float32()), pa.null()),
]


def test_when_and_fill_null_have_the_type_of_two_blocks():
    """A column that two blocks have in two types has the type of an expression that takes values of
    both, and where blocks have no type, the expression has none."""
    for a, b in itertools.product(SIMPLE, SIMPLE):
        rb = pa.record_batch({"a": pa.nulls(2, a), "b": pa.nulls(2, b), "n": pa.array([1, 2])})
        both = promoted(a, b)
        for e in (
            when(col("n") > 1).then(col("a")).otherwise(col("b")),
            col("a").fill_null(col("b")),
        ):
            with case(f"{inline(e)} of {a} and {b}"):
                if both is not None:
                    assert evaluation.column(e, rb).type == both
                    continue
                with pytest.raises(TypeError, match=r"cast\(\) them to one type"):
                    evaluation.column(e, rb)


def test_fill_null_keeps_each_value_or_tells():
    big = pa.array([None, 2**64 - 1], pa.uint64())
    rb = pa.record_batch({"u": big, "i": pa.array([-1, 3]), "d": pa.array([None, Decimal("0.10")])})
    with pytest.raises(
        TypeError, match="fill_null: the values are int64 and uint64: .* not in range"
    ):
        values(col("u").fill_null(col("i")), rb)
    assert values(col("u").fill_null(col("i")), rb.slice(0, 1)) == [-1]
    assert values(col("d").fill_null(col("i")), rb) == [Decimal("-1.00"), Decimal("0.10")]


def test_powers_and_digits():
    assert values(col("x") ** 2) == [1, 4, None, 49, 25]
    assert values(2 ** col("x").abs()) == [2, 4, None, 128, 32]
    assert values(lit(2) ** -1) == [0.5] * 5
    assert values(col("y") ** 0.5)[2:] == [
        pytest.approx(2**0.5),
        pytest.approx(math.nan, nan_ok=True),
        pytest.approx(8**0.5),
    ]
    assert values(evaluation.parse("x ** 2 + y ** x"))[0] == 1.5
    with pytest.raises(pa.ArrowInvalid, match="overflow"):
        values(col("x") ** 40)
    assert inline(col("x") ** 2 + 1) == "(col('x') ** 2) + 1"
    rb = pa.RecordBatch.from_pydict({"v": [1.25, 2.675, -1.35, 1250.0]})
    assert values(col("v").round(1), rb) == [1.2, 2.7, -1.4, 1250.0]
    assert values(col("v").round(-2), rb) == [0.0, 0.0, 0.0, 1200.0]
    assert values(col("v").round(), rb) == [1.0, 3.0, -1.0, 1250.0]


def test_the_new_expressions_are_trees():
    e = when(col("x") > 0).then(col("y")).otherwise(0)
    assert columns_of(e) == {"x", "y"}
    assert e.structurally_equals(when(col("x") > 0).then(col("y")).otherwise(0))
    assert not e.structurally_equals(when(col("x") > 0).then(col("y")).otherwise(1))
    assert inline(e) == "when(col('x') > 0).then(col('y')).otherwise(0)"
    assert pickle.loads(pickle.dumps(e)).structurally_equals(e)
    assert col("x").std().structurally_equals(col("x").std())
    assert not col("x").std().structurally_equals(col("x").std(ddof=0))
    assert inline((col("x") + 1).sum() / 2) == "(col('x') + 1).sum() / 2"
    for bad in (e, random(seed=1), uuid(seed=1), col("x").sum()):
        with pytest.raises(TypeError, match="pyarrow has no such expression"):
            bad.to_pyarrow()
    with pytest.raises(TypeError, match="is an aggregate"):
        values(col("x").sum())
