"""breakpoint() in tasks: one worker has the terminal and the others wait, no progress line is drawn
over its prompt, and cancelling works afterwards."""

import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
import skate
from waits import wait_until


class Terminal:
    """A program in a terminal: the text that it shows, and keys that are typed."""

    def __init__(self, text, **env):
        self.ours, theirs = pty.openpty()
        env = {
            **os.environ,
            "TERM": "xterm",
            "PYTHONPATH": os.path.dirname(os.path.dirname(skate.__file__)),
            **env,
        }
        self.p = subprocess.Popen(
            [sys.executable, "-c", text], stdin=theirs, stdout=theirs, stderr=theirs, env=env
        )
        os.close(theirs)
        self.shown = ""

    def until(self, *wanted):
        """Returns the text that is shown from now on, up to the end of the first of these texts;
        for None, all text up to the end of the program."""
        deadline = time.monotonic() + 60
        while True:
            found = [
                (m.end(), w) for w in wanted if w is not None and (m := re.search(w, self.shown))
            ]
            if found:
                end, w = min(found)
                seen, self.shown = self.shown[:end], self.shown[end:]
                return w, seen
            assert select.select([self.ours], [], [], max(0, deadline - time.monotonic()))[0], (
                self.shown
            )
            try:
                self.shown += os.read(self.ours, 65536).decode().replace("\r\n", "\n")
            except OSError:  # the other end is closed
                assert None in wanted, self.shown
                return None, self.shown

    def type(self, text):
        os.write(self.ours, text.encode() + b"\n")

    def end(self):
        os.close(self.ours)
        self.p.kill()
        self.p.wait(60)


@pytest.fixture
def terminal():
    opened = []
    yield lambda *a, **k: opened.append(Terminal(*a, **k)) or opened[-1]
    for t in opened:
        t.end()


DATASET = """
import time, skate, skate.data as sd
def f(b):
    k = int(b["id"][0])
    breakpoint()
    print("after", k)
    return b
skate.init(num_cpus=2)
print("rows", sd.range(4, override_num_blocks=4).map_batches(f).count())
"""


def test_one_worker_has_the_terminal(terminal):
    t = terminal(DATASET)
    seen, at, everything = [], "", ""
    while True:
        which, text = t.until(r"\(Pdb\) ", None)
        at += text
        everything += text
        if which is None:
            break
        prompt = at.rpartition("\n")[2]
        assert prompt.endswith("(Pdb) ") and "inputs" not in prompt, prompt
        if not seen:  # the other worker waits, which the kernel shows for its process
            wait_until(lambda: re.search(r"-> POSIX .* WRITE", Path("/proc/locks").read_text()))
        assert at.count("has the terminal; other breakpoints wait") == 1, at
        t.type("p 'k', k")
        _, text = t.until(r"\(Pdb\) ")
        assert "rows/s in" not in text and "working" not in text, (
            text
        )  # the typed text is not drawn over
        # this worker, and no other, has read the line
        seen.append(int(re.search(r"^\('k', (\d)\)$", text, re.M)[1]))
        t.type("n")
        _, text = t.until(r"\(Pdb\) ")
        assert "rows/s in" not in text and "working" not in text, text
        at = ""
        t.type("c")
    assert sorted(seen) == [0, 1, 2, 3] and "rows 4\n" in at
    assert "waited at a breakpoint until process " in everything and t.p.wait(60) == 0


CANCEL = """
import sys, time, skate
@skate.remote
def f(how, path):
    if how == "import":
        import pdb
        pdb.set_trace()
    else:
        breakpoint()
    open(path, "w").close()
    while True:
        time.sleep(0.01)
def cancel(how):
    ref = f.remote(how, PATH)
    open(PATH).close()
    skate.cancel(ref)
    try:
        skate.get(ref)
    except Exception as e:
        print("ended by", type(e).__name__)
skate.init(num_cpus=1)
for how in ("breakpoint", "import", "at the prompt"):
    cancel(how)
"""


def test_a_cancel_after_a_breakpoint(terminal, tmp_path):
    """pdb's own handler of SIGINT once opened a prompt inside skate, at which the program
    waited."""
    os.mkfifo(tmp_path / "fifo")
    t = terminal(CANCEL.replace("PATH", repr(str(tmp_path / "fifo"))))
    for _ in range(2):
        t.until(r"\(Pdb\) ")
        t.type("c")
        which, text = t.until(r"ended by TaskCancelledError", r"\(Pdb\) ")
        assert "ended" in which, text
    t.until(r"\(Pdb\) ")
    (tmp_path / "fifo").write_text("")  # a task that waits at the prompt is cancelled, too
    t.until(r"ended by TaskCancelledError")
    assert t.until(None)[0] is None and t.p.wait(60) == 0


STEPS = """
import skate
@skate.remote(max_retries=0)
def f(i):
    x = i
    breakpoint()
    x += 1
    return x
skate.init(num_cpus=2)
def value(ref):
    try:
        return skate.get(ref)
    except Exception as e:
        return type(e).__name__
values = [value(ref) for ref in [f.remote(i) for i in range(3)]]
print("values", values)
"""


def test_the_terminal_is_let_go(terminal):
    """The terminal is released by a task that ends at a prompt, and by a task that is quit."""
    t = terminal(STEPS)
    for how in ("q", "r", "c"):
        t.until(r"\(Pdb\) ")
        t.type(how)
        if how == "r":  # stops at the return statement
            assert "--Return--" in t.until(r"\(Pdb\) ")[1]
            t.type("n")  # leaves the function
    _, text = t.until(None)
    assert "RayTaskError(BdbQuit)" in text and text.count("'") == 2 and t.p.wait(60) == 0, text


NO_READLINE = """
import sys, skate
@skate.remote
def f():
    sys.modules["readline"] = None  # as in a Python that was built without it
    breakpoint()
    return 7
skate.init(num_cpus=1)
print("got", skate.get(f.remote()))
"""


def test_a_python_without_readline_shows_its_prompt(terminal):
    t = terminal(NO_READLINE)
    t.until(r"\(Pdb\) ")
    t.type("c")
    t.until("got 7")
