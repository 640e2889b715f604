"""The demands of users in docs/design/asks.md that no other test checks as they are written
there."""

import itertools
import os
import pty
import re
import subprocess
import sys
import time

import pytest
import rounds
import skate
import skate.data as sd
from skate.data.run import stall

PYTHON = os.path.dirname(os.path.dirname(os.path.abspath(skate.__file__)))


def program(tmp_path, text, stderr=subprocess.PIPE, **env):
    """Runs a user's program; returns (exit status, stdout, stderr)."""
    path = tmp_path / "program.py"
    path.write_text(text)
    p = subprocess.run(
        [sys.executable, str(path)],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        timeout=120,
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": PYTHON, **env},
    )
    return p.returncode, p.stdout, p.stderr


# ---- 3: a need that cannot be met fails at once, with the arithmetic; all others end


class Same:
    def __call__(self, batch):
        return batch


def same(batch):
    return batch


@rounds.campaign()
def test_3_stages_pools_and_cpus_all_end():
    """Every pair of stages on 1 to 4 CPUs (on 2 CPUs in one order; a campaign runs both orders);
    for all triples see docs/design/asks.md."""
    skate.shutdown()
    try:
        for cpus in (1, 2, 4):
            skate.init(num_cpus=cpus, _system_config={"preload": "light_pytest"})
            add = {
                "tasks": lambda d: d.map_batches(same),
                "a cap": lambda d: d.map_batches(same, concurrency=1, num_cpus=1),
                "an actor": lambda d: d.map_batches(Same, concurrency=1, num_cpus=1),
                "all CPUs": lambda d, n=cpus: d.map_batches(Same, concurrency=n),  # ray#44687
                "more than all": lambda d, n=cpus + 1: d.map_batches(
                    Same, concurrency=n, num_cpus=1
                ),
                "too large": lambda d, n=cpus + 1: d.map_batches(Same, concurrency=1, num_cpus=n),
            }
            pairs = {
                1: itertools.product(add, repeat=2),
                2: itertools.product(add, repeat=2)
                if rounds.FACTOR > 1
                else itertools.combinations_with_replacement(add, 2),
                4: [("all CPUs", "all CPUs"), ("tasks", "more than all"), ("too large", "tasks")],
            }
            for pair in pairs[cpus]:
                ds = add[pair[1]](add[pair[0]](sd.range(8, override_num_blocks=8)))
                if "too large" in pair:
                    # after 0.0 s (limit: 1 s)
                    with pytest.raises(
                        skate.exceptions.TaskUnschedulableError, match=f"{cpus + 1}"
                    ):
                        ds.take_all()
                else:
                    assert [r["id"] for r in ds.take_all()] == list(range(8)), (cpus, pair)
            skate.shutdown()
    finally:
        skate.shutdown()


# ---- 4: the error says what killed the worker


def _segv():
    import ctypes

    ctypes.string_at(0)


def _abort():
    os.abort()


def _killed():
    os.kill(os.getpid(), 9)


def _left():
    os._exit(7)


def _exit():
    sys.exit(3)


def _overflow():
    sys.setrecursionlimit(10**9)

    def deeper(x):
        return sorted([1], key=deeper)

    deeper(1)


def _import():
    import no_such_module_of_skates  # noqa: F401


@pytest.mark.parametrize(
    "how, words",
    [
        (_segv, ["signal 11 (Segmentation fault)", "in _segv", "peak memory"]),
        (_abort, ["signal 6 (Aborted)", "in _abort", "peak memory"]),
        (_killed, ["signal 9 (Killed)", "peak memory"]),
        (_left, ["exited with code 7", "peak memory"]),
        (_exit, ["exited with code 3", "peak memory"]),
        (_overflow, ["signal 11 (Segmentation fault)", "in deeper", "peak memory"]),
        (_import, ["No module named 'no_such_module_of_skates'", "in _import"]),
    ],
)
@pytest.mark.parametrize("where", ["task", "pipeline"])
def test_4_what_killed_the_worker(how, words, where):
    """Other cases: test_memory.py in tests/py/engine for lack of memory;
    test_a_stall_is_named_within_five_seconds for a hang."""

    def work(batch=None):
        how()

    with pytest.raises(skate.exceptions.RayError) as e:
        if where == "task":
            skate.get(skate.remote(max_retries=0)(work).remote())
        else:
            sd.range(10, override_num_blocks=1).map_batches(work, max_retries=0).take_all()
    text = str(e.value)
    assert all(w in text for w in [*words, "work"]), text
    assert len(text.splitlines()) <= 16, text
    assert "/skate/" not in text.replace("/skate/tests/", ""), text  # only the user's frames


# ---- 5: a consumer that takes no blocks holds the producers back


@pytest.mark.parametrize("pool", [False, True])
def test_5_a_slow_consumer_throttles(pool):
    import numpy as np
    from skate import _skate
    from skate.data.run import execute

    def big(batch):
        return {"x": np.zeros((len(batch["id"]), 1 << 17))}  # 1 MiB for each row

    class Big:
        def __call__(self, batch):
            return big(batch)

    before = _skate.status()
    ds = sd.range(200, override_num_blocks=200).map_batches(
        Big if pool else big, batch_size=1, **({"concurrency": 2} if pool else {})
    )
    ds.context.execution_options.resource_limits = (
        ds.context.execution_options.resource_limits.copy(object_store_memory=16 << 20)
    )
    it = iter(ds.iter_batches(batch_size=1))
    for _ in range(3):
        next(it)
    (run,) = [x for x in execute.running if any("ig)" in o["label"] for o in x.stats()["ops"])]
    deadline = time.monotonic() + 60
    while run.quiet()[0] < 1.0:  # until nothing has moved for a second
        assert time.monotonic() < deadline, "the producers go on"
        skate.wait([skate.put(0)])  # which lets the run go on
        time.sleep(0.01)
    made = run.stats()
    assert made["memory_peak"] <= 16 << 20 and made["ops"][-1]["rows_out"] < 30, made
    assert sum(1 for _ in it) == 197
    after = _skate.status()
    assert [after[k] - before[k] for k in ("spilled_bytes", "overflow_bytes")] == [0, 0]


# ---- 24: the user's exception is shown once


FAILS = """
import skate.data as sd
from skate.data.run import stall
from skate.data.run import stall

class Model:
    def __call__(self, batch):
        if 70 in batch["id"]:
            raise ValueError("bad sample")
        return batch

def of_batch(batch):
    if 70 in batch["id"]:
        raise ValueError("bad sample")
    return batch

def of_row(row):
    if row["id"] == 70:
        raise ValueError("bad sample")
    return row

ds = sd.range(1000, override_num_blocks=4)
"""
USES = {
    "rows": "ds.map(of_row).take_all()",
    "batches": "ds.map_batches(of_batch, batch_size=32).take_all()",
    "pool": "ds.map_batches(Model, concurrency=1, batch_size=32).take_all()",
    "iter": "for b in ds.map_batches(of_batch, batch_size=32).iter_batches(): pass",
    "iter_rows": "for b in ds.map_batches(of_batch, batch_size=32).iter_rows(): pass",
    "next": "next(iter(ds.map_batches(of_batch, batch_size=128).iter_batches(batch_size=500)))",
    "write": "ds.map(of_row).write_parquet('out')",
    "sum": "ds.map(of_row).sum('id')",
    "materialize": "ds.map(of_row).materialize()",
    "late": "ds.map(of_row).repartition(3).take_all()",
}


REPLAYED = ("rows", "batches", "pool", "late")  # the others have the same functions, and replays


@pytest.mark.parametrize("use", REPLAYED)
def test_24_my_exception_once(tmp_path, use):
    status, out, err = program(tmp_path, FAILS + USES[use])
    assert status == 1 and out == "" and len(err.splitlines()) <= 12, err
    shown_once(use, err)
    name = err.split("`skate replay ")[1].split("`")[0]
    replays(tmp_path, name)


def test_24_my_exception_once_whatever_runs_it(tmp_path):
    """The others in one program, each as the last statement of a program is: shown, uncaught."""
    others = {use: text for use, text in USES.items() if use not in REPLAYED}
    each = f"""
for use, text in {others!r}.items():
    print("----", use, file=sys.stderr)
    try:
        exec(compile(text, "program.py", "exec"))
    except ValueError:
        sys.excepthook(*sys.exc_info())
"""
    status, out, err = program(tmp_path, "import sys\n" + FAILS + each)
    assert status == 0 and out == "", err
    said = dict(part.split("\n", 1) for part in err.split("---- ")[1:])
    assert set(said) == set(others)
    for use, text in said.items():
        assert len(text.splitlines()) <= 14, text  # two more than alone: the line of exec()
        shown_once(use, text)


def shown_once(use, err):
    assert err.count("bad sample\n") == 1 and err.count('raise ValueError("bad sample")') == 1, err
    assert "ValueError: bad sample" in err and PYTHON not in err, err  # no frame of skate
    assert (
        "input row 70 " in err
        if "of_row" in USES[use]
        else "input rows 64..95" in err or "input rows 0..127" in err
    ), err


def replays(tmp_path, name):
    run = [sys.executable, "-m", "skate", "replay", name]
    p = subprocess.run(
        run,
        input="p 'seen', (row if 'row' in dir() else batch)['id']\nq\n",
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": PYTHON},
        cwd=tmp_path,
    )
    assert (
        p.returncode == 0
        and "ValueError: bad sample" in p.stdout
        and "('seen', " in p.stdout
        and "70" in p.stdout
    ), p.stdout + p.stderr
    assert '-> raise ValueError("bad sample")' in p.stdout


def test_24_except_value_error_and_what_is_kept(tmp_path):
    status, out, err = program(
        tmp_path,
        FAILS
        + """
import os, pathlib
try:
    ds.map(of_row).take_all()
except ValueError as e:
    print("caught", type(e).__mro__[1].__name__ != "", "frames", len(list(__import__("traceback").walk_tb(e.__traceback__))))
keep = pathlib.Path(os.environ["TMPDIR"]) / f"skate-replay-{os.getuid()}"
print(len(list(keep.iterdir())), oct(keep.stat().st_mode & 0o777))
sd.DataContext.get_current().replay_bytes = 0
try:
    sd.range(100).map(of_row).take_all()
except ValueError as e:
    print("replay" in str(e), len(list(keep.iterdir())))
""",
    )
    assert (status, err) == (0, "") and out.splitlines() == [
        "caught True frames 1",
        "1 0o700",
        "False 1",
    ], out + err


def test_24_replay_refuses_what_others_may_have_written(tmp_path):
    run = [sys.executable, "-m", "skate", "replay", "0123abcd"]
    env = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": PYTHON}
    p = subprocess.run(run, capture_output=True, text=True, timeout=60, env=env)
    assert p.returncode == 1 and "there is no" in p.stderr and len(p.stderr.splitlines()) == 1
    folder = tmp_path / f"skate-replay-{os.getuid()}"
    folder.chmod(0o777)
    p = subprocess.run(run, capture_output=True, text=True, timeout=60, env=env)
    assert p.returncode == 1 and "mode 0700" in p.stderr
    folder.chmod(0o700)
    (folder / "0123abcd").write_bytes(b"cposix\nsystem\n(S'echo no'\ntR.")
    (folder / "0123abcd").chmod(0o666)
    p = subprocess.run(run, capture_output=True, text=True, timeout=60, env=env)
    assert p.returncode == 1 and "written by others" in p.stderr and p.stdout == ""


def test_24_bugs_of_skate_keep_their_traceback(monkeypatch):
    import traceback

    def bug(*args, **kwargs):
        raise AttributeError("a bug of skate")

    monkeypatch.setattr(sd.Dataset, "_add", bug)
    with pytest.raises(AttributeError) as e:
        sd.range(10).map_batches(same)
    assert any("dataset.py" in f.filename for f in traceback.extract_tb(e.value.__traceback__))


# ---- 25: a run prints little


TEN = """
import sys, time
import skate.data as sd
from skate.data.run import stall

class Model:
    def __call__(self, batch):
        time.sleep(0.01)
        return batch

def f(batch):
    return batch

ds = sd.range(2000, override_num_blocks=60).map_batches(f)
for i in range(3):
    ds = ds.map_batches(f, num_cpus=(1, 0.5)[i % 2])
ds = ds.map_batches(Model, concurrency=1)
ds = ds.map(lambda r: r).filter(lambda r: True).flat_map(lambda r: [r]).map_batches(f, num_cpus=0.5).limit(1990)
if "off" in sys.argv or "OFF" in __import__("os").environ:
    ds.context.enable_progress_bars = False
print(len(ds.take_all()))
"""


# without a terminal nothing is drawn, whatever the setting
@pytest.mark.parametrize("tty, off", [(False, False), (True, False), (True, True)])
def test_25_quiet(tmp_path, tty, off):
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    status, out, err = program(
        tmp_path, TEN, stderr=theirs if tty else subprocess.PIPE, **({"OFF": "1"} if off else {})
    )
    os.close(theirs)
    assert status == 0 and out == "1990\n"
    if not tty:
        assert err == ""
    else:
        try:
            seen = os.read(ours, 1 << 20).decode()
        except (BlockingIOError, OSError):
            seen = ""
        # one line, which is drawn again and again
        assert "\n" not in seen and (seen == "" if off else "working" in seen or "% · " in seen)
    os.close(ours)


def test_22_many_footers_are_counted_on_a_terminal(tmp_path, monkeypatch):
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq
    from skate.terminal import progress_line

    class Tty(io.StringIO):
        def isatty(self):
            return True

    pq.write_table(pa.table({"a": [1]}), tmp_path / "0.parquet")
    for i in range(1, 40):
        os.link(tmp_path / "0.parquet", tmp_path / f"{i}.parquet")
    out = Tty()
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setattr(progress_line, "EVERY_S", 0.0)
    assert sd.read_parquet(str(tmp_path)).count() == 40
    seen = out.getvalue()
    assert (
        "read_parquet, footers" in seen
        and "1/40 inputs" in seen
        and "40/40 inputs · 0:00:00 left" in seen
        and "\n" not in seen
    )


def test_25_the_line_fits_and_says_what_matters():
    import io

    from rich.console import Console
    from skate.data.run.progress import looked
    from skate.terminal.progress_line import rendered

    ops = [
        {
            "label": f"MapBatches(function_{i})",
            "tasks_done": 5,
            "tasks_expected": 10,
            "rows_out": 50,
        }
        for i in range(10)
    ]
    stats = {
        "ops": [{"label": "Read", "tasks_done": 10, "total_units": 10, "rows_out": 50}, *ops],
        "bottleneck": 8,
        "share": 0.5,
        "left_ns": 2 * 10**9,
    }
    for width in (40, 80, 120):
        console = Console(file=io.StringIO(), width=width)
        console.print(rendered(looked(stats, 2.0), width), end="")
        line = console.file.getvalue().rstrip("\n")
        assert len(line) <= width and "\n" not in line and "… " in line and "%" in line
        assert width >= 80 or line.endswith(" 50% · 0:00:02 left")
        assert width < 120 or line.endswith(
            " 50% · 0:00:02 left · limited by MapBatches(function_7), 5/10 · 25 rows/s in, 25 out"
        )


def drawn(monkeypatch, columns=80, encoding="utf-8", locale="utf-8", **env):
    """What the progress line writes to a terminal."""
    import io

    from skate.terminal import progress_line

    class Tty(io.StringIO):
        def isatty(self):
            return True

    Tty.encoding = encoding
    with monkeypatch.context() as m:
        for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
            m.delenv(name, raising=False)
        for name, value in {"TERM": "xterm-256color", **env}.items():
            m.setenv(name, value)
        m.setattr(sys, "stderr", Tty())
        m.setattr(progress_line.locale, "getencoding", lambda: locale)
        m.setattr(progress_line._Terminal, "columns", lambda self: columns - 1)
        place = progress_line._place()
        if place is None:
            return ""
        notes = ["50%", "0:00:02 left", "limited by Größe"]
        place.draw(progress_line.Look("Read · MapBatches(Größe)", 0.5, notes))
        out = place.out.getvalue()
        place.close()
        return out


def test_25_each_terminal_gets_what_it_can_show(monkeypatch):
    def bare(text):
        return re.sub(r"\x1b\[[0-9;]*m", "", text).removeprefix("\r\x1b[K")

    colour = re.compile(r"\x1b\[[0-9;]*[349][0-9]")
    usual = drawn(monkeypatch)
    assert colour.search(usual) and "━" in usual and "Größe" in usual
    none = drawn(monkeypatch, NO_COLOR="1")
    assert not colour.search(none) and bare(none).split()[-6:] == bare(usual).split()[-6:]
    assert bare(none).count("━") == 4 < bare(usual).count("━")  # the bar has a length all the same
    assert drawn(monkeypatch, TERM="dumb") == ""
    small = bare(drawn(monkeypatch, columns=40))
    assert len(small) < 40 and "50% · 0:00:02 left" in small and "limited" not in small
    # the locale C: Python writes UTF-8, which the terminal does not show; or ASCII
    for plain in (
        drawn(monkeypatch, locale="ANSI_X3.4-1968"),
        drawn(monkeypatch, encoding="ascii"),
    ):
        text = bare(plain)
        assert text.isascii() and "50% | 0:00:02 left" in text and "Gr??e" in text and "---" in text


# ---- 26: the bottleneck is named


def slowly(seconds):
    def slow(batch):
        time.sleep(seconds)
        return batch

    return slow


class Slow:
    def __init__(self, seconds):
        self.seconds = seconds

    def __call__(self, batch):
        time.sleep(self.seconds)
        return batch


class Other(Slow):
    pass


def slowly_row(seconds):
    def slow_row(row):
        time.sleep(seconds)
        return row

    return slow_row


def planted(s):
    """Yields pipelines in which one operator takes s seconds for ten rows and the others a tenth of
    it, with the expected last line of stats()."""
    return {
        "fused": (
            lambda d: (
                d.map_batches(same)
                .map_batches(slowly(s), batch_size=10)
                .map_batches(Same, concurrency=1)
            ),
            "MapBatches(slow) ",
        ),
        "rows": (
            lambda d: d.map_batches(same).map(slowly_row(s / 8)).map_batches(same),
            "of it Map(slow_row)",
        ),
        "first of two": (
            lambda d: d.map_batches(slowly(s), num_cpus=2).map_batches(slowly(s / 10)),
            "MapBatches(slow) (",
        ),
        "second of two": (
            lambda d: d.map_batches(same, num_cpus=2).map_batches(slowly(s), num_cpus=1),
            "MapBatches(slow) (",
        ),
        "a pool": (
            lambda d: (
                d.map_batches(same)
                .map_batches(Slow, fn_constructor_args=(s,), concurrency=1)
                .map_batches(same)
            ),
            "MapBatches(Slow) (actors",
        ),
        "a pool of two": (
            lambda d: d.map_batches(slowly(s / 10)).map_batches(
                Slow, fn_constructor_args=(2 * s,), concurrency=2
            ),
            "MapBatches(Slow) (actors",
        ),
        "one of two pools": (
            lambda d: d.map_batches(
                Other, fn_constructor_args=(s / 10,), concurrency=1
            ).map_batches(Slow, fn_constructor_args=(s,), concurrency=1),
            "MapBatches(Slow) (actors",
        ),
        "a cap": (
            lambda d: (
                d.map_batches(same)
                .map_batches(slowly(s), concurrency=1)
                .map_batches(same, num_cpus=2)
            ),
            "MapBatches(slow) (max_tasks",
        ),
        "a gpu": (
            lambda d: d.map_batches(slowly(s / 10)).map_batches(
                Slow, fn_constructor_args=(s,), concurrency=1, num_gpus=1, batch_size=10
            ),
            "MapBatches(Slow) (",
        ),
        "the consumer": (lambda d: d.map_batches(same), "the consumer"),
    }


def test_26_ten_planted_bottlenecks():
    skate.shutdown()
    skate.init(num_cpus=4, num_gpus=1, _system_config={"preload": "light_pytest"})
    try:
        wrong = []
        for name in planted(0):
            # the difference must be larger than the random delays of a busy machine
            for s in (0.03, 0.1, 0.4):
                make, words = planted(s)[name]
                ds = make(sd.range(200, override_num_blocks=20))
                for _ in ds.iter_batches(batch_size=10):
                    if name == "the consumer":
                        time.sleep(s)
                last = ds.stats().splitlines()[-1]
                if last.startswith("Bottleneck: ") and words in last:
                    break
            else:
                wrong.append((name, words, ds.stats()))
        assert not wrong, "\n".join(map(str, wrong))
    finally:
        skate.shutdown()


# ---- 7: types and nulls never change silently


def _types():
    import datetime as dt
    import decimal

    import pyarrow as pa

    big = 2**53 + 1
    day = dt.date(2020, 1, 1)
    return [
        *(
            (t, [1, None, 3])
            for t in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32())
        ),
        (pa.int64(), [big, None, -big]),
        (pa.uint64(), [2**64 - 1, None, 0]),
        (pa.float16(), [1.5, None, float("inf")]),
        (pa.float32(), [float("nan"), None, 1.5]),
        (pa.float64(), [float("nan"), None, -0.0]),
        (pa.bool_(), [True, None, False]),
        *(
            (t, ["a", None, "é, and long enough to lie out of line"])
            for t in (pa.string(), pa.large_string(), pa.string_view())
        ),
        *(
            (t, [b"\0a", None, b"cd"])
            for t in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2))
        ),
        *((t, [day, None, dt.date(1900, 1, 1)]) for t in (pa.date32(), pa.date64())),
        *(
            (t, [dt.time(1, 2, 3), None, dt.time(0)])
            for t in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))
        ),
        *(
            (t, [1, None, 3])
            for u in ("s", "ms", "us", "ns")
            for t in (pa.timestamp(u), pa.timestamp(u, "Europe/Berlin"), pa.duration(u))
        ),
        (
            pa.decimal128(20, 4),
            [decimal.Decimal("1.2345"), None, decimal.Decimal("-9999999999999999.0001")],
        ),
        (pa.decimal256(50, 2), [decimal.Decimal("1.25"), None, decimal.Decimal(2)]),
        (pa.list_(pa.int16()), [[1, None], None, []]),
        (pa.large_list(pa.string()), [["a", None], None, []]),
        (pa.list_(pa.float32(), 2), [[1, 2], None, [3, 4]]),
        (
            pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))]),
            [{"a": big, "b": ["x"]}, None, {"a": None, "b": None}],
        ),
        (pa.map_(pa.string(), pa.int64()), [[("k", big)], None, []]),
        (pa.null(), [None, None, None]),
        (pa.dictionary(pa.int8(), pa.string()), ["x", None, "x"]),
        (pa.month_day_nano_interval(), [(1, 2, 3), None, (0, 0, 0)]),
    ]


IDENTITIES = {
    "numpy": ("numpy", lambda b: b),
    "numpy anew": ("numpy", lambda b: {k: v.copy() for k, v in b.items()}),
    "pandas": ("pandas", lambda b: b),
    "pandas anew": ("pandas", lambda b: b.copy()),
    "pyarrow": ("pyarrow", lambda b: b),
    "polars": ("pyarrow", lambda b: __import__("polars").from_arrow(b)),
    "torch": ("numpy", lambda b: {k: __import__("torch").as_tensor(v) for k, v in b.items()}),
}
CANNOT = {  # these raise an error that says so
    "numpy anew": {"time64[ns]"},
    "pandas": {"time64[ns]"},
    "pandas anew": {"time64[ns]"},
    "polars": {"decimal256(50, 2)", "month_day_nano_interval"},
}


@pytest.mark.parametrize("library", IDENTITIES)
def test_7_an_identity_changes_nothing_or_says_so(library):
    import pyarrow as pa

    if library in ("polars", "torch"):
        pytest.importorskip(library)
    fmt, f = IDENTITIES[library]
    refused = set()
    for t, values in _types():
        arr = (
            pa.array(values).dictionary_encode().cast(t)
            if pa.types.is_dictionary(t)
            else pa.array(values, t)
        )
        if t == pa.time64("ns"):
            arr = pa.array([1, None, 3], t)  # no multiple of a unit that Python has
        table = pa.table({"c": arr})
        ds = sd.from_blocks([table.slice(0, 1), table.slice(1, 2)]).map_batches(
            f, batch_format=fmt, batch_size=2
        )
        try:
            made = ds.materialize()
        except (skate.exceptions.RayError, BaseException) as e:
            if isinstance(e, (KeyboardInterrupt, AssertionError)):
                raise
            assert "c" in str(e), (t, str(e))
            refused.add(str(t))
            continue
        for ref in made.to_arrow_refs():
            # the schema of every block
            assert skate.get(ref).schema.types == [t] == made.schema().types, (
                t,
                skate.get(ref).schema,
            )
        out = made.to_arrow()
        assert out.schema.equals(table.schema) and repr(out.to_pylist()) == repr(
            table.to_pylist()
        ), t
    if library != "torch":
        assert refused == CANNOT.get(library, set())


def test_7_new_values_of_polars_keep_what_they_are():
    pl = pytest.importorskip("polars")
    import pyarrow as pa

    table = pa.table({"s": ["a", "b"], "t": pa.array([1, 2], pa.timestamp("s")), "n": [1, 2]})

    def f(b):
        return pl.from_arrow(b).with_columns(
            pl.col("t").dt.offset_by("500ms"),
            pl.col("n").cast(pl.String),
            u=pl.col("s").str.to_uppercase(),
        )

    out = sd.from_arrow(table).map_batches(f, batch_format="pyarrow").to_arrow()
    assert (
        out["t"].cast(pa.int64()).to_pylist() == [1500, 2500]
        and out["n"].to_pylist() == ["1", "2"]
        and out["u"].to_pylist() == ["A", "B"]
    )
    assert out["s"].type == pa.string() and out["t"].type == pa.timestamp("ms")


# ---- 8: the same seed gives the same sequence


def test_8_same_seed_same_sequence(tmp_path):
    """The sequence is the same for any number of workers, with kills, and with spilling (stores
    below 69 MiB have smaller blocks and so another sequence: docs/design/asks.md). For resumed
    writes see test_random_samples_are_the_same in test_resume.py."""
    import hashlib

    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    from skate import _skate

    for i in range(6):
        pq.write_table(
            pa.table({"id": range(i * 500, i * 500 + 500)}),
            tmp_path / f"{i}.parquet",
            row_group_size=100,
        )
    once = tmp_path / "once"
    once.mkdir()

    def wide(b):
        return {"id": b["id"], "x": np.ones((len(b["id"]), 2000)) * b["id"][:, None]}

    class Dies:
        def __init__(self, kill):
            self.kill = kill

        def __call__(self, b):
            if self.kill and b["id"][0] % 4 == 0:
                try:
                    (once / str(b["id"][0])).mkdir()
                except FileExistsError:
                    pass
                else:
                    os.kill(os.getpid(), 9)
            return b

    def sequence(kill=False, held=False):
        ds = sd.read_parquet(
            str(tmp_path), shuffle=sd.FileShuffleConfig(seed=3), file_extensions=["parquet"]
        ).map_batches(wide, batch_size=50)
        ds = ds.map_batches(
            Dies, fn_constructor_args=(kill,), concurrency=2, batch_size=40, num_cpus=0.1
        )
        ds = ds.random_sample(0.7, seed=5).randomize_block_order(seed=7)
        if held:
            ds = ds.materialize()
        h = hashlib.sha256()
        for b in ds.map(lambda r: {"id": r["id"], "x": r["x"][0]}).iter_batches(
            batch_size=37, local_shuffle_buffer_size=100, local_shuffle_seed=11
        ):
            h.update(b["id"].tobytes() + b["x"].tobytes())
        return h.hexdigest()

    want, spilled = None, 0
    try:
        for cpus, store, args in [
            (1, 512, {}),
            (2, 512, {}),
            (4, 512, {"kill": True}),
            (2, 72, {"held": True}),
            (3, 72, {}),
        ]:
            skate.shutdown()
            skate.init(num_cpus=cpus, object_store_memory=store << 20)
            # an object that leaves less room in the store
            ballast = skate.put(np.ones(50 << 17)) if store < 100 else None
            got = sequence(**args)
            want = want or got
            assert got == want, (cpus, store, args)
            spilled += _skate.status()["spilled_bytes"]
            del ballast
    finally:
        skate.shutdown()
    assert spilled > 0 and os.listdir(once)


def test_25_a_task_that_works_is_no_stall(caplog, monkeypatch):
    # a task that makes no progress is reported after a quarter of a second
    monkeypatch.setattr(stall, "QUIET_S", 0.25)

    def works(batch):
        end = time.monotonic() + 1
        while time.monotonic() < end:
            pass
        return batch

    assert sd.range(1).map_batches(works).count() == 1
    assert not [r for r in caplog.records if "Nothing has moved" in r.getMessage()]
