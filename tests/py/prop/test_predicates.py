"""One definition of truth for predicates (docs/design/predicates.md): random predicates over random
columns of all types, in memory, pushed down into Parquet files of all kinds, and as text, compared
with a simple evaluator over Python's numbers and, where SQL means the same, with DuckDB.

A case is one predicate over one set of files. Row groups have few rows and few values, so that
statistics often have min == max == the value in the predicate. Pushed-down predicates run in this
process, as a worker would run them (some cases also run on the engine): 10^5 cases take minutes.
"""

import datetime as dt
import inspect
import math
import operator
import os
import random
import shutil
import types
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import rounds
import skate.data as sd
from skate.data.datasource import Partitioning
from skate.data.expr import evaluation
from skate.data.expressions import BinaryExpr, LiteralExpr, Operation, UnaryExpr, col, inline, lit
from skate.data.plan.optimise import optimised
from skate.data.values import selection

OPS = {
    "<": (Operation.LT, operator.lt),
    "<=": (Operation.LE, operator.le),
    ">": (Operation.GT, operator.gt),
    ">=": (Operation.GE, operator.ge),
    "==": (Operation.EQ, operator.eq),
    "!=": (Operation.NE, operator.ne),
}
NAN = math.nan
EPOCH = dt.datetime(1970, 1, 1)
NS = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}


# ---- columns: (Arrow type, kind, values in the form of the model)
# The model of a number, a text or bytes is the value itself; a temporal value is an integer of
# nanoseconds.


def near(r, *values):
    return [v + d for v in values for d in (-1, 0, 1)] + [r.randrange(-3, 4) for _ in range(3)]


def integers(t):
    bits = int(str(t).strip("uint"))
    least, most = (
        (0, 2**bits - 1)
        if pa.types.is_unsigned_integer(t)
        else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    )
    return (
        t,
        "number",
        lambda r: [
            v for v in near(r, least, most, 2**53, -(2**53), 2**63, 127) if least <= v <= most
        ],
    )


def floats(t, width):
    def pool(r):
        values = [
            0.0,
            -0.0,
            NAN,
            math.inf,
            -math.inf,
            0.1,
            -1.5,
            2.0,
            2.0**53,
            2.0**63,
            -(2.0**63),
            65504.0,
            1e-8,
        ]
        with np.errstate(over="ignore"):
            return [width(v).item() for v in values]

    return t, "number", pool


def decimals(t):
    most = Decimal((0, (9,) * t.precision, -t.scale))
    return (
        t,
        "number",
        lambda r: (
            [Decimal(v).scaleb(-t.scale) for v in (0, 1, -1, 10, 150, -150)]
            + [most, most.copy_negate()]
        ),
    )


def instants(t, unit):
    return (
        t,
        "tz" if getattr(t, "tz", None) else "ts",
        lambda r: (
            [v * unit for v in near(r, 0, 86400, 10**9)]
            + [86400 * 10**9 * k for k in (0, 1, 18262)]
        ),
    )


def steps(t, kind, unit, most):
    return t, kind, lambda r: [v * unit for v in (0, 1, 2, most) if v <= most]


COLUMNS = [
    *map(
        integers,
        (
            pa.int8(),
            pa.int16(),
            pa.int32(),
            pa.int64(),
            pa.uint8(),
            pa.uint16(),
            pa.uint32(),
            pa.uint64(),
            pa.uint64(),
            pa.int64(),
        ),
    ),
    floats(pa.float16(), np.float16),
    floats(pa.float32(), np.float32),
    floats(pa.float64(), np.float64),
    floats(pa.float64(), np.float64),
    *map(decimals, (pa.decimal128(9, 2), pa.decimal128(38, 10), pa.decimal256(60, 3))),
    *(
        (t, "text", lambda r: ["", "a", "ab", "b", "z" * 80, "é", "日本", "\U0001f600"])
        for t in (pa.string(), pa.large_string(), pa.string_view())
    ),
    *(
        (t, "bytes", lambda r: [b"", b"a", b"\xff", b"ab\0", b"\x80" * 70])
        for t in (pa.binary(), pa.large_binary(), pa.binary_view())
    ),
    (pa.binary(2), "bytes", lambda r: [b"aa", b"\xff\0", b"zz"]),
    (pa.bool_(), "bool", lambda r: [True, False]),
    steps(pa.date32(), "date", 86400 * 10**9, 40000),
    (pa.date64(), "date", lambda r: [86400 * 10**9 * k for k in (0, 1, -1, 18262)]),
    instants(pa.timestamp("s"), NS["s"]),
    instants(pa.timestamp("ms", "Europe/Berlin"), NS["ms"]),
    instants(pa.timestamp("us"), NS["us"]),
    instants(pa.timestamp("ns", "UTC"), NS["ns"]),
    steps(pa.time32("s"), "time", NS["s"], 86399),
    steps(pa.time64("us"), "time", NS["us"], 86399999999),
    steps(pa.duration("s"), "duration", NS["s"], 10**6),
    steps(pa.duration("ns"), "duration", NS["ns"], 10**6),
    (pa.dictionary(pa.int32(), pa.string()), "text", lambda r: ["", "a", "b", "c"]),
    (pa.dictionary(pa.int8(), pa.int64()), "number", lambda r: [1, 2, 2**53 + 1]),
]


def stored(t):
    """Whether this pyarrow can store the type in Parquet files."""
    try:
        pq.write_table(pa.table({"x": pa.nulls(0, t)}), pa.BufferOutputStream())
    except pa.ArrowNotImplementedError:
        return False
    return True


COLUMNS = [c for c in COLUMNS if stored(c[0])]


class Column:
    def __init__(self, r, n, spec):
        self.type, self.kind, pool = spec
        self.pool = r.sample(pool(r), k=min(len(pool(r)), r.randint(1, 4)))
        values, v = [], None
        while len(values) < n:  # runs of equal values, so that row groups have one value
            v = r.choice(self.pool)
            values += [v] * r.randint(1, 4)
        values = values[:n]
        missing = r.choice((0, 0, 0.1, 0.5, 1)) if r.random() < 0.7 else 0
        self.values = [None if r.random() < missing else v for v in values]
        if pa.types.is_floating(self.type) and r.random() < 0.6:
            self.values = [NAN if v is not None and r.random() < 0.3 else v for v in self.values]
        self.array = self.arrow()

    def arrow(self):
        t = self.type
        if self.kind in ("number", "text", "bytes", "bool"):
            of = t.value_type if pa.types.is_dictionary(t) else t
            made = pa.array(
                [
                    np.float16(v) if v is not None and pa.types.is_float16(of) else v
                    for v in self.values
                ],
                of,
            )
            return made.dictionary_encode().cast(t) if pa.types.is_dictionary(t) else made
        unit = (
            86400 * 10**9
            if pa.types.is_date32(t)
            else 10**6
            if pa.types.is_date64(t)
            else NS[t.unit]
        )
        width = pa.int32() if t.bit_width == 32 else pa.int64()
        return pa.array([None if v is None else v // unit for v in self.values], width).cast(t)


# ---- predicates: trees of tuples, which are converted to expressions, text, SQL, and truth values


def literal(r, c):
    """Returns (a value as a program writes it, its model)."""
    v = r.choice(c.pool) if r.random() < 0.75 else None
    if c.kind == "number":
        if v is None:
            v = r.choice(
                [
                    0,
                    1,
                    -1,
                    1000,
                    2**53 + 1,
                    2**63,
                    2**64,
                    -(2**63) - 1,
                    2**200,
                    0.5,
                    NAN,
                    math.inf,
                    -math.inf,
                    0.1,
                    2.0**53,
                    1e300,
                    Decimal("0.1"),
                    Decimal("1.5"),
                ]
            )
        elif isinstance(v, int) and r.random() < 0.3:
            v = r.choice([float(v), v + 0.5 if abs(v) < 2**50 else v, Decimal(v)])
        elif isinstance(v, float) and v.is_integer() and r.random() < 0.3:
            v = int(v)
        if isinstance(v, float) and r.random() < 0.1:
            return np.float64(v), v
        return v, v
    if v is None and c.kind in ("text", "bytes", "bool"):
        v = {"text": "aa", "bytes": b"abc", "bool": True}[c.kind]
    if c.kind in ("text", "bytes", "bool"):
        return v, v
    v = v if v is not None else r.choice([0, 1, 1500, 86400 * 10**9, 86400 * 10**9 + 1000])
    if c.kind == "time":
        v = v % (86400 * 10**9) // 1000 * 1000
        return (EPOCH + dt.timedelta(microseconds=v // 1000)).time(), v
    if c.kind == "duration":
        return (
            (np.timedelta64(v, "ns"), v)
            if r.random() < 0.5
            else (dt.timedelta(microseconds=v // 1000), v // 1000 * 1000)
        )
    how = r.choice(("python", "numpy", "date"))
    if how == "date":
        day = v // (86400 * 10**9)
        return dt.date(1970, 1, 1) + dt.timedelta(days=day), day * 86400 * 10**9
    if how == "numpy" and c.kind != "tz":
        return np.datetime64(v, "ns"), v
    at = EPOCH + dt.timedelta(microseconds=v // 1000)
    return (at.replace(tzinfo=dt.UTC) if c.kind == "tz" else at), v // 1000 * 1000


def comparable(a, b):
    """The columns whose comparison is exact; that of a decimal with a float is not, since both
    become floats."""
    dates = {"date", "ts"}, {"date", "tz"}
    if a.kind == b.kind == "number":
        dec, flo = (
            any(f(t.value_type if pa.types.is_dictionary(t) else t) for t in (a.type, b.type))
            for f in (pa.types.is_decimal, pa.types.is_floating)
        )
        return not (dec and flo)
    return a.kind == b.kind or {a.kind, b.kind} in dates


def predicate(r, columns, depth=0):
    if depth < 2 and r.random() < 0.45:
        how = r.choice(("and", "or", "not"))
        parts = [predicate(r, columns, depth + 1) for _ in range(1 if how == "not" else 2)]
        return (how, *parts)
    name = r.choice(list(columns))
    c = columns[name]
    roll = r.random()
    if roll < 0.1:
        return ("null", name, r.random() < 0.5)
    if roll < 0.3:
        values = [literal(r, c) for _ in range(r.randint(0, 3))] + (
            [(None, None)] if r.random() < 0.2 else []
        )
        return ("in", name, values, r.random() < 0.5)
    if roll < 0.4:
        others = [n for n in columns if comparable(c, columns[n])]
        return ("columns", r.choice(list(OPS)), name, r.choice(others))
    if roll < 0.44:
        return ("cmp", r.choice(list(OPS)), name, (None, None), False)
    if roll < 0.48 and c.kind == "bool":
        return ("column", name)
    return ("cmp", r.choice(list(OPS)), name, literal(r, c), r.random() < 0.2)


FLIP = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


def expression(p):
    if p[0] in ("and", "or"):
        a, b = expression(p[1]), expression(p[2])
        return a & b if p[0] == "and" else a | b
    if p[0] == "not":
        return UnaryExpr(Operation.NOT, expression(p[1]))
    if p[0] == "null":
        return col(p[1]).is_null() if p[2] else col(p[1]).is_not_null()
    if p[0] == "in":
        return (col(p[1]).not_in if p[3] else col(p[1]).is_in)([v for v, _ in p[2]])
    if p[0] == "columns":
        return BinaryExpr(OPS[p[1]][0], col(p[2]), col(p[3]))
    if p[0] == "column":
        return col(p[1])
    return (
        BinaryExpr(OPS[FLIP[p[1]]][0], lit(p[3][0]), col(p[2]))
        if p[4]
        else BinaryExpr(OPS[p[1]][0], col(p[2]), LiteralExpr(p[3][0]))
    )


class CannotSay(Exception):
    """The predicate has no form in this language, or has another meaning there."""


def written(v):
    if (
        type(v) not in (int, float, str, bytes, bool)
        or isinstance(v, float)
        and not math.isfinite(v)
    ):
        raise CannotSay
    return repr(v)


def text(p):
    if p[0] in ("and", "or"):
        return f"({text(p[1])} {p[0]} {text(p[2])})"
    if p[0] == "not":
        return f"(not {text(p[1])})"
    if p[0] == "null":
        return f"{p[1]} is {'' if p[2] else 'not '}null"
    if p[0] == "in":
        if (
            not p[2]
            or len({type(v) for v, _ in p[2]} - {int, float}) > 1
            or {bool, int, float} & {type(v) for v, _ in p[2]} > {bool}
        ):
            raise CannotSay
        if any(v is None for v, _ in p[2]):
            raise CannotSay
        found = f"({p[1]} in ({''.join(written(v) + ', ' for v, _ in p[2])}))"
        return f"(not {found})" if p[3] else found
    if p[0] == "columns":
        return f"({p[2]} {p[1]} {p[3]})"
    if p[0] == "column":
        return p[1]
    value = "null" if p[3][0] is None else written(p[3][0])
    return f"({value} {FLIP[p[1]]} {p[2]})" if p[4] else f"({p[2]} {p[1]} {value})"


def truth(p, row):
    """True, False or None for a row of the model, as docs/design/predicates.md defines it."""
    if p[0] in ("and", "or"):
        a, b = truth(p[1], row), truth(p[2], row)
        strong = p[0] == "or"
        return strong if strong in (a, b) else None if None in (a, b) else not strong
    if p[0] == "not":
        a = truth(p[1], row)
        return None if a is None else not a
    if p[0] == "null":
        return (row[p[1]] is None) == p[2]
    if p[0] == "in":
        v = row[p[1]]
        among = [m for _, m in p[2]]
        found = (
            None in among
            if v is None
            else any(isnan(m) for m in among)
            if isnan(v)
            else any(m is not None and same("==", v, m) for m in among)
        )
        return found != p[3]
    if p[0] == "column":
        return row[p[1]]
    a, b = row[p[2]], row[p[3]] if p[0] == "columns" else p[3][1]
    return None if a is None or b is None else same(p[1], a, b)


def isnan(v):
    return isinstance(v, float) and v != v


def same(op, a, b):
    return op == "!=" if isnan(a) or isnan(b) else OPS[op][1](a, b)


def sql(p, columns):
    if p[0] in ("and", "or"):
        return f"({sql(p[1], columns)} {p[0]} {sql(p[2], columns)})"
    if p[0] == "not":
        return f"(not {sql(p[1], columns)})"
    if p[0] == "null":
        return f"({p[1]} is {'' if p[2] else 'not '}null)"
    if p[0] == "in":
        values = [sql_value(v, columns[p[1]]) for v, _ in p[2]]
        found = f"({p[1]} is not null and {p[1]} in ({', '.join(values)}))" if values else "false"
        return f"(not {found})" if p[3] else found
    if p[0] == "columns":
        a, b = columns[p[2]], columns[p[3]]
        if a.type != b.type or pa.types.is_floating(a.type):
            raise CannotSay
        return f"({p[2]} {p[1]} {p[3]})"
    if p[0] == "column":
        return p[1]
    value = "null" if p[3][0] is None else sql_value(p[3][0], columns[p[2]])
    return f"({p[2]} {p[1]} {value})"


def sql_value(v, c):
    """A value of the column's own kind: DuckDB rounds values of other kinds, and its NaN is the
    greatest number."""
    t = c.type
    if pa.types.is_integer(t) and type(v) is int and abs(v) < 2**64:
        return f"{v}::hugeint"
    if pa.types.is_boolean(t) and type(v) is bool:
        return str(v)
    if c.kind == "text" and type(v) is str and not pa.types.is_dictionary(t):
        return "'" + v + "'"
    if pa.types.is_date32(t) and type(v) is dt.date:
        return f"date '{v}'"
    raise CannotSay


# ---- the three ways to evaluate a predicate


def files(r, folder, columns, table):
    """Writes the table as Parquet with random options; returns the function that reads it."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    given = inspect.signature(pq.write_table).parameters
    options = {
        "row_group_size": r.choice((1, 2, 3, 5, 50)),
        "write_statistics": r.choice((True, True, True, False)),
        "use_dictionary": r.random() < 0.5,
        "data_page_size": r.choice((None, 64)),
        "compression": "none",
    }
    if "write_page_index" in given:
        options["write_page_index"] = r.random() < 0.3
    if "bloom_filter_options" in given and r.random() < 0.3:
        options["bloom_filter_options"] = {
            n: True
            for n, c in columns.items()
            if n != "p" and c.kind in ("text", "bytes") and "view" not in str(c.type)
        }
    parts = {(): list(range(table.num_rows))}
    if "p" in columns:
        parts = {}
        for i, v in enumerate(columns["p"].values):
            parts.setdefault((v,), []).append(i)
    for key, rows in parts.items():
        at = folder
        for v in key:
            at = f"{folder}/p={'__HIVE_DEFAULT_PARTITION__' if v is None else v}"
            os.makedirs(at, exist_ok=True)
        part = selection.take(table, rows)
        part = part.drop_columns(["p"]) if key else part
        half = r.randint(0, len(rows))
        for k, some in enumerate((part.slice(0, half), part.slice(half))):
            if some.num_rows or not k:
                pq.write_table(some, f"{at}/{k}.parquet", **options)
    kinds = {"p": int} if "p" in columns and columns["p"].kind == "number" else {}
    return sd.read_parquet(
        folder,
        partitioning=Partitioning("hive", field_types=kinds) if "p" in columns else None,
        override_num_blocks=r.choice((None, 1)),
    )


def here(ds):
    """Runs a filter over a reader in this process, by the plan that the optimiser makes; returns
    the rows, and how many rows the reader gave."""
    test = optimised(ds._node, "raise")[0]
    read = test.inputs[0]
    out, n = [], 0
    for unit, _, _ in read.options["units"]:
        task = types.SimpleNamespace(unit=unit, target=1 << 20, source=None, source_row=None)
        for rb in read.operator.run({**read.params, "label": "read"}, None, task):
            n += rb.num_rows
            mask = evaluation.mask(test.params["expr"], rb)
            rb = (
                selection.where(rb, mask)
                if isinstance(mask, pa.Array)
                else rb.slice(0, rb.num_rows if mask.as_py() else 0)
            )
            out += rb.column(rb.schema.names.index("row")).to_pylist()
    return sorted(out), n


def in_memory(e, table):
    (rb,) = table.combine_chunks().to_batches()
    got = evaluation.column(e, rb).to_pylist()
    return [i for i, v in enumerate(got) if v], got


def pyarrows_own(e, folder, table, about):
    """Compares filter= of a read with the same expression of pyarrow in memory; returns whether
    pyarrow has such an expression."""
    try:
        test = e.to_pyarrow()
        want = sorted(table.filter(test)["row"].to_pylist())
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    node = sd.read_parquet(folder, filter=test)._node
    got = []
    for unit, _, _ in node.options["units"]:
        task = types.SimpleNamespace(unit=unit, target=1 << 20, source=None, source_row=None)
        for rb in node.operator.run({**node.params, "label": "read"}, None, task):
            got += rb.column(rb.schema.names.index("row")).to_pylist()
    assert sorted(got) == want, f"filter={test}: {about}"
    return True


def a_table(r):
    n = r.randint(1, 24)
    columns = {f"c{i}": Column(r, n, r.choice(COLUMNS)) for i in range(r.randint(1, 3))}
    if r.random() < 0.3:
        columns["p"] = Column(
            r,
            n,
            r.choice(
                (
                    (pa.string(), "text", lambda r: ["a", "b", "c", "10"]),
                    (pa.int64(), "number", lambda r: [1, 2, -3, 10]),
                )
            ),
        )
    table = pa.table({**{k: c.array for k, c in columns.items()}, "row": list(range(n))})
    rows = [
        dict(zip(columns, v, strict=True))
        for v in zip(*(c.values for c in columns.values()), strict=True)
    ]
    return columns, table, rows


def check(r, folder, n_predicates, engine, duckdb, seen):
    columns, table, rows = a_table(r)
    ds = files(r, folder, columns, table)
    for k in range(n_predicates):
        p = predicate(r, columns)
        e = expression(p)
        about = f"{inline(e)} over {[(n, str(c.type), c.values) for n, c in columns.items()]}"
        model = [truth(p, row) for row in rows]
        want = [i for i, v in enumerate(model) if v]
        kept, values = in_memory(e, table)
        assert values == model, f"in memory: {about}"
        assert kept == want, about
        pushed, given = here(ds.filter(expr=e))
        assert pushed == want, f"pushed down: {pushed} for {want}: {about}"
        seen["cases"] += 1
        seen["skipped rows"] += len(rows) - given
        try:
            said = text(p)
        except CannotSay:
            said = None
        if said is not None:
            seen["as text"] += 1
            parsed = evaluation.parse(said)
            assert in_memory(parsed, table)[1] == model, f"as text: {said}: {about}"
            assert here(ds.filter(expr=said))[0] == want, f"text pushed down: {said}: {about}"
        if k % 4 == 0 and "p" not in columns:
            seen["by pyarrow"] += pyarrows_own(e, folder, table, about)
        if k == 0 and engine:
            seen["on the engine"] += 1
            assert sorted(x["row"] for x in ds.filter(expr=e).take_all()) == want, (
                f"on the engine: {about}"
            )
        if k % 8 == 0 and duckdb is not None and "p" not in columns:
            try:
                said = sql(p, columns)
            except CannotSay:
                continue
            seen["as SQL"] += 1
            got = sorted(
                x
                for (x,) in duckdb.execute(
                    f"select row from read_parquet('{folder}/*.parquet') where {said}"
                ).fetchall()
            )
            assert got == want, f"as SQL: {said}: {about}"


@pytest.fixture(scope="module")
def duckdb():
    try:
        import duckdb
    except ImportError:
        return None
    with duckdb.connect() as con:
        con.execute("set threads = 1")
        yield con


@rounds.campaign()
def test_predicates_mean_the_same_everywhere(tmp_path, duckdb):
    seed = rounds.seed()
    seen = dict.fromkeys(
        ("cases", "as text", "as SQL", "by pyarrow", "on the engine", "skipped rows"), 0
    )
    for k in range(rounds.rounds(20)):
        check(random.Random(f"{seed} {k}"), str(tmp_path / "files"), 10, k % 10 == 0, duckdb, seen)
    print(f"predicates: {seen}")
    assert seen["skipped rows"] > 0, "nothing was pruned"
