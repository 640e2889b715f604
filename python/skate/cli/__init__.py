"""The command `skate` (also `python -m skate`): one module for each of its commands."""

import os
import sys

from skate.cli import parsers
from skate.cli.out import Refused

# What runs a program of the user: its errors, and its Ctrl-C, are passed on as Python shows them.
_PROGRAMS = ("run", "explain", "replay")


def main(argv: list[str] | None = None) -> int:
    """Runs one command.

    Args:
        argv: The arguments after the command's own name; None: those of this process.

    Returns:
        The exit status: 0, or 1 if the command has failed. A wrong use raises SystemExit(2).
    """
    argv = sys.argv[1:] if argv is None else argv
    name = argv[0] if argv else ""
    try:
        if name in _PROGRAMS:
            return parsers.parse(argv)() or 0
        return _quiet(argv)
    except Refused as e:
        print(f"skate {name}: {e}", file=sys.stderr)
        return e.status


def _quiet(argv: list[str]) -> int:
    """Runs a command that only reads. Nobody who reads its output any more (`| head`), and Ctrl-C,
    end it without a traceback."""
    if hasattr(sys.stdout, "reconfigure"):  # None where the caller has closed it
        # What the encoding of the terminal does not have is printed as "?".
        sys.stdout.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue]
    try:
        try:
            return parsers.parse(argv)() or 0
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes sys.stdout once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except KeyboardInterrupt:
        return 130
