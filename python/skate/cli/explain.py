"""`skate explain`: the plans of a program's Datasets, instead of their runs, or before them."""

import argparse
import os
import sys
import threading
from typing import Any

import skate
from skate.cli import out
from skate.cli import run as program
from skate.cli.parsers import Parser
from skate.data.plan.lower import explain, strategy
from skate.data.run import execute

EXAMPLES = """
skate explain report.py              # up to the first Dataset that would be executed
skate explain --run report.py        # executes each, and shows its plan before
"""


def arguments(parser: Parser) -> None:
    parser.description = (
        "Runs a program, as `skate run` does, until it executes a Dataset for the first time (by "
        "iterating, writing, counting, asking for a schema ...): prints the plan of that Dataset, as "
        "Dataset.explain() does, and ends, with exit status 0, before any of it runs. Everything "
        "before that does run: other code of the program, its tasks and actors, and what a reader "
        "does to make a plan (list files, read footers); a write makes its folder. What follows cannot be shown, since it may "
        "depend on the rows: --run executes the Datasets, and shows each plan before."
    )
    parser.add_argument(
        "--run", action="store_true", help="execute the Datasets; print each plan before"
    )
    program.add_cpus_and_memory(parser)
    program.add_program(parser)


def run(args: argparse.Namespace) -> int:
    os.environ.update(program.settings(args))
    shown: list[Any] = []

    def before(request: Any) -> None:
        shown.append(request)
        print(_text(request, len(shown)), flush=True)
        if not args.run:
            _end()

    execute.before_run = before
    status = program.program(args)
    if not shown:
        print("skate explain: the program has executed no Dataset", file=sys.stderr)
    return status


def _text(request: Any, number: int) -> str:
    """The plan of a run, under a line that says where the program asks for it."""
    folder = os.path.dirname(os.path.abspath(skate.__file__)) + os.sep
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(folder):
        frame = frame.f_back
    at = f", line {frame.f_lineno} of {frame.f_code.co_filename}" if frame is not None else ""
    plan = explain(request.node, request.context.on_error, strategy(request.context))
    return f"Dataset {number}{at}\n{plan}\n"


def _end() -> None:
    """Ends the program: by SystemExit, so that what it has to close is closed; where a Dataset runs
    on a thread, at once."""
    if threading.current_thread() is threading.main_thread():
        raise SystemExit(0)
    out.flush()
    os._exit(0)
