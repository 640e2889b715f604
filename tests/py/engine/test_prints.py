"""What tasks print: whole lines, with the task's name, through sys.stdout and sys.stderr of the
driver, shown before get() returns."""

import contextlib
import io
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time

import pytest
import skate
from waits import wait_until

LABEL = re.compile(r"^\((?:(.+) )?pid=(\d+)\) ", re.M)


@pytest.fixture(scope="module")
def local():
    skate.shutdown()
    skate.init(
        num_cpus=2,
        num_gpus=0,
        object_store_memory=64 << 20,
        _system_config={"preload": "light_pytest"},
    )
    yield
    skate.shutdown()


def labelled(text):
    """[(name, line)] of the text."""
    return [(LABEL.match(line)[1], LABEL.sub("", line)) for line in text.splitlines()]


@skate.remote
def say(*lines):
    for line in lines:
        print(line)
    print("end", file=sys.stderr)


def test_prints_are_there_when_get_returns(local, capsys):
    for i in range(50):
        skate.get(say.remote(f"line {i}", "ünï"))
        out, err = capsys.readouterr()
        assert labelled(out) == [("say", f"line {i}"), ("say", "ünï")] and labelled(err) == [
            ("say", "end")
        ]

    @skate.remote
    def fails():
        print("before", flush=True)
        raise ValueError("no")

    with pytest.raises(ValueError):
        skate.get(fails.remote())
    assert labelled(capsys.readouterr().out) == [("fails", "before")]
    skate.wait([say.remote("waited for")])
    assert labelled(capsys.readouterr().out) == [("say", "waited for")]

    @skate.remote(num_returns="streaming")
    def stream():
        for i in range(3):
            print("item", i)
            yield i

    for i, _ in enumerate(stream.remote()):
        # lines of later tasks may have been printed and shown before
        assert f"item {i}\n" in capsys.readouterr().out or i


def test_names_of_actors(local):
    @skate.remote
    class Counter:
        def __init__(self):
            print("begins")

        def say(self, text):
            print(text)

        async def later(self, text):
            print(text)

    class Named:
        def __repr__(self):
            return "Named(7)"

        def say(self, text):
            print(text)

    with contextlib.redirect_stdout(io.StringIO()) as out:
        a, b = Counter.remote(), skate.remote(Named).remote()
        skate.get([a.say.remote("a"), a.later.remote("later"), b.say.remote("b\nc")])
        skate.get(say.options(name="mine").remote("d"))
    assert sorted(labelled(out.getvalue())) == sorted(
        [
            ("Counter", "begins"),
            ("Counter", "a"),
            ("Counter", "later"),
            ("Named(7)", "b"),
            ("Named(7)", "c"),
            ("mine", "d"),
        ]
    )


def test_a_line_ends_with_its_task(local, capsys):
    @skate.remote
    def half(i):
        print(f"half {i}", end="")

    skate.get([half.remote(i) for i in range(4)])
    assert sorted(labelled(capsys.readouterr().out)) == [("half", f"half {i}") for i in range(4)]

    @skate.remote
    def long():
        print("x" * 100_000)
        print("y", end="", flush=True)
        print("z")

    skate.get(long.remote())
    assert labelled(capsys.readouterr().out) == [("long", "x" * 100_000), ("long", "yz")]


def test_c_code_and_child_programs(local, capsys, gate):
    @skate.remote
    def raw(path):
        os.write(1, b"from C\n")
        subprocess.run(["sh", "-c", "echo child; echo error >/dev/stderr"], check=True)
        open(path, "rb", 0).read(1)  # it is still running when the driver reads

    seen = ["", ""]

    def there():
        seen[:] = [a + b for a, b in zip(seen, capsys.readouterr(), strict=True)]
        return "child\n" in seen[0] and "error\n" in seen[1]

    ref = raw.remote(gate.path)
    wait_until(there)
    gate.let_go()
    skate.get(ref)
    assert labelled(seen[0]) == [("raw", "from C"), ("raw", "child")] and labelled(seen[1]) == [
        ("raw", "error")
    ]


def test_killed_in_the_middle_of_a_line(local, capsys):
    @skate.remote(max_retries=0)
    def dies(i):
        print("whole", i)
        print("half", i, end="", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

    refs = [dies.remote(i) for i in range(6)]
    for ref in refs:
        with pytest.raises(skate.exceptions.WorkerCrashedError):
            skate.get(ref)
    want = [("dies", f"{what} {i}") for i in range(6) for what in ("whole", "half")]
    seen = []

    def all_there():
        seen.extend(labelled(capsys.readouterr().out))
        return len(seen) >= len(want)

    wait_until(all_there)
    assert sorted(seen) == sorted(want)


def test_a_stream_of_the_program_that_waits_for_a_task(local, monkeypatch):
    seen, over = [], threading.Event()

    class Stream(io.StringIO):
        def write(self, text):
            seen.append((text, skate.get(echo.remote(text))))
            over.set()
            return len(text)

    @skate.remote
    def echo(x):
        return x

    @skate.remote
    def loud():
        print("loud")

    monkeypatch.setattr(sys, "stdout", Stream())
    skate.get(loud.remote())
    # the thread that shows lines may be in this write, and get() waits only a second for it
    assert over.wait(60)
    monkeypatch.undo()
    assert [LABEL.sub("", text) for text, _ in seen] == ["loud\n"] and seen[0][0] == seen[0][1]


def test_a_stream_that_refuses(local, monkeypatch):
    class Refuses(io.StringIO):
        def write(self, text):
            raise OSError("no")

    monkeypatch.setattr(sys, "stdout", Refuses())
    skate.get(say.remote("for nobody"))
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stdout", closed)
    skate.get(say.remote("for nobody"))
    monkeypatch.setattr(sys, "stdout", None)
    skate.get(say.remote("for nobody"))
    ascii_only = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", ascii_only)
    skate.get(say.remote("ü"))
    monkeypatch.undo()
    assert LABEL.sub("", ascii_only.buffer.getvalue().decode()) == "\\xfc\n"


def test_an_interrupt_while_lines_are_shown_is_not_lost(local, monkeypatch):
    class Interrupted:
        def write(self, text):
            if threading.current_thread() is threading.main_thread():
                raise KeyboardInterrupt

        def flush(self):
            pass

    @skate.remote
    def say():
        print("here")

    with pytest.raises(KeyboardInterrupt), monkeypatch.context() as m:
        m.setattr(sys, "stdout", Interrupted())
        for _ in range(1000):  # the thread that reads may be first
            skate.get(say.remote())
    assert skate.get(say.remote()) is None


def test_descriptors_are_given_back(local, capfd):
    @skate.remote(max_calls=1)
    def once():
        print("once")

    skate.get([once.remote() for _ in range(4)])
    before = len(os.listdir("/proc/self/fd"))
    skate.get([once.remote() for _ in range(20)])
    wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before)
    assert capfd.readouterr().out.count("once\n") == 24


def program(text, *more, **env):
    """The output of a program whose stdout and stderr are one pipe."""
    env = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(skate.__file__)), **env}
    p = subprocess.run(
        [sys.executable, "-c", text, *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=env,
        timeout=120,
    )
    assert p.returncode == 0, p.stdout
    return p.stdout.decode()


PIECES = """
import skate, sys
@skate.remote
def pieces(i):
    for k in range(300):
        for c in "%d,%d" % (i, k):
            print(c, end="", flush=True)
        print("!")
skate.init(num_cpus=4)
skate.get([pieces.remote(i) for i in range(4)])
print("done")
"""


def test_lines_of_workers_do_not_mix():
    lines = program(PIECES).splitlines()
    assert lines[-1] == "done" and sorted(labelled("\n".join(lines[:-1]))) == sorted(
        ("pieces", f"{i},{k}!") for i in range(4) for k in range(300)
    )
    for i in range(4):  # their order is kept
        mine = [line for _, line in labelled("\n".join(lines[:-1])) if line.startswith(f"{i},")]
        assert mine == [f"{i},{k}!" for k in range(300)]


AT_EXIT = """
import os, sys, skate
@skate.remote
def f(path):
    print("before the end")
    with open(path, "w"):
        pass
skate.init(num_cpus=1)
os.mkfifo(sys.argv[1])
ref = f.remote(sys.argv[1])
open(sys.argv[1]).close()
"""


def test_nothing_is_lost_at_the_end_of_the_program(tmp_path):
    assert labelled(program(AT_EXIT, str(tmp_path / "fifo"))) == [("f", "before the end")]


SETTINGS = """
import sys, skate
@skate.remote
def f():
    print("hello")
    print("error", file=sys.stderr)
skate.init(num_cpus=1, **eval(sys.argv[1]))
skate.get(f.remote())
skate.shutdown()
skate.init(num_cpus=1, **eval(sys.argv[1]))
skate.get(f.remote())
"""


def test_settings():
    # lines of stdout and of stderr have no common order
    both = ["error", "error", "hello", "hello"]
    assert sorted(line for _, line in labelled(program(SETTINGS, "{}"))) == both
    assert (
        sorted(line for _, line in labelled(program(SETTINGS, "{'namespace': 'print_labels'}")))
        == both
    )
    assert program(SETTINGS, "{'log_to_driver': False}") == ""
    assert sorted(program(SETTINGS, "{'_system_config': {'print_labels': 0}}").splitlines()) == both
    assert sorted(program(SETTINGS, "{}", SKATE_PRINT_LABELS="0").splitlines()) == both
    assert program(SETTINGS, "{}", SKATE_ENGINE="inline") == "hello\nerror\n" * 2


FEW = """
import resource, skate
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
@skate.remote(num_cpus=0)
class A:
    def say(self, i):
        print("actor", i)
skate.init(num_cpus=1)
actors = [A.remote() for _ in range(40)]
skate.get([a.say.remote(i) for i, a in enumerate(actors)])
files = [open("/dev/null") for _ in range(12)]  # some are left for the program
"""


def test_few_descriptors():
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 64
    assert sorted(LABEL.sub("", line) for line in program(FEW).splitlines()) == sorted(
        f"actor {i}" for i in range(40)
    )


FLOOD = """
import sys, skate
@skate.remote
def flood(i):
    for k in range(20000):
        print("line", i, k, "x" * 80)
skate.init(num_cpus=2)
skate.get([flood.remote(i) for i in range(2)])
"""


def test_a_program_that_nobody_reads_loses_nothing():
    env = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(skate.__file__))}
    p = subprocess.Popen([sys.executable, "-c", FLOOD], stdout=subprocess.PIPE, env=env)
    filled = io.BytesIO()
    filled.write(os.read(p.stdout.fileno(), 1))
    assert p.poll() is None  # the program waits, since 4 MB do not fit into a pipe
    text = (filled.getvalue() + p.stdout.read()).decode()
    assert p.wait(60) == 0
    for i in range(2):
        mine = [line.split()[2] for _, line in labelled(text) if line.startswith(f"line {i} ")]
        assert mine == [str(k) for k in range(20000)]


FORKS = """
import os, sys, skate
@skate.remote
def f(i):
    print("hello", i)
skate.init(num_cpus=1)
skate.get(f.remote(1))
if os.fork() == 0:
    skate.init(num_cpus=1)
    skate.get(f.remote(2))
    skate.shutdown()
    sys.stdout.flush()
    os._exit(0)
os.wait()
skate.get(f.remote(3))
"""


def test_a_forked_driver_has_prints_of_its_own():
    assert sorted(line for _, line in labelled(program(FORKS))) == ["hello 1", "hello 2", "hello 3"]


def test_threads_that_print(local, capsys):
    @skate.remote
    def many():
        threads = [
            threading.Thread(
                target=lambda i=i: [print(f"thread {i} line {k}\n", end="") for k in range(50)]
            )
            for i in range(4)
        ]
        for t in threads:
            t.start()
        for t in threads:
            t.join()

    skate.get(many.remote())
    assert sorted(labelled(capsys.readouterr().out)) == sorted(
        ("many", f"thread {i} line {k}") for i in range(4) for k in range(50)
    )


def test_a_task_that_prints_nothing_wakes_nobody(local):
    @skate.remote
    def nothing():
        pass

    def switches():  # context switches of the thread that shows lines
        found = {}
        for tid in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{tid}/wchan") as f:
                if "ep_poll" in f.read():
                    with open(f"/proc/self/task/{tid}/status") as f:
                        found[tid] = re.search(r"^voluntary_ctxt_switches:\s(\d+)", f.read(), re.M)[
                            1
                        ]
        return found

    skate.get(nothing.remote())
    time.sleep(0.05)
    before = switches()
    skate.get([nothing.remote() for _ in range(500)])
    assert switches() == before
