"""Every kind of value through put() and get(), as an argument, and as a result."""

# ruff: noqa: F821 (names that a test deletes after its lambdas ran)
import array
import collections
import datetime
import decimal
import enum
import fractions
import gc
import math
import pickle
import uuid

import numpy as np
import pytest
import skate


@skate.remote
def echo(x):
    return x


@skate.remote
def kind(x):
    return type(x).__name__


class Color(enum.Enum):
    RED = 1


class Plain:
    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return type(other) is type(self) and other.x == self.x


Point = collections.namedtuple("Point", "x y")

VALUES = [
    None,
    True,
    False,
    0,
    1,
    -1,
    255,
    2**31,
    -(2**31),
    2**63 - 1,
    -(2**63),
    2**63,
    -(2**63) - 1,
    2**64,
    10**100,
    0.0,
    -0.0,
    1.5,
    1e308,
    5e-324,
    float("inf"),
    -float("inf"),
    "",
    "a",
    "é",
    "日本語",
    "\U0001f600",
    "a\0b",
    "\ud800",
    "x" * 8192,
    "x" * 8193,
    "é" * 5000,
    "y" * 100_000,
    b"",
    b"a",
    b"\0\xff",
    b"x" * 8191,
    b"x" * 8192,
    b"x" * 8193,
    b"z" * 70_000,
    b"z" * 1_000_000,
    bytearray(b"abc"),
    [],
    [1, 2.5, "x", None],
    (),
    (1,),
    (1, (2, (3,))),
    {},
    {"a": 1, 2: [3]},
    set(),
    {1, 2},
    frozenset([1]),
    1 + 2j,
    range(5),
    slice(1, 2, 3),
    Ellipsis,
    NotImplemented,
    int,
    len,
    math.sin,
    datetime.datetime(2020, 1, 2, 3, 4, 5, 6, tzinfo=datetime.UTC),
    datetime.date(2020, 1, 1),
    datetime.timedelta(1),
    decimal.Decimal("1.10"),
    fractions.Fraction(1, 3),
    uuid.UUID(int=5),
    collections.OrderedDict(a=1),
    collections.Counter("abca"),
    collections.deque([1, 2], 3),
    collections.defaultdict(list, a=[1]),
    Point(1, 2),
    Color.RED,
    Plain([1]),
    array.array("d", [1.0, 2.0]),
    list(range(10_000)),
    {"k": b"x" * 20_000},
    "1" * 9000 + "\ud800",
    [[["deep"]]],
    {"nested": {"dict": {"of": ["things", (1, 2)]}}},
]


@pytest.mark.parametrize("value", VALUES, ids=lambda v: f"{type(v).__name__}-{v!r:.12}")
def test_round_trip(ray, value):
    got = [
        ray.get(ray.put(value)),
        ray.get(echo.remote(value)),
        ray.get(echo.remote(ray.put(value))),
    ]
    for g in got:
        assert type(g) is type(value)
        assert g == value
        if isinstance(value, float):
            assert math.copysign(1, g) == math.copysign(1, value)


def test_nan(ray):
    assert math.isnan(ray.get(echo.remote(float("nan"))))


def test_subclasses_keep_their_class(ray):
    class I(int):  # noqa: E742
        pass

    class S(str):
        pass

    class B(bytes):
        pass

    for v in (I(3), S("s"), B(b"b")):
        g = ray.get(echo.remote(v))
        assert g == v and type(g).__name__ == type(v).__name__


def test_local_class_and_lambda(ray):
    class Local:
        def __init__(self, x):
            self.x = x

        def twice(self):
            return self.x * 2

    assert ray.get(echo.remote(Local(4))).twice() == 8
    assert isinstance(ray.get(echo.remote(Local(4))), Local)
    assert ray.get(echo.remote(lambda x: x + 1))(2) == 3


def test_same_object_twice_stays_one(ray):
    a = [1]
    g = ray.get(ray.put([a, a]))
    assert g[0] is g[1]


def test_recursive_value(ray):
    a = [1]
    a.append(a)
    g = ray.get(echo.remote(a))
    assert g[1] is g


# ---- numpy

ARRAYS = {
    "int64": np.arange(10),
    "float32": np.arange(6, dtype=np.float32).reshape(2, 3),
    "bool": np.array([True, False]),
    "f16": np.ones(3, np.float16),
    "complex": np.array([1 + 2j]),
    "c64": np.ones((2, 2), np.complex64),
    "longdouble": np.ones(2, np.longdouble),
    "u8": np.arange(256, dtype=np.uint8),
    "big_endian": np.arange(4, dtype=">i4"),
    "zero_d": np.array(5),
    "zero_d_f": np.array(2.5),
    "empty": np.zeros(0),
    "empty_2d": np.zeros((0, 5)),
    "one_byte": np.zeros(1, np.uint8),
    "fortran": np.asfortranarray(np.arange(12).reshape(3, 4)),
    "strided": np.arange(20)[::2],
    "reversed": np.arange(5)[::-1],
    "transposed": np.arange(6).reshape(2, 3).T,
    "object": np.array([1, "a", None], dtype=object),
    "str": np.array(["a", "bcd"]),
    "bytes": np.array([b"a", b"bcd"]),
    "datetime": np.array(["2020-01-01"], dtype="M8[D]"),
    "timedelta": np.array([1, 2], dtype="m8[ns]"),
    "struct": np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]),
    "large": np.random.rand(200, 300),
    "large_fortran": np.asfortranarray(np.random.rand(100, 200)),
    "many_dims": np.zeros((1,) * 20 + (3,)),
    "huge": np.random.rand(1500, 1000),
    "broadcast": np.broadcast_to(np.arange(3), (4, 3)),
    "intc": np.arange(3, dtype=np.intc),
    "longlong": np.arange(3, dtype=np.longlong),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_array(ray, name):
    a = ARRAYS[name]
    for g in (ray.get(ray.put(a)), ray.get(echo.remote(a)), ray.get(ray.put([a]))[0]):
        assert type(g) is np.ndarray and g.dtype == a.dtype and g.shape == a.shape
        np.testing.assert_array_equal(g, a)


def test_large_arrays_come_without_a_copy_and_read_only(ray):
    a = np.arange(1_000_000, dtype=np.int64)
    ref = ray.put(a)
    x, y = ray.get(ref), ray.get(ref)
    assert not x.flags.writeable and not x.flags.owndata
    assert x.__array_interface__["data"][0] == y.__array_interface__["data"][0]
    assert x.__array_interface__["data"][0] % 64 == 0
    with pytest.raises(ValueError):
        x[0] = 1
    with pytest.raises(ValueError):
        x.flags.writeable = True
    b = ray.get(ray.put({"a": a, "b": [a * 2]}))
    assert not b["a"].flags.writeable and not b["a"].flags.owndata and b["b"][0][5] == 10
    with pytest.raises(ValueError):
        b["a"][0] = 1


def test_the_array_outlives_its_ref(ray):
    ref = ray.put(np.arange(100_000))
    a = ray.get(ref)
    part = a[50_000:50_010]
    del ref, a
    others = [ray.put(np.zeros(100_000)) for _ in range(20)]
    np.testing.assert_array_equal(part, np.arange(50_000, 50_010))
    del others


def test_small_arrays_are_read_only_too(ray):
    a = ray.get(ray.put(np.arange(3)))
    with pytest.raises(ValueError):
        a[0] = 1


def test_arguments_are_read_only_and_can_be_returned(ray):
    @ray.remote
    def f(a):
        try:
            a[0] = 7
        except ValueError:
            return a, a.sum()

    a = np.arange(100_000)
    b, s = ray.get(f.remote(a))
    np.testing.assert_array_equal(a, b)
    assert s == a.sum()


def test_a_kept_argument_stays_valid(ray):
    @ray.remote
    class Keeper:
        def keep(self, a):
            self.a = a

        def sum(self):
            return self.a.sum()

    k = Keeper.remote()
    a = np.arange(100_000)
    ray.get(k.keep.remote(a))
    ray.get([echo.remote(np.zeros(100_000)) for _ in range(10)])
    assert ray.get(k.sum.remote()) == a.sum()


def test_ndarray_subclasses(ray):
    m = np.ma.masked_array([1, 2, 3], mask=[0, 1, 0])
    g = ray.get(echo.remote(m))
    assert type(g) is np.ma.MaskedArray and g.sum() == 4
    x = np.array([[1, 2]]).view(np.matrix)
    assert type(ray.get(echo.remote(x))) is np.matrix
    r = np.recarray(2, dtype=[("a", "i4")])
    r.a = [1, 2]
    assert ray.get(echo.remote(r)).a.tolist() == [1, 2]


def test_numpy_scalars(ray):
    for v in (
        np.int64(3),
        np.float32(1.5),
        np.bool_(True),
        np.str_("x"),
        np.datetime64("2020-01-01"),
    ):
        g = ray.get(echo.remote(v))
        assert g == v and type(g) is type(v)


def test_large_values_with_buffers_of_all_sizes(ray):
    for n in (0, 1, 63, 64, 65, 1000, 8000, 8100, 8192, 9000, 65_536, 65_537, 9 << 20):
        a = np.arange(n, dtype=np.uint8)
        g = ray.get(ray.put((a, a[: n // 2].copy(), "tail")))
        np.testing.assert_array_equal(g[0], a)
        np.testing.assert_array_equal(g[1], a[: n // 2])
        assert g[2] == "tail"
        assert ray.get(ray.put(a.tobytes())) == a.tobytes()


# ---- pandas, pyarrow


def test_pandas(ray):
    pd = pytest.importorskip("pandas")
    df = pd.DataFrame(
        {
            "a": np.arange(5000),
            "b": np.random.rand(5000),
            "c": [f"s{i}" for i in range(5000)],
            "d": pd.date_range("2020", periods=5000),
        }
    )
    pd.testing.assert_frame_equal(ray.get(echo.remote(df)), df)
    pd.testing.assert_frame_equal(ray.get(ray.put(df)), df)
    s = pd.Series([1, None, 3], dtype="Int64", name="s")
    pd.testing.assert_series_equal(ray.get(echo.remote(s)), s)
    c = pd.Series(pd.Categorical(["a", "b", "a"]))
    pd.testing.assert_series_equal(ray.get(echo.remote(c)), c)


def test_pyarrow(ray):
    pa = pytest.importorskip("pyarrow")
    t = pa.table({"a": list(range(3000)), "b": ["x"] * 3000, "c": [None, 1.5] * 1500})
    assert ray.get(echo.remote(t)).equals(t)
    assert ray.get(ray.put(pa.array([1, None, 3]))).to_pylist() == [1, None, 3]


def test_blocks(ray):
    pa = pytest.importorskip("pyarrow")
    from skate import _skate

    for n in (0, 3, 5000):
        rb = pa.RecordBatch.from_pydict(
            {
                "a": pa.array(range(n), pa.int64()),
                "b": pa.array(
                    [None if i % 3 == 0 else "s" * (i % 7) for i in range(n)], pa.string()
                ),
                "l": pa.array([[i] * (i % 4) for i in range(n)], pa.list_(pa.int32())),
            }
        )
        ref = _skate.put_block(rb)
        got = ray.get(ref)
        assert got.equals(rb) and got.schema.equals(rb.schema)
        got.validate(full=True)
        del ref
        assert got.equals(rb)  # the result holds its view of the store
        assert ray.get(echo.remote(_skate.put_block(rb))).equals(rb)
        assert _skate.block_nbytes(rb) >= 0
    assert ray.get(kind.remote(_skate.put_block(rb))) == "RecordBatch"
    with pytest.raises(AttributeError):
        _skate.put_block([1, 2])


def test_blocks_from_a_generator(ray):
    pa = pytest.importorskip("pyarrow")

    @ray.remote
    def blocks(n):
        import pyarrow as pa
        from skate._skate import BlockOut

        for i in range(n):
            yield BlockOut(pa.RecordBatch.from_pydict({"i": [i] * (i * 1000 + 1)}))

    got = [ray.get(r) for r in blocks.remote(4)]
    assert [b.num_rows for b in got] == [1, 1001, 2001, 3001]
    assert all(isinstance(b, pa.RecordBatch) for b in got)


# ---- references in values


def test_references_in_values(ray):
    inner = ray.put("inside")
    outer = ray.put({"refs": [inner, inner], "n": 1})
    got = ray.get(outer)
    assert got["refs"][0] == inner and got["refs"][0] is got["refs"][1]
    del inner, got
    assert ray.get(ray.get(outer)["refs"][1]) == "inside"  # the outer object holds the inner one


def test_an_inner_object_lives_through_its_outer_one_only(ray):
    outer = ray.put([ray.put(np.arange(10_000))])
    for _ in range(10):
        ray.put(np.zeros(10_000))
    assert ray.get(ray.get(outer)[0]).sum() == 49995000


def test_references_in_arguments_are_not_replaced(ray):
    @ray.remote
    def f(refs):
        import skate

        return [type(r).__name__ for r in refs] + skate.get(refs)

    assert ray.get(f.remote([ray.put(1), echo.remote(2)])) == ["ObjectRef", "ObjectRef", 1, 2]


def test_references_at_top_level_are_replaced(ray):
    @ray.remote
    def f(a, *, b):
        return a + b

    assert ray.get(f.remote(ray.put(1), b=echo.remote(2))) == 3


def test_references_in_results(ray):
    @ray.remote
    def f():
        import skate

        return [skate.put("made inside"), echo.remote("by a task of a task")]

    assert ray.get(ray.get(f.remote())) == ["made inside", "by a task of a task"]


def test_a_reference_as_result(ray):
    @ray.remote
    def f():
        import skate

        return skate.put(5)

    ref = ray.get(f.remote())
    assert ray.get(ref) == 5


def test_references_in_yields(ray):
    @ray.remote
    def g():
        import skate

        for i in range(3):
            yield [skate.put(i * 10)]

    assert [ray.get(ray.get(r)[0]) for r in g.remote()] == [0, 10, 20]


def test_references_in_a_closure(ray):
    ref = ray.put([1, 2, 3])

    @ray.remote
    def f():
        import skate

        return sum(skate.get(ref))

    r = f.remote()
    del ref
    assert ray.get(r) == 6
    assert ray.get(f.remote()) == 6


def test_references_deep_in_large_arguments(ray):
    ref = ray.put("found")

    @ray.remote
    def f(d):
        import skate

        return skate.get(d["ref"]), d["data"].nbytes

    r = f.remote({"data": np.zeros(100_000), "ref": ref})
    del ref
    assert ray.get(r) == ("found", 800_000)


def test_a_reference_made_while_pickling(ray):
    class Lazy:
        def __getstate__(self):
            import skate

            return {"ref": skate.put("made in __getstate__")}

        def __setstate__(self, d):
            self.ref = d["ref"]

    outer = ray.put(Lazy())
    assert ray.get(ray.get(outer).ref) == "made in __getstate__"


def test_pickling_a_reference_by_hand(ray, monkeypatch):
    """The object then lives as long as the engine; the environment may forbid this."""
    data = pickle.dumps([ray.put("kept")])
    gc.collect()
    assert ray.get(pickle.loads(data)) == ["kept"]
    monkeypatch.setenv("RAY_allow_out_of_band_object_ref_serialization", "0")
    ref = ray.put(1)
    with pytest.raises(ray.exceptions.OufOfBandObjectRefSerializationException, match="ObjectRef"):
        pickle.dumps(ref)
    with pytest.raises(ray.exceptions.OufOfBandObjectRefSerializationException, match="closure"):
        ray.remote(lambda: ref).remote()
    # the reference may be sent where skate counts it
    assert ray.get(ray.get(ray.put([ref]))) == [1]
    monkeypatch.undo()
    import copy

    r = ray.put(1)
    assert copy.copy(r) == r and copy.deepcopy([r])[0] == r  # copies are counted separately


def test_ref_identity(ray):
    a, b = ray.put(1), ray.put(1)
    assert a == a and a != b and hash(a) == hash(a) and len({a, b, a}) == 2 and a != 1
    assert (
        len(a.hex()) == 56
        and len(a.binary()) == 28
        and a.binary().hex() == a.hex()
        and a.hex() in repr(a)
    )
    assert not a.is_nil()
    c = ray.get(ray.put([a]))[0]
    assert c == a and hash(c) == hash(a) and c is not a


def test_memory_of_dropped_values_comes_back(ray):
    from skate import _skate

    a = np.zeros(1 << 20, np.uint8)
    for _ in range(1000):  # four times the size of the store
        ray.put(a)
    for _ in range(300):
        ray.get(echo.remote(a))
    assert _skate.is_initialized()


def test_store_full(fresh):
    ray = fresh(object_store_memory=8 << 20, _system_config={"spill_dir": ""})
    keep = []
    with pytest.raises(ray.exceptions.ObjectStoreFullError):
        for _ in range(20):
            keep.append(ray.put(np.zeros(1 << 20, np.uint8)))
    assert len(keep) >= 4
    keep.clear()
    assert ray.get(ray.put(np.ones(1 << 20, np.uint8))).sum() == 1 << 20
    with pytest.raises(ray.exceptions.ObjectStoreFullError, match="larger"):
        ray.put(np.zeros(64 << 20, np.uint8))


@pytest.mark.parametrize("overflow", [0, -1])
def test_results_larger_than_the_store(fresh, overflow):
    """The result is an error that says so, or is stored on disk."""
    ray = fresh(object_store_memory=8 << 20, _system_config={"overflow_bytes": overflow})

    @ray.remote
    def big():
        return np.ones(64 << 20, np.uint8)

    if overflow and fresh.engine == "local":
        assert ray.get(big.remote()).sum() == 64 << 20
        return
    with pytest.raises(ray.exceptions.RayError, match="store"):
        ray.get(big.remote())
