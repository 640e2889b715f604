"""`skate replay`: runs the batch that made a function of a Dataset fail again, under pdb."""

import argparse

from skate.cli import out
from skate.data.worker import rerun

EXAMPLES = """
skate replay 4f1c20aa          # the id stands in the error's text
skate replay --step 4f1c20aa
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Runs a function of a Dataset again on the batch that made it fail, with pdb at the line "
        "that raises. Run it in the environment and the folder of the program."
    )
    parser.add_argument("id", metavar="ID", help="as the error names it")
    parser.add_argument("--step", action="store_true", help="stop at the function's first line")


def run(args: argparse.Namespace) -> None:
    try:
        rerun.run(args.id, args.step)
    except (LookupError, PermissionError) as e:
        raise out.Refused(str(e)) from None
