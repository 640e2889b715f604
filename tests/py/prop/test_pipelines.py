"""Random pipelines of skate.data compared with lists of rows: the same rows in order, however rows
are cut into blocks, on every engine, with and without killed workers.

The model of an operator is one line over a list of dicts. Columns are ints, floats (with nan),
strings, strings or ints with nulls; user functions depend only on values, never on how rows are cut
into batches.
"""

import math
import os
import random
import shutil
import signal
import tempfile
import threading

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest
import skate
import skate.data as sd
from hypothesis import given, note
from hypothesis import strategies as st
from rounds import examples

# ---- engines


def start(engine="local", cpus=2, seed=0):
    skate.shutdown()
    skate.init(
        num_cpus=cpus,
        object_store_memory=256 << 20,
        _system_config={
            "engine": engine,
            "seed": seed,
            "preload": "hypothesis,numpy,pyarrow,light_pytest",
        },
    )


@pytest.fixture(scope="module", autouse=True)
def engine():
    start()
    yield
    skate.shutdown()


# ---- rows and sources

WORDS = ["", "a", "b", "é", "日本", "x" * 40]
FLOATS = [0.0, -0.0, 1.5, -2.25, float("nan"), float("inf"), 1e300]


def a_row(i, salt):
    r = random.Random(i * 1_000_003 + salt)
    return {
        "i": i,
        "k": r.randrange(-5, 6),
        "f": r.choice(FLOATS),
        "s": r.choice(WORDS),
        "n": r.choice([None, "p", "q"]),
        "m": r.choice([None, 1, 2**40]),
    }


TYPES = {
    "i": pa.int64(),
    "k": pa.int64(),
    "f": pa.float64(),
    "s": pa.string(),
    "n": pa.string(),
    "m": pa.int64(),
}


def table(rows):
    return pa.table({c: pa.array([r[c] for r in rows], t) for c, t in TYPES.items()})


def cut(rows, at):
    at = sorted({0, len(rows), *(x % (len(rows) + 1) for x in at)})
    return [rows[a:b] for a, b in zip(at, at[1:])] or [rows]


@st.composite
def sources(draw):
    """(dataset maker, rows): the maker is called again for each engine."""
    kind = draw(st.sampled_from(["items", "range", "arrow", "pandas", "blocks"]))
    n = draw(st.integers(0, 60) | st.sampled_from([0, 1, 2, 255, 256, 700]))
    k = draw(st.none() | st.integers(1, 12))
    if kind == "range":
        return (
            (lambda: sd.range(n, override_num_blocks=k)),
            [{"id": i} for i in range(n)],
            f"range({n}, {k})",
        )
    rows = [a_row(i, draw(st.integers(0, 3)) if i == 0 else 7) for i in range(n)]
    cuts = draw(st.lists(st.integers(0, 1000), max_size=5))
    if kind == "items" and n:
        # every column has a value of its type in some row, so that from_items can infer the types
        rows[0].update(n="p", m=1)
        return (lambda: sd.from_items(rows, override_num_blocks=k)), rows, f"from_items({n}, {k})"
    if kind == "pandas" and n:
        frames = [
            t.to_pandas(types_mapper={pa.int64(): __import__("pandas").Int64Dtype()}.get)
            for t in map(table, cut(rows, cuts))
        ]
        return (lambda: sd.from_pandas(frames)), rows, f"from_pandas({[len(f) for f in frames]})"
    tables = [table(c) for c in cut(rows, cuts)]
    if kind == "arrow":
        return (
            (lambda: sd.from_arrow(tables, override_num_blocks=k)),
            rows,
            f"from_arrow({[len(t) for t in tables]}, {k})",
        )
    return (lambda: sd.from_blocks(tables)), rows, f"from_blocks({[len(t) for t in tables]})"


# ---- operators: each draws (apply to a dataset, apply to rows, text); cols: (names of the int
# columns without nulls, all names)


def h(x, salt):
    return (x * 2654435761 + salt * 40503) % 1009


class AddClass:
    """A callable class with a constructor argument, for batches of any format."""

    def __init__(self, col, add, fmt):
        self.col, self.add, self.fmt = col, add, fmt

    def __call__(self, b):
        return add_in(self.fmt, b, self.col, self.add)


def add_in(fmt, b, col, add):
    if fmt == "pyarrow":
        i = b.schema.get_field_index(col)
        return b.set_column(i, col, pa.compute.add(b.column(i), add))
    if fmt == "pandas":
        b = b.copy()
    b[col] = b[col] + add
    return b


def batch_to(fmt, b, col, add):
    """A batch with only the int column, which is new."""
    if fmt == "pyarrow":
        return pa.table({col: pa.compute.add(b.column(col), add)})
    if fmt == "pandas":
        return b[[col]] + add
    return {col: b[col] + add}


def generated(fmt, b, col, cut):
    """A generator that yields the batch in pieces of `cut` rows."""
    n = b.num_rows if fmt == "pyarrow" else len(b) if fmt == "pandas" else len(b[col])
    for a in range(0, n, cut):
        if fmt == "pyarrow":
            yield b.slice(a, cut)
        elif fmt == "pandas":
            yield b.iloc[a : a + cut]
        else:
            yield {c: v[a : a + cut] for c, v in b.items()}


FORMATS = st.sampled_from(["numpy", "pandas", "pyarrow"])
SIZES = st.none() | st.integers(1, 40) | st.just(1000)


def op_map(draw, cols):
    c, add = draw(st.sampled_from(cols["int"])), draw(st.integers(-9, 9))
    return (
        (lambda ds: ds.map(lambda r: {**r, c: r[c] + add})),
        (lambda rows: [{**r, c: r[c] + add} for r in rows]),
        f"map({c}+{add})",
    )


def op_map_batches(draw, cols):
    c, add, fmt, size = (
        draw(st.sampled_from(cols["int"])),
        draw(st.integers(-9, 9)),
        draw(FORMATS),
        draw(SIZES),
    )
    zero = draw(st.booleans())
    return (
        (
            lambda ds: ds.map_batches(
                lambda b: add_in(fmt, b, c, add),
                batch_size=size,
                batch_format=fmt,
                zero_copy_batch=zero,
            )
        ),
        (lambda rows: [{**r, c: r[c] + add} for r in rows]),
        f"map_batches({fmt}, {size}, {c}+{add}, zero_copy={zero})",
    )


def op_generator(draw, cols):
    c, fmt, size, piece = (
        draw(st.sampled_from(cols["int"])),
        draw(FORMATS),
        draw(SIZES),
        draw(st.integers(1, 30)),
    )
    return (
        (
            lambda ds: ds.map_batches(
                lambda b: generated(fmt, b, c, piece), batch_size=size, batch_format=fmt
            )
        ),
        (lambda rows: rows),
        f"generator({fmt}, {size}, {piece})",
    )


def op_same(draw, cols):
    fmt, size = draw(FORMATS), draw(SIZES)
    return (
        (lambda ds: ds.map_batches(lambda b: b, batch_size=size, batch_format=fmt)),
        (lambda rows: rows),
        f"same({fmt}, {size})",
    )


def op_only(draw, cols):
    c, add, fmt, size = (
        draw(st.sampled_from(cols["int"])),
        draw(st.integers(-9, 9)),
        draw(FORMATS),
        draw(SIZES),
    )
    cols["all"], cols["int"] = [c], [c]
    return (
        (
            lambda ds: ds.map_batches(
                lambda b: batch_to(fmt, b, c, add), batch_size=size, batch_format=fmt
            )
        ),
        (lambda rows: [{c: r[c] + add} for r in rows]),
        f"only({fmt}, {size}, {c}+{add})",
    )


def op_class(draw, cols):
    c, add, fmt, size = (
        draw(st.sampled_from(cols["int"])),
        draw(st.integers(-9, 9)),
        draw(FORMATS),
        draw(SIZES),
    )
    how = draw(st.sampled_from([1, 2, (1, 2), None]))
    return (
        (
            lambda ds: ds.map_batches(
                AddClass,
                fn_constructor_args=(c, add, fmt),
                batch_size=size,
                batch_format=fmt,
                concurrency=how,
                num_cpus=0.25,
            )
        ),
        (lambda rows: [{**r, c: r[c] + add} for r in rows]),
        f"class({fmt}, {size}, {c}+{add}, concurrency={how})",
    )


def op_filter(draw, cols):
    c, m, salt = (
        draw(st.sampled_from(cols["int"])),
        draw(st.integers(1, 4)),
        draw(st.integers(0, 9)),
    )
    return (
        (lambda ds: ds.filter(lambda r: h(r[c], salt) % m == 0)),
        (lambda rows: [r for r in rows if h(r[c], salt) % m == 0]),
        f"filter({c}, {m}, {salt})",
    )


def op_filter_expr(draw, cols):
    c, x = draw(st.sampled_from(cols["int"])), draw(st.integers(-9, 30))
    return (
        (lambda ds: ds.filter(expr=f"{c} > {x} or {c} == -1")),
        (lambda rows: [r for r in rows if r[c] > x or r[c] == -1]),
        f"filter('{c} > {x} or {c} == -1')",
    )


def op_flat_map(draw, cols):
    c, m, salt = (
        draw(st.sampled_from(cols["int"])),
        draw(st.integers(1, 3)),
        draw(st.integers(0, 9)),
    )
    return (
        (
            lambda ds: ds.flat_map(
                lambda r: [{**r, c: r[c] + j} for j in range(h(r[c], salt) % (m + 1))]
            )
        ),
        (lambda rows: [{**r, c: r[c] + j} for r in rows for j in range(h(r[c], salt) % (m + 1))]),
        f"flat_map({c}, {m}, {salt})",
    )


def op_limit(draw, cols):
    n = draw(st.integers(0, 80))
    return (lambda ds: ds.limit(n)), (lambda rows: rows[:n]), f"limit({n})"


def op_select(draw, cols):
    names = draw(st.permutations(cols["all"]))
    keep = names[: draw(st.integers(1, len(names)))]
    if not set(keep) & set(cols["int"]):
        keep = [*keep, cols["int"][0]]
    cols["all"], cols["int"] = keep, [c for c in cols["int"] if c in keep]
    return (
        (lambda ds: ds.select_columns(keep)),
        (lambda rows: [{c: r[c] for c in keep} for r in rows]),
        f"select({keep})",
    )


def op_drop(draw, cols):
    gone = [
        c
        for c in draw(st.lists(st.sampled_from(cols["all"]), max_size=2, unique=True))
        if c != cols["int"][0]
    ]
    if not gone:
        return op_select(draw, cols)
    cols["all"], cols["int"] = (
        [c for c in cols["all"] if c not in gone],
        [c for c in cols["int"] if c not in gone],
    )
    return (
        (lambda ds: ds.drop_columns(gone)),
        (lambda rows: [{c: v for c, v in r.items() if c not in gone} for r in rows]),
        f"drop({gone})",
    )


def op_rename(draw, cols):
    old = draw(st.sampled_from(cols["all"]))
    new = old + "_"
    cols["all"] = [new if c == old else c for c in cols["all"]]
    cols["int"] = [new if c == old else c for c in cols["int"]]
    return (
        (lambda ds: ds.rename_columns({old: new})),
        (lambda rows: [{new if c == old else c: v for c, v in r.items()} for r in rows]),
        f"rename({old})",
    )


def op_add_column(draw, cols):
    c, fmt = draw(st.sampled_from(cols["int"])), draw(FORMATS)
    new = f"c{len(cols['all'])}"
    if new in cols["all"]:
        return op_rename(draw, cols)
    cols["all"], cols["int"] = [*cols["all"], new], [*cols["int"], new]

    def fn(b):
        return pa.compute.multiply(b.column(c), 3) if fmt == "pyarrow" else b[c] * 3

    return (
        (lambda ds: ds.add_column(new, fn, batch_format=fmt)),
        (lambda rows: [{**r, new: r[c] * 3} for r in rows]),
        f"add_column({new}, {fmt})",
    )


def op_union(draw, cols):
    return (lambda ds: ds.union(ds.limit(5), ds)), (lambda rows: rows + rows[:5] + rows), "union"


def op_materialize(draw, cols):
    return (lambda ds: ds.materialize()), (lambda rows: rows), "materialize"


OPS = [
    op_map,
    op_map_batches,
    op_map_batches,
    op_generator,
    op_same,
    op_only,
    op_class,
    op_filter,
    op_filter_expr,
    op_flat_map,
    op_limit,
    op_select,
    op_drop,
    op_rename,
    op_add_column,
    op_union,
    op_materialize,
]


@st.composite
def pipelines(draw, ops=OPS, most=5):
    """(function that makes the dataset, its rows)."""
    source, rows, text = draw(sources())
    names = list(rows[0]) if rows else ["id"] if text.startswith("range") else list(TYPES)
    cols = {"all": names, "int": [c for c in names if c in ("i", "k", "id")]}
    steps = []
    for op in draw(st.lists(st.sampled_from(ops), max_size=most)):
        if len(rows) > 3000 and op in (op_union, op_flat_map):
            continue
        apply, model, said = op(draw, cols)
        steps.append(apply)
        rows = model(rows)
        text += " -> " + said
    note(text)

    def make():
        ds = source()
        for s in steps:
            ds = s(ds)
        return ds

    return make, rows


def same_value(a, b):
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or (
            a == b and math.copysign(1, a) == math.copysign(1, b)
        )
    return type(a) is type(b) and a == b


def check(got, want):
    assert len(got) == len(want)
    for i, (a, b) in enumerate(zip(got, want)):
        assert list(a) == list(b), f"row {i}: columns {list(a)}, want {list(b)}"
        for c in b:
            assert same_value(a[c], b[c]), f"row {i}, column {c}: {a[c]!r}, want {b[c]!r}"


# ---- properties


@examples(20)
@given(pipelines())
def test_rows(p):
    make, rows = p
    ds = make()
    check(ds.take_all(), rows)
    assert ds.count() == len(rows)


@examples(8)
@given(pipelines(most=3), st.integers(0, 50))
def test_prefixes_and_schema(p, n):
    make, rows = p
    ds = make()
    check(ds.take(n), rows[:n])
    check(ds.limit(n).take_all(), rows[:n])
    if rows:
        assert ds.columns() == list(rows[0])
        whole = ds.materialize()
        known = ds.schema()
        assert whole.schema().names == known.names == list(rows[0])
        # values decide a type only if no metadata does: a column with nothing but nulls has type
        # null
        got = whole.to_arrow().schema
        for name, t in zip(known.names, known.types):
            assert got.field(name).type == t or any(
                pa.types.is_null(x) for x in (t, got.field(name).type)
            ), name


def length(b, fmt):
    return (
        b.num_rows
        if fmt == "pyarrow"
        else len(b)
        if fmt == "pandas"
        else len(next(iter(b.values())))
    )


def rows_of(b, fmt):
    if fmt == "pyarrow":
        return b.to_pylist()
    if fmt == "pandas":
        return [
            {c: None if v is None or str(v) in ("<NA>",) else v for c, v in r.items()}
            for r in b.astype(object).to_dict("records")
        ]
    out = {c: [x.item() if isinstance(x, np.generic) else x for x in v] for c, v in b.items()}
    return [dict(zip(out, r)) for r in zip(*out.values())]


@examples(8)
@given(pipelines(most=2), st.integers(1, 70) | st.just(1000), FORMATS, st.booleans())
def test_batches(p, size, fmt, drop_last):
    make, rows = p
    bs = list(make().iter_batches(batch_size=size, batch_format=fmt, drop_last=drop_last))
    full, rest = divmod(len(rows), size)
    assert [length(b, fmt) for b in bs] == [size] * full + (
        [rest] if rest and not drop_last else []
    )
    got = [r for b in bs for r in rows_of(b, fmt)]
    want = rows[: full * size] if drop_last else rows
    # a batch without nulls has the plain dtype, and a float is compared directly
    if fmt == "pandas":
        assert len(got) == len(want)
        for a, b in zip(got, want):
            assert all(same_value(a[c], v) or (v is None and a[c] != a[c]) for c, v in b.items()), (
                a,
                b,
            )
    elif fmt != "pyarrow":  # numbers are floats with NaN in a batch with missing numbers
        assert len(got) == len(want)
        for a, b in zip(got, want):
            assert list(a) == list(b)
            for c, v in b.items():
                missing = v is None and (a[c] is None or a[c] != a[c])
                assert (
                    missing
                    or same_value(a[c], v)
                    or type(a[c]) is float
                    and type(v) in (int, bool)
                    and a[c] == v
                ), (c, a[c], v)
    else:
        check(got, want)


@examples(10)
@given(pipelines(most=2), st.sampled_from([None, 1, 7, 100]))
def test_parquet(p, per_file):
    make, rows = p
    folder = tempfile.mkdtemp()
    try:
        make().write_parquet(folder, max_rows_per_file=per_file)
        assert not [f for f in os.listdir(folder) if f.startswith(".")]
        if rows:
            ds = sd.read_parquet(folder)
            check(ds.take_all(), rows)
            assert ds.count() == len(rows)
    finally:
        shutil.rmtree(folder)


@examples(2)
@given(st.lists(pipelines(), min_size=4, max_size=4), st.integers(1, 1000))
def test_any_engine_gives_the_same(ps, seed):
    try:
        for engine, cpus in (("inline", 2), ("local", 1), ("local", 2), ("local", 4)):
            note(f"{engine}, {cpus} CPUs")
            start(engine, cpus, seed if engine == "inline" else 0)
            for make, rows in ps:
                check(make().take_all(), rows)
    finally:
        start()


# ---- with workers that die

# materialize runs the pipeline while the program is built, before the killer is active
KILL_OPS = [op for op in OPS if op is not op_materialize]


class Killer(threading.Thread):
    """Kills a random worker, at most `n` times, each time after it has checked a running job a
    random number of times."""

    def __init__(self, n, seed):
        super().__init__(daemon=True)
        self.n, self.rnd, self.over, self.killed, self.error = (
            n,
            random.Random(seed),
            threading.Event(),
            0,
            None,
        )

    def run(self):
        try:
            self.kill()
        except BaseException as e:
            self.error = e

    def kill(self):
        while self.killed < self.n and not self.over.wait(self.rnd.uniform(0.001, 0.03)):
            busy = [w[0] for w in skate._skate.workers()]
            if busy:
                try:
                    os.kill(self.rnd.choice(busy), signal.SIGKILL)
                    self.killed += 1
                except ProcessLookupError:
                    pass

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exc):
        self.over.set()
        self.join()
        if self.error is not None:
            raise self.error


def test_rows_while_workers_are_killed():
    total = 0

    @examples(12)
    @given(pipelines(KILL_OPS), st.integers(1, 2), st.integers(0, 10**6))
    def run(p, kills, seed):
        nonlocal total
        make, rows = p
        with Killer(kills, seed) as k:
            ds = make()
            check(ds.take_all(), rows)
            assert ds.count() == len(rows)
        total += k.killed

    run()
    assert total > 0, "no worker was killed: the pipelines are too short for this test"
