"""What is made from the parsers of the command line: docs/reference/cli.md, docs/man/skate.1 and
the completions of shells."""

import subprocess
from pathlib import Path

import pytest
from scripts import script
from skate.cli import completion, parsers

ROOT = Path(__file__).resolve().parents[3]
pages = script("docs/_make/command_line.py", "pages")


def test_they_are_what_the_parsers_say():
    pytest.importorskip("shtab")
    for path, text in pages.made().items():
        assert path.read_text() == text, f"{path} is old: run docs/_make/command_line.py"


@pytest.mark.parametrize("path", ["docs/reference/cli.md", "docs/man/skate.1"])
def test_each_option_of_each_command_is_there(path):
    text = (ROOT / path).read_text().replace("\\-", "-").replace("Fl Fl ", "--")
    heads = [
        text.index(f"{'## ' if path.endswith('md') else '.Ss skate '}{n}") for n in parsers.COMMANDS
    ]
    assert heads == sorted(heads)
    for name, begin, end in zip(parsers.COMMANDS, heads, [*heads[1:], len(text)], strict=True):
        for action in pages.actions(parsers.parser_of(name)):
            for word in action.option_strings or [action.metavar]:
                assert word.lstrip("-") in text[begin:end], (name, word)
            assert action.help, (name, action.dest)


def test_each_module_of_a_command_is_one():
    """No file of the folder is a command that nobody can call."""
    helpers = {"__init__", "child", "out", "parsers", "screen", "workloads"}
    found = {p.stem for p in (ROOT / "python/skate/cli").glob("*.py")} - helpers
    assert found == set(parsers.COMMANDS)
    for name in parsers.COMMANDS:
        assert parsers.command(name).EXAMPLES.strip().startswith(f"skate {name}")


def test_bash_completes():
    script = f"""
source {completion.FOLDER}/skate.bash
COMP_WORDS=(skate st); COMP_CWORD=1; _shtab_skate; echo "${{COMPREPLY[@]}}"
COMP_WORDS=(skate stack --); COMP_CWORD=2; _shtab_skate; echo "${{COMPREPLY[@]}}"
"""
    p = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)
    commands, options = p.stdout.splitlines()
    assert "stack" in commands.split() and {"--timeout", "--json"} <= set(options.split()), p.stderr
