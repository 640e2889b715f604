"""The screen of `skate top`, from snapshots."""

import copy
import io

import pytest
from skate.cli import screen

OP = {
    "label": "ReadParquet->MapBatches(f)",
    "kind": "tasks",
    "inputs": [],
    "running": 2,
    "queued": 1,
    "done": 40,
    "total": 100,
    "retries": 1,
    "rows_in": 0,
    "rows_out": 4_000_000,
    "bytes_in": 0,
    "bytes_out": 1 << 30,
    "blocks_out": 40,
    "queued_blocks": 3,
    "queued_bytes": 12 << 20,
    "peak_queued_bytes": 1 << 24,
    "busy": 18.0,
    "wait_input": 0.0,
    "wait_memory": 2.5,
    "wait_resource": 0.1,
    "wait_consumer": 0.0,
    "actors": 0,
    "fused": [],
    "exchange": None,
}
SNAPSHOT = {
    "version": 1,
    "pid": 123,
    "program": "train.py --epochs [3]",
    "started": 1.8e9,
    "seconds": 83.0,
    "live": True,
    "ended": None,
    "cpus": 2.0,
    "gpus": 0.0,
    "waits": "the tasks of a Dataset",
    "store": {
        "used": 1 << 30,
        "capacity": 4 << 30,
        "spilled_now": 5 << 20,
        "spilled_total": 1 << 30,
        "restored_total": 1 << 29,
        "objects": 1234,
    },
    "tasks": {"done": 1000, "failed": 2, "running": 2, "queued": 7},
    "workers": [
        {"pid": 5, "task": "MapBatches(f)", "seconds": 3.25, "node": 0},
        {"pid": 6, "task": "", "seconds": None, "node": 0},
    ],
    "nodes": [],
    "errors": [{"seconds": 7.0, "text": "ValueError: x", "operator": "MapBatches(f)", "replay": "ab"}],
    "runs": [
        {
            "id": 3,
            "started": 73.0,
            "seconds": 10.0,
            "state": "running",
            "share": 0.4,
            "left": 15.0,
            "memory": {"now": 1 << 27, "peak": 1 << 28, "limit": 1 << 30, "disk": 1 << 20},
            "bottleneck": 0,
            "bottleneck_why": "its workers are busy",
            "bad_rows": 3,
            "errored_blocks": 0,
            "ops": [OP, {**OP, "label": "Sort", "total": None, "exchange": {"phase": "merge"}}],
            "samples": {},
        }
    ],
}  # fmt: skip


STORE = {
    "used": 1 << 20,
    "capacity": 1 << 30,
    "spilled_now": 2 << 20,
    "spilled_total": 3 << 20,
    "restored_total": 0,
    "objects": 4,
}
NODE = {
    "number": 1,
    "name": "node-1",
    "state": "alive",
    "cpus": 4.0,
    "cpus_free": 1.5,
    "gpus": 0.0,
    "gpus_free": 0.0,
    "store": STORE,
    "tasks": {"done": 12_345, "failed": 0, "running": 3, "queued": 9},
    "workers": 5,
}


def text(now, before=None, columns=120, encoding="utf-8"):
    file = io.TextIOWrapper(io.BytesIO(), encoding)
    from rich.console import Console

    console = Console(file=file, width=columns, highlight=False)
    console.print(screen.render(now, before, columns))
    file.seek(0)
    return file.read()


def test_all_that_is_known_is_shown():
    got = text(SNAPSHOT)
    for said in (
        "train.py --epochs [3]",
        "pid 123, 0:01:23; 2 CPUs; tasks: 1,000 done, 2 running, 7 queued, 2 failed",
        "waits for the tasks of a Dataset",
        "store [#####...............] 1.0 GiB of 4.0 GiB, 1,234 objects; 5.0 MiB on disk",
        "Dataset 3: [########............] 40%, 0:00:15 left, after 0:00:10, 3 bad rows",
        "memory 128 MiB of 1.0 GiB, peak 256 MiB, 1.0 MiB on disk",
        "bottleneck: ReadParquet->MapBatches(f): its workers are busy",
        "0:00:07 MapBatches(f): ValueError: x (skate replay ab)",
        "Sort (merge)",
    ):
        assert said in got, (said, got)
    (op,) = [line for line in got.splitlines() if line.startswith("ReadParquet")]
    assert (
        op.split()
        == "ReadParquet->MapBatches(f) 40/100 r1 2 4.0M 400k 3, 12.0 MiB 1.8 memory, 2.5 s".split()
    )
    assert [x.split() for x in got.splitlines()[-2:]] == [
        ["5", "MapBatches(f)", "3.2", "s"],
        ["1", "idle"],
    ]


def test_a_row_for_each_node():
    now = copy.deepcopy(SNAPSHOT)
    now["nodes"] = [NODE, {**NODE, "number": 2, "name": "far", "state": "gone"}]
    now["workers"][0]["node"] = 2
    lines = [line.split() for line in text(now).splitlines()]
    assert "node-1 2.5/4 5 3 9 12.3k 1.0 MiB of 1.0 GiB, 2.0 MiB on disk".split() in lines
    assert ["far", "(gone)"] in [line[:2] for line in lines]
    assert ["far", "5", "MapBatches(f)", "3.2", "s"] in lines


def test_rates_are_those_since_the_look_before():
    before = copy.deepcopy(SNAPSHOT)
    before["runs"][0]["seconds"] = 9.0
    before["runs"][0]["ops"][0]["rows_out"] = 3_000_000
    assert " 1.0M " in [x for x in text(SNAPSHOT, before).splitlines() if "MapBatches(f)  " in x][0]


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 110, 300])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_every_width(columns, encoding):
    now = copy.deepcopy(SNAPSHOT)
    now["runs"][0]["ops"][0]["label"] = "->".join(f"MapBatches(f{i})" for i in range(40))
    got = text(now, None, columns, "utf-8")
    assert max(map(len, got.splitlines())) <= columns
    assert "40/100" in got.replace("\n", "") or columns < 40
    if encoding == "ascii":
        text(SNAPSHOT, None, columns, encoding)


def test_what_is_not_known():
    now = copy.deepcopy(SNAPSHOT)
    now.update(live=False, ended="killed", workers=[], errors=[], waits="")
    run = now["runs"][0]
    run.update(state="failed", share=None, left=None, bottleneck=None, seconds=0.0)
    run["ops"][0].update(total=None, queued_blocks=0)
    run["memory"].update(limit=0, disk=0)
    got = text(now)
    assert "0:01:23, killed;" in got and "Dataset 3: failed, after 0:00:00" in got and "40/?" in got
    assert "waits for\n" not in got and "worker" not in got
    now["runs"] = []
    assert "Dataset" not in text(now)


def test_runs_that_go_on_come_first():
    runs = [{"id": i, "state": "done" if i % 2 else "running"} for i in range(12)]
    assert [r["id"] for r in screen.shown(runs)] == [6, 8, 10]
    assert [r["id"] for r in screen.shown(runs[1:2])] == [1]
    assert screen.shown([]) == []


@pytest.mark.parametrize(
    "n, said",
    [(0, "0"), (999, "999"), (1000, "1.0k"), (123456, "123k"), (5e7, "50.0M"), (None, "?")],
)
def test_counts_are_short(n, said):
    assert screen.count(n) == said


def test_nothing_that_a_terminal_obeys_gets_through():
    now = copy.deepcopy(SNAPSHOT)
    now["program"] = now["errors"][0]["text"] = "\x1b]0;title\x07 [red]x"
    now["workers"][0]["task"] = now["runs"][0]["ops"][0]["label"] = "a\x1b[2Jb[/]"
    now["nodes"] = [{**NODE, "number": 0, "name": "n\x1b[2Jo"}]
    got = text(now)
    assert got.count("n?[2Jo") == 2
    assert "\x1b" not in got and "?]0;title? [red]x" in got and got.count("a?[2Jb[/]") >= 2
