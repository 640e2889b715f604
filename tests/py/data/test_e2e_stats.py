"""stats(), explain(), progress."""

import json
import logging
import os
import threading
import time

import numpy as np
import skate
import skate.data as sd


def slow(b):
    time.sleep(0.02)
    return b


def test_stats_name_the_bottleneck():
    class Fast:
        def __call__(self, b):
            return b

    ds = sd.range(2000, override_num_blocks=20).map_batches(slow).map_batches(Fast, concurrency=1, num_cpus=0.1)
    assert ds.stats() == ""
    ds.count()
    text, d = ds.stats(), ds.stats_dict()
    assert text.splitlines()[-1].startswith("Bottleneck: ReadRange->MapBatches(slow)")
    assert "MapBatches(Fast)" in text and "2,000" in text
    assert json.dumps(d, default=str) and d["bottleneck_label"].startswith("ReadRange->MapBatches(slow)")
    op = d["ops"][0]
    assert op["tasks_done"] == 20 and op["rows_out"] == 2000


def test_explain(capsys):
    text = sd.range(10).map_batches(slow).filter(expr="id > 3").limit(2).explain()
    assert "MapBatches(slow)" in text and "Filter(id > 3)" in text and capsys.readouterr().out.strip() == text.strip()


def test_explain_marks_what_blocks(capsys):
    one = sd.range(1000, override_num_blocks=4).map_batches(slow).repartition(3)
    text = one.zip(sd.range(1000).randomize_block_order(seed=1).map(lambda r: r)).explain()
    assert text.count("Repartition (BLOCKING: all of its input first, of 7.8 KiB read (1,000 rows))") == 2
    assert text.count("RandomizeBlockOrder (BLOCKING") == 2 and text.count("first, for ") == 2
    assert "    [tasks] ReadRange->MapBatches(slow)  4 tasks" in text  # what the blocks wait for
    assert "BLOCKING" not in sd.range(10).map_batches(slow).limit(3).zip(sd.range(3)).explain()
    capsys.readouterr()


def test_progress_line_is_honest():
    from skate.data.progress import text

    line = text(
        {
            "ops": [
                {"label": "Read->Map(f)", "tasks_done": 120, "total_units": 400},
                {"label": "MapBatches(Model)", "tasks_done": 80, "total_units": -1, "rows_out": 1000},
            ],
            "bottleneck": 1,
        },
        2.0,
    )
    assert line == "Read->Map(f) 120/400 · MapBatches(Model) 80 · 500 rows/s · ~5 s left · limited by MapBatches(Model)"


def test_progress_draws_on_a_terminal_only(monkeypatch):
    import io
    import sys

    class Tty(io.StringIO):
        def isatty(self):
            return True

    out = Tty()
    monkeypatch.setattr(sys, "stderr", out)
    ds = sd.range(2000, override_num_blocks=40).map_batches(slow)
    ds.take_all()
    drawn = out.getvalue()
    assert "ReadRange->MapBatches(slow)" in drawn and "\n" not in drawn and drawn.endswith("\r")
    out.truncate(0)
    ds = sd.range(2000, override_num_blocks=40).map_batches(slow)
    ds.context.enable_progress_bars = False
    ds.take_all()
    assert out.getvalue().strip("\0") == ""


def test_context_is_copied():
    ctx = sd.DataContext.get_current()
    ctx.set_config("anything", 5)
    assert sd.range(1).context.get_config("anything") == 5 and sd.range(1).context is not ctx
    old = ctx.target_max_block_size
    try:
        ctx.target_max_block_size = 8000
        ds = sd.range(10_000, override_num_blocks=1).map_batches(lambda b: {"x": b["id"].astype(np.int64)}).materialize()
        assert ds.num_blocks() == 10
    finally:
        ctx.target_max_block_size = old
        ctx.remove_config("anything")


def test_every_scheduling_policy_can_be_chosen():
    with sd.DataContext.current(sd.DataContext()):
        for policy in skate._skate.POLICIES:
            sd.DataContext.get_current().scheduling_policy = policy
            assert sd.range(40, override_num_blocks=4).map_batches(lambda b: b).take_all() == [{"id": i} for i in range(40)]


def test_html_for_notebooks():
    ds = sd.from_items([{"a": i, "b<i>": "<script>&"} for i in range(30)])
    page = ds._repr_html_()
    assert "30 rows × 2 columns" in page and "<script>" not in page and "&lt;script&gt;&amp;" in page and page.count("<tr>") == 2 + 11
    lazy = ds.map(lambda r: r)._repr_html_()
    assert lazy.startswith("<pre>Map(&lt;lambda&gt;)") and ds._stats is None  # nothing was run for it
    assert "<th>id</th>" in sd.range(5)._repr_html_()


def test_stats_as_json_and_in_the_log(caplog):
    ds = sd.range(10).map_batches(lambda b: b)
    assert ds.stats_json() == "{}"
    with caplog.at_level("DEBUG", "ray.data"):
        ds.count()
    d = json.loads(ds.stats_json())
    assert d["ops"][0]["rows_out"] and d["io_retries"] == 0 and d["bottleneck_label"]
    assert sum("completed. Operator Metrics" in r.message for r in caplog.records) == len(d["ops"])


def test_a_stall_is_named_within_five_seconds(tmp_path):
    fifo = tmp_path / "never"
    os.mkfifo(fifo)

    def stuck(batch):
        with open(fifo) as f:  # until the test has seen the warning
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
    assert after >= 4 and "Nothing has moved for" in text and "ReadRange->MapBatches(stuck): 1 running (the longest for" in text


def test_the_timeline_has_an_arrow_for_each_block_that_a_task_took():
    # two stages: what runs in actors is not fused
    class Twice:
        def __call__(self, b):
            return {"id": b["id"] * 2}

    ds = sd.range(40, override_num_blocks=4).map_batches(Twice, concurrency=1, batch_size=10)
    assert ds.count() == 40
    events = skate.timeline()
    slices = [e for e in events if e["ph"] == "X" and e["cat"] == "task"]

    def inside(e):
        return {s["name"] for s in slices if (s["pid"], s["tid"]) == (e["pid"], e["tid"]) and s["ts"] <= e["ts"] <= s["ts"] + s["dur"]}

    ends = {e["id"]: e for e in events if e.get("cat") == "block" and e["ph"] == "f"}
    starts = {e["id"]: e for e in events if e.get("cat") == "block" and e["ph"] == "s"}
    assert set(starts) == set(ends) and all(e["bp"] == "e" for e in ends.values())
    ours = [i for i, e in ends.items() if "MapBatches(Twice)" in inside(e)]
    assert len(ours) == 4 and all("ReadRange" in inside(starts[i]) for i in ours)
