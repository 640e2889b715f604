"""Every example in the documentation runs."""

import glob
import os
import re
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def blocks():
    for path in [
        "README.md",
        "CONTRIBUTING.md",
        "ARCHITECTURE.md",
        *sorted(glob.glob("docs/**/*.md", root_dir=ROOT, recursive=True)),
    ]:
        with open(os.path.join(ROOT, path)) as f:
            text = f.read()
        for i, code in enumerate(re.findall(r"^```python\n(.*?)^```", text, re.S | re.M)):
            yield pytest.param(code, id=f"{path}-{i}")


@pytest.mark.slow
@pytest.mark.parametrize("code", list(blocks()))
def test_example(code, tmp_path):
    p = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=240
    )
    assert p.returncode == 0, p.stderr
    out = p.stdout.splitlines()
    # the comment behind a print() says what is printed
    for line in re.findall(r"^print\(.*\)\s+# (.+)$", code, re.M):
        if re.match(r"[\[\d{'\"]", line):
            assert line.strip() in out, f"printed {out}, the document says {line}"


def test_what_a_package_index_shows():
    import hashlib
    import tomllib

    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as f:
        p = tomllib.load(f)["project"]
    assert (
        p["license"] == "Apache-2.0"
        and p["license-files"] == ["LICENSE"]
        and p["authors"]
        and p["keywords"]
    )
    assert "Typing :: Typed" in p["classifiers"] and os.path.exists(
        os.path.join(ROOT, "python", "skate", "py.typed")
    )
    with open(os.path.join(ROOT, "LICENSE"), "rb") as f:  # the text as the foundation publishes it
        assert (
            hashlib.sha256(f.read()).hexdigest()
            == "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
        )
