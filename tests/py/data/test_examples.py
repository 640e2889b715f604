"""The examples run, and print the expected text."""

import os
import re
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "args, says",
    [
        (["clean_jsonl.py", "--rows", "3000"], r"\d+ reviews kept, \d+ records set aside"),
        (["near_duplicates.py", "--texts", "400"], r"100.0% of them planted"),
        (
            ["sessions.py", "--clicks", "20000", "--check", "--plot", "sessions.png"],
            r"20,000 clicks of [\d,]+ users are",
        ),
        (["large_sort.py", "--mb", "64", "--store", "16"], r"(?s)671,088 rows.*on disk when"),
        (["image_search.py", "--count", "200"], r"(?s)stripes.jpg: [5-8] of 8.*00003-cross"),
        (["parameter_server.py", "--gradients", "60"], r"(?s)synchronous .*asynchronous .* ->"),
        (["crawler.py", "--pages", "100"], r"100 pages, [1-9]\d? of them at the second try"),
        (["hyperparameters.py", "--trials", "5"], r"(?s)5 trials, \d+ epochs instead of 80.*best"),
        (["model_pipeline.py", "--requests", "100"], r"(?s)plain calls .*8 in progress"),
    ],
    ids=lambda a: a[0].partition(".")[0] if isinstance(a, list) else "",
)
def test_of_the_gallery(args, says, tmp_path):
    # docs/images/gallery.py tries the plots of all
    args = [str(tmp_path / a) if a.endswith(".png") else a for a in args]
    r = run(os.path.join("examples", args[0]), *args[1:])
    assert r.returncode == 0, r.stderr
    assert re.search(says, r.stdout), r.stdout
    assert all(os.path.getsize(a) > 5000 for a in args if a.endswith(".png"))


@pytest.mark.slow
def test_a_network_goes_on_where_it_was_stopped(tmp_path):
    pytest.importorskip("torch")
    ends = []
    for folder, *stop in (["whole"], ["two", "--stop-after", "5"], ["two"]):
        r = run(
            "examples/train_cnn.py", "--images", "200", "--epochs", "2",
            "--folder", str(tmp_path / folder), *stop,
        )  # fmt: skip
        assert r.returncode == 0, r.stderr
        ends.append(r.stdout.split("steps")[1])
    assert ends[2] == ends[0] != ends[1]
