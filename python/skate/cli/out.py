"""What the commands share: how they refuse, the types of their arguments, and how they print."""

import argparse
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from skate._deps import json, re, rich_console, rich_table
from skate._private import stack, view


class Refused(Exception):
    """The error for what a command cannot do; its text is one sentence for the user.

    Args:
        text: The sentence.
        status: The exit status: 1, or 2 for a wrong use.
    """

    def __init__(self, text: str, status: int = 1):
        super().__init__(text)
        self.status = status


def pid(text: str) -> int:
    """The type of an argument that is a process id."""
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 31):
        raise argparse.ArgumentTypeError(f"a process id is wanted, not {text!r}")
    return int(text)


def size(text: str) -> int:
    """The type of an argument that is a number of bytes: 1073741824, 512m, 1.5g, 4GiB."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(?:([kmgt])(?:i?b)?)?", text.strip().lower())
    if found is None:
        raise argparse.ArgumentTypeError(f"a size such as 512m or 1.5g is wanted, not {text!r}")
    return int(float(found[1]) * 1024 ** " kmgt".index(found[2] or " "))


def number(text: str) -> float:
    """The type of an argument that is a number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"a number above 0 is wanted, not {text!r}")
    return value


def add_pid(parser: argparse.ArgumentParser, what: str = "all of this user") -> None:
    """Declares the argument PID of the commands that look at engines."""
    parser.add_argument(
        "pid",
        metavar="PID",
        type=pid,
        nargs="?",
        help=f"one engine, by any process of it (default: {what})",
    )


def add_target(parser: argparse.ArgumentParser) -> None:
    """Declares the argument PID|FILE of the commands that show runs that are over, too."""
    parser.add_argument(
        "where",
        metavar="PID|FILE",
        type=lambda text: pid(text) if text.isdigit() else text,
        nargs="?",
        help="a program that runs, by any process of it, or the record that SKATE_TRACE=FILE or "
        "`skate run --trace FILE` has written (default: the only program of this user)",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Declares --json."""
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def engines(pid: int | None) -> list[Any]:
    """The engines of this user, or the one of a process, as stack.engines() gives them. Refused:
    there is none."""
    found = stack.engines(pid)
    if not found:
        raise Refused(stack.none(pid))
    return found


def only() -> int:
    """The driver of the only engine of this user. Refused: there is none, or there are several."""
    try:
        return int(stack.only())
    except LookupError as e:
        raise Refused(str(e)) from None


def snapshot(where: int | str) -> dict[str, Any]:
    """The state of an engine, by a process of it, or of a record file. Refused: there is none, or
    not for this user."""
    try:
        return view.snapshot(where)
    except (LookupError, PermissionError, ValueError) as e:
        raise Refused(str(e)) from None


def flush() -> None:
    """Writes out what has been printed."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


def as_json(value: Any) -> None:
    """Prints a value as JSON."""
    print(json.dumps(value, indent=1))


def console(**how: Any) -> Any:
    """A rich.console.Console over standard output. What no terminal shows is not cut to the width
    of one."""
    if sys.stdout is None or not sys.stdout.isatty():
        how.setdefault("width", int(os.environ.get("COLUMNS") or 160))
    return rich_console.Console(highlight=False, **how)


def width() -> int:
    """Columns of the terminal."""
    return shutil.get_terminal_size().columns


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    styles: Iterable[str | None] = (),
    header: bool = True,
) -> Any:
    """A rich.table.Table of texts. A column whose name begins with "<" is aligned to the left, the
    others to the right; what does not fit into the terminal goes on in the next line.

    Args:
        columns: The names.
        rows: The cells of each row, as texts.
        styles: The style of each row, in rich's words.
        header: Whether the names of the columns are shown.
    """
    made = rich_table.Table(box=None, pad_edge=False, show_header=header)
    for name in columns:
        left = name.startswith("<")
        made.add_column(
            name.removeprefix("<"), justify="left" if left else "right", overflow="fold"
        )
    styled = list(styles)
    for i, cells in enumerate(rows):
        made.add_row(*map(plain, cells), style=styled[i] if i < len(styled) else None)
    return made


def printable(text: str) -> str:
    """A text without what a terminal would obey."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


def plain(text: str) -> str:
    """A printable text in which rich reads no markup."""
    return printable(text).replace("[", r"\[")
