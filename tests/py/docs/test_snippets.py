"""Every Python snippet of the README, the site and the design notes runs, and prints what the
document says.

A document is one program: its snippets run one after the other in one namespace, in an empty
folder, with default settings. A document that opens an engine has one of its own; the others go on
with the one that is there, which a third of the CPU time went for. docs/design/site.md says how a
snippet is written."""

import contextlib
import doctest
import gc
import io
import os
import re
import sys
import unittest
from pathlib import Path

import pytest
import skate
from sybil import Sybil
from sybil.evaluators.python import pad
from sybil.parsers.myst import PythonCodeBlockParser, SkipParser

ROOT = Path(__file__).resolve().parents[3]
# what a document has that opens an engine with options, or looks at its process from outside
OWN_ENGINE = re.compile(r"init\(|as_ray|shutdown\(|subprocess")
# a block of text directly behind a snippet
OUTPUT = re.compile(r"[ \t]*\n\s*```text\n(.*?)^[ \t]*```", re.S | re.M)
SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
SHOWN = re.compile(r"^ *print\(.*\)\s+# (?=[\[\d{'\"(]|True|False|None)(.+)$", re.M)


def evaluate(example):
    """Runs a snippet. The comment behind a print() that begins as a value does says what is printed,
    and so does a block of text directly behind the snippet."""
    __tracebackhide__ = True
    source = pad(example.parsed, example.line + example.parsed.line_offset)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, example.path, "exec", dont_inherit=True), example.namespace)
    lines = printed.getvalue().splitlines()
    for wanted in SHOWN.findall(example.parsed):
        if wanted.strip() not in lines:
            raise AssertionError(f"printed {lines}, the document says {wanted}")
    shown = OUTPUT.match(example.document.text, example.region.end)
    if shown and not doctest.OutputChecker().check_output(shown[1], printed.getvalue(), SAME):
        raise AssertionError(f"printed\n{printed.getvalue()}\nthe document says\n{shown[1]}")


class Snippets(PythonCodeBlockParser):
    """The snippets of a document, those in the form of doctest among them."""

    def __init__(self):
        super().__init__()
        self.codeblock_parser = self.codeblock_parser_class("python", evaluate)


SYBIL = Sybil([Snippets(), SkipParser()], path=str(ROOT))


def documents():
    """(path, document) of each document that has snippets."""
    paths = [ROOT / n for n in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md")]
    for path in [*paths, *sorted((ROOT / "docs").rglob("*.md"))]:
        document = SYBIL.parse(path)
        if any(document.examples()):
            yield pytest.param(document, id=str(path.relative_to(ROOT)))


@pytest.fixture(scope="module")
def engine():
    """The engine that a document leaves is that of the next one."""
    yield
    skate.shutdown()


@pytest.fixture
def program(tmp_path, monkeypatch):
    """What a program of its own would have: an empty folder and default settings."""
    from skate.data import DataContext

    monkeypatch.chdir(tmp_path)
    modules, path, environment = set(sys.modules), list(sys.path), dict(os.environ)
    before = DataContext.get_current()
    DataContext._set_current(DataContext())
    yield
    DataContext._set_current(before)
    for name in [m for m in sys.modules if m not in modules and m.partition(".")[0] == "ray"]:
        del sys.modules[name]  # of as_ray()
    sys.path[:] = path
    os.environ.clear()
    os.environ.update(environment)
    gc.collect()


@pytest.mark.parametrize("document", list(documents()))
def test_document(document, program, engine):
    code = [e.parsed for e in document.examples() if isinstance(e.parsed, str)]  # not those skipped
    if any(map(OWN_ENGINE.search, code)):
        skate.shutdown()
    document.namespace["__name__"] = "__main__"  # functions of a program are sent by value
    try:
        for example in document.examples():
            with contextlib.suppress(unittest.SkipTest):  # of "skip: next", with its reason
                example.evaluate()
    finally:
        document.namespace.clear()  # its values and actors are not those of the next one
