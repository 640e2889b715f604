"""Type-checks the Python snippets of the site as strictly as the examples (`./dev lint`), by
tests/typing/strict.json.

The snippets of a page become one module, each on the lines that it has in the page: as in
tests/py/docs they are one program. A snippet that is not run because it needs a GPU or the like is
checked, too; one of another library (a block of `py`) is neither run nor checked.
Arguments: pages; none: those that tests/py/docs runs."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from sybil import Sybil
from sybil.parsers.myst import PythonCodeBlockParser

ROOT = Path(__file__).resolve().parents[2]
SYBIL = Sybil([PythonCodeBlockParser()], path=str(ROOT))
CONFIGURATION = {
    "extends": str(ROOT / "tests" / "typing" / "strict.json"),
    "include": ["."],
    "reportUnusedExpression": False,  # a line that shows a value, as in a notebook
    "reportDuplicateImport": False,  # a reader copies one snippet, which has its own imports
    "reportMissingTypeStubs": False,  # pandas has its types in a package of their own
}
SWITCH = "SKATE_TYPED_HANDLES"  # a page that names it is checked as it says: with the switch


def pages():
    """The pages that have snippets."""
    paths = [ROOT / n for n in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md")]
    paths += sorted((ROOT / "docs").rglob("*.md"))
    return [path for path in paths if module(path).strip()]


def module(page):
    """The snippets of a page as one module, with blank lines for the text between them."""
    lines = [""] * (page.read_text().count("\n") + 2)
    for example in SYBIL.parse(page).examples():
        code = example.parsed
        if hasattr(code, "line_offset"):
            at, source = example.line + code.line_offset, code
        else:  # a statement of a doctest
            at, source = example.line - 1, code.source
        for i, line in enumerate(source.rstrip("\n").split("\n")):
            lines[at + i] = line
    return "\n".join(lines) + "\n"


def findings(checked, **more):
    """What the checker says of these pages; more: of its configuration."""
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder).resolve()
        (where / "pyrightconfig.json").write_text(json.dumps(CONFIGURATION | more))
        page_of = {str(where / f"page{i}.py"): page for i, page in enumerate(checked)}
        for path, page in page_of.items():
            Path(path).write_text(module(page))
        checker = [ROOT / ".venv" / "bin" / "basedpyright", "--outputjson", "-p", where]
        report = json.loads(subprocess.run(checker, stdout=subprocess.PIPE).stdout)
    if (analyzed := report["summary"]["filesAnalyzed"]) != len(page_of):
        sys.exit(f"snippets: the checker has read {analyzed} of {len(page_of)} pages")
    for found in report["generalDiagnostics"]:
        at = os.path.relpath(page_of[found["file"]]), found["range"]["start"]["line"] + 1
        rule = found.get("rule", found["severity"])
        yield f"{at[0]}:{at[1]}: {found['message']} ({rule})"


def main(wanted):
    checked = [Path(p).resolve() for p in wanted] or pages()
    switched = [p for p in checked if SWITCH in p.read_text()]
    others = [p for p in checked if p not in switched]
    found = [*(findings(others) if others else ())]
    found += findings(switched, defineConstant={SWITCH: True}) if switched else ()
    print(*found, f"snippets: {len(found)} findings in {len(checked)} pages", sep="\n")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
