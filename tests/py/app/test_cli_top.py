"""`skate top` in a terminal, over a program that runs."""

import codecs
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import stat
import struct
import subprocess
import sys
import termios
import time
import urllib.request
from pathlib import Path

import pytest
from test_cli import ENV, skate

PROGRAM = """
import sys
import skate.data
def wait(batch):
    print("in a task", file=sys.stderr, flush=True)
    open(sys.argv[1]).read()
    return batch
ds = skate.data.range(100, override_num_blocks=10).map_batches(wait, fn_args=())
skate.data.DataContext.get_current().enable_progress_bars = False
ds.materialize()
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """A driver whose tasks wait; yields its process."""
    folder = tmp_path_factory.mktemp("top")
    fifo = folder / "fifo"
    os.mkfifo(fifo)
    script = folder / "waits.py"
    script.write_text(PROGRAM.replace("sys.argv[1]", repr(str(fifo))))
    p = subprocess.Popen(
        [sys.executable, script], env=ENV, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert "in a task" in p.stderr.readline()
        yield p
    finally:
        p.kill()
        p.communicate()


class Terminal:
    """A command in a terminal of its own."""

    def __init__(self, *args, columns=80, env=()):
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        self.text = ""
        self.decode = codecs.getincrementaldecoder(
            "utf-8"
        )().decode  # a read may end in a character
        self.p = subprocess.Popen(
            list(map(str, args)),
            env={**ENV, "TERM": "xterm-256color", **dict(env)},
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    def until(self, text):
        """Reads until a text is there."""
        deadline = time.monotonic() + 60
        while text not in self.text:
            assert select.select([self.master], [], [], deadline - time.monotonic())[0], self.text
            self.text += self.decode(os.read(self.master, 1 << 16))

    def end(self):
        """Waits for the end, reads the rest; returns the exit status."""
        deadline = time.monotonic() + 60
        while True:
            assert time.monotonic() < deadline, self.text
            try:
                self.p.wait(0.02)
                break
            except subprocess.TimeoutExpired:
                self.rest()
        self.rest()
        return self.p.returncode

    def rest(self):
        while select.select([self.master], [], [], 0)[0]:
            self.text += self.decode(os.read(self.master, 1 << 16))

    def close(self):
        with contextlib.suppress(ProcessLookupError):
            self.p.kill()
        self.p.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def terminal():
    made = []

    def open_one(*args, **how):
        made.append(Terminal(*args, **how))
        return made[-1]

    yield open_one
    for t in made:
        t.close()


TOP = (sys.executable, "-m", "skate", "top")
LEAVES = "\x1b[?1049l"  # the screen that was there before


@pytest.mark.parametrize("how, status", [("q", 0), ("\x03", 0), (signal.SIGTERM, 143)])
def test_it_ends_clean(program, terminal, how, status):
    t = terminal(*TOP, program.pid, "--interval", "0.2")
    t.until("MapBatches(wait)")
    assert not termios.tcgetattr(t.slave)[3] & (termios.ECHO | termios.ICANON)
    if isinstance(how, str):
        os.write(t.master, how.encode())
    else:
        t.p.send_signal(how)
    assert t.end() == status, t.text
    assert termios.tcgetattr(t.slave) == t.before
    assert t.text.endswith(LEAVES + "\x1b[?25h") or t.text.endswith("\x1b[?25h" + LEAVES), t.text[
        -80:
    ]
    assert "Traceback" not in t.text


def test_it_pauses(program, terminal):
    """Ctrl-Z gives the shell its screen and its keys back; the command goes on where it was."""
    t = terminal("bash", "--norc", "--noprofile", "-i", env={"PS1": "> "})
    line = f"{sys.executable} -m skate top {program.pid} --interval 0.1\n"
    t.until("> ")
    os.write(t.master, line.encode())
    t.until("MapBatches(wait)")
    for step, then in ((b"\x1a", LEAVES), (b"", "Stopped"), (b"fg\n", "MapBatches(wait)")):
        t.text = "" if step else t.text
        os.write(t.master, step)
        t.until(then)
    os.write(t.master, b"q")
    t.until(LEAVES)
    os.write(t.master, b"exit 5\n")
    assert t.end() == 5 and "Traceback" not in t.text


def test_it_ends_with_the_program(tmp_path, terminal):
    """What was seen last stays in the terminal."""
    script = tmp_path / "ends.py"
    script.write_text(
        "import skate, sys; skate.init(num_cpus=1); print('up', flush=True); sys.stdin.read()"
    )
    p = subprocess.Popen(
        [sys.executable, script], env=ENV, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert p.stdout.readline() == b"up\n"
        t = terminal(*TOP, p.pid, "--interval", "0.1")
        t.until("ends.py")
    finally:
        p.communicate()
    assert t.end() == 0 and termios.tcgetattr(t.slave) == t.before
    assert "closed" in t.text.rpartition(LEAVES)[2]


@pytest.mark.parametrize(
    "columns, env",
    [(40, {}), (80, {"NO_COLOR": "1"}), (80, {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"})],
)
def test_terminals(program, terminal, columns, env):
    t = terminal(*TOP, program.pid, "--interval", "0.1", columns=columns, env=env)
    t.until("Dataset ")
    os.write(t.master, b"q")
    assert t.end() == 0 and "Traceback" not in t.text
    if "NO_COLOR" in env:
        assert "\x1b[33m" not in t.text and "\x1b[1;33m" not in t.text


def test_without_a_screen(program, terminal):
    """A dumb terminal, a pipe and --once get the present state as text."""
    t = terminal(*TOP, program.pid, env={"TERM": "dumb"})
    assert t.end() == 0 and "MapBatches(wait)" in t.text and "\x1b" not in t.text
    out, err, rc = skate("top", program.pid)
    assert rc == 0 and "MapBatches(wait)" in out and "\x1b" not in out, err
    t = terminal(*TOP, "--once", program.pid)
    assert t.end() == 0 and "MapBatches(wait)" in t.text and LEAVES not in t.text


def test_json(program):
    out, err, rc = skate("top", "--json", program.pid)
    now = json.loads(out)
    assert rc == 0 and now["pid"] == program.pid and now["live"], err
    assert "MapBatches(wait)" in now["runs"][-1]["ops"][0]["label"]
    out, err, rc = skate("store", "--json", program.pid)
    (engine,) = json.loads(out)["engines"]
    assert rc == 0 and engine["pid"] == program.pid, err
    assert 0 <= engine["store"]["resident"] <= engine["store"]["capacity"]


def test_stack_and_memory_as_json(program):
    out, err, rc = skate("stack", "--json", program.pid)
    (engine,) = json.loads(out)["engines"]
    assert rc == 0 and engine["pid"] == program.pid and "waits.py" in engine["stack"], err
    assert any(
        "MapBatches(wait)" in w["task"] and "in wait\n" in w["stack"] for w in engine["workers"]
    )
    out, err, rc = skate("memory", "--json", program.pid)
    (engine,) = json.loads(out)["engines"]
    rows = {p["pid"]: p for p in engine["processes"]}
    assert rc == 0 and rows[program.pid]["bytes"] > 1 << 20, err
    assert sum(p["bytes"] for p in rows.values()) == engine["bytes"]
    assert engine["store"]["capacity"] > engine["store"]["resident"] >= 0


def test_store(program):
    out, err, rc = skate("store", program.pid)
    first, *rows = out.splitlines()
    assert rc == 0 and first.startswith(f"driver {program.pid} ("), err
    names = [row.rsplit("  ", 1)[0].strip() for row in rows if row.strip()]
    assert names[:2] == ["used", "in memory"] and "on disk now" in names


def test_which_program(program):
    """Without a pid there is one program to show, or the message names them."""
    p = subprocess.Popen(
        [sys.executable, "-c", "import skate; skate.init(num_cpus=1); print(flush=True); input()"],
        env=ENV,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        p.stdout.readline()
        out, err, rc = skate("top", "--once")
        assert (out, rc) == ("", 1) and "programs run skate, say which by its pid: " in err
        assert f"{p.pid} (" in err and f"{program.pid} (" in err
    finally:
        p.communicate()


def test_timeline(program, tmp_path):
    args = ("timeline", program.pid)
    out, err, rc = skate(*args, "-o", "-")
    events = json.loads(out)
    assert rc == 0 and any(e["ph"] == "X" and "wait" in e["name"] for e in events), err
    out, err, rc = skate(*args, cwd=tmp_path)
    assert rc == 0 and out.startswith(f"timeline-{program.pid}.json: "), err
    assert json.loads((tmp_path / f"timeline-{program.pid}.json").read_text())
    out, err, rc = skate(*args, "-o", tmp_path / "no" / "where")
    assert (out, rc) == ("", 1) and "no/where: No such file or directory\n" in err


def test_a_record(tmp_path):
    """Of a run that is over, there is a timeline and a page."""
    code = "import skate.data; skate.data.range(10).materialize()"
    out, err, rc = skate("run", "--trace", "r.skate", "-c", code, cwd=tmp_path)
    assert rc == 0 and (tmp_path / "r.skate").exists(), err
    out, err, rc = skate("timeline", "r.skate", cwd=tmp_path)
    assert rc == 0 and out.startswith("r.skate.json: "), err
    names = {e["name"] for e in json.loads((tmp_path / "r.skate.json").read_text())}
    assert any("ReadRange" in name for name in names)
    (tmp_path / "text").write_text("no record")
    for command in ("timeline", "page"):
        for where, said in (("text", "not a record"), ("none", "No such file")):
            out, err, rc = skate(command, where, cwd=tmp_path)
            assert (out, rc) == ("", 1) and said in err and err.count("\n") == 1, err


def test_page(program):
    with subprocess.Popen(
        [sys.executable, "-m", "skate", "page", str(program.pid), "--no-browser"],
        env={**ENV, "DISPLAY": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as p:
        try:
            url = p.stdout.readline().strip()
            with urllib.request.urlopen(url, timeout=60) as answer:
                assert answer.status == 200 and b"<html" in answer.read().lower()
            port = url.split(":")[2].split("/")[0]
            out, err, rc = skate("page", program.pid, "--port", port, "--no-browser")
            assert (out, rc) == ("", 1) and port in err and err.count("\n") == 1, err
        finally:
            p.send_signal(signal.SIGINT)
        assert p.wait(60) == 0 and p.stderr.read() == ""


def test_the_page_opens_in_a_browser(program, tmp_path):
    """In that of the variable BROWSER, where there is a display."""
    browser, seen = tmp_path / "browser", tmp_path / "seen"
    os.mkfifo(seen)
    browser.write_text(f'#!/bin/sh\necho "$1" > {seen}\n')
    browser.chmod(0o755)
    p = subprocess.Popen(
        [sys.executable, "-m", "skate", "page", str(program.pid)],
        env={**ENV, "DISPLAY": ":0", "BROWSER": str(browser)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        url, opened = p.stdout.readline().strip(), seen.read_text().strip()
        token = url.split("/")[3]
        assert opened.startswith("file://") and token not in opened  # other users see the arguments
        door = Path(opened.removeprefix("file://"))
        assert stat.S_IMODE(door.parent.stat().st_mode) == 0o700
        way = re.search(r"url=(http://\S+)\">", door.read_text())[1]
        assert token not in way
        with urllib.request.urlopen(way, timeout=60) as answer:
            assert f"/{token}/" in answer.read().decode()
    finally:
        p.send_signal(signal.SIGINT)
        p.communicate()
    assert p.returncode == 0 and not door.exists()


@pytest.mark.parametrize(
    "args, said",
    [
        (["page", "--port", "70000"], "a number from 1 to 65535 is wanted, not '70000'"),
        (["page", "--port", "80", "--socket", "x"], "--port and --socket: choose one of them"),
        (["top", "--interval", "never"], "a number above 0 is wanted, not 'never'"),
        (["timeline", "99999999999"], "a process id is wanted, not '99999999999'"),
    ],
)
def test_a_wrong_use(args, said):
    out, err, rc = skate(*args)
    assert (out, rc) == ("", 2) and said in err and err.count("\n") == 1, err
