import collections
import contextlib
import copyreg
import functools
import gc
import importlib
import os
import re
import signal
import subprocess
import sys
import tempfile

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "fault"))
# A shell that starts pytest in the background has set both signals to be ignored, and child
# programs inherit this: tests of Ctrl-C would hang.
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# pytest captures the stderr of a process, which is lost if the process aborts. So the engine's
# failed assertions also go to a file, which is shown at the end.
assert_log = os.environ.setdefault(
    "SKATE_ASSERT_LOG", os.path.join(tempfile.gettempdir(), f"skate-assert-{os.getpid()}.log")
)


def pytest_terminal_summary(terminalreporter):
    if not hasattr(terminalreporter.config, "workerinput") and os.path.exists(assert_log):
        with open(assert_log) as f:
            terminalreporter.section("failed assertions of the engine")
            terminalreporter.write(f.read())
        os.unlink(assert_log)


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item, settings):
    """Before a test that hangs is failed, it prints what the engine and its workers are doing."""
    made = yield
    fail = signal.getsignal(signal.SIGALRM)

    def tell(signum, frame):
        command = [sys.executable, "-m", "skate", "stack", str(os.getpid())]
        got = subprocess.run(command, capture_output=True, text=True, timeout=60)
        print(got.stdout, got.stderr)
        fail(signum, frame)

    if callable(fail):
        signal.signal(signal.SIGALRM, tell)
    return made


@pytest.fixture(scope="module", autouse=True)
def exceptions_as_python_pickles_them():
    """Dask's distributed registers a pickling of its own for every exception class of the process
    (tblib's, which cannot do BaseExceptionGroup). It ends with the file of tests that imported it."""
    yield
    for cls in list(copyreg.dispatch_table):
        if isinstance(cls, type) and issubclass(cls, BaseException):
            del copyreg.dispatch_table[cls]


WITH_THE_PROGRAM: dict[str, str] = {}  # of skate.engine.local, as programs have it


@functools.cache
def imported_by(path):
    """The libraries that a file of tests imports at its head; skate.data if it names it at all."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    more = {"skate.data": r"\b(skate\.data|from skate import data|sd)"}
    return [
        x
        for x in WITH_THE_PROGRAM
        if re.search(more.get(x, rf"(?m)^(import|from) {x}") + r"\b", text)
    ]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """The fork server of an engine imports what the driver has imported, and a process of pytest
    has imported what any file of tests needs. Here it imports what the test's own file does, as if
    that file were the program: pandas takes twice the CPU time of all else that starts."""
    from skate.engine import local

    WITH_THE_PROGRAM.update(WITH_THE_PROGRAM or local._WITH_THE_PROGRAM)
    local._WITH_THE_PROGRAM = {x: WITH_THE_PROGRAM[x] for x in imported_by(item.path)}


def pytest_collection_finish():
    """Objects that are loaded by now stay: later garbage collections skip them."""
    gc.freeze()


def pytest_sessionstart(session):
    """Each process of `./dev test` begins to import at another file. In a new tree, where no module
    of a test is compiled yet, each compiles a share of them, and not all of them."""
    of = getattr(session.config, "workerinput", None)
    if of is None or session.config.args != session.config.getini("testpaths"):
        return
    here = session.config.rootpath / "tests/py"
    files = sorted(x for x in here.glob("*/test_*.py") if x.parent.name != "soak")
    assert set(LONG) <= {f"{x.parent.name}/{x.stem}" for x in files}
    at = len(files) * int(of["workerid"].removeprefix("gw")) // of["workercount"]
    for path in files[at:] + files[:at]:
        if str(path.parent) not in sys.path:
            sys.path.insert(0, str(path.parent))
        with contextlib.suppress(Exception, pytest.skip.Exception):  # told when it is collected
            importlib.import_module(path.stem)


# Files that take long, the longest first. Those with few tests would begin last, and one of them
# would be waited for while other cores are idle.
LONG = """engine/test_knobs data/test_asks engine/test_like_ray fault/test_matrix docs/test_snippets
    data/test_api_memory app/test_cli data/test_resume engine/test_spill data/test_examples
    data/test_s3 engine/test_memory engine/test_state engine/test_placement_groups
    data/test_writers unit/test_block_ctypes data/test_shuffle data/test_join_skew
    data/test_own_strategy fault/test_graph_deaths data/test_e2e_stats data/test_streaming_shuffle
    unit/test_typing fault/test_forks data/test_in_workers unit/test_shape page/test_engine
    app/test_cli_top app/test_notebooks engine/test_side_by_side data/test_exchange_disk
    prop/test_predicates unit/test_data_imports fault/test_worker_kill
    fault/test_random_pipelines""".split()


def longest_first(items):
    """Sorts tests by files: those of LONG, then those with most tests."""
    name = {path: f"{path.parent.name}/{path.stem}" for path in {x.path for x in items}}
    n = collections.Counter(x.path for x in items)
    place = {name: i for i, name in enumerate(LONG)}
    items.sort(key=lambda x: (place.get(name[x.path], len(LONG)), -n[x.path], name[x.path]))


def pytest_collection_modifyitems(config, items):
    """--timeout takes precedence over the marks of single tests if it is longer. (pyproject.toml
    has the default deadline, which ends tests that hang and measures nothing.)"""
    asked = config.getoption("timeout", None) or 0
    for item in items if asked else ():
        mark = item.get_closest_marker("timeout")
        if mark and mark.args and mark.args[0] < asked:
            item.add_marker(pytest.mark.timeout(asked), append=False)
    if hasattr(config, "workerinput"):
        longest_first(items)
