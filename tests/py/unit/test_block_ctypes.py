"""Compares the block layer alone with pyarrow: every Arrow type, sliced and nested at random,
through the C Data Interface.

The layer's C files are compiled here into a small shared library that exports its symbols; `_skate`
and the build tree are not needed. A second library has tiny view buffers, so that columns with many
data buffers are tested without gigabytes, and writes past the cache wherever it can.
"""

import ctypes as ct
import functools
import hashlib
import os
import pathlib
import random
import struct
import subprocess

import numpy as np
import pyarrow as pa
import pytest
import rounds
from cases import case
from hypothesis import given
from hypothesis import strategies as st
from rounds import examples

ROOT = pathlib.Path(__file__).resolve().parents[3]
FLAGS = ["-std=gnu11", "-O1", "-g1", "-D_GNU_SOURCE", f"-I{ROOT / 'src'}", "-pthread"]
SOURCES = sorted(str(x) for x in [*ROOT.glob("src/block/*.c"), *ROOT.glob("src/base/**/*.c")])
ECORRUPT, EINVAL = -13, -2
U64_MAX = 2**64 - 1


class Err(ct.Structure):
    _fields_ = [
        ("code", ct.c_int),
        ("line", ct.c_int),
        ("file", ct.c_char_p),
        ("msg", ct.c_char * 1008),
    ]


RELEASE = ct.CFUNCTYPE(None, ct.c_void_p)


class CSchema(ct.Structure):
    _fields_ = [("format", ct.c_char_p), ("name", ct.c_char_p), ("metadata", ct.c_void_p), ("flags", ct.c_int64), ("n_children", ct.c_int64),
                ("children", ct.c_void_p), ("dictionary", ct.c_void_p), ("release", RELEASE), ("private_data", ct.c_void_p)]  # fmt: skip


class CArray(ct.Structure):
    _fields_ = [("length", ct.c_int64), ("null_count", ct.c_int64), ("offset", ct.c_int64), ("n_buffers", ct.c_int64), ("n_children", ct.c_int64),
                ("buffers", ct.c_void_p), ("children", ct.c_void_p), ("dictionary", ct.c_void_p), ("release", RELEASE),
                ("private_data", ct.c_void_p)]  # fmt: skip


class Owner(ct.Structure):
    _fields_ = [("release", RELEASE), ("ctx", ct.c_void_p)]


class Info(ct.Structure):
    _fields_ = [("n_rows", ct.c_uint64), ("n_columns", ct.c_uint64), ("total_bytes", ct.c_uint64)]


class BlockError(Exception):
    def __init__(self, rc, msg):
        super().__init__(f"{rc}: {msg}")
        self.rc = rc


def aligned(n, fill):
    raw = np.full(n + 64, fill, np.uint8)
    at = -raw.ctypes.data % 64
    return raw[at : at + n]


class Block:
    """Calls the functions of block.h over NumPy buffers."""

    def __init__(self, path):
        self.c = ct.CDLL(str(path))
        self.c.sk_block_plan_free.restype = None
        self.c.sk_block_write.restype = None
        self.c.sk_mem_bytes.restype = ct.c_int64
        self.c.sk_mem_failed.restype = ct.c_bool
        self.n_released = 0
        # blocks that arrays point into, by the number of their owner
        self.n_held, self.held = 0, {}
        self.release = RELEASE(self._released)

    def _released(self, ctx):
        self.n_released += 1
        del self.held[ctx]

    def mem(self):
        return self.c.sk_mem_bytes(3)  # SK_TAG_BLOCK

    def check(self, rc, err):
        if rc:
            assert err.code == rc and err.msg
            raise BlockError(rc, err.msg.decode())

    def encode(self, batch, fill=0xAA):
        schema, array, err = CSchema(), CArray(), Err()
        batch._export_to_c(ct.addressof(array), ct.addressof(schema))
        try:
            return self.encode_c(schema, array, fill, err)
        finally:
            array.release(ct.addressof(array))
            schema.release(ct.addressof(schema))

    def encode_c(self, schema, array, fill=0xAA, err=None):
        plan, size, nbytes, err = ct.c_void_p(), ct.c_uint64(), ct.c_uint64(), err or Err()
        self.check(
            self.c.sk_block_measure(
                ct.byref(schema), ct.byref(array), ct.byref(plan), ct.byref(size), ct.byref(err)
            ),
            err,
        )
        out = aligned(size.value, fill)
        self.c.sk_block_write(plan, out.ctypes.data_as(ct.c_void_p))
        self.c.sk_block_plan_free(plan)
        self.check(
            self.c.sk_block_nbytes(
                ct.byref(schema), ct.byref(array), ct.byref(nbytes), ct.byref(err)
            ),
            err,
        )
        assert nbytes.value == data_bytes(out)
        return out

    def decode(self, block, row0=0, n_rows=U64_MAX):
        schema, array, err = CSchema(), CArray(), Err()
        before = self.n_released
        self.n_held += 1
        self.held[self.n_held] = block
        rc = self.c.sk_block_export(block.ctypes.data_as(ct.c_void_p), ct.c_size_t(len(block)), ct.c_uint64(row0), ct.c_uint64(n_rows),
                                    Owner(self.release, self.n_held), ct.byref(schema), ct.byref(array), ct.byref(err))  # fmt: skip
        assert self.n_released == before + (rc != 0)
        self.check(rc, err)
        return pa.RecordBatch._import_from_c(ct.addressof(array), ct.addressof(schema))

    def schema(self, block):
        schema, err = CSchema(), Err()
        self.check(
            self.c.sk_block_export_schema(
                block.ctypes.data_as(ct.c_void_p),
                ct.c_size_t(len(block)),
                ct.byref(schema),
                ct.byref(err),
            ),
            err,
        )
        return pa.Schema._import_from_c(ct.addressof(schema))

    def info(self, block):
        info, err = Info(), Err()
        self.check(
            self.c.sk_block_info(
                block.ctypes.data_as(ct.c_void_p),
                ct.c_size_t(len(block)),
                ct.byref(info),
                ct.byref(err),
            ),
            err,
        )
        return info

    def validate(self, block):
        err = Err()
        self.check(
            self.c.sk_block_validate(
                block.ctypes.data_as(ct.c_void_p), ct.c_size_t(len(block)), ct.byref(err)
            ),
            err,
        )


def spans(block):
    n_buffers = struct.unpack_from("<I", block, 36)[0]
    at = struct.unpack_from("<Q", block, 64)[0]
    return [struct.unpack_from("<QQ", block, at + 16 * i) for i in range(n_buffers)]


def data_bytes(block):
    return sum(n for _, n in spans(block))


def build(name, *args):
    """Compiles the layer with args to build/block-tests/<name>-<hash of everything that goes into
    it>, unless that file exists."""
    command = ["gcc", *FLAGS, *args, *SOURCES]
    key = hashlib.sha256(repr(command).encode())
    tests = (
        [*ROOT.glob("tests/c/*.[ch]"), *ROOT.glob("tests/c/fuzz/*")]
        if any("tests/c" in str(a) for a in args)
        else []
    )
    for path in sorted([*ROOT.glob("src/block/*"), *ROOT.glob("src/base/**/*"), *tests]):
        if path.is_file():
            key.update(path.read_bytes())
    folder = ROOT / "build/block-tests"
    made = folder / f"{name}-{key.hexdigest()[:16]}"
    if not made.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob(f"{name}-*"):
            old.unlink(missing_ok=True)
        part = folder / f"{os.getpid()}.part"
        subprocess.run([*command, "-o", str(part)], check=True)
        part.rename(made)
    return made


LIBRARY = ["-fPIC", "-shared", "-fvisibility=default"]


@pytest.fixture(scope="session")
def big():
    return Block(build("big.so", *LIBRARY))


@pytest.fixture(scope="session")
def tiny():
    return Block(build("tiny.so", *LIBRARY, "-DSK_BLOCK_VIEW_CHUNK=40", "-DSK_COPY_PAST=70"))


@pytest.fixture(params=[pytest.param("big", marks=pytest.mark.slow), "tiny"])
def block(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(autouse=True)
def nothing_leaks(request):
    libs = [
        request.getfixturevalue(f)
        for f in ("big", "tiny")
        if f in request.fixturenames or "block" in request.fixturenames
    ]
    before = [b.mem() for b in libs]
    yield
    assert [b.mem() for b in libs] == before


# ---- arrays of every type ----


def mask(rng, n, nulls):
    return np.array([rng.random() < 0.3 for _ in range(n)], bool) if nulls else np.zeros(n, bool)


def fixed(t, width):
    """An array of any type with fixed-size values, from random bytes; null slots have garbage, as
    is allowed."""

    def make(rng, n, nulls):
        m = mask(rng, n, nulls)
        bits = (
            pa.py_buffer(np.packbits(~m, bitorder="little").tobytes() + b"\xff") if nulls else None
        )
        return pa.Array.from_buffers(t, n, [bits, pa.py_buffer(rng.randbytes(n * width))])

    return make


def values(t, draw):
    def make(rng, n, nulls):
        m = mask(rng, n, nulls)
        return pa.array([None if m[i] else draw(rng) for i in range(n)], t)

    return make


def temporal(t, width, top):
    def make(rng, n, nulls):
        m = mask(rng, n, nulls)
        size = {4: np.int32, 8: np.int64}[width]
        return pa.array(np.array([rng.randrange(top) for _ in range(n)], size), mask=m).view(t)

    return make


def text(rng):
    return rng.choice(
        [
            "",
            "a",
            "äö",
            "twelve bytes",
            "thirteen byte",
            "x" * rng.randrange(60),
            "long " * rng.randrange(5),
        ]
    )


def raw(rng):
    return rng.randbytes(rng.choice([0, 1, 11, 12, 13, 30]))


def decimal(digits, bits):
    import decimal as d

    t = {32: pa.decimal32, 64: pa.decimal64, 128: pa.decimal128, 256: pa.decimal256}[bits](
        digits, 2
    )
    return values(t, lambda rng: d.Decimal(rng.randrange(-(10**digits) + 1, 10**digits)).scaleb(-2))


FLAT = {
    "null": lambda rng, n, nulls: pa.nulls(n),
    "bool": values(pa.bool_(), lambda rng: rng.random() < 0.5),
    **{f"int{b}": fixed(getattr(pa, f"int{b}")(), b // 8) for b in (8, 16, 32, 64)},
    **{f"uint{b}": fixed(getattr(pa, f"uint{b}")(), b // 8) for b in (8, 16, 32, 64)},
    "float16": values(pa.float16(), lambda rng: np.float16(rng.randrange(2000))),
    "float32": values(pa.float32(), lambda rng: rng.randrange(10**6) / 4),
    "float64": values(pa.float64(), lambda rng: rng.random()),
    "string": values(pa.string(), text),
    "binary": values(pa.binary(), raw),
    "large_string": values(pa.large_string(), text),
    "large_binary": values(pa.large_binary(), raw),
    "string_view": values(pa.string_view(), text),
    "binary_view": values(pa.binary_view(), raw),
    "fixed_binary": fixed(pa.binary(5), 5),
    "fixed_binary0": values(pa.binary(0), lambda rng: b""),
    "decimal32": decimal(7, 32),
    "decimal64": decimal(16, 64),
    "decimal128": decimal(38, 128),
    "decimal256": decimal(76, 256),
    "date32": temporal(pa.date32(), 4, 40000),
    "date64": values(pa.date64(), lambda rng: rng.randrange(40000) * 86400000),
    "time32s": temporal(pa.time32("s"), 4, 86400),
    "time32ms": temporal(pa.time32("ms"), 4, 86400000),
    "time64us": temporal(pa.time64("us"), 8, 86400 * 10**6),
    "time64ns": temporal(pa.time64("ns"), 8, 86400 * 10**9),
    **{f"timestamp_{u}": fixed(pa.timestamp(u), 8) for u in ("s", "ms", "us", "ns")},
    "timestamp_tz": fixed(pa.timestamp("us", "Europe/Berlin"), 8),
    "timestamp_tz_odd": fixed(pa.timestamp("ns", "+05:30"), 8),
    **{f"duration_{u}": fixed(pa.duration(u), 8) for u in ("s", "ms", "us", "ns")},
    "month_day_nano": values(
        pa.month_day_nano_interval(),
        lambda rng: (rng.randrange(99), rng.randrange(-9, 9), rng.randrange(10**12)),
    ),
    "extension": lambda rng, n, nulls: pa.ExtensionArray.from_storage(
        pa.uuid(), fixed(pa.binary(16), 16)(rng, n, nulls)
    ),
    "json": lambda rng, n, nulls: pa.ExtensionArray.from_storage(
        pa.json_(), values(pa.string(), text)(rng, n, nulls)
    ),
}


def offsets_over(rng, n, size, gaps):
    """n + 1 increasing offsets into `size` rows, which need not begin at the first row or end at
    the last."""
    cuts = sorted(rng.randrange(size + 1) for _ in range(n + 1))
    return cuts if gaps else [0, *cuts[1:-1], size][: n + 1] if n else [0]


def bitmap(m):
    return (
        pa.py_buffer(np.packbits(~m, bitorder="little").tobytes() + b"\xa5" * 8)
        if m.any()
        else None
    )


def a_list(kind, off):
    def make(rng, n, nulls, child):
        c, m = child(rng, n * 2 + 3), mask(rng, n, nulls)
        o = np.array(offsets_over(rng, n, len(c), True), off)
        f = pa.field("item", c.type, metadata={"in": "list"})
        return pa.Array.from_buffers(kind(f), n, [bitmap(m), pa.py_buffer(o)], children=[c])

    return make


def a_list_view(kind, off):
    def make(rng, n, nulls, child):
        c, m = child(rng, n * 2 + 3), mask(rng, n, nulls)
        o, s = np.zeros(n, off), np.zeros(n, off)
        for i in range(n):  # out of order, overlapping, with gaps; often contiguous
            o[i] = o[i - 1] + s[i - 1] if i and rng.random() < 0.6 else rng.randrange(len(c) + 1)
            s[i] = rng.randrange(min(4, len(c) - int(o[i])) + 1)
        return pa.Array.from_buffers(
            kind(c.type), n, [bitmap(m), pa.py_buffer(o), pa.py_buffer(s)], children=[c]
        )

    return make


def a_fixed_list(size):
    def make(rng, n, nulls, child):
        c, m = child(rng, n * size), mask(rng, n, nulls)
        return pa.Array.from_buffers(pa.list_(c.type, size), n, [bitmap(m)], children=[c])

    return make


def a_struct(rng, n, nulls, child):
    a, b, m = child(rng, n), FLAT["int32"](rng, n, True), mask(rng, n, nulls)
    t = pa.struct(
        [
            pa.field("a", a.type, metadata={b"k\0": b"\xff\0v"}),
            pa.field("", b.type),
            pa.field("a", pa.int32()),
        ]
    )
    return pa.Array.from_buffers(t, n, [bitmap(m)], children=[a, b, b])


def a_map(rng, n, nulls, child):
    c = child(rng, n * 2 + 3)
    keys, m = FLAT["string"](rng, len(c), False), mask(rng, n, nulls)
    o = np.array(offsets_over(rng, n, len(c), True), np.int32)
    t = pa.map_(pa.string(), c.type, keys_sorted=bool(rng.randrange(2)))
    entries = pa.StructArray.from_arrays([keys, c], fields=[t.key_field, t.item_field])
    return pa.Array.from_buffers(t, n, [bitmap(m), pa.py_buffer(o)], children=[entries])


def a_dictionary(rng, n, nulls, child):
    d = child(rng, 7)
    t = rng.choice(
        [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64()]
    )
    m = mask(rng, n, nulls)
    i = pa.array(np.array([rng.randrange(7) for _ in range(n)]), t, mask=m)
    return pa.DictionaryArray.from_arrays(i, d, ordered=bool(rng.randrange(2)))


def a_run(rng, n, nulls, child):
    ends, at = [], 0
    while at < n:
        at = min(n, at + rng.randrange(1, 5))
        ends.append(at)
    extra = rng.randrange(3)  # rows behind the last one
    t = rng.choice([pa.int16(), pa.int32(), pa.int64()])
    if ends and extra:
        ends[-1] += extra
    a = pa.RunEndEncodedArray.from_arrays(pa.array(ends, t), child(rng, len(ends)))
    return a[:n] if n else a


def a_sparse(rng, n, nulls, child):
    ids = pa.array([rng.choice([5, 9]) for _ in range(n)], pa.int8())
    return pa.UnionArray.from_sparse(
        ids, [child(rng, n), FLAT["int64"](rng, n, nulls)], ["x", "y"], [5, 9]
    )


def a_dense(rng, n, nulls, child):
    ids = [rng.choice([0, 7]) for _ in range(n)]
    kids = [child(rng, n + 2), FLAT["string"](rng, n + 2, nulls)]
    at, seen = [], {0: 0, 7: 0}
    for i in ids:  # a child's offsets increase, with gaps and repeats
        at.append(seen[i])
        seen[i] = min(n + 1, seen[i] + rng.choice([0, 1, 1, 1, 2]))
    return pa.UnionArray.from_dense(
        pa.array(ids, pa.int8()), pa.array(at, pa.int32()), kids, ["x", "y"], [0, 7]
    )


NEST = {
    "list": a_list(pa.list_, np.int32),
    "large_list": a_list(pa.large_list, np.int64),
    "list_view": a_list_view(pa.list_view, np.int32),
    "large_list_view": a_list_view(pa.large_list_view, np.int64),
    "fixed_list": a_fixed_list(3),
    "fixed_list0": a_fixed_list(0),
    "struct": a_struct,
    "map": a_map,
    "dictionary": a_dictionary,
    "run": a_run,
    "sparse_union": a_sparse,
    "dense_union": a_dense,
}


def make_flat(name, rng, n, nulls=True, cut=True):
    """An array of n rows, usually a slice of a longer one."""
    lead, tail = (rng.randrange(12), rng.randrange(12)) if cut else (0, 0)
    return FLAT[name](rng, lead + n + tail, nulls)[lead : lead + n]


def make_nested(name, rng, n, child, nulls=True, cut=True):
    lead, tail = (rng.randrange(12), rng.randrange(12)) if cut else (0, 0)
    return NEST[name](rng, lead + n + tail, nulls, child)[lead : lead + n]


def make_random(rng, n, depth):
    nulls = rng.random() < 0.6
    if depth == 0 or rng.random() < 0.3:
        return make_flat(rng.choice(list(FLAT)), rng, n, nulls)
    name = rng.choice(list(NEST))
    if name == "run":  # pyarrow cannot compare runs of every type
        return make_nested(
            name,
            rng,
            n,
            lambda r, k: make_flat(r.choice(["int64", "string", "bool"]), r, k, nulls),
            nulls,
        )
    return make_nested(name, rng, n, lambda r, k: make_random(r, k, depth - 1), nulls)


# ---- the properties ----


def same(a, b):
    """Whether two arrays are equal in schema, metadata and values; to_pylist() decides for types
    that pyarrow's equality does not support, and for NaN."""
    assert a.schema.equals(b.schema, check_metadata=True)
    assert a.num_rows == b.num_rows
    for x, y in zip(a.columns, b.columns):
        assert same_array(x, y), (x, y)


def plain(v):
    if isinstance(v, dict):
        return {k: plain(x) for k, x in v.items()}
    if isinstance(v, (list, tuple)):
        return [plain(x) for x in v]
    return "nan" if isinstance(v, float) and v != v else v


def same_array(x, y):
    if x.equals(y):
        return True
    try:
        return [plain(v) for v in pylist(x)] == [plain(v) for v in pylist(y)]
    except (ValueError, OverflowError, pa.ArrowInvalid):  # dates that Python cannot represent
        return repr(x) == repr(y)


def pylist(x):
    return x.to_pylist(maps_as_pydicts=None) if not pa.types.is_struct(x.type) else [v.as_py() if len(set(x.type.names)) == len(x.type.names) else repr(v) for v in x]  # fmt: skip


def roundtrip(block, batch, rng=random):
    encoded = block.encode(batch)
    assert bytes(encoded) == bytes(block.encode(batch, fill=0x55)), "bytes that nobody wrote"
    block.validate(encoded)
    info = block.info(encoded)
    assert (info.n_rows, info.n_columns, info.total_bytes) == (
        batch.num_rows,
        batch.num_columns,
        len(encoded),
    )
    assert block.schema(encoded).equals(batch.schema, check_metadata=True)
    out = block.decode(encoded)
    out.validate(full=True)
    same(batch, out)
    assert bytes(block.encode(out)) == bytes(encoded), "not canonical"

    at = rng.randrange(batch.num_rows + 1)
    n = rng.randrange(batch.num_rows - at + 1)
    rows = block.decode(encoded, at, n)
    rows.validate(full=True)
    same(batch.slice(at, n), rows)
    cut = bytes(block.encode(batch.slice(at, n)))
    assert bytes(block.encode(rows)) == cut and bytes(block.encode(out.slice(at, n))) == cut, (
        "a slice shows in the bytes"
    )
    return encoded


def batch_of(*arrays, **metadata):
    fields = [pa.field(f"c{i}", a.type, metadata={"n": str(i)}) for i, a in enumerate(arrays)]
    return pa.RecordBatch.from_arrays(
        list(arrays), schema=pa.schema(fields, metadata=metadata or None)
    )


def test_flat(block):
    for name in FLAT:
        for nulls in (False, True):
            rng = random.Random(name)
            for n in (0, 1, 7, 8, 9, 63, 64, 65, 200):
                for cut in (False, True):
                    with case(name, nulls, n, cut):
                        roundtrip(block, batch_of(make_flat(name, rng, n, nulls, cut)), rng)


@pytest.mark.parametrize("nest", NEST)
def test_nested(block, nest):
    for name in FLAT:
        rng = random.Random(name + nest)
        for n in (0, 1, 40):
            for nulls in (False, True):
                with case(name, n, nulls):
                    child = functools.partial(make_flat, name, nulls=nulls)
                    roundtrip(block, batch_of(make_nested(nest, rng, n, child, nulls)), rng)


@pytest.mark.parametrize("outer", NEST)
def test_nested_twice(block, outer):
    def leaf(r, k):
        return make_flat(r.choice(["int64", "string", "bool", "string_view"]), r, k)

    for inner in NEST:
        if inner == outer == "run":
            continue  # pyarrow does not import runs of runs
        rng = random.Random(inner + outer)
        child = functools.partial(make_nested, inner, child=leaf)
        for n in (0, 3, 40):
            with case(inner, n):
                roundtrip(block, batch_of(make_nested(outer, rng, n, child)), rng)


@examples(300)
@given(
    seed=st.integers(0, 2**64),
    n=st.integers(0, 70),
    columns=st.integers(0, 4),
    depth=st.integers(0, 4),
)
def test_random(big, tiny, seed, n, columns, depth):
    rng = random.Random(seed)
    batch = batch_of(*[make_random(rng, n, depth) for _ in range(columns)], seed=str(seed))
    roundtrip(big, batch, rng)
    roundtrip(tiny, batch, rng)


# ---- particular cases ----


def turned(a):
    return pa.concat_arrays([a[i : i + 1] for i in reversed(range(len(a)))])


def test_same_values_same_bytes(big):
    """However the input is cut, padded or spread over buffers, the bytes and nbytes depend on the
    values only."""
    words = [
        "",
        "short",
        "a text that is long enough for the heap",
        None,
        "another text beyond twelve bytes",
    ] * 5
    for t in (
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.list_view(pa.int64()),
        pa.list_(pa.int64()),
    ):
        v = (
            words
            if not pa.types.is_nested(t)
            else [None if w is None else list(range(len(w))) for w in words]
        )
        whole = pa.array(v, t)
        spread = pa.concat_arrays(
            [
                whole[:7],
                pa.array(["other text, quite long as well"] if v is words else [[1]], t),
                whole[7:],
            ]
        )
        again = pa.concat_arrays([spread[:7], spread[8:]])
        backwards = turned(turned(whole))
        want = bytes(big.encode(batch_of(whole)))
        for other in (again, backwards, pa.concat_arrays([spread, whole])[len(spread) :]):
            assert bytes(big.encode(batch_of(other))) == want


def test_views_in_many_buffers(tiny):
    a = pa.array([f"value number {i:05} of many" for i in range(100)], pa.string_view())
    encoded = roundtrip(tiny, batch_of(a))
    assert len(spans(encoded)) > 50
    # a value longer than a buffer
    roundtrip(
        tiny, batch_of(pa.array(["y" * 500, None, "z" * 39, "z" * 40, "z" * 41], pa.string_view()))
    )


def test_no_columns_but_rows(block):
    batch = pa.RecordBatch.from_arrays([pa.array([1, 2, 3])], names=["a"]).select([])
    assert batch.num_rows == 3
    roundtrip(block, batch)


def test_no_rows_no_columns(block):
    roundtrip(block, pa.RecordBatch.from_arrays([], names=[]))


def test_many_columns(big):
    roundtrip(big, batch_of(*[pa.array([i, None, 3]) for i in range(2000)]))


@pytest.mark.parametrize("depth", [1, 30, 61])
def test_deep(big, depth):
    a = pa.array([1, None, 3])
    for _ in range(depth):
        a = pa.StructArray.from_arrays([a], ["x"])
    roundtrip(big, batch_of(a))


def test_too_deep(big):
    a = pa.array([1])
    for _ in range(64):
        a = pa.StructArray.from_arrays([a], ["x"])
    with pytest.raises(BlockError, match="nested deeper"):
        big.encode(batch_of(a))


def test_metadata(block):
    f = pa.field(
        "ü", pa.int32(), nullable=False, metadata={b"": b"", b"a\0b": b"\xff\xfe", "k": "v" * 5000}
    )
    batch = pa.RecordBatch.from_arrays(
        [pa.array([1], pa.int32())], schema=pa.schema([f], metadata={"pandas": "{}" * 900})
    )
    out = block.decode(roundtrip(block, batch))
    assert out.schema.field(0).nullable is False and out.schema.field(0).metadata == f.metadata


def test_extension_type_of_the_user(block):
    class Celsius(pa.ExtensionType):
        def __init__(self, unit):
            self.unit = unit
            super().__init__(pa.float64(), "test.celsius")

        def __arrow_ext_serialize__(self):
            return self.unit.encode()

        @classmethod
        def __arrow_ext_deserialize__(cls, storage, data):
            return cls(data.decode())

    pa.register_extension_type(Celsius("x"))
    try:
        a = pa.ExtensionArray.from_storage(Celsius("milli"), pa.array([1.5, None, 2.5]))
        t = pa.ExtensionArray.from_storage(
            pa.fixed_shape_tensor(pa.float32(), [2, 3]),
            pa.array([[0.5] * 6] * 3, pa.list_(pa.float32(), 6)),
        )
        out = block.decode(roundtrip(block, batch_of(a, t[0:3])))
        assert out.column(0).type.unit == "milli" and out.column(1).type.shape == [2, 3]
    finally:
        pa.unregister_extension_type("test.celsius")


def test_slice_carries_only_its_rows(big):
    for t in (
        pa.int64(),
        pa.string(),
        pa.list_(pa.int64()),
        pa.string_view(),
        pa.list_view(pa.int64()),
    ):
        v = (
            [["x" * 100, "y"][i % 2] for i in range(1000)]
            if not pa.types.is_nested(t)
            else [[i] * 100 for i in range(1000)]
        )
        a = pa.array(v, t) if t != pa.int64() else pa.array(range(1000))
        assert len(big.encode(batch_of(a[500:502]))) < 3000


def test_nulls_that_are_not_there(big):
    """A bitmap without nulls is dropped, also for a slice; an unknown null count is computed."""
    a = pa.array([None, *range(100)])
    assert spans(big.encode(batch_of(a[1:])))[1] == (0, 0)
    assert spans(big.encode(batch_of(a)))[1] != (0, 0)
    s = pa.StructArray.from_arrays([a], ["x"])[1:]
    assert spans(big.encode(batch_of(s)))[2] == (0, 0)


def test_sliding_windows_get_their_own_rows(big):
    v = pa.array(range(100))
    o, s = np.arange(90, dtype=np.int32), np.full(90, 10, np.int32)
    a = pa.Array.from_buffers(
        pa.list_view(pa.int64()), 90, [None, pa.py_buffer(o), pa.py_buffer(s)], children=[v]
    )
    encoded = roundtrip(big, batch_of(a))
    assert data_bytes(encoded) == 90 * 4 * 2 + 900 * 8


def test_rows_out_of_range(big):
    encoded = big.encode(batch_of(pa.array([1, 2, 3])))
    for at, n in ((4, 0), (0, 4), (3, 1), (1, 3), (U64_MAX, 1), (1, U64_MAX - 1)):
        with pytest.raises(BlockError) as e:
            big.decode(encoded, at, n)
        assert e.value.rc == EINVAL
    assert big.decode(encoded, 3).num_rows == 0 and big.decode(encoded, 1).num_rows == 2


def test_bytes_live_as_long_as_a_child(big):
    encoded = big.encode(batch_of(pa.array(["a", "b"]), pa.array([1, 2])))
    before = big.n_released
    column = big.decode(encoded).column(0)
    assert big.n_released == before
    assert column.to_pylist() == ["a", "b"]
    del column
    assert big.n_released == before + 1


def export(array_like):
    schema, array = CSchema(), CArray()
    array_like._export_to_c(ct.addressof(array), ct.addressof(schema))
    return schema, array


def refuse(block, batch, change, match):
    schema, array = export(batch)
    try:
        child = (
            CArray.from_address(ct.cast(array.children, ct.POINTER(ct.c_void_p))[0])
            if array.n_children
            else None
        )
        undo = change(schema, array, child)
        try:
            with pytest.raises(BlockError, match=match) as e:
                block.encode_c(schema, array)
            assert e.value.rc == EINVAL
        finally:
            undo()
    finally:
        array.release(ct.addressof(array))
        schema.release(ct.addressof(schema))


def setting(which, field, value):
    def change(schema, array, child):
        o = {"schema": schema, "array": array, "child": child}[which]
        old = getattr(o, field)
        setattr(o, field, value)
        return lambda: setattr(o, field, old)

    return change


@pytest.mark.parametrize(
    "which,field,value,match",
    [
        ("schema", "format", b"i", "struct"),
        ("schema", "format", b"+zz", "struct"),
        ("schema", "n_children", 0, "children"),
        ("array", "n_children", 0, "children"),
        ("array", "length", -1, "length"),
        ("array", "offset", -1, "offset"),
        ("array", "offset", 2**63 - 1, "offset"),
        ("array", "length", 4, "column 'c0'.*parent needs"),
        ("child", "length", 2, "column 'c0'.*parent needs"),
        ("child", "n_buffers", 1, "column 'c0'.*buffers"),
        ("child", "null_count", -2, "column 'c0'.*nulls"),
        ("child", "buffers", None, "column 'c0'.*buffers"),
    ],
)
def test_malformed_input(big, which, field, value, match):
    refuse(big, batch_of(pa.array([1, 2, 3])), setting(which, field, value), match)


def test_null_rows_at_the_top(big):
    a = pa.array([{"x": 1}, None], pa.struct([("x", pa.int64())]))
    schema, array = export(a)
    try:
        with pytest.raises(BlockError, match="null rows"):
            big.encode_c(schema, array)
    finally:
        array.release(ct.addressof(array))
        schema.release(ct.addressof(schema))
    schema, array = export(a[:1])  # the slice does not contain the null
    out = big.decode(big.encode_c(schema, array))
    array.release(ct.addressof(array))
    schema.release(ct.addressof(schema))
    assert out.to_pylist() == [{"x": 1}]


def test_view_out_of_bounds(big):
    views = struct.pack("<i4sii", 20, b"aaaa", 0, 5)
    a = pa.Array.from_buffers(
        pa.string_view(), 1, [None, pa.py_buffer(views), pa.py_buffer(b"a" * 24)]
    )
    with pytest.raises(BlockError, match="column 'c0': a view points outside"):
        big.encode(batch_of(a))
    hidden = pa.Array.from_buffers(
        pa.string_view(), 1, [pa.py_buffer(b"\0"), pa.py_buffer(views), pa.py_buffer(b"a" * 24)]
    )
    assert big.decode(big.encode(batch_of(hidden))).to_pylist() == [{"c0": None}]


@pytest.mark.parametrize("name", ["int64", "string_view", "list_view", "dense_union"])
def test_no_memory(big, name):
    rng = random.Random(1)
    a = make_flat(name, rng, 50) if name in FLAT else make_nested(name, rng, 50, lambda r, k: make_nested("list_view", r, k, lambda q, j: make_flat("string", q, j)))  # fmt: skip
    batch = batch_of(a)
    want = bytes(big.encode(batch))
    for nth in range(1, 200):
        before = big.mem()
        big.c.sk_mem_fail_at(ct.c_int64(nth))
        try:
            assert bytes(big.encode(batch)) == want
            same(batch, big.decode(big.encode(batch)))
        except BlockError as e:
            assert e.rc == -1
        hit = big.c.sk_mem_failed()
        big.c.sk_mem_fail_at(ct.c_int64(0))
        assert big.mem() == before
        if not hit:
            break
    else:
        pytest.fail("never passed")
    assert nth > 3


# ---- damage ----


def corpus():
    rng = random.Random(5)
    for name in FLAT:
        yield batch_of(make_flat(name, rng, 9))
    for name in NEST:
        yield batch_of(make_nested(name, rng, 9, lambda r, k: make_flat("string_view", r, k)))
        yield batch_of(
            make_nested(
                name,
                rng,
                5,
                lambda r, k: make_nested(
                    "dictionary", r, k, lambda q, j: make_flat("string", q, j)
                ),
            ),
            d="e",
        )
    for _ in range(20):
        yield batch_of(make_random(rng, 12, 3), make_random(rng, 12, 2))


def test_cut_short(big):
    for batch in corpus():
        encoded = big.encode(batch)
        for n in (*range(0, 200, 8), len(encoded) - 64, len(encoded) - 1):
            if n < len(encoded):
                with pytest.raises(BlockError) as e:
                    big.validate(encoded[: max(n, 0)])
                assert e.value.rc == ECORRUPT
        longer = aligned(len(encoded) + 128, 0x77)  # bytes behind the block are not read
        longer[: len(encoded)] = encoded
        big.validate(longer)
        same(batch, big.decode(longer))


@pytest.mark.slow
@rounds.campaign()
def test_damaged_bytes(big, tmp_path):
    """Flips, swaps and cuts bytes of every kind of block under ASan: the result is an error, or a
    block that can be read; there is no stray memory access."""
    for i, batch in enumerate(corpus()):
        (tmp_path / f"{i:03}.skb").write_bytes(bytes(big.encode(batch)))
    own = [
        f"-I{ROOT / 'tests/c'}",
        str(ROOT / "tests/c/fuzz/block_fuzz.c"),
        str(ROOT / "tests/c/block_read.c"),
    ]
    exe = build("block_fuzz", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", *own)
    n = str(rounds.rounds(int(os.environ.get("SK_FUZZ_ROUNDS", "300"))))
    done = subprocess.run(
        [str(exe), n, *map(str, sorted(tmp_path.glob("*.skb")))], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-4000:]
    tried, refused, read = (int(x) for x in done.stdout.split()[-3:])
    print(done.stdout)
    assert tried == refused + read and refused > tried // 4 and read > tried // 50, done.stdout
