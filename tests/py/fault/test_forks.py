"""Processes that user code forks: from the driver, from a task, from a process that a task has
forked."""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
from procs import wait_gone

fork = multiprocessing.get_context("fork")
MB8 = 8 << 20  # for at least these bytes a driver copies with two threads


@pytest.fixture(scope="module")
def ray():
    import skate

    skate.shutdown()
    skate.init(num_cpus=2, object_store_memory=128 << 20)
    yield skate
    skate.shutdown()


def in_fork(fn):
    """Runs fn() in a forked child of this process; returns its result, or raises its exception."""
    r, w = fork.Pipe(False)

    def run():
        try:
            w.send((fn(), None))
        except BaseException as e:
            w.send((None, f"{type(e).__name__}: {e}"))

    p = fork.Process(target=run)
    p.start()
    w.close()
    try:
        return r.recv() if r.poll(60) else (None, "it hangs")
    finally:
        p.kill()
        p.join()


def run(program, *args, **kw):
    p = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *args],
        capture_output=True,
        text=True,
        timeout=120,
        **kw,
    )
    return p.returncode, p.stdout, p.stderr


def test_a_child_of_the_driver_has_an_engine_of_its_own_and_puts_much(ray):
    ref = ray.put(np.ones(MB8, np.uint8))  # now the parent's helper thread is running
    mine = ray.get(ref)

    def child():
        with pytest.raises(ray.exceptions.UnknownOwnerError, match="was forked"):
            ray.get(ref)
        total = int(mine.sum())  # a value that was read before the fork stays readable
        total += int(ray.get(ray.put(np.full(MB8, 2, np.uint8))).sum(dtype=np.int64))
        ray.shutdown()
        return total

    assert in_fork(child) == (3 * MB8, None)
    assert ray.get(ref).sum() == MB8


def test_a_run_under_way_is_the_parents(ray):
    """A child that shut its own engine down once stopped the runs of its parent, through threads
    that the child did not have."""
    it = iter(ray.data.range(100, override_num_blocks=20).iter_batches(batch_size=5))
    first = next(it)

    def child():
        n = ray.data.range(10).count()
        ray.shutdown()
        return n

    assert in_fork(child) == (10, None)
    assert len(first["id"]) + sum(len(b["id"]) for b in it) == 100


def test_children_in_tasks(ray):
    @ray.remote
    def f(a):
        def read(w):
            w.send(int(a.sum()))  # a view of the store from before the fork

        r, w = fork.Pipe(False)
        p = fork.Process(target=read, args=(w,))
        p.start()
        got = r.recv()
        p.join()
        pid = os.fork()
        if pid == 0:
            os._exit(7)
        said = subprocess.run(
            [sys.executable, "-c", "print(5)"], capture_output=True, text=True, preexec_fn=os.setsid
        ).stdout
        return got, p.exitcode, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said

    assert ray.get(f.remote(np.ones(1 << 20, np.uint8))) == (1 << 20, 0, 7, "5\n")


def test_skate_in_a_child_of_a_task(ray):
    @ray.remote
    def f(ref):
        def each(call):
            return in_fork(call)[1]

        return [
            each(lambda: ray.put(1)),
            each(lambda: ray.get(ref)),
            each(lambda: f.remote(ref)),
            ray.get(ray.put(2)),
        ]

    *errors, mine = ray.get(f.remote([ray.put(0)]))
    assert mine == 2
    for e in errors:
        assert "RaySystemError" in e and "was forked by a task" in e and "spawn" in e, e


RETURNS = """
    import os, sys
    import skate as ray

    ray.init(num_cpus=1)

    @ray.remote
    def returns():
        pid = os.fork()
        return "parent" if pid and not os.waitpid(pid, 0)[1] else "child"

    @ray.remote
    def raises():
        pid = os.fork()
        if not pid:
            raise ValueError("oh")
        return os.waitpid(pid, 0)[1] >> 8

    @ray.remote
    def leaves():
        pid = os.fork()
        if not pid:
            sys.exit(3)
        return os.waitpid(pid, 0)[1] >> 8

    @ray.remote(num_returns="streaming")
    def yields():
        yield 1
        pid = os.fork()
        yield 2 if pid else 20
        os.waitpid(pid, 0)

    @ray.remote
    class Actor:
        def f(self):
            return returns._function()

        async def g(self):
            return returns._function()

    a = Actor.remote()
    print([ray.get(f.remote()) for f in (returns, raises, leaves, a.f, a.g)] + [ray.get(r) for r in yields.remote()])
    print(ray.get([returns.remote() for _ in range(5)]))
"""


def test_a_child_that_comes_back_from_the_task_ends_there():
    """Two processes once answered on one ring: values were wrong, and a worker stopped
    answering."""
    rc, out, err = run(RETURNS)
    assert rc == 0, err
    assert out.splitlines() == [
        str(["parent", 1, 3, "parent", "parent", 1, 2]),
        str(["parent"] * 5),
    ]
    told = [line for line in err.splitlines() if ") skate: process " in line]
    assert len(told) == 10 and all("os._exit()" in line for line in told), err
    assert sum("raised ValueError in it" in line for line in told) == 1 and "ValueError: oh" in err


DAEMON = """
    import os, sys, signal
    import numpy as np
    import skate as ray

    ray.init(num_cpus=1, object_store_memory=64 << 20)

    @ray.remote
    def f(a, program):
        r, w = os.pipe()
        if os.fork() == 0:  # as a daemon is made: a session of its own, and its parent gone
            os.setsid()
            if os.fork() == 0:
                os.dup2(w, 1)
                if program:
                    os.execlp("sh", "sh", "-c", "echo $$; exec sleep 600 >&2")
                print(os.getpid(), flush=True)
                while True:
                    signal.pause()
            os._exit(0)
        os.close(w)
        os.wait()
        with open(r) as f:
            return int(f.readline()), os.getpid()

    a = np.ones(1 << 20)
    print(*[pid for program in (False, True) for pid in ray.get(f.remote(a, program))], flush=True)
    sys.stdin.readline()
"""


def held(pid):
    """The files that a process has open; it may close some during the listing."""
    names = []
    for f in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            names.append(os.readlink(f"/proc/{pid}/fd/{f}"))
    return names


@pytest.mark.parametrize("end", ["worker", "driver", "shutdown"])
def test_a_daemon_of_a_task_keeps_nothing(end):
    """A process that a task forked ends with its worker, however the worker ends; a program that
    the task started does not."""
    p = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(DAEMON)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    daemon, worker, program, _ = map(int, p.stdout.readline().split())
    try:
        if end == "shutdown":
            p.communicate("\n", timeout=60)
        else:
            os.kill(worker if end == "worker" else p.pid, signal.SIGKILL)
        assert wait_gone([daemon], 30) == []
        assert wait_gone([program], 0) == [program]
        assert not [name for name in held(program) if "skate" in name]
    finally:
        os.kill(program, signal.SIGKILL)
        p.kill()
        p.communicate()


FIRST_CALLS = """
    import importlib.util, os, sys, threading
    import skate as ray

    slow = sys.argv[1]
    begun, go_on = threading.Event(), threading.Event()

    class Slow:
        '''The import of one module waits, as if it read from a slow disk.'''

        asked = False

        def find_spec(self, name, path, target=None):
            if name == slow and not Slow.asked:
                Slow.asked = True
                spec = importlib.util.find_spec(name)
                run = spec.loader.exec_module

                def wait(module):
                    run(module)  # its content is there, and what it imports
                    begun.set()
                    go_on.wait()

                spec.loader.exec_module = wait
                return spec

    assert slow not in sys.modules
    sys.meta_path.insert(0, Slow())

    @ray.remote
    def f(x):
        return x + 1

    def use():
        if slow.startswith("skate.data") or slow in ("numpy", "pyarrow"):
            return ray.data.range(10).map_batches(lambda b: {"id": b["id"] + 1}).sum("id")
        return ray.get(f.remote(54), timeout=60)

    first = threading.Thread(target=lambda: print("parent", use(), flush=True))
    ray.init(num_cpus=1, object_store_memory=64 << 20)
    first.start()
    begun.wait()
    pid = os.fork()
    if pid == 0:
        print("child", use(), flush=True)
        ray.shutdown()
        os._exit(0)
    code = os.waitpid(pid, 0)[1]
    go_on.set()
    first.join()
    sys.exit(code)
"""


@pytest.mark.parametrize("slow", ["cloudpickle", "skate.data.context", "pyarrow"])
def test_a_fork_in_the_middle_of_another_threads_first_call(slow):
    """The lock of the import that the other thread was in once stayed locked in the child, whose
    first call waited for ever, whatever its timeout."""
    rc, out, err = run(FIRST_CALLS, slow)
    assert rc == 0 and sorted(out.split("\n")) == ["", "child 55", "parent 55"], out + err


def test_a_fork_in_a_task_whose_other_thread_imports(ray, tmp_path):
    """The same in a worker, for a module of the user; a module that the forking thread itself is
    importing is not changed."""
    (tmp_path / "half_there.py").write_text(
        "import builtins\nbuiltins.begun.set()\nbuiltins.go_on.wait()\nwhole = True\n"
    )
    (tmp_path / "forks.py").write_text(
        "import os\nbefore = 1\npid = os.fork()\nif pid == 0:\n    import forks\n    os._exit(forks.before)\n"
    )

    @ray.remote
    def f(folder):
        import builtins
        import threading

        builtins.begun, builtins.go_on = threading.Event(), threading.Event()
        sys.path.insert(0, folder)
        other = threading.Thread(target=__import__, args=("half_there",))
        other.start()
        builtins.begun.wait()

        def child():
            builtins.go_on.set()
            return __import__("half_there").whole

        import forks

        got = in_fork(child)
        builtins.go_on.set()
        other.join()
        return (
            got,
            sys.modules["half_there"].whole,
            os.waitstatus_to_exitcode(os.waitpid(forks.pid, 0)[1]),
        )

    assert ray.get(f.remote(str(tmp_path))) == ((True, None), True, 1)


def test_locks_that_other_threads_hold(ray):
    from skate import _forked
    from skate.data import DataContext
    from skate.data.files import retry
    from skate.util.metrics import Counter

    counter, held, go_on = Counter("of_this_test"), threading.Event(), threading.Event()

    def holds():
        locks = list(_forked._locks)
        for lock in locks:
            lock.acquire()
        held.set()
        go_on.wait()
        for lock in locks:
            lock.release()

    def child():
        counter.inc(2)
        with retry.counts.lock:
            pass
        n = ray.get(ray.put(DataContext.get_current().target_min_block_size))
        n += ray.put(1).future().result(60)
        ray.shutdown()
        return n, list(counter.values.values())

    other = threading.Thread(target=holds)
    other.start()
    held.wait()
    try:
        assert in_fork(child) == ((DataContext().target_min_block_size + 1, [2]), None)
    finally:
        go_on.set()
        other.join()


BEGIN = """
    import os
    import skate as ray

    ray.init(num_cpus=1, object_store_memory=64 << 20)

    @ray.remote
    def f(x):
        return x

    def tell(get):
        try:
            print(get())
        except ray.exceptions.RayError as e:
            print(type(e).__name__, e)
"""


@pytest.mark.parametrize("warm", [False, True])
def test_a_program_that_closes_the_engines_descriptors(warm):
    """Such a program once died of an assertion at its end; a new worker was refused for a "Bad file
    descriptor (9 times in a row)"."""
    rc, out, err = run(
        BEGIN
        + f"""
    if {warm}:
        ray.get(f.remote(1))
    ray.put(bytes(1 << 20))
    os.closerange(3, 4096)
    tell(lambda: ray.get(f.options(runtime_env={{"env_vars": {{"A": "1"}}}}).remote(1), timeout=60))  # of a new worker
    tell(lambda: len(ray.get(ray.put(bytes(4 << 20)))))
    ray.shutdown()
    ray.init(num_cpus=1, object_store_memory=64 << 20)
    print(ray.get(f.remote(2)))
    """
    )
    assert rc == 0 and "assertion" not in err, err
    task, put, again = out.splitlines()
    assert (
        task.startswith(
            "WorkerCrashedError task f cannot be run: the program has closed descriptors of the engine"
        )
        and "init() after" in task
    )
    assert "in a row" not in task and (put, again) == (str(4 << 20), "2")
    assert err.count("has closed descriptors of the engine") == 1, err


def test_what_a_program_opens_in_place_of_the_engines_descriptors_is_its_own(tmp_path):
    """The engine once wrote counters of 8 bytes into such a file, took commands for it, and closed
    it."""
    rc, out, err = run(
        BEGIN
        + """
    import sys
    mine = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
    os.write(mine, b"x" * 100_000)

    def kept(n):  # not what a thread of the engine has open for a read of /proc, just now
        try:
            return ":" in os.readlink(f"/proc/self/fd/{n}")
        except FileNotFoundError:
            return False

    all = [n for n in range(3, mine + 1) if kept(n)]
    for n in all:
        os.dup2(mine, n)
    ref = ray.put(bytes(16 << 20))
    del ref  # its pages are given back
    tell(lambda: ray.get(f.remote(1), timeout=60))
    ray.shutdown()
    print(all == [n for n in all if os.fstat(n).st_ino == os.fstat(mine).st_ino])
    """,
        str(tmp_path / "mine"),
    )
    assert (
        rc == 0
        and "has closed descriptors of the engine" in out.splitlines()[0]
        and out.splitlines()[1:] == ["True"]
    ), out + err
    assert (tmp_path / "mine").read_bytes() == b"x" * 100_000


def test_a_task_that_closes_its_workers_descriptors():
    """An actor with an event loop once died of an assertion. A task that needs none of the
    descriptors continues, and so do the tasks after it."""
    rc, out, err = run(
        BEGIN
        + """
    @ray.remote
    def closes():
        os.closerange(3, 65536)
        return "closed"

    @ray.remote
    class Actor:
        async def closes(self):
            os.closerange(3, 65536)

        async def f(self):
            return 1

    tell(lambda: [ray.get(r, timeout=60) for r in (closes.remote(), f.remote(1))] + [len(ray.get(f.remote(bytes(1 << 20))))])
    a = Actor.remote()
    tell(lambda: ray.get([ray.get(a.closes.remote(), timeout=60), a.f.remote()][1], timeout=60))
    tell(lambda: ray.get(f.remote(3), timeout=60))
    """
    )
    lines = out.splitlines()
    assert rc == 0 and lines[0] == "['closed', 1, 1048576]" and lines[-1] == "3", out + err
    assert lines[1].startswith("ActorDiedError") and "assertion" not in err, out + err
    assert (
        "user code has closed descriptors of the worker" in out
        or "event loop of the actor ended" in out
    ), out


@pytest.mark.parametrize("closes", [False, True])
def test_a_daemon_of_the_driver_has_an_engine_of_its_own(closes):
    """It is like any child of the driver; it is forked twice, and its parent has ended."""
    rc, out, err = run(
        BEGIN
        + f"""
    ref = ray.put(4)
    r, w = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.dup2(w, 1)
            if {closes}:
                os.closerange(3, 4096)
            tell(lambda: ray.get(f.remote(1), timeout=60))
            tell(lambda: ray.get(ref))
            ray.shutdown()
            print("end", flush=True)
        os._exit(0)
    os.close(w)
    os.wait()
    print(open(r).read(), ray.get(ref))
    """
    )
    assert rc == 0, err
    first, second, *end = out.splitlines()
    assert (
        first == "1"
        and second.startswith("UnknownOwnerError")
        and "was forked" in second
        and end == ["end", " 4"]
    ), out + err
