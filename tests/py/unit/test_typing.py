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
