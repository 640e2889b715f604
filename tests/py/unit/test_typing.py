"""What Pyright and mypy say of a program that uses skate: exactly the lines that
tests/typing/expect_*.py mark."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
EXPECT = sorted((ROOT / "tests/typing").glob("expect_*.py"))
STUBS = ROOT / "tests/typing/stubs"


def expected(path: Path, checker: str) -> set[tuple[str, int]]:
    """The lines that the checker has to refuse: `# error`, or `# error: <checker>`."""
    marks = re.compile(r"# error(?:: (\w+))?$")
    found = set()
    for number, line in enumerate(path.read_text().splitlines(), 1):
        mark = marks.search(line)
        if mark and mark[1] in (None, checker):
            found.add((path.name, number))
    return found


def compare(refused: dict[tuple[str, int], str], checker: str) -> None:
    wanted = {line for path in EXPECT for line in expected(path, checker)}
    assert len(wanted) > 20
    missed = sorted(wanted - refused.keys())
    assert not missed, f"{checker} lets these lines pass: {missed}"
    more = {line: text for line, text in refused.items() if line not in wanted}
    assert not more, f"{checker} refuses lines that are right: {more}"


def run(args: list[str], cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *args], cwd=cwd, capture_output=True, text=True, timeout=300
    )
    assert done.returncode in (0, 1), done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
def test_pyright_says_what_is_expected(tmp_path):
    pytest.importorskip("basedpyright")
    (tmp_path / "pyrightconfig.json").write_text(
        json.dumps(
            {
                "include": [str(path) for path in EXPECT],
                "extraPaths": [str(ROOT / "python")],
                "stubPath": str(STUBS),
                "typeCheckingMode": "standard",
                "pythonVersion": "3.11",
                "reportMissingModuleSource": False,
                "defineConstant": {"SKATE_TYPED_HANDLES": True},
            }
        )
    )
    said = json.loads(run(["basedpyright", "--outputjson"], tmp_path))
    refused = {}
    for one in said["generalDiagnostics"]:
        if one["severity"] == "error":
            refused[Path(one["file"]).name, one["range"]["start"]["line"] + 1] = one["message"]
    compare(refused, "pyright")


@pytest.mark.slow
def test_mypy_says_what_is_expected(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\n"
        "plugins = skate.util.mypy_plugin\n"
        f"mypy_path = {ROOT / 'python'}:{STUBS}\n"
        "python_version = 3.11\n"
        "follow_imports = silent\n"
        "ignore_missing_imports = true\n"
        f"cache_dir = {ROOT / 'build/.mypy_cache'}\n"
    )
    said = run(["mypy", "--config-file", "mypy.ini", *map(str, EXPECT)], tmp_path)
    refused = {}
    for line in said.splitlines():
        found = re.match(r"(.*?):(\d+): error: (.*)", line)
        if found:
            refused[Path(found[1]).name, int(found[2])] = found[3]
    compare(refused, "mypy")


PAGE = """# A page

```python
def half(x: float) -> float:
    return x / 2
```

- A block of a list, left out when the page is run:

  <!-- skip: next "it needs a GPU" -->

  ```python
  half("x")
  ```

```py
half("of another library")
```

```python
>>> whole = half(3)
>>> def unknown(x): return x
```
"""


@pytest.mark.slow
def test_the_snippets_of_a_page_are_one_module_on_the_lines_of_the_page(tmp_path):
    pytest.importorskip("basedpyright")
    pytest.importorskip("sybil")
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/typing/snippets.py"), str(page)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    found = re.findall(r"^page\.md:(\d+): .*", done.stdout, re.M)
    assert done.returncode == 1, done.stderr
    assert set(found) == {"13", "22"}, done.stdout
    page.write_text(PAGE.replace('half("x")', "half(1)").replace("(x): return", "(x: int): return"))
    subprocess.run(
        [sys.executable, str(ROOT / "tests/typing/snippets.py"), str(page)], check=True, timeout=300
    )
