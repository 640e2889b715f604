"""The command `skate` (also `python -m skate`)."""

import argparse
import sys

from skate._private import processes, run, stack
from skate.data.worker import rerun


def _stack(args):
    print(stack.report(args.pid, args.timeout))


def _memory(args):
    print(processes.report(args.pid))


def _replay(args):
    rerun.run(args.id, args.step)


def main(argv=None):
    """Runs one command; returns the exit status."""
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["run"]:  # arguments after the script's name are for the script
        return run.main(argv[1:])
    parser = argparse.ArgumentParser(
        prog="skate",
        description="Looks at programs of this user that run skate. No port and no daemon: see ARCHITECTURE.md.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    c = commands.add_parser(
        "stack",
        help="what each process does: its task, what the driver waits for, Python stacks of all threads",
    )
    c.add_argument(
        "pid", type=int, nargs="?", help="one engine: a process of it (default: all of this user)"
    )
    c.add_argument(
        "--timeout",
        type=float,
        default=5.0,
        metavar="S",
        help="wait so long for answers (default 5)",
    )
    c.set_defaults(run=_stack)
    c = commands.add_parser("memory", help="memory of each process, and of the object store")
    c.add_argument(
        "pid", type=int, nargs="?", help="one engine: a process of it (default: all of this user)"
    )
    c.set_defaults(run=_memory)
    c = commands.add_parser(
        "replay", help="run the batch that made a function of a Dataset fail again, under pdb"
    )
    c.add_argument("id", help="as the error names it")
    c.add_argument("--step", action="store_true", help="stop at the function's first line")
    c.set_defaults(run=_replay)
    commands.add_parser(
        "run",
        help="run a program written for Ray, on skate: SCRIPT, -m MODULE or -c CODE, then its arguments",
    )
    args = parser.parse_args(argv)
    try:
        args.run(args)
    except (LookupError, PermissionError) as e:
        print(f"skate {args.command}: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
