"""docs/contributing/expected_features.md names tests; they exist."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "contributing" / "expected_features.md"


def test_the_tests_that_the_page_names_exist():
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE.read_text())
    assert len(named) > 40
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not (ROOT / path).exists() or (name and f"def {name}(" not in (ROOT / path).read_text())
    ]
    assert not missing


def test_every_row_of_the_page_names_a_test():
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| **")]
    assert len(rows) == 22
    assert not [row for row in rows if "`tests/" not in row.split(" | ")[2]]
