"""`skate stack`: what each process of an engine does now."""

import argparse
from typing import Any

from skate._private import stack
from skate.cli import out

EXAMPLES = """
skate stack              # all programs of this user
skate stack 4711         # the one that process 4711 belongs to
skate stack --json
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Shows what each process of an engine does: the task of each worker, what the driver waits "
        "for, and the Python stacks of all threads. The program goes on meanwhile."
    )
    out.add_pid(parser)
    parser.add_argument(
        "--timeout",
        type=out.number,
        default=stack.SECONDS,
        metavar="S",
        help=f"seconds to wait for answers (default: {stack.SECONDS:g})",
    )
    out.add_json(parser)


def run(args: argparse.Namespace) -> None:
    try:
        found, others = stack.look(args.pid, args.timeout)
    except LookupError as e:
        raise out.Refused(str(e)) from None
    if args.json:
        return out.as_json({"engines": found, "others": others})
    for other in others:
        print(
            f"process {other['pid']} of user {other['user']} runs skate, too: skate stack {other['pid']}\n"
        )
    for engine in found:
        waits = f" waits for {engine['waits']}" if engine["waits"] else ""
        _print(f"driver {engine['pid']} ({engine['program']}){waits}", engine)
        for w in engine["workers"]:
            _print(
                f"worker {w['pid']}: "
                + (f"task {w['task']}, for {w['seconds']:.1f} s" if w["task"] else "idle"),
                w,
            )


def _print(title: str, process: dict[str, Any]) -> None:
    print(title, *("    " + line for line in process["stack"].splitlines()), "", sep="\n")
