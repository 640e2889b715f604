"""stats(), explain(), progress."""

import contextlib
import gc
import io
import json
import logging
import os
import re
import subprocess
import sys
import threading
import time
import types

import numpy as np
import pytest
import skate
import skate.data as sd
from skate.data.run import execute, stall, stats
from skate.terminal import progress_line


def slow(b):
    time.sleep(0.02)
    return b


def test_stats_name_the_bottleneck():
    class Fast:
        def __call__(self, b):
            return b

    ds = (
        sd.range(2000, override_num_blocks=20)
        .map_batches(slow)
        .map_batches(Fast, concurrency=1, num_cpus=0.1)
    )
    assert (
        ds.stats().startswith("ReadRange->MapBatches(slow)->MapBatches(Fast) has not been run yet")
        and "2,000 rows" in ds.stats()
    )
    ds.count()
    text, d = ds.stats(), ds.stats_dict()
    assert text.splitlines()[-1].startswith("Bottleneck: ReadRange->MapBatches(slow)")
    assert "MapBatches(Fast)" in text and "2,000" in text
    assert json.dumps(d, default=str) and d["bottleneck_label"].startswith(
        "ReadRange->MapBatches(slow)"
    )
    op = d["ops"][0]
    assert op["tasks_done"] == 20 and op["rows_out"] == 2000


def test_stats_say_in_words_why_no_operator_is_the_bottleneck():
    def named(why):
        return stats.DatasetStats({"bottleneck": None, "bottleneck_why": why}).bottleneck()

    assert named("none") == (
        "none",
        "CPUs, GPUs, actors and limits were never all in use: too few tasks",
    )
    assert named("consumer") == ("the consumer", "the pipeline waited for it to take blocks")


def test_explain(capsys):
    ds = sd.range(10).map_batches(slow).filter(expr="id > 3").limit(2)
    # a notebook would show a return value below the printed text, so the text twice
    assert ds.explain() is None
    text = ds.explain_text()
    assert (
        "MapBatches(slow)" in text
        and "Filter(id > 3)" in text
        and capsys.readouterr().out == text + "\n"
    )


def test_explain_marks_what_blocks():
    one = sd.range(1000, override_num_blocks=4).map_batches(slow).repartition(3)
    text = one.zip(sd.range(1000).randomize_block_order(seed=1).map(lambda r: r)).explain_text()
    assert (
        text.count("Repartition (BLOCKING: all of its input first, of 7.8 KiB read (1,000 rows))")
        == 2
    )
    assert text.count("RandomizeBlockOrder (BLOCKING") == 2 and text.count("first, for ") == 2
    # the input that the blocks wait for
    assert "    [tasks] ReadRange->MapBatches(slow)  4 tasks" in text
    assert "BLOCKING" not in sd.range(10).map_batches(slow).limit(3).zip(sd.range(3)).explain_text()


def run_stats(**more):
    """Statistics of a run, as _skate.Exec.stats() gives them."""
    return {
        "ops": [
            {
                "label": "Read->Map(f)",
                "tasks_done": 120,
                "tasks_expected": 400,
                "total_units": 400,
                "rows_out": 9,
                "fused": [{"rows_out": 1000}, {"rows_out": 9}],
            },
            {
                "label": "MapBatches(Model)",
                "tasks_done": 80,
                "tasks_expected": 399,
                "total_units": -1,
                "rows_out": 5,
            },
        ],
        "bottleneck": 1,
        "bottleneck_why": "actors",
        "share": 0.25,
        "left_ns": 6_000_000_000,
        "left_guess": False,
        "memory_disk": 0,
        "done": False,
        **more,
    }


def test_progress_line_is_honest():
    from skate.data.run.progress import looked

    look = looked(run_stats(), 2.0)
    assert (look.what, look.share) == ("Read->Map(f) · MapBatches(Model)", 0.25)
    assert look.notes == [
        "25%",
        "0:00:06 left",
        "limited by MapBatches(Model), 80/399",
        "500 rows/s in, 2 out",
    ]
    assert (
        looked(run_stats(), 2.0, verbose=True).what
        == "Read->Map(f) 120/400 · MapBatches(Model) 80/399"
    )
    # a stage that has not begun; blocks on disk
    look = looked(run_stats(left_guess=True, memory_disk=3 << 29), 2.0)
    assert look.notes[1] == "perhaps 0:00:06 left" and look.notes[-1] == "1.5 GiB on disk"
    # nothing is known yet
    look = looked(run_stats(share=0.0, left_ns=-1, bottleneck=None, bottleneck_why="none"), 2.0)
    assert look.share is None and look.notes == ["working", "500 rows/s in, 2 out"]
    blocks = {
        "label": "Blocks",
        "kind": "blocks",
        "rows_out": 100,
        "blocks_out": 20,
        "total_units": -1,
    }
    mapped = {"label": "Map(f)", "kind": "tasks", "tasks_done": 5, "tasks_expected": 20}
    look = looked(run_stats(ops=[blocks, mapped], bottleneck=None, bottleneck_why="consumer"), 1.0)
    assert (look.what, look.notes[2:]) == (
        "Map(f)",
        ["5/20 tasks", "limited by the consumer", "25 rows/s in, 0 out"],
    )


def test_the_last_line_is_a_summary():
    from skate.data.run.progress import looked

    # the consumer has all rows that it wanted
    over = looked(run_stats(done=True, share=1.0), 2.0, ended="stopped by the consumer")
    assert (over.share, over.bar) == (1.0, True)
    assert over.notes == ["done", "5 rows", "0:00:02", "limited by MapBatches(Model)"]
    for why in ("stopped by the consumer", "ended by ValueError"):
        look = looked(
            run_stats(memory_disk_peak=1 << 20, bad_rows=1, errored_blocks=2), 5.0, ended=why
        )
        assert not look.bar and look.notes == [
            why,
            "5 rows",
            "0:00:05",
            "limited by MapBatches(Model)",
            "up to 1.0 MiB on disk",
            "1 bad row",
            "2 failed tasks",
        ]


def shares(monkeypatch, ds):
    """[(share, whether the run is over)] of each progress line while ds runs."""
    from skate.data.run import progress

    seen = []
    monkeypatch.setattr(progress, "EVERY_S", 0.01)
    monkeypatch.setattr(sys, "stderr", Tty())
    real = progress.looked

    def look(stats, *more):
        seen.append((real(stats, *more).share, stats["done"]))
        return real(stats, *more)

    monkeypatch.setattr(progress, "looked", look)
    monkeypatch.setattr(progress_line, "EVERY_S", 0.0)
    ds.take_all()
    monkeypatch.undo()
    return seen


def test_progress_is_full_only_at_the_end(monkeypatch):
    class Slow:
        def __call__(self, batch):
            time.sleep(0.02)
            return batch

    for ds in (
        sd.range(200, override_num_blocks=20).map_batches(Slow, concurrency=1),
        sd.range(2000, override_num_blocks=10)
        .map_batches(slow)
        .sort("id")
        .map_batches(slow, num_cpus=0.5),
    ):
        seen = shares(monkeypatch, ds)
        assert (
            len(seen) > 5
            and all(s is None or s < 1 for s, over in seen if not over)
            and all(s == 1 for s, over in seen if over)
        )
        open_work = [s for s, over in seen if not over and s is not None]
        # the start of the workers is a part of the time, too
        assert min(open_work) < 0.75 and max(open_work) > 0.5


class Tty(io.StringIO):
    def isatty(self):
        return True


def test_progress_draws_on_a_terminal_only(monkeypatch):
    from skate.data.run import progress

    out = Tty()
    monkeypatch.setattr(progress, "EVERY_S", 0.01)
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setattr(sys, "stdout", out)
    ds = sd.range(2000, override_num_blocks=40).map_batches(slow)
    for b in ds.iter_batches(batch_size=500):
        print("got", b["id"][0])
    drawn = out.getvalue()
    assert "ReadRange->MapBatches(slow)" in drawn and "/40 tasks · " in drawn
    for line in drawn.split("\n")[:-1]:  # printed text has a line of its own
        assert line.rpartition("\r\x1b[K")[2].startswith("got "), repr(line)
    assert sys.stdout is out and sys.stderr is out
    out.truncate(0)
    ds = sd.range(2000, override_num_blocks=40).map_batches(slow)
    ds.context.enable_progress_bars = False
    ds.take_all()
    assert out.getvalue().strip("\0") == ""


def test_progress_in_a_notebook(monkeypatch):
    from skate.data.run import progress

    shown, ids = [], []
    monkeypatch.setattr(progress, "EVERY_S", 0.01)

    def display(bundle, raw, display_id):
        ids.append(display_id)
        shown.append(bundle)
        return types.SimpleNamespace(update=lambda bundle, raw: shown.append(bundle))

    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(display=display))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(progress_line, "EVERY_S", 0.0)

    def last(work, error=()):
        ids.clear(), shown.clear()
        with pytest.raises(error) if error else contextlib.nullcontext():
            work()
        assert ids == [True] and len(shown) > 1 and shown[-1]["text/html"].startswith("<div")
        return shown[-1]["text/plain"]

    ds = sd.range(2000, override_num_blocks=40).map_batches(slow)
    assert "done · 40 rows · 0:0" in last(ds.count) and "progressbar" in shown[-1]["text/html"]
    # the run ended early, and has done all of its work
    assert "done · " in last(lambda: ds.limit(60).take_all())

    def few():
        for i, _ in enumerate(ds.iter_batches(batch_size=50, prefetch_batches=0)):
            if i == 3:
                break
        gc.collect()

    assert "stopped by the consumer" in last(few) and "progressbar" not in shown[-1]["text/html"]
    bad = ds.map(lambda row: row if row["id"] < 1000 else 1 / 0)
    assert "ended by " in last(bad.take_all, Exception)
    assert (
        "progressbar" not in shown[-1]["text/html"] and "&lt;lambda&gt;" in shown[-1]["text/html"]
    )


IN_TERMINAL = """
import sys, time
import skate.data as sd
def slow(b):
    time.sleep(0.1)
    print("worker", b["id"][0])
    return b
sd.range(10).count()
print("rich" in sys.modules)
sd.range(1000, override_num_blocks=10).map_batches(slow).count()
print("rich" in sys.modules)
"""


def test_what_workers_print_comes_above_the_line():
    import pty

    ours, theirs = pty.openpty()
    env = {
        **os.environ,
        "TERM": "xterm",
        "PYTHONPATH": os.path.dirname(os.path.dirname(skate.__file__)),
        "SKATE_NUM_CPUS": "1",
    }
    p = subprocess.Popen(
        [sys.executable, "-c", IN_TERMINAL], stdin=theirs, stdout=theirs, stderr=theirs, env=env
    )
    os.close(theirs)
    drawn = b""
    try:
        while chunk := os.read(ours, 65536):
            drawn += chunk
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert p.wait(60) == 0
    lines = [
        line.rpartition("\r\x1b[K")[2]
        for line in drawn.decode().replace("\r\n", "\n").split("\n")[:-1]
    ]
    assert "\r\x1b[K" in drawn.decode() and "/10 tasks" in drawn.decode()
    lines = [
        re.sub(r"^\(ReadRange->MapBatches\(slow\)->Count pid=\d+\) ", "task: ", line)
        for line in lines
    ]
    assert sorted(lines) == sorted(
        ["False", *(f"task: worker {i}" for i in range(0, 1000, 100)), "True"]
    ), lines


def test_context_is_copied():
    ctx = sd.DataContext.get_current()
    ctx.set_config("anything", 5)
    assert sd.range(1).context.get_config("anything") == 5 and sd.range(1).context is not ctx
    old = ctx.target_max_block_size
    try:
        ctx.target_max_block_size = 8000
        ds = (
            sd.range(10_000, override_num_blocks=1)
            .map_batches(lambda b: {"x": b["id"].astype(np.int64)})
            .materialize()
        )
        assert ds.num_blocks() == 10
    finally:
        ctx.target_max_block_size = old
        ctx.remove_config("anything")


def test_every_scheduling_policy_can_be_chosen():
    with sd.DataContext.current(sd.DataContext()):
        for policy in skate._skate.POLICIES:
            sd.DataContext.get_current().scheduling_policy = policy
            assert sd.range(40, override_num_blocks=4).map_batches(lambda b: b).take_all() == [
                {"id": i} for i in range(40)
            ]


def test_html_for_notebooks():
    ds = sd.from_items([{"a": i, "b<i>": "<script>&"} for i in range(30)])
    page = ds._repr_html_()
    assert (
        "30 rows × 2 columns" in page
        and "<script>" not in page
        and "&lt;script&gt;&amp;" in page
        and page.count("<tr>") == 2 + 11
    )
    lazy = ds.map(lambda r: r)._repr_html_()
    # repr() must run nothing
    assert lazy.startswith("<pre>Map(&lt;lambda&gt;)") and ds._stats is None
    assert "<th>id</th>" in sd.range(5)._repr_html_()


def test_statistics_are_those_of_the_last_run_alone(tmp_path):
    ds = sd.range(10).map(lambda r: r)
    ds.write_parquet(str(tmp_path))
    assert ds.stats_dict()["write"]["rows"] == 10
    ds.take_all()
    assert "write" not in ds.stats_dict()


def test_stats_as_json_and_in_the_log(caplog):
    ds = sd.range(10).map_batches(lambda b: b)
    assert ds.stats_json() == "{}"
    with caplog.at_level("DEBUG", "ray.data"):
        ds.count()
    d = json.loads(ds.stats_json())
    assert d["ops"][0]["rows_out"] and d["io_retries"] == 0 and d["bottleneck_label"]
    assert sum("completed. Operator Metrics" in r.message for r in caplog.records) == len(d["ops"])


def test_a_stall_is_named_within_five_seconds(tmp_path, monkeypatch):
    # if other tasks have the CPUs, or the processes cannot be inspected, the warning comes later
    monkeypatch.setattr(stall, "WORKING_S", 10.0)
    fifo = tmp_path / "never"
    os.mkfifo(fifo)

    def stuck(batch):
        with open(fifo) as f:  # blocks until the test has seen the warning
            f.read()
        return batch

    t0 = time.monotonic()
    it = iter(sd.range(1).map_batches(stuck).iter_rows())
    seen = threading.Event()
    told = []

    class Tell(logging.Handler):
        def emit(self, record):
            told.append((time.monotonic() - t0, record.getMessage()))
            if not seen.is_set():
                seen.set()
                with open(fifo, "w"):
                    pass

    log = logging.getLogger("ray.data")
    handler = Tell()
    log.addHandler(handler)
    try:
        assert next(it)["id"] == 0
    finally:
        log.removeHandler(handler)
    after, text = told[0]
    assert (
        after >= 4
        and "Nothing has moved for" in text
        and "ReadRange->MapBatches(stuck): 1 running (the longest for" in text
    )


def test_who_waits_may_have_a_name_of_any_characters(tmp_path):
    """The text about the waiting task has room for 800 bytes, and is cut here in the middle of a
    character, like the task's name."""
    fifo = tmp_path / "never"
    os.mkfifo(fifo)

    def stuck(batch):
        with open(fifo) as f:
            f.read()
        return batch

    stuck.__name__ = "a" + "\N{WATCH}" * 600  # longer than any name of a fixed size
    before = list(execute.running)
    done = threading.Thread(target=sd.range(1).map_batches(stuck).take_all)
    done.start()
    text, deadline = "", time.monotonic() + 120
    while not text:  # until nothing has moved for a second
        done.join(0.05)
        assert done.is_alive() and time.monotonic() < deadline
        for run in [x for x in execute.running if x not in before]:
            text = run.quiet()[1]
    with open(fifo, "w"):
        pass
    done.join()
    assert text.startswith("ReadRange->MapBatches(a\N{WATCH}") and text.endswith(
        "\N{WATCH}\N{REPLACEMENT CHARACTER}"
    )


def test_the_timeline_has_an_arrow_for_each_block_that_a_task_took():
    # two stages, because a stage that runs in actors is not fused
    class Twice:
        def __call__(self, b):
            return {"id": b["id"] * 2}

    ds = sd.range(40, override_num_blocks=4).map_batches(Twice, concurrency=1, batch_size=10)
    assert ds.count() == 40
    events = skate.timeline()
    slices = [e for e in events if e["ph"] == "X" and e["cat"] == "task"]

    def inside(e):
        return {
            s["name"]
            for s in slices
            if (s["pid"], s["tid"]) == (e["pid"], e["tid"])
            and s["ts"] <= e["ts"] <= s["ts"] + s["dur"]
        }

    ends = {e["id"]: e for e in events if e.get("cat") == "block" and e["ph"] == "f"}
    starts = {e["id"]: e for e in events if e.get("cat") == "block" and e["ph"] == "s"}
    assert set(starts) == set(ends) and all(e["bp"] == "e" for e in ends.values())
    ours = [i for i, e in ends.items() if "MapBatches(Twice)" in inside(e)]
    assert len(ours) == 4 and all("ReadRange" in inside(starts[i]) for i in ours)
