"""Random queries over exchanges (sort, groupby, map_groups, distinct, join of each kind,
random_shuffle, repartition, union, in chains with filters, maps and limits) over random tables with
nulls, NaN and hot keys, of random block sizes, under random memory limits and with killed workers:
the rows, and their order where the documentation defines it, equal those of a plain evaluation over
lists of dicts.

The plain evaluation uses no blocks, partitions or hashes: it follows the rules in
docs/design/kernels.md and docs/design/data_api.md.
"""

import datetime
import decimal
import fractions
import functools
import math
import os
import random
import tempfile

import pyarrow as pa
import pytest
import skate
import skate.data as sd
from cases import case
from key_order import in_order
from rounds import campaign, rounds, seed
from skate.data.aggregate import (
    AbsMax,
    AsList,
    Count,
    CountDistinct,
    Max,
    Mean,
    Min,
    Quantile,
    Std,
    Sum,
)
from skate.data.by_key import join_args

KINDS = {
    "int64": (pa.int64(), lambda r: r.randrange(-6, 7)),
    "int32": (pa.int32(), lambda r: r.choice([0, 1, -(2**31), 2**31 - 1])),
    "float64": (
        pa.float64(),
        lambda r: r.choice([0.0, -0.0, 1.5, -3.25, math.nan, math.inf, r.uniform(-2, 2)]),
    ),
    "bool": (pa.bool_(), lambda r: r.random() < 0.5),
    "string": (
        pa.string(),
        lambda r: r.choice(
            ["", "a", "a\0", "ab", "zz", "the same beginning " + str(r.randrange(9)), "ä"]
        ),
    ),
    "date": (pa.date32(), lambda r: r.randrange(18_000, 18_009)),
    "uint8": (pa.uint8(), lambda r: r.choice([0, 1, 127, 128, 255])),
    "float32": (pa.float32(), lambda r: r.choice([0.0, -0.0, 0.5, -2.25, math.nan, -math.inf])),
    "timestamp": (
        pa.timestamp("us"),
        lambda r: (
            datetime.datetime(1969, 12, 31, 23, 59, 59, r.randrange(7))
            + datetime.timedelta(r.randrange(2))
        ),
    ),
    "decimal": (pa.decimal128(20, 2), lambda r: decimal.Decimal(r.randrange(-4, 5)).scaleb(-2)),
    "binary": (
        pa.binary(),
        lambda r: r.choice([b"", b"\0", b"\0\0", b"\xff", b"abcdefgh" + bytes([r.randrange(3)])]),
    ),
    "dictionary": (
        pa.dictionary(pa.int32(), pa.string()),
        lambda r: r.choice(["x", "y", "", "yy"]),
    ),
    "large_string": (
        pa.large_string(),
        lambda r: r.choice(["", "b", "ba", "a longer one " * r.randrange(3)]),
    ),
}
VALUES = {
    "v": (pa.int64(), lambda r: r.randrange(-1000, 1000)),
    "f": (pa.float64(), lambda r: r.choice([math.nan, r.uniform(-9, 9)])),
}


@pytest.fixture(scope="module", autouse=True)
def engine():
    skate.shutdown()
    skate.init(
        num_cpus=2,
        object_store_memory=256 << 20,
        _system_config={"preload": "numpy,pyarrow,light_pytest"},
    )
    yield
    skate.shutdown()


# ---- the plain evaluation


def same(v):
    """A key in the form for a dict: all NaN are one value, -0.0 becomes 0.0."""
    return "NaN" if isinstance(v, float) and v != v else v + 0.0 if isinstance(v, float) else v


def missing(v):
    return v is None or (isinstance(v, float) and math.isnan(v))


def groups(rows, keys):
    out = {}
    for row in rows:
        out.setdefault(tuple(same(row[k]) for k in keys), []).append(row)
    return in_order(
        [({k: g[0][k] for k in keys} | {"": g}) for g in out.values()], keys, [False] * len(keys)
    )


def total(values):
    if any(isinstance(v, float) and math.isinf(v) for v in values):
        return sum(values)
    return math.fsum(values) if any(isinstance(v, float) for v in values) else sum(values)


AGGREGATES = {
    "count": (lambda c: Count(), lambda c, g: len(g), lambda c: "count()"),
    "sum": (Sum, lambda c, g: total(g) if (g := present(c, g)) else None, lambda c: f"sum({c})"),
    "min": (Min, lambda c, g: min(present(c, g), default=None), lambda c: f"min({c})"),
    "max": (Max, lambda c, g: max(present(c, g), default=None), lambda c: f"max({c})"),
    "mean": (
        Mean,
        lambda c, g: total(g) / len(g) if (g := present(c, g)) else None,
        lambda c: f"mean({c})",
    ),
    "absmax": (
        AbsMax,
        lambda c, g: max(map(abs, present(c, g)), default=None),
        lambda c: f"abs_max({c})",
    ),
    "distinct": (
        CountDistinct,
        lambda c, g: len({same(v) for v in present(c, g)}),
        lambda c: f"count_distinct({c})",
    ),
    "std": (Std, lambda c, g: deviation(present(c, g)), lambda c: f"std({c})"),
    "quantile": (Quantile, lambda c, g: median(sorted(present(c, g))), lambda c: f"quantile({c})"),
    "list": (AsList, lambda c, g: [row[c] for row in g], lambda c: f"list({c})"),
}
NESTED = ("list(",)  # the names of columns that are no numbers begin with this


def deviation(values):
    if not values:
        return None
    if len(values) < 2 or any(isinstance(v, float) and math.isinf(v) for v in values):
        return math.nan
    exact = [fractions.Fraction(v) for v in values]
    mean = sum(exact) / len(exact)
    return math.sqrt(sum((v - mean) ** 2 for v in exact) / (len(exact) - 1))


def median(values):
    if not values:
        return None
    k = (len(values) - 1) / 2
    return float(values[int(k)]) if k == int(k) else (values[int(k)] + values[int(k) + 1]) / 2


def present(column, rows):
    return [row[column] for row in rows if not missing(row[column])]


def joined(left, right, names, how, key):
    """Every pair of rows with equal keys; null matches nothing, NaN matches NaN. Rows without a
    partner are included, with nulls, if the kind of join keeps them. names: those of both sides'
    columns."""
    by, met, out = {}, set(), []
    for i, row in enumerate(right):
        if row[key] is not None:
            by.setdefault(same(row[key]), []).append(i)
    for row in left:
        found = by.get(same(row[key]), []) if row[key] is not None else []
        met.update(found)
        if how == "left_semi" or how == "left_anti":
            if bool(found) == (how == "left_semi"):
                out.append(row)
        elif not how.startswith("right_s") and how != "right_anti":
            out += [row | {k: right[i][k] for k in names[1] if k != key} for i in found]
            if not found and how in ("left_outer", "full_outer"):
                out.append(row | {k: None for k in names[1] if k != key})
    if how in ("right_semi", "right_anti"):
        return [row for i, row in enumerate(right) if (i in met) == (how == "right_semi")]
    if how in ("right_outer", "full_outer"):
        out += [
            {k: None for k in names[0] if k != key} | row
            for i, row in enumerate(right)
            if i not in met
        ]
    return out


# ---- random tables and queries


def a_table(rng, keys, prefix, n):
    """A random table. In some tables half or all of the rows have one key, which may be null."""
    hot = rng.choice([0, 0, 0.5, 1])
    cols = {}
    for k, t in keys.items():
        one = None if rng.random() < 0.15 else KINDS[t][1](rng)
        cols[k] = pa.array(
            [
                one if rng.random() < hot else None if rng.random() < 0.15 else KINDS[t][1](rng)
                for _ in range(n)
            ],
            KINDS[t][0],
        )
    for name, (t, make) in VALUES.items():
        cols[prefix + name] = pa.array(
            [None if rng.random() < 0.1 else make(rng) for _ in range(n)], t
        )
    cols[prefix + "row"] = pa.array(range(n), pa.int64())
    return pa.table(cols)


def dataset(rng, table):
    """The table in random pieces, some of them empty, in blocks of a random size, under a random
    memory limit."""
    at = sorted(rng.randrange(table.num_rows + 1) for _ in range(rng.randrange(7)))
    pieces = [table.slice(a, b - a) for a, b in zip([0, *at], [*at, table.num_rows], strict=True)]
    ds = sd.from_arrow(pieces)
    ds.context.target_max_block_size = rng.choice([600, 5_000, 1 << 20])
    ds.context.target_min_block_size = 0
    if rng.random() < 0.3:
        ds.context.execution_options.resource_limits = sd.ExecutionResources(
            object_store_memory=rng.choice([30_000, 300_000])
        )
    return ds


def killer(folder, name, b):
    """Ends its worker in one batch of three, once for each number of rows, and at most three
    times."""
    if b.num_rows % 3 == 1 and len(os.listdir(folder)) < 3:
        mark = os.path.join(folder, f"{name}-{b.num_rows}")
        try:
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return b
        os.kill(os.getpid(), 9)
    return b


class Query:
    """A dataset, its expected rows, a description of the operators, and whether the order of the
    rows is defined."""

    def __init__(self, rng, folder):
        self.rng, self.folder, self.said = rng, folder, []
        self.keys = {f"k{i}": rng.choice(list(KINDS)) for i in range(rng.randrange(1, 4))}
        table = a_table(rng, self.keys, "", rng.choice([0, 1, 2, 40, 300, 2000]))
        self.ds, self.rows, self.names = dataset(rng, table), table.to_pylist(), table.column_names
        # called: a function was applied, so the columns are unknown if it has seen no rows
        self.ordered, self.called = True, False

    def some_keys(self):
        return self.rng.sample([k for k in self.names if k in self.keys] or self.names[:1], 1)

    def sort(self):
        names = self.plain_names()
        keys = self.rng.sample(names, self.rng.randrange(1, min(3, len(names)) + 1))
        directions = [self.rng.random() < 0.5 for _ in keys]
        if not self.ordered:  # from here on the order is defined
            rest = [n for n in names if n not in keys]
            keys, directions = keys + rest, directions + [False] * len(rest)
        self.ds, self.rows, self.ordered = (
            self.ds.sort(keys, descending=directions),
            in_order(self.rows, keys, directions),
            True,
        )
        return f"sort({keys}, {directions})"

    def group(self):
        keys = self.rng.sample(
            [k for k in self.names if k in self.keys],
            self.rng.randrange(1, len([k for k in self.names if k in self.keys]) + 1),
        )
        numbers = [n for n in self.names if n[-1] in "vf" or n == "row"]
        # the values of a list are in the order of the rows
        kinds = [a for a in AGGREGATES if a != "list" or self.ordered]
        aggs = (
            [
                (self.rng.choice(kinds), self.rng.choice(numbers))
                for _ in range(self.rng.randrange(1, 4))
            ]
            if numbers
            else [("count", "")]
        )
        aggs = [
            a
            for i, a in enumerate(aggs)
            if AGGREGATES[a[0]][2](a[1]) not in [AGGREGATES[b[0]][2](b[1]) for b in aggs[:i]]
        ]
        rows = []
        for g in groups(self.rows, keys):
            rows.append(
                {k: g[k] for k in keys}
                | {AGGREGATES[a][2](c): AGGREGATES[a][1](c, g[""]) for a, c in aggs}
            )
        self.ds = self.ds.groupby(keys if len(keys) > 1 else keys[0]).aggregate(
            *[AGGREGATES[a][0](c) for a, c in aggs]
        )
        self.rows, self.ordered = rows, True
        self.names = keys + [AGGREGATES[a][2](c) for a, c in aggs]
        self.keys = {k: self.keys[k] for k in keys}
        return f"groupby({keys}).aggregate({aggs})"

    def map_groups(self):
        """The number of rows of each group beside its first key, in the order of the keys."""
        keys = self.some_keys()
        self.called = True
        self.ds = self.ds.groupby(keys[0]).map_groups(
            functools.partial(count_rows, keys[0]), batch_format="pyarrow"
        )
        self.rows = [{keys[0]: g[keys[0]], "rows": len(g[""])} for g in groups(self.rows, keys)]
        self.names, self.ordered = [keys[0], "rows"], True
        self.keys = {keys[0]: self.keys[keys[0]]}
        return f"map_groups({keys})"

    def distinct(self):
        keys = (
            self.rng.sample([k for k in self.names if k in self.keys], 1)
            if self.ordered
            else self.plain_names()
        )
        self.ds = self.ds.distinct(keys)
        self.rows, self.ordered = (
            [g[""][0] for g in groups(self.rows, keys)],
            self.ordered or len(keys) == len(self.names),
        )
        return f"distinct({keys})"

    def plain_names(self):
        return [n for n in self.names if not n.startswith(NESTED)]

    def union(self):
        self.ds, self.rows, self.ordered = self.ds.union(self.ds), self.rows * 2, False
        return "union with itself"

    def join(self):
        if self.called and not self.rows:
            return "-"
        key = self.rng.choice([k for k in self.names if k in self.keys])
        other = a_table(
            self.rng,
            {key: self.keys[key]},
            f"r{len(self.said)}",
            self.rng.choice([0, 1, 5, 60, 60, 400]),
        )
        how = self.rng.choice(list(join_args.KINDS))
        n_pairs = min(len(self.rows), 10**9) * other.num_rows
        if n_pairs > 150_000:  # a hot key on both sides would make more pairs than this
            other = other.slice(0, 1 + 150_000 // len(self.rows))
        names = (self.names, other.column_names)
        given = (self.ds, dataset(self.rng, other))
        rows = (self.rows, other.to_pylist())
        self.ds = given[0].join(given[1], how, self.rng.choice([None, 1, 3, 8]), on=(key,))
        self.rows, self.ordered = joined(*rows, names, how, key), False
        if how.startswith("right_") and how != "right_outer":
            self.names = names[1]
            self.keys = {key: self.keys[key]}
        elif not how.startswith("left_s") and how != "left_anti":
            self.names = self.names + [n for n in other.column_names if n != key]
        self.rows = [{n: row.get(n) for n in self.names} for row in self.rows]
        return f"join({how}, {key})"

    def shuffle(self):
        self.ds, self.ordered = self.ds.random_shuffle(seed=self.rng.randrange(99)), False
        return "random_shuffle"

    def repartition(self):
        n = self.rng.choice([1, 2, 7])
        self.ds, self.ordered = self.ds.repartition(n, shuffle=True), False
        return f"repartition({n}, shuffle=True)"

    def filter(self):
        column = self.rng.choice(self.names)
        self.ds = self.ds.filter(functools.partial(is_there, column))
        self.rows = [row for row in self.rows if is_there(column, row)]
        return f"filter({column})"

    def limit(self):
        if not self.ordered:
            return self.sort()
        n = self.rng.choice([0, 1, 5, 100])
        self.ds, self.rows = self.ds.limit(n), self.rows[:n]
        return f"limit({n})"

    def kill(self):
        if not self.rows:  # a function that has seen no rows has no columns
            return "-"
        at, self.called = len(self.said), True
        self.ds = self.ds.map_batches(
            functools.partial(killer, self.folder, f"{at}-{self.rng.random()}"),
            batch_format="pyarrow",
            batch_size=None,
        )
        return "kill"

    def step(self, names):
        self.said.append(getattr(self, self.rng.choice(names))())


def is_there(column, row):
    return row[column] is not None


def count_rows(key, group):
    return {key: group[key].slice(0, 1), "rows": pa.array([group.num_rows])}


def text(row):
    """A row in the form in which it is compared: columns by name, floats to 12 digits, since sums
    may be rounded differently."""
    return [(k, value(v)) for k, v in sorted(row.items())]


def value(v):
    if isinstance(v, float):
        return f"{v + 0.0:.11e}"
    if isinstance(v, datetime.datetime):
        return v.replace(tzinfo=None).isoformat()
    return [value(x) for x in v] if isinstance(v, list) else v


STEPS = [
    "sort",
    "group",
    "map_groups",
    "distinct",
    "join",
    "join",
    "shuffle",
    "repartition",
    "union",
    "filter",
    "limit",
]
OF_ANY = ("sort", "filter", "limit", "shuffle", "repartition", "union")


@campaign(240)
def test_random_queries(tmp_path):
    top = random.Random(seed())
    for i in range(rounds(25)):
        number = top.randrange(1 << 30)
        rng = random.Random(number)
        with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
            q = Query(rng, folder)
            with case(i, f"Random({number})", q.said, q.keys):
                for _ in range(rng.randrange(1, 5)):
                    if rng.random() < 0.2:
                        q.step(["kill"])
                    q.step([s for s in STEPS if s in OF_ANY or any(k in q.names for k in q.keys)])
                got, want = [text(r) for r in q.ds.take_all()], [text(r) for r in q.rows]
                if not q.ordered:
                    got, want = sorted(got, key=repr), sorted(want, key=repr)
                assert got == want
