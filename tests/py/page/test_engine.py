"""The page of real engines: how it is asked for, what it shows of a run, and when it ends."""

import http.client
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap

import pytest
import skate
import skate.data as sd
from patience import eventually
from skate.data import DataContext
from skate.page import driver as page_driver
from skate.page import serve, show

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
ENV = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "python"), "PYTHONUNBUFFERED": "1"}
SMALL = {"num_cpus": 2, "object_store_memory": 64 << 20}


@pytest.fixture(autouse=True)
def no_engine():
    skate.shutdown()
    yield
    skate.shutdown()


@pytest.fixture
def context():
    mine = DataContext.get_current()
    DataContext._set_current(mine.copy())
    yield DataContext.get_current()
    DataContext._set_current(mine)


def read(url, part="snapshot.json"):
    """A part of the page at an address."""
    host, _, path = url.removeprefix("http://").partition("/")
    c = http.client.HTTPConnection(host, timeout=30)
    try:
        c.request("GET", f"/{path}{part}")
        r = c.getresponse()
        body = r.read().decode()
        assert r.status == 200, body
        return json.loads(body) if part.endswith("json") else body
    finally:
        c.close()


def told(capsys):
    """The addresses that were printed to stderr."""
    return re.findall(
        r"^skate: a page shows this program: (http://127\.0\.0\.1:\d+/[\w-]{32}/)$",
        capsys.readouterr().err,
        re.M,
    )


def plus(row):
    return {"id": row["id"] + 1}


def test_a_setting_of_the_engine(capsys):
    skate.init(**SMALL, _system_config={"page": 1})
    (url,) = told(capsys)
    now = read(url)
    assert now["pid"] == os.getpid() and now["live"] and now["runs"] == []
    for i in (1, 2):  # it stays for all runs
        assert sd.range(1000).map(plus).sum("id") == 500_500
        # a snapshot may be a quarter of a second old
        eventually(lambda: [r["state"] for r in read(url)["runs"]] == ["done"] * i)  # noqa: B023
        now = read(url)
        assert [r["state"] for r in now["runs"]] == ["done"] * i
    assert told(capsys) == []
    ops = now["runs"][-1]["ops"]
    assert "Map(plus)" in ops[0]["label"] and ops[0]["inputs"] == []
    skate.shutdown()
    with pytest.raises(ConnectionError):
        read(url)


def test_a_setting_of_the_data(capsys, context):
    skate.init(**SMALL)
    assert sd.range(10).count() == 10 and told(capsys) == []
    context.page = True
    for _ in range(2):
        assert sd.range(10).map(plus).take_all()[-1] == {"id": 10}
    (url,) = told(capsys)
    assert len(read(url)["runs"]) >= 2
    skate.shutdown()
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        context.page = s.getsockname()[1]
    assert sd.range(10).map(plus).count() == 10
    (url,) = told(capsys)
    assert f":{context.page}/" in url
    for wrong, error in (("yes", TypeError), (-1, ValueError), (70_000, ValueError)):
        with pytest.raises(error, match="True, False or the number of a port"):
            context.page = wrong


def test_a_port_in_use(context):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        with pytest.raises(OSError, match=f"port {port} of 127.0.0.1 is in use"):
            skate.init(**SMALL, _system_config={"page": port})
        assert not skate.is_initialized()
        context.page = port
        with pytest.raises(OSError, match=f"port {port} of 127.0.0.1 is in use"):
            sd.range(10).map(plus).count()


def test_stacks_of_its_processes():
    skate.init(**SMALL)

    @skate.remote
    def pid():
        return os.getpid()

    worker = skate.get(pid.remote())
    with serve() as page:
        assert "test_stacks_of_its_processes" in read(page.url, f"stack/{os.getpid()}")
        assert "Thread" in read(page.url, f"stack/{worker}") or "File" in read(
            page.url, f"stack/{worker}"
        )
        with pytest.raises(AssertionError, match="is none of this engine"):
            read(page.url, "stack/1")


def test_files_of_it(context):
    skate.init(**SMALL)
    assert sd.range(1000).map(plus).count() == 1000
    with serve() as page:
        trace = read(page.url, "trace.json")
        events = trace["traceEvents"] if isinstance(trace, dict) else trace
        assert any(e.get("ph") == "X" for e in events)
        assert "skate_operator_rows_out_total{" in read(page.url, "metrics")


def test_files_of_a_record(tmp_path):
    skate.init(**SMALL, _system_config={"trace": str(tmp_path / "record")})
    assert sd.range(1000).map(plus).count() == 1000
    skate.shutdown()
    with serve(tmp_path / "record") as page:
        assert read(page.url)["ended"] == "closed"
        assert any(e.get("ph") == "X" for e in read(page.url, "trace.json"))
        assert "skate_operator_rows_out_total{" in read(page.url, "metrics")


def fails(row):
    raise ValueError(f"no {row['id']}")


def test_errors_of_runs(context):
    skate.init(**SMALL)
    with serve() as page:
        with pytest.raises(ValueError, match="no"):
            sd.range(10).map(fails).take_all()
        (e,) = read(page.url)["errors"]
        assert re.fullmatch(r"ValueError: no \d", e["text"]) and "Map(fails)" in e["operator"]
        assert re.fullmatch(r"\w{8}", e["replay"]) and e["seconds"] > 0
    context.max_errored_blocks = -1  # the run goes on
    assert sd.range(3, override_num_blocks=1).map(fails).count() == 0
    with serve() as page:
        e = read(page.url)["errors"][-1]
        assert e["text"] == "ValueError: no 0" and "Map(fails)" in e["operator"] and e["replay"]


def test_no_values_of_the_environment(monkeypatch):
    monkeypatch.setenv("SKATE_TEST_SECRET", "s3cr3t-of-the-environment")
    skate.init(**SMALL, runtime_env={"env_vars": {"MY_KEY": "k3y-of-the-workers"}})
    assert sd.range(1000).map(plus).count() == 1000
    with serve() as page:
        workers = [w["pid"] for w in read(page.url)["workers"]]
        parts = ["", "snapshot.json", "trace.json", "metrics"]
        parts += [f"stack/{pid}" for pid in (os.getpid(), *workers)]
        for part in parts:
            text = str(read(page.url, part))
            assert "s3cr3t" not in text and "k3y" not in text, part


def test_an_engine_without_a_view(caplog, context):
    skate.init(local_mode=True)
    context.page = True
    with caplog.at_level(logging.WARNING, "skate"):
        assert sd.range(10).map(plus).count() == 10
    assert "there is no page of this run" in caplog.text


def test_the_child_of_a_fork(capsys):
    skate.init(**SMALL, _system_config={"page": 1})
    (url,) = told(capsys)
    pid = os.fork()
    if not pid:
        os._exit(page_driver._page is not None)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert read(url)["live"]


PROGRAM = """
    import sys
    import skate
    import skate.data as sd

    def wait(row):
        sys.stdin.read(0)
        return row

    skate.init(num_cpus=2, object_store_memory=64 << 20)
    assert sd.range(100).map(wait).count() == 100
    print("ran", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def program(tmp_path):
    """program(**environment) -> a program that has made one run, and goes on until its stdin is
    closed."""
    started = []

    def start(**env):
        script = tmp_path / "program.py"
        script.write_text(textwrap.dedent(PROGRAM))
        p = subprocess.Popen(
            [sys.executable, str(script)],
            env={**ENV, **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(p)
        assert p.stdout.readline() == "ran\n", p.communicate()
        return p

    yield start
    for p in started:
        p.kill()
        p.wait()
        for pipe in (p.stdin, p.stdout, p.stderr):
            pipe.close()


def test_a_program_with_a_page(program):
    p = program(SKATE_PAGE="1")
    url = re.search(r"http://\S+", p.stderr.readline())[0]
    assert read(url)["runs"][0]["state"] == "done"
    host, _, path = url.removeprefix("http://").partition("/")
    c = http.client.HTTPConnection(host, timeout=30)
    c.request("GET", f"/{path}events")
    r = c.getresponse()
    p.stdin.close()  # the program ends: whoever looks has its last state, and that it was the last
    text = r.read().decode()
    assert text.rstrip().endswith("event: end\ndata: {}") and '"state":"done"' in text
    assert p.wait(60) == 0 and p.stderr.read() == ""


SHOW = "import sys; from skate.page import show; show(int(sys.argv[1]))"


def test_a_page_of_another_program(program):
    p = program()
    with subprocess.Popen(
        [sys.executable, "-c", SHOW, str(p.pid)], env=ENV, stdout=subprocess.PIPE, text=True
    ) as viewer:
        url = viewer.stdout.readline().strip()
        now = read(url)
        assert now["pid"] == p.pid and "program.py" in now["program"]
        assert "program.py" in read(url, f"stack/{p.pid}")
        p.stdin.close()
        assert p.wait(60) == 0
        eventually(lambda: not read(url)["live"])
        now = read(url)
        assert now["runs"][0]["state"] == "done"  # the last state stays
        viewer.send_signal(signal.SIGINT)
        assert viewer.wait(60) == 0


def test_a_record(program, tmp_path):
    record = str(tmp_path / "record")
    p = program(SKATE_TRACE=record)
    p.kill()  # its record is written all the same
    p.wait()
    eventually(lambda: os.path.exists(record))
    with serve(record) as page:
        now = read(page.url)
        assert (now["live"], now["ended"], now["pid"]) == (False, "killed", p.pid)
        assert now["runs"][0]["state"] == "done" and now["workers"] == []
        assert any(e.get("ph") == "X" for e in read(page.url, "trace.json"))
        with pytest.raises(AssertionError, match="the engine has ended"):
            read(page.url, f"stack/{p.pid}")
        with open(record, "r+b") as f:
            f.truncate(100)
    with pytest.raises(ValueError):
        serve(record)


def test_a_page_of_nothing(tmp_path):
    with pytest.raises(LookupError, match="process 1 |belongs to another"):
        serve(1)
    with pytest.raises(LookupError, match="No such file"):
        serve(str(tmp_path / "none"))
    with pytest.raises(LookupError, match="no engine is open"):
        serve()
    code = "from skate.page import show; show()"
    assert show.__doc__
    got = subprocess.run(
        ["unshare", "-p", "-f", "--mount-proc", sys.executable, "-c", code],
        env=ENV,
        capture_output=True,
        text=True,
        timeout=60,
    )
    if got.stderr.startswith("unshare:"):
        pytest.skip(got.stderr)
    assert "no process of this user runs skate" in got.stderr
