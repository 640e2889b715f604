"""Makes what the parsers of python/skate/cli say, for those who read: docs/reference/cli.md,
docs/man/skate.1, and the completions of the shells.

    .venv/bin/python docs/_make/command_line.py

tests/py/unit/test_cli_pages.py compares what lies here with what this would make."""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from skate.cli import completion, parsers  # noqa: E402

PICTURES = ("top",)  # commands with a picture in docs/images
INTRO = """# Command line

`skate COMMAND`, or `python -m skate COMMAND`. The commands that look at engines find those of your
user, without a port and without a daemon, and need nothing of the program that they look at
(`ARCHITECTURE.md` says how).

"""

AFTER = """
Wherever a person reads a table, `--json` prints the same for programs. A command that has failed
says why in one sentence on standard error.

| exit status | |
|---|---|
| 0 | done |
| 1 | it has failed: there is no such engine, `doctor` has found something wrong, ... |
| 2 | it was used wrongly: an unknown command or option, a value that is none |
| of the program | `run`, `explain` |

Colours follow `NO_COLOR` and `TERM`; characters that the terminal's encoding does not have are
printed as `?`. What is piped is not cut to the width of a terminal.
"""


def actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """What a parser takes, but --help: arguments first."""
    found = [a for a in parser._actions if "--help" not in a.option_strings]
    return sorted(found, key=lambda a: bool(a.option_strings))


def usage(parser: argparse.ArgumentParser) -> str:
    formatter = argparse.HelpFormatter(parser.prog, width=1000)
    formatter.add_usage(parser.usage, parser._actions, parser._mutually_exclusive_groups, "")
    return " ".join(formatter.format_help().split()).replace("[-h] ", "")


def value(action: argparse.Action) -> str:
    """The name of an option's value; "" if it takes none."""
    if action.nargs == 0:
        return ""
    if action.choices and not action.metavar:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return str(action.metavar or action.dest)


def about(action: argparse.Action) -> str:
    return (action.help or "").replace("%%", "%")


def written(action: argparse.Action) -> str:
    """An argument as it is written."""
    flags = ", ".join(action.option_strings)
    return " ".join(filter(None, [flags, value(action)])).replace("|", r"\|")


# ---- docs/reference/cli.md


def page() -> str:
    rows = "".join(f"| [`{n}`](#{n}) | {what} |\n" for n, what in parsers.COMMANDS.items())
    text = INTRO + "| command | |\n|---|---|\n" + rows + "| `--version` | the version of skate |\n"
    return text + AFTER + "".join(section(name) for name in parsers.COMMANDS)


def section(name: str) -> str:
    parser, module = parsers.parser_of(name), parsers.command(name)
    lines = ["", f"## {name}", "", f"    {usage(parser)}", "", str(parser.description), ""]
    if name in PICTURES:
        lines += [f"![`skate {name}` in a terminal](../images/{name}.svg)", ""]
    listed = [f"| `{written(a)}` | {about(a)} |" for a in actions(parser)]
    if listed:
        lines += ["| argument | |", "|---|---|", *listed, ""]
    lines += ["```console", *(f"$ {x}" for x in module.EXAMPLES.strip().splitlines()), "```", ""]
    return "\n".join(lines)


# ---- docs/man/skate.1


def manual() -> str:
    names = "".join(f".It Cm {name}\n{sentence(what)}\n" for name, what in parsers.COMMANDS.items())
    return (
        HEAD + names + ".It Fl Fl version\nShow the version.\n.El\n"
        + "".join(subsection(name) for name in parsers.COMMANDS) + FOOT
    )  # fmt: skip


HEAD = r""".\" Made by docs/_make/command_line.py from the parsers of python/skate/cli.
.Dd November 28, 2026
.Dt SKATE 1
.Os
.Sh NAME
.Nm skate
.Nd run programs on skate, and look at those that run
.Sh SYNOPSIS
.Nm
.Ar COMMAND
.Op Ar ARGUMENTS
.Nm
.Ar COMMAND
.Fl Fl help
.Sh DESCRIPTION
.Nm
is the command of the Python package skate, an engine for tasks, actors and streaming data pipelines
on one machine.
The commands that look at engines find those of the user who runs them; there is no daemon and no
port.
.Bl -tag -width completion
"""

FOOT = """.Sh ENVIRONMENT
.Bl -tag -width NO_COLOR
.It Ev SKATE_*
The settings of an engine, such as
.Ev SKATE_NUM_CPUS .
.It Ev NO_COLOR
If it is set, nothing is coloured.
.El
.Sh EXIT STATUS
0; 1 if a command has failed; 2 if it was used wrongly.
.Cm run
and
.Cm explain
have the exit status of the program.
.Sh SEE ALSO
.Xr cloudsort 1 ,
.Xr skate 3
"""


def sentence(text: str) -> str:
    return escape(text[:1].upper() + text[1:] + ("" if text.endswith(".") else "."))


def escape(text: str) -> str:
    """A text for mdoc: each sentence on a line of its own, and nothing that is taken for a
    macro."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    lines = re.sub(r"(?<=[a-z)`][.:]) (?=[A-Z])", "\n", text).splitlines()
    return "\n".join(r"\&" + x if x.startswith((".", "'")) else x for x in lines)


def subsection(name: str) -> str:
    parser, module = parsers.parser_of(name), parsers.command(name)
    text = f".Ss {usage(parser)}\n".replace("-", r"\-") + escape(str(parser.description)) + "\n"
    listed = actions(parser)
    if listed:
        text += ".Bl -tag -width Ds\n"
    for a in listed:
        flags = " , ".join(
            "Fl " + (f"Fl {o[2:]}" if o.startswith("--") else o[1:]) for o in a.option_strings
        )
        named = value(a).replace("-", r"\-")
        text += f".It {flags}{' ' if flags and named else ''}{'Ar ' + named if named else ''}\n"
        text += sentence(about(a)) + "\n"
    text += ".El\n" if listed else ""
    lines = module.EXAMPLES.strip().replace("\\", r"\e").replace("-", r"\-")
    return text + f".Bd -literal -offset indent\n{lines}\n.Ed\n"


# ---- completions


def completions() -> dict[str, str]:
    import shtab

    whole = argparse.ArgumentParser(prog="skate", description="skate")
    whole.add_argument("--version", action="store_true", help="show the version")
    commands = whole.add_subparsers(dest="command")
    for name, what in parsers.COMMANDS.items():
        made = commands.add_parser(name, help=what)
        for a in parsers.parser_of(name)._actions:
            if "--help" not in a.option_strings:
                made._add_action(a)
                if a.metavar in FILES:
                    a.complete = shtab.DIRECTORY if a.metavar == "FOLDER" else shtab.FILE
    return {shell: shtab.complete(whole, shell) for shell in completion.SHELLS}


FILES = ("SCRIPT", "FILE", "INPUT", "FOLDER", "PID|FILE")


def made() -> dict[Path, str]:
    """All that is made: {path: text}."""
    out = {ROOT / "docs/reference/cli.md": page(), ROOT / "docs/man/skate.1": manual()}
    for shell, text in completions().items():
        out[Path(completion.FOLDER) / f"skate.{shell}"] = text
    return out


if __name__ == "__main__":
    for path, text in made().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        print(path.relative_to(ROOT))
