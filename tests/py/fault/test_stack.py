"""Inspecting running processes from outside: `skate stack`, `skate memory`, Ctrl-\\, and pdb inside
a task."""

import fcntl
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest
from procs import wait_gone

HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
ENV = {**os.environ, "PYTHONPATH": os.path.join(HERE, "python"), "PYTHONUNBUFFERED": "1"}

PROGRAM = """
    import ctypes, os, sys
    import skate as ray

    fifo, up = sys.argv[1:3]
    ray.init(num_cpus=2, object_store_memory=64 << 20)

    def told():
        with open(up, "wb", 0) as f:
            f.write(b"u")

    @ray.remote
    def stuck_in_c():
        fd = os.open(fifo, os.O_RDWR)
        told()
        ctypes.PyDLL(None).read(fd, ctypes.create_string_buffer(8), 1)  # with the GIL held: no Python code runs any more

    @ray.remote
    class Actor:
        def held(self):
            f = os.open(fifo, os.O_RDWR)
            told()
            os.read(f, 1)

    a = Actor.options(name="joe").remote()
    refs = [stuck_in_c.remote(), a.held.remote()]

    def in_the_driver():
        print("waiting", flush=True)
        ray.get(refs)

    in_the_driver()
"""


@pytest.fixture
def program(tmp_path):
    """A driver that waits for two tasks which hang; yields its process."""
    fifo, up = str(tmp_path / "fifo"), str(tmp_path / "up")
    os.mkfifo(fifo)
    os.mkfifo(up)
    keep = os.open(up, os.O_RDWR)
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(PROGRAM))
    p = subprocess.Popen(
        [sys.executable, str(script), fifo, up],
        env=ENV,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert p.stdout.readline() == "waiting\n"
        for _ in range(2):
            assert select.select([keep], [], [], 60)[0] and os.read(keep, 1) == b"u"
        yield p
    finally:
        p.kill()
        p.communicate()
        os.close(keep)


def skate(*args):
    return subprocess.run(
        [sys.executable, "-m", "skate", *map(str, args)],
        env=ENV,
        capture_output=True,
        text=True,
        timeout=120,
    )


def workers(text):
    return {m[2]: int(m[1]) for m in re.finditer(r"^worker (\d+): task (\S+), for", text, re.M)}


def whole(pid, want):
    """The output of `skate stack` when it shows what the driver waits for, which the driver records
    after waiting 10 ms."""
    for _ in range(200):
        r = skate("stack", pid)
        assert r.returncode == 0, r.stderr
        if want in r.stdout:
            return r.stdout
    raise AssertionError(r.stdout)


def test_stack(program):
    text = whole(
        program.pid,
        " waits for get(): 2 of 2 objects are not there; the first is made by task stuck_in_c, which runs in worker ",
    )
    assert text.startswith(f"driver {program.pid} (") and "in in_the_driver\n" in text
    w = workers(text)
    assert set(w) == {"stuck_in_c", "Actor.held"}
    parts = dict(
        re.findall(r"^worker \d+: task (\S+), for [^\n]*\n(.*?)\n\n", text + "\n", re.M | re.S)
    )
    assert (
        "program.py" in parts["stuck_in_c"]
        and "in stuck_in_c\n" in parts["stuck_in_c"]
        and "in held\n" in parts["Actor.held"]
    )
    # any process of the engine may be named
    assert skate("stack", w["Actor.held"]).stdout.count("worker ") >= 2
    assert program.poll() is None


def test_stack_of_a_stopped_process(program):
    w = workers(whole(program.pid, "2 of 2"))
    os.kill(w["Actor.held"], signal.SIGSTOP)
    text = skate("stack", program.pid, "--timeout", 1).stdout
    assert re.search(
        r"task Actor.held.*\n    \(no answer within 1 s; the kernel says: [Tt] \(", text
    ), text
    assert "in stuck_in_c\n" in text
    os.kill(w["Actor.held"], signal.SIGCONT)


def test_memory(program):
    w = workers(whole(program.pid, "2 of 2"))
    r = skate("memory", program.pid)
    assert r.returncode == 0
    for pid in (program.pid, *w.values()):
        assert re.search(rf"^ +{pid} +[\d.]+ MiB", r.stdout, re.M), r.stdout
    assert "of 64.0 MiB" in r.stdout
    assert re.search(rf"^ +{program.pid} +[\d.]+ MiB  driver \(.*program\.py ", r.stdout, re.M), (
        r.stdout
    )


def test_nobody_to_ask():
    r = skate("stack", os.getppid())
    assert r.returncode == 1 and re.match(r"skate stack: process \d+ does not run skate", r.stderr)
    assert "usage:" in skate().stderr


def test_nothing_is_killed_by_looking(tmp_path):
    """A process without a handler would end at the signal, so the signal is not sent to it."""
    p = subprocess.Popen(["sleep", "600"])
    try:
        sys.path.insert(0, ENV["PYTHONPATH"])
        from skate._private import stack

        assert "not a process of skate" in stack.stacks([p.pid])[p.pid]
        assert p.poll() is None
    finally:
        p.kill()
        p.wait()


def test_a_program_under_qemu_gets_no_signal(tmp_path):
    """qemu 7.2 has a handler for each signal, and gives its program another number than was sent:
    `skate stack` and `skate top` ended programs of arm64."""
    from skate._private import stack

    qemu = tmp_path / "qemu-aarch64"
    shutil.copy(os.path.realpath(sys.executable), qemu)
    code = (
        "import signal, sys; signal.signal(int(sys.argv[1]), lambda *_: print('signal', flush=True));"
        "print('there', flush=True); sys.stdin.read()"
    )
    p = subprocess.Popen(
        [qemu, "-c", code, str(signal.SIGRTMAX - 6)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**ENV, "PYTHONHOME": sys.base_prefix},
    )
    try:
        assert p.stdout.readline() == "there\n"
        assert "not a process of skate" in stack.stacks([p.pid], seconds=1)[p.pid]
    finally:
        told, _ = p.communicate()
    assert told == ""


FORGER = """
    import ctypes, fcntl, os, sys
    libc = ctypes.CDLL(None)
    driver, path = int(sys.argv[1]), sys.argv[2]
    with open(path, "rb") as f:
        head = f.read(1 << 20).replace(driver.to_bytes(4, "little"), os.getpid().to_bytes(4, "little"), 1)
        size = os.fstat(f.fileno()).st_size
    fd = os.memfd_create("skate-ctl", os.MFD_ALLOW_SEALING)
    os.write(fd, head)
    os.truncate(fd, size)
    fcntl.fcntl(fd, 1033, 2)  # F_ADD_SEALS, F_SEAL_SHRINK
    os.setgid(65534)
    os.setuid(65534)
    libc.prctl(4, 1)  # PR_SET_DUMPABLE, as after exec
    print("there", flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_segment_that_names_processes_of_others(program):
    """Another user's memfd looks like an engine's segment: root's `skate stack` once sent signals
    to the processes that it names."""
    sys.path.insert(0, ENV["PYTHONPATH"])
    from skate._private import stack

    w = workers(whole(program.pid, "2 of 2"))
    path = stack._segment(program.pid)
    forger = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(FORGER), str(program.pid), path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert forger.stdout.readline() == "there\n"
        r = skate("stack")
        assert (
            f"process {forger.pid} of user" in r.stdout and f"skate stack {forger.pid}" in r.stdout
        ), r
        assert all(r.stdout.count(f"worker {pid}:") == 1 for pid in w.values())
        r = skate("stack", forger.pid)
        assert not any(f"worker {pid}:" in r.stdout for pid in w.values()), r
        forged = stack.engines(forger.pid)
        assert [(d, rows) for d, _, rows in forged] == [(forger.pid, [])]
        assert [d for d, _, _ in stack.engines()].count(forger.pid) == 0
    finally:
        forger.communicate()


def test_an_engine_that_begins_just_now_is_passed_over(program):
    """Its segment has no size yet, or no content."""
    w = workers(whole(program.pid, "2 of 2"))
    for size in (0, 1 << 16):
        fd = os.memfd_create("skate-ctl", os.MFD_ALLOW_SEALING)
        try:
            os.truncate(fd, size)
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
            r = skate("stack")
            assert r.returncode == 0 and all(
                r.stdout.count(f"worker {pid}:") == 1 for pid in w.values()
            ), r
            r = skate("stack", os.getpid())
            assert (
                r.returncode
                and f"process {os.getpid()} does not run skate" in r.stderr
                and "Traceback" not in r.stderr
            ), r
        finally:
            os.close(fd)


def read_until(stream, *wanted):
    out = ""
    while not all(w in out for w in wanted):
        line = stream.readline()
        assert line, out
        out += line
    return out


def test_ctrl_backslash(program):
    """The signal goes to the whole process group, as from a terminal: each process prints one
    stack, and the program continues; a second signal ends it."""
    w = workers(whole(program.pid, "2 of 2"))
    os.killpg(program.pid, signal.SIGQUIT)
    out = read_until(
        program.stderr, "in stuck_in_c", "in held", "in in_the_driver", "again within 2 seconds"
    )
    assert out.count(f"-- skate driver {program.pid}") == 1
    for name, pid in w.items():
        assert out.count(f"-- skate worker {pid}, task {name}, for ") == 1
    assert program.poll() is None
    end = time.monotonic() + 60
    # the second signal of a pair must arrive within two seconds
    while program.poll() is None and time.monotonic() < end:
        os.kill(program.pid, signal.SIGQUIT)
        try:
            program.wait(1)
        except subprocess.TimeoutExpired:
            pass
    assert program.poll() == -signal.SIGQUIT
    assert wait_gone(list(w.values()), 10) == []


def test_ctrl_backslash_of_the_program_stays_its_own(tmp_path):
    code = """
        import os, signal, skate as ray
        signal.signal(signal.SIGQUIT, lambda *a: print("mine", flush=True))
        ray.init(num_cpus=1)
        ray.get(ray.remote(lambda: 1).remote())
        os.kill(os.getpid(), signal.SIGQUIT)
        ray.shutdown()
    """
    r = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=ENV,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (r.returncode, r.stdout, r.stderr) == (0, "mine\n", "")


def test_ctrl_backslash_without_an_engine():
    """After shutdown the signal has its previous effect."""
    code = "import os, signal, skate as ray; ray.init(num_cpus=1); ray.shutdown(); os.kill(os.getpid(), signal.SIGQUIT)"
    r = subprocess.run(
        [sys.executable, "-c", code], env=ENV, capture_output=True, text=True, timeout=120
    )
    assert r.returncode == -signal.SIGQUIT, r


def test_pdb_in_a_task():
    code = """
        import skate as ray

        @ray.remote
        def f(x):
            y = x * 7
            breakpoint()
            return y

        print("got", ray.get(f.remote(6)))
    """
    r = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**ENV, "SKATE_ENGINE": "inline"},
        input="p 'y is', y\np y + 100\nc\n",
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert r.returncode == 0, r.stderr
    assert "('y is', 42)" in r.stdout and "142" in r.stdout and r.stdout.rstrip().endswith("got 42")


BY_VALUE = """
    import inspect, traceback, warnings
    import skate as ray

    class Base:
        @property
        def far(self):
            return [x for x in inner()]

    def inner():
        yield from (1 / n for n in (1, 0))

    @ray.remote
    def shown():
        return inspect.getsource(inner), inspect.getsourcefile(Base.far.fget)

    @ray.remote
    def warned():
        with warnings.catch_warnings(record=True) as got:
            warnings.simplefilter("always")
            warnings.warn("look here")
        return warnings.formatwarning(got[0].message, got[0].category, got[0].filename, got[0].lineno)

    @ray.remote
    class Actor:
        def fails(self):
            return Base().far

    ray.init(num_cpus=1)
    print(*ray.get([shown.remote(), warned.remote()]), sep="\\n")
    try:
        ray.get(Actor.remote().fails.remote())
    except ZeroDivisionError:
        traceback.print_exc()
"""


def test_code_that_goes_by_value_keeps_its_file(tmp_path):
    """cloudpickle 3.1.3 drops the name of the file, so tracebacks showed no source lines."""
    script = tmp_path / "of_mine.py"
    script.write_text(textwrap.dedent(BY_VALUE))
    r = subprocess.run(
        [sys.executable, str(script)], env=ENV, capture_output=True, text=True, timeout=120
    )
    assert r.returncode == 0 and "<dynamic-code>" not in r.stdout + r.stderr, r.stderr
    source, warning = r.stdout.split("\n", 1)
    assert "yield from (1 / n for n in (1, 0))" in source and str(script) in source
    assert warning.startswith(f"{script}:") and 'warnings.warn("look here")' in warning
    told = r.stderr.split("\n")
    for line in (
        "return Base().far",
        "return [x for x in inner()]",
        "yield from (1 / n for n in (1, 0))",
    ):
        at = next(i for i, t in enumerate(told) if line in t)
        assert told[at - 1].startswith(f'  File "{script}", line '), r.stderr


def test_descriptors_that_come_and_go_do_not_hide_an_engine():
    """A process whose threads open and close files all the time is still found."""
    over = threading.Event()

    def churn():
        while not over.is_set():
            for fd in [os.open("/dev/null", os.O_RDONLY) for _ in range(20)]:
                os.close(fd)

    import skate
    from skate._private import stack

    skate.shutdown()
    low = [os.open("/dev/null", os.O_RDONLY) for _ in range(30)]  # numbers below the engine's
    skate.init(num_cpus=1)
    for fd in low:
        os.close(fd)
    thread = threading.Thread(target=churn)
    thread.start()
    try:
        assert all(stack._segment(os.getpid()) for _ in range(2000))
    finally:
        over.set()
        thread.join()
        skate.shutdown()
