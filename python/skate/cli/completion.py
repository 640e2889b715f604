"""`skate completion`: scripts that complete commands and options in a shell. They are made by shtab
from the parsers (docs/_make/command_line.py) and lie in the package, so nobody who installs skate
needs shtab."""

import argparse
import os

from skate.cli import out

SHELLS = ("bash", "zsh", "fish")
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "completions")

EXAMPLES = """
skate completion bash > ~/.local/share/bash-completion/completions/skate
skate completion zsh > ~/.zfunc/_skate               # with fpath+=~/.zfunc before compinit
skate completion fish > ~/.config/fish/completions/skate.fish
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Prints a script with which a shell completes the commands of skate and their options."
    )
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))


def run(args: argparse.Namespace) -> None:
    path = os.path.join(FOLDER, f"skate.{args.shell}")
    try:
        with open(path, encoding="utf-8") as f:
            print(f.read(), end="")
    except OSError as e:
        raise out.Refused(f"{path}: {e.strerror}") from None
