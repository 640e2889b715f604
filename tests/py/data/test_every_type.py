"""Each Arrow type (tests/py/every_type.py) through each operator, writer, reader and batch format:
the result equals the rows of a model, or an error names the column and the type."""

import collections
import re

import every_type
import numpy as np
import pyarrow as pa
import pytest
import skate
from cases import case
from every_type import ROWS
from skate.data import aggregate as ag
from skate.data.expressions import col

CASES = every_type.cases()
UNIONS = [c for c in CASES if "union" in c.name]  # a Python value does not become a union again
TABLE = every_type.table(CASES)
VALUES = {c.name: list(map(repr, c.column.to_pylist())) for c in CASES}


def dataset(table=TABLE):
    return skate.data.from_arrow([table.slice(0, 7), table.slice(7)])


def of(case):
    """A table with a single case, as column x."""
    return dataset(pa.table([pa.array(range(ROWS)), case.column], names=["row", "x"]))


def rows_of(ds):
    """Checks that each column of each row has its original value, or null if the row has no number;
    returns {number of a row: how often the row occurs}."""
    found = collections.Counter()
    for b in ds.iter_batches(batch_format="pyarrow", batch_size=None):
        numbers = b["row"].to_pylist()
        found.update(numbers)
        for c in CASES:
            if c.name in b.column_names:
                with case(c.name, c.type):
                    want = [
                        "None" if n is None or n >= ROWS else VALUES[c.name][n] for n in numbers
                    ]
                    assert list(map(repr, b[c.name].to_pylist())) == want
    return found


def numbers(*some):
    return collections.Counter(some)


def none_of(names):
    return TABLE.select([n for n in TABLE.column_names if n not in names])


OTHER = {"on": ["row"], "num_partitions": 2}


def other(n=ROWS):
    return skate.data.range(n).rename_columns({"id": "row"})


def both(parts):
    a, b = parts
    return a.union(b)


EVERY = numbers(*range(ROWS))
AS_THEY_ARE = {
    "materialize": lambda ds: ds.materialize(),
    "sort": lambda ds: ds.sort("row", descending=True),
    "distinct": lambda ds: ds.distinct("row"),
    "groupby": lambda ds: ds.groupby("row").map_groups(lambda b: b, batch_format="pyarrow"),
    "join": lambda ds: ds.join(other(), "inner", **OTHER),
    "join, small side": lambda ds: ds.join(other(), "left_outer", on=["row"]),
    "join, semi": lambda ds: ds.join(other(), "left_semi", **OTHER),
    "zip": lambda ds: ds.zip(skate.data.range(ROWS)),
    "repartition": lambda ds: ds.repartition(4),
    "repartition, shuffled": lambda ds: ds.repartition(3, shuffle=True),
    "repartition, rows": lambda ds: ds.repartition(target_num_rows_per_block=4, strict=True),
    "repartition, keys": lambda ds: ds.repartition(3, keys="row", sort=True),
    "random_shuffle": lambda ds: ds.random_shuffle(seed=1),
    "randomize_block_order": lambda ds: ds.randomize_block_order(seed=1),
    "select_columns": lambda ds: ds.select_columns(TABLE.column_names[::-1]),
    "drop_columns": lambda ds: ds.with_column("y", col("row")).drop_columns("y"),
    "rename_columns": lambda ds: ds.rename_columns({"struct": "y"}).rename_columns({"y": "struct"}),
    "with_column": lambda ds: ds.with_columns({c.name: col(c.name) for c in CASES}),
    "add_column": lambda ds: ds.add_column("y", lambda t: t["row"], batch_format="pyarrow"),
    "map_batches": lambda ds: ds.map_batches(lambda t: t, batch_format="pyarrow", batch_size=4),
    "split": lambda ds: both(ds.split(2)),
    "split_at_indices": lambda ds: both(ds.split_at_indices([5])),
    "train_test_split": lambda ds: both(ds.train_test_split(0.4)),
    "train_test_split, classes": lambda ds: both(
        ds.with_column("k", col("row") % 3).train_test_split(0.4, stratify="k")
    ),
    "filter by all": lambda ds: ds.filter(expr=col("row") >= 0),
}
SOME = {
    "filter": (lambda ds: ds.filter(lambda r: r["row"] % 2), numbers(*range(1, ROWS, 2))),
    "filter(expr)": (lambda ds: ds.filter(expr="row % 2 == 1"), numbers(*range(1, ROWS, 2))),
    "filter(expr), null": (
        lambda ds: ds.filter(expr=col("int8").is_not_null()),
        EVERY - numbers(*range(4, ROWS, 5)),
    ),
    "unpivot another": (
        lambda ds: ds.map_batches(
            lambda t: t.append_column("p", t["row"]).append_column("q", t["row"]),
            batch_format="pyarrow",
        ).unpivot(["p", "q"], index=ds.columns()),
        EVERY + EVERY,
    ),
    "limit": (lambda ds: ds.limit(9), numbers(*range(9))),
    "union": (lambda ds: ds.union(ds), EVERY + EVERY),
    "union, columns missing": (
        lambda ds: ds.union(other().map(lambda r: {"row": r["row"] + ROWS})),
        numbers(*range(2 * ROWS)),
    ),
    "join, anti": (lambda ds: ds.join(other(5), "left_anti", **OTHER), numbers(*range(5, ROWS))),
    "join, nothing on its side": (
        lambda ds: ds.join(other(ROWS + 3), "full_outer", **OTHER),
        numbers(*range(ROWS + 3)),
    ),
    "explode another": (
        lambda ds: ds.map_batches(
            lambda t: t.append_column("l", pa.array([[1, 2]] * t.num_rows)), batch_format="pyarrow"
        ).explode("l"),
        EVERY + EVERY,
    ),
}


@pytest.mark.parametrize("name", AS_THEY_ARE)
def test_operators_that_keep_rows(name):
    assert rows_of(AS_THEY_ARE[name](dataset())) == EVERY


@pytest.mark.parametrize("name", SOME)
def test_operators_that_select_rows(name):
    make, want = SOME[name]
    assert rows_of(make(dataset())) == want


def test_random_sample_and_skipped_rows():
    kept = rows_of(dataset().random_sample(0.5, seed=1))
    assert kept and kept < EVERY

    def all_but_4(t):
        assert 4 not in t["row"].to_pylist()
        return t

    assert rows_of(
        dataset().map_batches(all_but_4, batch_format="pyarrow", on_error="skip")
    ) == EVERY - numbers(4)


BY_KEY = {
    "sort": lambda ds: ds.sort("x"),
    "distinct": lambda ds: ds.distinct("x"),
    "groupby": lambda ds: ds.groupby("x").count(),
    "groupby, function": lambda ds: ds.groupby("x").map_groups(
        lambda t: t.slice(0, 1), batch_format="pyarrow"
    ),
    "groupby, own": lambda ds: ds.groupby("x").aggregate(
        ag.AggregateFn(
            init=lambda k: 0, accumulate_row=lambda a, r: a + 1, merge=lambda a, b: a + b, name="n"
        )
    ),
    "join": lambda ds: ds.join(
        ds.limit(every_type.PERIOD).select_columns("x"), "inner", on=["x"], num_partitions=2
    ),
    "join, small side": lambda ds: ds.join(
        ds.limit(every_type.PERIOD).select_columns("x"), "left_outer", on=["x"]
    ),
    "repartition": lambda ds: ds.repartition(2, keys="x"),
}


@pytest.mark.parametrize("name", BY_KEY)
def test_each_type_as_key(name):
    for c in CASES:
        with case(c.name, c.type):
            if not c.key:
                with pytest.raises(
                    (ValueError, TypeError), match="(?s)'x'.*(cannot be a key|no order)"
                ):
                    BY_KEY[name](of(c)).take_all()
                continue
            out = [
                r["x"]
                for b in BY_KEY[name](of(c)).iter_batches(batch_format="pyarrow", batch_size=None)
                for r in b.to_pylist()
            ]
            # keys repeat in ascending order, null last
            ordered = sorted(VALUES[c.name], key=VALUES[c.name].index)
            if name.startswith("join"):
                right = collections.Counter(VALUES[c.name][: every_type.PERIOD])
                met = [v for v in ordered if v != "None" for _ in range(right[v])]
                alone = [v for v in ordered if v == "None"] if "small" in name else []
                assert sorted(map(repr, out)) == sorted(met + alone)
            elif name == "repartition":
                assert sorted(map(repr, out)) == sorted(ordered)
            else:
                assert list(map(repr, out)) == (
                    ordered if name == "sort" else list(dict.fromkeys(ordered))
                )


def test_explode_each_list():
    for c in CASES:
        with case(c.name, c.type):
            if not c.lists:
                with pytest.raises(TypeError, match="'x' is of type .*, not of lists"):
                    of(c).explode("x").take_all()
                continue
            want = [
                (i, v) for i, values in enumerate(c.column.to_pylist()) for v in values or [None]
            ]
            assert [(r["row"], r["x"]) for r in of(c).explode("x").take_all()] == want


def test_unique_least_and_greatest_of_each():
    for c in CASES:
        with case(c.name, c.type):
            values = list(dict.fromkeys(VALUES[c.name]))
            if c.name == "python_object":  # the value is a set, which cannot be the key of a dict
                text = r"unique\(x\) over column 'x' of type .* is not possible"
                with pytest.raises(TypeError, match=text):
                    of(c).unique("x")
            # the loop below checks arrays
            elif c.name not in ("tensor", "ray_tensor", "ragged_tensor"):
                assert list(map(repr, of(c).unique("x"))) == values
            if c.key and not isinstance(c.type, pa.BaseExtensionType):
                ends = (values[0], values[-2]) if len(values) > 1 else ("None", "None")
                assert (repr(of(c).min("x")), repr(of(c).max("x"))) == ends
            elif c.name != "bool8" and "run_end" not in c.name:
                text = r"min\(x\) over column 'x' of type .* is not possible"
                with pytest.raises(TypeError, match=text):
                    of(c).min("x")
    arrays = of(next(c for c in CASES if c.name == "ray_tensor")).unique("x")
    assert [a.tolist() for a in arrays] == [
        np.full((2, 3), k).tolist() for k in range(every_type.PERIOD)
    ]


# ---- formats of batches

FORMS = ("NumPy", "pandas", "rows", "flat_map")


@pytest.mark.parametrize("how", FORMS)
def test_functions_get_each_type_and_give_it_back(how):
    same = {
        "NumPy": lambda ds: ds.map_batches(lambda b: b, batch_size=4),
        "pandas": lambda ds: ds.map_batches(lambda b: b, batch_size=4, batch_format="pandas"),
        "rows": lambda ds: ds.map(lambda r: r),
        "flat_map": lambda ds: ds.flat_map(lambda r: [r]),
    }[how]
    alone = [c for c in UNIONS if how != "NumPy"]
    names = {c.name for c in alone}
    ds = same(dataset(none_of(names)))
    assert rows_of(ds) == EVERY
    types = {f.name: f.type for f in ds.to_arrow().schema}
    for c in CASES:
        if c.name not in names:
            with case(c.name):
                plain = how == "pandas" and pa.types.is_run_end_encoded(c.type)
                assert types[c.name] in (c.type, c.type.value_type if plain else c.type)
    for c in alone:
        with (
            case(c.name),
            pytest.raises(TypeError, match=re.escape("'x'") + ".*" + re.escape(str(c.type))),
        ):
            same(of(c)).take_all()


def test_each_type_comes_out_in_each_form():
    rows = dataset().take_all()
    frame = dataset(none_of({c.name for c in UNIONS})).to_pandas()
    arrays = list(dataset().iter_batches(batch_size=None))
    for c in CASES:
        with case(c.name, c.type):
            if "tensor" not in c.name:
                assert [repr(r[c.name]) for r in rows] == VALUES[c.name]
            assert c in UNIONS or len(frame[c.name]) == ROWS
            assert sum(len(b[c.name]) for b in arrays) == ROWS
    for c in UNIONS:
        with case(c.name), pytest.raises(TypeError, match="'x' .*has no exact pandas form"):
            of(c).to_pandas()


def test_shuffled_batches_and_shares_hold_each_type():
    shuffled = dataset().iter_batches(
        batch_size=4, batch_format="pyarrow", local_shuffle_buffer_size=8, local_shuffle_seed=1
    )
    (share,) = dataset().streaming_split(1)
    for got in (shuffled, share.iter_batches(batch_format="pyarrow")):
        t = pa.concat_tables(got).combine_chunks()
        order = t["row"].to_pylist()
        assert sorted(order) == list(range(ROWS))
        for c in CASES:
            with case(c.name, c.type):
                assert list(map(repr, t[c.name].to_pylist())) == [VALUES[c.name][n] for n in order]


# ---- files


def no_form(*patterns):
    return [c for c in CASES if any(re.fullmatch(p, c.name) for p in patterns)]


EXTENSIONS = (
    "tensor",
    "uuid",
    "json",
    "bool8",
    "opaque",
    "ray_tensor",
    "ragged_tensor",
    "python_object",
)
NO_FORM = {
    "parquet": no_form("interval", ".*union.*"),
    "feather": [],
    "orc": no_form(
        "null",
        "list_null",
        "uint.*",
        "float16",
        "decimal(32|64|256)",
        "duration.*",
        "time_.*",
        "interval",
        "struct_deep",
        ".*union.*",
        *EXTENSIONS,
    ),
    "csv": [
        *[c for c in CASES if pa.types.is_nested(c.type) and "run_end" not in c.name],
        *no_form("interval", *EXTENSIONS),
        *no_form("binary", "large_binary", "binary_view", "fixed_binary"),  # bytes that are no text
    ],
    "json": [
        *no_form("binary", "large_binary", "binary_view", "fixed_binary", "struct_deep", "opaque")
    ],
}
# for a format without its own types: the cases whose values are equal when they are read back;
# other values are read as text, numbers or times with the same meaning
READS = {
    "csv": no_form("null", "bool", "u?int(8|16|32)", "int64", "float.*", "date.*", "dictionary_of_ints", "run_end_int.*"),
    "json": no_form("null", "bool", "u?int(8|16|32)", "int64", "float(32|64)", ".*string.*", ".*list_(int|text|of_views|struct)", ".*list_view_(int|text|struct)", "struct", "struct_of_views", "dictionary_(u?int.*|of_ints|of_views|ordered)", "run_end.*"),
}  # fmt: skip


@pytest.mark.parametrize("form", NO_FORM)
def test_files_hold_each_type_or_say_which_they_do_not(form, tmp_path):
    none = NO_FORM[form]
    write, read = f"write_{form}", getattr(skate.data, f"read_{form}")
    kept = [c for c in CASES if c not in none]
    getattr(dataset(none_of({c.name for c in none})), write)(str(tmp_path / "all"))
    if form in READS:
        kept = READS[form]
        getattr(dataset(every_type.table(kept)), write)(str(tmp_path / "some"))
    # files with Python objects
    trust = {"trust_pickled_columns": True} if form in ("parquet", "feather") else {}
    back = (
        read(str(tmp_path / ("some" if form in READS else "all")), **trust).sort("row").to_arrow()
    )
    assert back["row"].to_pylist() == list(range(ROWS))
    for c in kept:
        with case(c.name, c.type, back.schema.field(c.name).type):
            # ORC stores times in nanoseconds only
            if form == "orc" and pa.types.is_timestamp(back.schema.field(c.name).type):
                zone = back.schema.field(c.name).type.tz
                plain = c.column.cast(pa.timestamp("us", c.type.tz) if zone else pa.timestamp("us"))
                assert (
                    back[c.name].cast(pa.timestamp("us", zone)).cast(plain.type).to_pylist()
                    == plain.to_pylist()
                )
            else:
                assert list(map(repr, back[c.name].to_pylist())) == VALUES[c.name]
    for c in none:
        with case(c.name, c.type), pytest.raises(TypeError, match=f"write_{form}: column 'x'"):
            getattr(of(c), write)(str(tmp_path / "one"))
