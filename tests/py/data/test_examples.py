"""The examples run, and say what they should."""

import os
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def run(*args, timeout=240):
    env = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")}
    return subprocess.run([sys.executable, *args], cwd=ROOT, env=env, capture_output=True, text=True, timeout=timeout)


def test_quickstart():
    r = run("examples/quickstart.py")
    assert r.returncode == 0, r.stderr
    assert "rows: 666666 sum: 222221555555888889" in r.stdout and "Bottleneck:" in r.stdout
    assert [t for t in r.stderr.splitlines() if not t.startswith("Nothing has moved for")] == []  # what a loaded machine is told


def test_classify_files(tmp_path):
    pytest.importorskip("magika")
    src = tmp_path / "src"
    src.mkdir()
    for i in range(12):
        (src / f"{i}.py").write_text(f"import os\n\ndef function_{i}(argument):\n    return os.path.join(argument, 'file{i}')\n" * 10)
    (src / "page.html").write_text("<!DOCTYPE html><html><head><title>t</title></head><body><p>text</p></body></html>\n" * 20)
    (src / "empty").write_text("")
    outs = []
    for k in range(2):
        r = run("examples/classify_files.py", str(src), "--out", str(tmp_path / f"out{k}"))
        assert r.returncode == 0, r.stderr
        outs.append({n: (tmp_path / f"out{k}" / n).read_bytes() for n in os.listdir(tmp_path / f"out{k}")})
    assert outs[0] == outs[1] and outs[0]
    assert "14 files, 0 unreadable" in r.stdout and "12  python" in r.stdout and "1  html" in r.stdout and "1  empty" in r.stdout
    assert "Bottleneck: " in r.stdout.splitlines()[-1]


def test_classify_files_missing_folder():
    r = run("examples/classify_files.py", "/no/such/folder")
    assert r.returncode == 2 and r.stderr.strip() == "classify_files: /no/such/folder: no such folder" and r.stdout == ""


def test_docstrings():
    """The example of every docstring runs and gives what it says."""
    code = (
        "import doctest, importlib, sys\n"
        "import skate, skate.data\n"
        "skate.init(num_cpus=2)\n"
        "names = ['skate.data', 'skate.data.context', 'skate.data.dataset', 'skate.data.iterator', 'skate.data.read.memory', 'skate.data.read.range', 'skate.data.read.binary',\n"
        "         'skate.data.read.csv', 'skate.data.read.json', 'skate.data.read.text', 'skate.data.read.parquet']\n"
        "failed = ran = 0\n"
        "for n in names:\n"
        "    r = doctest.testmod(importlib.import_module(n)); failed += r.failed; ran += r.attempted\n"
        "print('ran', ran, 'failed', failed); sys.exit(failed > 0 or ran < 40)\n"
    )
    r = run("-c", code)
    assert r.returncode == 0, r.stdout + r.stderr
