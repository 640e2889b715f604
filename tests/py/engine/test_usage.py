"""Wrong usage raises an error in the call itself, with Ray's classes; init, shutdown, context."""

# ruff: noqa: F821 (names that a test deletes after its lambdas ran)
import os
import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import skate


def f():
    return 1


WRONG_OPTIONS = [
    ({"num_cpu": 1}, ValueError, "Invalid option keyword num_cpu for remote functions"),
    ({"num_cpus": -1}, ValueError, "num_cpus"),
    ({"num_cpus": "1"}, TypeError, "num_cpus"),
    ({"num_cpus": True}, TypeError, "num_cpus"),
    ({"num_gpus": float("nan")}, ValueError, "num_gpus"),
    ({"num_returns": -1}, ValueError, "num_returns"),
    ({"num_returns": 1.5}, TypeError, "num_returns"),
    ({"num_returns": "many"}, ValueError, "num_returns"),
    ({"max_retries": -2}, ValueError, "max_retries"),
    ({"max_retries": "x"}, TypeError, "max_retries"),
    ({"retry_exceptions": 5}, TypeError, "retry_exceptions"),
    ({"retry_exceptions": [5]}, ValueError, "list of exception classes; 5"),
    ({"resources": ["x"]}, TypeError, "resources"),
    ({"resources": {"CPU": 1}}, ValueError, "num_cpus"),
    ({"resources": {"x": -1}}, ValueError, "x"),
    ({"resources": {"memory": 1}}, ValueError, "memory"),
    ({"memory": -1}, ValueError, "memory"),
    ({"name": 5}, TypeError, "name"),
    ({"max_restarts": 1}, ValueError, "max_restarts"),
    ({"runtime_env": {"pip": ["x"]}}, skate.exceptions.RuntimeEnvSetupError, "runtime_env"),
]


@pytest.mark.parametrize("options,cls,text", WRONG_OPTIONS, ids=lambda v: str(v)[:40])
def test_wrong_options_of_functions(options, cls, text):
    with pytest.raises(cls, match=text):
        skate.remote(**options)(f)
    with pytest.raises(cls, match=text):
        skate.remote(f).options(**options)


@pytest.mark.parametrize(
    "options,cls,text",
    [
        ({"num_returns": 2}, ValueError, "Invalid option keyword num_returns for actors"),
        ({"max_restarts": -2}, ValueError, "max_restarts"),
        ({"max_concurrency": 0}, ValueError, "max_concurrency"),
        ({"max_concurrency": 2.5}, TypeError, "max_concurrency"),
        ({"concurrency_groups": {"io": 0}}, ValueError, "concurrency_groups"),
        ({"scheduling_strategy": "CLOSE"}, ValueError, "scheduling_strategy"),
        ({"name": ""}, ValueError, "name"),
        ({"lifetime": "for ever"}, ValueError, "lifetime"),
        ({"get_if_exists": 1}, TypeError, "get_if_exists"),
    ],
    ids=lambda v: str(v)[:40],
)
def test_wrong_options_of_actors(options, cls, text):
    class A:
        pass

    with pytest.raises(cls, match=text):
        skate.remote(**options)(A)
    with pytest.raises(cls, match=text):
        skate.remote(A).options(**options)


def test_direct_calls():
    g = skate.remote(f)
    with pytest.raises(TypeError, match=r"call it as 'f.remote\(\)'"):
        g()
    assert g.__name__ == "f" and g.__wrapped__ is f
    with pytest.raises(TypeError, match="already"):
        skate.remote(g)
    with pytest.raises(AssertionError):
        skate.remote()
    with pytest.raises(AssertionError):
        skate.remote(1)
    with pytest.raises(AssertionError):
        skate.method()
    with pytest.raises(ValueError):
        skate.method(num_cpus=1)


def test_init_twice(fresh):
    ray = fresh()
    with pytest.raises(RuntimeError, match="ignore_reinit_error"):
        ray.init()
    context = ray.init(ignore_reinit_error=True)
    assert context["node_id"] and context.address_info["address"] == "local"
    with pytest.raises(RuntimeError, match="Unknown keyword.*num_cpu"):
        ray.init(num_cpu=3)
    with pytest.raises(RuntimeError, match="Unknown keyword"):
        ray.init(ignore_reinit_error=True, no_such=1)


def test_wrong_init():
    skate.shutdown()
    for kw, cls in (
        ({"num_cpus": -1}, ValueError),
        ({"num_cpus": "x"}, TypeError),
        ({"address": "ray://host:1"}, ConnectionError),
        ({"resources": 5}, TypeError),
        ({"_system_config": {"idle_reap": 1}}, ValueError),
        ({"_system_config": {"engine": "warp"}}, ValueError),
        ({"runtime_env": {"env_vars": {"A": 1}}}, TypeError),
        ({"runtime_env": {"pip": ["x"]}}, skate.exceptions.RuntimeEnvSetupError),
    ):
        with pytest.raises(cls):
            skate.init(**kw)
        assert not skate.is_initialized()


def test_context_manager(fresh):
    ray = fresh()
    ray.shutdown()
    with ray.init(num_cpus=1, _system_config={"engine": fresh.engine}):
        assert ray.is_initialized() and ray.get(ray.put(1)) == 1
    assert not ray.is_initialized()
    ray.shutdown()  # a second shutdown has no effect


def test_refs_of_an_engine_that_is_gone(fresh):
    ray = fresh()
    g = ray.remote(f)

    @ray.remote
    class A:
        def m(self):
            return 1

    @ray.remote
    def gen():
        yield 1
        yield 2

    ref, task, a, it = ray.put(1), g.remote(), A.remote(), gen.remote()
    big = ray.get(ray.put(np.arange(100_000)))
    inner = ray.put([ref])
    next(it)
    ray.shutdown()
    assert big.sum() == 4999950000  # a value that was read before stays readable
    fresh()
    for call in (
        lambda: ray.get(ref),
        lambda: ray.get([task]),
        lambda: ray.wait([ref]),
        lambda: a.m.remote(),
        lambda: next(it),
        lambda: ray.cancel(task),
        lambda: ray.put([ref]),
        lambda: ray.kill(a),
    ):
        with pytest.raises(ray.exceptions.RaySystemError):
            call()
    assert ray.get(g.remote()) == 1  # functions are defined anew
    del ref, task, a, it, big, inner
    assert ray.get(ray.put(2)) == 2


def test_shutdown_while_a_thread_waits(fresh):
    import threading

    ray = fresh()
    if fresh.engine == "inline":
        pytest.skip("inline: the thread that waits runs the task")

    @ray.remote
    def for_ever():
        import time

        time.sleep(600)

    ref, seen = for_ever.remote(), []
    started = threading.Event()

    def wait():
        started.set()
        try:
            ray.get(ref)
        except Exception as e:
            seen.append(e)

    t = threading.Thread(target=wait)
    t.start()
    started.wait()
    ray.shutdown()
    t.join(60)
    assert len(seen) == 1 and isinstance(seen[0], ray.exceptions.RaySystemError)


def test_get_timeout(fresh):
    ray = fresh()

    @ray.remote
    def slow():
        import time

        time.sleep(600)

    if fresh.engine == "local":
        ref = slow.remote()
        with pytest.raises(ray.exceptions.GetTimeoutError):
            ray.get(ref, timeout=0.05)
        with pytest.raises(TimeoutError):
            ray.get([ref], timeout=0)
        assert ray.wait([ref], timeout=0.05) == ([], [ref])
        ray.cancel(ref, force=True)
        with pytest.raises((ray.exceptions.TaskCancelledError, ray.exceptions.WorkerCrashedError)):
            ray.get(ref, timeout=60)
    else:
        ref = slow.remote()
        with pytest.raises(ray.exceptions.GetTimeoutError):
            ray.get(ref, timeout=0)  # the inline engine runs nothing when the timeout is 0
        ray.cancel(ref)


def test_a_deadlock_of_the_inline_engine_is_an_error(fresh):
    if fresh.engine != "inline":
        pytest.skip("of inline")
    ray = fresh()

    @ray.remote
    class A:
        def outer(self, handle):
            import skate

            return skate.get(handle[0].inner.remote())

        def inner(self):
            return 1

    a = A.remote()
    with pytest.raises(
        ray.exceptions.RaySystemError, match="waits for something that cannot happen"
    ):
        ray.get(a.outer.remote([a]))


def run(code, wrap=(), **env):
    root = os.path.dirname(os.path.dirname(os.path.abspath(skate.__file__)))
    return subprocess.run(
        [*wrap, sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "PYTHONPATH": root, **env},
    )


def test_auto_init_and_main_functions():
    p = run("""
        import skate as ray
        class Thing:
            def __init__(self, x): self.x = x
        def helper(t): return Thing(t.x + 1)
        @ray.remote
        def f(t): return helper(t)
        out = ray.get(f.remote(Thing(1)))
        assert isinstance(out, Thing) and out.x == 2, out
        @ray.remote
        class A:
            def get(self, t): return Thing(t.x * 10)
        assert isinstance(ray.get(A.remote().get.remote(out)), Thing)
        print("fine", ray.is_initialized())
    """)
    assert p.stdout == "fine True\n", p.stderr
    assert p.stderr == ""


START = """
    import skate
    try:
        skate.init(num_cpus=1)
    except Exception as e:
        print(type(e).__name__, e)
    else:
        print("started")
"""


def in_namespace(mount):
    """Runs a command after `mount` in a new mount namespace; None if such a namespace cannot be
    made."""
    wrap = ["unshare", "-m", "sh", "-c", f'{mount} && exec "$@"', "sh"]
    return wrap if subprocess.run([*wrap, "true"], capture_output=True).returncode == 0 else None


def test_what_the_machine_lacks_is_said(tmp_path):
    """Each missing part of the machine is a single error that says what is missing and what to
    do."""
    gone = "import os, tempfile; d = tempfile.mkdtemp(); os.chdir(d); os.rmdir(d)"
    p = run(gone + textwrap.dedent(START))
    assert (
        "FileNotFoundError" in p.stdout
        and "the current directory of this program was deleted" in p.stdout
    ), p.stdout + p.stderr
    p = run(START, TMPDIR="/proc")
    assert "/proc" in p.stdout and (
        "no file can be made" in p.stdout or "ValueError TMPDIR='/proc' is read-only" in p.stdout
    ), p.stdout + p.stderr
    assert p.stderr == ""
    p = run(START, TMPDIR=str(tmp_path / "not_there"))
    assert (
        "is no directory, and what does not fit into memory is written there: set TMPDIR"
        in p.stdout
    ), p.stdout + p.stderr
    p = run(START, TMPDIR=str(tmp_path / "not_there"), SKATE_SPILL_DIR="")
    assert p.stdout == "started\n", p.stdout + p.stderr
    wrap = in_namespace(f"mount -t tmpfs -o ro none {tmp_path}")
    if wrap:
        p = run(START, wrap, TMPDIR=str(tmp_path))
        assert "ValueError TMPDIR=" in p.stdout and "is read-only" in p.stdout, p.stdout + p.stderr
    wrap = in_namespace("mount -t tmpfs none /dev && mkdir /dev/shm")
    if wrap:
        p = run(START, wrap)
        assert "FileNotFoundError" in p.stdout and "/dev/null cannot be opened" in p.stdout, (
            p.stdout + p.stderr
        )


def test_auto_init_by_many_threads_at_once():
    p = run("""
        import sys, threading
        import skate as ray
        sys.setswitchinterval(1e-6)
        @ray.remote
        def f(i): return ray.get_runtime_context().namespace, i
        together, out = threading.Barrier(32), []
        def call(i):
            together.wait()
            ref = [f.remote(i), ray.put(i), f.options(num_cpus=0.5).remote(i)][i % 3]
            out.append((ray.get(ref), ray.get_runtime_context().namespace))
        threads = [threading.Thread(target=call, args=(i,)) for i in range(32)]
        for t in threads: t.start()
        for t in threads: t.join()
        print(len(out), len({n for _, n in out}), sorted(v if isinstance(v, int) else v[1] for v, _ in out) == list(range(32)))
    """)
    assert p.stdout == "32 1 True\n", p.stderr
    assert p.stderr == ""


def test_environment_of_workers():
    p = run(
        """
        import os, skate as ray
        os.environ["MINE"] = "1"
        ray.init(num_cpus=1, runtime_env={"env_vars": {"GIVEN": "yes"}})
        @ray.remote
        def env():
            import signal
            os.kill(os.getpid(), signal.SIGINT)  # as a terminal's Ctrl-C does: it is for the driver
            return [os.environ.get(k) for k in ("MINE", "GIVEN", "OMP_NUM_THREADS", "SKATE_FORK_FD", "SKATE_CTL")] + [os.getcwd(), True]
        print(ray.get(env.remote()), os.environ.get("GIVEN"), os.environ.get("OMP_NUM_THREADS"))
    """,
        OMP_NUM_THREADS="3",
    )
    assert p.stdout == f"{['1', 'yes', '3', None, None, os.getcwd(), True]} None 3\n", (
        p.stdout + p.stderr
    )


def test_knobs_from_the_environment():
    p = run(
        """
        import skate as ray
        from skate import _skate
        ray.init()
        print(_skate.status()["engine"], ray.cluster_resources()["CPU"])
    """,
        SKATE_ENGINE="inline",
        SKATE_NUM_CPUS="7",
    )
    assert p.stdout == "inline 7.0\n", p.stderr
    p = run("import skate; skate.init()", SKATE_NUM_CPUS="many")
    assert "SKATE_NUM_CPUS='many'" in p.stderr


def test_workers_differ_in_random_numbers():
    p = run("""
        import os, random, tempfile, numpy as np, skate as ray
        ray.init(num_cpus=3)
        with tempfile.TemporaryDirectory() as d:
            up, go = os.path.join(d, "up"), os.path.join(d, "go")
            os.mkfifo(up), os.mkfifo(go)
            up_fd, go_fd = os.open(up, os.O_RDWR), os.open(go, os.O_RDWR)
            @ray.remote
            def rnd():
                with open(up, "wb", 0) as f: f.write(b"u")
                with open(go, "rb", 0) as f: f.read(1)
                return os.getpid(), random.random(), np.random.rand()
            refs = [rnd.remote() for _ in range(3)]
            for _ in range(3): os.read(up_fd, 1)  # all three run
            os.write(go_fd, b"ggg")
            out = ray.get(refs)
        print(len({o[0] for o in out}), len({o[1] for o in out}), len({o[2] for o in out}))
    """)
    assert p.stdout == "3 3 3\n", p.stdout + p.stderr


def test_fork_by_the_user():
    p = run("""
        import os, skate as ray
        refs = [ray.put(b"x" * 100_000) for _ in range(3)]
        pid = os.fork()
        if pid == 0:
            try:
                ray.get(refs[0])
            except ray.exceptions.RaySystemError:
                del refs
                os._exit(7)
            os._exit(1)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), len(ray.get(refs[1])))
    """)
    assert p.stdout == "7 100000\n", p.stderr


def test_ctrl_c_in_get():
    p = run("""
        import os, signal, threading, time, skate as ray
        signal.signal(signal.SIGINT, signal.default_int_handler)  # started in the background, it would be ignored
        @ray.remote
        def for_ever():
            time.sleep(600)
        ref = for_ever.remote()
        try:
            threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()  # as a rule it waits by then
            ray.get(ref)
        except KeyboardInterrupt:
            print("interrupted")
    """)
    assert p.stdout == "interrupted\n", p.stderr


def test_exit_with_everything_alive():
    p = run("""
        import skate as ray, numpy as np
        @ray.remote
        class A:
            def m(self): return np.zeros(100_000)
        a = A.remote()
        keep = [ray.get(a.m.remote()), ray.put(keep := []), a, a.m.remote()]
        print("end")
    """)
    assert p.stdout == "end\n" and p.stderr == "" and p.returncode == 0, p.stderr


def test_output_of_workers_is_shown():
    p = run(
        """
        import skate as ray
        @ray.remote
        def say(): print("from a worker")
        ray.get(say.remote())
        import os, signal
        from skate import _skate
        for pid, *_ in _skate.workers(): os.kill(pid, signal.SIGKILL) if pid and pid != os.getpid() else None
    """,
        PYTHONUNBUFFERED="",
    )
    assert re.fullmatch(r"\(say pid=\d+\) from a worker\n", p.stdout), p.stderr


def test_lineage_bytes_bounds_what_is_kept_of_finished_tasks(fresh):
    if fresh.engine == "inline":
        pytest.skip("nothing can be lost there")
    from skate import _skate

    def kept(**conf):
        ray = fresh(_system_config=conf)

        @ray.remote
        def large(i):
            return bytes(20_000)

        refs = [large.remote(bytes(1000)) for _ in range(50)]
        ray.wait(refs, num_returns=len(refs))
        return _skate.status()["lineage_bytes"]

    assert kept() > 20_000
    assert 0 < kept(lineage_bytes=5000) <= 5000
