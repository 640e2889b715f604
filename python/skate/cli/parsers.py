"""The commands of `skate` and their arguments.

A command is a module of this folder, which is found by its name: arguments(parser) declares what it
takes, run(args) does it. Only the module of the command that is run is imported, so `skate stack`
does not wait for what `skate bench` needs."""

import argparse
import functools
from collections.abc import Callable
from typing import Any, NoReturn

import skate
from skate import _did_you_mean
from skate._deps import importlib

# name: what it does, in the order in which they are shown
COMMANDS = {
    "run": "run a program written for Ray, on skate",
    "node": "this machine as a node of a program that runs on several",
    "top": "a program that runs, live: operators, workers, store, time left",
    "stack": "what each process does: its task, what the driver waits for, its Python stacks",
    "memory": "memory of each process, and of the object store",
    "store": "what lies in the object store, and what is on disk",
    "timeline": "a trace of a run, for ui.perfetto.dev",
    "page": "a page for the browser of a run, while it goes on or after it",
    "explain": "the plans of a program's Datasets, instead of their runs",
    "replay": "run the batch that made a function of a Dataset fail again, under pdb",
    "doctor": "whether this machine suits skate, and what to change",
    "sort": "sort Parquet, CSV or JSON files, also more than fit into memory",
    "bench": "time shuffle, groupby, sort, join and first rows, beside what is installed",
    "docs": "where the documentation is",
    "completion": "a script that completes commands and options in bash, zsh or fish",
}


class _Help(argparse.HelpFormatter):
    """Keeps the lines of a text that has several: examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, with the nearest name for an unknown one.

    With takes_program, the options end where a program begins, and the attribute `program` of the
    result has the rest: argparse takes a "--" out of the arguments of a program."""

    def __init__(self, **how: Any):
        super().__init__(allow_abbrev=False, formatter_class=_Help, **how)
        self.takes_program = False

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} ({self.prog} --help)\n")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        given, program = list(args), []
        if self.takes_program:
            given, program = self._split(given)
        found, strange = self.parse_known_args(given, namespace)
        if strange:
            self.error(self._unknown(strange[0]))
        found.program = program
        return found

    def _split(self, argv: list[str]) -> tuple[list[str], list[str]]:
        """(the options; the program and its arguments)"""
        at = 0
        while at < len(argv) and argv[at].startswith("-") and argv[at][:2] not in ("-m", "-c"):
            option = self._option_string_actions.get(argv[at])
            at += 1 if option is None or option.nargs == 0 else 2
        return argv[:at], argv[at:]

    def _unknown(self, word: str) -> str:
        if not word.startswith("-"):
            return f"one argument too many: {word!r}"
        word = word.partition("=")[0]
        return f"no such option: {word}{_did_you_mean.guess(word, self._option_string_actions)}"


def command(name: str) -> Any:
    """The module of a command."""
    return importlib.import_module(f"skate.cli.{name}")


def parser_of(name: str) -> Parser:
    """The parser of one command."""
    module = command(name)
    made = Parser(prog=f"skate {name}")
    module.arguments(made)
    examples = "".join(f"  {line}\n" for line in module.EXAMPLES.strip().splitlines())
    made.epilog = f"examples:\n{examples}"
    return made


def overview() -> Parser:
    """The parser of `skate` without a command: its own options, and a list of the commands."""
    lines = "\n".join(f"  {name:12}{about}" for name, about in COMMANDS.items())
    made = Parser(
        prog="skate",
        usage="skate COMMAND [ARGUMENTS]\n       skate COMMAND --help",
        description="Runs programs on skate, and looks at those of this user that run. There is no daemon and no port.",
        epilog=f"commands:\n{lines}",
    )
    made.add_argument("--version", action="version", version=f"skate {skate.__version__}")
    return made


def parse(argv: list[str]) -> Callable[[], int | None]:
    """The call that does what the arguments say. SystemExit for a wrong use (2), or after --help
    and --version (0)."""
    whole, name = overview(), argv[0] if argv else ""
    if not argv:
        whole.exit(2, whole.format_help())
    if name not in COMMANDS:
        whole.parse_args([name] if name.startswith("-") else [])
        hint = _did_you_mean.meant(name, COMMANDS)
        if name.endswith(".py"):
            hint = f"; did you mean `skate run {name}`?"
        whole.error(f"no command {name!r}{hint}")
    args = parser_of(name).parse_args(argv[1:])
    return functools.partial(command(name).run, args)
