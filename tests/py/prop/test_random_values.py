"""Random Python values, arrays, frames and tables through put/get, task arguments and results;
nothing of them must stay after they are dropped.

After results were fetched and everything was released, status() shows the contents of the store:
objects, sealed bytes and pins must become 0 within a deadline (workers report what they release a
little later).
"""

import gc
import math
import pickle
import select
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import skate
from hypothesis import example, given
from hypothesis import strategies as st
from rounds import examples
from skate import _skate


@pytest.fixture(scope="module", params=["inline", "local"], autouse=True)
def engine(request):
    skate.shutdown()
    skate.init(
        num_cpus=2,
        object_store_memory=256 << 20,
        resources={"widget": 2},
        _system_config={
            "engine": request.param,
            "preload": "hypothesis,numpy,pandas,pyarrow,light_pytest",
        },
    )
    gc.collect()
    # left() collects garbage after each example, which should not visit the objects of other tests
    gc.freeze()
    yield request.param
    gc.unfreeze()
    skate.shutdown()


@skate.remote
def echo(x):
    return x


@skate.remote
def inside(x):
    return [x], {"x": x}


@skate.remote
class Holder:
    def echo(self, x):
        return x

    def hold(self, x):
        self.x = x

    def held(self):
        return self.x

    def drop(self):
        self.x = None


EMPTY = (
    "objects",
    "store_sealed_bytes",
    "store_leased_bytes",
    "store_pins",
    "tasks_known",
    "tasks_ready",
    "store_bytes",
    "tasks_queued",
    "tasks_running",
    "actors",
)


patience = 60.0


def left():
    """What is still in the store after at most a minute; {} if it is empty."""
    global patience
    gc.collect()
    end = time.monotonic() + patience
    while True:
        s = _skate.status()
        over = {k: s[k] for k in EMPTY if s.get(k)}
        if not over:
            return over
        if time.monotonic() > end:
            # hypothesis now looks for a smaller example, and holds the objects of the failed ones
            patience = 1.0
            return over
        # workers report what they released with their next message
        select.select([], [], [], 0.001)


# ---- values

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=True)
    | st.complex_numbers(allow_nan=False)
    | st.text(max_size=20)
    | st.binary(max_size=20)
    | st.datetimes()
    | st.dates()
    | st.timedeltas()
    | st.decimals(allow_nan=False)
    | st.fractions()
    | st.uuids()
    | st.builds(range, st.integers(-9, 9), st.integers(-9, 9))
    | st.builds(lambda n: "x" * n, st.sampled_from([100, 4095, 8191, 8192, 8193, 70_000]))
    | st.builds(
        lambda n: bytes([n % 256]) * n,
        st.sampled_from([100, 4096, 8180, 8192, 8193, 65_536, 300_000]),
    )
    | st.builds(lambda n: bytearray(n), st.integers(0, 10_000))
)
HASHABLE = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.binary(max_size=8)
    | st.tuples(st.integers(), st.text(max_size=3))
)

DTYPES = [
    "?",
    "i1",
    "u1",
    "i2",
    "u2",
    "i4",
    "u4",
    "i8",
    "u8",
    "f2",
    "f4",
    "f8",
    "g",
    "F",
    "D",
    ">i4",
    ">f8",
    "M8[ns]",
    "M8[D]",
    "m8[s]",
    "S5",
    "U3",
    "S0",
    [("a", "i4"), ("b", "f8")],
    [("a", "i1"), ("b", [("c", ">i2"), ("d", "U2")])],
    [("a", "f4", (2, 2))],
    "O",
    "V7",
]


@st.composite
def arrays(draw):
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = tuple(draw(st.lists(st.sampled_from([0, 1, 2, 3, 7, 40]), max_size=3)))
    n = math.prod(shape)
    if dtype.kind == "O":
        a = np.empty(n, object)
        a[:] = [
            draw(st.sampled_from([None, 1, "a", b"b", 2.5, [1, "x"], {"k": (1,)}])) if i < 5 else i
            for i in range(n)
        ]
        a = a.reshape(shape)
    else:
        rng = np.random.default_rng(draw(st.integers(0, 99)))
        raw = rng.integers(0, 2 if dtype.kind == "b" else 100, n * dtype.itemsize, dtype=np.uint8)
        # random bytes are no valid text
        if dtype.kind == "U" or (dtype.names and "b" in dtype.names and dtype["b"].names):
            a = np.zeros(shape, dtype)
            if dtype.kind == "U":
                a[...] = "hé"
        elif dtype.itemsize:
            a = raw.view(dtype).reshape(shape)
        else:
            a = np.zeros(shape, dtype)
    how = draw(
        st.sampled_from(["C", "F", "strided", "reversed", "transposed", "broadcast", "readonly"])
    )
    if how == "F":
        a = np.asfortranarray(a) if a.ndim else a
    elif how == "strided" and a.ndim:
        a = np.repeat(a, 2, axis=0)[::2]
    elif how == "reversed" and a.ndim:
        a = a[::-1]
    elif how == "transposed":
        a = a.T
    elif how == "broadcast":
        a = np.broadcast_to(a, (2, *a.shape))
    elif how == "readonly":
        a = a.copy()
        a.flags.writeable = False
    return a


BIG_ARRAYS = st.builds(
    lambda n, order: np.arange(n, dtype=np.float64).reshape(-1, 2).copy(order),
    st.sampled_from([2, 1000, 1024, 1026, 30_000, 200_000]),
    st.sampled_from("CF"),
)
FRAMES = st.builds(
    lambda n, ints, text, cat, when: pd.DataFrame(
        {
            **(
                {
                    "i": np.arange(n),
                    "m": pd.array([None if j % 3 == 0 else j for j in range(n)], dtype="Int64"),
                }
                if ints
                else {}
            ),
            **(
                {
                    "s": [f"s{j % 7}" for j in range(n)],
                    "o": [None if j % 2 else "x" for j in range(n)],
                }
                if text
                else {}
            ),
            **({"c": pd.Categorical([f"c{j % 3}" for j in range(n)])} if cat else {}),
            **(
                {"t": pd.date_range("2020", periods=n, tz="UTC" if n % 2 else None)} if when else {}
            ),
        },
        index=pd.RangeIndex(n) if n % 2 else pd.Index([f"r{j}" for j in range(n)]),
    ),
    st.sampled_from([0, 1, 2, 5, 999]),
    *[st.booleans()] * 4,
)
TABLES = st.builds(
    lambda n, k, sl: pa.concat_tables(
        [
            pa.table(
                {
                    "i": pa.array([None if j % 3 == 0 else j for j in range(n)], pa.int64()),
                    "s": pa.array([f"s{j}" for j in range(n)]),
                    "l": pa.array([[j] * (j % 4) for j in range(n)], pa.list_(pa.int16())),
                    "d": pa.array([f"d{j % 2}" for j in range(n)]).dictionary_encode(),
                    "b": pa.array([j % 2 == 0 for j in range(n)]),
                }
            )
        ]
        * k
    ).slice(sl),
    st.sampled_from([0, 1, 3, 1000]),
    st.integers(1, 3),
    st.integers(0, 2),
)
LEAVES = SCALARS | arrays() | BIG_ARRAYS | FRAMES | TABLES
VALUES = st.recursive(
    LEAVES,
    lambda v: (
        st.lists(v, max_size=4)
        | st.lists(v, max_size=3).map(tuple)
        | st.dictionaries(HASHABLE, v, max_size=4)
        | st.sets(HASHABLE, max_size=4)
        | st.frozensets(HASHABLE, max_size=3)
    ),
    max_leaves=8,
)


def same(a, b):
    """Whether a equals b by value and type, at all levels."""
    assert type(a) is type(b), (type(a), type(b))
    if isinstance(b, np.ndarray):
        # NumPy pickles strided arrays in this machine's byte order, except inside structures, with
        # or without skate
        if not b.flags.forc:
            b = pickle.loads(pickle.dumps(b, 5))
        assert a.dtype == b.dtype and a.shape == b.shape
        if b.dtype.kind == "O":
            for x, y in zip(a.ravel().tolist(), b.ravel().tolist()):
                same(x, y)
        else:
            assert a.tobytes() == b.tobytes()
    elif isinstance(b, pd.DataFrame):
        pd.testing.assert_frame_equal(a, b)
    elif isinstance(b, pa.Table):
        assert a.equals(b) and a.schema.equals(b.schema)
        a.validate(full=True)
    elif isinstance(b, float):
        assert (a != a and b != b) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    elif isinstance(b, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            same(x, y)
    elif isinstance(b, dict):
        assert list(a) == list(b)
        for k, x in zip(a, b):
            assert type(k) is type(x)
        for k in b:
            same(a[k], b[k])
    else:
        assert a == b


@examples(30)
@given(VALUES)
@example((1, [np.arange(8, dtype=">i4")[::2], np.zeros(8, [("a", ">i2"), ("b", "<U2")])[::2]]))
def test_round_trip(v):
    ref = skate.put(v)
    got = skate.get([ref, echo.remote(v), echo.remote(ref), inside.remote(v)])
    for g in got[:3]:
        same(g, v)
    same(got[3], ([v], {"x": v}))
    del ref, got, g
    assert left() == {}


@examples(8)
@given(st.lists(VALUES, min_size=1, max_size=3))
def test_actors(vs):
    a = Holder.remote()
    refs = [a.echo.remote(v) for v in vs]
    for g, v in zip(skate.get(refs), vs):
        same(g, v)
    for v in vs:
        a.hold.remote(v)
        same(skate.get(a.held.remote()), v)
    del refs, g, a
    assert left() == {}


# ---- references


@skate.remote
def fetch(tree):
    """The tree in which references are replaced by their values."""
    return resolve(tree)


@skate.remote
def wrap(v):
    """References that a task makes, nested in its result."""
    return {"made": skate.put(v), "task": echo.remote(v), "plain": v}


def resolve(tree):
    if isinstance(tree, skate.ObjectRef):
        return resolve(skate.get(tree))
    if isinstance(tree, list):
        return [resolve(x) for x in tree]
    if isinstance(tree, dict):
        return {k: resolve(x) for k, x in tree.items()}
    return tree


TREES = st.recursive(
    st.integers(0, 99) | st.sampled_from([b"s" * 10, b"b" * 20_000]),
    lambda t: (
        st.lists(t, max_size=3)
        | st.dictionaries(st.text(max_size=2), t, max_size=3)
        | st.tuples(st.sampled_from(["put", "echo", "twice", "wrap"]), t)
    ),
    max_leaves=10,
)


def build(tree, kept):
    """Turns tuples into references, or into objects that contain them; returns (value with
    references, value without)."""
    if isinstance(tree, tuple):
        how, (x, plain) = tree[0], build(tree[1], kept)
        if how == "wrap":
            return wrap.remote([x]), {"made": [plain], "task": [plain], "plain": [plain]}
        ref = skate.put([x]) if how == "put" else echo.remote([x])
        kept.append(ref)
        plain = [plain]
        return ([ref, ref], [plain, plain]) if how == "twice" else (ref, plain)
    if isinstance(tree, list):
        both = [build(x, kept) for x in tree]
        return [a for a, _ in both], [b for _, b in both]
    if isinstance(tree, dict):
        both = {k: build(x, kept) for k, x in tree.items()}
        return {k: a for k, (a, _) in both.items()}, {k: b for k, (_, b) in both.items()}
    return tree, tree


@examples(30)
@given(TREES, st.booleans(), st.booleans())
def test_references(tree, early, by_task):
    kept = []
    x, plain = build([tree], kept)
    outer = skate.put(x)
    if early:
        kept.clear()  # now only the outer object holds them
        x = None
    got = skate.get(fetch.remote([outer])) if by_task else resolve(outer)
    assert got == (plain if not by_task else [plain])
    again = skate.get(outer)
    assert resolve(again) == plain
    del outer, again, x
    kept.clear()
    assert left() == {}


@examples(8)
@given(st.lists(st.integers(1, 30_000), min_size=1, max_size=6), st.integers(0, 6))
def test_generators(sizes, take):
    @skate.remote(num_returns="streaming")
    def gen():
        for n in sizes:
            yield [skate.put(bytes(n)), n]

    it = gen.remote()
    for n, ref in zip(sizes[:take], it):
        inner, m = skate.get(ref)
        assert m == n and skate.get(inner) == bytes(n)
        del inner, ref
    del it
    # the inline engine runs a task when a caller waits, also the task of a dropped stream
    skate.get(skate.remote(lambda: None).remote())
    assert left() == {}


@examples(8)
@given(
    st.lists(
        st.sampled_from(["ok", "error", "lost", "cancel", "infeasible_then_cancel"]),
        min_size=1,
        max_size=5,
    )
)
def test_nothing_stays_of_failures(kinds):
    @skate.remote(max_retries=0)
    def f(kind, data):
        if kind == "error":
            raise ValueError(kind)
        return data

    data = skate.put(np.zeros(20_000))
    refs = []
    for k in kinds:
        r = (
            f.options(resources={"widget": 2}).remote(k, data)
            if k == "infeasible_then_cancel"
            else f.remote(k, [data])
        )
        if k in ("cancel", "infeasible_then_cancel"):
            skate.cancel(r)
        refs.append((k, r, echo.remote(r)))
    for k, *rs in refs:
        for r in rs:
            try:
                skate.get(r, timeout=120)
                assert k != "error"
            except ValueError:
                assert k == "error"
            except skate.exceptions.TaskCancelledError:
                assert "cancel" in k
    del data, refs, rs, r
    assert left() == {}
