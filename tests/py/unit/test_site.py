"""The reference of the site has every public name, setting, variable and error. (tests/reference.py
collects both sides; `./dev docs` checks the built site.)"""

import re
import shlex
from pathlib import Path

import pytest
import skate.data.exceptions
import skate.exceptions
from scripts import script
from skate import config
from skate.cli import parsers

ROOT = Path(__file__).resolve().parents[3]
site = script("tests/reference.py")


def page(name):
    return (site.REFERENCE / name).read_text()


def test_every_public_name_is_in_the_reference():
    names, written = site.public(), site.written()
    assert len(names) > 800 and "skate.data.Dataset.map_batches" in names.values()
    missing = sorted(n for k, n in names.items() if k not in written)
    assert missing == [], "no page of docs/reference has these"


def test_public_modules_list_all_that_is_public():
    assert sorted(site.forgotten()) == [], "in neither __all__ nor INSIDE of tests/reference.py"


def test_every_name_of_c_is_in_the_reference():
    names = set(site.c_names())
    assert len(names) > 300 and "skate_call_opts.max_retries" in names
    assert names - site.c_written() == set()


def test_every_variable_of_the_environment_is_explained():
    known = {variable for _, variable, _ in config.KNOBS.values()}  # the table of settings has them
    assert "skate-table} knobs" in page("settings.md")
    unexplained = site.environment() - known - set(re.findall(r"\w+", page("environment.md")))
    assert unexplained == set()


def test_every_exception_is_explained_with_what_to_do():
    text = page("errors.md")
    never = text.index("### Names of Ray that skate never raises")
    for name in {*skate.exceptions.__all__, *skate.data.exceptions.__all__}:
        at = re.search(rf"^\.\. auto\w+:: skate\..*\.{name}$", text, re.M)
        assert at, f"docs/reference/errors.md has no {name}"
        if at.start() < never:
            behind = text[at.end() :].split(".. auto", 1)[0]
            assert "*What to do:*" in behind, name


def test_messages_in_the_table_of_errors_are_those_of_the_sources():
    rows = re.findall(r"^\| `([^`]+)` \|(.+)\|(.+)\|$", page("errors.md"), re.M)
    assert len(rows) > 20
    sources = [*(ROOT / "python/skate").rglob("*.py"), *(ROOT / "src").rglob("*.c")]
    text = "\n".join(p.read_text() for p in sources)
    text = re.sub(r'"\s*\n\s*f?"', "", text)  # one text in several literals
    for message, *_ in rows:
        for part in message.split("…"):
            assert part.strip() in text, f"no source prints {part.strip()!r}"


FIGURES = r"^\| [^|]+ \| ([^|]*\d[^|]*) \| ([^|]*\d[^|]*) \|"


@pytest.mark.parametrize("name", ["README.md", "docs/index.md", "docs/performance/index.md"])
def test_figures_are_those_of_the_benches(name):
    figures = (ROOT / "bench" / "README.md").read_text()
    rows = re.findall(FIGURES, (ROOT / name).read_text(), re.M)
    assert len(rows) > 4
    for number in re.findall(r"\d[\d.,]*\d", " ".join(a + " " + b for a, b in rows)):
        assert re.search(rf"(?<![\d.]){re.escape(number)}(?!\d)", figures), number


def test_the_readme_leads_to_files_that_exist():
    links = re.findall(r"\]\(([^)#:]+)", (ROOT / "README.md").read_text())
    assert len(links) > 20
    assert [n for n in links if not (ROOT / n).exists()] == []


def test_commands_in_the_pages_are_commands():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    calls, names = [], []
    for page in (p for p in pages if "design" not in p.parts):
        text = page.read_text()
        calls += re.findall(r"^\$ (?:python -m )?skate (.+)$", text, re.M)
        if page.name != "cli.md":  # made from the parsers
            names += re.findall(r"`skate ([a-z]+)\b", text)
    assert len(calls) > 30 and len(names) > 20
    assert set(names) <= set(parsers.COMMANDS)
    for call in calls:
        words = shlex.split(re.split(r" (?:[|>]|2>) ", call)[0], comments=True)
        try:
            parsers.parse(words)
        except SystemExit:
            pytest.fail(f"no call of skate: skate {call}")


HEADER = """/* x.h - what it is. */
#ifndef SKATE_X_H
#define SKATE_X_H
/* ---- things ---- */

/* A thing with
 * two lines. */
struct skate_thing { /* it is small */
    double cpus, *gpus; /* how many */
    size_t size;
};
enum skate_kind { SKATE_ONE, SKATE_TWO = 2 /* the second */ };
/* Makes one. */
SKATE_API int skate_make(const char *name,
                         struct skate_thing *out);
SKATE_API void skate_drop(struct skate_thing *t);

SKATE_API int skate_other(void); /* another one; NULL is fine */
#endif
"""
COPY = """/**
x.h - what it is.
 */
/**/
/**
Things
------
 */
/**/

/**
A thing with
two lines.

It is small.
 */
struct skate_thing {
/**
How many.
 */
double cpus;
/**
How many.
 */
double *gpus;
/**

 */
size_t size;
};
/**

 */
enum skate_kind {
/**

 */
SKATE_ONE,
/**
The second.
 */
SKATE_TWO = 2 ,
};
/**
Makes one.
 */
SKATE_API int skate_make(const char *name, struct skate_thing *out);
/**
See skate_make.
 */
SKATE_API void skate_drop(struct skate_thing *t);

/**
Another one; NULL is fine.
 */
SKATE_API int skate_other(void);"""


def test_a_header_gets_a_comment_in_front_of_each_declaration():
    headers = site.headers()
    lines = [line.rstrip() for line in headers.copy(HEADER).splitlines()]
    assert [x for x in lines if x] == [x for x in COPY.splitlines() if x.strip()]
    text = ["Ask skate_make() or skate_drop:", "- `size` of SKATE_E*", "Then:", "    code(x_);"]
    headers.to_rest(text)
    assert text == [
        "Ask :c:func:`skate_make` or :c:func:`skate_drop`:",
        "",
        "- `size` of SKATE\\_E\\*",
        "",
        "Then:",
        "",
        ".. code-block:: c",
        "",
        "    code(x_);",
        "",
    ]
