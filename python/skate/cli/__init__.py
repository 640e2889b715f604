"""The command `skate` (also `python -m skate`): one module for each of its commands."""

import os
import sys
from collections.abc import Callable

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
            call: list[Callable[[], int | None]] = []
            status = _quiet(lambda: call.append(parsers.parse(argv)))
            return call[0]() or 0 if call else status
        return _quiet(lambda: parsers.parse(argv)())
    except Refused as e:
        print(f"skate {name}: {e}", file=sys.stderr)
        return e.status


def _quiet(what: Callable[[], int | None]) -> int:
    """Does what only reads and prints. Nobody who reads its output any more (`| head`), and Ctrl-C,
    end it without a traceback; what the encoding of the terminal does not have is printed as
    "?"."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)  # none where the caller has closed it
    errors = getattr(sys.stdout, "errors", None)
    try:
        if reconfigure is not None:
            reconfigure(errors="replace")
        try:
            return what() or 0
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes sys.stdout once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        if reconfigure is not None:
            reconfigure(errors=errors)
