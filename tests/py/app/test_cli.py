"""The command `skate`, through its entry point: what it refuses, its exit statuses, and that each
command does what it says."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from skate.cli import main

ROOT = Path(__file__).resolve().parents[3]
ENV = {
    **{k: v for k, v in os.environ.items() if not k.startswith("SKATE_")},
    "PYTHONPATH": str(ROOT / "python"),
    "SKATE_NUM_CPUS": "2",
}


def skate(*args, env=(), **how):
    """Runs `python -m skate ARGS`; returns its output, its errors and its status."""
    p = subprocess.run(
        [sys.executable, "-m", "skate", *map(str, args)],
        env={**ENV, **dict(env)},
        capture_output=True,
        text=True,
        timeout=120,
        **how,
    )
    return p.stdout, p.stderr, p.returncode


@pytest.fixture
def here(capsys, monkeypatch):
    """here(ARGS): the same in this process, for what ends before an engine or a program runs. A
    process that only says so takes 0.1 s of CPU time."""
    for name in [name for name in os.environ if name.startswith("SKATE_")]:
        monkeypatch.delenv(name)

    def here(*args):
        capsys.readouterr()
        try:
            rc = main(list(map(str, args)))
        except SystemExit as e:
            rc = e.code
        return *capsys.readouterr(), rc

    return here


@pytest.mark.parametrize(
    "args, said",
    [
        (["stak"], "skate: no command 'stak'; did you mean 'stack'?"),
        (["train.py"], "skate: no command 'train.py'; did you mean `skate run train.py`?"),
        (["--verison"], "skate: no such option: --verison; did you mean '--version'?"),
        (["stack", "--jsn"], "skate stack: no such option: --jsn; did you mean '--json'?"),
        (["stack", "joe"], "skate stack: argument PID: a process id is wanted, not 'joe'"),
        (["stack", "-5"], "argument PID: a process id is wanted, not '-5'"),
        (["stack", "--timeout", "0"], "argument --timeout: a number above 0 is wanted, not '0'"),
        (["memory", "1", "2"], "skate memory: one argument too many: '2'"),
        (["run"], "skate run: a program is wanted: SCRIPT, -m MODULE or -c CODE"),
        (["run", "--cpu", "2", "x.py"], "no such option: --cpu; did you mean '--cpus'?"),
        (["run", "--memory", "much", "x.py"], "a size such as 512m or 1.5g is wanted, not 'much'"),
        (["run", "--memory", "10m", "x.py"], "skate run: --memory: 100m or more is wanted"),
        (["replay"], "skate replay: the following arguments are required: ID"),
    ],
)
def test_a_wrong_use_is_one_sentence(here, args, said):
    out, err, rc = here(*args)
    assert (out, rc) == ("", 2) and said in err and err.count("\n") == 1, err


def test_a_process_says_and_returns_what_the_function_does(here):
    for args in (["stak"], ["stack", "--jsn"], ["stack", gone()]):
        assert skate(*args) == here(*args)


def test_no_command_shows_the_commands(here):
    out, err, rc = skate()
    assert (out, rc) == ("", 2) and err.startswith("usage: skate COMMAND") and "  stack " in err
    out, err, rc = here("--help")
    assert (err, rc) == ("", 0) and "  stack " in out


def test_version():
    out, err, rc = skate("--version")
    assert rc == 0 and out.startswith("skate ") and out.split()[1][0].isdigit()


LOOKS = ["stack", "memory", "store", "top"]


def gone():
    """The id of a process that has ended."""
    p = subprocess.Popen(["true"])
    p.wait()
    return p.pid


@pytest.fixture
def other():
    """The id of a process that does not run skate; this one may, for other tests."""
    p = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    yield p.pid
    p.communicate()


@pytest.mark.parametrize("command", [*LOOKS, "timeline", "page"])
def test_processes_that_cannot_be_looked_at(here, command, other):
    for pid, why in ((gone(), "there is no process"), (other, "does not run skate")):
        out, err, rc = here(command, pid)
        assert (out, rc) == ("", 1) and why in err and err.count("\n") == 1, err


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
@pytest.mark.parametrize("command", LOOKS)
def test_a_process_of_another_user(command, other):
    """The process is root's, and the command nobody's, who may not read where Python is: all is
    imported before."""
    code = f"""
import os, pwd
from skate.cli import out, parsers
call = parsers.parse(["{command}", "{other}"])
os.setgroups([]); os.setgid(65534); os.setuid(65534)
try: call()
except out.Refused as e: print(e)
"""
    p = subprocess.run(
        [sys.executable, "-c", code], env=ENV, capture_output=True, text=True, timeout=60
    )
    assert f"process {other} " in p.stdout and "user" in p.stdout, p.stderr


@pytest.mark.parametrize("command", ["--help", "run --help", "stack"])
def test_nobody_reads(command):
    """Neither a reader that has gone nor a closed descriptor is a traceback."""
    for to in ("| true", ">&-"):
        line = f"{sys.executable} -m skate {command} {to}"
        p = subprocess.run(line, env=ENV, shell=True, capture_output=True, text=True, timeout=60)
        assert "Traceback" not in p.stderr and "Exception" not in p.stderr, p.stderr


def test_settings_of_run():
    code = "import ray, json; ray.init(); print(json.dumps([ray.cluster_resources(), ray.data.__name__]))"
    out, err, rc = skate("run", "--cpus", "1", "--memory", "1g", "-c", code)
    has, data = json.loads(out)
    assert rc == 0 and has["CPU"] == 1 and data == "skate.data", err
    assert has["memory"] + has["object_store_memory"] == 1 << 30
    # what the program says comes first, and what follows it is the program's own
    code = "import ray, sys; ray.init(num_cpus=3); print(ray.cluster_resources()['CPU'], *sys.argv)"
    out, err, rc = skate("run", "--cpus", "1", "-c", code, "--cpus", "5", "--", "--json")
    assert out == "3.0 -c --cpus 5 -- --json\n", err


def test_an_address_is_that_of_a_cluster():
    code = "import skate; skate.init({})"
    for how in ("", "'auto'"):
        out, err, rc = skate("run", "--address", "here", "-c", code.format(how))
        assert rc == 1 and "ConnectionError: skate.init(address='here'): \"HOST:PORT\"" in err
    out, err, rc = skate("run", "--address", "here", "-c", code.format("'local'"))
    assert (out, err, rc) == ("", "", 0)


def test_doctor():
    out, err, rc = skate("doctor", "--json")
    found = json.loads(out)
    checks = {c["name"]: c for c in found["checks"]}
    assert rc == int(found["wrong"]) == 0, err
    assert checks["kernel"]["found"].startswith(f"Linux {os.uname().release}")
    assert "first rows of a Dataset" in checks["an engine"]["found"]
    assert checks["pyarrow"]["verdict"] == "ok" and "settings" in checks
    for c in checks.values():
        assert (c["verdict"] == "ok") == (c["why"] == c["change"] == ""), c


def test_doctor_says_what_to_change(tmp_path):
    env = {"SKATE_NUM_CPU": "2", "SKATE_SPILL_DIR": "", "COLUMNS": "40"}
    out, err, rc = skate("doctor", "--quick", env=env)
    assert (err, rc) == ("", 0) and max(map(len, out.splitlines())) <= 40
    flat = " ".join(out.split())
    assert "Change: take it out; did you mean 'SKATE_NUM_CPUS'?" in flat
    out, err, rc = skate("doctor", "--json", env={"SKATE_SPILL_DIR": f"{tmp_path}/nothing"})
    wrong = [c["name"] for c in json.loads(out)["checks"] if c["verdict"] == "wrong"]
    assert rc == 1 and f"disk for objects: {tmp_path}/nothing" in wrong, out
    out, err, rc = skate("doctor", "--quick", env={"SKATE_SPIN_US": "fast"})
    assert rc == 1 and "SKATE_SPIN_US='fast': a number is wanted" in out


def test_sort(tmp_path):
    rows = [(i * 7919 % 1000, i % 3) for i in range(1000)]
    for part in range(2):
        lines = [f"{k},{g}" for k, g in rows[part::2]]
        (tmp_path / f"{part}.csv").write_text("\n".join(["k,g", *lines]) + "\n")
    args = ("sort", tmp_path / "0.csv", tmp_path / "1.csv", "--cpus", "1", "-o", tmp_path / "out")
    out, err, rc = skate(*args, "--by", "g:desc,k")
    assert rc == 0 and out.startswith(f"{tmp_path}/out: "), err
    found = []
    for path in sorted((tmp_path / "out").iterdir()):
        head, *lines = path.read_text().splitlines()
        found += [tuple(map(int, line.split(","))) for line in lines]
    assert found == sorted(rows, key=lambda r: (-r[1], r[0]))
    out, err, rc = skate(*args, "--by", "k")
    assert (out, rc) == ("", 1) and "exists already, and is no empty folder: choose another" in err


def test_wrong_sorts(here, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("k\n1\n")
    (tmp_path / "b.txt").write_text("k\n1\n")
    for args, status, said in (
        (["a.csv"], 2, "--by is wanted"),
        (["a.csv", "--by", "kk"], 1, "no such column in the dataset: columns are k"),
        (["c.csv", "--by", "k"], 1, "there is no file or folder 'c.csv'"),
        (["b.txt", "--by", "k"], 2, "say --format {csv,json,parquet}"),
        (["a.csv", "b.txt", "--by", "k"], 2, "different formats"),
        (["a.csv", "--by", "k", "--format", "parquet"], 1, "a.csv: Parquet file size is"),
        (["--records", "a.csv", "--by", "k"], 2, "no --by, no --format"),
    ):
        # what is read needs an engine
        call = here if status == 2 else functools.partial(skate, cwd=tmp_path)
        out, err, rc = call("sort", *args, "-o", "o")
        last = err.splitlines()[-1]
        assert (out, rc) == ("", status) and last.startswith("skate sort: ") and said in last, err


def test_sort_records(tmp_path):
    """Hands over to `cloudsort`, wherever it is in PATH; without it, says where it comes from."""
    out, err, rc = skate("sort", "--records", "x", "-o", "o", env={"PATH": str(tmp_path)})
    assert rc == 1 and "no program `cloudsort` in PATH" in err
    tool = tmp_path / "cloudsort"
    tool.write_text('#!/bin/sh\necho "$@"\n')
    tool.chmod(0o755)
    args = ("sort", "--records", "x", "y", "-o", "o", "--cpus", "3", "--memory", "2k")
    out, err, rc = skate(*args, env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert (out, rc) == ("-t 3 -s 2048 o x y\n", 0), err


def test_bench(tmp_path):
    pytest.importorskip("polars")
    plot = tmp_path / "p.svg"
    args = ("bench", "--rows", "2000", "--rounds", "1", "--engines", "skate,polars")
    out, err, rc = skate(*args, "--only", "join", "--json", "--plot", plot)
    found = json.loads(out)
    assert rc == 0, found
    pairs = [(r["workload"], r["engine"]) for r in found["results"]]
    assert pairs == [("join", "skate"), ("join", "polars")]
    assert all(len(r["seconds"]) == 1 and r["median"] > 0 for r in found["results"])
    assert found["rows"] == 2000 and plot.read_text().count("<svg") == 1


@pytest.mark.parametrize("engine", ["skate", "polars", "duckdb", "torch"])
def test_workloads(engine, tmp_path):
    """Each gives the right result, which the measurement itself checks; a wrong one is told."""
    pytest.importorskip(engine)
    code = f"""
import sys
from skate.cli import bench, workloads
bench.make({str(tmp_path)!r}, 2001)
engine = {"dataloader" if engine == "torch" else engine!r}
for w in bench.ENGINES[engine][1]:
    print(w, workloads.main(engine, w, {str(tmp_path)!r}, "2"), flush=True)
workloads.expected = lambda *_: (1, 1)
print("wrong", workloads.main(engine, "first_rows", {str(tmp_path)!r}, "2"))
"""
    p = subprocess.run(
        [sys.executable, "-c", code], env=ENV, capture_output=True, text=True, timeout=120
    )
    lines = [line for line in p.stdout.splitlines() if not line.startswith("{")]
    assert len(lines) > 2 and [x[-1] for x in lines] == [*"0" * (len(lines) - 1), "1"], p.stderr
    assert "wrong result: (1000, 999000), not (1, 1)" in p.stderr


def test_bench_of_what_is_not_here(here):
    out, err, rc = here("bench", "--engines", "polers")
    assert rc == 2 and "no 'polers' here; did you mean 'polars'?" in err


EXPLAINED = """
import sys
import ray
def f(b):
    print("ran", file=sys.stderr)
    return b
ds = ray.data.range(100, override_num_blocks=2).map_batches(f)
try:
    if sys.argv[1] == "iterate":
        for b in ds.iter_batches(batch_size=10): pass
    ds.write_parquet(sys.argv[1])
    print(ray.data.range(3).count())
finally:
    print("finally")
"""


def test_explain(tmp_path):
    (tmp_path / "p.py").write_text(EXPLAINED)
    for how, line, last in (("iterate", 10, "MapBatches(f)"), ("w", 11, "MapBatches(f)->WriteP")):
        out, err, rc = skate("explain", "p.py", how, cwd=tmp_path)
        assert rc == 0 and out.startswith(f"Dataset 1, line {line} of p.py\nlogical\n  "), err
        assert f"ReadRange->{last}" in out and out.endswith("\nfinally\n") and "ran" not in err
    out, err, rc = skate("explain", "--run", "p.py", "iterate", cwd=tmp_path)
    assert rc == 0 and "Dataset 2, line 11 of p.py" in out and "ran" in err
    assert out.endswith("\n3\nfinally\n")
    out, err, rc = skate("explain", "-c", "print(1)")
    assert (out, rc) == ("1\n", 0) and "the program has executed no Dataset" in err
    out, err, rc = skate("explain", "nope.py")
    assert (out, err, rc) == (
        "",
        "skate explain: can't open file 'nope.py': No such file or directory\n",
        2,
    )


def test_docs_and_completion(here):
    out, err, rc = skate("docs", "--json")
    assert rc == 0 and ROOT / "docs" in map(Path, json.loads(out).values())
    for shell in ("bash", "zsh", "fish"):
        out, err, rc = here("completion", shell)
        assert rc == 0 and "doctor" in out
    out, err, rc = here("completion", "csh")
    assert (out, rc) == ("", 2) and "choose from" in err and "bash" in err


def test_replay_of_nothing(tmp_path):
    out, err, rc = skate("replay", "nothing", env={"TMPDIR": str(tmp_path)})
    assert (out, rc) == ("", 1) and err.startswith("skate replay: ") and err.count("\n") == 1, err
