"""Bad records: on_error for every operator and the readers, dead letters, limits,
max_errored_blocks; each bad record is reported once even when workers are killed."""

import gzip
import io
import os
import random
import re
import signal
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
import skate.data as sd
from skate.data.exceptions import TooManyErrors
from skate.data.expressions import col

BAD = {7, 70, 71, 500, 999}


def one(r):
    if r["id"] in BAD:
        raise ValueError(f"bad {r['id']}")
    return {"id": r["id"]}


def ids(ds):
    return [r["id"] for r in ds.take_all()]


def batch(b):
    for i in b["id"]:
        if i in BAD:
            raise ValueError(f"bad {i}")
    return {"id": b["id"]}


def generator(b):
    yield {"id": b["id"][: len(b["id"]) // 2]}
    yield (
        batch({"id": b["id"][len(b["id"]) // 2 :]}) if not BAD & set(b["id"].tolist()) else batch(b)
    )


async def slow(r):
    return one(r)


async def slow_batch(b):
    return batch(b)


class Model:
    def __call__(self, b):
        return batch(b)


HOW = {
    "map": lambda ds, p: ds.map(one, on_error=p),
    "async": lambda ds, p: ds.map(slow, on_error=p),
    "async lambda": lambda ds, p: ds.map(lambda r: slow(r), on_error=p),
    "async batches": lambda ds, p: ds.map_batches(slow_batch, batch_size=50, on_error=p),
    "flat_map": lambda ds, p: ds.flat_map(lambda r: [one(r)], on_error=p),
    "flat_map generator": lambda ds, p: ds.flat_map(
        lambda r: (one(r) for _ in range(1)), on_error=p
    ),
    "filter": lambda ds, p: ds.filter(lambda r: bool(one(r)), on_error=p),
    "map_batches": lambda ds, p: ds.map_batches(batch, batch_size=100, on_error=p),
    "map_batches whole": lambda ds, p: ds.map_batches(batch, on_error=p),
    "map_batches generator": lambda ds, p: ds.map_batches(generator, batch_size=64, on_error=p),
    "actors": lambda ds, p: ds.map_batches(Model, concurrency=2, batch_size=50, on_error=p),
    "add_column": lambda ds, p: ds.add_column(
        "y", lambda b: batch(b)["id"], batch_format="numpy", on_error=p
    ),
}


@pytest.mark.parametrize("how", HOW)
def test_rows_that_raise_are_kept_aside(how):
    ds = HOW[how](sd.range(1000, override_num_blocks=4), "quarantine")
    assert ids(ds) == [i for i in range(1000) if i not in BAD]
    errors = ds.errors().take_all()
    # a task of a later stage may begin before its turn: then its dead letters are out of order
    if how == "actors":
        errors.sort(key=lambda e: e["row"]["id"])
    assert [e["row"] for e in errors] == [{"id": i} for i in sorted(BAD)]
    assert [e["message"] for e in errors] == [f"bad {i}" for i in sorted(BAD)]
    assert {e["error"] for e in errors} == {"ValueError"}
    assert all(
        f"bad {i}" in e["traceback"] and "raise ValueError" in e["traceback"]
        for i, e in zip(sorted(BAD), errors, strict=True)
    )
    assert (
        "site-packages" not in errors[0]["traceback"]
        and "skate/data/" not in errors[0]["traceback"]
    ), "the user's frames only"
    assert "Bad records: 5, 5 of them kept" in ds.stats() and "5 ValueError" in ds.stats()
    assert sum(ds.stats_dict()["bad"][errors[0]["operator"]].values()) == 5


@pytest.mark.parametrize("how", HOW)
def test_rows_that_raise_are_skipped_and_counted(how):
    ds = HOW[how](sd.range(1000, override_num_blocks=4), "skip")
    assert ids(ds) == [i for i in range(1000) if i not in BAD]
    assert ds.errors().count() == 0
    assert [sum(by.values()) for by in ds.stats_dict()["bad"].values()] == [5]


@pytest.mark.parametrize("how", HOW)
def test_the_default_still_raises(how):
    with pytest.raises(ValueError, match="bad"):
        HOW[how](sd.range(1000), None).take_all()
    with pytest.raises(ValueError, match="on_error must be"):
        HOW[how](sd.range(1000), "ignore")


def test_expressions():
    rows = [{"x": str(i) if i % 10 else f"n{i}"} for i in range(50)]
    ds = sd.from_items(rows).with_column(
        "n", col("x").cast(sd.DataType.int64()), on_error="quarantine"
    )
    assert [r["n"] for r in ds.take_all()] == [i for i in range(50) if i % 10]
    assert [e["row"]["x"] for e in ds.errors().take_all()] == ["n0", "n10", "n20", "n30", "n40"]
    ds = sd.from_items(rows).filter(
        expr=col("x").cast(sd.DataType.int64()) > 45, on_error="quarantine"
    )
    assert [r["x"] for r in ds.take_all()] == ["46", "47", "48", "49"]
    assert ds.errors().count() == 5


def test_a_million_rows_and_one_bad():
    """Demand 11 of field/users.md."""

    def f(b):
        if 123_456 in b["id"]:
            raise KeyError("no such thing")
        return b

    ds = sd.range(1_000_000).map_batches(f, on_error="quarantine")
    assert ds.count() == 999_999
    (e,) = ds.errors().take_all()
    assert e["row"] == {"id": 123_456} and "KeyError" in e["traceback"]


@pytest.mark.parametrize("op", ["map", "filter", "flat_map"])
def test_a_function_that_raises_stop_iteration_ends_no_loop(op):
    def f(r):
        if r["id"] in (3, 4, 99):
            raise StopIteration
        return {"map": r, "filter": True, "flat_map": (dict(r) for _ in range(1))}[op]

    ds = getattr(sd.range(100, override_num_blocks=1), op)(f, on_error="quarantine")
    assert ids(ds) == [i for i in range(100) if i not in (3, 4, 99)]
    assert sorted(e["row"]["id"] for e in ds.errors().take_all()) == [3, 4, 99]


def test_results_that_are_none():
    out = [{"x": 1}, {"x": [1]}, None, {"x": 2}, {"x": 3}]
    ds = sd.range(5, override_num_blocks=1).map(lambda r: out[r["id"]], on_error="quarantine")
    assert [r["x"] for r in ds.take_all()] == [1, 2, 3]
    errors = ds.errors().take_all()
    assert [e["row"]["id"] for e in errors] == [1, 2]
    assert {e["error"] for e in errors} == {"TypeError", "ValueError"}


def test_types_of_rows_survive():
    a = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    t = pa.table({"s": ["a", "b"], "l": [[1, 2], None], "d": pa.array([1, 2], pa.decimal128(5, 2))})

    def f(r):
        raise RuntimeError("all")

    ds = sd.from_arrow(t).map(f, on_error="quarantine")
    assert ds.take_all() == []
    assert pa.Table.from_pylist([r["row"] for r in ds.errors().take_all()], t.schema).equals(t)
    ds = sd.from_numpy(a).map(f, on_error="quarantine")
    ds.take_all()
    got = [r["row"]["data"] for r in ds.errors().take_all()]
    assert np.array_equal(np.array(got).reshape(a.shape), a)


def test_errors_of_several_operators():
    ds = sd.range(20).map(lambda r: {"x": 1 // (r["id"] - 3)}, on_error="quarantine")
    ds = ds.map(lambda r: {"y": 10 // r["x"]}, on_error="quarantine")
    ds.take_all()
    errors = ds.errors().take_all()
    assert [(e["operator"], e["row"]) for e in errors if e["row"]["id"] is not None] == [
        ("Map(<lambda>)", {"id": 3, "x": None})
    ]
    assert len(errors) == 1 + 15
    assert ds.errors("nothing").count() == 0 and ds.errors("Map(<lambda>)").count() == len(errors)
    with pytest.raises(ValueError, match="has not been run"):
        sd.range(3).errors()


def test_errors_of_operators_whose_columns_have_other_types():
    ds = sd.from_items([{"x": "1"}, {"x": "?"}, {"x": "0"}]).map(
        lambda r: {"x": int(r["x"])}, on_error="quarantine"
    )
    ds = ds.map(lambda r: {"y": 1 // r["x"]}, on_error="quarantine")
    assert ds.take_all() == [{"y": 1}]
    errors = ds.errors()
    assert (
        sorted(map(str, (e["row"] for e in errors.take_all()))) == ["{'x': '?'}", "{'x': 0}"]
        and len(errors.to_pandas()) == 2
    )


def test_errors_while_it_runs():
    ds = sd.range(1000, override_num_blocks=10).map(one, on_error="quarantine")
    seen = 0
    for b in ds.iter_batches(batch_size=100):
        assert len(b["id"])
        now = ds.errors().count()
        assert now >= seen
        seen = now
    assert ds.errors().count() == 5


def test_context_and_materialize():
    ctx = sd.DataContext.get_current()
    with sd.DataContext.current(ctx.copy()):
        sd.DataContext.get_current().on_error = "quarantine"
        ds = sd.range(1000).map(one)
        strict = sd.range(1000).map(one, on_error="raise")
    m = ds.materialize()
    assert len(m.take_all()) == 995 and m.errors().count() == 5
    none = sd.from_blocks([pa.table({"a": [1]})])
    assert (
        none.take_all()
        and none.errors().count() == 0
        and none.errors().columns()[:3] == ["operator", "error", "message"]
    )
    with pytest.raises(ValueError, match="bad"):
        strict.take_all()


# ---- limits


def capped(n, most, on_error="quarantine"):
    ds = sd.range(n, override_num_blocks=8).map(
        lambda r: {"x": 1 // (r["id"] % 10)}, on_error=on_error
    )
    ds.context.max_errors = most
    return ds


@pytest.mark.parametrize("on_error", ["skip", "quarantine"])
def test_the_cap(on_error):
    assert capped(1000, 100, on_error).count() == 900
    assert capped(1000, 0.1, on_error).count() == 900
    ds = capped(1000, 99, on_error)
    with pytest.raises(TooManyErrors) as e:
        ds.take_all()
    text = str(e.value)
    assert (
        "rows failed, more than the 99 allowed" in text
        and "Map(<lambda>)" in text
        and "ZeroDivisionError" in text
    )
    assert text.count("ZeroDivisionError: integer division") >= 2, "the first few causes"
    with pytest.raises(TooManyErrors, match="more than the share 0.09 of 1,000 rows"):
        capped(1000, 0.09, on_error).take_all()


def test_the_cap_holds_before_a_write_is_committed(tmp_path):
    for most in (5, 0.01):
        with pytest.raises(TooManyErrors):
            capped(1000, most).write_parquet(str(tmp_path / "out"))
        assert not [f for f in os.listdir(tmp_path / "out") if not f.startswith(".")]
    for wrong in (-1, 1.5, "3", True):
        with pytest.raises((ValueError, TypeError), match="max_errors"):
            capped(10, wrong).take_all()


# ---- errors that never make a bad record


def test_memory_errors_and_constructors_end_the_run():
    def f(r):
        raise MemoryError("none left")

    with pytest.raises(MemoryError):
        sd.range(10).map(f, on_error="skip").take_all()

    class NoModel:
        def __init__(self):
            raise LookupError("no model")

        def __call__(self, b):
            return b

    with pytest.raises(Exception, match="no model"):
        sd.range(10).map_batches(NoModel, concurrency=1, on_error="skip").take_all()


def test_io_errors_of_readers_are_never_swallowed(tmp_path):
    for i in range(3):
        (tmp_path / f"{i}.txt").write_text("a\n")
    ds = sd.read_text(str(tmp_path), on_error="skip")
    os.unlink(tmp_path / "1.txt")
    with pytest.raises(FileNotFoundError):
        ds.take_all()


# ---- readers


def test_json_lines(tmp_path):
    lines = [f'{{"a": {i}}}' for i in range(1000)]
    lines[10], lines[600] = '{"a": ', "[1, 2]"
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    ds = sd.read_json(str(tmp_path / "x.jsonl"), lines=True, on_error="quarantine")
    assert [r["a"] for r in ds.take_all()] == [i for i in range(1000) if i not in (10, 600)]
    errors = ds.errors().take_all()
    assert [(e["source_row"], e["raw"]) for e in errors] == [(10, b'{"a": '), (600, b"[1, 2]")]
    assert {e["source"] for e in errors} == {str(tmp_path / "x.jsonl")} and "line 11" in errors[0][
        "message"
    ]


def test_a_row_behind_a_bad_line_has_no_wrong_number(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"a": "1"}\n{"a": \n{"a": "?"}\n')
    (tmp_path / "y.jsonl").write_text('{"a": "1"}\n{"a": "?"}\n')

    def number(row):
        return {"a": int(row["a"])}

    ds = sd.read_json(str(tmp_path), on_error="quarantine", override_num_blocks=1)
    ds = ds.map(number, on_error="quarantine")
    assert ds.count() == 2
    errors = sorted(ds.errors().take_all(), key=lambda e: (e["source"], e["operator"]))
    assert [(e["operator"], os.path.basename(e["source"]), e["source_row"]) for e in errors] == [
        ("Map(number)", "x.jsonl", None),
        ("ReadJSON", "x.jsonl", 1),
        ("Map(number)", "y.jsonl", 1),
    ]


def odd_json(path, bad):
    """A file with 100 good records, and the bad ones at their line numbers."""
    lines = [f'{{"a": {i}, "b": {{"c": "x{i}"}}}}' for i in range(100)]
    for at, text in sorted(bad.items()):
        lines.insert(at - 1, text)
    path.write_text("\n".join(lines) + "\n")
    return [{"a": i, "b": {"c": f"x{i}"}} for i in range(100)]


def letters(ds):
    return [(e["line"], e["raw"].decode("utf-8", "replace")) for e in ds.errors().take_all()]


@pytest.mark.parametrize("on_error", ["skip", "quarantine"])
def test_a_json_line_of_another_type_beside_one_that_is_malformed(tmp_path, on_error, monkeypatch):
    """All good lines are read, whichever bad line comes first."""
    bad = {
        30: '{"a": "text", "b": null}',
        70: '{"a": 1, "b"',
        80: '{"a": 1, "b": {"c": 2}}',
        81: "null",
        90: '{"a": 1} {"a": [2]}',
    }
    good = odd_json(tmp_path / "x.jsonl", bad)
    ds = sd.read_json(str(tmp_path / "x.jsonl"), on_error=on_error)
    assert ds.take_all() == good
    if on_error == "quarantine":
        assert letters(ds) == list(bad.items())
        assert (
            "line 30: column 'a' is a string here, and a number elsewhere"
            in ds.errors().take(1)[0]["message"]
        )
    assert sum(n for by in ds.stats_dict()["bad"].values() for n in by.values()) == len(bad)


def test_a_json_file_of_many_lines_loses_two(tmp_path):
    lines = [f'{{"a": {i}, "b": "x{i}"}}' for i in range(100_000)]
    lines.insert(500, '{"a": "str", "b": "y"}')
    lines.insert(70_000, '{"a": 1, "b"')
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    ds = sd.read_json(str(tmp_path / "x.jsonl"), on_error="quarantine")
    assert ds.sum("a") == sum(range(100_000))
    assert letters(ds) == [(501, lines[500]), (70_001, lines[70_000])]


def test_the_majority_of_json_records_says_what_is_bad(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text(
        "".join(f'{{"a": {v}}}\n' for v in ('"first"', 1, 2.5, "null", "true", '"x"', 3))
    )
    ds = sd.read_json(str(path), on_error="quarantine")
    assert [r["a"] for r in ds.take_all()] == [1, 2.5, None, 3]
    assert [at for at, _ in letters(ds)] == [1, 5, 6]
    # objects that span several lines
    path.write_text('{\n "a": 1\n}\n{\n "a": [1]\n}\n{\n "a": 2\n}\n{\n "a" 3}\n{"a": 4}')
    ds = sd.read_json(str(path), on_error="quarantine")
    assert [r["a"] for r in ds.take_all()] == [1, 2]
    assert letters(ds) == [(4, '{\n "a": [1]\n}'), (11, '{\n "a" 3}\n{"a": 4}')]
    path.write_text('[{"a": 1}, {"a": "x"}, 7, {"a": 2},\n {"a')  # one array
    ds = sd.read_json(str(path), on_error="quarantine")
    assert [r["a"] for r in ds.take_all()] == [1, 2]
    assert letters(ds) == [(2, '{"a'), (None, '{"a": "x"}'), (None, "7")]


def test_lines_that_are_arrays(tmp_path):
    (tmp_path / "x.jsonl").write_text('["a", "b"]\n["c"]\n[1]\n["d", "e"')
    ds = sd.read_json(str(tmp_path / "x.jsonl"), lines=True, on_error="quarantine")
    assert ds.take_all() == [{"0": "a", "1": "b"}, {"0": "c", "1": None}]
    assert letters(ds) == [(3, "[1]"), (4, '["d", "e"')]


def test_a_file_that_is_no_csv(tmp_path):
    pq.write_table(pa.table({"one": [1, 2, 3], "two": ["a", "b", "c"]}), tmp_path / "x.parquet")
    (tmp_path / "y.csv").write_text("a\n1\n")
    with pytest.raises(
        ValueError, match="x.parquet: Failed to read CSV file: it holds bytes that are no text"
    ):
        sd.read_csv(str(tmp_path)).take_all()
    ds = sd.read_csv(str(tmp_path), on_error="quarantine")
    assert ds.take_all() == [{"a": 1}] and len(messages(ds)) == 1


def test_json_text_that_is_none(tmp_path):
    (tmp_path / "x.jsonl").write_bytes(
        b'{"a": "x", "a": "y"}\n{"a": "\xff"}\n{"a": "\\ud800"}\n{"a": "z"}'
    )
    ds = sd.read_json(str(tmp_path / "x.jsonl"), on_error="quarantine")
    assert [r["a"] for r in ds.take_all()] == ["y", "z"]
    assert [at for at, _ in letters(ds)] == [2, 3]


def test_json_errors_name_file_line_and_text(tmp_path):
    odd_json(tmp_path / "x.jsonl", {30: '{"a": "text", "b": null}', 70: '{"a": 1, "b"'})
    with pytest.raises(
        pa.ArrowInvalid,
        match=r"""x.jsonl line 30: column 'a' is a string here, and a number elsewhere \(.*explicit_schema.*\): {"a": "text",""",
    ):
        sd.read_json(str(tmp_path / "x.jsonl")).take_all()
    (tmp_path / "y.jsonl").write_text("null\n")  # this line once crashed the worker
    with pytest.raises(pa.ArrowInvalid, match="y.jsonl line 1: it holds no object: null"):
        sd.read_json(str(tmp_path / "y.jsonl")).take_all()


@pytest.mark.parametrize("big", [False, True])
def test_csv_lines(tmp_path, big):
    n = 260_000 if big else 3000
    at = {n // 3, n // 2, n - 1}
    lines = [f"{i},name{i}" for i in range(n)]
    for i in at:
        lines[i] = f"{i},name,extra" if i != n - 1 else f"{i}"
    path = tmp_path / "x.csv"
    path.write_text("id,name\n" + "\n".join(lines) + "\n")
    ds = sd.read_csv(str(path), on_error="quarantine")
    assert ids(ds) == [i for i in range(n) if i not in at]
    errors = sorted(ds.errors().take_all(), key=lambda e: e["source_row"])
    assert [e["raw"].decode() for e in errors] == [lines[i] for i in sorted(at)]
    assert [e["source_row"] for e in errors] == [1 + i for i in sorted(at)]


def test_csv_values_that_are_none(tmp_path):
    n = 300_000  # behind the first block, which decides the type
    lines = [f"{10**14 + i}" for i in range(n)]
    lines[n - 5] = "n/a?"
    path = tmp_path / "x.csv"
    path.write_text("id\n" + "\n".join(lines))
    with pytest.raises(Exception, match="n/a"):
        sd.read_csv(str(path)).count()
    ds = sd.read_csv(str(path), on_error="quarantine")
    assert ds.count() == n - 1
    (e,) = ds.errors().take_all()
    assert e["raw"] == b"n/a?" and e["source_row"] == n - 4


CSV = {
    "quoted lines": (
        b'a,b\n1,"x\ny"\n2,z\n4\n"5\n6",7,8\n8,9\n',
        {},
        [(1, "x\ny"), (2, "z"), (8, "9")],
        [(5, "4"), (6, '"5\n6",7,8')],
    ),
    "CRLF and empty lines": (b"\xef\xbb\xbf\r\na,b\r\n\r\n1,2\r\n3\r\n", {}, [(1, 2)], [(5, "3")]),
    "names given": (
        b"title\n1,2\n3\n4,5\n",
        {"read_options": pacsv.ReadOptions(column_names=["p", "q"], skip_rows=1)},
        [(1, 2), (4, 5)],
        [(3, "3")],
    ),
    "names made": (
        b"1,2\n3\n",
        {"read_options": pacsv.ReadOptions(autogenerate_column_names=True)},
        [(1, 2)],
        [(2, "3")],
    ),
    "types asked for": (
        b"a,b\n1,2\nx,3\n4,y\n",
        {
            "convert_options": pacsv.ConvertOptions(
                column_types={"a": pa.int64()}, include_columns=["b", "a"]
            )
        },
        [("2", 1), ("y", 4)],
        [(3, "x,3")],
    ),
    "not UTF-8": (b"a,b\n1,x\xff\n2,y\n", {}, [(2, "y")], [(2, "1,x\ufffd")]),
    "another encoding": (
        "a,b\n1,\u00e9\n3\n".encode("latin-1"),
        {"read_options": pacsv.ReadOptions(encoding="latin-1")},
        [(1, "\u00e9")],
        [(3, "3")],
    ),
    "delimiter": (
        b"a;b\n1;2\n3,4\n",
        {"parse_options": pacsv.ParseOptions(delimiter=";")},
        [(1, 2)],
        [(3, "3,4")],
    ),
    "a handler that skips": (
        b"a,b\n1,2\n3\n4,5\n",
        {"invalid_row_handler": lambda row: "skip"},
        [(1, 2), (4, 5)],
        [],
    ),
    "a handler that does not": (
        b"a,b\n1,2\n3\n4,5\n",
        {"invalid_row_handler": lambda row: "error"},
        [(1, 2), (4, 5)],
        [(3, "3")],
    ),
}


@pytest.mark.parametrize("case", CSV)
def test_a_bad_line_of_csv_is_all_that_is_lost(tmp_path, case):
    data, args, rows, bad = CSV[case]
    (tmp_path / "x.csv").write_bytes(data)
    ds = sd.read_csv(str(tmp_path / "x.csv"), on_error="quarantine", **args)
    assert [tuple(r.values()) for r in ds.take_all()] == rows
    assert letters(ds) == bad
    if bad and case != "not UTF-8":  # without on_error such a line is read as bytes
        with pytest.raises(pa.ArrowInvalid, match=f"x.csv line {bad[0][0]}: "):
            sd.read_csv(str(tmp_path / "x.csv"), **args).take_all()


def test_csv_types_become_wider_behind_the_first_block(tmp_path):
    """Rows that need a wider type once became dead letters."""
    (tmp_path / "x.csv").write_bytes(
        b"a,b\n" + b"1000000000000,\n" * 300_000 + b"2.5,x\n3\nno,y\n4,z\n"
    )
    ds = sd.read_csv(str(tmp_path / "x.csv"), on_error="quarantine")
    assert [tuple(r.values()) for r in ds.take_all()[300_000:]] == [(2.5, "x"), (4, "z")]
    assert letters(ds) == [(300_003, "3"), (300_004, "no,y")]


def test_damaged_files(tmp_path):
    from PIL import Image

    for i in range(6):
        Image.new("RGB", (4, 4), (i, 0, 0)).save(tmp_path / f"{i}.png")
    data = (tmp_path / "3.png").read_bytes()
    (tmp_path / "3.png").write_bytes(data[: len(data) // 2])
    (tmp_path / "4.png").write_bytes(b"no image")
    ds = sd.read_images(str(tmp_path), include_paths=True, on_error="quarantine")
    assert [os.path.basename(r["path"]) for r in ds.take_all()] == [
        "0.png",
        "1.png",
        "2.png",
        "5.png",
    ]
    assert [os.path.basename(e["source"]) for e in ds.errors().take_all()] == ["3.png", "4.png"]


def test_damaged_parquet(tmp_path):
    for i in range(4):
        pq.write_table(
            pa.table({"id": list(range(i * 100, i * 100 + 100))}), tmp_path / f"{i}.parquet"
        )
    (tmp_path / "1.parquet").write_bytes(b"PAR1 not really PAR1")
    with pytest.raises(Exception, match="1.parquet"):
        sd.read_parquet(str(tmp_path))
    ds = sd.read_parquet(str(tmp_path), on_error="quarantine")
    assert sorted(ids(ds)) == [*range(100), *range(200, 400)]
    assert [os.path.basename(e["source"]) for e in ds.errors().take_all()] == ["1.parquet"]


def test_damaged_gzip(tmp_path):
    for i in range(3):
        (tmp_path / f"{i}.txt.gz").write_bytes(gzip.compress(f"line {i}\n".encode()))
    (tmp_path / "1.txt.gz").write_bytes(b"\x1f\x8b nothing")
    ds = sd.read_text(str(tmp_path), on_error="skip")
    assert [r["text"] for r in ds.take_all()] == ["line 0", "line 2"]
    assert "ReadText" in ds.stats_dict()["bad"]


def messages(ds):
    return [e["message"] for e in ds.errors().take_all()]


def test_a_line_that_is_no_text(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one\ntw\xffo\r\nthree\n")
    ds = sd.read_text(str(tmp_path), on_error="quarantine")
    assert [r["text"] for r in ds.take_all()] == ["one", "three"]
    assert letters(ds) == [(2, "tw\ufffdo")]
    with pytest.raises(ValueError, match=r"a.txt line 2: not utf-8 at byte 2"):
        sd.read_text(str(tmp_path)).take_all()


@pytest.mark.parametrize(
    "read, head, line",
    [
        (sd.read_text, b"", b"%d"),
        (sd.read_json, b"", b'{"a": %d}'),
        (sd.read_csv, b"a,b\n", b"%d,1"),
    ],
)
def test_a_compressed_file_that_ends_early(tmp_path, read, head, line):
    """Whole lines before the damage are read; a part of a line is not."""
    rng = random.Random(1)
    data = gzip.compress(head + b"\n".join(line % rng.randrange(1 << 60) for _ in range(5000)))
    (tmp_path / "x.gz").write_bytes(data[: len(data) // 2])
    ds = read(str(tmp_path / "x.gz"), on_error="quarantine")
    rng = random.Random(1)
    got = [int(next(iter(r.values()))) for r in ds.take_all()]
    assert 2000 < len(got) < 3000 and got == [rng.randrange(1 << 60) for _ in got]
    assert [at for at, _ in [(e["line"], e["raw"]) for e in ds.errors().take_all()]] == [
        len(got) + 1 + bool(head)
    ]
    with pytest.raises(Exception, match="x.gz"):
        read(str(tmp_path / "x.gz")).take_all()


def test_records_of_tfrecord_files(tmp_path):
    sd.from_items([{"a": i} for i in range(10)]).repartition(1).write_tfrecords(str(tmp_path))
    (path,) = tmp_path.iterdir()
    data = bytearray(path.read_bytes())
    size = len(data) // 10
    data[3 * size + 14] ^= 1  # inside the data of record 3
    other = tmp_path.parent / "other"
    sd.from_items([{"a": b"text"}]).write_tfrecords(str(other))
    path.write_bytes(
        bytes(data[: 5 * size]) + next(other.iterdir()).read_bytes() + bytes(data[5 * size : -2])
    )
    ds = sd.read_tfrecords(str(path), on_error="quarantine")
    assert [r["a"] for r in ds.take_all()] == [0, 1, 2, 4, 5, 6, 7, 8]
    assert [e["source_row"] for e in ds.errors().take_all()] == [3, 10, 5]
    assert (
        "checksum" in messages(ds)[0]
        and "ends within" in messages(ds)[1]
        and "record 5" in messages(ds)[2]
    )
    with pytest.raises(ValueError, match="record 3: the checksum"):
        sd.read_tfrecords(str(path)).take_all()


def tar_of(members):
    out = io.BytesIO()
    at = {}
    with tarfile.open(fileobj=out, mode="w") as t:
        for name, data in members:
            at[name] = t.offset
            info = tarfile.TarInfo(name)
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
    return bytearray(out.getvalue()), at


def test_rows_of_webdataset_files(tmp_path):
    values = [b"0", b"1", b"{", b'"text"', b"4", b"5"]
    data, at = tar_of(
        [
            (f"k{i}.{end}", v if end == "json" else b"t")
            for i, v in enumerate(values)
            for end in ("json", "txt")
        ]
    )
    path = tmp_path / "x.tar"
    path.write_bytes(data)
    ds = sd.read_webdataset(str(path), on_error="quarantine")
    assert [r["json"] for r in ds.take_all()] == [0, 1, 4, 5]
    assert ["'k2'" in m or "'k3'" in m for m in messages(ds)] == [True, True]
    # a damaged header, which tarfile takes for the end of the archive
    path.write_bytes(data[: at["k1.txt"]] + b"x" * 512 + data[at["k1.txt"] + 512 :])
    with pytest.raises(ValueError, match=f"damaged at byte {at['k1.txt']}"):
        sd.read_webdataset(str(path)).take_all()
    ds = sd.read_webdataset(str(path), on_error="quarantine")
    assert [r["__key__"] for r in ds.take_all()] == ["k0"]
    assert len(messages(ds)) == 1


def test_blocks_of_avro_files(tmp_path):
    fastavro = pytest.importorskip("fastavro")
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "a", "type": "int"}, {"name": "s", "type": "string"}],
    }
    out = io.BytesIO()
    fastavro.writer(
        out,
        fastavro.parse_schema(schema),
        [{"a": i, "s": "x" * 10} for i in range(100)],
        sync_interval=100,
    )
    data = bytearray(out.getvalue())
    mark = bytes(data[-16:])
    del data[data.index(mark) + 16 + 5 : data.index(mark) + 16 + 8]
    (tmp_path / "x.avro").write_bytes(data)
    ds = sd.read_avro(str(tmp_path), on_error="quarantine")
    assert [r["a"] for r in ds.take_all()] == list(range(9, 100))
    assert len(messages(ds)) == 1 and "block 0 is damaged" in messages(ds)[0]


@pytest.mark.parametrize("filtered", [False, True])
def test_row_groups_of_parquet_files(tmp_path, filtered):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"id": range(1000)}), path, row_group_size=100)
    data = bytearray(path.read_bytes())
    for g in (3, 7):
        at = pq.read_metadata(path).row_group(g).column(0).dictionary_page_offset
        data[at : at + 20] = b"\xff" * 20
    path.write_bytes(data)
    args = {"filter": pc.field("id") >= 0} if filtered else {}
    for blocks in (1, 2, 10):  # the number of tasks that read the file makes no difference
        ds = sd.read_parquet(str(path), on_error="quarantine", override_num_blocks=blocks, **args)
        assert ids(ds) == [i for i in range(1000) if i // 100 not in (3, 7)]
        assert ["row group 3" in m or "row group 7" in m for m in messages(ds)] == [True, True]


def test_stripes_and_record_batches(tmp_path):
    t = pa.table(
        {"id": [f"{i * 7919 % 100_003} and {i * 104_729 % 99_991}" for i in range(40_000)]}
    )
    path = tmp_path / "x.orc"
    with orc.ORCWriter(str(path), stripe_size=65536, compression="zlib") as w:
        for i in range(4):
            w.write(t.slice(i * 10_000, 10_000))
    stripes = [orc.ORCFile(path).read_stripe(i) for i in range(orc.ORCFile(path).nstripes)]
    assert len(stripes) > 2
    data = bytearray(path.read_bytes())
    at = len(data) * 2 // 5
    data[at : at + 200] = b"\xff" * 200
    path.write_bytes(data)
    ds = sd.read_orc(str(path), on_error="quarantine")
    assert 0 < ds.count() < 40_000 and len(messages(ds)) == 1 and "stripe" in messages(ds)[0]
    path = tmp_path / "x.arrow"
    with pa.ipc.new_file(
        str(path), t.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
    ) as f:
        for i in range(4):
            f.write_batch(t.slice(i * 10_000, 10_000).to_batches()[0])
    data = bytearray(path.read_bytes())
    frames = [m.start() for m in re.finditer(re.escape(b"\x28\xb5\x2f\xfd"), data)]
    # two buffers for each batch; the second is no valid zstd
    data[frames[2] : frames[2] + 4] = b"none"
    path.write_bytes(data)
    ds = sd.read_feather(str(path), on_error="quarantine")
    assert ds.count() == 30_000 and "record batch 1" in messages(ds)[0]


def test_where_a_row_comes_from(tmp_path):
    for i in range(3):
        pq.write_table(
            pa.table({"id": list(range(i * 1000, i * 1000 + 1000))}),
            tmp_path / f"{i}.parquet",
            row_group_size=300,
        )
    bad = {5, 1450, 2999}

    def f(r):
        if r["id"] in bad:
            raise ValueError("no")
        return r

    ds = sd.read_parquet(str(tmp_path)).map(lambda r: r).map(f, on_error="quarantine").map(f)
    ds.take_all()
    assert [(os.path.basename(e["source"]), e["source_row"]) for e in ds.errors().take_all()] == [
        ("0.parquet", 5),
        ("1.parquet", 450),
        ("2.parquet", 999),
    ]
    # behind an operator that has dropped rows
    ds = sd.read_parquet(str(tmp_path)).map(one, on_error="skip").map(f, on_error="quarantine")
    ds.take_all()
    assert [e["source_row"] for e in ds.errors().take_all()] == [5, 450, 999]
    with pytest.raises(ValueError) as e:
        sd.read_parquet(str(tmp_path)).map(f).take_all()
    said = str(e.value)  # the error of the task that failed first
    assert any(
        f"row {row} of" in said and file in said
        for row, file in ((5, "0.parquet"), (450, "1.parquet"), (999, "2.parquet"))
    )


# ---- workers are killed


def test_exactly_once_when_workers_are_killed(tmp_path):
    once = str(tmp_path)

    def f(b):
        first = int(b["id"][0])
        if len(b["id"]) > 50 and first % 2000 == 0:  # each such task dies once, in its middle
            try:
                os.close(os.open(os.path.join(once, str(first)), os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        if (b["id"] % 97 == 0).any():
            # the texts of errors may differ between attempts
            raise ValueError(f"pid {os.getpid()} " + "x" * random.randint(0, 50))
        return b

    ds = sd.range(20_000, override_num_blocks=10).map_batches(
        f, batch_size=100, on_error="quarantine"
    )
    ds.context.target_max_block_size = 4000
    ds.context.target_min_block_size = 0
    assert ids(ds) == [i for i in range(20_000) if i % 97]
    assert os.listdir(once)
    assert sorted(e["row"]["id"] for e in ds.errors().take_all()) == list(range(0, 20_000, 97))


# ---- max_errored_blocks


@pytest.mark.parametrize("most, failing", [(0, 0), (0, 1), (2, 2), (2, 3), (-1, 5)])
def test_max_errored_blocks(most, failing, caplog):
    def f(b):
        if b["id"][0] // 10 < failing:
            raise RuntimeError(f"block {b['id'][0]}")
        return b

    ds = sd.range(100, override_num_blocks=10).map_batches(f)
    ds.context.max_errored_blocks = most
    if 0 <= most < failing:
        with pytest.raises(RuntimeError):
            ds.take_all()
        return
    assert ids(ds) == list(range(10 * failing, 100))
    assert ds.stats_dict()["errored_blocks"] == failing
    assert (
        len(
            [
                r
                for r in caplog.records
                if "max_errored_blocks" in r.getMessage() and "RuntimeError" in r.getMessage()
            ]
        )
        == failing
    )
