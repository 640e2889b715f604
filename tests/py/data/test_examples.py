"""The examples run, and print the expected text."""

import os
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def run(*args, timeout=240):
    env = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")}
    return subprocess.run(
        [sys.executable, *args], cwd=ROOT, env=env, capture_output=True, text=True, timeout=timeout
    )


def test_quickstart():
    r = run("examples/quickstart.py")
    assert r.returncode == 0, r.stderr
    assert "rows: 666666 sum: 222221555555888889" in r.stdout and "Bottleneck:" in r.stdout
    # a loaded machine may get this warning
    assert [t for t in r.stderr.splitlines() if not t.startswith("Nothing has moved for")] == []


def test_own_shuffle():
    r = run("examples/own_shuffle.py")
    assert r.returncode == 0, r.stderr
    assert r.stdout == (
        "Rounds merged up to 5 packs a task\n"
        "sorted as by another strategy: True\n"
        "1,000 keys, sum 4,999,950,000\n"
    )


def test_classify_files(tmp_path):
    pytest.importorskip("magika")
    src = tmp_path / "src"
    src.mkdir()
    for i in range(12):
        (src / f"{i}.py").write_text(
            f"import os\n\ndef function_{i}(argument):\n    return os.path.join(argument, 'file{i}')\n"
            * 10
        )
    (src / "page.html").write_text(
        "<!DOCTYPE html><html><head><title>t</title></head><body><p>text</p></body></html>\n" * 20
    )
    (src / "empty").write_text("")
    outs = []
    for k in range(2):
        r = run("examples/classify_files.py", str(src), "--out", str(tmp_path / f"out{k}"))
        assert r.returncode == 0, r.stderr
        outs.append(
            {
                n.partition("_")[2]: (tmp_path / f"out{k}" / n).read_bytes()
                for n in os.listdir(tmp_path / f"out{k}")
            }
        )
    assert outs[0] == outs[1] and outs[0]
    assert (
        "14 files, 0 unreadable" in r.stdout
        and "12  python" in r.stdout
        and "1  html" in r.stdout
        and "1  empty" in r.stdout
    )
    assert "Bottleneck: " in r.stdout.splitlines()[-1]


def test_classify_files_missing_folder():
    r = run("examples/classify_files.py", "/no/such/folder")
    assert (
        r.returncode == 2
        and r.stderr.strip() == "classify_files: /no/such/folder: no such folder"
        and r.stdout == ""
    )


EXAMPLES = """
import doctest, importlib, inspect, sys
import skate, skate.data, skate.data.preprocessors

skate.init(num_cpus=2)
modules = {m.__module__ for package in (skate, skate.data, skate.data.preprocessors) for n in package.__all__ for c in [getattr(package, n)]
           for m in (*getattr(c, "__mro__", ()), c) if getattr(m, "__module__", "").startswith("skate.")}
modules |= {"skate.data", "skate.data.preprocessors", "skate.data.collate_fn", "skate.data.expressions", "skate.data.grouped_data"}
failed = ran = 0
for name in sorted(modules - {"skate._skate"}):
    r = doctest.testmod(importlib.import_module(name))
    failed, ran = failed + r.failed, ran + r.attempted
runner = doctest.DocTestRunner()
for f in (skate.get, skate.put):  # C has no module to be searched
    runner.run(doctest.DocTestParser().get_doctest(inspect.getdoc(f), {}, f.__name__, None, 0))
print("ran", ran + runner.tries, "failed", failed + runner.failures)
sys.exit(failed + runner.failures > 0 or ran < 200)
"""


def test_docstrings():
    """The example in every docstring runs and gives the documented result."""
    r = run("-c", EXAMPLES)
    assert r.returncode == 0, r.stdout + r.stderr
