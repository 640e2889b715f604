"""Records (SKATE_TRACE=FILE): of a program that ends, that is killed while it publishes, and whose
fork server is killed; and the timelines that are made of them."""

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
import uuid

import pytest
import rounds
from procs import children, marked, wait_gone, wait_no_marked
from skate._private import timeline, view

ROUNDS = rounds.rounds(3)

PROGRAM = """
    import sys
    import skate as ray
    import skate.data

    ray.init(num_cpus=2, object_store_memory=64 << 20)

    @ray.remote
    def f(i):
        return i

    @ray.remote
    class A:
        def g(self):
            pass

    a = A.remote()

    def work():
        assert sum(ray.get([f.remote(i) for i in range(300)])) == 44850
        ray.get([a.g.remote() for _ in range(3)])
        ds = ray.data.range(100, override_num_blocks=4).map_batches(lambda b: b, batch_size=10)
        assert ds.random_shuffle(seed=1).materialize().count() == 100
        with_error = ray.data.range(4).map_batches(lambda b: 1 / 0)
        try:
            with_error.materialize()
        except ZeroDivisionError:
            pass
"""


programs: list[subprocess.Popen] = []


@pytest.fixture(autouse=True)
def none_stays():
    yield
    while programs:
        p = programs.pop()
        p.kill()
        p.wait()


def start(tmp_path, rest, **env):
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(PROGRAM) + textwrap.dedent(rest))
    p = subprocess.Popen(
        [sys.executable, str(script), "--epochs=3"],
        env={**os.environ, "SKATE_TRACE": str(tmp_path / "run-%p"), "PYTHONUNBUFFERED": "1", **env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    programs.append(p)
    return p


def told(p, what):
    assert p.stdout.readline() == f"{what}\n"


def record_of(p, tmp_path):
    """The path of the program's record, once it is there."""
    path, end = tmp_path / f"run-{p.pid}", time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < end, "no record was written"
        time.sleep(0.01)
    return str(path)


def test_of_a_program_that_ends(tmp_path):
    p = start(tmp_path, "work()\n")
    assert p.wait(60) == 0
    path = str(tmp_path / f"run-{p.pid}")  # it is there when the program has ended
    assert os.listdir(tmp_path).count(f"run-{p.pid}") == 1 and len(os.listdir(tmp_path)) == 2
    assert os.stat(path).st_mode & 0o777 == 0o600
    seen = view.snapshot(path)
    json.dumps(seen)
    assert (seen["live"], seen["ended"], seen["pid"], seen["workers"]) == (
        False,
        "closed",
        p.pid,
        [],
    )
    assert seen["program"].endswith("program.py --epochs=3")
    assert [r["state"] for r in seen["runs"]] == ["done", "failed"]
    assert seen["tasks"]["running"] == 0 and seen["tasks"]["done"] >= 304
    assert seen["runs"][0]["ops"][-1]["rows_out"] == 100
    events = timeline.events_of(path)
    names = {e["name"] for e in events if e["ph"] == "X" and e["cat"] == "task"}
    assert {"f", "A.__init__", "A.g"} <= names and any("RandomShuffle" in n for n in names)
    runs = [e for e in events if e["ph"] == "X" and e["cat"] == "task"]
    assert sum(e["name"] == "f" for e in runs) == 300
    assert any(e.get("cname") == "terrible" for e in runs)
    assert len([e for e in events if e["ph"] == "C"]) > 3
    starts = {e["id"] for e in events if e.get("cat") == "block" and e["ph"] == "s"}
    assert starts and starts == {
        e["id"] for e in events if e.get("cat") == "block" and e["ph"] == "f"
    }
    assert timeline.write(path, tmp_path / "out.json") == len(runs)
    assert json.loads((tmp_path / "out.json").read_text()) == events


@rounds.campaign()
def test_of_a_program_that_is_killed_while_it_publishes(tmp_path):
    rnd = random.Random(rounds.seed())
    for _ in range(ROUNDS):
        tag = uuid.uuid4().hex
        p = start(tmp_path, "work()\nprint('go')\nwhile True:\n    work()\n", SKATE_TEST_TAG=tag)
        told(p, "go")
        moment = time.monotonic() + rnd.uniform(0, 0.3)
        while time.monotonic() < moment:  # a random moment of the work, not a wait for an event
            pass
        p.kill()
        p.wait()
        path = record_of(p, tmp_path)
        assert wait_no_marked(tag, 30) == []  # the witness has ended, too
        seen = view.snapshot(path)
        assert seen["ended"] == "killed"
        states = [r["state"] for r in seen["runs"]]
        assert {"done", "failed"} <= set(states)
        events = timeline.events_of(path)
        runs = [e for e in events if e["ph"] == "X" and e["cat"] == "task"]
        assert sum(e["name"] == "f" for e in runs) >= 300


def test_up_to_the_kill(tmp_path):
    """The last tasks whose results the driver had are in the record of a driver that is killed
    right after that."""
    p = start(
        tmp_path,
        """
        import os, signal
        for i in range(50):
            ray.get(f.options(name=f"number {i}").remote(i))
        os.kill(os.getpid(), signal.SIGKILL)
        """,
    )
    assert p.wait(60) == -signal.SIGKILL
    events = timeline.events_of(record_of(p, tmp_path))
    names = [e["name"] for e in events if e["ph"] == "X" and e["cat"] == "task"]
    assert [n for n in names if n.startswith("number")] == [f"number {i}" for i in range(50)]


@pytest.mark.parametrize("closes", [True, False])
def test_the_fork_server_is_killed_first(tmp_path, closes):
    tag = uuid.uuid4().hex
    p = start(
        tmp_path,
        """
        work()
        print("go")
        sys.stdin.readline()
        assert sum(ray.get([f.remote(i) for i in range(3)])) == 3
        print("on")
        sys.stdin.readline()
        """,
        SKATE_TEST_TAG=tag,
    )
    told(p, "go")
    servers = [c for c in children(p.pid)]
    for server in servers:
        os.kill(server, signal.SIGKILL)
    assert wait_gone(servers, 30) == []
    p.stdin.write("\n")
    p.stdin.flush()
    told(p, "on")
    assert not (tmp_path / f"run-{p.pid}").exists()  # the program goes on
    if closes:
        p.communicate("\n", timeout=60)
    else:
        p.kill()
        p.wait()
    seen = view.snapshot(record_of(p, tmp_path))
    assert seen["ended"] == ("closed" if closes else "killed")
    assert seen["tasks"]["done"] >= 307
    assert wait_no_marked(tag, 30) == []


def test_of_a_program_without_stdin(tmp_path):
    """The pidfd of the driver may then be descriptor 0 of the fork server."""
    script = tmp_path / "program.py"
    script.write_text(
        textwrap.dedent(PROGRAM)
        + "import os, signal\nwork()\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    p = subprocess.Popen(
        ["sh", "-c", f"exec {sys.executable} {script} <&-"],
        env={**os.environ, "SKATE_TRACE": str(tmp_path / "run-%p")},
    )
    programs.append(p)
    assert p.wait(60) == -signal.SIGKILL
    assert view.snapshot(record_of(p, tmp_path))["ended"] == "killed"


def test_no_other_process_and_no_file_without_it(tmp_path):
    tag = uuid.uuid4().hex
    p = start(
        tmp_path,
        "work()\nprint('go')\nsys.stdin.readline()\n",
        SKATE_TRACE="",
        SKATE_TEST_TAG=tag,
    )
    told(p, "go")
    (server,) = children(p.pid)
    held = set(marked(tag)) - {p.pid, server}
    assert held == set(children(server))  # workers only
    p.communicate("\n", timeout=60)
    assert os.listdir(tmp_path) == ["program.py"]


def test_says_at_the_start_where_no_record_can_be_written(tmp_path):
    import skate

    skate.shutdown()
    for path, why in (("no/x", "there is no directory"), (".", "is a directory")):
        with pytest.raises(ValueError, match=f"SKATE_TRACE.*{why}"):
            skate.init(num_cpus=1, _system_config={"trace": str(tmp_path / path)})


def test_init_takes_the_path_too(tmp_path):
    import skate

    skate.shutdown()
    skate.init(num_cpus=1, _system_config={"trace": str(tmp_path / "mine")})
    live = view.own()
    assert live["live"] and not (tmp_path / "mine").exists()
    skate.shutdown()
    assert view.snapshot(tmp_path / "mine")["pid"] == os.getpid()
