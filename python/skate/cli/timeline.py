"""`skate timeline`: a trace of a run, for ui.perfetto.dev."""

import argparse
import os
import sys
from typing import Any

from skate._private import timeline
from skate.cli import out

EXAMPLES = """
skate timeline 4711 -o trace.json
skate timeline run.skate              # of a run that is over: skate run --trace run.skate ...
skate timeline 4711 -o - | gzip > trace.json.gz
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Writes a trace of a program that runs, or of the record of a run that is over, as JSON that "
        "ui.perfetto.dev and chrome://tracing open: which tasks ran where and when, the flow of "
        "blocks between them, and the memory."
    )
    out.add_target(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        help="the file to write; -: standard output (default: timeline-PID.json, or FILE.json)",
    )


def run(args: argparse.Namespace) -> None:
    where = args.where or out.only()
    name = f"timeline-{where}.json" if isinstance(where, int) else f"{where}.json"
    path = args.output or os.path.basename(name)
    to: Any = sys.stdout if path == "-" else path
    if to is None:
        raise out.Refused("standard output is closed")
    try:
        n = timeline.write(where, to)
    except (LookupError, PermissionError, ValueError) as e:
        raise out.Refused(str(e)) from None
    except BrokenPipeError:
        raise
    except OSError as e:
        raise out.Refused(f"{path}: {e.strerror}") from None
    if path != "-":
        print(f"{path}: {n:,} runs of tasks; https://ui.perfetto.dev opens it")
